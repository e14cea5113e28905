"""Random commands of the geo family: places all over the earth and at its edges, searches of every size."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from differential.commands import Command, Generator

KEYS = [b"geo0", b"geo1", b"geo2"]
MEMBERS = [b"p%d" % i for i in range(30)] + [b"1", b"-7", b""]
LONGITUDES = [b"0", b"180", b"-180", b"179.99999999", b"-179.9999", b"181", b"inf", b"nan", b"x", b"", b"0x10", b"1e-7", b"90", b"-0", b"1e400"]
LATITUDES = [b"0", b"85.05112878", b"-85.05112878", b"85.06", b"-90", b"66.5", b"-80.5", b"x", b" 1", b"1e-7", b"-1e-6", b"45", b"-0"]
UNITS = [b"m", b"km", b"ft", b"mi", b"KM", b"Mi"]
SIZES = [b"0", b"0.0001", b"1", b"100", b"5000", b"1e7", b"-1", b"nan", b"inf", b"x", b"", b"0x10", b"-0"]


class GeoCommands:
    def __init__(self, generator: Generator):
        self.g = generator
        self.random = generator.random

    def key(self) -> bytes:
        return self.random.choice(KEYS) if self.random.random() < 0.96 else self.g.key()

    def member(self) -> bytes:
        return self.random.choice(MEMBERS)

    def point(self) -> list[bytes]:
        r = self.random
        kind = r.random()
        if kind < 0.45:  # near each other, around one of a few places
            longitude, latitude = r.choice([(13.4, 52.5), (-179.99, 3.0), (179.99, -70.0), (0.0, 0.0), (-75.0, 82.0)])
            scale = 10 ** r.uniform(-4, 0.5)
            longitude = max(-180.0, min(180.0, longitude + r.uniform(-1, 1) * scale))
            return [repr(longitude).encode(), repr(latitude + r.uniform(-1, 1) * scale).encode()]
        if kind < 0.93:
            return [repr(r.uniform(-180, 180)).encode(), repr(r.uniform(-85.05, 85.05)).encode()]
        return [r.choice(LONGITUDES), r.choice(LATITUDES)]

    def size(self) -> bytes:
        r = self.random
        return repr(10 ** r.uniform(-1, 7.4)).encode() if r.random() < 0.9 else r.choice(SIZES)

    def unit(self) -> bytes:
        return self.random.choice(UNITS) if self.random.random() < 0.97 else self.random.choice([b"cm", b"", b"kmm"])

    def add(self) -> Command:
        r = self.random
        command = [b"GEOADD", self.key()]
        while r.random() < 0.25:
            command.append(self.g.case(r.choice([b"NX", b"XX", b"CH"])))
        for _ in range(r.choice([1, 1, 2, 5])):
            command += [*self.point(), self.member()]
        return command

    def many(self) -> Command:
        r = self.random
        return [b"GEOADD", self.key(), *[word for i in range(r.choice([40, 130, 300])) for word in (*self.point(), b"q%d" % r.randint(0, 400))]]

    def one(self) -> Command:
        r = self.random
        name = r.choice([b"GEOPOS", b"GEOPOS", b"GEOHASH", b"GEODIST", b"GEODIST"])
        if name != b"GEODIST":
            return [name, self.key(), *[self.member() for _ in range(r.randint(0, 4))]]
        command = [name, self.key(), self.member(), self.member()]
        if r.random() < 0.5:
            command.append(self.unit())
        return command + [b"m"] * (r.random() < 0.02)

    def options(self, stores: list[bytes]) -> list[list[bytes]]:
        """Of every form of the search; `stores`: words that name a key to store under, or say how.

        Which of several at the same distance a COUNT leaves out is undefined; the comparison sees the distance then.
        """
        r = self.random
        options = [[word] for word in (b"WITHDIST", b"WITHHASH", b"WITHCOORD") if r.random() < (0.05 if stores else 0.3)]
        if r.random() < 0.6:
            options.append([r.choice([b"ASC", b"DESC"])])
        if r.random() < 0.4:
            options.append([b"COUNT", b"%d" % r.randint(1, 12) if r.random() < 0.9 else self.g.integer()])
            if stores or r.random() < 0.4:
                options.append([b"ANY"])
            elif [b"WITHDIST"] not in options:
                options.append([b"WITHDIST"])
        if r.random() < 0.04:
            options.append([r.choice([b"ANY", b"BAD", b"COUNT", b"STORE", b"STOREDIST", b"FROMMEMBER", b"BYBOX", b"m"])])
        return options

    def search(self) -> Command:
        r = self.random
        stores = r.random() < 0.25
        command = [b"GEOSEARCHSTORE", r.choice(KEYS[1:])] if stores else [b"GEOSEARCH"]
        options = self.options([b"STOREDIST"] if stores else [])
        if r.random() < 0.97:
            options.append([b"FROMMEMBER", self.member()] if r.random() < 0.4 else [b"FROMLONLAT", *self.point()])
        if r.random() < 0.97:
            options.append([b"BYRADIUS", self.size(), self.unit()] if r.random() < 0.5 else [b"BYBOX", self.size(), self.size(), self.unit()])
        if r.random() < 0.03:
            options.append(r.choice([[b"BYRADIUS", b"5", b"km"], [b"FROMLONLAT", b"1", b"2"], [b"FROMMEMBER", self.member()]]))
        if stores and r.random() < 0.4:
            options.append([b"STOREDIST"])
        r.shuffle(options)
        return command + [self.key()] + [self.cased(word) for option in options for word in option]

    def cased(self, word: bytes) -> bytes:
        return self.g.case(word) if word.isalpha() and word.isupper() and word != b"WITHDIST" else word

    def radius(self) -> Command:
        r = self.random
        read_only = [b"_RO"] if r.random() < 0.4 else []
        stores = [b"STORE", b"STOREDIST"] if not read_only and r.random() < 0.4 else []
        if r.random() < 0.5:
            command = [b"".join([b"GEORADIUS", *read_only]), self.key(), *self.point(), self.size(), self.unit()]
        else:
            command = [b"".join([b"GEORADIUSBYMEMBER", *read_only]), self.key(), self.member(), self.size(), self.unit()]
        options = self.options(stores)
        while stores and r.random() < 0.6:
            options.append([r.choice(stores), r.choice(KEYS[1:])])
        r.shuffle(options)
        return command + [word for option in options for word in option]

    def scores(self) -> Command:
        """Scores that are no places."""
        r = self.random
        score = r.choice([b"%d" % r.randint(0, 2**52), b"-1", b"0.5", b"1e300", b"-inf", b"inf", b"9e18", b"1.5e19", b"-5.5", b"4503599627370496"])
        return [b"ZADD", self.key(), score, self.member()]

    def drop(self) -> Command:
        return [b"DEL", self.key()] if self.random.random() < 0.5 else [b"ZREM", self.key(), self.member()]

    def makers(self) -> list[tuple]:
        return [(self.add, 12), (self.many, 0.7), (self.one, 6), (self.search, 14), (self.radius, 8), (self.scores, 1), (self.drop, 0.7)]
