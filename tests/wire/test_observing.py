"""SLOWLOG, LATENCY, MEMORY and the counting sections of INFO, beside Redis 8.2.3 where replies can be equal."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from support.resp import Connection, ServerError, as_map
from support.servers import PionServer, Redis82, is_sanitized

pytestmark = pytest.mark.wire


@pytest.fixture(params=[2, 3])
def both(request: pytest.FixtureRequest, pion_shared: PionServer, redis82: Redis82) -> Any:
    """A connection to ours and one to the reference, in the same protocol, both with fresh statistics."""
    pair = [Connection(server.port, protocol=request.param) for server in (pion_shared, redis82)]
    for connection in pair:
        for words in (
            "CONFIG SET slowlog-log-slower-than 10000", "CONFIG SET slowlog-max-len 128", "CONFIG SET latency-monitor-threshold 0",
            "CONFIG SET latency-tracking yes", "LATENCY RESET", "FLUSHALL", "CONFIG RESETSTAT", "SLOWLOG RESET",
        ):  # fmt: skip
            connection.call(*words.split())
    yield pair
    for connection in pair:
        connection.close()


def reply(connection: Connection, *words: Any) -> Any:
    """The reply; an error as its text."""
    connection.send(*words)
    answer = connection.read()
    return f"({answer})" if isinstance(answer, ServerError) else answer


def section(connection: Connection, *names: str) -> dict[str, str]:
    lines = connection.call("INFO", *names).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


SAME = """
SLOWLOG
SLOWLOG FOO
SLOWLOG HELP
SLOWLOG HELP x
SLOWLOG GET
SLOWLOG GET a
SLOWLOG GET -2
SLOWLOG GET 1 2
SLOWLOG LEN
SLOWLOG LEN a
SLOWLOG RESET
LATENCY
LATENCY FOO
LATENCY HELP
LATENCY HELP x
LATENCY LATEST
LATENCY HISTORY
LATENCY HISTORY nosuch
LATENCY GRAPH
LATENCY GRAPH nosuch
LATENCY RESET nosuch
LATENCY RESET
LATENCY HISTOGRAM nosuch
LATENCY HISTOGRAM client|nosuch
MEMORY
MEMORY FOO
MEMORY HELP
MEMORY DOCTOR x
MEMORY PURGE
MEMORY PURGE x
MEMORY STATS x
MEMORY MALLOC-STATS x
MEMORY USAGE nosuch
CONFIG GET slowlog*
CONFIG GET latency*
CONFIG SET slowlog-log-slower-than -2
CONFIG SET slowlog-log-slower-than x
CONFIG SET slowlog-max-len -1
CONFIG SET latency-monitor-threshold -1
CONFIG SET latency-tracking maybe
CONFIG SET latency-tracking-info-percentiles 10 a
INFO nosuch
""".strip().splitlines()


@pytest.mark.parametrize("line", SAME)
def test_replies_equal_the_reference(both: Any, line: str) -> None:
    ours, reference = both
    mine, theirs = reply(ours, *line.split()), reply(reference, *line.split())
    if line == "CONFIG GET slowlog*" or line == "CONFIG GET latency*":
        mine, theirs = as_map(mine), as_map(theirs)
    assert mine == theirs


def test_percentiles_are_taken_and_refused_as_redis(both: Any) -> None:
    ours, reference = both
    for value in ("0.0 50.0 100.0", "", "99.95 50 50 12.123456789", "10.0 50.0 a", "10.0 50.0 101.0", "-1"):
        words = ("CONFIG", "SET", "latency-tracking-info-percentiles", value)
        assert reply(ours, *words) == reply(reference, *words), value
        words = ("CONFIG", "GET", "latency-tracking-info-percentiles")
        assert as_map(reply(ours, *words)) == as_map(reply(reference, *words)), value
    for connection in both:
        connection.call("CONFIG", "SET", "latency-tracking-info-percentiles", "50 99 99.9")


# Commands, and what the slow log is to show of them.
LOGGED: list[tuple[Any, ...]] = [
    ("auth", "user", "secret"),
    ("auth", "secret"),
    ("hello", "3", "auth", "default", "secret"),
    ("config", "set", "requirepass", "", "maxmemory", "0"),
    ("CONFIG", "GET", "requirepass"),
    ("set", "a", "x" * 129),
    ("set", "a", "x" * 128),
    ("rpush", "l", *range(40)),
    ("rpush", "l", *range(30)),
    ("get", "a"),
    ("blpop", "nosuch", "0.01"),
    ("incr", "l"),
]


def test_the_slow_log_shows_what_redis_shows(both: Any) -> None:
    shown = []
    for connection in both:
        reply(connection, "CLIENT", "SETNAME", "tester")
        reply(connection, "CONFIG", "SET", "slowlog-log-slower-than", "0")
        reply(connection, "SLOWLOG", "RESET")
        for words in LOGGED:
            reply(connection, *words)
        reply(connection, "MULTI"), reply(connection, "GET", "a"), reply(connection, "EXEC")
        reply(connection, "nosuchcommand"), reply(connection, "get")
        reply(connection, "CONFIG", "SET", "slowlog-log-slower-than", "-1")
        entries = reply(connection, "SLOWLOG", "GET", "-1")
        assert all(len(entry) == 6 for entry in entries)
        assert [entry[0] for entry in entries] == list(range(entries[0][0], entries[0][0] - len(entries), -1))
        assert all(abs(entry[1] - time.time()) < 60 and entry[2] >= 0 for entry in entries)
        assert {entry[4] for entry in entries} == {b"%s:%d" % (b"127.0.0.1", connection.socket.getsockname()[1])}
        shown.append([(entry[3], entry[5]) for entry in entries])
        assert reply(connection, "SLOWLOG", "LEN") == len(entries)
        assert len(reply(connection, "SLOWLOG", "GET")) == 10 and len(reply(connection, "SLOWLOG", "GET", 3)) == 3
        reply(connection, "CONFIG", "SET", "slowlog-max-len", 2)
        assert reply(connection, "SLOWLOG", "LEN") == 2 or connection is both[1]  # Redis trims with the next entry
    assert shown[0] == shown[1]


def test_a_command_that_answers_late_is_slow_and_one_that_waits_for_keys_is_not(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        c.call("CONFIG", "SET", "latency-monitor-threshold", "50")
        c.call("DEBUG", "SLEEP", "0.12")
        assert c.call("BLPOP", "nosuch", "0.12") is None
        entries = c.call("SLOWLOG", "GET")
        assert [entry[3] for entry in entries] == [[b"DEBUG", b"SLEEP", b"0.12"]]
        assert 0.98 * 120_000 <= entries[0][2] < 10_000_000
        events = {name: (at_s, last, worst) for name, at_s, last, worst in c.call("LATENCY", "LATEST")}
        assert 120 <= events[b"command"][1] == events[b"command"][2]
        assert c.call("LATENCY", "HISTORY", "command") == [[events[b"command"][0], events[b"command"][1]]]
        graph = c.call("LATENCY", "GRAPH", "command").decode().splitlines()
        assert graph[0].startswith("command - high ") and set(graph[1]) == {"-"} and graph[5] == "_"
        assert b"command" in c.call("LATENCY", "DOCTOR")
        assert c.call("LATENCY", "RESET", "command") == 1 and c.call("LATENCY", "HISTORY", "command") == []


# Each step, then the counters of these commands must equal Redis' (calls, rejected, failed).
STEPS: list[tuple[Any, ...]] = [
    ("set", "k", "v"),
    ("get",),
    ("get", "k"),
    ("lpush", "k", "x"),
    ("nosuch", "k"),
    ("client", "id"),
    ("client", "kill"),
    ("client", "nosuch"),
    ("config",),
    ("auth", "x"),
    ("multi",),
    ("incr", "k"),
    ("set", "n", "1"),
    ("incr", "n"),
    ("exec",),
    ("exec",),
    ("multi",),
    ("set",),
    ("exec",),
    ("set", "k"),
    ("blpop", "nokey", "0.01"),
    ("xgroup", "createconsumer", "nokey", "g", "c"),
    ("subscribe",),
]


def counted(connection: Connection) -> tuple[dict[str, str], dict[str, str], str]:
    commands = {
        name: ",".join(part for part in line.split(",") if "usec" not in part)
        for name, line in section(connection, "commandstats").items()
        if not name.startswith(("cmdstat_info", "cmdstat_config", "cmdstat_hello"))
    }
    return commands, section(connection, "errorstats"), section(connection, "stats")["total_error_replies"]


def test_calls_errors_and_refusals_are_counted_as_redis_counts_them(both: Any) -> None:
    ours, reference = both
    for words in STEPS:
        mine, theirs = reply(ours, *words), reply(reference, *words)
        assert repr(mine) == repr(theirs) or words == ("client", "id")
        if mine == "QUEUED" or words == ("multi",) or words == ("set",):
            continue  # INFO would be queued
        assert counted(ours) == counted(reference), words
    for connection in both:
        connection.call("CONFIG", "RESETSTAT")
    assert counted(ours) == counted(reference) == ({}, {}, "0")
    assert section(ours, "commandstats")["cmdstat_config|resetstat"].startswith("calls=1,")


def test_unblocking_with_an_error_is_a_failed_call(both: Any) -> None:
    for connection in both:
        with Connection(connection.socket.getpeername()[1]) as waiter:
            number = waiter.call("CLIENT", "ID")
            waiter.send("BLPOP", "nosuch", 0)
            while section(connection, "clients")["blocked_clients"] != "1":
                time.sleep(0.01)
            connection.call("CLIENT", "UNBLOCK", number, "ERROR")
            assert "UNBLOCKED" in str(waiter.read())
        assert "calls=1," in section(connection, "commandstats")["cmdstat_blpop"]
        assert section(connection, "commandstats")["cmdstat_blpop"].endswith("rejected_calls=0,failed_calls=1")
        assert section(connection, "errorstats") == {"errorstat_UNBLOCKED": "count=1"}


def test_histograms_and_percentiles(both: Any) -> None:
    shapes = []
    for connection in both:
        for _ in range(3):
            connection.call("SET", "a", "b")
        connection.call("CLIENT", "ID"), connection.call("CLIENT", "GETNAME")
        everything = as_map(connection.call("LATENCY", "HISTOGRAM"))
        told = as_map(connection.call("LATENCY", "HISTOGRAM", "set", "client", "zadd", "nosuch", "CLIENT|ID"))
        assert all(name in everything for name in told)
        shapes.append({name: as_map(entry)[b"calls"] for name, entry in told.items()})
        for entry in told.values():
            steps = as_map(as_map(entry)[b"histogram_usec"])
            bounds = [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816]
            assert set(steps) <= set(bounds) and list(steps) == sorted(steps)
            assert list(steps.values()) == sorted(steps.values()) and max(steps.values()) == as_map(entry)[b"calls"]
        percentiles = section(connection, "latencystats")
        values = dict(part.split("=") for part in percentiles["latency_percentiles_usec_set"].split(","))
        assert list(values) == ["p50", "p99", "p99.9"] and 0 < float(values["p50"]) <= float(values["p99.9"])
        connection.call("CONFIG", "RESETSTAT")
        assert list(as_map(connection.call("LATENCY", "HISTOGRAM"))) == [b"config|resetstat"]
        connection.call("CONFIG", "SET", "latency-tracking", "no")
        connection.call("SET", "a", "b")
        assert section(connection, "latencystats") == {} and b"set" not in as_map(connection.call("LATENCY", "HISTOGRAM"))
        assert section(connection, "commandstats")["cmdstat_set"].startswith("calls=1,")
    assert shapes[0] == shapes[1]


def test_sections_of_info(both: Any) -> None:
    titles = []
    for connection in both:
        told = []
        for names in ((), ("default",), ("all",), ("everything",), ("cpu", "default"), ("CPU", "cpu", "keyspace"), ("all", "cpu"), ("x",)):
            lines = connection.call("INFO", *names).decode().splitlines()
            ours_only = ("# Pion", "# Threads", "# Keysizes")
            told.append([line for line in lines if line.startswith("# ") and line not in ours_only])
        titles.append(told)
    assert titles[0] == titles[1]


def test_counters_of_all_threads_add_up(pion: PionServer) -> None:
    def work() -> None:
        with Connection(pion.port) as connection:
            for first in range(0, 2000, 100):
                connection.send_many([("SET", f"k{first + i}", i) for i in range(100)])
                assert [connection.read() for _ in range(100)] == ["OK"] * 100

    with Connection(pion.port) as c:
        c.call("CONFIG", "RESETSTAT")
        workers = [threading.Thread(target=work) for _ in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert section(c, "commandstats")["cmdstat_set"].startswith("calls=12000,")
        assert as_map(as_map(c.call("LATENCY", "HISTOGRAM", "set"))[b"set"])[b"calls"] == 12000
        told = section(c)
        assert int(told["total_commands_processed"]) >= 12000
        assert int(told["eventloop_cycles"]) > 0 and int(told["longest_tick_us"]) > 0


def test_memory_reports_are_true(pion: PionServer) -> None:
    with Connection(pion.port) as c:
        before = as_map(c.call("MEMORY", "STATS"))
        value = b"x" * 10_000
        c.send_many([("SET", f"k{i}", value) for i in range(2000)])
        assert {c.read() for _ in range(2000)} == {"OK"}
        stats = as_map(c.call("MEMORY", "STATS"))
        assert stats[b"keys.count"] == 2000 and stats[b"total.allocated"] - before[b"total.allocated"] >= 20_000_000
        assert stats[b"peak.allocated"] >= stats[b"total.allocated"]
        assert is_sanitized(pion.pid) or stats[b"allocator.allocated"] >= 20_000_000  # a sanitizer's allocator tells nothing
        assert stats[b"keys.bytes-per-key"] == stats[b"dataset.bytes"] // 2000
        c.call("FLUSHALL")
        assert c.call("MEMORY", "PURGE") == "OK"
        assert as_map(c.call("MEMORY", "STATS"))[b"peak.allocated"] >= 20_000_000
        assert c.call("MEMORY", "MALLOC-STATS").startswith(b"<malloc")
        assert c.call("MEMORY", "DOCTOR")
