"""Lists on a running server: large ones, both encodings, through kills and moves."""

from __future__ import annotations

import random
from collections import deque

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire


def whole(c: Connection, key: bytes) -> list[bytes]:
    return c.call("LRANGE", key, 0, -1)


def test_a_large_list_comes_back_after_a_kill(pion: PionServer) -> None:
    r = random.Random(7)
    model: deque[bytes] = deque()
    with Connection(pion.port) as c:
        for step in range(400):
            words = [b"%d:%d" % (step, i) for i in range(r.randint(1, 60))]
            if r.random() < 0.5:
                c.call("LPUSH", "big", *words)
                model.extendleft(words)
            else:
                c.call("RPUSH", "big", *words)
                model.extend(words)
        model[len(model) // 2] = b"in the middle"
        assert c.call("LSET", "big", len(model) // 2, "in the middle") == "OK"
        assert c.call("LINSERT", "big", "BEFORE", "in the middle", b"z" * 20_000) == len(model) + 1
        model.insert(len(model) // 2, b"z" * 20_000)
        assert c.call("RPOP", "big", 1000) == [model.pop() for _ in range(1000)]
        assert c.call("LREM", "big", 0, model[10]) == 1
        del model[10]
        assert c.call("LTRIM", "big", 100, -101) == "OK"
        kept = list(model)[100:-100]
        assert c.call("RPUSH", "small", "1", "two", "") == 3
        assert c.call("LMOVE", "small", "moved", "LEFT", "RIGHT") == b"1"
    for way in ("kill", "kill", "stop"):
        pion.kill() if way == "kill" else pion.stop()
        pion.start()
        with Connection(pion.port) as c:
            assert whole(c, b"big") == kept
            assert whole(c, b"small") == [b"two", b""] and whole(c, b"moved") == [b"1"]
            assert c.call("OBJECT", "ENCODING", "big") == b"quicklist"
            assert c.call("OBJECT", "ENCODING", "small") == b"listpack"
            assert c.call("RENAME", "big", "other") == "OK" and c.call("COPY", "other", "big") == 1
            assert whole(c, b"other") == kept
            assert c.call("DEL", "other") == 1


def test_wrong_types_and_an_empty_list_is_no_key(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("SET", "s", "x")
        for command in (("LPUSH", "s", "a"), ("LPOP", "s"), ("LRANGE", "s", 0, 1), ("LMOVE", "s", "l", "LEFT", "LEFT"), ("LMPOP", 1, "s", "LEFT")):
            with pytest.raises(ServerError, match="WRONGTYPE"):
                c.call(*command)
        c.call("RPUSH", "l", "a", "b")
        with pytest.raises(ServerError, match="WRONGTYPE"):
            c.call("RPOPLPUSH", "l", "s")
        assert whole(c, b"l") == [b"a", b"b"]
        assert c.call("LMPOP", 2, "none", "l", "RIGHT", "COUNT", 5) == [b"l", [b"b", b"a"]]
        assert c.call("EXISTS", "l") == 0 and c.call("DBSIZE") == 1
        with pytest.raises(ServerError, match="WRONGTYPE"):
            c.call("GET", "s2") if c.call("LPUSH", "s2", "x") == 1 else None


def test_the_limit_of_a_listpack_is_an_option(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        assert c.call("CONFIG", "GET", "list-max-ziplist-size") == [b"list-max-ziplist-size", b"-2"]
        assert c.call("CONFIG", "SET", "list-max-listpack-size", 3) == "OK"
        c.call("RPUSH", "l", "a", "b", "c")
        assert c.call("OBJECT", "ENCODING", "l") == b"listpack"
        c.call("RPUSH", "l", "d")
        assert c.call("OBJECT", "ENCODING", "l") == b"quicklist"
        assert c.call("LPOP", "l", 3) == [b"a", b"b", b"c"]
        assert c.call("OBJECT", "ENCODING", "l") == b"listpack"
