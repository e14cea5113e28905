"""What a connection's streams must look like: entries, and one group with two consumers, one operation at a time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

GROUP = b"g"
CONSUMERS = [b"a", b"b"]


@dataclass(frozen=True)
class StreamState:
    """Entries (id, value), pending entries (id, consumer, deliveries), and the last id that was added and delivered."""

    entries: tuple[tuple[int, bytes], ...] = ()
    pending: tuple[tuple[int, bytes, int], ...] = ()
    last_id: int = 0
    delivered: int = 0


State = dict[bytes, StreamState]


def id_of(number: int) -> bytes:
    return b"%d-0" % number


@dataclass
class StreamLoad:
    """A seeded stream of commands on the keys `s<id>:0` .. and their effect on the model."""

    id: int
    random: random.Random
    keys: int = 3
    state: State = field(default_factory=dict)

    def names(self) -> list[bytes]:
        return [b"s%d:%d" % (self.id, i) for i in range(self.keys)]

    def next(self) -> tuple[tuple, State]:
        """The next command, and what its key is afterwards."""
        key = self.random.choice(self.names())
        if key not in self.state:
            return (b"XGROUP", b"CREATE", key, GROUP, b"0", b"MKSTREAM"), {key: StreamState()}
        kinds = ["add"] * 6 + ["read"] * 3 + ["ack"] * 3 + ["delete", "trim", "claim", "history"]
        words, after = getattr(self, "_" + self.random.choice(kinds))(key, self.state[key])
        return words, {key: after}

    def _add(self, key: bytes, old: StreamState):
        number = old.last_id + self.random.randrange(1, 4)
        value = self.random.randbytes(self.random.randrange(1, 200))
        return (b"XADD", key, id_of(number), b"field", value), replace(old, entries=(*old.entries, (number, value)), last_id=number)

    def _read(self, key: bytes, old: StreamState):
        consumer, count = self.random.choice(CONSUMERS), self.random.randrange(1, 6)
        given = [number for number, _ in old.entries if number > old.delivered][:count]
        pending = sorted([*old.pending, *((number, consumer, 1) for number in given)])
        words = (b"XREADGROUP", b"GROUP", GROUP, consumer, b"COUNT", count, b"STREAMS", key, b">")
        return words, replace(old, pending=tuple(pending), delivered=given[-1] if given else old.delivered)

    def _history(self, key: bytes, old: StreamState):
        consumer = self.random.choice(CONSUMERS)
        there = {number for number, _ in old.entries}
        pending = tuple((n, c, d + (c == consumer and n in there)) for n, c, d in old.pending)
        return (b"XREADGROUP", b"GROUP", GROUP, consumer, b"STREAMS", key, b"0"), replace(old, pending=pending)

    def _ack(self, key: bytes, old: StreamState):
        numbers = {self.random.choice(old.pending)[0] for _ in range(3)} if old.pending else {1}
        pending = tuple(entry for entry in old.pending if entry[0] not in numbers)
        return (b"XACK", key, GROUP, *map(id_of, sorted(numbers))), replace(old, pending=pending)

    def _delete(self, key: bytes, old: StreamState):
        numbers = {self.random.choice(old.entries)[0] for _ in range(2)} if old.entries else {1}
        return (b"XDEL", key, *map(id_of, sorted(numbers))), replace(old, entries=tuple(e for e in old.entries if e[0] not in numbers))

    def _trim(self, key: bytes, old: StreamState):
        return (b"XTRIM", key, b"MAXLEN", 40), replace(old, entries=old.entries[-40:])

    def _claim(self, key: bytes, old: StreamState):
        there = {number for number, _ in old.entries}
        consumer, number = self.random.choice(CONSUMERS), self.random.choice(old.pending)[0] if old.pending else 1
        kept = [entry for entry in old.pending if entry[0] != number]
        taken = [(number, consumer, d + 1) for n, _, d in old.pending if n == number and n in there]
        return (b"XCLAIM", key, GROUP, consumer, 0, id_of(number)), replace(old, pending=tuple(sorted([*kept, *taken])))


def found_state(connection, key: bytes) -> StreamState | None:
    """What the server holds."""
    if not connection.call(b"EXISTS", key):
        return None
    number = lambda text: int(text.split(b"-")[0])  # noqa: E731
    entries = tuple((number(id), fields[1]) for id, fields in connection.call(b"XRANGE", key, b"-", b"+"))
    pending = tuple((number(id), consumer, count) for id, consumer, _, count in connection.call(b"XPENDING", key, GROUP, b"-", b"+", 10**6))
    info, group = connection.call(b"XINFO", b"STREAM", key), connection.call(b"XINFO", b"GROUPS", key)[0]
    after = lambda flat, name: number(flat[flat.index(name) + 1])  # noqa: E731
    return StreamState(entries, pending, after(info, b"last-generated-id"), after(group, b"last-delivered-id"))
