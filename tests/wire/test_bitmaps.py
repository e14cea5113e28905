"""Bitmaps and HyperLogLogs against a model in Python: on disk, in memory, through kills, and while sources change."""

from __future__ import annotations

import random
import threading

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire

LARGE = 300_000  # bytes: on disk when set as a whole


def blob(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


def ones(value: bytes) -> int:
    return int.from_bytes(value, "big").bit_count()


def combined(name: str, sources: list[bytes]) -> bytes:
    size = max(map(len, sources))
    first, *others = [int.from_bytes(source.ljust(size, b"\0"), "big") for source in sources]
    everything = (1 << size * 8) - 1
    union = 0
    for other in others:
        union |= other
    result = first
    if name == "NOT":
        result = first ^ everything
    elif name == "ONE":
        seen, twice = first, 0
        for other in others:
            twice |= seen & other
            seen |= other
        result = seen & ~twice
    elif name in ("DIFF", "DIFF1", "ANDOR"):
        result = {"DIFF": first & ~union, "DIFF1": ~first & union, "ANDOR": first & union}[name]
    else:
        for other in others:
            result = {"AND": result & other, "OR": result | other, "XOR": result ^ other}[name]
    return result.to_bytes(size, "big")


@pytest.mark.parametrize("size", [50, 40_000, LARGE, 6_000_000])
def test_bits_of_a_value_wherever_it_lies(pion: PionServer, size: int) -> None:
    value = bytearray(blob(size, size))
    r = random.Random(size)
    with Connection(pion.port) as c:
        assert c.call("SET", "b", bytes(value)) == "OK"
        assert c.call("BITCOUNT", "b") == ones(bytes(value))
        assert c.call("BITCOUNT", "b", 7, -5) == ones(bytes(value[7:-4]))
        bits = bin(int.from_bytes(value, "big") | 1 << size * 8)[3:]
        assert c.call("BITCOUNT", "b", 11, -14, "BIT") == bits[11:-13].count("1")
        for at in (0, 5, size * 8 - 1, size * 8, size * 8 + 100):
            assert c.call("GETBIT", "b", at) == (int(bits[at]) if at < size * 8 else 0)
        for _ in range(5):
            at = r.randrange(size * 8)
            bit = 1 - (value[at // 8] >> (7 - at % 8) & 1)
            assert c.call("SETBIT", "b", at, bit) == 1 - bit
            value[at // 8] ^= 0x80 >> at % 8
        assert c.call("BITFIELD", "b", "SET", "u16", 8, 0xABCD, "GET", "u16", 8) == [int.from_bytes(value[1:3], "big"), 0xABCD]
        value[1:3] = b"\xab\xcd"
        assert c.call("GET", "b") == bytes(value)
        assert c.call("SETBIT", "b", size * 8 + 7, 1) == 0
        value += b"\x01"
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("GET", "b") == bytes(value)
        assert c.call("BITFIELD_RO", "b", "GET", "u8", size * 8, "GET", "i32", size * 8 - 8) == [
            1, int.from_bytes(value[size - 1 : size + 1] + b"\0\0", "big", signed=True)]  # fmt: skip


@pytest.mark.parametrize("size", [3_000, 70_000, 5_000_000])
def test_positions_of_the_first_bit(pion: PionServer, size: int) -> None:
    with Connection(pion.port) as c:
        for bit in (0, 1):
            for at in (0, 1, size * 4 + 3, size * 8 - 1):
                value = bytearray((b"\0" if bit else b"\xff") * size)
                value[at // 8] ^= 0x80 >> at % 8
                assert c.call("SET", "p", bytes(value)) == "OK"
                assert c.call("BITPOS", "p", bit) == at
                assert c.call("BITPOS", "p", bit, at // 8, at // 8) == at
                assert c.call("BITPOS", "p", bit, at, at, "BIT") == at
                assert c.call("BITPOS", "p", bit, at // 8 + 1, -1) == -1
        c.call("SET", "p", b"\xff" * size)
        assert c.call("BITPOS", "p", 0) == size * 8
        assert c.call("BITPOS", "p", 0, 0, -1) == -1


@pytest.mark.parametrize("name", ["AND", "OR", "XOR", "NOT", "DIFF", "DIFF1", "ANDOR", "ONE"])
def test_bitop_over_values_in_memory_and_on_disk(pion: PionServer, name: str) -> None:
    sizes = [LARGE, 5_000, 1_200_000, 100]
    sources = [blob(size, i) for i, size in enumerate(sizes)]
    count = 1 if name == "NOT" else len(sources)
    with Connection(pion.port) as c:
        for i, source in enumerate(sources):
            c.call("SET", f"s{i}", source)
        keys = [f"s{i}" for i in range(count)]
        expected = combined(name, sources[:count])
        assert c.call("SET", "to", "old", "EX", 1000) == "OK"
        assert c.call("BITOP", name, "to", *keys) == len(expected)
        assert c.call("GET", "to") == expected
        assert c.call("TTL", "to") == -1
        assert c.call("BITOP", name, "s0", *keys) == len(expected), "the destination may be a source"
        if count > 1:
            assert c.call("BITOP", name, "small", "s1", "s3") == len(sources[1])
            assert c.call("GET", "small") == combined(name, [sources[1], sources[3]])
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("GET", "to") == expected
        assert c.call("GET", "s0") == expected


def test_bitop_sees_its_sources_at_one_moment(pion: PionServer) -> None:
    """A pair of large values is always changed together; their XOR must never show one changed and one not."""
    rounds = 30
    values = [bytes([i]) * LARGE for i in range(8)]
    with Connection(pion.port) as c:
        c.call("MSET", "a", values[0], "b", values[0])
    stop = threading.Event()

    def change() -> None:
        with Connection(pion.port) as mine:
            i = 0
            while not stop.is_set():
                i += 1
                value = values[i % len(values)] if i % 2 else bytes([i % 200]) * 20_000
                mine.call("MSET", "a", value, "b", value)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        with Connection(pion.port) as c:
            for _ in range(rounds):
                c.call("BITOP", "XOR", "to", "a", "b")
                assert c.call("BITCOUNT", "to") == 0
    finally:
        stop.set()
        changer.join()


def test_a_damaged_bitmap_is_an_error(pion: PionServer) -> None:
    value = blob(LARGE, 1)
    with Connection(pion.port) as c:
        c.call("SET", "large", value)
        spoiled = 0
        for path in (pion.dir / "payload" / "1").glob("*.dat"):
            data = path.read_bytes()
            at = data.find(value[150_000:150_032])
            if at >= 0:
                with path.open("r+b") as file:
                    file.seek(at)
                    file.write(bytes([data[at] ^ 1]))
                spoiled += 1
        assert spoiled == 1
        at = 150_000 * 8
        for command in (("BITCOUNT", "large"), ("SETBIT", "large", 3, 1), ("GETBIT", "large", at), ("BITOP", "NOT", "to", "large"),
                        ("BITFIELD", "large", "SET", "u8", 0, 1), ("BITFIELD_RO", "large", "GET", "u8", at)):  # fmt: skip
            with pytest.raises(ServerError, match="^CORRUPT"):
                c.call(*command)
        assert c.call("GETBIT", "large", 9) == value[1] >> 6 & 1, "its own checksum holds"
        assert c.call("EXISTS", "to") == 0


def test_hyperloglogs_survive_a_kill_byte_for_byte(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        for i in range(3_000):
            c.call("PFADD", "few" if i < 300 else "many", i)
        c.call("PFMERGE", "all", "few", "many")
        counts = [c.call("PFCOUNT", key) for key in ("few", "many", "all")]
        assert [c.call("PFDEBUG", "ENCODING", key) for key in ("few", "many", "all")] == ["sparse", "dense", "dense"]
        assert c.call("PFCOUNT", "few", "many") == counts[2]
        before = c.call("MGET", "few", "many", "all")
    assert all(abs(count - true) < true * 0.05 for count, true in zip(counts, (300, 2_700, 3_000)))
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("MGET", "few", "many", "all") == before
        assert [c.call("PFCOUNT", key) for key in ("few", "many", "all")] == counts


def test_hll_sparse_max_bytes_decides_the_encoding(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        assert c.call("CONFIG", "GET", "hll-sparse-max-bytes") in ([b"hll-sparse-max-bytes", b"3000"], {b"hll-sparse-max-bytes": b"3000"})
        c.call("CONFIG", "SET", "hll-sparse-max-bytes", "30")
        c.call("PFADD", "h", "a")
        assert c.call("PFDEBUG", "ENCODING", "h") == "sparse"
        c.call("PFADD", "h", *range(10))
        assert c.call("PFDEBUG", "ENCODING", "h") == "dense"
        assert c.call("PFSELFTEST") == "OK"


def test_what_changes_no_bit_is_no_change(pion: PionServer) -> None:
    with Connection(pion.port) as c:

        def changes() -> int:
            info = c.call("INFO", "persistence").decode()
            return int(info.split("rdb_changes_since_last_save:")[1].split()[0])

        assert changes() == 0
        for commands, expected in (
            ([("SETBIT", "a", 7, 0), ("BITFIELD", "b", "SET", "i5", 0, 0)], 2),  # new keys
            ([("SETBIT", "a", 7, 0), ("BITFIELD", "b", "SET", "i5", 0, 0), ("BITFIELD", "a", "GET", "u8", 0), ("BITCOUNT", "a")], 2),
            ([("SETBIT", "a", 7, 1), ("SETBIT", "a", 7, 1), ("BITFIELD", "b", "INCRBY", "u4", 0, 1)], 4),
            ([("SETBIT", "a", 90, 0), ("BITFIELD", "b", "SET", "u8", 90, 0)], 6),  # longer
            ([("PFADD", "h", "x"), ("PFADD", "h", "x"), ("SADD", "s", "x"), ("SADD", "s", "x"), ("SREM", "s", "y")], 8),
        ):
            for command in commands:
                c.call(*command)
            assert changes() == expected, commands
        assert c.call("SAVE") == "OK"
        assert changes() == 0
