"""HELLO, AUTH, SELECT, RESET, QUIT and CLIENT, against Redis 8.2.3 where a reply does not depend on the server."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from support.resp import Connection, ServerError, as_map
from support.servers import PionServer, Redis82

pytestmark = pytest.mark.wire

SAME = """
PING
PING hello
ECHO hello
SELECT 0
SELECT 15
SELECT 16
SELECT -1
SELECT abc
SELECT 0x1
SELECT 99999999999999999999
HELLO 4
HELLO abc
HELLO 3 foo
HELLO 3 AUTH x
HELLO 3 SETNAME
HELLO 3 AUTH nouser x
AUTH x
AUTH x y z
AUTH nouser y
AUTH default y
RESET
QUIT x
CLIENT GETNAME
CLIENT SETINFO x y
CLIENT SETINFO lib-ver ''
CLIENT SETINFO LIB-NAME n
CLIENT REPLY x
CLIENT NO-EVICT x
CLIENT NO-EVICT ON
CLIENT NO-TOUCH x
CLIENT NO-TOUCH on
CLIENT LIST TYPE x
CLIENT LIST TYPE pubsub
CLIENT LIST TYPE replica
CLIENT LIST ID
CLIENT LIST ID x
CLIENT LIST ID 0
CLIENT LIST ID 999999 888888
CLIENT LIST foo
CLIENT LIST TYPE normal ID 5
CLIENT KILL foo
CLIENT KILL ID x
CLIENT KILL ID 0
CLIENT KILL ID -1
CLIENT KILL ID 999999
CLIENT KILL TYPE x
CLIENT KILL TYPE pubsub
CLIENT KILL TYPE
CLIENT KILL USER x
CLIENT KILL MAXAGE x
CLIENT KILL MAXAGE 0
CLIENT KILL SKIPME x
CLIENT KILL foo bar
CLIENT KILL ID 1 ID
CLIENT KILL ADDR x SKIPME no
CLIENT GETREDIR
CLIENT TRACKINGINFO
"""


def fresh(port: int, *words: str | bytes, protocol: int = 2) -> Any:
    """One command on a connection of its own."""
    with Connection(port, protocol=protocol) as connection:
        connection.send(*words)
        answer = connection.read()
        return str(answer) if isinstance(answer, ServerError) else answer


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_equal_the_reference(pion_shared: PionServer, redis82: Redis82, protocol: int) -> None:
    for line in SAME.strip().splitlines():
        words = [word.strip("'") for word in line.split()]
        mine, theirs = (fresh(server.port, *words, protocol=protocol) for server in (pion_shared, redis82))
        assert mine == theirs, line


@pytest.mark.parametrize("name", ["a b", "a\nb", "\x7f", "é"])
def test_names_without_blanks(pion_shared: PionServer, redis82: Redis82, name: str) -> None:
    for words in [("CLIENT", "SETNAME", name), ("CLIENT", "SETINFO", "lib-name", name), ("HELLO", "2", "SETNAME", name)]:
        assert fresh(pion_shared.port, *words) == fresh(redis82.port, *words), words


def test_hello_says_who_we_are(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        flat = c.call("HELLO")
        assert isinstance(flat, list) and as_map(flat)[b"proto"] == 2
        told = c.call("HELLO", 3, "SETNAME", "me")
        assert isinstance(told, dict)
        assert list(told) == [b"server", b"version", b"proto", b"id", b"mode", b"role", b"modules"]
        assert (told[b"server"], told[b"version"], told[b"proto"]) == (b"redis", b"8.2.3", 3)
        assert told[b"id"] == c.call("CLIENT", "ID")
        assert c.call("CLIENT", "GETNAME") == b"me"


def test_a_hello_that_fails_changes_nothing(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        with pytest.raises(ServerError, match="Syntax error in HELLO"):
            c.call("HELLO", 3, "SETNAME", "x", "nonsense")
        assert c.call("CLIENT", "GETNAME") is None
        assert isinstance(c.call("CONFIG", "GET", "port"), list), "still RESP2"


def test_password(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--requirepass", "s e c")
    with Connection(server.port) as c:
        for words in [("GET", "a"), ("PING",), ("CONFIG", "GET", "*"), ("CLIENT", "ID")]:
            with pytest.raises(ServerError, match="^NOAUTH Authentication required."):
                c.call(*words)
        with pytest.raises(ServerError, match="^NOAUTH HELLO must be called with the client already authenticated"):
            c.call("HELLO", 3)
        with pytest.raises(ServerError, match="^WRONGPASS invalid username-password pair or user is disabled."):
            c.call("AUTH", "wrong")
        with pytest.raises(ServerError, match="^WRONGPASS"):
            c.call("HELLO", 3, "AUTH", "nobody", "s e c")
        assert as_map(c.call("HELLO", 2, "AUTH", "default", "s e c"))[b"proto"] == 2
        assert c.call("GET", "a") is None
        c.call("RESET")
        with pytest.raises(ServerError, match="^NOAUTH"):
            c.call("GET", "a")
        assert c.call("AUTH", "default", "s e c") == "OK"
        assert c.call("CONFIG", "SET", "requirepass", "other") == "OK"
        assert c.call("GET", "a") is None, "who is in stays in"
    with Connection(server.port) as c:
        with pytest.raises(ServerError, match="^WRONGPASS"):
            c.call("AUTH", "s e c")
        assert c.call("AUTH", "other") == "OK"
        assert c.call("CONFIG", "SET", "requirepass", "") == "OK"
    with Connection(server.port) as c:
        assert c.call("PING") == "PONG"


def test_databases_are_apart(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        for database in (3, 9):
            c.call("SELECT", database)
            c.call("SET", "where", database)
        assert c.call("GET", "where") == b"9"
        c.call("SELECT", 3)
        assert c.call("GET", "where") == b"3"
        assert c.call("RESET") == "RESET"
        assert c.call("GET", "where") is None
        assert b"db=0 " in c.call("CLIENT", "INFO")


def test_quit_runs_nothing_behind_it(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        c.send_many([("QUIT",), ("SET", "behind-quit", "1")])
        assert c.read() == "OK"
        with pytest.raises(ConnectionError):
            c.read()
    assert fresh(pion_shared.port, "GET", "behind-quit") is None


def test_client_reply(pion_shared: PionServer) -> None:
    with Connection(pion_shared.port) as c:
        c.send_many(
            [
                ("CLIENT", "REPLY", "SKIP"), ("ECHO", "skipped"), ("ECHO", "1"),
                ("CLIENT", "REPLY", "OFF"), ("ECHO", "off"), ("nosuch",), ("CLIENT", "REPLY", "SKIP"), ("ECHO", "off"),
                ("DEBUG", "SLEEP", "0.01"), ("CLIENT", "LIST"), ("CLIENT", "REPLY", "ON"), ("ECHO", "2"),
            ]
        )
        assert [c.read(), c.read(), c.read()] == [b"1", "OK", b"2"]


def parse_line(line: bytes) -> dict[str, str]:
    return dict(field.split("=", 1) for field in line.decode().strip().split(" "))


def test_client_list_line(pion_shared: PionServer, redis82: Redis82) -> None:
    with Connection(pion_shared.port) as c, Connection(redis82.port) as reference:
        for connection in (c, reference):
            connection.call("CLIENT", "SETNAME", "n")
            connection.call("CLIENT", "SETINFO", "LIB-NAME", "lib")
            connection.call("SELECT", 2)
        mine, theirs = parse_line(c.call("CLIENT", "INFO")), parse_line(reference.call("CLIENT", "INFO"))
        assert list(mine) == list(theirs), "the same fields in the same order"
        for field in ("name", "db", "resp", "cmd", "user", "lib-name", "lib-ver", "flags", "redir", "multi", "sub", "addr"):
            expected = theirs[field] if field != "addr" else "%s:%d" % c.socket.getsockname()
            assert mine[field] == expected, field
        assert mine["laddr"] == "%s:%d" % c.socket.getpeername()
        assert c.call("CLIENT", "INFO").endswith(b"\n")
        assert int(mine["tot-cmds"]) >= 3 and int(mine["tot-net-in"]) > 0


def test_client_list_filters(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2")
    connections = [Connection(server.port) for _ in range(5)]
    ids = [c.call("CLIENT", "ID") for c in connections]
    assert ids == sorted(set(ids)) and len(ids) == 5

    def listed(*words: Any) -> list[int]:
        return [int(parse_line(line)["id"]) for line in connections[0].call("CLIENT", "LIST", *words).splitlines()]

    assert listed() == ids
    assert listed("TYPE", "normal") == ids
    assert listed("ID", ids[3], ids[1], 10**6) == [ids[3], ids[1]]
    with Connection(path=str(server.socket)) as unix:
        line = parse_line(unix.call("CLIENT", "INFO"))
        assert line["addr"] == f"{server.socket}:0" and "U" in line["flags"]
    for c in connections:
        c.close()


def test_client_kill(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2")

    def gone(connection: Connection) -> bool:
        try:
            connection.call("PING")
        except ConnectionError:
            return True
        return False

    with Connection(server.port) as killer:
        me = killer.call("CLIENT", "ID")
        victims = [Connection(server.port) for _ in range(6)]
        ids = [v.call("CLIENT", "ID") for v in victims]
        assert killer.call("CLIENT", "KILL", "%s:%d" % victims[0].socket.getsockname()) == "OK"
        assert gone(victims[0])
        assert killer.call("CLIENT", "KILL", "ID", ids[1]) == 1
        assert gone(victims[1]) and not gone(victims[2])
        assert killer.call("CLIENT", "KILL", "ADDR", "%s:%d" % victims[2].socket.getsockname(), "ID", ids[3]) == 0, "all filters must hold"
        assert not gone(victims[2]) and not gone(victims[3])
        assert killer.call("CLIENT", "KILL", "MAXAGE", "3600") == 0
        assert killer.call("CLIENT", "KILL", "ID", me) == 0, "skipme is yes by default"
        assert killer.call("CLIENT", "KILL", "USER", "default", "TYPE", "normal") == 4
        assert all(gone(v) for v in victims[2:])
        assert killer.call("CLIENT", "KILL", "ID", me, "SKIPME", "no") == 1, "its answer comes before its end"
        assert gone(killer)
    with Connection(server.port) as last:
        own = "%s:%d" % last.socket.getsockname()
        assert last.call("CLIENT", "KILL", own) == "OK"
        assert gone(last)
