"""Lists of one connection: every command of the family on few keys, and what it leaves."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from support import rdb

Elements = tuple[bytes, ...]
State = dict[bytes, tuple[Elements, int]]  # key -> (elements, -1): no expiry, as keys without one in model.py

GONE = ((), 0)


@dataclass
class ListLoad:
    """A seeded stream of commands on the keys `l<id>:0` .. and their effect on the model."""

    id: int
    random: random.Random
    keys: int = 5
    state: State = field(default_factory=dict)

    def names(self) -> list[bytes]:
        return [b"l%d:%d" % (self.id, i) for i in range(self.keys)]

    def element(self) -> bytes:
        r = self.random
        size = 9000 if r.randrange(60) == 0 else r.randrange(0, 120)
        return b"%d" % r.randrange(1000) if r.randrange(3) == 0 else r.randbytes(size)

    def get(self, key: bytes) -> list[bytes]:
        return list(self.state[key][0]) if key in self.state else []

    def next(self) -> tuple[tuple, State]:
        """The next command, and the lists it changes."""
        choice = self.random.choice(["push"] * 6 + ["pop"] * 3 + ["move"] * 3 + ["set", "insert", "rem", "trim", "rename", "copy", "restore", "sort", "delete"])
        return getattr(self, "_" + choice)()

    def key(self) -> bytes:
        return self.random.choice(self.names())

    def changes(self, *pairs: tuple[bytes, list[bytes]]) -> State:
        return {key: (tuple(elements), -1) if elements else GONE for key, elements in pairs}

    def _push(self):
        key, left = self.key(), self.random.random() < 0.5
        words = [self.element() for _ in range(self.random.choice([1, 1, 2, 5, 40]))]
        elements = words[::-1] + self.get(key) if left else self.get(key) + words
        return (b"LPUSH" if left else b"RPUSH", key, *words), self.changes((key, elements))

    def _pop(self):
        key, left, count = self.key(), self.random.random() < 0.5, self.random.choice([1, 2, 30])
        elements = self.get(key)
        kept = elements[count:] if left else elements[: max(len(elements) - count, 0)]
        return (b"LPOP" if left else b"RPOP", key, count), self.changes((key, kept)) if elements else {}

    def _move(self):
        source, target = self.key(), self.key()
        from_left, to_left = self.random.random() < 0.5, self.random.random() < 0.5
        elements = self.get(source)
        ends = [b"LEFT" if left else b"RIGHT" for left in (from_left, to_left)]
        if not elements:
            return (b"LMOVE", source, target, *ends), {}
        element = elements.pop(0 if from_left else -1)
        after = elements if source == target else self.get(target)
        after.insert(0 if to_left else len(after), element)
        command = (b"LMOVE", source, target, *ends) if self.random.random() < 0.5 else (b"BLMOVE", source, target, *ends, 0)
        return command, self.changes((source, elements), (target, after))

    def _set(self):
        key = self.key()
        elements = self.get(key)
        if not elements:
            return (b"LLEN", key), {}
        index = self.random.randrange(len(elements))
        elements[index] = self.element()
        return (b"LSET", key, index, elements[index]), self.changes((key, elements))

    def _insert(self):
        key = self.key()
        elements = self.get(key)
        if not elements:
            return (b"LLEN", key), {}
        pivot, new, after = self.random.choice(elements), self.element(), self.random.random() < 0.5
        elements.insert(elements.index(pivot) + after, new)
        return (b"LINSERT", key, b"AFTER" if after else b"BEFORE", pivot, new), self.changes((key, elements))

    def _rem(self):
        key = self.key()
        elements = self.get(key)
        if not elements:
            return (b"LLEN", key), {}
        wanted = self.random.choice(elements)
        return (b"LREM", key, 0, wanted), self.changes((key, [element for element in elements if element != wanted]))

    def _trim(self):
        key = self.key()
        elements = self.get(key)
        first, last = self.random.randrange(4), len(elements) - 1 - self.random.randrange(4)
        return (b"LTRIM", key, first, max(last, 0)), self.changes((key, elements[first : max(last, 0) + 1])) if elements else {}

    def _rename(self):
        source, target = self.key(), self.key()
        if source not in self.state or source == target:
            return (b"LLEN", source), {}
        return (b"RENAME", source, target), {target: self.state[source], source: GONE}

    def _copy(self):
        source, target = self.key(), self.key()
        if source not in self.state or source == target:
            return (b"LLEN", source), {}
        return (b"COPY", source, target, b"REPLACE"), {target: self.state[source]}

    def _restore(self):
        key = self.key()
        elements = [self.element() for _ in range(self.random.choice([1, 5, 40]))]
        body = b"\x01" + rdb.length(len(elements)) + b"".join(map(rdb.string, elements))
        return (b"RESTORE", key, 0, rdb.seal(body), b"REPLACE"), self.changes((key, elements))

    def _sort(self):
        source, target, count = self.key(), self.key(), self.random.choice([5, 1000])
        elements = sorted(self.get(source))[:count]
        return (b"SORT", source, b"ALPHA", b"LIMIT", 0, count, b"STORE", target), self.changes((target, elements))

    def _delete(self):
        key = self.key()
        return (b"DEL", key), {key: GONE}
