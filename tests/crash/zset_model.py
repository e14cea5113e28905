"""Sorted sets in the crash run: commands on `c<id>:z<n>` and what they must leave.

A sorted set in the model is a tuple of (member, score), in its order.
"""

from __future__ import annotations

import random

from support.resp import Connection

KEYS = 3

Scores = dict[bytes, int]


def keys(id: int) -> list[bytes]:
    return [b"c%d:z%d" % (id, i) for i in range(KEYS)]


def frozen(scores: Scores) -> tuple:
    """As it stands in the state."""
    return tuple(sorted(scores.items(), key=lambda item: (item[1], item[0])))


def read(connection: Connection, key: bytes) -> tuple | None:
    """The sorted set as it is stored; None when there is none."""
    reply = connection.call("ZRANGE", key, 0, -1, "WITHSCORES")
    return tuple((member, int(score)) for member, score in zip(reply[::2], reply[1::2])) or None


class SortedSetCommands:
    """One random command on a sorted set, and the members it leaves."""

    def __init__(self, generator: random.Random):
        self.random = generator

    def next(self, key: bytes, scores: Scores) -> tuple[tuple, Scores]:
        kinds = [self.add, self.many, self.remove, self.increment, self.pop, self.remove_range]
        return self.random.choices(kinds, [8, 1, 4, 4, 3, 2])[0](key, dict(scores))

    def member(self) -> bytes:
        return b"m%d" % self.random.randrange(30) + b"." * self.random.choice([0, 0, 0, 70])

    def add(self, key, scores):
        added = {self.member(): self.random.randrange(100) for _ in range(self.random.randrange(1, 5))}
        scores.update(added)
        return (b"ZADD", key, *(word for member, score in added.items() for word in (score, member))), scores

    def many(self, key, scores):
        """Past what stays packed."""
        added = {b"n%d" % i: self.random.randrange(50) for i in range(self.random.choice([100, 300]))}
        scores.update(added)
        return (b"ZADD", key, *(word for member, score in added.items() for word in (score, member))), scores

    def remove(self, key, scores):
        members = self.random.sample(sorted(scores), min(len(scores), self.random.randrange(1, 100))) if scores else [b"none"]
        for member in members:
            scores.pop(member, None)
        return (b"ZREM", key, *members), scores

    def increment(self, key, scores):
        member, by = self.member(), self.random.randrange(1, 9)
        scores[member] = scores.get(member, 0) + by
        return (b"ZINCRBY", key, by, member), scores

    def pop(self, key, scores):
        count = self.random.randrange(1, 4)
        for member, _ in frozen(scores)[:count]:
            del scores[member]
        return (b"ZPOPMIN", key, count), scores

    def remove_range(self, key, scores):
        least = self.random.randrange(100)
        kept = {member: score for member, score in scores.items() if not least <= score <= least + 5}
        return (b"ZREMRANGEBYSCORE", key, least, least + 5), kept
