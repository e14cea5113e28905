"""Commands that wait for lists: order of arrival over threads, time-outs, and whatever becomes of a key or a client meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Callable

import pytest

from support.resp import Connection, ServerError
from support.servers import PionServer

pytestmark = pytest.mark.wire

LIMIT_S = 30


@pytest.fixture
def server(pion_factory: Callable[..., PionServer]) -> PionServer:
    return pion_factory("-w", "3")


def waiting(control: Connection) -> int:
    info = control.call("INFO", "clients")
    return int(next(line for line in info.decode().split("\r\n") if line.startswith("blocked_clients:")).split(":")[1])


def until_waiting(control: Connection, count: int) -> None:
    """Returns when so many clients wait for something."""
    end = time.monotonic() + LIMIT_S
    while waiting(control) != count:
        assert time.monotonic() < end, f"{waiting(control)} clients wait, not {count}"
        time.sleep(0.002)


class Clients:
    """Connections that each wait with one command, in order."""

    def __init__(self, server: PionServer):
        self.server = server
        self.control = Connection(server.port)
        self.all: list[Connection] = []

    def wait(self, *words: object, protocol: int = 2) -> Connection:
        client = Connection(self.server.port, protocol=protocol)
        client.client_id = client.call("CLIENT", "ID")
        client.send(*words)
        self.all.append(client)
        until_waiting(self.control, waiting_now := len(self.all))
        assert waiting_now
        return client

    def done(self, client: Connection) -> object:
        self.all.remove(client)
        return client.read()


@pytest.fixture
def clients(server: PionServer) -> Clients:
    return Clients(server)


def test_who_waits_longest_is_served_first(clients: Clients) -> None:
    waiters = [clients.wait("BLPOP", "other", "k", "k", 0) for _ in range(6)]
    assert clients.control.call("RPUSH", "k", *range(4)) == 4
    for i in range(4):
        assert clients.done(waiters[i]) == [b"k", b"%d" % i]
    assert clients.control.call("EXISTS", "k") == 0
    assert clients.control.call("LPUSH", "other", "x", "y") == 2
    assert clients.done(waiters[4]) == [b"other", b"y"]
    assert clients.done(waiters[5]) == [b"other", b"x"]
    until_waiting(clients.control, 0)


def test_every_kind_of_pop(clients: Clients) -> None:
    c = clients.control
    waiter = clients.wait("BRPOP", "k", 0)
    c.call("RPUSH", "k", "a", "b")
    assert clients.done(waiter) == [b"k", b"b"]
    c.call("DEL", "k")
    waiter = clients.wait("BLMPOP", 0, 2, "j", "k", "RIGHT", "COUNT", 10)
    c.call("RPUSH", "k", "a", "b")
    assert clients.done(waiter) == [b"k", [b"b", b"a"]]
    waiter = clients.wait("BRPOPLPUSH", "k", "t", 0)
    c.call("RPUSH", "k", "a", "b")
    assert clients.done(waiter) == b"b"
    assert c.call("LRANGE", "t", 0, -1) == [b"b"] and c.call("LRANGE", "k", 0, -1) == [b"a"]
    # what is there is taken at once
    assert c.call("BLPOP", "none", "k", 0) == [b"k", b"a"]
    assert c.call("BLMOVE", "t", "k", "LEFT", "LEFT", 0) == b"b"
    assert c.call("BLMPOP", 0, 1, "k", "LEFT") == [b"k", [b"b"]]


def test_sorted_sets(clients: Clients) -> None:
    c = clients.control
    waiters = [clients.wait("BZPOPMIN", "z", 0), clients.wait("BZPOPMAX", "y", "z", 0), clients.wait("BZMPOP", 0, 2, "y", "z", "MAX", "COUNT", 9)]
    lists = clients.wait("BLPOP", "z", 0)
    assert c.call("ZADD", "z", 1, "a", 2.5, "b", 3, "c", 4, "d") == 4
    assert clients.done(waiters[0]) == [b"z", b"a", b"1"]
    assert clients.done(waiters[1]) == [b"z", b"d", b"4"]
    assert clients.done(waiters[2]) == [b"z", [[b"c", b"3"], [b"b", b"2.5"]]]
    assert waiting(c) == 1 and c.call("RPUSH", "z", "x") == 1
    assert clients.done(lists) == [b"z", b"x"]
    three = clients.wait("BZPOPMAX", "z", 0, protocol=3)
    c.call("ZADD", "other", 1.5, "a")
    c.call("ZUNIONSTORE", "z", 1, "other")
    assert clients.done(three) == [b"z", b"a", 1.5]
    c.send("BZPOPMIN", "z", "0.001")
    assert c._line() == b"*-1"
    assert c.call("BZMPOP", "0.1", 1, "other", "MIN") == [b"other", [[b"a", b"1.5"]]]


def test_an_element_goes_through_a_chain_of_waiters(clients: Clients) -> None:
    last = clients.wait("BLPOP", "d", 0)
    third = clients.wait("BLMOVE", "c", "d", "LEFT", "RIGHT", 0)
    second = clients.wait("BLMOVE", "b", "c", "RIGHT", "LEFT", 0)
    first = clients.wait("BRPOPLPUSH", "a", "b", 0)
    assert clients.control.call("LPUSH", "a", "x") == 1
    assert [clients.done(client) for client in (first, second, third)] == [b"x"] * 3
    assert clients.done(last) == [b"d", b"x"]
    assert clients.control.call("DBSIZE") == 0


def test_a_circle_of_moves_serves_everybody_once(clients: Clients) -> None:
    there = clients.wait("BLMOVE", "a", "b", "LEFT", "LEFT", 0)
    back = clients.wait("BLMOVE", "b", "a", "LEFT", "LEFT", 0)
    clients.control.call("RPUSH", "a", "x")
    assert clients.done(there) == b"x" and clients.done(back) == b"x"
    assert clients.control.call("LRANGE", "a", 0, -1) == [b"x"]


def test_nobody_overtakes_and_nothing_is_lost_with_pushes_from_all_sides(server: PionServer) -> None:
    """Workers BLMOVE jobs from all threads while others push: each job is moved exactly once."""
    jobs, pushers, workers = 400, 3, 4
    taken: list[list[bytes]] = [[] for _ in range(workers)]
    failures: list[str] = []

    def push(number: int) -> None:
        with Connection(server.port) as c:
            for i in range(jobs):
                c.call("RPUSH", f"q{i % 2}", f"{number}:{i}")

    def work(number: int) -> None:
        try:
            with Connection(server.port, timeout_s=60) as c:
                while True:
                    reply = c.call("BLPOP", "q0", "q1", "stop", 0)
                    if reply[0] == b"stop":
                        return
                    taken[number].append(reply[1])
        except Exception as error:  # a thread must tell the test
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(workers)]
    pushing = [threading.Thread(target=push, args=(i,)) for i in range(pushers)]
    for thread in threads + pushing:
        thread.start()
    for thread in pushing:
        thread.join()
    with Connection(server.port) as c:
        c.call("RPUSH", "stop", *["x"] * workers)
        for thread in threads:
            thread.join()
        assert not failures
        left = [c.call("LRANGE", f"q{i}", 0, -1) for i in range(2)]
        everything = sorted(sum(taken, []) + sum(left, []))
        assert everything == sorted(b"%d:%d" % (n, i) for n in range(pushers) for i in range(jobs))
        assert not left[0] and not left[1]


def test_time_outs_and_their_errors(clients: Clients) -> None:
    c = clients.control
    for command in (("BLPOP", "k", "0.01"), ("BRPOP", "k", "0.001"), ("BLMOVE", "k", "t", "LEFT", "LEFT", "0.01"), ("BRPOPLPUSH", "k", "t", "0.01"),
                    ("BLMPOP", "0.01", 1, "k", "LEFT")):  # fmt: skip
        c.send(*command)
        assert c._line() == b"*-1"
    with Connection(clients.server.port, protocol=3) as three:
        three.send("BLPOP", "k", "0.01")
        assert three._line() == b"_"
    for timeout, text in (("x", "timeout is not a float or out of range"), ("-1", "timeout is negative"), ("1e20", "timeout is out of range"),
                          ("inf", "timeout is out of range"), ("nan", "timeout is not a float"), ("9223372036854775", "timeout is out of range")):  # fmt: skip
        for command in (("BLPOP", "k", timeout), ("BRPOPLPUSH", "k", "t", timeout), ("BLMPOP", timeout, 1, "k", "LEFT")):
            with pytest.raises(ServerError, match=text):
                c.call(*command)
    with pytest.raises(ServerError, match="syntax"):
        c.call("BLMPOP", "-1", 1, "k", "UP")
    # waiting is over: what comes now stays
    c.call("RPUSH", "k", "a")
    assert c.call("LRANGE", "k", 0, -1) == [b"a"]


def test_a_key_of_another_type_is_waited_out(clients: Clients) -> None:
    c = clients.control
    waiter = clients.wait("BLPOP", "k", 0)
    c.call("SET", "k", "string")
    c.call("DEL", "k")
    c.call("HSET", "k", "f", "v")
    c.call("PEXPIRE", "k", 1)
    assert waiting(c) == 1
    c.call("DEL", "k")
    c.call("RPUSH", "other", "x")
    c.call("RENAME", "other", "k")
    assert clients.done(waiter) == [b"k", b"x"]


def test_the_command_is_run_as_a_whole_again(clients: Clients) -> None:
    c = clients.control
    waiter = clients.wait("BLPOP", "a", "b", 0)
    c.call("SET", "a", "string")
    c.call("RPUSH", "b", "x")
    assert str(clients.done(waiter)).startswith("WRONGTYPE")
    assert c.call("LRANGE", "b", 0, -1) == [b"x"]
    waiter = clients.wait("BLMOVE", "c", "a", "LEFT", "LEFT", 0)
    c.call("RPUSH", "c", "x")
    assert str(clients.done(waiter)).startswith("WRONGTYPE")
    assert c.call("LRANGE", "c", 0, -1) == [b"x"]


def test_keys_that_come_from_elsewhere(clients: Clients) -> None:
    c = clients.control
    c.call("SELECT", 1)
    c.call("RPUSH", "k", "swapped")
    c.call("RPUSH", "m", "moved")
    c.call("SELECT", 0)
    c.call("RPUSH", "source", "copied")
    waiters = {key: clients.wait("BLPOP", key, 0) for key in ("k2", "m")}
    c.call("COPY", "source", "k2")
    assert clients.done(waiters["k2"]) == [b"k2", b"copied"]
    c.call("SELECT", 1)
    c.call("MOVE", "m", 0)
    assert clients.done(waiters["m"]) == [b"m", b"moved"]
    waiter = clients.wait("BLPOP", "k", 0)
    c.call("SWAPDB", 0, 1)
    assert clients.done(waiter) == [b"k", b"swapped"]


def test_client_unblock(clients: Clients) -> None:
    c = clients.control
    waiter = clients.wait("BLPOP", "k", 0)
    assert c.call("CLIENT", "UNBLOCK", waiter.client_id) == 1
    assert clients.done(waiter) is None
    waiter = clients.wait("BLMOVE", "k", "t", "LEFT", "LEFT", 0)
    assert c.call("CLIENT", "UNBLOCK", waiter.client_id, "ERROR") == 1
    assert str(clients.done(waiter)) == "UNBLOCKED client unblocked via CLIENT UNBLOCK"
    assert c.call("CLIENT", "UNBLOCK", waiter.client_id, "TIMEOUT") == 0
    assert c.call("CLIENT", "UNBLOCK", c.call("CLIENT", "ID")) == 0
    waiter = clients.wait("WAIT", 1, 0)
    assert c.call("CLIENT", "UNBLOCK", waiter.client_id) == 1
    assert clients.done(waiter) == 0
    with pytest.raises(ServerError, match="reason should be TIMEOUT or ERROR"):
        c.call("CLIENT", "UNBLOCK", 1, "WHY")
    c.call("RPUSH", "k", "a")
    assert c.call("LLEN", "k") == 1


def test_who_is_gone_takes_nothing(clients: Clients) -> None:
    c = clients.control
    gone, killed, stays = (clients.wait("BLPOP", "k", 0) for _ in range(3))
    gone.close()
    until_waiting(c, 2)
    assert c.call("CLIENT", "KILL", "ID", killed.client_id) == 1
    until_waiting(c, 1)
    c.call("RPUSH", "k", "a", "b")
    clients.all = [stays]
    assert clients.done(stays) == [b"k", b"a"]
    assert c.call("LRANGE", "k", 0, -1) == [b"b"]


def test_a_pipeline_goes_on_behind_a_wait(clients: Clients) -> None:
    c = clients.control
    with Connection(clients.server.port) as client:
        client.send_many([("BLPOP", "k", 0), ("SET", "after", "1"), ("BLPOP", "k", 0), ("PING",)])
        until_waiting(c, 1)
        assert c.call("EXISTS", "after") == 0
        c.call("RPUSH", "k", "a")
        assert client.read() == [b"k", b"a"] and client.read() == "OK"
        until_waiting(c, 1)
        c.call("RPUSH", "k", "b")
        assert client.read() == [b"k", b"b"] and client.read() == "PONG"


def test_a_push_that_was_served_survives_a_kill(clients: Clients) -> None:
    c = clients.control
    for i in range(50):
        waiter = clients.wait("BLMOVE", "k", "done", "LEFT", "RIGHT", 0)
        c.send("RPUSH", "k", i)
        assert clients.done(waiter) == b"%d" % i
        assert c.read() == 1
    clients.server.kill()
    clients.server.start()
    with Connection(clients.server.port) as again:
        assert again.call("LRANGE", "done", 0, -1) == [b"%d" % i for i in range(50)]
        assert again.call("EXISTS", "k") == 0
