"""String values through kills: small ones, ones that live on disk, expiry, eviction, and damage on disk."""

from __future__ import annotations

import random
import time
from typing import Callable

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire

LARGE = 5_000_000


def blob(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


def test_large_values_change_and_come_back_after_a_kill(pion: PionServer) -> None:
    expected: dict[bytes, bytes] = {}
    with Connection(pion.port) as c:
        for i, size in enumerate((65_535, 65_536, 200_000, LARGE)):
            key = b"large:%d" % i
            expected[key] = blob(size, i)
            assert c.call("SET", key, expected[key]) == "OK"
            assert c.call("STRLEN", key) == size
        assert c.call("GETRANGE", "large:3", 1_000_000, 1_000_099) == expected[b"large:3"][1_000_000:1_000_100]
        assert c.call("GETRANGE", "large:3", -3, -1) == expected[b"large:3"][-3:]
        assert c.call("APPEND", "large:2", b"tail") == 200_004
        expected[b"large:2"] += b"tail"
        assert c.call("SETRANGE", "large:3", 70_000, b"middle") == LARGE
        expected[b"large:3"] = expected[b"large:3"][:70_000] + b"middle" + expected[b"large:3"][70_006:]
        assert c.call("SETRANGE", "large:1", 100_000, b"end") == 100_003
        expected[b"large:1"] = expected[b"large:1"].ljust(100_000, b"\0") + b"end"
        assert c.call("COPY", "large:3", "copy") == 1
        expected[b"copy"] = expected[b"large:3"]
        assert c.call("RENAME", "large:0", "renamed") == "OK"
        expected[b"renamed"] = expected.pop(b"large:0")
        assert c.call("GETSET", "large:2", b"small") == expected[b"large:2"]
        expected[b"large:2"] = b"small"
        assert c.call("MSET", "m1", blob(80_000, 9), "m2", "x") == "OK"
        expected |= {b"m1": blob(80_000, 9), b"m2": b"x"}
        assert c.call("SET", "m1", b"no", "NX") is None
        assert c.call("SET", "new", blob(90_000, 10), "XX") is None
        assert c.call("GETDEL", "copy") == expected.pop(b"copy")
        with pytest.raises(ServerError, match="not an integer"):
            c.call("INCR", "m1")
        assert c.call("MGET", *expected) == list(expected.values())
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("DBSIZE") == len(expected)
        assert c.call("MGET", *expected) == list(expected.values())
        assert c.call("GET", "large:3") == expected[b"large:3"]


def test_a_damaged_value_is_an_error_and_never_wrong_bytes(pion: PionServer) -> None:
    value = blob(300_000, 1)
    with Connection(pion.port) as c:
        c.call("SET", "large", value)
        c.call("SET", "other", "fine")
        files = [path for path in (pion.dir / "payload" / "1").iterdir() if path.suffix == ".dat"]
        spoiled = 0
        for path in files:
            data = bytearray(path.read_bytes())
            at = data.find(value[150_000:150_032])
            if at >= 0:
                with path.open("r+b") as file:
                    file.seek(at)
                    file.write(bytes([data[at] ^ 1]))
                spoiled += 1
        assert spoiled == 1
        for command in (("GET", "large"), ("GETRANGE", "large", 140_000, 160_000), ("APPEND", "large", "x"), ("COPY", "large", "c")):
            with pytest.raises(ServerError, match="^CORRUPT"):
                c.call(*command)
        assert c.call("GETRANGE", "large", 0, 99) == value[:100]  # its own checksum holds
        assert c.call("GET", "other") == b"fine"
        assert c.call("SET", "large", value) == "OK"
        assert c.call("GET", "large") == value


def test_expiry_holds_through_a_kill(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("SET", "short", "x", "PX", 150)
        c.call("SET", "long", "x", "EX", 1000)
        c.call("SET", "kept", "x", "EX", 1000)
        c.call("PERSIST", "kept")
        at = c.call("PEXPIRETIME", "long")
    pion.restart()
    time.sleep(0.2)
    with Connection(pion.port) as c:
        assert c.call("MGET", "short", "long", "kept") == [None, b"x", b"x"]
        assert c.call("PEXPIRETIME", "long") == at
        assert c.call("TTL", "kept") == -1


def test_memory_stays_below_maxmemory(pion_factory: Callable[..., PionServer]) -> None:
    pion = pion_factory()
    with Connection(pion.port) as c:
        c.call("CONFIG", "SET", "maxmemory", "8mb")
        with pytest.raises(ServerError, match="^OOM"):
            for i in range(100_000):
                c.call("SET", f"key:{i}", "v" * 1000)
        assert c.call("GET", "key:0") == b"v" * 1000
        assert c.call("DEL", "key:0") == 1
        c.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        c.send_many(("SET", f"key:{i}", "v" * 1000) for i in range(30_000))
        assert [c.read() for _ in range(30_000)] == ["OK"] * 30_000
        assert c.call("DBSIZE") < 9_000
        assert c.call("GET", "key:29999") == b"v" * 1000
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("DBSIZE") < 9_000
