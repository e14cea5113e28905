"""Hashes in the crash run: commands on `c<id>:h<n>` and what they must leave.

A hash in the model is a tuple of (field, value, absolute expiry in ms or -1), sorted by field.
"""

from __future__ import annotations

import random

from support.resp import Connection

FIELDS = [b"f%d" % i for i in range(12)]
KEYS = 4
FAR_FUTURE_MS = 4_000_000_000_000

Fields = dict[bytes, tuple[bytes, int]]


def keys(id: int) -> list[bytes]:
    return [b"c%d:h%d" % (id, i) for i in range(KEYS)]


def frozen(fields: Fields) -> tuple:
    """As it stands in the state."""
    return tuple((name, *fields[name]) for name in sorted(fields))


def read(connection: Connection, key: bytes) -> tuple | None:
    """The hash as it is stored; None when there is none."""
    reply = connection.call("HGETALL", key)
    pairs = dict(zip(reply[::2], reply[1::2]))
    if not pairs:
        return None
    names = sorted(pairs)
    times = connection.call("HPEXPIRETIME", key, "FIELDS", len(names), *names)
    return tuple((name, pairs[name], at) for name, at in zip(names, times))


class HashCommands:
    """One random command on a hash, and the fields it leaves."""

    def __init__(self, generator: random.Random):
        self.random = generator

    def next(self, key: bytes, fields: Fields) -> tuple[tuple, Fields]:
        kinds = [self.set, self.set, self.set, self.delete, self.increment, self.expire, self.setex, self.many, self.persist]
        return self.random.choices(kinds, [8, 8, 8, 6, 4, 4, 4, 1, 2])[0](key, dict(fields))

    def value(self) -> bytes:
        return self.random.randbytes(self.random.choice([1, 8, 20, 63, 65, 300]))

    def some(self) -> list[bytes]:
        return self.random.sample(FIELDS, self.random.randrange(1, 4))

    def at(self) -> int:
        return FAR_FUTURE_MS + self.random.randrange(1_000_000)

    def set(self, key, fields):
        pairs = [(name, self.value()) for name in self.some()]
        fields.update({name: (value, -1) for name, value in pairs})
        return (b"HSET", key, *(word for pair in pairs for word in pair)), fields

    def many(self, key, fields):
        """Past what stays packed."""
        value = self.value()
        names = [b"m%d" % i for i in range(600)]
        fields.update({name: (value, -1) for name in names})
        return (b"HSET", key, *(word for name in names for word in (name, value))), fields

    def delete(self, key, fields):
        names = self.random.sample(sorted(fields), min(len(fields), self.random.randrange(1, 400))) if fields else [FIELDS[0]]
        for name in names:
            fields.pop(name, None)
        return (b"HDEL", key, *names), fields

    def increment(self, key, fields):
        old, at = fields.get(b"n", (b"0", -1))
        by = self.random.randrange(1, 9)
        fields[b"n"] = (b"%d" % (int(old) + by), at)
        return (b"HINCRBY", key, b"n", by), fields

    def expire(self, key, fields):
        names, at = self.some(), self.at()
        fields.update({name: (fields[name][0], at) for name in names if name in fields})
        return (b"HPEXPIREAT", key, at, b"FIELDS", len(names), *names), fields

    def persist(self, key, fields):
        names = self.some()
        fields.update({name: (fields[name][0], -1) for name in names if name in fields})
        return (b"HPERSIST", key, b"FIELDS", len(names), *names), fields

    def setex(self, key, fields):
        name, value, at = self.random.choice(FIELDS), self.value(), self.at()
        fields[name] = (value, at)
        return (b"HSETEX", key, b"PXAT", at, b"FIELDS", 1, name, value), fields
