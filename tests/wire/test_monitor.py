"""MONITOR: the lines of Redis 8.2.3, from all threads, and a reader that does not read."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Callable

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer, Redis82

pytestmark = pytest.mark.wire

# What one connection sends; what a monitor is told of it must be the same.
COMMANDS: list[tuple[bytes | str, ...]] = [
    ("AUTH", "foo"), ("AUTH", "default", "bar"), ("HELLO", "3", "AUTH", "default", "foo", "SETNAME", "x"), ("HELLO", "2"),
    ("SET", "a", b"x y\"\x01\n\r\t\x07\x08\\\xc3\xa9\x00'"), ("get", "a"), ("MULTI",), ("SET", "b", "1"), ("SELECT", "3"), ("GET", "b"), ("EXEC",),
    ("SELECT", "0"), ("MULTI",), ("SET", "b"), ("EXEC",), ("EXEC",), ("FOO",), ("SET", "a"), ("CONFIG", "GET", "port"), ("CLIENT", "LIST"),
    ("CLIENT", "SETNAME", "abc"), ("PING",), ("WAIT", "1", "10"), ("INFO", "clients"), ("KEYS", "*"), ("CLIENT", "KILL", "ID", "99999999"),
    ("ECHO", ""), ("MULTI",), ("KEYS", "*"), ("EXEC",), ("SUBSCRIBE", "x"), ("GET", "a"), ("UNSUBSCRIBE",), ("RESET",), ("QUIT",),
]


def lines_of(port: int, until: bytes) -> list[str]:
    with Connection(port) as monitor:
        assert monitor.call("MONITOR") == "OK"
        with Connection(port) as c:
            for words in COMMANDS:
                c.send(*words)
                c.read()
        with Connection(port) as last:
            last.call("ECHO", until)
        lines = []
        while until.decode() not in (line := monitor._line().decode()):
            lines.append(line)
    return lines


def test_lines_equal_the_reference(pion: PionServer, redis82: Redis82) -> None:
    shown = []
    for server in (pion, redis82):
        lines = lines_of(server.port, b"the-end")
        assert all(re.fullmatch(r'\+\d{10}\.\d{6} \[\d+ 127\.0\.0\.1:\d+\] ".*"', line) for line in lines), lines
        shown.append([re.sub(r"^\S+ \[(\d+) \S+\]", r"\1", line) for line in lines])
    assert shown[0] == shown[1]


def test_what_a_monitor_may_send(pion: PionServer, redis82: Redis82) -> None:
    told = []
    for server in (pion, redis82):
        with Connection(server.port) as c, Connection(server.port) as other:
            c.send_many([("MONITOR",), ("MONITOR",), ("GET", "n"), ("SET", "n", "1"), ("PUBLISH", "n", "1"), ("MULTI",), ("MONITOR",), ("EXEC",)])
            answers = []
            while not answers or not isinstance(answers[-1], list):
                reply = c.read()
                if not (isinstance(reply, str) and " [0 " in reply):
                    answers.append(reply)
            assert b" flags=O " in other.call("CLIENT", "LIST", "TYPE", "normal")
            c.send("RESET")
            while c.read() != "RESET":
                pass
            assert c.call("GET", "n") is None
            told.append([[str(part) for part in answer] if isinstance(answer, list) else str(answer) for answer in answers])
    assert told[0] == told[1]


def test_the_unix_socket_and_large_values(pion: PionServer) -> None:
    with Connection(pion.port) as monitor, Connection(path=str(pion.socket)) as c:
        monitor.call("MONITOR")
        c.call("SET", "big", b"x" * 100_000)
        assert monitor.read().split(" ", 1)[1] == f'[0 unix:{pion.socket}] "SET" "big" "(100000 bytes)"'


def test_all_monitors_see_one_order_over_threads(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "3")
    monitors = [Connection(server.port) for _ in range(3)]
    for monitor in monitors:
        monitor.call("MONITOR")

    def work(number: int) -> None:
        with Connection(server.port) as c:
            c.send_many([("ECHO", f"{number}:{i}") for i in range(500)])
            for _ in range(500):
                c.read()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    seen = [[monitor.read() for _ in range(2000)] for monitor in monitors]
    for thread in threads:
        thread.join()
    assert seen[0] == seen[1] == seen[2]
    for number in range(4):
        mine = [int(found[1]) for line in seen[0] if (found := re.search(rf'"{number}:(\d+)"$', line))]
        assert mine == list(range(500))
    for monitor in monitors:
        monitor.close()


@pytest.mark.parametrize("end", ["slow", "close", "half-close"])
def test_monitors_that_go(pion_factory: Callable[..., PionServer], end: str) -> None:
    server = pion_factory("--client-output-buffer-limit", "pubsub 500kb 0 0")
    with Connection(server.port) as c:
        monitor = Connection(server.port)
        identity = monitor.call("CLIENT", "ID")
        monitor.call("MONITOR")
        if end == "close":
            monitor.close()
        elif end == "half-close":
            monitor.socket.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + 30
        while c.call("CLIENT", "LIST", "ID", identity):
            if end == "slow":
                c.call("ECHO", b"x" * 30_000)
            assert time.monotonic() < deadline
        monitor.close()


def test_nobody_monitors_before_authentication(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--requirepass", "secret")
    with Connection(server.port) as c:
        with pytest.raises(ServerError, match="^NOAUTH"):
            c.call("MONITOR")
