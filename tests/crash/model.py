"""What a connection's keys must look like: a plain dictionary, one operation at a time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from crash import hash_model, zset_model

State = dict[bytes, tuple[bytes | tuple, int]]  # key -> (a string, or what hash_model or zset_model make of it; absolute expiry in ms or -1)

FAR_FUTURE_MS = 4_000_000_000_000


@dataclass
class KeyLoad:
    """A seeded stream of commands on the keys `c<id>:0` .. `c<id>:<keys-1>` and their effect on the model."""

    id: int
    random: random.Random
    keys: int = 24
    large_every: int = 40  # one in so many values streams to disk (64 KiB and more)
    state: State = field(default_factory=dict)

    def key(self) -> bytes:
        return b"c%d:%d" % (self.id, self.random.randrange(self.keys))

    def counter(self) -> bytes:
        return b"c%d:n%d" % (self.id, self.random.randrange(4))

    def value(self) -> bytes:
        size = self.random.randrange(1, 200)
        if self.random.randrange(self.large_every) == 0:
            size = self.random.randrange(65_536, 300_000)
        return self.random.randbytes(size)

    def next(self) -> tuple[tuple | list[tuple], State]:
        """The next command, and the changes it makes: key -> (value, expiry), or (b"", 0) for a key that goes away.

        A list of commands is a transaction: its changes are there together or not at all.
        """
        return self._transaction() if self.random.randrange(8) == 0 else self._command()

    def _command(self) -> tuple[tuple, State]:
        choice = self.random.choice(
            ["set", "set", "set", "incr", "incr", "expire", "persist", "rename", "del", "mset", "append", "setrange", "setex", "copy"]
            + ["hash"] * 8 + ["zset"] * 6 + ["whole"] * 2
        )
        return getattr(self, "_" + choice)()

    def _transaction(self) -> tuple[list[tuple], State]:
        before, commands, together = dict(self.state), [(b"MULTI",)], {}
        for _ in range(self.random.randrange(2, 7)):
            words, changes = self._command()
            commands.append(words)
            together.update(changes)
            apply(self.state, changes)
        self.state = before
        return [*commands, (b"EXEC",)], together

    def _set(self):
        key, value = self.key(), self.value()
        return (b"SET", key, value), {key: (value, -1)}

    def _setex(self):
        key, value = self.key(), self.value()
        at = FAR_FUTURE_MS + self.random.randrange(1_000_000)
        return (b"SET", key, value, b"PXAT", at), {key: (value, at)}

    def _incr(self):
        key = self.counter()
        old, expiry = self.state.get(key, (b"0", -1))
        by = self.random.randrange(1, 9)
        return (b"INCRBY", key, by), {key: (b"%d" % (int(old) + by), expiry)}

    def _expire(self):
        key = self.random.choice([self.key(), self.counter()])
        at = FAR_FUTURE_MS + self.random.randrange(1_000_000)
        changes = {key: (self.state[key][0], at)} if key in self.state else {}
        return (b"PEXPIREAT", key, at), changes

    def _persist(self):
        key = self.random.choice([self.key(), self.counter()])
        changes = {key: (self.state[key][0], -1)} if key in self.state else {}
        return (b"PERSIST", key), changes

    def _rename(self):
        source, target = self.key(), self.key()
        if source not in self.state or source == target:
            return (b"GET", source), {}
        return (b"RENAME", source, target), {target: self.state[source], source: (b"", 0)}

    def _copy(self):
        source, target = self.key(), self.key()
        if source not in self.state or source == target:
            return (b"GET", source), {}
        return (b"COPY", source, target, b"REPLACE"), {target: self.state[source]}

    def _del(self):
        keys = {self.key() for _ in range(self.random.randrange(1, 4))}
        return (b"DEL", *sorted(keys)), {key: (b"", 0) for key in keys}

    def _hash(self):
        key = self.random.choice(hash_model.keys(self.id))
        now, expiry = self.state.get(key, ((), -1))
        fields = {name: (value, at) for name, value, at in now}
        words, after = hash_model.HashCommands(self.random).next(key, fields)
        return words, {key: (hash_model.frozen(after), expiry) if after else (b"", 0)}

    def _zset(self):
        key = self.random.choice(zset_model.keys(self.id))
        now, expiry = self.state.get(key, ((), -1))
        words, after = zset_model.SortedSetCommands(self.random).next(key, dict(now))
        return words, {key: (zset_model.frozen(after), expiry) if after else (b"", 0)}

    def _whole(self):
        """A hash or a sorted set as a whole: renamed, copied, deleted, given an expiry, stored by a search that finds everything."""
        kind = self.random.choice([hash_model, zset_model])
        source, target = self.random.sample(kind.keys(self.id), 2)
        if source not in self.state:
            return (b"TYPE", source), {}
        value, _ = self.state[source]
        if kind is zset_model and self.random.randrange(3) == 0:
            everywhere = (b"FROMLONLAT", 0, 0, b"BYRADIUS", 21_000, b"km")
            return (b"GEOSEARCHSTORE", target, source, *everywhere), {target: (value, -1)}
        at = FAR_FUTURE_MS + self.random.randrange(1_000_000)
        return self.random.choice(
            [
                ((b"RENAME", source, target), {target: self.state[source], source: (b"", 0)}),
                ((b"COPY", source, target, b"REPLACE"), {target: self.state[source]}),
                ((b"DEL", source), {source: (b"", 0)}),
                ((b"PEXPIREAT", source, at), {source: (value, at)}),
            ]
        )

    def _mset(self):
        pairs = {self.key(): self.value() for _ in range(self.random.randrange(2, 6))}
        words = [word for pair in sorted(pairs.items()) for word in pair]
        return (b"MSET", *words), {key: (value, -1) for key, value in pairs.items()}

    def _append(self):
        key, tail = self.key(), self.random.randbytes(self.random.randrange(1, 60))
        old, expiry = self.state.get(key, (b"", -1))
        return (b"APPEND", key, tail), {key: (old + tail, expiry)}

    def _setrange(self):
        key, patch = self.key(), self.random.randbytes(self.random.randrange(1, 60))
        old, expiry = self.state.get(key, (b"", -1))
        at = self.random.randrange(0, 400)
        padded = old.ljust(at, b"\0")
        return (b"SETRANGE", key, at, patch), {key: (padded[:at] + patch + padded[at + len(patch) :], expiry)}


def apply(state: State, changes: State) -> None:
    for key, (value, expiry) in changes.items():
        if expiry == 0:
            state.pop(key, None)
        else:
            state[key] = (value, expiry)
