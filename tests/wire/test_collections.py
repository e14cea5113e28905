"""Hashes and sorted sets through kills and checkpoints, expiry of fields, large values beside other connections."""

from __future__ import annotations

import time
from typing import Callable

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire

SIZES = (3, 600, 20_000)


def fill(c: Connection) -> None:
    for size in SIZES:
        pairs = [word for i in range(size) for word in (b"f%d" % i, b"value %d" % i)]
        assert c.call("HSET", b"hash:%d" % size, *pairs) == size
        scores = [word for i in range(size) for word in (i * 7 % size, b"m%d" % i)]
        assert c.call("ZADD", b"zset:%d" % size, *scores) == size


def check(c: Connection) -> None:
    for size in SIZES:
        assert c.call("HLEN", b"hash:%d" % size) == size
        reply = c.call("HGETALL", b"hash:%d" % size)
        assert dict(zip(reply[::2], reply[1::2])) == {b"f%d" % i: b"value %d" % i for i in range(size)}
        assert c.call("ZCARD", b"zset:%d" % size) == size
        reply = c.call("ZRANGE", b"zset:%d" % size, 0, -1, "WITHSCORES")
        expected = sorted((i * 7 % size, b"m%d" % i) for i in range(size))
        assert [(int(score), member) for member, score in zip(reply[::2], reply[1::2])] == expected


@pytest.mark.parametrize("checkpoint", [False, True], ids=["from the journal", "from a checkpoint"])
def test_collections_come_back_after_a_kill(pion: PionServer, checkpoint: bool) -> None:
    with Connection(pion.port) as c:
        fill(c)
        assert c.call("HSETEX", "hash:3", "PXAT", 4_000_000_000_000, "FIELDS", 1, "f0", "value 0") == 1
        if checkpoint:
            assert c.call("SAVE") == "OK"
        c.call("HSET", "hash:600", "more", "x")
        c.call("HDEL", "hash:600", "more")
        c.call("ZADD", "zset:600", 1.5, "more")
        c.call("ZREM", "zset:600", "more")
    pion.restart()
    with Connection(pion.port) as c:
        check(c)
        assert c.call("HPEXPIRETIME", "hash:3", "FIELDS", 2, "f0", "f1") == [4_000_000_000_000, -1]
        assert c.call("OBJECT", "ENCODING", "hash:3") == b"listpackex"


def test_collections_move_as_a_whole(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        fill(c)
        for size in SIZES:
            for kind in (b"hash", b"zset"):
                name = b"%s:%d" % (kind, size)
                assert c.call("COPY", name, name + b":copy") == 1
                assert c.call("RENAME", name, name + b":moved") == "OK"
                assert c.call("EXISTS", name) == 0
                assert c.call("MOVE", name + b":moved", 3) == 1
        assert c.call("DBSIZE") == 2 * len(SIZES)
    pion.restart()
    with Connection(pion.port) as c:
        for size in SIZES:
            for kind in (b"hash", b"zset"):
                name = b"%s:%d" % (kind, size)
                assert c.call("RENAME", name + b":copy", name) == "OK"
        check(c)
        assert c.call("SELECT", 3) == "OK"
        for size in SIZES:
            for kind in (b"hash", b"zset"):
                name = b"%s:%d" % (kind, size)
                assert c.call("RENAME", name + b":moved", name) == "OK"
        check(c)


def test_every_command_of_another_type_is_refused(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("HSET", "hash", "f", "v")
        c.call("ZADD", "zset", 1, "m")
        c.call("SET", "string", "x")
        on_strings = [("GET",), ("APPEND", "x"), ("INCR",), ("STRLEN",), ("GETRANGE", 0, 1), ("SETRANGE", 0, "x"), ("GETDEL",), ("GETEX",)]
        for key in ("hash", "zset"):
            for name, *rest in on_strings:
                with pytest.raises(ServerError, match="^WRONGTYPE"):
                    c.call(name, key, *rest)
        on_hashes = [("HGET", "f"), ("HSET", "f", "v"), ("HDEL", "f"), ("HLEN",), ("HGETALL",), ("HSCAN", 0), ("HTTL", "FIELDS", 1, "f")]
        on_sorted_sets = [("ZADD", 1, "m"), ("ZSCORE", "m"), ("ZRANGE", 0, -1), ("ZPOPMIN",), ("ZSCAN", 0), ("ZRANK", "m")]
        for commands, keys in ((on_hashes, ("zset", "string")), (on_sorted_sets, ("hash", "string"))):
            for name, *rest in commands:
                for key in keys:
                    with pytest.raises(ServerError, match="^WRONGTYPE"):
                        c.call(name, key, *rest)
        for key, kind in (("hash", b"hash"), ("zset", b"zset"), ("string", b"string")):
            assert c.call("TYPE", key) == kind.decode()
            assert c.call("SCAN", 0, "TYPE", kind, "COUNT", 1000)[1] == [key.encode()]
        assert c.call("SET", "hash", "now a string") == "OK"
        assert c.call("GET", "hash") == b"now a string"


def test_fields_expire_by_themselves_and_a_hash_left_empty_goes(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        for i in range(50):
            c.call("HSET", f"all:{i}", "a", "1", "b", "2")
            c.call("HPEXPIRE", f"all:{i}", 60, "FIELDS", 2, "a", "b")
        pairs = [word for i in range(5_000) for word in (b"f%d" % i, b"x")]
        c.call("HSET", "large", "stays", "x", *pairs)
        fields = [b"f%d" % i for i in range(5_000)]
        c.call("HPEXPIRE", "large", 60, "FIELDS", len(fields), *fields)
        deadline = time.monotonic() + 20
        while c.call("DBSIZE") > 1 or c.call("HLEN", "large") > 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert c.call("HGETALL", "large") == [b"stays", b"x"]
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("DBSIZE") == 1
        assert c.call("HGETALL", "large") == [b"stays", b"x"]


def walk(c: Connection, command: str, key: str, between: Callable[[int], None]) -> set[bytes]:
    cursor, seen, step = b"0", set(), 0
    while True:
        cursor, elements = c.call(command, key, cursor, "COUNT", 20)
        seen.update(elements[::2])
        if cursor == b"0":
            return seen
        between(step)
        step += 1


def test_a_scan_meets_what_stays_while_the_value_grows_and_shrinks(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        stays = {b"stays%d" % i for i in range(700)}
        c.call("HSET", "h", *(word for name in sorted(stays) for word in (name, b"x")))
        c.call("ZADD", "z", *(word for name in sorted(stays) for word in (1, name)))

        def change(step: int) -> None:
            goes = [b"goes%d" % (i + step % 10 * 300) for i in range(300)]
            if step // 10 % 2 == 0:
                c.call("HSET", "h", *(word for name in goes for word in (name, b"y")))
                c.call("ZADD", "z", *(word for name in goes for word in (2, name)))
            else:
                c.call("HDEL", "h", *goes)
                c.call("ZREM", "z", *goes)

        assert stays <= walk(c, "HSCAN", "h", change)
        assert stays <= walk(c, "ZSCAN", "z", change)


def test_memory_of_a_deleted_collection_comes_back(pion: PionServer) -> None:
    def used(c: Connection) -> int:
        return int(next(line for line in c.call("INFO", "memory").splitlines() if line.startswith(b"used_memory_dataset:")).split(b":")[1])

    with Connection(pion.port) as c:
        c.call("SET", "string", "x")
        before = used(c)
        for round in range(3):
            for i in range(0, 60_000, 2_000):
                c.call("HSET", "hash", *(word for n in range(i, i + 2_000) for word in (b"f%d" % n, b"value %d" % n)))
                c.call("ZADD", "zset", *(word for n in range(i, i + 2_000) for word in (n, b"m%d" % n)))
            assert used(c) > before + 4_000_000
            if round == 0:
                c.call("DEL", "hash", "zset")
            elif round == 1:
                c.call("SET", "hash", "x")
                c.call("SET", "zset", "x")
                c.call("DEL", "hash", "zset")
            else:
                c.call("FLUSHALL")
            assert used(c) < before + 200_000


def test_memory_usage_grows_with_the_value(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        assert c.call("MEMORY", "USAGE", "none") is None
        c.call("SET", "string", "x" * 100)
        small = c.call("MEMORY", "USAGE", "string")
        assert 100 < small < 250
        c.call("HSET", "hash", "field", "x" * 100)
        assert 100 < c.call("MEMORY", "USAGE", "hash") < 300
        c.call("ZADD", "zset", *(word for i in range(5_000) for word in (i, b"m%d" % i)))
        assert 5_000 * 30 < c.call("MEMORY", "USAGE", "zset", "SAMPLES", 0) < 5_000 * 80
        for wrong in (("SAMPLES",), ("SAMPLES", -1), ("SAMPLES", "x"), ("BAD", 1)):
            with pytest.raises(ServerError):
                c.call("MEMORY", "USAGE", "hash", *wrong)


def test_sets_go_into_a_union_of_sorted_sets(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("SADD", "set", "a", "b")
        c.call("ZADD", "zset", 5, "b", 7, "c")
        assert c.call("ZUNION", 2, "zset", "set", "WITHSCORES") == [b"a", b"1", b"b", b"6", b"c", b"7"]
        assert c.call("ZINTERSTORE", "into", 2, "set", "zset", "WEIGHTS", 10, 1) == 1
        assert c.call("ZSCORE", "into", "b") == b"15"
        assert c.call("ZDIFF", 2, "set", "zset") == [b"a"]
