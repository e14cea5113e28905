#!/usr/bin/env python3
"""The common commands of every type, and the memory of small and large values, beside Redis 8.2 and Valkey 9.1 in the same run.

    bench/types_compare.py [--pipelines 50 16 1] [--rounds 3] [--only hash ...] [--skip-memory]

CPU: redis-benchmark drives each server in turn (A B C A B C ...), 50 connections, 100,000 random keys (`__rand_int__`); the CPU is the
server's own, from /proc/<pid>/stat. Memory: anonymous resident bytes per element, of 200,000 small values of 20 elements and of one
value of a million. The peers run without persistence; pion-server as it starts, every acknowledged write safe at SIGKILL.
Needs redis-tools and scripts/setup-peers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from measure import server_cpu_us, spread, where  # noqa: E402
from support.resp import Connection  # noqa: E402
from support.servers import PionServer, Redis82, Server, Valkey91, resident_bytes  # noqa: E402

CONNECTIONS = 50
KEYS = 100_000
REQUESTS = {1: 100_000, 16: 400_000, 50: 800_000}  # long enough for the 10 ms grain of /proc
TARGET_CPU_RATIO = 0.5      # against the better peer
TARGET_MEMORY_RATIO = 1.0   # likewise
SMALL_VALUES, SMALL_ELEMENTS, LARGE_ELEMENTS = 200_000, 20, 1_000_000
MEMORY_TYPES = ("hash", "set", "set of integers", "sorted set", "list", "stream")
REST_S = 4.0                # after loading: buffers of unsynced records go back
RANDOM = "__rand_int__"


@dataclass(frozen=True)
class Case:
    type: str
    command: list[str]
    prepare: Callable[[int], list[str]] | None = None  # the command that makes key number i, sent once for each key

    @property
    def name(self) -> str:
        return " ".join(self.command[:1] + [word for word in self.command[1:] if word.isupper()])


def key(prefix: str, i: int) -> str:
    return f"{prefix}:{i:012}"


def fields(i: int) -> list[str]:
    return ["HSET", key("h", i)] + [part for j in range(10) for part in (f"field{j}", f"value{j}")]


def scored(i: int) -> list[str]:
    return ["ZADD", key("z", i)] + [part for j in range(20) for part in (str(j), f"member{j}")]


def members(i: int) -> list[str]:
    return ["SADD", key("s", i), *(f"member{j}" for j in range(20))]


def elements(i: int) -> list[str]:
    return ["RPUSH", key("l", i), *(f"element{j}" for j in range(20))]


def entry(i: int) -> list[str]:
    return ["XADD", key("x", i), "*", "field", "value"]


CASES = [
    Case("string", ["INCR", f"n:{RANDOM}"]),
    Case("string", ["APPEND", f"a:{RANDOM}", "12345678"]),
    Case("string", ["MGET", *(f"n:{RANDOM}" for _ in range(10))]),
    Case("string", ["SETRANGE", f"r:{RANDOM}", "16", "12345678"]),
    Case("bitmap", ["SETBIT", f"b:{RANDOM}", "1000", "1"]),
    Case("bitmap", ["GETBIT", f"b:{RANDOM}", "1000"]),
    Case("hyperloglog", ["PFADD", f"p:{RANDOM}", RANDOM]),
    Case("hash", ["HSET", f"h:{RANDOM}", "field3", "another"], fields),
    Case("hash", ["HGET", f"h:{RANDOM}", "field5"], fields),
    Case("hash", ["HGETALL", f"h:{RANDOM}"], fields),
    Case("hash", ["HINCRBY", f"i:{RANDOM}", "count", "1"]),
    Case("list", ["RPUSH", f"q:{RANDOM}", "element"]),
    Case("list", ["LPOP", f"q:{RANDOM}"]),
    Case("list", ["LRANGE", f"l:{RANDOM}", "0", "9"], elements),
    Case("list", ["LINDEX", f"l:{RANDOM}", "5"], elements),
    Case("set", ["SADD", f"u:{RANDOM}", RANDOM]),
    Case("set", ["SISMEMBER", f"s:{RANDOM}", "member5"], members),
    Case("set", ["SMEMBERS", f"s:{RANDOM}"], members),
    Case("sorted set", ["ZADD", f"z:{RANDOM}", "7", "member3"], scored),
    Case("sorted set", ["ZADD", "one", RANDOM, RANDOM]),
    Case("sorted set", ["ZINCRBY", f"z:{RANDOM}", "1", "member4"], scored),
    Case("sorted set", ["ZSCORE", f"z:{RANDOM}", "member5"], scored),
    Case("sorted set", ["ZRANK", f"z:{RANDOM}", "member5"], scored),
    Case("sorted set", ["ZRANGE", f"z:{RANDOM}", "0", "9"], scored),
    Case("stream", ["XADD", f"x:{RANDOM}", "MAXLEN", "~", "100", "*", "field", "value"]),
    Case("stream", ["XLEN", f"x:{RANDOM}"], entry),
    Case("stream", ["XRANGE", f"x:{RANDOM}", "-", "+", "COUNT", "10"], entry),
    Case("pub/sub", ["PUBLISH", f"c:{RANDOM}", "message"]),
]  # fmt: skip


def send_all(server: Server, commands: Iterator[list[str]]) -> None:
    """In batches, so that neither side's buffers grow."""
    with Connection(server.port) as connection:
        while batch := list(islice(commands, 200)):
            connection.send_many(batch)
            for _ in batch:
                connection.read()


def compare_cpu(servers: dict[str, Server], cases: list[Case], pipelines: list[int], rounds: int) -> list[str]:
    """One line for each command and pipeline; the names of those above the target."""
    above = []
    prepared = {case.prepare for case in cases if case.prepare}
    for prepare in prepared:
        for server in servers.values():
            send_all(server, (prepare(i) for i in range(KEYS)))
    for pipeline in pipelines:
        for case in cases:
            times: dict[str, list[float]] = {name: [] for name in servers}
            for _ in range(rounds):
                for name, server in servers.items():
                    load = ["-r", str(KEYS), *case.command]
                    times[name].append(server_cpu_us(server, load, requests=REQUESTS[pipeline], pipeline=pipeline, connections=CONNECTIONS))
            best = min(statistics.median(values) for name, values in times.items() if name != "pion")
            ratio = statistics.median(times["pion"]) / best
            if ratio > TARGET_CPU_RATIO:
                above.append(f"{case.name} at pipeline {pipeline}")
            shown = "  ".join(f"{name} {spread(values)}" for name, values in times.items())
            print(f"{case.type:12} {case.name:16} pipeline {pipeline:3}  {shown} µs  ratio {ratio:.2f}  {'ok' if ratio <= TARGET_CPU_RATIO else 'ABOVE'}", flush=True)
    return above


def value_commands(type_name: str, name: str, count: int) -> Iterator[list[str]]:
    """Commands that fill one value with `count` elements of about ten bytes, a hundred at a time."""
    for first in range(0, count, 100):
        numbers = range(first, min(first + 100, count))
        match type_name:
            case "hash":
                yield ["HSET", name] + [part for i in numbers for part in (f"field:{i}", f"value:{i}")]
            case "set":
                yield ["SADD", name, *(f"member:{i}" for i in numbers)]
            case "set of integers":
                yield ["SADD", name, *(str(i * 7) for i in numbers)]
            case "sorted set":
                yield ["ZADD", name] + [part for i in numbers for part in (str(i * 3), f"member:{i}")]
            case "list":
                yield ["RPUSH", name, *(f"element:{i}" for i in numbers)]
            case "stream":
                for i in numbers:
                    yield ["XADD", name, f"1700000000{i // 1000:03}-{i}", "sensor", f"{i % 40}", "temperature", f"{i % 300}"]


def compare_memory(factories: dict[str, Callable[[], Server]], types: list[str]) -> list[str]:
    above = []
    for type_name in types:
        for size, values, count in (("small", SMALL_VALUES, SMALL_ELEMENTS), ("large", 1, LARGE_ELEMENTS)):
            per_element: dict[str, float] = {}
            for name, factory in factories.items():
                with factory() as server:
                    empty = resident_bytes(server.pid)
                    send_all(server, (command for i in range(values) for command in value_commands(type_name, f"value:{i}", count)))
                    time.sleep(REST_S)
                    per_element[name] = (resident_bytes(server.pid) - empty) / (values * count)
            ratio = per_element["pion"] / min(value for name, value in per_element.items() if name != "pion")
            if ratio > TARGET_MEMORY_RATIO:
                above.append(f"{size} {type_name}")
            shown = "  ".join(f"{name} {value:.1f}" for name, value in per_element.items())
            print(f"{size} {type_name:16} {shown} resident bytes an element  ratio {ratio:.2f}  {'ok' if ratio <= TARGET_MEMORY_RATIO else 'ABOVE'}", flush=True)
    return above


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pipelines", type=int, nargs="+", default=[50, 16, 1], choices=sorted(REQUESTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="types", choices=sorted({case.type for case in CASES} | set(MEMORY_TYPES)))
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument("--skip-cpu", action="store_true")
    arguments = parser.parse_args()
    print(where())
    above: list[str] = []
    if not arguments.skip_memory:
        types = [name for name in MEMORY_TYPES if not arguments.only or name in arguments.only]
        above += compare_memory({"pion": PionServer, "redis 8.2": Redis82, "valkey 9.1": Valkey91}, types)
    if not arguments.skip_cpu:
        cases = [case for case in CASES if not arguments.only or case.type in arguments.only]
        with PionServer() as pion, Redis82() as redis, Valkey91() as valkey:
            above += compare_cpu({"pion": pion, "redis 8.2": redis, "valkey 9.1": valkey}, cases, arguments.pipelines, arguments.rounds)
    print(f"above the target: {', '.join(above) if above else 'none'}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
