"""CONFIG over a running server: several parameters at once, rollback, ports, save points, parameters with one value."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Callable

import pytest

from support.resp import Connection, ServerError, as_map
from support.servers import PionServer, free_port

pytestmark = pytest.mark.wire


def get(c: Connection, *names: str) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in as_map(c.call("CONFIG", "GET", *names)).items()}


def test_get_several_patterns(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        flat = c.call("CONFIG", "GET", "maxmemory", "maxmemory*", "bind", "*of", "BIND", "nosuch", "nosuch*")
        names = [name.decode() for name in flat[::2]]
        assert len(names) == len(set(names))
        assert {"maxmemory", "maxmemory-samples", "maxmemory-clients", "bind", "slaveof", "replicaof"} <= set(names)
        assert "key-load-delay" not in get(c, "*") and get(c, "key-load-delay") == {"key-load-delay": "0"}, "hidden from patterns only"


def test_all_or_nothing(pion: PionServer) -> None:
    with Connection(pion.port) as c, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        before = get(c, "maxmemory", "port", "client-query-buffer-limit", "maxmemory-clients", "hz", "save")
        refusals = [
            (["maxmemory", "10000001", "maxmemory-clients", "200%", "client-query-buffer-limit", "invalid"],
             "(possibly related to argument 'maxmemory-clients') - percentage argument must be less or equal to 100"),
            (["maxmemory", "10000001", "port", taken.getsockname()[1], "client-query-buffer-limit", "10m"],
             "(possibly related to argument 'port') - Unable to listen on this port. Check server logs."),
            (["hz", "50", "bind", "203.0.113.1"], "(possibly related to argument 'bind') - Failed to bind to specified addresses."),
            (["hz", "50", "hz", "60"], "(possibly related to argument 'hz') - duplicate parameter"),
            (["hz", "50", "daemonize", "no"], "(possibly related to argument 'daemonize') - can't set immutable config"),
            (["hz", "50", "save", "1 2 3"], "(possibly related to argument 'save') - Invalid save parameters"),
            (["hz", "50", "maxmemory", "x"], "(possibly related to argument 'maxmemory') - argument must be a memory value"),
        ]
        for words, text in refusals:
            with pytest.raises(ServerError) as refused:
                c.call("CONFIG", "SET", *words)
            assert str(refused.value) == "ERR CONFIG SET failed " + text
            assert get(c, *before) == before
        with pytest.raises(ServerError) as refused:
            c.call("CONFIG", "SET", "hz", "50", "nosuch", "1")
        assert str(refused.value) == "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"
        assert c.call("CONFIG", "SET", "maxmemory", "10000001", "repl-backlog-size", "10000002", "save", "3000 5") == "OK"
        assert get(c, "maxmemory", "repl-backlog-size", "save") == {"maxmemory": "10000001", "repl-backlog-size": "10000002", "save": "3000 5"}


def test_one_value_parameters_say_why(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        assert c.call("CONFIG", "SET", "activedefrag", "no") == "OK"
        with pytest.raises(ServerError, match="'activedefrag'. - it is always 'no' here: memory is not defragmented"):
            c.call("CONFIG", "SET", "activedefrag", "yes")
        with pytest.raises(ServerError, match="must be 'yes' or 'no'"):
            c.call("CONFIG", "SET", "activedefrag", "maybe")


def test_another_port(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        old, new = pion.port, free_port()
        assert c.call("CONFIG", "SET", "port", new) == "OK"
        deadline = time.monotonic() + 10
        while True:  # the old door closes a moment later
            try:
                Connection(old).close()
            except ConnectionRefusedError:
                break
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with Connection(new) as other:
            assert other.call("PING") == "PONG"
            assert b"tcp_port:%d\r\n" % new in other.call("INFO", "server")
            assert other.call("CONFIG", "SET", "bind", "127.0.0.1 127.0.0.2") == "OK"
        with Connection(new, host="127.0.0.2") as there, Connection(new) as here:
            assert there.call("PING") == here.call("PING") == "PONG"
        assert c.call("PING") == "PONG", "connections stay"
        assert c.call("CONFIG", "SET", "bind", "127.0.0.1") == "OK"


def test_save_points(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        assert c.call("CONFIG", "SET", "save", "1 10") == "OK"
        start = c.call("LASTSAVE")
        for i in range(9):
            c.call("SET", i, i)
        time.sleep(2.5)
        assert not list(pion.dir.glob("checkpoint/*.ckpt")), "too few changes"
        c.call("SET", "last", 1)
        deadline = time.monotonic() + 20
        while not list(pion.dir.glob("checkpoint/*.ckpt")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        while c.call("LASTSAVE") == start:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_file_lines_and_rewrite(pion_factory: Callable[..., PionServer], tmp_path: Path) -> None:
    config = tmp_path / "pion.conf"
    config.write_text("save 3600 1\nsave 300 100\ndaemonize no\nrepl-timeout 77\nnotify-keyspace-events KEAnm\nstop-writes-on-bgsave-error no\n")
    server = pion_factory("--config", str(config))
    with Connection(server.port) as c:
        assert get(c, "save", "repl-timeout", "notify-keyspace-events") == {
            "save": "3600 1 300 100", "repl-timeout": "77", "notify-keyspace-events": "AKEm"}
        c.call("CONFIG", "SET", "hz", "20", "lazyfree-lazy-user-del", "no")
        c.call("CONFIG", "REWRITE")
    lines = config.read_text().splitlines()
    assert lines[:5] == ["save 3600 1 300 100", "daemonize no", "repl-timeout 77", "notify-keyspace-events AnKEm", "stop-writes-on-bgsave-error no"]
    assert {"hz 20", "lazyfree-lazy-user-del no"} <= set(lines[5:])
    assert not any(line.startswith("save") for line in lines[1:])
    server.stop()
    server.start()
    with Connection(server.port) as c:
        assert get(c, "hz", "save", "lazyfree-lazy-user-del") == {"hz": "20", "save": "3600 1 300 100", "lazyfree-lazy-user-del": "no"}
