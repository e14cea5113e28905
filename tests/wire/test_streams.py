"""Streams through restarts and kills, and consumers that wait."""

from __future__ import annotations

import time
from typing import Callable

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire

PARTS = (("XRANGE", "s", "-", "+"), ("XPENDING", "s", "g", "-", "+", "100000"), ("XINFO", "STREAM", "s", "FULL", "COUNT", "0"))


def blocked(control: Connection) -> int:
    info = control.call("INFO", "clients")
    return int(next(line for line in info.decode().split("\r\n") if line.startswith("blocked_clients:")).split(":")[1])


def until_blocked(control: Connection, count: int) -> None:
    end = time.monotonic() + 30
    while blocked(control) != count:
        assert time.monotonic() < end, f"{blocked(control)} clients wait, not {count}"
        time.sleep(0.002)


def without_idle(reply: object) -> object:
    """XPENDING's idle times grow."""
    if isinstance(reply, list) and len(reply) == 4 and isinstance(reply[2], int) and reply[2] < 10**12:
        return [*reply[:2], *reply[3:]]
    return [without_idle(item) for item in reply] if isinstance(reply, list) else reply


def picture(connection: Connection) -> list[object]:
    return [without_idle(connection.call(*words)) for words in PARTS]


def fill(connection: Connection) -> None:
    """Some blocks, a group with pending entries of two consumers, gaps."""
    connection.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    for i in range(1, 1001):
        connection.send("XADD", "s", f"{i}-{i % 3}", "name", f"value {i}", "n", str(i * 7919 - 3_000_000))
    for _ in range(1000):
        assert isinstance(connection.read(), bytes)
    assert len(connection.call("XREADGROUP", "GROUP", "g", "a", "COUNT", "300", "STREAMS", "s", ">")[0][1]) == 300
    assert len(connection.call("XREADGROUP", "GROUP", "g", "b", "COUNT", "50", "STREAMS", "s", ">")[0][1]) == 50
    assert connection.call("XACK", "s", "g", "1-1", "2-2", "350-2", "351-0") == 3
    assert len(connection.call("XCLAIM", "s", "g", "b", "0", "10-1", "11-2")) == 2
    assert connection.call("XDEL", "s", "500-2", "20-2") == 2
    assert connection.call("XTRIM", "s", "MAXLEN", "900") == 98


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_stream_survives_a_kill_with_its_groups(pion: PionServer, checkpoint: bool) -> None:
    with Connection(pion.port) as c:
        fill(c)
        assert c.call("COPY", "s", "copy") == 1
        if checkpoint:
            assert c.call("SAVE") == "OK"
        assert c.call("XACK", "s", "g", "12-0") == 1
        before = picture(c)
    pion.kill()
    pion.start()
    with Connection(pion.port) as c:
        assert picture(c) == before
        assert c.call("XLEN", "copy") == 900
        assert c.call("RENAME", "s", "moved") == "OK"
        assert c.call("RENAME", "moved", "s") == "OK"
        assert picture(c) == before


def test_a_stream_without_entries_stays(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("XADD", "s", "7-7", "a", "1")
        assert c.call("XDEL", "s", "7-7") == 1
    pion.kill()
    pion.start()
    with Connection(pion.port) as c:
        assert (c.call("TYPE", "s"), c.call("XLEN", "s")) == ("stream", 0)
        with pytest.raises(ServerError, match="equal or smaller"):
            c.call("XADD", "s", "7-6", "a", "1")


def test_readers_wait_and_each_consumer_gets_its_own(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "3")
    with Connection(server.port) as control:
        control.call("XADD", "s", "1-0", "old", "1")
        control.call("XGROUP", "CREATE", "s", "g", "$")
        consumers = [Connection(server.port) for _ in range(5)]
        for i, consumer in enumerate(consumers):
            consumer.send("XREADGROUP", "GROUP", "g", f"c{i}", "COUNT", "1", "BLOCK", "0", "STREAMS", "s", ">")
            until_blocked(control, i + 1)
        readers = [Connection(server.port) for _ in range(2)]
        for reader in readers:
            reader.send("XREAD", "BLOCK", "0", "STREAMS", "none", "s", "0", "$")
        until_blocked(control, 7)
        for i in range(5):
            assert control.call("XADD", "s", f"{i + 2}-0", "i", str(i)) == b"%d-0" % (i + 2)
            assert consumers[i].read() == [[b"s", [[b"%d-0" % (i + 2), [b"i", b"%d" % i]]]]]
        for reader in readers:
            assert reader.read()[0][1][0] == [b"2-0", [b"i", b"0"]]
        assert blocked(control) == 0
        assert [entry[:2] for entry in control.call("XPENDING", "s", "g", "-", "+", "10")] == [[b"%d-0" % (i + 2), b"c%d" % i] for i in range(5)]
        for connection in (*consumers, *readers):
            connection.close()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("DEL", "s"), "NOGROUP"), (("XGROUP", "DESTROY", "s", "g"), "NOGROUP"), (("SET", "s", "text"), "WRONGTYPE"), (("RENAME", "s", "t"), "NOGROUP"),
    ],
)  # fmt: skip
def test_a_key_that_goes_ends_the_waiting_of_a_group(pion: PionServer, words: tuple[str, ...], answer: str) -> None:
    with Connection(pion.port) as control, Connection(pion.port) as consumer, Connection(pion.port) as reader:
        control.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        consumer.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">")
        reader.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
        until_blocked(control, 2)
        control.call(*words)
        reply = consumer.read()
        assert isinstance(reply, ServerError) and str(reply).startswith(answer)
        control.call("DEL", "s")
        control.call("XADD", "s", "9-0", "a", "1")
        assert reader.read() == [[b"s", [[b"9-0", [b"a", b"1"]]]]]  # who only reads waits on


def test_a_time_out_is_a_nil(pion: PionServer) -> None:
    for protocol, nil in ((2, None), (3, None)):
        with Connection(pion.port, protocol=protocol) as c:
            assert c.call("XREAD", "BLOCK", "1", "STREAMS", "none", "$") is nil


def test_a_block_is_trimmed_by_the_last_id_it_ever_had(pion: PionServer) -> None:
    """MINID ~ takes whole blocks, and a block counts as read up to its last id, removed or not; restarts do not forget it."""
    with Connection(pion.port) as c:
        for i in range(1, 4):
            c.call("XADD", "s", f"{i}-0", "a", "b")
        c.call("XDEL", "s", "3-0")
        assert c.call("XTRIM", "s", "MINID", "~", "3-0") == 0
        assert c.call("XINFO", "STREAM", "s")[19] == [b"2-0", [b"a", b"b"]]
        c.call("SAVE")
    pion.kill()
    pion.start()
    with Connection(pion.port) as c:
        assert c.call("XTRIM", "s", "MINID", "~", "3-0") == 0
        assert c.call("XREVRANGE", "s", "+", "-", "COUNT", "1") == [[b"2-0", [b"a", b"b"]]]
        assert c.call("XTRIM", "s", "MINID", "~", "3-1") == 2
