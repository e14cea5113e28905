"""Random DUMPs and RESTOREs: payloads in every encoding that Redis ever wrote, of the other families' elements on their keys."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from differential import hash_commands, list_commands, set_commands, stream_commands, zset_commands
from support import rdb
from support.rdb import double, length, listpack, seal, string, ziplist, zipmap

if TYPE_CHECKING:
    from differential.commands import Command, Generator

KEYS = [*list_commands.KEYS, *set_commands.KEYS, *hash_commands.KEYS, *zset_commands.KEYS, *stream_commands.KEYS]
FAR_MS = 4_000_000_000_000


class DumpCommands:
    def __init__(self, generator: Generator):
        self.g = generator
        self.random = generator.random

    def element(self) -> rdb.Item:
        r = self.random
        kind = r.random()
        if kind < 0.4:
            return r.choice([r.randint(-20, 130), r.randint(-5000, 5000), r.randint(-(2**31), 2**31 - 1), r.randint(-(2**63), 2**63 - 1)])
        return b"e" * r.choice([1, 2, 3, 20, 64, 65]) if kind < 0.5 else b"element %d" % r.randint(0, 300)

    def elements(self) -> list[rdb.Item]:
        return [self.element() for _ in range(self.random.choice([1, 2, 5, 30, 130]))]

    def names(self) -> list[rdb.Item]:
        """Distinct, as text too."""
        return list({b"%d" % x if isinstance(x, int) else x: x for x in self.elements()}.values())

    def text(self, item: rdb.Item) -> bytes:
        return string(b"%d" % item if isinstance(item, int) else item)

    def texts(self, items: list[rdb.Item]) -> bytes:
        return b"".join(map(self.text, items))

    def packed(self, items: list[rdb.Item], kinds: tuple[int, int]) -> bytes:
        """A listpack or a ziplist with the type in front of it."""
        new = self.random.random() < 0.5
        return bytes([kinds[0 if new else 1]]) + string(listpack(items) if new else ziplist(items))

    def list_body(self) -> bytes:
        r = self.random
        items = self.elements()
        match r.randrange(4):
            case 0:
                return b"\x01" + length(len(items)) + self.texts(items)
            case 1:
                return b"\x0a" + string(ziplist(items))
            case 2:
                return b"\x0e\x02" + string(ziplist(items)) + string(ziplist(self.elements()))
            case _:
                return b"\x12" + bytes([r.randint(1, 3)]) + (b"\x02" + string(listpack(items))) * 3
        raise AssertionError

    def set_body(self) -> bytes:
        r = self.random
        if r.random() < 0.3:
            numbers = sorted({r.randint(-200, 200) for _ in range(r.choice([1, 20, 200]))})
            return b"\x0b" + string(rdb.intset(r.choice([2, 4, 8]), numbers))
        names = self.names()
        return b"\x02" + length(len(names)) + self.texts(names) if r.random() < 0.5 else b"\x14" + string(listpack(names))

    def hash_body(self) -> bytes:
        r = self.random
        names = self.names()
        values = [self.element() for _ in names]
        flat = [x for pair in zip(names, values) for x in pair]
        match r.randrange(5):
            case 0:
                return b"\x04" + length(len(names)) + self.texts(flat)
            case 1:
                return b"\x09" + string(zipmap([(self.text(k)[1:], self.text(v)[1:]) for k, v in zip(names, values) if len(self.text(k)) < 60]  # one byte of length
                                               or [(b"a", b"b")], r.randint(0, 3)))
            case 2:
                return self.packed(flat, (16, 13))
            case 3:
                fields = b"".join(length(r.choice([0, 0, 1 + i * 7])) + self.text(k) + self.text(v) for i, (k, v) in enumerate(zip(names, values)))
                return b"\x18" + struct.pack("<q", FAR_MS) + length(len(names)) + fields
            case _:
                expiries = sorted(r.randint(FAR_MS, FAR_MS + 100_000) for _ in names[: len(names) // 2])
                expiries += [0] * (len(names) - len(expiries))
                triples = [x for triple in zip(names, values, expiries) for x in triple]
                return b"\x19" + struct.pack("<q", FAR_MS) + string(listpack(triples))
        raise AssertionError

    def sorted_set_body(self) -> bytes:
        r = self.random
        names = self.names()
        scores = sorted(r.randint(-50, 50) for _ in names)
        match r.randrange(3):
            case 0:
                return b"\x05" + length(len(names)) + b"".join(self.text(name) + double(score / 2) for name, score in zip(names, scores))
            case 1:
                return b"\x03" + length(len(names)) + b"".join(self.text(n) + bytes([len(b"%d.5" % s)]) + b"%d.5" % s for n, s in zip(names, scores))
            case _:  # in order: one score each, so that members need not be sorted
                return self.packed([x for i, name in enumerate(names) for x in (name, i - 3)], (17, 12))
        raise AssertionError

    def stream_body(self) -> bytes:
        r = self.random
        count = r.randint(1, 5)
        entries: list[rdb.Item] = [x for i in range(count) for x in (2, i, 0, self.element(), 4)]
        node = rdb.stream_node((5, 1), [b"f"], entries, count)
        last = bytes([5 + count - 1, 1])
        pending = b"\x01" + rdb.stream_id((5, 1)) + struct.pack("<q", 5000) + b"\x02" + b"\x01" + string("c") + struct.pack("<q", 6000)
        first_form = r.random() < 0.4
        head = bytes([15 if first_form else 21]) + b"\x01" + node + bytes([count]) + last
        if not first_form:
            head += b"\x05\x01\x00\x00" + bytes([count + 2])
        if r.random() < 0.5:
            return head + b"\x00"
        group = b"\x01" + string("g") + b"\x05\x01" + (b"" if first_form else b"\x01")
        return head + group + pending + (b"" if first_form else struct.pack("<q", 7000)) + b"\x01" + rdb.stream_id((5, 1))

    def string_body(self) -> bytes:
        value = self.g.value()
        number = self.random.randint(-128, 127)
        return b"\x00" + string(value) if self.random.random() < 0.8 else b"\x00\xc0" + struct.pack("<b", number)

    def restore(self) -> Command:
        r = self.random
        family, body = r.choice([
            (list_commands, self.list_body), (set_commands, self.set_body), (hash_commands, self.hash_body), (zset_commands, self.sorted_set_body),
            (stream_commands, self.stream_body), (None, self.string_body),
        ])  # fmt: skip
        key = r.choice(family.KEYS) if family and r.random() < 0.95 else self.g.key()
        payload = bytearray(seal(body(), r.choice([6, 9, 12, 12, 12])))
        if r.random() < 0.03:
            payload[r.randrange(len(payload))] ^= 1 << r.randrange(8)
        command = [b"RESTORE", key, b"0" if r.random() < 0.7 else self.g.expiry(), bytes(payload)]
        while r.random() < 0.6:
            option = r.choice([b"REPLACE", b"REPLACE", b"REPLACE", b"IDLETIME", b"FREQ", b"BAD"])
            command += [self.g.case(option)] + ([self.g.integer()] if option in (b"IDLETIME", b"FREQ") else [])
        return command

    def dump(self) -> Command:
        return [b"DUMP", self.random.choice(KEYS) if self.random.random() < 0.6 else self.g.key()]

    def makers(self) -> list:
        return [(self.restore, 6), (self.dump, 3)]
