"""Random commands of the list family."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from differential.commands import Command, Generator

KEYS = [b"l%d" % i for i in range(5)]
ELEMENTS = [b"a", b"b", b"c", b"1", b"-7", b"007", b"", b"4096", b"element:" + b"y" * 60]
INDEXES = [b"0", b"1", b"-1", b"2", b"-2", b"3", b"5", b"-5", b"10", b"-10", b"40", b"-40", b"100"]
COUNTS = [b"0", b"1", b"1", b"2", b"3", b"-1", b"-2", b"10", b"1000", b"x", b"", b"9223372036854775807", b"-9223372036854775808"]
ENDS = [b"LEFT", b"RIGHT", b"LEFT", b"RIGHT", b"left", b"BAD"]


class ListCommands:
    def __init__(self, generator: Generator):
        self.g = generator
        self.random = generator.random

    def key(self) -> bytes:
        return self.random.choice(KEYS) if self.random.random() < 0.96 else self.g.key()

    def element(self) -> bytes:
        r = self.random
        kind = r.random()
        if kind < 0.6:
            return r.choice(ELEMENTS)
        if kind < 0.75:
            return self.g.integer()
        if kind < 0.97:
            return r.choice([b"v", b"w"]) * r.choice([1, 20, 63, 64, 200, 500])
        return b"L" * r.choice([1000, 4000, 4095, 4096, 8000, 8183, 8184, 8185, 8192, 8193, 9000])

    def index(self) -> bytes:
        return self.random.choice(INDEXES) if self.random.random() < 0.93 else self.g.integer()

    def push(self) -> Command:
        r = self.random
        name = r.choice([b"LPUSH", b"RPUSH", b"LPUSH", b"RPUSH", b"LPUSHX", b"RPUSHX"])
        return [name, self.key(), *[self.element() for _ in range(r.choice([1, 1, 1, 2, 3, 8]))]]

    def many(self) -> Command:
        """Over the limit of a listpack, in one command or in a few."""
        r = self.random
        text = r.choice([b"m", b"n" * 30, b"o" * 300])
        return [r.choice([b"LPUSH", b"RPUSH"]), self.key(), *[b"%b%d" % (text, i) for i in range(r.choice([10, 30, 100, 300]))]]

    def pop(self) -> Command:
        r = self.random
        count = [r.choice(COUNTS)] if r.random() < 0.4 else []
        return [r.choice([b"LPOP", b"RPOP"]), self.key(), *count]

    def pop_many(self) -> Command:
        return [self.random.choice([b"LPOP", b"RPOP"]), self.key(), b"%d" % self.random.choice([5, 20, 100])]

    def read(self) -> Command:
        r = self.random
        if r.random() < 0.3:
            return [b"LLEN", self.key()]
        if r.random() < 0.5:
            return [b"LINDEX", self.key(), self.index()]
        return [b"LRANGE", self.key(), self.index(), self.index()]

    def trim(self) -> Command:
        return [b"LTRIM", self.key(), self.index(), self.index()]

    def set(self) -> Command:
        index = self.index()
        # Redis cuts this index down to 32 bits, and so writes to another place than it was told: README.md.
        if index.lstrip(b"-").isdigit() and abs(int(index)) >= 2**31:
            index = b"7"
        return [b"LSET", self.key(), index, self.element()]

    def insert(self) -> Command:
        where = self.random.choice([b"BEFORE", b"AFTER", b"before", b"BAD"] if self.random.random() < 0.2 else [b"BEFORE", b"AFTER"])
        return [b"LINSERT", self.key(), where, self.element(), self.element()]

    def rem(self) -> Command:
        return [b"LREM", self.key(), self.random.choice(COUNTS), self.element()]

    def pos(self) -> Command:
        r = self.random
        command = [b"LPOS", self.key(), self.element()]
        while r.random() < 0.5:
            option = r.choice([b"RANK", b"COUNT", b"MAXLEN", b"BAD"] if r.random() < 0.1 else [b"RANK", b"COUNT", b"MAXLEN"])
            command += [self.g.case(option)] + ([r.choice(COUNTS)] if r.random() < 0.97 else [])
        return command

    def move(self) -> Command:
        r = self.random
        if r.random() < 0.4:
            return [b"RPOPLPUSH", self.key(), self.key()]
        return [b"LMOVE", self.key(), self.key(), r.choice(ENDS), r.choice(ENDS)]

    def mpop(self) -> Command:
        r = self.random
        keys = [self.key() for _ in range(r.randint(1, 3))]
        count = b"%d" % len(keys) if r.random() < 0.9 else r.choice([b"0", b"-1", b"x", b"5", b"2"])
        command = [b"LMPOP", count, *keys, r.choice(ENDS)]
        while r.random() < 0.4:
            command += [self.g.case(r.choice([b"COUNT", b"COUNT", b"COUNT", b"BAD"]))] + ([r.choice(COUNTS)] if r.random() < 0.95 else [])
        return command

    def blocking(self) -> Command:
        """What is there is taken at once; otherwise the time is up soon. Sometimes an argument is wrong."""
        r = self.random
        timeout = b"0.001" if r.random() < 0.9 else r.choice([b"-1", b"x", b"", b"1e30", b"inf", b"nan", b"9223372036854775807", b"0.001e", b" 1"])
        kind = r.random()
        if kind < 0.4:
            return [r.choice([b"BLPOP", b"BRPOP"]), *[self.key() for _ in range(r.randint(1, 3))], timeout]
        if kind < 0.6:
            return [b"BLMOVE", self.key(), self.key(), r.choice(ENDS), r.choice(ENDS), timeout]
        if kind < 0.75:
            return [b"BRPOPLPUSH", self.key(), self.key(), timeout]
        return [b"BLMPOP", timeout, *self.mpop()[1:]]

    def encoding(self) -> Command:
        return [b"OBJECT", b"ENCODING", self.key()]

    def key_command(self) -> Command:
        r = self.random
        return r.choice([[b"DEL", self.key()], [b"RENAME", self.key(), self.key()], [b"COPY", self.key(), self.key(), b"REPLACE"]])

    def makers(self) -> list[tuple]:
        return [
            (self.push, 14), (self.many, 1.5), (self.pop, 6), (self.pop_many, 3), (self.read, 8), (self.trim, 2), (self.set, 4), (self.insert, 5),
            (self.rem, 4), (self.pos, 4), (self.move, 7), (self.mpop, 4), (self.encoding, 5), (self.key_command, 2),
            (self.blocking, 3),
        ]  # fmt: skip
