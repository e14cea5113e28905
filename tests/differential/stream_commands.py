"""Random commands of the stream family. Ids are explicit, so that both servers have the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from differential.commands import Command, Generator

KEYS = [b"x%d" % i for i in range(4)]
GROUPS = [b"g0", b"g1", b"g2"]
CONSUMERS = [b"alice", b"bob", b"carol"]
BAD_IDS = [
    b"x", b"", b"-", b"+", b"0-0", b"0", b"1-", b"-1", b"1-1-1", b"01-01", b" 5", b"+5", b"5 ", b"1-*", b"*", b"$", b">",
    b"18446744073709551615", b"18446744073709551616", b"1-18446744073709551615",
]  # fmt: skip


class StreamCommands:
    def __init__(self, generator: Generator):
        self.g = generator
        self.random = generator.random
        self.clock = 1

    def key(self) -> bytes:
        return self.random.choice(KEYS) if self.random.random() < 0.97 else self.g.key()

    def group(self) -> bytes:
        return self.random.choice(GROUPS) if self.random.random() < 0.97 else b"nogroup"

    def consumer(self) -> bytes:
        return self.random.choice(CONSUMERS)

    def id(self) -> bytes:
        """An id near those that are there."""
        r = self.random
        if r.random() < 0.04:
            return r.choice(BAD_IDS)
        ms = max(self.clock - int(r.expovariate(1 / 40)), 0)
        return b"%d" % ms if r.random() < 0.3 else b"%d-%d" % (ms, r.choice([0, 0, 1, 2]))

    def ids(self, most: int = 4) -> list[bytes]:
        return [self.id() for _ in range(self.random.randint(1, most))]

    def new_id(self) -> bytes:
        r = self.random
        if r.random() < 0.06:
            return self.id().replace(b"*", b"x")  # its own clock's ids would differ
        self.clock += r.choice([0, 1, 1, 2, 5])
        return r.choice([b"%d-*", b"%d-0", b"%d-1", b"%d"]) % self.clock

    def count(self) -> list[bytes]:
        r = self.random
        if r.random() < 0.5:
            return []
        return [self.g.case(b"COUNT"), r.choice([b"1", b"2", b"3", b"10", b"0", b"-1"]) if r.random() < 0.97 else self.g.integer()]

    def references(self) -> list[bytes]:
        r = self.random
        return [] if r.random() < 0.5 else [self.g.case(r.choice([b"KEEPREF", b"DELREF", b"ACKED"]))]

    def trim(self) -> list[bytes]:
        r = self.random
        by = r.choice([b"MAXLEN", b"MINID"])
        words = [self.g.case(by), *r.choice([[], [b"="], [b"~"], [b"~"]])]
        words.append(b"%d" % r.choice([0, 1, 3, 5, 10, 30, 60]) if by == b"MAXLEN" else self.id())
        if r.random() < 0.15:
            words += [b"LIMIT", r.choice([b"0", b"1", b"10", b"100", b"-1", b"x"])]
        if r.random() < 0.03:
            words += r.choice([[b"MAXLEN", b"1"], [b"MINID", b"5"]])
        return words + self.references()

    def fields(self) -> list[bytes]:
        r = self.random
        if r.random() < 0.6:
            return [b"name", self.g.value()[:200], b"n", b"%d" % r.randint(-5000, 100000)]
        words = []
        for _ in range(r.randint(1, 4)):
            words += [r.choice([b"name", b"n", b"1", b"", b"f" * 70]), self.g.integer() if r.random() < 0.5 else b"v" * r.randint(0, 90)]
        return words

    def xadd(self) -> Command:
        r = self.random
        command = [b"XADD", self.key()]
        if r.random() < 0.05:
            command.append(self.g.case(b"NOMKSTREAM"))
        if r.random() < 0.12:
            command += self.trim()
        return [*command, self.new_id(), *self.fields()]

    def xrange(self) -> Command:
        r = self.random
        ends = [self.id() if r.random() < 0.5 else b"-", self.id() if r.random() < 0.5 else b"+"]
        ends = [b"(" + end if r.random() < 0.15 else end for end in ends]
        if r.random() < 0.5:
            return [b"XRANGE", self.key(), *ends, *self.count()]
        return [b"XREVRANGE", self.key(), *reversed(ends), *self.count()]

    def small(self) -> Command:
        r = self.random
        kind = r.random()
        if kind < 0.3:
            return [b"XLEN", self.key()]
        if kind < 0.5:
            return [b"XDEL", self.key(), *self.ids()]
        if kind < 0.7:
            return [b"XTRIM", self.key(), *self.trim()]
        if kind < 0.75:
            return [b"DEL", self.key()]
        command = [b"XSETID", self.key(), self.id()]
        if r.random() < 0.3:
            command += [b"ENTRIESADDED", r.choice([b"10", b"100", b"-1", b"x"])]
        if r.random() < 0.3:
            command += [b"MAXDELETEDID", self.id()]
        return command

    def xread(self) -> Command:
        r = self.random
        keys = [self.key() for _ in range(r.randint(1, 3))]
        after = [r.choice([b"0", b"$", b"+", self.id(), self.id()]) for _ in keys]
        return [b"XREAD", *self.count(), self.g.case(b"STREAMS"), *keys, *after[: len(keys) if r.random() < 0.98 else -1]]

    def xreadgroup(self) -> Command:
        r = self.random
        keys = [self.key() for _ in range(r.choice([1, 1, 1, 2]))]
        after = [r.choice([b">", b">", b">", b"0", self.id()]) for _ in keys]
        words = [b"GROUP", self.group(), self.consumer(), *self.count(), *([b"NOACK"] if r.random() < 0.1 else [])]
        return [b"XREADGROUP", *words, b"STREAMS", *keys, *after]

    def xgroup(self) -> Command:
        r = self.random
        kind = r.random()
        if kind < 0.5:
            command = [b"XGROUP", self.g.case(b"CREATE"), self.key(), self.group(), r.choice([b"$", b"0", b"0", self.id()])]
            if r.random() < 0.7:
                command.append(b"MKSTREAM")
        elif kind < 0.65:
            command = [b"XGROUP", b"SETID", self.key(), self.group(), r.choice([b"$", b"0", self.id()])]
        elif kind < 0.75:
            return [b"XGROUP", b"DESTROY", self.key(), self.group()]
        else:
            return [b"XGROUP", r.choice([b"CREATECONSUMER", b"DELCONSUMER"]), self.key(), self.group(), self.consumer()]
        if r.random() < 0.15:
            command += [b"ENTRIESREAD", r.choice([b"0", b"5", b"-1", b"-2", b"x"])]
        return command

    def xack(self) -> Command:
        return [b"XACK", self.key(), self.group(), *self.ids(6)]

    def xpending(self) -> Command:
        r = self.random
        command = [b"XPENDING", self.key(), self.group()]
        if r.random() < 0.6:
            command += [*([b"IDLE", r.choice([b"0", b"100000000", b"x"])] if r.random() < 0.2 else []), b"-", b"+"]
            command += [r.choice([b"1", b"10", b"0", b"-1"]), *([self.consumer()] if r.random() < 0.4 else [])]
        return command

    def xclaim(self) -> Command:
        r = self.random
        command = [b"XCLAIM", self.key(), self.group(), self.consumer(), r.choice([b"0", b"0", b"0", b"100000000", b"x"]), *self.ids(6)]
        while r.random() < 0.4:
            command += r.choice(
                [[b"FORCE"], [b"JUSTID"], [b"IDLE", b"0"], [b"TIME", b"1"], [b"RETRYCOUNT", b"7"], [b"LASTID", self.id()], [b"BAD"], [b"RETRYCOUNT"]]
            )
        return command

    def xautoclaim(self) -> Command:
        r = self.random
        start = r.choice([b"-", b"0", self.id(), b"(" + self.id()])
        command = [b"XAUTOCLAIM", self.key(), self.group(), self.consumer(), r.choice([b"0", b"0", b"0", b"100000000", b"-5"]), start]
        if r.random() < 0.5:
            command += [b"COUNT", r.choice([b"1", b"2", b"5", b"0", b"x"])]
        return command + ([b"JUSTID"] if r.random() < 0.3 else [])

    def delete_more(self) -> Command:
        r = self.random
        ids = self.ids()
        command = [b"XDELEX", self.key()] if r.random() < 0.5 else [b"XACKDEL", self.key(), self.group()]
        count = b"%d" % len(ids) if r.random() < 0.95 else r.choice([b"0", b"-1", b"x", b"9"])
        words = [[b"IDS", count, *ids], self.references()]
        r.shuffle(words)
        return [*command, *words[0], *words[1]]

    def xinfo(self) -> Command:
        r = self.random
        kind = r.random()
        if kind < 0.4:
            return [b"XINFO", b"GROUPS", self.key()]
        if kind < 0.6:
            return [b"XINFO", b"CONSUMERS", self.key(), self.group()]
        command = [b"XINFO", b"STREAM", self.key()]
        if r.random() < 0.5:
            command += [b"FULL", *self.count()]
        return command

    def makers(self) -> list[tuple]:
        return [
            (self.xadd, 26), (self.xrange, 6), (self.small, 5), (self.xread, 5), (self.xreadgroup, 14), (self.xgroup, 6), (self.xack, 6),
            (self.xpending, 6), (self.xclaim, 6), (self.xautoclaim, 5), (self.delete_more, 5), (self.xinfo, 8),
        ]  # fmt: skip
