"""Random SORT and SORT_RO over lists, sets and sorted sets, with weights and fields in other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from differential.commands import Command, Generator

LISTS = [b"sortlist0", b"sortlist1"]
SORTED_SETS = [b"sortzset0"]
SETS = [b"sortset0", b"sortset1"]
STORED = [b"sorted0", b"sorted1"]
KEYS = STORED  # met by commands of every type
ELEMENTS = [b"%d" % i for i in range(12)]
ZERO_BYTES = [b"a\x00b", b"a\x00a", b"1\x00x"]  # equal up to there under ALPHA, so only for lists
WORDS = [b"a", b"b", b"ab", b"", b"1.5", b"-3", b"+5", b"0x10", b"1e400", b"inf", b"-inf", b"nan", b" 7", b"1e", b".5", b"5.", b"Z", b"\xff"]
LONG = b"7".rjust(70, b"0")  # makes a skip list of a sorted set: Redis' SORT makes one of every sorted set that it only reads
WEIGHTS = [b"w_" + element for element in ELEMENTS]
HASHES = [b"wh_" + element for element in ELEMENTS]
# What is sorted keeps its type: nothing is renamed to these.
OTHERS = [*LISTS, *SETS, *SORTED_SETS, *WEIGHTS, *HASHES, b"sorterrno"]


class SortCommands:
    def __init__(self, generator: Generator):
        self.g = generator
        self.random = generator.random

    def element(self) -> bytes:
        r = self.random
        kind = r.random()
        if kind < 0.75:
            return r.choice(ELEMENTS)
        return b"%d" % r.randint(-300, 300) if kind < 0.93 else r.choice(WORDS)

    def weight(self) -> bytes:
        """Mostly distinct: the order of equal weights under ALPHA is undefined."""
        r = self.random
        return repr(r.uniform(-50, 50)).encode() if r.random() < 0.7 else b"%d" % r.randint(-1000, 1000) if r.random() < 0.9 else r.choice(WORDS)

    def fill(self) -> Command:
        r = self.random
        kind = r.random()
        count = r.choice([1, 3, 10, 30]) if r.random() < 0.97 else 300
        if kind < 0.35:
            odd = [r.choice(ZERO_BYTES)] if r.random() < 0.1 else []
            return [r.choice([b"RPUSH", b"LPUSH"]), r.choice(LISTS), *[self.element() for _ in range(count)], *odd]
        if kind < 0.55:
            return [b"ZADD", r.choice(SORTED_SETS), b"5", LONG, *[word for _ in range(count) for word in (b"%d" % r.randint(0, 9), self.element())]]
        if kind < 0.65:
            return [b"SADD", r.choice(SETS), *[self.element() for _ in range(count)]]
        if kind < 0.7:
            return [b"DEL", r.choice(LISTS + SORTED_SETS + SETS)]
        if kind < 0.8:
            return [b"SET", r.choice(WEIGHTS), self.weight() if self.g.large is False or r.random() < 0.99 else self.g.value()]
        if kind < 0.92:
            return [b"HSET", r.choice(HASHES), r.choice([b"f", b"g"]), self.weight()]
        return [b"DEL", r.choice(WEIGHTS + HASHES)]

    def limit(self) -> list[bytes]:
        r = self.random
        if r.random() < 0.05:
            return [b"LIMIT", self.g.integer()]
        return [b"LIMIT", *[b"%d" % r.randint(-2, 12) if r.random() < 0.95 else self.g.integer() for _ in range(2)]]

    def sort(self) -> Command:
        r = self.random
        stores = r.random() < 0.3
        kind = r.random()
        key = r.choice(LISTS if kind < 0.5 else SORTED_SETS if kind < 0.7 else SETS if kind < 0.97 else WEIGHTS + HASHES)
        ordered = key in LISTS or key in SORTED_SETS
        options = []
        by = r.choice([b"w_*", b"wh_*->f", b"*", b"#*", b"wh_*->", b"none_*"] + ([b"nosort", b"#"] if ordered or stores else [])) if r.random() < 0.5 else b""
        alpha = r.random() < 0.4
        if by:
            options.append([b"BY", by])
        if alpha:
            options.append([b"ALPHA"])
        # The order of equal weights is the one in which the elements came, which only a list has; and a limit mixes it up.
        if by and alpha and key not in LISTS:
            options.pop()
            alpha = False
        if r.random() < 0.35 and not (alpha and (by or key in LISTS)):
            options.append(self.limit())
        for _ in range(r.choice([0, 0, 1, 2])):
            options.append([b"GET", r.choice([b"#", b"w_*", b"wh_*->f", b"wh_*->g", b"wh_*->", b"x", b"*", b"w_*->f"])])
        if r.random() < 0.4:
            options.append([r.choice([b"ASC", b"DESC"])])
        if r.random() < 0.02:
            options.append([r.choice([b"BAD", b"GET", b"LIMIT"])])
        if stores:
            options.append([b"STORE", r.choice(STORED)])
        r.shuffle(options)
        name = b"SORT" if stores or r.random() < 0.7 else b"SORT_RO"
        words = [self.g.case(word) if word.isalpha() and word.isupper() else word for option in options for word in option]
        if r.random() < 0.1:
            return [b"COMMAND", b"GETKEYSANDFLAGS", name, key, *words]
        # Redis' SORT takes an ERANGE that a command before it left behind for its own; INCRBYFLOAT leaves none.
        self.g.pending += [[b"INCRBYFLOAT", b"sorterrno", b"1"], [name, key, *words]]
        return [b"TYPE", key]

    def stored(self) -> Command:
        r = self.random
        return r.choice([[b"LRANGE", r.choice(STORED), b"0", b"-1"], [b"OBJECT", b"ENCODING", r.choice(STORED)], [b"LPOP", r.choice(STORED)]])

    def makers(self) -> list[tuple]:
        return [(self.fill, 12), (self.sort, 16), (self.stored, 3)]
