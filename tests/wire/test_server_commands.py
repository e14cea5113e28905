"""CONFIG, INFO, SAVE, SHUTDOWN, WAIT, WAITAOF, TIME, DEBUG, MODULE as a client sees them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from support import parts
from support.resp import Connection, ServerError, as_map
from support.servers import PionServer, Redis82, free_port

pytestmark = pytest.mark.wire

SAME = """
CONFIG GET nosuch
CONFIG GET databases
CONFIG GET DATABASES
CONFIG GET maxmemory-policy
CONFIG GET
CONFIG SET a
CONFIG SET a b
CONFIG SET a b c
CONFIG SET maxmemory x
CONFIG SET maxmemory -1
CONFIG SET timeout 1 timeout 2
CONFIG SET timeout 1 nosuch 2
CONFIG SET timeout x
CONFIG SET timeout -1
CONFIG SET appendfsync x
CONFIG SET maxmemory-policy x
CONFIG SET databases 3
CONFIG SET maxmemory-samples 5
CONFIG REWRITE
CONFIG RESETSTAT
CONFIG RESETSTAT x
MODULE
MODULE nosuch
MODULE LIST x
MODULE LOAD
MODULE LOAD /some/path
MODULE LOADEX /some/path CONFIG a b
MODULE UNLOAD x
LOLWUT VERSION 7
LOLWUT VERSION x
SAVE x
BGSAVE x
BGSAVE a b
SHUTDOWN foo
SHUTDOWN ABORT
SHUTDOWN SAVE NOSAVE
SHUTDOWN ABORT NOSAVE
SHUTDOWN NOW FORCE ABORT
WAITAOF
WAITAOF 2 0 0
WAITAOF -1 0 0
WAITAOF 0 0 -1
WAITAOF 0 0 x
WAITAOF 0 -1 0
WAITAOF x 0 0
WAITAOF 0 x 0
WAIT 0 0
WAIT x 0
WAIT 0 x
WAIT 0 -1
WAIT 1 20
TIME x
DEBUG
DEBUG nosuch
DEBUG SLEEP
DEBUG SLEEP 0
DEBUG SLEEP x
DEBUG SET-ACTIVE-EXPIRE
DEBUG SET-ACTIVE-EXPIRE 1
DEBUG ERROR text
DEBUG JMAP
INFO nosuch
LASTSAVE x
"""


def answer(port: int, *words: str | bytes, protocol: int = 2) -> Any:
    with Connection(port, protocol=protocol) as connection:
        connection.send(*words)
        reply = connection.read()
        return str(reply) if isinstance(reply, ServerError) else reply


@pytest.fixture(scope="module")
def reference() -> Redis82:
    with Redis82("--enable-debug-command", "yes") as server:
        yield server


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_equal_the_reference(pion_shared: PionServer, reference: Redis82, protocol: int) -> None:
    for line in SAME.strip().splitlines():
        words = line.split()
        assert answer(pion_shared.port, *words, protocol=protocol) == answer(reference.port, *words, protocol=protocol), line


def info(connection: Connection, *sections: str) -> dict[str, str]:
    lines = connection.call("INFO", *sections).decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if line and not line.startswith("#"))


def test_info_has_what_clients_read(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2")
    with Connection(server.port) as c:
        c.call("SET", "a", "1")
        c.call("SET", "b", "1", "EX", "100")
        c.call("GET", "a")
        c.call("GET", "missing")
        told = info(c)
        expected = {
            "redis_version": "8.2.3", "redis_mode": "standalone", "tcp_port": str(server.port), "unixsocket": str(server.socket),
            "process_id": str(server.pid), "executable": str(parts.pion_server().resolve()), "config_file": "", "connected_clients": "1",
            "role": "master", "loading": "0", "aof_enabled": "1", "cluster_enabled": "0", "keyspace_hits": "1", "keyspace_misses": "1",
            "threads": "2", "writes_accepted": "1", "journal_corrupt_records": "0", "prompt_segments": "0", "data_dir": str(server.dir),
        }
        assert {k: told.get(k) for k in expected} == expected
        assert told["db0"].startswith("keys=2,expires=1,avg_ttl=")
        assert len(told["run_id"]) == 40 and int(told["used_memory"]) > 0 and int(told["journal_written_lsn"]) >= 2
        assert set(info(c, "server")) < set(told) and "used_memory" not in info(c, "server")
        assert set(info(c, "Memory", "CLIENTS")) == set(info(c, "memory")) | set(info(c, "clients"))
        assert set(info(c, "all")) == set(info(c, "everything")) > set(told)
        assert c.call("CONFIG", "RESETSTAT") == "OK"
        assert info(c, "stats")["keyspace_hits"] == "0"
    with Connection(server.port, protocol=3) as c:
        assert c.call("INFO", "server").startswith(b"# Server\r\nredis_version:8.2.3\r\n")


def test_config_get_takes_several_globs(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        values = as_map(c.call("CONFIG", "GET", "max*", "maxmemory", "appendonly", "nosuch"))
        assert values[b"appendonly"] == b"yes" and values[b"maxmemory"] == b"0" and values[b"maxclients"]
        assert as_map(c.call("CONFIG", "GET", "dir"))[b"dir"].decode() == str(pion_shared.dir)
        assert {b"port", b"bind", b"save", b"requirepass", b"workers"} <= set(as_map(c.call("CONFIG", "GET", "*")))


def test_config_set_takes_effect(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        assert c.call("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru", "appendfsync", "always") == "OK"
        assert as_map(c.call("CONFIG", "GET", "maxmemory*"))[b"maxmemory"] == b"104857600"
        assert info(c, "memory")["maxmemory_policy"] == "allkeys-lru"
        assert info(c, "pion")["journal_sync"] == "always"
        with pytest.raises(ServerError, match="can't set immutable config"):
            c.call("CONFIG", "SET", "maxmemory", "5mb", "databases", "1")
        assert as_map(c.call("CONFIG", "GET", "maxmemory"))[b"maxmemory"] == b"104857600", "all or none"
        assert c.call("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction") == "OK"
        with pytest.raises(ServerError, match="^OOM command not allowed when used memory > 'maxmemory'"):
            for i in range(10):
                c.call("SET", f"k{i}", "x" * 1000)
        assert c.call("CONFIG", "SET", "maxmemory", "0") == "OK"
        assert c.call("SET", "k", "x") == "OK"
        assert c.call("DEBUG", "SET-ACTIVE-EXPIRE", "0") == "OK"
        assert as_map(c.call("CONFIG", "GET", "active-expire"))[b"active-expire"] == b"no"


def test_every_run_time_parameter_can_be_set_to_what_it_is(pion: PionServer) -> None:
    fixed = {"unixsocket", "unixsocketperm", "tcp-backlog", "workers", "dir", "appendonly", "databases", "logfile", "profile",
             "enable-debug-command", "daemonize", "supervised", "pidfile", "always-show-logo", "set-proc-title", "syslog-enabled", "disable-thp",
             "enable-module-command", "enable-protected-configs", "appenddirname", "rdbchecksum", "cluster-enabled", "replicaof", "slaveof"}
    with Connection(pion.port) as c:
        values = {k.decode(): v for k, v in as_map(c.call("CONFIG", "GET", "*")).items()}
        refused = set()
        for name, value in values.items():
            try:
                assert c.call("CONFIG", "SET", name, value) == "OK"
            except ServerError as error:
                assert "immutable" in str(error)
                refused.add(name)
        assert refused == fixed
        assert {k.decode(): v for k, v in as_map(c.call("CONFIG", "GET", "*")).items()} == values


def test_idle_clients_are_closed(pion: PionServer) -> None:
    with Connection(pion.port) as setter:
        setter.call("CONFIG", "SET", "timeout", "1")
    with Connection(pion.port) as idle:
        with pytest.raises(ConnectionError):
            idle.read()


def test_maxclients(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("CONFIG", "SET", "maxclients", "1")
        with Connection(pion.port) as second:
            assert "max number of clients reached" in str(second.read())


def test_config_file_and_rewrite(pion_factory: Callable[..., PionServer], tmp_path: Path) -> None:
    config = tmp_path / "pion.conf"
    config.write_text("# kept\nmaxmemory 10mb\n\ntimeout 100 \n")
    server = pion_factory("--config", str(config))
    with Connection(server.port) as c:
        assert as_map(c.call("CONFIG", "GET", "maxmemory"))[b"maxmemory"] == str(10 << 20).encode()
        c.call("CONFIG", "SET", "maxmemory", "20mb", "loglevel", "verbose")
        assert c.call("CONFIG", "REWRITE") == "OK"
        assert info(c, "server")["config_file"] == str(config)
    text = config.read_text()
    assert text.startswith("# kept\nmaxmemory 20mb\n\ntimeout 100\n") and "loglevel verbose" in text
    server.restart()
    with Connection(server.port) as c:
        assert as_map(c.call("CONFIG", "GET", "maxmemory"))[b"maxmemory"] == str(20 << 20).encode()


def start(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(parts.pion_server()), *arguments], capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


def test_starts_that_must_fail_say_why(tmp_path: Path) -> None:
    for arguments, sentence in [
        (["--prot", "1"], "did you mean --port?"),
        (["--port"], "--port needs a value"),
        (["--port", "x"], "--port: 'x' is not valid, expected an integer from 0 to 65535"),
        (["--maxmemory", "many"], "--maxmemory: 'many' is not valid, expected a number of bytes"),
        (["--tenant", "a=b"], "--tenant is not in this release"),
        (["--config", str(tmp_path / "none.conf")], "cannot read the configuration file"),
        (["--requirepass-file", str(tmp_path / "none")], "cannot read"),
    ]:
        failed = start(*arguments, "--dir", str(tmp_path / "data"))
        assert failed.returncode == 1 and sentence in failed.stderr, (arguments, failed)
    assert not (tmp_path / "data").exists(), "a mistake is found before anything is made"


def test_help_and_version() -> None:
    told = start("--help")
    assert told.returncode == 0
    for word in ["--port", "--prompt-budget", "--appendfsync", "Network:", "Memory:", "[1974]"]:
        assert word in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 110
    assert "8.2.3" in start("--version").stdout


def test_password_from_the_environment(tmp_path: Path) -> None:
    with PionServer(env={**os.environ, "PION_REQUIREPASS": "from-env"}) as server, Connection(server.port) as c:
        assert c.call("AUTH", "from-env") == "OK"


def test_flags_of_the_original_are_logged(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--kvcache", "--metal-attention", "--cuda-attention", "--profile", "vector")
    assert "no Metal in this build" in server.log_text() and "no CUDA in this build" in server.log_text()


def test_save_and_lastsave(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("SET", "a", "1")
        before = c.call("LASTSAVE")
        assert c.call("SAVE") == "OK"
        assert c.call("LASTSAVE") >= before > 1_700_000_000
        assert list((pion.dir / "checkpoint").iterdir())
        assert c.call("BGSAVE", "SCHEDULE") in ("Background saving started",)
        while info(c, "persistence")["rdb_bgsave_in_progress"] == "1":
            time.sleep(0.01)
        assert info(c, "persistence")["rdb_last_bgsave_status"] == "ok"


@pytest.mark.parametrize("words", [("SHUTDOWN",), ("SHUTDOWN", "SAVE"), ("SHUTDOWN", "NOSAVE", "NOW", "FORCE")])
def test_shutdown_keeps_the_data(pion: PionServer, words: tuple[str, ...]) -> None:
    with Connection(pion.port) as c:
        c.call("SET", "a", "kept")
        c.send(*words)
        with pytest.raises(ConnectionError):
            c.read()
    assert pion.process is not None and pion.process.wait(30) == 0
    pion.start()
    with Connection(pion.port) as c:
        assert c.call("GET", "a") == b"kept"


def test_without_a_journal_shutdown_saves(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--appendonly", "no")
    for words, kept in [(("SHUTDOWN",), b"1"), (("SHUTDOWN", "NOSAVE"), b"1")]:
        with Connection(server.port) as c:
            c.call("SET", "a", "1" if len(words) == 1 else "2")
            c.send(*words)
            with pytest.raises(ConnectionError):
                c.read()
        assert server.process is not None and server.process.wait(30) == 0
        server.start()
        assert answer(server.port, "GET", "a") == kept
    assert answer(server.port, "SET", "a", "3") == "OK"
    assert server.stop() == 0
    server.start()
    assert answer(server.port, "GET", "a") == b"3", "a signal saves, too"
    assert answer(server.port, "WAITAOF", "1", "0", "0").startswith("ERR WAITAOF cannot be used when numlocal is set")


def test_waitaof(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        for timeout in (0, 20_000):
            c.call("SET", "a", timeout)
            assert c.call("WAITAOF", 1, 0, timeout) == [1, 0]
            told = info(c, "pion")
            assert told["journal_synced_lsn"] == told["journal_appended_lsn"]
        assert c.call("WAITAOF", 1, 1, 20) == [1, 0]
        assert c.call("WAITAOF", 0, 0, 0)[1] == 0
        assert c.call("WAIT", 3, 10) == 0


def test_role(pion_shared: PionServer, reference: Redis82) -> None:
    mine, theirs = answer(pion_shared.port, "ROLE"), answer(reference.port, "ROLE")
    assert mine == [b"master", 0, []]
    assert [mine[0], mine[2]] == [theirs[0], theirs[2]], "the offset of the reference counts its own heartbeats"


def test_sleep_stops_nobody_else(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "1")
    with Connection(server.port) as sleeper, Connection(server.port) as other:
        sleeper.send_many([("DEBUG", "SLEEP", "0.5"), ("ECHO", "awake")])
        assert [other.call("ECHO", i) for i in range(100)]
        assert other.call("PING") == "PONG"
        assert [sleeper.read(), sleeper.read()] == ["OK", b"awake"]


def test_panic_ends_the_process_and_loses_nothing(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("SET", "a", "1")
        c.send("DEBUG", "PANIC")
        with pytest.raises(ConnectionError):
            c.read()
    assert pion.process is not None and pion.process.wait(30) == -6
    pion.start()
    assert answer(pion.port, "GET", "a") == b"1"


@pytest.mark.parametrize("setting, by_tcp", [("no", False), ("local", True), ("yes", True)])
def test_who_may_use_debug(pion_factory: Callable[..., PionServer], redis82: Redis82, setting: str, by_tcp: bool) -> None:
    server = pion_factory("--enable-debug-command", setting)
    expected = "OK" if by_tcp else answer(redis82.port, "DEBUG", "SLEEP", "0")
    assert answer(server.port, "DEBUG", "SLEEP", "0") == expected
    with Connection(path=str(server.socket)) as unix:
        unix.send("DEBUG", "SLEEP", "0")
        assert str(unix.read()) == expected


def test_reload_reads_every_key_again_from_disk(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        keys = {f"k{i}".encode(): (b"%d" % i) * (i % 50) for i in range(2000)}
        for key, value in keys.items():
            c.call("SET", key, value)
        large = bytes(range(256)) * 4096
        c.call("SET", "large", large)
        c.call("SET", "later", "1", "PXAT", 4_000_000_000_000)
        c.call("SELECT", 5)
        c.call("SET", "there", "5")
        c.call("SELECT", 0)
        for _ in range(2):
            assert c.call("DEBUG", "RELOAD") == "OK"
            assert c.call("DBSIZE") == len(keys) + 2
            assert {key: c.call("GET", key) for key in keys} == keys
            assert c.call("GET", "large") == large
            assert c.call("PEXPIRETIME", "later") == 4_000_000_000_000
            assert c.call("SELECT", 5) == "OK" and c.call("GET", "there") == b"5" and c.call("SELECT", 0) == "OK"
        assert "stripes kept because they changed meanwhile: 0" in pion.log_text()
        assert c.call("DEL", "large") == 1
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("DBSIZE") == len(keys) + 1 and c.call("GET", "k7") == b"7" * 7


def test_reload_while_others_write(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2")
    with Connection(server.port) as writer, Connection(server.port) as reloader:
        acknowledged = 0
        for _ in range(5):
            reloader.send("DEBUG", "RELOAD")
            for _ in range(200):
                acknowledged = writer.call("INCR", "counter")
            assert reloader.read() == "OK"
        assert writer.call("GET", "counter") == b"%d" % acknowledged == b"1000"


def test_no_tcp_port(tmp_path: Path) -> None:
    server = PionServer("--dir", str(tmp_path / "d"), port=free_port())
    arguments = [str(parts.pion_server()), "--port", "0", "--dir", str(tmp_path / "d"), "--unixsocket", str(tmp_path / "own.sock")]
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "own.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        with Connection(path=str(tmp_path / "own.sock")) as c:
            assert c.call("PING") == "PONG"
            assert info(c, "server")["tcp_port"] == "0"
            assert ((tmp_path / "own.sock").stat().st_mode & 0o777) == 0o600
    finally:
        process.terminate()
        assert process.wait(30) == 0
        server.close()
