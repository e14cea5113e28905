"""MULTI, EXEC, WATCH: replies as Redis 8.2.3, all or nothing over threads and kills."""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from typing import Any, Callable

import pytest

from support.resp import Connection, ServerError, encode
from support.servers import PionServer, Redis82

pytestmark = pytest.mark.wire

# Conversations on a connection of their own, in database 9; each line's reply is compared with the reference's.
CONVERSATIONS = """
MULTI; MULTI; WATCH a; EXEC; EXEC; DISCARD; EXEC x; DISCARD x; MULTI x; UNWATCH; UNWATCH x; WATCH
MULTI; EXEC x; EXEC
MULTI; SET a; SET a 1; EXEC; GET a
MULTI; FOO; EXEC
MULTI; FOO; DISCARD; EXEC
MULTI; CLIENT FOO; EXEC
MULTI; DISCARD x; EXEC
MULTI; MULTI x; EXEC
MULTI; WATCH; EXEC
MULTI; UNWATCH; EXEC
MULTI; SET a 1; INCR a; INCRBY a x; APPEND a 5; GET a; EXEC; GET a
MULTI; SET a 1; DISCARD; GET a; MULTI; EXEC
WATCH a; SET a 5; MULTI; GET a; EXEC; GET a; MULTI; GET a; EXEC
WATCH a; MULTI; SET a 7; EXEC; MULTI; GET a; EXEC
WATCH a b; SET c 1; MULTI; PING; EXEC
WATCH a; UNWATCH; SET a 1; MULTI; PING; EXEC
WATCH a; SET a 1; DISCARD; MULTI; PING; EXEC
WATCH a; SET a 1; MULTI; FOO; EXEC; MULTI; PING; EXEC
WATCH a; SELECT 8; SET a 1; MULTI; PING; EXEC; DEL a
SET a 1; WATCH a; EXPIRE a 100; MULTI; PING; EXEC
SET a 1; WATCH a; PERSIST a; MULTI; PING; EXEC
SET a 1; WATCH b; RENAME a b; MULTI; PING; EXEC
SET a 1; WATCH a; RENAME a b; MULTI; PING; EXEC
SET a 1; WATCH b; COPY a b; MULTI; PING; EXEC
SET a 1; WATCH a; COPY a b; MULTI; PING; EXEC
SET a 1; WATCH a; MOVE a 8; MULTI; PING; EXEC; SELECT 8; DEL a
SET a 1; WATCH a; GET a; SETNX a 2; MULTI; PING; EXEC
SET a 1; WATCH a; GETDEL a; MULTI; PING; EXEC
WATCH a; DEL a; MULTI; PING; EXEC
SET a 1; WATCH a; SETRANGE a 0 5; MULTI; PING; EXEC
SET a 1; WATCH a; FLUSHDB; MULTI; PING; EXEC
WATCH a; FLUSHDB; MULTI; PING; EXEC
SET a 1; WATCH a; FLUSHALL; MULTI; PING; EXEC
WATCH a; FLUSHALL; MULTI; PING; EXEC
SET a 1; SELECT 8; WATCH a; SWAPDB 9 8; MULTI; PING; EXEC; FLUSHALL
SET a 1; WATCH a; SWAPDB 9 8; MULTI; PING; EXEC; FLUSHALL
WATCH a; SWAPDB 9 8; MULTI; PING; EXEC
WATCH a; SWAPDB 9 9; MULTI; PING; EXEC
WATCH a; SWAPDB 7 8; MULTI; PING; EXEC
SET a 1 PX 1; WATCH b; DEBUG SLEEP 0.01; MULTI; PING; EXEC
SET a 1 PX 20; WATCH a; DEBUG SLEEP 0.05; MULTI; PING; EXEC
SET a 1 PX 1; DEBUG SLEEP 0.01; WATCH a; MULTI; PING; EXEC
SET a 1 PX 1; DEBUG SLEEP 0.01; WATCH a; FLUSHDB; MULTI; PING; EXEC
SET a 1 PX 1; DEBUG SLEEP 0.01; SELECT 8; WATCH a; SWAPDB 9 8; MULTI; PING; EXEC
MULTI; RESET; EXEC; GET a
MULTI; SET a 9; QUIT
MULTI; CLIENT REPLY OFF; PING; EXEC; CLIENT REPLY ON
MULTI; CLIENT REPLY SKIP; PING; EXEC; PING; PING
CLIENT REPLY OFF; MULTI; SET a 3; EXEC; CLIENT REPLY ON; GET a
CLIENT REPLY SKIP; MULTI; GET a; EXEC
MULTI; SAVE; EXEC
MULTI; SHUTDOWN; EXEC
MULTI; WAIT 1 0; WAITAOF 0 1 0; EXEC
MULTI; AUTH x; SELECT 3; SET z 1; SELECT 9; EXISTS z; EXEC; SELECT 3; DEL z
MULTI; CONFIG SET foo bar; FLUSHALL; SWAPDB 0 9; FLUSHDB ASYNC; SWAPDB 0 9; DBSIZE; SET a 1; KEYS *; SCAN 0; RANDOMKEY; DBSIZE; EXEC
MULTI; SUBSCRIBE a; UNSUBSCRIBE; PUBSUB NUMPAT; EXEC
MULTI; SUBSCRIBE a; PING; GET b; EXEC; GET a
MULTI; PUBLISH nobody x; SPUBLISH nobody x; EXEC
MULTI; CLIENT LIST ID 99999999; ECHO behind; CLIENT KILL ID 99999999; ECHO last; EXEC
MULTI; CLIENT GETNAME; CLIENT SETNAME me; CLIENT GETNAME; TIME x; EXEC; MULTI; CLIENT GETNAME; EXEC
MULTI; MSET a 1 b 2 c 3; MGET a b c d; DEL a b c; EXISTS a b c; TOUCH a; UNLINK a; OBJECT ENCODING a; TYPE a; EXEC
MULTI; SET a 1 GET; SET a 2 XX; SET b 2 NX; GETEX a EX 100; TTL a; PERSIST a; LCS a b; EXEC
"""
CONVERSATIONS_RESP3 = """
WATCH a; SET a 5; MULTI; GET a; EXEC
MULTI; SUBSCRIBE own; PUBLISH own 1; PING; EXEC; GET a; UNSUBSCRIBE
SUBSCRIBE own; MULTI; PUBLISH own 1; PUBLISH own 2; EXEC; PING
MULTI; CONFIG GET port-x; HELLO 2; CONFIG GET port-x; EXEC; GET nokey
"""


def talk(port: int, line: str, protocol: int) -> list[tuple[str, bytes]]:
    answers = []
    with Connection(port, protocol=protocol) as c, Connection(port) as other:
        c.call("SELECT", 9)
        other.call("FLUSHALL")
        for words in line.split("; "):
            c.send(*words.split())
            if "SLEEP" in words:
                time.sleep(0.06)
            other.call("PING")
            ready = select.select([c.socket], [], [], 0.25)[0]
            time.sleep(0.004)  # what belongs together arrives together
            got = c.socket.recv(1 << 16) if ready else b"(nothing)"
            answers.append((words, b"(hello)" if b"vectorset" in got or b"modules" in got else got))
    return answers


@pytest.fixture(scope="module")
def reference() -> Any:
    with Redis82("--enable-debug-command", "yes") as server:
        yield server


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_equal_the_reference(pion_shared: PionServer, reference: Redis82, protocol: int) -> None:
    for line in (CONVERSATIONS + (CONVERSATIONS_RESP3 if protocol == 3 else "")).strip().splitlines():
        mine, theirs = talk(pion_shared.port, line, protocol), talk(reference.port, line, protocol)
        assert mine == theirs


def test_hello_inside_a_transaction_changes_what_follows(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        c.send_many([("MULTI",), ("HELLO", "3"), ("CONFIG", "GET", "port"), ("EXEC",)])
        assert [c.read() for _ in range(3)] == ["OK", "QUEUED", "QUEUED"]
        hello, port = c.read()
        assert hello[b"proto"] == 3 and isinstance(port, dict)


def test_own_messages_come_behind_exec(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port, protocol=3) as c:
        c.call("SUBSCRIBE", "mine")
        c.send_many([("MULTI",), ("SET", "told", "1"), ("PUBLISH", "mine", "x"), ("EXEC",), ("GET", "told")])
        assert [c.read() for _ in range(6)] == ["OK", "QUEUED", "QUEUED", ["OK", 1], [b"message", b"mine", b"x"], b"1"]


def test_transfers_over_threads_lose_nothing_and_are_never_seen_half(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "3")
    accounts, each = 8, 400
    failures: list[str] = []
    done = threading.Event()
    with Connection(server.port) as c:
        c.call("MSET", *(word for i in range(accounts) for word in (f"account{i}", 1000)))

    def transfer(seed: int) -> None:
        choose = random.Random(seed)
        with Connection(server.port, timeout_s=120) as c:
            for _ in range(each):
                a, b = choose.sample(range(accounts), 2)
                c.send_many([("MULTI",), ("DECRBY", f"account{a}", 7), ("INCRBY", f"account{b}", 7), ("EXEC",)])
                *queued, told = [c.read() for _ in range(4)]
                if queued != ["OK", "QUEUED", "QUEUED"] or len(told) != 2:
                    failures.append(f"{queued} {told}")

    def add_watched(seed: int) -> None:
        """Read, change, write back, unless somebody came between."""
        with Connection(server.port, timeout_s=120) as c:
            for _ in range(each // 4):
                while True:
                    c.call("WATCH", "sum")
                    old = int(c.call("GET", "sum") or 0)
                    c.call("MULTI")
                    c.call("SET", "sum", old + 1)
                    if c.call("EXEC") is not None:
                        break

    def audit() -> None:
        names = [f"account{i}" for i in range(accounts)]
        with Connection(server.port, timeout_s=120) as c:
            while not done.is_set():
                c.send_many([("MULTI",), *(("GET", name) for name in names), ("EXEC",)])
                told = [c.read() for _ in range(accounts + 2)][-1]
                if sum(map(int, told)) != 1000 * accounts or sum(map(int, c.call("MGET", *names))) != 1000 * accounts:
                    failures.append(f"seen half: {told}")

    writers = [threading.Thread(target=call, args=(i,)) for i in range(3) for call in (transfer, add_watched)]
    auditor = threading.Thread(target=audit)
    for thread in [*writers, auditor]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    auditor.join()
    assert not failures, failures[:3]
    with Connection(server.port) as c:
        assert int(c.call("GET", "sum")) == 3 * (each // 4), "no write was lost"
    server.kill()
    server.start()
    with Connection(server.port) as c:
        assert sum(map(int, c.call("MGET", *(f"account{i}" for i in range(accounts))))) == 1000 * accounts
        assert int(c.call("GET", "sum")) == 3 * (each // 4)


def test_a_transaction_is_one_record(pion: PionServer) -> None:
    def appended(c: Connection) -> int:
        return int(dict(line.split(":") for line in c.call("INFO", "pion").decode().splitlines()[1:] if ":" in line)["journal_appended_lsn"])

    big = random.Random(1).randbytes(300_000)
    with Connection(pion.port) as c:
        c.call("SET", "old", big)
        before = appended(c)
        c.send_many([("MULTI",), ("SET", "a", "1"), ("SET", "big", big), ("RENAME", "old", "new"), ("APPEND", "a", "2"), ("DEL", "nokey"),
                     ("COPY", "big", "copy"), ("EXPIRE", "a", "1000"), ("GET", "big"), ("EXEC",)])
        replies = [c.read() for _ in range(10)]
        assert replies[1:-1] == ["QUEUED"] * 8
        assert replies[-1] == ["OK", "OK", "OK", 2, 0, 1, 1, big]
        assert appended(c) == before + 1
        c.send_many([("MULTI",), ("SELECT", "3"), ("SET", "x", "1"), ("SELECT", "0"), ("SWAPDB", "0", "3"), ("FLUSHDB",), ("SET", "y", "2"),
                     ("DBSIZE",), ("EXEC",)])
        assert [c.read() for _ in range(9)][-1] == ["OK", "OK", "OK", "OK", "OK", "OK", 1]
        assert appended(c) == before + 2
    pion.kill()
    pion.start()
    with Connection(pion.port) as c:
        assert c.call("KEYS", "*") == [b"y"]
        c.call("SELECT", 3)
        assert sorted(c.call("KEYS", "*")) == [b"a", b"big", b"copy", b"new"]
        assert c.call("GET", "a") == b"12" and c.call("TTL", "a") > 900
        assert c.call("GET", "big") == c.call("GET", "copy") == c.call("GET", "new") == big


def test_limits_of_the_queue(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("MULTI")
        piece = b"x" * (4 << 20)
        for _ in range(63):
            assert c.call("ECHO", piece) == "QUEUED"
        with pytest.raises(ServerError, match="the transaction is too long: at most 1048576 commands and 268435456 bytes of arguments"):
            c.call("ECHO", piece)
        with pytest.raises(ServerError, match="EXECABORT Transaction discarded because of previous errors"):
            c.call("EXEC")
        assert c.call("PING") == "PONG"
        keys = [f"k{i}" for i in range(65_536)]
        assert c.call("WATCH", *keys) == "OK"
        with pytest.raises(ServerError, match="too many watched keys: at most 65536 of one connection"):
            c.call("WATCH", "one-more")
        assert b" watch=65536 " in c.call("CLIENT", "INFO")
        assert c.call("UNWATCH") == "OK"


def test_values_that_stream_to_disk_wait_for_exec(pion: PionServer) -> None:
    big = random.Random(2).randbytes(1_000_000)
    with Connection(pion.port) as c, Connection(pion.port) as other:
        c.call("MULTI")
        assert c.call("SET", "streamed", big) == "QUEUED"
        assert other.call("GET", "streamed") is None
        assert c.call("EXEC") == ["OK"]
        assert other.call("GET", "streamed") == big
        c.call("MULTI")
        c.call("SET", "dropped", big)
        assert c.call("DISCARD") == "OK"
        assert other.call("EXISTS", "dropped") == 0


def test_what_a_transaction_may_not_hold(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        for words in [("PROMPT.LIST", "m"), ("PROMPT.MODEL", "LIST"), ("PION.STATS",)]:
            c.call("MULTI")
            with pytest.raises(ServerError, match="^ERR Command not allowed inside a transaction"):
                c.call(*words)
            with pytest.raises(ServerError, match="^EXECABORT"):
                c.call("EXEC")


def test_without_a_password_nothing_is_queued(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--requirepass", "secret")
    with Connection(server.port) as c:
        with pytest.raises(ServerError, match="^NOAUTH"):
            c.call("MULTI")
        with pytest.raises(ServerError, match="^EXECABORT Transaction discarded because of: NOAUTH Authentication required."):
            c.call("EXEC")


def test_above_maxmemory_exec_refuses_what_grows(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as other:
        other.call("SET", "a", "x" * 5000)
        c.call("MULTI")
        c.call("SET", "b", "1")
        other.call("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(ServerError, match="^EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'"):
            c.call("EXEC")
        c.call("MULTI")
        with pytest.raises(ServerError, match="^OOM"):
            c.call("SET", "b", "1")
        with pytest.raises(ServerError, match="^EXECABORT Transaction discarded because of previous errors"):
            c.call("EXEC")
        c.call("MULTI")
        c.call("GET", "b")
        assert c.call("EXEC") == [None]


@pytest.mark.parametrize("end", ["close", "half-close", "kill"])
def test_clients_that_go_in_a_transaction_leave_nothing(pion: PionServer, end: str) -> None:
    with Connection(pion.port) as other:
        victim = Connection(pion.port)
        identity = victim.call("CLIENT", "ID")
        victim.call("WATCH", "w")
        victim.call("MULTI")
        assert victim.call("SET", "never", "1") == "QUEUED"
        assert victim.call("SET", "streamed", b"x" * 100_000) == "QUEUED"
        line = other.call("CLIENT", "LIST", "ID", identity).decode()
        assert " flags=x " in line and " multi=2 " in line and " watch=1 " in line
        other.call("SET", "w", "1")
        assert " flags=xd " in other.call("CLIENT", "LIST", "ID", identity).decode()
        if end == "close":
            victim.close()
        elif end == "half-close":
            victim.socket.shutdown(socket.SHUT_WR)
        else:
            assert other.call("CLIENT", "KILL", "ID", identity) == 1
        deadline = time.monotonic() + 30
        while other.call("CLIENT", "LIST", "ID", identity):
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert other.call("EXISTS", "never", "streamed") == 0
        other.call("SET", "w", "2")


def test_a_transaction_cut_off_before_exec_runs_not(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.socket.sendall(encode(["MULTI"]) + encode(["SET", "half", "1"]) + encode(["EXEC"])[:-3])
        c.socket.shutdown(socket.SHUT_WR)
        assert [c.read(), c.read()] == ["OK", "QUEUED"]
        with pytest.raises(ConnectionError):
            c.read()
    with Connection(pion.port) as c:
        assert c.call("EXISTS", "half") == 0


def test_whole_keyspace_commands_among_others(pion_factory: Callable[..., PionServer]) -> None:
    """All stripes are held; other connections go on afterwards, and none waits for ever."""
    server = pion_factory("-w", "3")
    stop = threading.Event()
    failures: list[str] = []

    def hammer(number: int) -> None:
        try:
            with Connection(server.port, timeout_s=60) as c:
                i = 0
                while not stop.is_set():
                    c.call("SET", f"h{number}:{i % 50}", i)
                    i += 1
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=hammer, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    try:
        with Connection(server.port, timeout_s=60) as c:
            for _ in range(100):
                c.send_many([("MULTI",), ("FLUSHALL",), ("DBSIZE",), ("SET", "only", "1"), ("KEYS", "*"), ("INFO", "keyspace"), ("RANDOMKEY",), ("EXEC",)])
                told = [c.read() for _ in range(8)][-1]
                assert told[:4] == ["OK", 0, "OK", [b"only"]] and b"db0:keys=1," in told[4] and told[5] == b"only"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
