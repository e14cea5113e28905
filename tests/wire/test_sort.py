"""SORT: other keys as they were at one moment, values on disk, large ones beside other connections, kills, waiting and watching."""

from __future__ import annotations

import random
import threading
import time

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire


def push(c: Connection, key: str, elements: list[bytes]) -> None:
    for at in range(0, len(elements), 2000):
        c.call("RPUSH", key, *elements[at : at + 2000])


@pytest.mark.parametrize("checkpoint", [False, True], ids=["from the journal", "from a checkpoint"])
def test_what_was_stored_comes_back_after_a_kill(pion: PionServer, checkpoint: bool) -> None:
    r = random.Random(1)
    numbers = [b"%d" % r.randint(-(10**6), 10**6) for _ in range(20_000)]
    stored = ("small", "large", "fetched", "empty")
    with Connection(pion.port) as c:
        push(c, "numbers", numbers)
        c.call("HSET", "h", "f", "x" * 100)
        c.call("SET", "empty", "goes")
        assert c.call("SORT", "numbers", "LIMIT", 5, 10, "STORE", "small") == 10
        assert c.call("SORT", "numbers", "DESC", "STORE", "large") == 20_000
        assert c.call("SORT", "small", "GET", "#", "GET", "none*", "GET", "h*->f", "STORE", "fetched") == 30
        assert c.call("SORT", "none", "STORE", "empty") == 0
        if checkpoint:
            assert c.call("SAVE") == "OK"
        before = [(c.call("EXISTS", key), c.call("LRANGE", key, 0, -1)) for key in stored]
        assert before[1][1] == sorted(numbers, key=lambda n: (-int(n), n))
    pion.restart()
    with Connection(pion.port) as c:
        assert [(c.call("EXISTS", key), c.call("LRANGE", key, 0, -1)) for key in stored] == before
        assert c.call("OBJECT", "ENCODING", "small") == b"listpack"
        assert c.call("OBJECT", "ENCODING", "large") == b"quicklist"


def test_a_large_sort_is_the_same_as_a_small_one(pion: PionServer) -> None:
    """With weights, fields and a limit, above and below what runs on a reactor."""
    r = random.Random(2)
    with Connection(pion.port) as c:
        for count in (50, 9000):
            key, elements = f"list{count}", [b"%d" % i for i in range(count)]
            r.shuffle(elements)
            push(c, key, elements)
            weights = {element: r.randint(0, count) for element in elements}
            c.send_many([("SET", b"w_" + element, weight) for element, weight in weights.items()])
            c.send_many([("HSET", b"o_" + element, "name", b"n" + element) for element in elements])
            for _ in range(2 * count):
                c.read()
            ordered = sorted(elements, key=lambda element: (weights[element], element))
            assert c.call("SORT", key, "BY", "w_*") == ordered
            assert c.call("SORT", key, "BY", "w_*", "DESC", "GET", "o_*->name") == [b"n" + element for element in reversed(ordered)]
            limited = c.call("SORT", key, "BY", "w_*", "LIMIT", 10, 7, "GET", "#", "GET", "w_*", "GET", "none_*")
            assert limited == [value for element in ordered[10:17] for value in (element, b"%d" % weights[element], None)]
            assert c.call("SORT_RO", key, "ALPHA", "LIMIT", 0, 5) == sorted(elements)[:5]
            assert c.call("SORT", key, "BY", "nosort", "GET", "w_*", "LIMIT", 3, 4) == [b"%d" % weights[element] for element in elements[3:7]]


@pytest.mark.parametrize("count", [40, 9000], ids=["on a reactor", "on a worker"])
def test_other_keys_are_read_as_they_were_at_one_moment(pion: PionServer, count: int) -> None:
    names = [b"k%d" % i for i in range(40)]
    with Connection(pion.port) as c, Connection(pion.port) as writer:
        push(c, "list", [b"%d" % (i % 40) for i in range(count)])
        writer.call("MSET", *[word for name in names for word in (name, 0)])
        done = threading.Event()

        def write() -> None:
            value = 0
            while not done.is_set():
                value += 1
                writer.call("MSET", *[word for name in names for word in (name, value)])

        writing = threading.Thread(target=write)
        writing.start()
        try:
            seen = set()
            end = time.monotonic() + 2
            while time.monotonic() < end:
                values = c.call("SORT", "list", "BY", "k*", "GET", "k*")
                assert len(values) == count and len(set(values)) == 1
                seen.add(values[0])
        finally:
            done.set()
            writing.join()
        assert len(seen) > 3


def test_values_on_disk(pion: PionServer) -> None:
    large = {b"1": b"b" * 100_000, b"2": b"a" * 70_000}
    with Connection(pion.port) as c:
        c.call("RPUSH", "list", 1, 2, 3)
        for element, value in large.items():
            c.call("SET", b"v" + element, value)
        c.call("SET", "v3", "c")
        assert c.call("SORT", "list", "GET", "v*") == [large[b"1"], large[b"2"], b"c"]
        assert c.call("SORT", "list", "BY", "v*", "ALPHA") == [b"2", b"1", b"3"]
        with pytest.raises(ServerError, match="can't be converted into double"):
            c.call("SORT", "list", "BY", "v*")
        assert c.call("SORT", "list", "GET", "v*", "STORE", "stored") == 3
        c.call("MULTI")
        c.call("SORT", "list", "GET", "v*", "LIMIT", 1, 1)
        assert c.call("EXEC") == [[large[b"2"]]]
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("LRANGE", "stored", 0, -1) == [large[b"1"], large[b"2"], b"c"]


def test_in_a_transaction(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as other:
        c.call("RPUSH", "list", 3, 1, 2)
        c.call("MULTI")
        for command in (("MSET", "w1", 9, "w2", 5, "w3", 7), ("SORT", "list", "BY", "w*", "GET", "#", "GET", "w*"), ("SORT", "list", "STORE", "s"),
                        ("LRANGE", "s", 0, -1), ("SORT", "list", "BY", "w*", "STORE", "s"), ("LRANGE", "s", 0, -1)):  # fmt: skip
            assert c.call(*command) == "QUEUED"
        by_weight = [b"2", b"5", b"3", b"7", b"1", b"9"]
        assert c.call("EXEC") == ["OK", by_weight, 3, [b"1", b"2", b"3"], 3, [b"2", b"3", b"1"]]
        # WATCH sees what SORT stores, an empty result too.
        for source in ("list", "none"):
            c.call("WATCH", "s")
            other.call("SORT", source, "STORE", "s")
            c.call("MULTI")
            c.call("PING")
            assert c.call("EXEC") is None


def test_who_waits_is_served(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as waiter:
        push(c, "list", [b"%d" % i for i in range(9000)])
        for command in (("SORT", "list", "LIMIT", 2, 3, "STORE", "s"), ("SORT", "list", "DESC", "STORE", "s")):
            waiter.send("BLPOP", "s", 10)
            while b"cmd=blpop" not in c.call("CLIENT", "LIST"):
                time.sleep(0.005)
            stored = c.call(*command)
            assert waiter.read() == [b"s", b"2" if stored == 3 else b"8999"]
            assert c.call("LLEN", "s") == stored - 1
            c.call("DEL", "s")


def test_fields_and_keys_that_expired_weigh_nothing(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("RPUSH", "list", 1, 2)
        c.call("SET", "w1", 5, "PX", 1)
        c.call("HSET", "h2", "f", 7, "other", 1)
        c.call("HPEXPIRE", "h2", 1, "FIELDS", 1, "f")
        time.sleep(0.01)
        assert c.call("SORT", "list", "GET", "w*", "GET", "h*->f", "GET", "h*->other") == [None, None, None, None, None, b"1"]


def test_a_large_sort_stops_nobody(pion: PionServer) -> None:
    """Neither while it sorts nor while it builds what it stores; only the reading of other keys has to be undisturbed."""
    elements = [b"%d" % (i * 7919 % 200_003) for i in range(200_000)]
    with Connection(pion.port) as c, Connection(pion.port) as other:
        push(c, "list", elements)
        c.call("SET", "w_5", "5")
        done, answered = threading.Event(), 0

        def ask() -> None:
            nonlocal answered
            while not done.is_set():
                assert other.call("SET", f"key{answered % 1000}", answered) == "OK"
                answered += 1

        asking = threading.Thread(target=ask)
        asking.start()
        meanwhile = []
        try:
            for command in (("ALPHA", "DESC"), ("BY", "w_*"), ("BY", "w_*", "GET", "#", "GET", "w_*")):
                before = answered
                assert c.call("SORT", "list", *command, "STORE", "stored") == 200_000 * max(1, command.count("GET"))
                meanwhile.append(answered - before)
        finally:
            done.set()
            asking.join()
        # What is on its way before the stripes are taken are a few.
        assert min(meanwhile) > 30
        assert c.call("LRANGE", "stored", 0, 1) == [sorted(set(elements) - {b"5"})[0], b""]
        assert c.call("LRANGE", "stored", -2, -1) == [b"5", b"5"]
