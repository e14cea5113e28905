"""While somebody holds a stripe for long, others whose keys lie in it wait alone: connections beside them go on, and nothing gets
out of order or lost."""

from __future__ import annotations

import threading
import time

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire

ELEMENTS = 200_000


def load(connection: Connection, name: str) -> None:
    connection.send_many(
        [("HSET", name, *(word for i in range(first, first + 500) for word in (f"field:{i}", f"value:{i:032}"))) for first in range(0, ELEMENTS, 500)]
    )
    for _ in range(0, ELEMENTS, 500):
        assert connection.read() == 500


def test_others_read_write_and_run_transactions_while_huge_values_are_copied(pion: PionServer) -> None:
    stop = threading.Event()
    errors: list[str] = []

    def copies() -> None:
        with Connection(pion.port) as connection:
            for i in range(12):
                for words in (("COPY", "huge", f"copy{i}"), ("RENAME", f"copy{i}", f"renamed{i}"), ("DEL", f"renamed{i}")):
                    connection.send(*words)
                    if isinstance(reply := connection.read(), ServerError) or reply == 0:
                        errors.append(f"{words}: {reply}")

    def counts(number: int) -> None:
        """A counter on every stripe, so that many commands meet the held ones; the reply tells whether one was lost."""
        with Connection(pion.port) as connection:
            rounds = 0
            while not stop.is_set():
                rounds += 1
                connection.send_many([("INCR", f"counter:{number}:{i}") for i in range(600)])
                connection.send_many([("MULTI",), ("INCR", f"pair:{number}"), ("HLEN", "huge"), ("EXEC",), ("DBSIZE",)])
                replies = [connection.read() for _ in range(605)]
                if replies[:600] != [rounds] * 600 or replies[603] != [rounds, ELEMENTS] or not isinstance(replies[604], int):
                    errors.append(f"round {rounds}: {replies[600:]} {set(map(str, replies[:600]))}")
                    return

    def pops() -> None:
        """Commands that wait for keys, on stripes that may be held."""
        with Connection(pion.port) as connection, Connection(pion.port) as pusher:
            for i in range(10_000_000):
                if stop.is_set():
                    return
                connection.send("BLPOP", f"queue:{i % 500}", 30)
                pusher.call("RPUSH", f"queue:{i % 500}", i)
                if connection.read() != [b"queue:%d" % (i % 500), b"%d" % i]:
                    return errors.append(f"BLPOP {i}")

    with Connection(pion.port, timeout_s=120) as c:
        load(c, "huge")
        threads = [threading.Thread(target=counts, args=(n,)) for n in range(3)] + [threading.Thread(target=pops)]
        copier = threading.Thread(target=copies)
        for thread in (*threads, copier):
            thread.start()
        while copier.is_alive():
            c.send("BGSAVE"), c.read()  # refused while one is under way
            time.sleep(0.05)
        stop.set()
        for thread in (*threads, copier):
            thread.join()
        assert errors == []
        assert c.call("HLEN", "huge") == ELEMENTS and c.call("EXISTS", "renamed11") == 0
        before = {number: c.call("GET", f"pair:{number}") for number in range(3)}
    pion.restart()
    with Connection(pion.port) as c:
        assert c.call("HLEN", "huge") == ELEMENTS and c.call("HGET", "huge", "field:77") == b"value:%032d" % 77
        for number, rounds in before.items():
            assert c.call("GET", f"pair:{number}") == rounds
            assert {c.call("GET", f"counter:{number}:{i}") for i in range(600)} == {rounds}


def test_a_pipeline_keeps_its_order_when_a_command_has_to_wait(pion: PionServer) -> None:
    with Connection(pion.port) as c, Connection(pion.port) as other:
        load(c, "huge")
        for i in range(5):
            c.send("COPY", "huge", "copy", "REPLACE")
            other.send_many([("HLEN", "huge"), ("SET", "a", i), ("HLEN", "copy"), ("GET", "a"), ("SUBSCRIBE", "x"), ("UNSUBSCRIBE",), ("GET", "a")])
            replies = [other.read() for _ in range(7)]
            assert replies[0] == ELEMENTS and replies[1] == "OK" and replies[3] == replies[6] == b"%d" % i
            assert c.read() == 1
