"""maxmemory: who goes under each policy, what is refused, and that what went is gone after a kill."""

from __future__ import annotations

import time
from typing import Callable

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire

VALUE = "v" * 2000  # what a stripe takes is reported in steps of 1 KiB: a key more or less is seen at once
OOM = "OOM command not allowed when used memory > 'maxmemory'."


def info(c: Connection, field: str) -> int:
    for line in c.call("INFO", "everything").decode().splitlines():
        if line.startswith(field + ":"):
            return int(line.partition(":")[2])
    raise AssertionError(field)


def fill(c: Connection, names: list[str], expiry: Callable[[int], int] | None = None) -> None:
    """Few keys are large, many are not."""
    value = VALUE if len(names) > 50 else VALUE * 20
    for i, name in enumerate(names):
        c.send(*(("SET", name, value) if expiry is None else ("SET", name, value, "PX", expiry(i))))
    for _ in names:
        assert c.read() == "OK"


def shrink(c: Connection, policy: str, to_keys: float) -> None:
    """Lowers the limit until no more keys are left than that."""
    c.call("CONFIG", "SET", "maxmemory-policy", policy, "hz", 100)
    limit = 2 * info(c, "used_memory")
    deadline = time.monotonic() + 60
    while c.call("DBSIZE") > to_keys:
        limit = limit * 97 // 100
        c.call("CONFIG", "SET", "maxmemory", limit)
        time.sleep(0.04)
        assert time.monotonic() < deadline


def shrink_to_half(c: Connection, policy: str) -> None:
    shrink(c, policy, c.call("DBSIZE") * 0.55)


def share_left(c: Connection, names: list[str]) -> float:
    return c.call("EXISTS", *names) / len(names)


@pytest.mark.parametrize("keys", [60, 3000])  # fewer and more than there are stripes
def test_lru_keeps_what_was_used(pion: PionServer, keys: int) -> None:
    with Connection(pion.port) as c:
        old, used = [f"old:{i}" for i in range(keys // 2)], [f"used:{i}" for i in range(keys // 2)]
        fill(c, old + used)
        time.sleep(2.2)
        c.call("TOUCH", *used)
        shrink_to_half(c, "allkeys-lru")
        assert share_left(c, used) > 0.8 and share_left(c, old) < 0.4
        assert info(c, "evicted_keys") > keys // 4
        assert c.call("OBJECT", "IDLETIME", next(name for name in used if c.call("EXISTS", name))) <= 10
        c.call("CONFIG", "SET", "maxmemory", 0)
        c.call("SET", "new", 1)
        with pytest.raises(ServerError, match="An LFU maxmemory policy is not selected"):
            c.call("OBJECT", "FREQ", "new")


@pytest.mark.parametrize("keys", [60, 3000])
def test_lfu_keeps_what_is_used_often(pion: PionServer, keys: int) -> None:
    with Connection(pion.port) as c:
        c.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu", "lfu-log-factor", "0")
        rare, often = [f"rare:{i}" for i in range(keys // 2)], [f"often:{i}" for i in range(keys // 2)]
        fill(c, often + rare)  # the rare ones were used last
        for _ in range(5):
            c.call("TOUCH", *often)
        c.call("TOUCH", *rare)
        assert c.call("OBJECT", "FREQ", often[0]) > c.call("OBJECT", "FREQ", rare[0])
        with pytest.raises(ServerError, match="An LFU maxmemory policy is selected"):
            c.call("OBJECT", "IDLETIME", often[0])
        shrink_to_half(c, "allkeys-lfu")
        assert share_left(c, often) > 0.8 and share_left(c, rare) < 0.4


@pytest.mark.parametrize("keys", [60, 3000])
def test_ttl_takes_what_expires_first(pion: PionServer, keys: int) -> None:
    with Connection(pion.port) as c:
        soon, late, never = ([f"{word}:{i}" for i in range(keys // 3)] for word in ("soon", "late", "never"))
        fill(c, late, lambda i: 90_000_000 + i)
        fill(c, soon, lambda i: 1_000_000 + i)
        fill(c, never)
        shrink(c, "volatile-ttl", keys * 0.8)
        assert share_left(c, never) == 1
        assert share_left(c, late) > 0.9 > 0.6 > share_left(c, soon)


@pytest.mark.parametrize("policy", ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"])
def test_volatile_policies_spare_what_does_not_expire(pion: PionServer, policy: str) -> None:
    with Connection(pion.port) as c:
        c.call("CONFIG", "SET", "maxmemory-policy", policy)
        volatile, lasting = [f"volatile:{i}" for i in range(50)], [f"lasting:{i}" for i in range(500)]
        fill(c, volatile, lambda i: 1_000_000 + i)
        fill(c, lasting)
        c.call("CONFIG", "SET", "maxmemory", "1")
        deadline = time.monotonic() + 30
        while c.call("EXISTS", *volatile):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert share_left(c, lasting) == 1
        with pytest.raises(ServerError, match=OOM):  # nothing is left that may go
            c.call("SET", "x", 1)


def test_volatile_lru_keeps_what_was_used(pion: PionServer) -> None:
    """Although keys that expire are few among the others."""
    with Connection(pion.port) as c:
        old, used = [f"old:{i}" for i in range(200)], [f"used:{i}" for i in range(200)]
        fill(c, used, lambda i: 1_000_000 + i)  # they would expire first
        fill(c, old, lambda i: 90_000_000 + i)
        fill(c, [f"lasting:{i}" for i in range(4000)])
        time.sleep(2.2)
        c.call("TOUCH", *used)
        shrink(c, "volatile-lru", 4400 - 120)
        assert share_left(c, used) > 0.8 and share_left(c, old) < 0.6


@pytest.mark.parametrize("policy", ["allkeys-random", "volatile-random"])
def test_random_takes_anything(pion: PionServer, policy: str) -> None:
    with Connection(pion.port) as c:
        halves = [[f"{half}:{i}" for i in range(1000)] for half in ("one", "two")]
        for half in halves:
            fill(c, half, lambda i: 1_000_000 + i)
        c.call("TOUCH", *halves[0])
        shrink_to_half(c, policy)
        for half in halves:
            assert 0.2 < share_left(c, half) < 0.8


def test_noeviction_refuses_what_grows(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("RPUSH", "l", "a", "b", "c")
        c.call("SET", "k", 1)
        c.call("MULTI")
        c.call("INCR", "k")
        with Connection(pion.port) as other:
            other.call("CONFIG", "SET", "maxmemory", "1")
        refused = [("SET", "x", 1), ("LPUSH", "l", 1), ("HSET", "h", "a", 1), ("ZADD", "z", 1, "a"), ("SADD", "s", 1), ("XADD", "x", "*", "a", 1),
                   ("INCR", "k"), ("APPEND", "k", "x"), ("SETBIT", "b", 1, 1), ("PFADD", "p", "a"), ("COPY", "k", "k2"), ("BITOP", "NOT", "k", "k")]
        with pytest.raises(ServerError, match="OOM"):
            c.call("EXEC")  # a transaction that may grow memory, as a whole
        for command in refused:
            with pytest.raises(ServerError, match=OOM):
                c.call(*command)
        assert c.call("GET", "k") == b"1" and c.call("LPOP", "l") == b"a" and c.call("EXPIRE", "k", 100) == 1
        assert c.call("RENAME", "k", "j") == "OK" and c.call("LTRIM", "l", 0, 0) == "OK" and c.call("DEL", "j", "l") == 2
        c.call("MULTI")
        with pytest.raises(ServerError, match=OOM):  # and is told so when it is queued
            c.call("SET", "x", 1)
        with pytest.raises(ServerError, match="^EXECABORT Transaction discarded because of previous errors."):
            c.call("EXEC")
        assert info(c, "evicted_keys") == 0


def test_what_was_evicted_stays_gone(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as listener:
        c.call("CONFIG", "SET", "notify-keyspace-events", "Ee")
        listener.call("SUBSCRIBE", "__keyevent@0__:evicted")
        names = [f"key:{i}" for i in range(1000)]
        fill(c, names)
        shrink_to_half(c, "allkeys-lru")
        left = {name for name in names if c.call("EXISTS", name)}
        evicted = info(c, "evicted_keys")
        assert evicted == 1000 - len(left) > 100
        told = {listener.read()[2].decode() for _ in range(evicted)}
        assert told == set(names) - left
    pion.kill()
    pion.start()
    with Connection(pion.port) as c:
        assert {name for name in names if c.call("EXISTS", name)} == left


def test_writers_at_the_limit_go_on(pion_factory: Callable[..., PionServer]) -> None:
    """Each writer makes room: nobody is refused, and memory stays near the limit, also when no upkeep helps."""
    server = pion_factory("-w", "2")
    with Connection(server.port) as c:
        c.call("CONFIG", "SET", "maxmemory", "4mb", "maxmemory-policy", "allkeys-lru", "maxmemory-eviction-tenacity", "100")
        for start in range(0, 40_000, 1000):
            fill(c, [f"key:{i}" for i in range(start, start + 1000)])
            assert info(c, "used_memory") - info(c, "mem_not_counted_for_evict") < 5 << 20
        assert info(c, "evicted_keys") > 20_000
