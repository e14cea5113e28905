"""Random commands of the hash family."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from differential.commands import Command, Generator

KEYS = [b"h%d" % i for i in range(6)]
FIELDS = [b"f%d" % i for i in range(10)] + [b"1", b"-7", b"", b"field:" + b"y" * 60, b"z" * 70]
NUMBERS = [b"1", b"0", b"-1", b"2", b"3", b"10", b"x", b"", b"9999999999999999999", b"-9223372036854775808", b"9223372036854775807"]


class HashCommands:
    def __init__(self, generator: Generator):
        self.g = generator
        self.random = generator.random

    def key(self) -> bytes:
        return self.random.choice(KEYS) if self.random.random() < 0.95 else self.g.key()

    def field(self) -> bytes:
        return self.random.choice(FIELDS)

    def value(self) -> bytes:
        r = self.random
        if r.random() < 0.9:
            return r.choice([self.g.integer(), b"v" * r.randint(0, 20), b"w" * r.choice([63, 64, 65])])
        return r.randbytes(r.choice([0, 1, 100, 500, 3000, 9000]))

    def fields(self, most: int = 4) -> list[bytes]:
        return [self.field() for _ in range(self.random.randint(1, most))]

    def counted(self, words: list[bytes]) -> list[bytes]:
        """FIELDS n ..., now and then wrong."""
        r = self.random
        kind = r.random()
        count = b"%d" % len(words) if kind < 0.93 else r.choice(NUMBERS)
        word = self.g.case(b"FIELDS") if kind < 0.98 else r.choice([b"FIELD", b"", b"NX"])
        return [word, count, *words]

    def hset(self) -> Command:
        r = self.random
        command = [r.choice([b"HSET", b"HSET", b"HSET", b"HMSET"]), self.key()]
        for field in self.fields():
            command += [field, self.value()]
        return command

    def many(self) -> Command:
        """Over the limit of a listpack, in one command or in two."""
        r = self.random
        command, key = [b"HSET", self.key()], r.randint(0, 300)
        for i in range(key, key + r.choice([100, 300, 513, 600])):
            command += [b"m%d" % i, b"%d" % r.randint(0, 9)]
        return command

    def hsetnx(self) -> Command:
        return [b"HSETNX", self.key(), self.field(), self.value()]

    def one_field(self) -> Command:
        return [self.random.choice([b"HGET", b"HGET", b"HEXISTS", b"HSTRLEN"]), self.key(), self.field()]

    def whole(self) -> Command:
        return [self.random.choice([b"HLEN", b"HGETALL", b"HKEYS", b"HVALS"]), self.key()]

    def more_fields(self) -> Command:
        return [self.random.choice([b"HMGET", b"HDEL", b"HDEL"]), self.key(), *self.fields()]

    def increment(self) -> Command:
        r = self.random
        if r.random() < 0.6:
            return [b"HINCRBY", self.key(), self.field(), self.g.integer()]
        return [b"HINCRBYFLOAT", self.key(), self.field(), r.choice([*self.g.FLOATS, self.g.integer()])]

    def random_fields(self) -> Command:
        r = self.random
        command = [b"HRANDFIELD", self.key()]
        if r.random() < 0.8:
            count = r.choice([b"0", b"1", b"3", b"20", b"1000", b"-1", b"-5", b"-30", b"x", b"", b"-9223372036854775808", b"9223372036854775807"])
            command.append(count)
            if r.random() < 0.5:
                command.append(self.g.case(r.choice([b"WITHVALUES", b"WITHVALUES", b"BAD"])))
        return command

    def scan(self) -> Command:
        r = self.random
        cursor = b"0" if r.random() < 0.9 else r.choice([b"x", b" 0", b"-1", b"", b"99999999999999999999999"])
        command = [b"HSCAN", self.key(), cursor, b"COUNT", b"1000000"]
        while r.random() < 0.5:
            option = r.choice([b"MATCH", b"MATCH", b"NOVALUES", b"NOVALUES", b"BAD", b"COUNT", b"TYPE"])
            command.append(self.g.case(option))
            if option == b"MATCH":
                command.append(r.choice([b"f*", b"m1*", b"*", b"f[1-3]", b"1", b"", b"nosuch"]))
            elif option == b"COUNT" and r.random() < 0.8:
                command.append(r.choice([b"0", b"-1", b"x", b"1000000"]))
        return command

    def expire(self) -> Command:
        r = self.random
        name = r.choice([b"HEXPIRE", b"HPEXPIRE", b"HEXPIREAT", b"HPEXPIREAT"])
        at = self.g.unix_time(name == b"HPEXPIREAT") if name.endswith(b"AT") else self.g.expiry()
        condition = [self.g.case(r.choice([b"NX", b"XX", b"GT", b"LT", b"ZZ"]))] if r.random() < 0.4 else []
        return [name, self.key(), at, *condition, *self.counted(self.fields())]

    def times(self) -> Command:
        names = [b"HTTL", b"HPTTL", b"HEXPIRETIME", b"HPEXPIRETIME", b"HPERSIST", b"HGETDEL"]
        return [self.random.choice(names), self.key(), *self.counted(self.fields())]

    def getex(self) -> Command:
        r = self.random
        option = r.choice([[], [b"PERSIST"], self.g.expire_option(), self.g.expire_option(), [b"BAD"], [b"EX"]])
        return [b"HGETEX", self.key(), *option, *self.counted(self.fields())]

    def setex(self) -> Command:
        r = self.random
        command = [b"HSETEX", self.key()]
        while r.random() < 0.5:
            command += r.choice([[b"FNX"], [b"FXX"], [b"KEEPTTL"], self.g.expire_option(), self.g.expire_option(), [b"BAD"]])
        fields = self.fields()
        pairs = [word for field in fields for word in (field, self.value())]
        count = b"%d" % len(fields) if r.random() < 0.95 else r.choice(NUMBERS)
        return [*command, self.g.case(b"FIELDS"), count, *pairs]

    def drop(self) -> Command:
        return [b"DEL", self.key()]

    def makers(self) -> list[tuple]:
        return [
            (self.hset, 14), (self.many, 0.3), (self.hsetnx, 3), (self.one_field, 8), (self.whole, 5), (self.more_fields, 6),
            (self.increment, 6), (self.random_fields, 3), (self.scan, 3), (self.expire, 8), (self.times, 8), (self.getex, 5), (self.setex, 6),
            (self.drop, 2),
        ]  # fmt: skip
