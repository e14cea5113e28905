"""Sets in the crash run: a connection of their own, commands on `c<id>:s<n>`, several of them at once, and what they must leave.

A set in the model is a tuple of its members, sorted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

KEYS = 6

State = dict[bytes, tuple[tuple, int]]  # key -> (members, -1)


@dataclass
class SetLoad:
    id: int
    random: random.Random
    state: State = field(default_factory=dict)

    def names(self) -> list[bytes]:
        return [b"c%d:s%d" % (self.id, i) for i in range(KEYS)]

    def next(self) -> tuple[tuple, State]:
        """The next command, and the changes it makes: key -> (members, -1), or (b"", 0) for a key that goes away."""
        kinds = [self.add, self.many, self.remove, self.move, self.algebra, self.rename, self.pop_all]
        return self.random.choices(kinds, [8, 2, 5, 4, 5, 2, 1])[0]()

    def key(self) -> bytes:
        return self.random.choice(self.names())

    def members(self, key: bytes) -> set[bytes]:
        return set(self.state[key][0]) if key in self.state else set()

    def change(self, key: bytes, members: set[bytes]) -> State:
        return {key: (tuple(sorted(members)), -1) if members else (b"", 0)}

    def some(self) -> list[bytes]:
        kind = self.random.choice([b"%d", b"%d", b"member:%d", b"-%d000000"])
        return [kind % self.random.randrange(60) for _ in range(self.random.randrange(1, 8))]

    def add(self):
        key, some = self.key(), self.some()
        return (b"SADD", key, *some), self.change(key, self.members(key) | set(some))

    def many(self):
        """Past what stays an intset, a listpack, packed."""
        key, first = self.key(), self.random.randrange(1000)
        kind, count = self.random.choice([(b"%d", 400), (b"%d", 600), (b"n%d", 140), (b"n%d", 2000)])
        many = [kind % i for i in range(first, first + count)]
        return (b"SADD", key, *many), self.change(key, self.members(key) | set(many))

    def remove(self):
        key = self.key()
        there = sorted(self.members(key))
        some = self.random.sample(there, min(len(there), self.random.choice([1, 3, 200]))) + self.some()
        return (b"SREM", key, *some), self.change(key, set(there) - set(some)) if there else {}

    def move(self):
        source, target = self.key(), self.key()
        there = sorted(self.members(source))
        if not there or source == target:
            return (b"SMOVE", source, target, b"nobody"), {}
        member = self.random.choice(there)
        changes = self.change(source, set(there) - {member}) | self.change(target, self.members(target) | {member})
        return (b"SMOVE", source, target, member), changes

    def algebra(self):
        target, one, other = self.key(), self.key(), self.key()
        a, b = self.members(one), self.members(other)
        name, result = self.random.choice([(b"SUNIONSTORE", a | b), (b"SINTERSTORE", a & b), (b"SDIFFSTORE", a - b)])
        return (name, target, one, other), self.change(target, result)

    def rename(self):
        source, target = self.key(), self.key()
        if source not in self.state or source == target:
            return (b"SCARD", source), {}
        return (b"RENAME", source, target), {target: self.state[source], source: (b"", 0)}

    def pop_all(self):
        key = self.key()
        return (b"SPOP", key, 1_000_000), {key: (b"", 0)}
