"""Random commands of the set family."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from differential.commands import Command, Generator

KEYS = [b"set:%d" % i for i in range(6)]
MEMBERS = [b"m%d" % i for i in range(12)] + [b"", b"y" * 63, b"y" * 64, b"y" * 65, b"01", b"-0", b" 1", b"1e3"]
NUMBERS = [b"%d" % n for n in (0, 1, 2, 5, -1, -7, 127, 128, 32767, 32768, -32769, 2**31 - 1, 2**31, 2**63 - 1, -(2**63))]
COUNTS = [b"0", b"1", b"2", b"5", b"1000", b"-1", b"-5", b"x", b"", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808"]


class SetCommands:
    def __init__(self, generator: Generator):
        self.g = generator
        self.random = generator.random

    def key(self) -> bytes:
        return self.random.choice(KEYS) if self.random.random() < 0.96 else self.g.key()

    def member(self) -> bytes:
        r = self.random
        kind = r.random()
        if kind < 0.45:
            return r.choice(NUMBERS) if r.random() < 0.4 else b"%d" % r.randint(-30, 30)
        return r.choice(MEMBERS) if kind < 0.97 else r.randbytes(r.choice([1, 20, 100, 3000]))

    def members(self, most: int = 4) -> list[bytes]:
        r = self.random
        if r.random() < 0.4:  # integers alone, so that there are intsets
            return [b"%d" % r.randint(-30, 30) for _ in range(r.randint(1, most))]
        return [self.member() for _ in range(r.randint(1, most))]

    def sadd(self) -> Command:
        return [b"SADD", self.key(), *self.members()]

    def many(self) -> Command:
        """Around the limits of the encodings; sometimes the same member many times."""
        r = self.random
        first, count = r.randint(0, 300), r.choice([60, 127, 128, 129, 300, 512, 513])
        kind = r.random()
        if kind < 0.2:
            return [b"SADD", self.key(), *[b"7"] * count]
        prefix = b"" if kind < 0.7 else b"n"
        return [b"SADD", self.key(), *[prefix + b"%d" % i for i in range(first, first + count)]]

    def srem(self) -> Command:
        return [b"SREM", self.key(), *self.members(6)]

    def ask(self) -> Command:
        r = self.random
        if r.random() < 0.6:
            return [b"SISMEMBER", self.key(), self.member()]
        return [b"SMISMEMBER", self.key(), *self.members()]

    def whole(self) -> Command:
        return [self.random.choice([b"SCARD", b"SMEMBERS", b"SMEMBERS"]), self.key()]

    def smove(self) -> Command:
        return [b"SMOVE", self.key(), self.key(), self.member()]

    def algebra(self) -> Command:
        r = self.random
        name = r.choice([b"SINTER", b"SUNION", b"SDIFF"])
        keys = [self.key() for _ in range(r.choice([1, 2, 2, 3, 4]))]
        return [name, *keys] if r.random() < 0.5 else [name + b"STORE", self.key(), *keys]

    def sintercard(self) -> Command:
        r = self.random
        keys = [self.key() for _ in range(r.randint(1, 3))]
        count = b"%d" % len(keys) if r.random() < 0.9 else r.choice([b"0", b"-1", b"x", b"99", b""])
        command = [b"SINTERCARD", count, *keys]
        while r.random() < 0.4:
            command += [self.g.case(b"LIMIT"), r.choice([b"0", b"1", b"2", b"100", b"-1", b"x"])] if r.random() < 0.9 else [b"BAD"]
        return command

    def scan(self) -> Command:
        r = self.random
        cursor = b"0" if r.random() < 0.9 else r.choice([b"x", b" 0", b"-1", b"", b"99999999999999999999999"])
        command = [b"SSCAN", self.key(), cursor, b"COUNT", b"1000000"]
        while r.random() < 0.4:
            option = r.choice([b"MATCH", b"MATCH", b"NOVALUES", b"BAD", b"COUNT"])
            command.append(self.g.case(option))
            if option == b"MATCH":
                command.append(r.choice([b"m*", b"1*", b"*", b"m[1-3]", b"-?", b"", b"nosuch"]))
            elif option == b"COUNT" and r.random() < 0.8:
                command.append(r.choice([b"0", b"-1", b"x", b"1000000"]))
        return command

    def sample(self) -> Command:
        r = self.random
        return [b"SRANDMEMBER", self.key()] + r.choice([[], [r.choice(COUNTS)], [r.choice(COUNTS)], [b"1", b"extra"]])

    def pop(self) -> Command:
        """Chance parts the two servers' sets, so the key goes afterwards. (What spoils commands may make any of these pop.)"""
        r = self.random
        key = self.key()
        self.g.pending += [[b"SCARD", key], [b"DEL", key]]
        return [b"SPOP", key] + r.choice([[], [r.choice(COUNTS)], [r.choice(COUNTS)], [b"1", b"extra"]])

    def drop(self) -> Command:
        return [b"DEL", self.key()]

    def makers(self) -> list[tuple]:
        return [
            (self.sadd, 14), (self.many, 0.8), (self.srem, 6), (self.ask, 5), (self.whole, 5), (self.smove, 4), (self.algebra, 10),
            (self.sintercard, 3), (self.scan, 3), (self.sample, 4), (self.pop, 2), (self.drop, 2),
        ]  # fmt: skip
