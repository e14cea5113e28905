"""Random bitmap and HyperLogLog commands. Their keys are strings like the others, so every string command meets them too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from differential.commands import Command, Generator

BIT_KEYS = [b"bits:0", b"bits:1", b"bits:2", b"bits:3"]
HLL_KEYS = [b"hll:0", b"hll:1", b"hll:2", b"hll:3", b"hll:none"]
KEYS = BIT_KEYS + HLL_KEYS
# Sparse runs that are wrong: too few registers, too many, a run cut in two, nothing at all, values behind the end.
BROKEN_RUNS = [b"", b"\x7f\xff\x00", b"\x7f\xfe", b"\x84\x7f\xff\x84", b"\x00" * 300, b"\xff" * 5000, b"\x7f\xf0\x88\x88", b"\x7f\xff\x88"]


class BitCommands:
    """Makers of commands over a Generator's randomness."""

    def __init__(self, generator: Generator):
        self.g = generator
        self.r = generator.random

    def makers(self) -> list[tuple[Callable[[], Command], int]]:
        return [(self.setbit, 5), (self.getbit, 3), (self.bitcount, 4), (self.bitpos, 5), (self.bitop, 5), (self.bitfield, 7),
                (self.bits_value, 2), (self.pfadd, 5), (self.pfcount, 3), (self.pfmerge, 3), (self.pfdebug, 2), (self.hll_value, 3)]  # fmt: skip

    def key(self) -> bytes:
        return self.r.choice(BIT_KEYS) if self.r.random() < 0.75 else self.g.key()

    def offset(self) -> bytes:
        r = self.r
        kind = r.random()
        if kind < 0.85:
            return b"%d" % r.randint(0, 2000)
        # Legal offsets far away would make both sides hold half a gigabyte.
        return r.choice([b"-1", b"%d" % 2**32, b"%d" % (2**63 - 1), b"%d" % 2**63, b"x", b"", b"1.5", b"01", b"+1", b" 1", b"-0"])

    def setbit(self) -> Command:
        bit = self.r.choice([b"0", b"1"]) if self.r.random() < 0.95 else self.r.choice([b"2", b"-1", b"x", b"", b"01"])
        return [b"SETBIT", self.key(), self.offset(), bit]

    def getbit(self) -> Command:
        return [b"GETBIT", self.key(), self.offset()]

    def position(self) -> bytes:
        r = self.r
        return b"%d" % r.randint(-60, 60) if r.random() < 0.7 else b"%d" % r.randint(-2500, 2500) if r.random() < 0.7 else self.g.integer()

    def range(self, given: int) -> Command:
        unit = self.g.case(self.r.choice([b"BIT", b"BIT", b"BYTE", b"BYTE", b"BAD", b""] if self.r.random() < 0.3 else [b"BIT", b"BYTE"]))
        return [self.position(), self.position(), unit, b"extra"][:given]

    def bitcount(self) -> Command:
        return [b"BITCOUNT", self.key()] + self.range(self.r.choice([0, 0, 1, 2, 2, 3, 3, 4]))

    def bitpos(self) -> Command:
        bit = self.r.choice([b"0", b"1"]) if self.r.random() < 0.93 else self.r.choice([b"2", b"x", b"-1"])
        return [b"BITPOS", self.key(), bit] + self.range(self.r.choice([0, 0, 1, 1, 2, 2, 3, 3, 4]))

    def bitop(self) -> Command:
        r = self.r
        name = r.choice([b"AND", b"OR", b"XOR", b"NOT", b"DIFF", b"DIFF1", b"ANDOR", b"ONE"]) if r.random() < 0.97 else r.choice([b"NAND", b""])
        sources = 1 if name == b"NOT" and r.random() < 0.9 else r.randint(1, 4)
        return [b"BITOP", self.g.case(name), self.key()] + [self.key() for _ in range(sources)]

    def field_type(self) -> bytes:
        r = self.r
        if r.random() < 0.95:
            return b"i%d" % r.randint(1, 64) if r.random() < 0.5 else b"u%d" % r.randint(1, 63)
        return r.choice([b"u64", b"i65", b"i0", b"u0", b"I8", b"x8", b"i", b"", b"i08", b"i-1", b"u8x"])

    def field_value(self) -> bytes:
        r = self.r
        kind = r.random()
        if kind < 0.5:
            return b"%d" % r.randint(-300, 300)
        if kind < 0.75:
            return b"%d" % (r.choice([-1, 1]) * 2 ** r.randint(0, 62) + r.randint(-2, 2))
        if kind < 0.85:
            return b"%d" % r.choice([2**63 - 1 - r.randint(0, 300), -(2**63) + r.randint(0, 300)])
        return self.g.integer()

    def bitfield(self) -> Command:
        r = self.r
        command = [r.choice([b"BITFIELD", b"BITFIELD", b"BITFIELD", b"BITFIELD_RO"]), self.key()]
        read_only = command[0] == b"BITFIELD_RO" and r.random() < 0.9
        for _ in range(r.choice([0, 1, 1, 1, 2, 2, 3, 5])):
            name = b"GET" if read_only else r.choice([b"GET", b"SET", b"INCRBY", b"INCRBY", b"OVERFLOW"])
            if name == b"OVERFLOW":
                command += [name, self.g.case(r.choice([b"WRAP", b"SAT", b"FAIL"]) if r.random() < 0.95 else b"BAD")]
                continue
            offset = b"#%d" % r.randint(0, 30) if r.random() < 0.3 else self.offset() if r.random() < 0.97 else r.choice([b"#-1", b"#", b"#x"])
            command += [self.g.case(name), self.field_type(), offset] + ([self.field_value()] if name != b"GET" else [])
        return command if r.random() < 0.96 else command[: r.randint(2, len(command))]

    def bits_value(self) -> Command:
        r = self.r
        pattern = r.choice([b"\x00", b"\xff", b"\x00\xff", b"\x0f", r.randbytes(8)])
        size = r.choice([0, 1, 7, 8, 9, 40, 41, 100, 440, 441, 2000]) if r.random() < 0.9 or not self.g.large else 70_000
        value = bytearray((pattern * (size // len(pattern) + 1))[:size])
        if size and r.random() < 0.7:
            value[r.randrange(size)] ^= 1 << r.randrange(8)
        return [b"SET", r.choice(BIT_KEYS), bytes(value)]

    # ---- HyperLogLog ----

    def hll_key(self) -> bytes:
        return self.r.choice(HLL_KEYS) if self.r.random() < 0.93 else self.g.key()

    def pfadd(self) -> Command:
        r = self.r
        count = r.choice([0, 1, 1, 2, 3, 10]) if r.random() < 0.97 else r.choice([300, 2500])  # the last makes it dense
        elements = [b"%d" % r.randint(0, 5000) if r.random() < 0.8 else r.randbytes(r.randint(0, 20)) for _ in range(count)]
        return [b"PFADD", self.hll_key()] + elements

    def pfcount(self) -> Command:
        return [b"PFCOUNT"] + [self.hll_key() for _ in range(self.r.choice([1, 1, 1, 2, 3]))]

    def pfmerge(self) -> Command:
        return [b"PFMERGE"] + [self.hll_key() for _ in range(self.r.choice([1, 2, 2, 3]))]

    def pfdebug(self) -> Command:
        what = self.r.choice([b"ENCODING", b"ENCODING", b"DECODE", b"DECODE", b"GETREG", b"TODENSE", b"BAD"])
        return [b"PFDEBUG", self.g.case(what), self.hll_key()]

    def hll_value(self) -> Command:
        """The stored bytes, a fresh start, or bytes that are damaged."""
        r = self.r
        kind = r.random()
        key = r.choice(HLL_KEYS)
        if kind < 0.55:
            return [b"GET", key]
        if kind < 0.65:
            return [b"DEL", key]
        if kind < 0.8:
            return [b"SET", key, r.choice([b"HYLL", b"", b"HYLL\x02" + b"\x00" * 11, b"HYLL\x00" + b"\x00" * 30, b"hyll\x01" + b"\x00" * 11])]
        if kind < 0.9:
            return [b"SET", key, b"HYLL\x01" + b"\x00" * 3 + r.choice([b"\x00" * 8, b"\x00" * 7 + b"\x80", b"\x05" + b"\x00" * 7]) + r.choice(BROKEN_RUNS)]
        return [b"SETRANGE", key, b"%d" % r.choice([16, 17, 18, 20, 30, 100]), r.randbytes(r.choice([1, 1, 2]))]
