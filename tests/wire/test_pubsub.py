"""Publish and subscribe: replies as Redis 8.2.3, order over threads, and subscribers that are slow, killed or gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer, Redis82

pytestmark = pytest.mark.wire

# Conversations on a connection of their own; each line's replies are compared with the reference's.
CONVERSATIONS = [
    ["SUBSCRIBE a b a", "PING", "PING x", "PING x y", "GET a", "HELLO 3", "PUBLISH a 1", "CLIENT LIST", "FOO", "SET a", "UNSUBSCRIBE a b", "GET a"],
    ["SUBSCRIBE a", "PSUBSCRIBE p* q*", "SSUBSCRIBE s a", "UNSUBSCRIBE zz", "UNSUBSCRIBE a", "PUNSUBSCRIBE p* q*", "PING", "SUNSUBSCRIBE s a", "PING"],
    ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "UNSUBSCRIBE x y", "PUNSUBSCRIBE z", "SUNSUBSCRIBE q r", "GET a"],
    ["SSUBSCRIBE a", "GET a", "RESET", "GET a", "PUBSUB SHARDCHANNELS", "PUBLISH a 1"],
    ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "PUBLISH a", "SPUBLISH a b c", "PUBSUB", "PUBSUB FOO", "PUBSUB CHANNELS a b",
     "PUBSUB NUMPAT x", "PUBSUB SHARDCHANNELS a b", "PUBSUB NUMSUB", "PUBSUB NUMSUB a b", "PUBSUB SHARDNUMSUB x", "PUBSUB HELP"],
    ["CLIENT REPLY OFF", "SUBSCRIBE a", "GET a", "UNSUBSCRIBE", "CLIENT REPLY ON"],
    ["CLIENT REPLY SKIP", "SUBSCRIBE a", "PING"],
    ["SUBSCRIBE a", "QUIT"],
]
CONVERSATIONS_RESP3 = [
    ["SUBSCRIBE a", "GET k", "PUBLISH a 1", "PSUBSCRIBE a* ??", "PUBLISH a 2", "SPUBLISH a 3", "SSUBSCRIBE a", "SPUBLISH a 4", "PING", "PING x",
     "PUBSUB NUMPAT", "PUBSUB CHANNELS", "PUBSUB CHANNELS x*", "PUBSUB CHANNELS [a-b]", "PUBSUB NUMSUB a", "UNSUBSCRIBE", "UNSUBSCRIBE",
     "PUNSUBSCRIBE a* ??", "SUNSUBSCRIBE", "PUBLISH a 5"],
    ["CLIENT REPLY OFF", "SUBSCRIBE a", "PUBLISH a x", "CLIENT REPLY ON"],
    ["SUBSCRIBE a", "HELLO 2", "GET k", "PING", "PUBSUB NUMPAT"],
]


QUIET_S = 0.05  # nothing came for so long: that was the reply


def talk(port: int, lines: list[str], protocol: int) -> list[bytes]:
    """What comes back for each line, until nothing more comes."""
    replies = []
    with Connection(port, protocol=protocol) as c, Connection(port) as other:
        for line in lines:
            c.send(*line.split())
            other.call("PING")
            reply = b""
            while select.select([c.socket], [], [], QUIET_S)[0]:
                more = c.socket.recv(1 << 16)
                reply += more
                if not more:
                    break
            replies.append(reply or b"(nothing)")
    return [reply if not reply.startswith((b"%7", b"*14\r\n$6\r\nserver")) else b"(hello)" for reply in replies]


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_equal_the_reference(pion_shared: PionServer, redis82: Redis82, protocol: int) -> None:
    for lines in CONVERSATIONS + (CONVERSATIONS_RESP3 if protocol == 3 else []):
        if protocol == 3 and "CLIENT LIST" in lines:
            continue
        mine, theirs = talk(pion_shared.port, lines, protocol), talk(redis82.port, lines, protocol)
        assert list(zip(lines, mine)) == list(zip(lines, theirs))


def subscribed(port: int, *words: str, protocol: int = 2) -> Connection:
    """A connection whose subscriptions are confirmed."""
    c = Connection(port, protocol=protocol)
    c.send(*words)
    for _ in words[1:]:
        c.read()
    return c


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def test_one_order_for_all_over_threads(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "3")
    publishers, each = 4, 1500
    listeners = [subscribed(server.port, "SUBSCRIBE", "one", "two", protocol=2 + i % 2) for i in range(5)]
    patterns = [subscribed(server.port, "PSUBSCRIBE", "[ot]*") for _ in range(2)]
    failures: list[str] = []

    def publish(number: int) -> None:
        with Connection(server.port) as c:
            c.send_many([("PUBLISH", "one" if i % 3 else "two", f"{number}:{i}") for i in range(each)])
            counts = [c.read() for _ in range(each)]
            if counts != [7] * each:
                failures.append(f"publisher {number} was told {set(counts)}")

    threads = [threading.Thread(target=publish, args=(i,)) for i in range(publishers)]
    for thread in threads:
        thread.start()
    heard = [[c.read()[-2:] for _ in range(publishers * each)] for c in listeners + patterns]
    for thread in threads:
        thread.join()
    assert not failures
    for channel in (b"one", b"two"):
        of_channel = [[text for name, text in messages if name == channel] for messages in heard]
        assert all(order == of_channel[0] for order in of_channel), "every subscriber of a channel sees the same order"
    for messages in heard:
        for number in range(publishers):
            mine = [int(text.split(b":")[1]) for _, text in messages if text.startswith(b"%d:" % number)]
            assert mine == list(range(each)), "a publisher's messages come in its order"
    for c in listeners + patterns:
        c.close()


def test_own_message_comes_right_behind_the_reply(pion_shared: PionServer) -> None:
    with subscribed(pion_shared.port, "SUBSCRIBE", "own", protocol=3) as c:
        c.send_many([("PUBLISH", "own", "1"), ("PING",), ("PUBLISH", "own", "2"), ("ECHO", "x")])
        assert [c.read() for _ in range(6)] == [1, [b"message", b"own", b"1"], "PONG", 1, [b"message", b"own", b"2"], b"x"]


def test_messages_while_a_command_waits_or_works(pion_shared: PionServer) -> None:
    with subscribed(pion_shared.port, "SUBSCRIBE", "busy", protocol=3) as c, Connection(pion_shared.port) as other:
        c.send("WAIT", "1", "60000")
        wait_until(lambda: b"cmd=wait " in other.call("CLIENT", "LIST", "TYPE", "pubsub"), "it waits")
        assert other.call("PUBLISH", "busy", "1") == 1
        assert c.read() == [b"message", b"busy", b"1"], "a waiting client hears"
        with subscribed(pion_shared.port, "SUBSCRIBE", "busy", protocol=3) as worker:
            worker.send_many([("SAVE",)] * 5)  # each runs on a worker thread
            for i in range(200):
                assert other.call("PUBLISH", "busy", i) == 2
            got = [worker.read() for _ in range(205)]
            assert [reply for reply in got if reply == "OK"] == ["OK"] * 5
            assert [int(reply[2]) for reply in got if reply != "OK"] == list(range(200))


def test_a_message_on_its_way_does_not_follow_the_end_of_the_subscription(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2")
    stop = threading.Event()

    def publish() -> None:
        with Connection(server.port) as c:
            while not stop.is_set():
                c.send_many([("PUBLISH", "flood", "x")] * 200)
                for _ in range(200):
                    c.read()

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        with Connection(server.port) as c:
            for _ in range(50):
                c.call("SUBSCRIBE", "flood")
                for _ in range(20):
                    assert c.read() == [b"message", b"flood", b"x"]
                c.send_many([("UNSUBSCRIBE", "flood"), ("ECHO", "end")])
                while (reply := c.read()) == [b"message", b"flood", b"x"]:
                    pass
                assert reply == [b"unsubscribe", b"flood", 0]
                assert c.read() == b"end"
    finally:
        stop.set()
        thread.join()


def fields(connection: Connection, client: int) -> dict[str, str]:
    line = connection.call("CLIENT", "LIST", "ID", client).decode()
    return dict(field.partition("=")[::2] for field in line.split())


def test_a_slow_subscriber_is_dropped_and_nobody_else_notices(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("-w", "2", "--client-output-buffer-limit", "pubsub 1mb 0 0")
    with Connection(server.port) as c:
        slow = Connection(server.port)
        slow_id = slow.call("CLIENT", "ID")
        slow.call("SUBSCRIBE", "flood")
        with subscribed(server.port, "SUBSCRIBE", "flood") as fast:
            payload = b"x" * 100_000
            sent = 0
            while c.call("PUBLISH", "flood", payload) == 2:
                assert fast.read()[2] == payload
                sent += 1
                assert sent < 1000, "a subscriber that never reads was kept"
            assert fast.read()[2] == payload
        assert c.call("CLIENT", "LIST", "ID", slow_id) == b""
        assert b"client_output_buffer_limit_disconnections:1\r\n" in c.call("INFO", "stats")
        assert f"client {slow_id} is closed: it does not read" in server.log_text()
        slow.close()


def test_the_soft_limit_needs_time(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory()
    with Connection(server.port) as c:
        assert c.call("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 100kb 1") == "OK"
        slow = subscribed(server.port, "SUBSCRIBE", "flood")
        payload, sent = b"x" * 1_000_000, 0
        while int(dict(f.partition("=")[::2] for f in c.call("CLIENT", "LIST", "TYPE", "pubsub").decode().split()).get("omem", 0)) < 200_000:
            assert c.call("PUBLISH", "flood", payload) == 1
            sent += 1
        wait_until(lambda: c.call("PUBSUB", "NUMSUB", "flood") == [b"flood", 0], "above the soft limit for more than a second")
        slow.close()


def test_output_limits_are_told_as_they_are_set(pion_shared: PionServer, redis82: Redis82) -> None:
    for value in ["pubsub 100 50 60", "normal 1mb 2k 3 slave 1 2 3", "replica 5 6 7", "master 1 1 1", "pubsub 1 2", "pubsub x 1 1", "pubsub 1 1 -1",
                  "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"]:
        answers = []
        for server in (pion_shared, redis82):
            with Connection(server.port) as c:
                c.send("CONFIG", "SET", "client-output-buffer-limit", value)
                answers.append((str(c.read()), c.call("CONFIG", "GET", "client-output-buffer-limit")))
        assert answers[0] == answers[1], value


def test_limits_of_one_connection(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        for words in [("SUBSCRIBE", "fits", b"x" * 65_537), ("PSUBSCRIBE", b"x" * 65_537), ("SSUBSCRIBE", b"x" * 65_537)]:
            with pytest.raises(ServerError, match="channel or pattern is too long: at most 65536 bytes"):
                c.call(*words)
        assert c.call("GET", "a") is None, "nothing of it was taken"
        with pytest.raises(ServerError, match="too many subscriptions: at most 262144 of one connection"):
            c.call("SUBSCRIBE", *range(262_145))
        with pytest.raises(ServerError, match="names together are at most 67108864 bytes"):
            c.call("SUBSCRIBE", *(b"%04d" % i + b"x" * 65_000 for i in range(1100)))
        c.send("SUBSCRIBE", *range(20_000))
        assert [c.read()[2] for _ in range(20_000)] == list(range(1, 20_001))
        with pytest.raises(ServerError, match="too many subscriptions"):
            c.call("SUBSCRIBE", *range(250_000))
        with Connection(pion.port) as other:
            assert other.call("PUBLISH", "19999", "x") == 1
            assert b"pubsub_channels:20000\r\n" in other.call("INFO", "stats")
        assert c.read() == [b"message", b"19999", b"x"]


SUBSCRIBER = """
import sys
sys.path.insert(0, sys.argv[2])
from support.resp import Connection
c = Connection(int(sys.argv[1]))
print(c.call("SUBSCRIBE", "gone"), flush=True)
c.read()
"""


@pytest.mark.parametrize("end", ["SIGKILL", "CLIENT KILL", "half-close", "close", "QUIT", "RESET"])
def test_subscribers_that_go_leave_nothing(pion: PionServer, end: str) -> None:
    with Connection(pion.port) as c:
        if end == "SIGKILL":
            child = subprocess.Popen([sys.executable, "-c", SUBSCRIBER, str(pion.port), str(Path(__file__).parents[1])], stdout=subprocess.PIPE)
            assert child.stdout is not None and b"subscribe" in child.stdout.readline()
        else:
            victim = Connection(pion.port)
            victim.send_many([("CLIENT", "ID"), ("SUBSCRIBE", "gone"), ("PSUBSCRIBE", "g*"), ("SSUBSCRIBE", "gone")])
            identity = [victim.read() for _ in range(4)][0]
            told = fields(c, identity)
            assert (told["flags"], told["sub"], told["psub"], told["ssub"]) == ("P", "1", "1", "1")
        assert c.call("PUBLISH", "gone", "1") == (1 if end == "SIGKILL" else 2)
        if end == "SIGKILL":
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        elif end == "CLIENT KILL":
            assert c.call("CLIENT", "KILL", "TYPE", "pubsub") == 1
        elif end == "half-close":
            victim.socket.shutdown(socket.SHUT_WR)
        elif end == "close":
            victim.close()
        else:
            victim.send(end)
        wait_until(lambda: c.call("PUBLISH", "gone", "x") == 0 and c.call("SPUBLISH", "gone", "x") == 0, "its subscriptions end")
        stats = c.call("INFO", "stats").decode()
        assert all(f"{name}:0\r\n" in stats for name in ("pubsub_channels", "pubsub_patterns", "pubsubshard_channels"))
        if end == "RESET":
            while (reply := victim.read()) != "RESET":
                assert reply[0] in (b"message", b"pmessage", b"smessage")
            assert victim.call("CLIENT", "LIST", "TYPE", "pubsub") == b""


def test_a_half_closed_subscriber_gets_what_it_is_owed(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as victim:
        victim.call("SUBSCRIBE", "gone")
        c.call("PUBLISH", "gone", b"x" * 1_000_000)
        victim.socket.shutdown(socket.SHUT_WR)
        assert victim.read()[2] == b"x" * 1_000_000
        with pytest.raises(ConnectionError):
            victim.read()


def test_idle_subscribers_stay(pion: PionServer) -> None:
    with Connection(pion.port) as idle, subscribed(pion.port, "SUBSCRIBE", "patience") as c:
        with Connection(pion.port) as other:
            other.call("CONFIG", "SET", "timeout", 1)
        with pytest.raises(ConnectionError):
            idle.read()  # the idle one goes
        with Connection(pion.port) as other:
            assert other.call("PUBLISH", "patience", "1") == 1
        assert c.read() == [b"message", b"patience", b"1"]


def test_before_authentication_nobody_listens(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--requirepass", "secret")
    with Connection(server.port) as c:
        for words in [("SUBSCRIBE", "a"), ("PUBLISH", "a", "b"), ("UNSUBSCRIBE",), ("PUBSUB", "NUMPAT")]:
            with pytest.raises(ServerError, match="^NOAUTH"):
                c.call(*words)
        c.call("AUTH", "secret")
        assert c.call("SUBSCRIBE", "a") == [b"subscribe", b"a", 1]
        assert c.call("RESET") == "RESET"
        with pytest.raises(ServerError, match="^NOAUTH"):
            c.call("PING")



def test_subscribers_of_the_unix_socket_and_large_messages(pion: PionServer) -> None:
    with Connection(path=str(pion.socket)) as c, Connection(pion.port) as other:
        c.call("SUBSCRIBE", "big")
        payload = os.urandom(3 << 20)
        assert other.call("PUBLISH", "big", payload) == 1
        assert c.read() == [b"message", b"big", payload]
