"""Random commands of the sorted-set family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from differential import set_commands

if TYPE_CHECKING:
    from differential.commands import Command, Generator

KEYS = [b"z%d" % i for i in range(6)]
LEX_KEYS = [b"lex0", b"lex1"]  # all scores equal: what an order by member means elsewhere is undefined
MEMBERS = [b"m%d" % i for i in range(12)] + [b"1", b"-7", b"", b"a", b"ab", b"b", b"z" * 63, b"y" * 66]
SCORES = [
    b"0", b"1", b"2", b"3", b"-1", b"1.5", b"-1.5", b"1e3", b"inf", b"-inf", b"+inf", b"0.1", b"0.2", b"3.3", b"5.3e-8", b"694609.2858792739",
    b"828582.7", b"1e17", b"1e20", b"9007199254740993", b"0x10", b"1e400", b"nan", b"abc", b"", b" 1", b"1e", b"-0", b"4.9e-324",
]  # fmt: skip
BOUNDS = [b"-inf", b"+inf", b"(1", b"(2", b"1", b"3", b"0", b"(0.1", b"1000", b"(inf", b"(-inf", b"-1", b"(", b"x", b"0x1", b"(0x1", b"nan", b"1e400"]
LEX = [b"-", b"+", b"[a", b"(a", b"[b", b"(m3", b"[m7", b"[", b"(", b"a", b"", b"++", b"[z", b"(1"]
COUNTS = [b"0", b"1", b"2", b"5", b"100", b"-1", b"-3", b"x", b"", b"9223372036854775808"]


class SortedSetCommands:
    def __init__(self, generator: Generator):
        self.g = generator
        self.random = generator.random

    def key(self) -> bytes:
        return self.random.choice(KEYS) if self.random.random() < 0.95 else self.g.key()

    def member(self) -> bytes:
        return self.random.choice(MEMBERS)

    def score(self) -> bytes:
        r = self.random
        kind = r.random()
        if kind < 0.5:
            return b"%d" % r.randint(-5, 20)
        if kind < 0.6:
            return repr(r.uniform(-1000, 1000)).encode()
        return r.choice(SCORES if kind < 0.75 else SCORES[:16])

    def bound(self) -> bytes:
        r = self.random
        return r.choice(BOUNDS) if r.random() < 0.4 else r.choice([b"", b"("]) + b"%d" % r.randint(-5, 20)

    def index(self) -> bytes:
        return b"%d" % self.random.randint(-15, 15) if self.random.random() < 0.95 else self.g.integer()

    def add(self) -> Command:
        r = self.random
        command = [b"ZADD", self.key()]
        while r.random() < 0.35:
            command.append(self.g.case(r.choice([b"NX", b"XX", b"GT", b"LT", b"CH", b"INCR"])))
        for _ in range(r.choice([1, 1, 1, 2, 4])):
            command += [self.score(), self.member()]
        return command

    def many(self) -> Command:
        r = self.random
        command, first = [b"ZADD", self.key()], r.randint(0, 200)
        for i in range(first, first + r.choice([40, 90, 129, 300])):
            command += [b"%d" % r.randint(0, 50), b"n%d" % i]
        return command

    def lex_add(self) -> Command:
        words = [word for _ in range(self.random.randint(1, 4)) for word in (b"0", self.member())]
        return [b"ZADD", self.random.choice(LEX_KEYS), *words]

    def increment(self) -> Command:
        return [b"ZINCRBY", self.key(), self.score(), self.member()]

    def remove(self) -> Command:
        return [b"ZREM", self.key(), *[self.member() for _ in range(self.random.randint(1, 4))]]

    def one(self) -> Command:
        r = self.random
        name = r.choice([b"ZCARD", b"ZSCORE", b"ZSCORE", b"ZMSCORE", b"ZRANK", b"ZREVRANK"])
        if name == b"ZCARD":
            return [name, self.key()]
        command = [name, self.key(), self.member()]
        if name == b"ZMSCORE":
            command += [self.member()] * r.randint(0, 2)
        elif name != b"ZSCORE" and r.random() < 0.4:
            command.append(self.g.case(r.choice([b"WITHSCORE", b"WITHSCORE", b"WITHSCORES"])))
        return command

    def count(self) -> Command:
        if self.random.random() < 0.5:
            return [b"ZCOUNT", self.key(), self.bound(), self.bound()]
        return [b"ZLEXCOUNT", self.random.choice(LEX_KEYS), self.random.choice(LEX), self.random.choice(LEX)]

    def limit(self) -> list[bytes]:
        r = self.random
        if r.random() < 0.1:
            return [b"LIMIT", r.choice(COUNTS)]
        return [self.g.case(b"LIMIT"), r.choice(COUNTS[:7]) if r.random() < 0.9 else b"x", r.choice(COUNTS)]

    def range(self) -> Command:
        r = self.random
        stores = r.random() < 0.2
        by = r.choice([b"", b"", b"BYSCORE", b"BYLEX"])
        key = r.choice(LEX_KEYS) if by == b"BYLEX" else self.key()
        ends = {b"": self.index, b"BYSCORE": self.bound, b"BYLEX": lambda: r.choice(LEX)}[by]
        command = [b"ZRANGESTORE", r.choice(KEYS[:2])] if stores else [b"ZRANGE"]
        command += [key, ends(), ends()]
        options = [[by]] if by else []
        if r.random() < 0.4:
            options.append([b"REV"])
        if r.random() < 0.4:
            options.append(self.limit())
        if r.random() < 0.4:
            options.append([b"WITHSCORES"])
        if r.random() < 0.05:
            options.append([r.choice([b"BAD", b"BYLEX", b"BYSCORE", b"REV"])])
        r.shuffle(options)
        return command + [self.g.case(word) for option in options for word in option]

    def old_range(self) -> Command:
        r = self.random
        name = r.choice([b"ZRANGEBYSCORE", b"ZREVRANGEBYSCORE", b"ZREVRANGE", b"ZRANGEBYLEX", b"ZREVRANGEBYLEX"])
        lex = name.endswith(b"LEX")
        ends = (lambda: r.choice(LEX)) if lex else self.index if name == b"ZREVRANGE" else self.bound
        command = [name, r.choice(LEX_KEYS) if lex else self.key(), ends(), ends()]
        if r.random() < 0.4:
            command.append(self.g.case(b"WITHSCORES"))
        if r.random() < 0.4:
            command += self.limit()
        if r.random() < 0.05:
            command.append(r.choice([b"BAD", b"REV", b"BYSCORE"]))
        return command

    def remove_range(self) -> Command:
        r = self.random
        kind = r.random()
        if kind < 0.4:
            return [b"ZREMRANGEBYRANK", self.key(), self.index(), self.index()]
        if kind < 0.8:
            return [b"ZREMRANGEBYSCORE", self.key(), self.bound(), self.bound()]
        return [b"ZREMRANGEBYLEX", r.choice(LEX_KEYS), r.choice(LEX), r.choice(LEX)]

    def pop(self) -> Command:
        r = self.random
        if r.random() < 0.6:
            return [r.choice([b"ZPOPMIN", b"ZPOPMAX"]), self.key(), *([r.choice(COUNTS)] if r.random() < 0.6 else [])]
        keys = [self.key() for _ in range(r.randint(1, 3))]
        count = b"%d" % len(keys) if r.random() < 0.9 else r.choice(COUNTS)
        command = [b"ZMPOP", count, *keys, self.g.case(r.choice([b"MIN", b"MAX", b"MAX", b"BAD"] if r.random() < 0.2 else [b"MIN", b"MAX"]))]
        if r.random() < 0.5:
            command += [self.g.case(b"COUNT"), r.choice(COUNTS)]
        return command

    def blocking(self) -> Command:
        """What is there is taken at once; otherwise the time is up soon."""
        r = self.random
        timeout = b"0.001" if r.random() < 0.95 else r.choice([b"-1", b"x", b"1e30"])
        if r.random() < 0.6:
            return [r.choice([b"BZPOPMIN", b"BZPOPMAX"]), *[self.key() for _ in range(r.randint(1, 3))], timeout]
        command = self.pop()
        while command[0] != b"ZMPOP":
            command = self.pop()
        return [b"BZMPOP", timeout, *command[1:]]

    def combine(self) -> Command:
        r = self.random
        name = r.choice([b"ZUNION", b"ZINTER", b"ZDIFF", b"ZUNIONSTORE", b"ZINTERSTORE", b"ZDIFFSTORE", b"ZINTERCARD"])
        keys = [self.key() if r.random() < 0.85 else r.choice(set_commands.KEYS) for _ in range(r.randint(1, 3))]
        count = b"%d" % len(keys) if r.random() < 0.94 else r.choice(COUNTS)
        command = [name, *([r.choice(KEYS[:2])] if name.endswith(b"STORE") else []), count, *keys]
        if r.random() < 0.35:
            weights = [r.choice([b"1", b"2", b"-1", b"0.5", b"inf", b"0", b"x"] if r.random() < 0.2 else [b"1", b"2", b"0.5"]) for _ in keys]
            command += [self.g.case(b"WEIGHTS"), *weights]
        if r.random() < 0.35:
            command += [self.g.case(b"AGGREGATE"), self.g.case(r.choice([b"SUM", b"MIN", b"MAX", b"BAD"] if r.random() < 0.2 else [b"SUM", b"MIN", b"MAX"]))]
        if r.random() < 0.4:
            command.append(self.g.case(b"WITHSCORES"))
        if r.random() < (0.5 if name == b"ZINTERCARD" else 0.03):
            command += [b"LIMIT", r.choice(COUNTS)]
        return command

    def random_members(self) -> Command:
        r = self.random
        command = [b"ZRANDMEMBER", self.key()]
        if r.random() < 0.8:
            command.append(r.choice([b"0", b"1", b"3", b"20", b"1000", b"-1", b"-5", b"-30", b"x", b"", b"-9223372036854775808", b"9223372036854775807"]))
            if r.random() < 0.5:
                command.append(self.g.case(r.choice([b"WITHSCORES", b"WITHSCORES", b"BAD"])))
        return command

    def scan(self) -> Command:
        r = self.random
        command = [b"ZSCAN", self.key(), b"0" if r.random() < 0.9 else r.choice([b"x", b" 0", b"-1", b""]), b"COUNT", b"1000000"]
        while r.random() < 0.5:
            option = r.choice([b"MATCH", b"MATCH", b"NOVALUES", b"BAD", b"COUNT", b"TYPE"])
            command.append(self.g.case(option))
            if option == b"MATCH":
                command.append(r.choice([b"m*", b"n1*", b"*", b"m[1-3]", b"1", b""]))
            elif option == b"COUNT" and r.random() < 0.8:
                command.append(r.choice([b"0", b"-1", b"x", b"1000000"]))
        return command

    def drop(self) -> Command:
        return [b"DEL", self.random.choice([self.key(), self.random.choice(LEX_KEYS)])]

    def makers(self) -> list[tuple]:
        return [
            (self.add, 20), (self.many, 0.4), (self.lex_add, 4), (self.increment, 5), (self.remove, 4), (self.one, 8), (self.count, 4),
            (self.range, 10), (self.old_range, 8), (self.remove_range, 3), (self.pop, 4), (self.combine, 6), (self.random_members, 3),
            (self.scan, 3), (self.drop, 2), (self.blocking, 2),
        ]  # fmt: skip
