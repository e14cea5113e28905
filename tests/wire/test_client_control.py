"""CLIENT PAUSE, UNPAUSE, UNBLOCK: replies as Redis 8.2.3, and what waits, is run and is kept in order."""

from __future__ import annotations

import socket
import time
from typing import Any, Callable

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer, Redis82

pytestmark = pytest.mark.wire

SAME = """
CLIENT UNBLOCK 99999
CLIENT UNBLOCK x
CLIENT UNBLOCK 9999 FOO
CLIENT UNBLOCK 9999 ERROR
CLIENT UNBLOCK 9999 timeout x
CLIENT UNBLOCK
CLIENT UNPAUSE
CLIENT UNPAUSE x
CLIENT PAUSE
CLIENT PAUSE x
CLIENT PAUSE -1
CLIENT PAUSE 1 foo
CLIENT PAUSE 1 WRITE x
CLIENT PAUSE 99999999999999999999
CLIENT PAUSE 1 WRITE
CLIENT PAUSE 0 ALL
"""


def test_replies_equal_the_reference(pion: PionServer, redis82: Redis82) -> None:
    for line in SAME.strip().splitlines():
        answers = []
        for server in (pion, redis82):
            with Connection(server.port) as c:
                c.send(*line.split())
                answers.append(str(c.read()))
        assert answers[0] == answers[1], line


def blocked(c: Connection) -> int:
    return int(c.call("INFO", "clients").decode().split("blocked_clients:")[1].split()[0])


def wait_until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def test_a_pause_of_writes(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2")
    with Connection(server.port) as c, Connection(server.port) as writer, Connection(server.port) as publisher, Connection(server.port) as queue:
        queue.call("MULTI")
        queue.call("SET", "queued", "1")
        assert c.call("CLIENT", "PAUSE", "100000", "WRITE") == "OK"
        big = b"x" * 100_000
        writer.send_many([("GET", "a"), ("SET", "a", big), ("STRLEN", "a"), ("SET", "a", "2"), ("GET", "a")])
        publisher.send("PUBLISH", "nobody", "x")
        queue.send("EXEC")
        assert writer.read() is None, "reads go on"
        wait_until(lambda: blocked(c) == 3, "three wait")
        assert b" flags=b " in c.call("CLIENT", "LIST")
        assert c.call("EXISTS", "a", "queued") == 0
        writer_id = next(int(line.split()[0][3:]) for line in c.call("CLIENT", "LIST").decode().splitlines() if "flags=b" in line)
        assert c.call("CLIENT", "UNBLOCK", writer_id) == 0, "who waits for the end of a pause is not blocked in that sense"
        assert c.call("CLIENT", "UNPAUSE") == "OK"
        assert [writer.read() for _ in range(4)] == ["OK", 100_000, "OK", b"2"]
        assert publisher.read() == 0 and queue.read() == ["OK"]
        assert blocked(c) == 0


def test_a_pause_of_all_ends_by_itself(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as other:
        began = time.monotonic()
        assert c.call("CLIENT", "PAUSE", "400") == "OK"
        other.send_many([("PING",), ("SET", "a", "1"), ("GET", "a")])
        assert [other.read() for _ in range(3)] == ["PONG", "OK", b"1"]
        assert time.monotonic() - began >= 0.39
        assert blocked(c) == 0


def test_a_pause_is_only_made_longer_and_stricter(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as other:
        assert c.call("CLIENT", "PAUSE", "100000", "WRITE") == "OK"
        assert c.call("CLIENT", "PAUSE", "1", "WRITE") == "OK"
        time.sleep(0.05)
        other.send("SET", "a", "1")
        wait_until(lambda: blocked(c) == 1, "the earlier end counts not")
        assert c.call("CLIENT", "UNPAUSE") == "OK"
        assert other.read() == "OK"


@pytest.mark.parametrize("end", ["close", "half-close", "kill", "stop"])
def test_clients_that_go_while_they_wait_for_the_end_of_a_pause(pion: PionServer, end: str) -> None:
    with Connection(pion.port) as c:
        victim = Connection(pion.port)
        identity = victim.call("CLIENT", "ID")
        c.call("CLIENT", "PAUSE", "100000", "WRITE")
        victim.send("SET", "a", b"x" * 100_000)
        wait_until(lambda: blocked(c) == 1, "it waits")
        if end == "stop":
            assert pion.stop() == 0
            return
        if end == "close":
            victim.close()
            wait_until(lambda: blocked(c) == 0, "it is gone")
        elif end == "kill":
            assert c.call("CLIENT", "KILL", "ID", identity) == 1
            assert blocked(c) == 0
        else:
            victim.socket.shutdown(socket.SHUT_WR)
            with pytest.raises(ConnectionError):
                victim.read()  # as a blocked client
        assert c.call("CLIENT", "UNPAUSE") == "OK"
        assert c.call("EXISTS", "a") == 0


def test_unblock(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2")
    with Connection(server.port) as c, Connection(server.port) as waiting:
        identity = waiting.call("CLIENT", "ID")
        assert c.call("CLIENT", "UNBLOCK", identity) == 0
        for words, wanted in [((), 0), (("TIMEOUT",), 0), (("ERROR",), "UNBLOCKED client unblocked via CLIENT UNBLOCK")]:
            waiting.send_many([("WAIT", "1", "0"), ("ECHO", "behind")])
            wait_until(lambda: blocked(c) == 1, "it waits")
            assert c.call("CLIENT", "UNBLOCK", identity, *words) == 1
            got = waiting.read()
            assert (str(got) if isinstance(got, ServerError) else got) == wanted
            assert waiting.read() == b"behind"
            assert c.call("CLIENT", "UNBLOCK", identity) == 0


def test_nothing_expires_under_a_pause(pion_factory: Callable[..., PionServer]) -> None:
    """Expired keys are hidden and stay, for the sweep, too; one that is written in the pausing transaction takes the hidden one's place."""
    server = pion_factory("--hz", "100")
    with Connection(server.port) as c:
        c.call("CONFIG", "RESETSTAT")
        for words in (("MULTI",), ("SET", "a", 1, "PX", 10), ("SET", "b", 1, "PX", 10), ("HSET", "h", "f", 1), ("HPEXPIRE", "h", 10, "FIELDS", 1, "f"), ("CLIENT", "PAUSE", 60000, "WRITE"), ("EXEC",)):
            c.call(*words)
        time.sleep(0.2)
        assert [c.call("GET", "a"), c.call("EXISTS", "a", "b"), c.call("HGET", "h", "f"), c.call("TTL", "b")] == [None, 0, None, -2]
        assert c.call("DBSIZE") == 3 and b"expired_keys:0\r\n" in c.call("INFO", "stats")
        c.call("CLIENT", "UNPAUSE")
        assert [c.call("GET", "a"), c.call("GET", "b")] == [None, None]
        assert b"expired_keys:2\r\n" in c.call("INFO", "stats")
        c.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        c.call("SET", "k", 1, "PX", 1)
        time.sleep(0.01)
        for words in (("MULTI",), ("CLIENT", "PAUSE", 60000, "WRITE"), ("GET", "k"), ("SET", "k", 2), ("LPUSH", "l", 1), ("EXEC",)):
            reply = c.call(*words)
        assert reply == ["OK", None, "OK", 1]
        assert c.call("GET", "k") == b"2"
        c.call("CLIENT", "UNPAUSE")
        assert [c.call("GET", "k"), c.call("TTL", "k"), c.call("DEL", "k"), c.call("EXISTS", "k")] == [b"2", -1, 1, 0]


def test_what_may_replicate_waits_for_the_end_of_a_pause(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("PFADD", "h", "a")
        c.call("CLIENT", "PAUSE", 60000, "WRITE")
        waiting = [Connection(pion.port) for _ in range(3)]
        for connection, words in zip(waiting, [("PFCOUNT", "h"), ("PUBLISH", "c", "m"), ("SPUBLISH", "c", "m")], strict=True):
            connection.send(*words)
        deadline = time.monotonic() + 10
        while b"blocked_clients:3" not in c.call("INFO", "clients"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        c.call("CLIENT", "UNPAUSE")
        assert [connection.read() for connection in waiting] == [1, 0, 0]
        for connection in waiting:
            connection.close()
