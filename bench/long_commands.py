#!/usr/bin/env python3
"""What long commands cost the other connections: latencies of a client that asks small things all the while.

    bench/long_commands.py [--elements 1000000] [--keys 1000000] [--only pion|redis82] [--real-time]

While one connection runs a long command (KEYS, SUNION, DEL and COPY of a huge value, FLUSHALL, a checkpoint, a million keys that
expire at once ...), another process sends PING and GET of random small keys, one at a time, and measures each. Per command: how long
it took, and of the other's latencies the median, the 99th percentile, the longest, and a histogram. Redis 8.2 runs the same beside it;
pion-server runs as it starts, with its journal. On a busy machine --real-time runs servers and clients at real-time priority (as
root); `longest tick` is the server's own view: the longest time that one of its reactors did not come back to its sockets.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests"), str(Path(__file__).resolve().parent)]

from measure import where  # noqa: E402
from support.resp import Connection, ServerError  # noqa: E402
from support.servers import PionServer, Redis82, Server  # noqa: E402

PROBE_KEYS = 4096  # on all stripes
BOUNDS_MS = (1, 3, 10, 30, 100, 300)
SETTLE_S = 0.5     # what a command leaves to the background falls on the others too
BATCH = 200


def probe(port: int, stop: multiprocessing.synchronize.Event, out: multiprocessing.connection.Connection) -> None:
    """Asks until told to stop; sends back (begin, milliseconds) of each question."""
    draw = random.Random(1)
    samples: list[tuple[float, float]] = []
    with Connection(port, timeout_s=600) as connection:
        connection.call("PING")
        out.send("ready")
        while not stop.is_set():
            words = ("PING",) if len(samples) % 4 == 0 else ("GET", f"probe:{draw.randrange(PROBE_KEYS)}")
            begin = time.perf_counter()
            connection.call(*words)
            samples.append((begin, (time.perf_counter() - begin) * 1e3))
    out.send(samples)


class Probe:
    """The other process, for the time of one command."""

    def __init__(self, port: int):
        self.stop = multiprocessing.Event()
        self.end, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=probe, args=(port, self.stop, other), daemon=True)
        self.process.start()
        assert self.end.recv() == "ready"

    def finish(self) -> list[tuple[float, float]]:
        self.stop.set()
        samples = self.end.recv()
        self.process.join()
        return samples


def pipelined(connection: Connection, commands: Iterator[tuple], what: str) -> None:
    """Runs them in batches; an error ends the benchmark."""
    batch: list[tuple] = []

    def flush() -> None:
        connection.send_many(batch)
        for _ in batch:
            if isinstance(reply := connection.read(), ServerError):
                raise SystemExit(f"{what}: {reply}")
        batch.clear()

    for command in commands:
        batch.append(command)
        if len(batch) == BATCH:
            flush()
    flush()


def load(connection: Connection, keys: int, elements: int) -> None:
    """Many small keys, and one huge value of each type."""
    pipelined(connection, (("SET", f"probe:{i}", "x" * 32) for i in range(PROBE_KEYS)), "probe keys")
    pipelined(connection, (("MSET", *(w for i in range(f, f + 100) for w in (f"key:{i:012}", "v" * 32))) for f in range(0, keys, 100)), "keys")
    parts = range(0, elements, 500)
    pipelined(connection, (("HSET", "hash", *(w for i in range(f, f + 500) for w in (f"field:{i}", f"value:{i:016}"))) for f in parts), "hash")
    pipelined(connection, (("ZADD", "zset", *(w for i in range(f, f + 500) for w in (i, f"member:{i}"))) for f in parts), "zset")
    pipelined(connection, (("RPUSH", "list", *(f"element:{i}" for i in range(f, f + 500))) for f in parts), "list")
    for name, from_ in (("set1", 0), ("set2", elements // 2)):
        pipelined(connection, (("SADD", name, *(f"member:{i}" for i in range(from_ + f, from_ + f + 500))) for f in parts), name)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("what was waited for did not happen in five minutes")
        time.sleep(0.02)


def saved(connection: Connection) -> bool:
    return b"rdb_bgsave_in_progress:0" in connection.call("INFO", "persistence")


def steps(connection: Connection, keys: int, elements: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each with a name and what is measured. What has to be there first is made in between."""
    call = connection.call
    yield "idle, nothing else runs", lambda: time.sleep(1)
    yield "KEYS *", lambda: call("KEYS", "*")
    yield "SUNION of two sets", lambda: call("SUNION", "set1", "set2")
    yield "SUNIONSTORE of two sets", lambda: call("SUNIONSTORE", "union", "set1", "set2")
    yield "BGSAVE (checkpoint)", lambda: (call("BGSAVE"), until(lambda: saved(connection)))
    yield "COPY of a hash", lambda: call("COPY", "hash", "hash2")
    yield "COPY of a list", lambda: call("COPY", "list", "list2")
    yield "RENAME of a hash", lambda: call("RENAME", "hash2", "hash3")
    yield "MOVE of a sorted set", lambda: call("MOVE", "zset", 1)
    yield "LINSERT in the middle of a list", lambda: call("LINSERT", "list", "BEFORE", f"element:{elements // 2}", "new")
    yield "LREM of every element like one", lambda: call("LREM", "list", 0, f"element:{elements // 2}")
    yield "SPOP of half a set", lambda: call("SPOP", "set1", elements // 2)
    yield "HGETALL", lambda: call("HGETALL", "hash")
    yield "DEL of a hash", lambda: call("DEL", "hash")
    yield "DEL of a list", lambda: call("DEL", "list")
    call("SELECT", 1)
    yield "DEL of a sorted set", lambda: call("DEL", "zset")
    call("SELECT", 0)
    yield "FLUSHALL", lambda: call("FLUSHALL")
    pipelined(connection, (("SET", f"probe:{i}", "x" * 32) for i in range(PROBE_KEYS)), "probe keys")
    at_ms = int(time.time() * 1000) + 3000 + keys // 50
    pipelined(connection, (("SET", f"key:{i}", "v", "PXAT", at_ms) for i in range(keys)), "keys that expire")
    time.sleep(max(0.0, at_ms / 1000 - time.time() - 0.2))
    yield "expiry of all keys at once", lambda: until(lambda: call("DBSIZE") <= PROBE_KEYS)


def longest_tick_ms(connection: Connection) -> str:
    for line in connection.call("INFO", "pion").decode().splitlines():
        if line.startswith("longest_tick_us:"):
            return f"{int(line.split(':')[1]) / 1000:9.1f}"
    return f"{'-':>9}"


def measure(name: str, server: Server, keys: int, elements: int) -> list[tuple[str, float]]:
    longest = []
    with Connection(server.port, timeout_s=600) as connection:
        load(connection, keys, elements)
        time.sleep(2)  # what loading left to do
        header = " ".join(f"{f'<{bound}':>7}" for bound in BOUNDS_MS) + f" {f'>={BOUNDS_MS[-1]}':>6}"
        print(f"\n{name:34} {'took ms':>9} {'asked':>7} {'p50':>7} {'p99':>8} {'longest':>9} {'tick':>9}   histogram, ms: {header}", flush=True)
        for step, run in steps(connection, keys, elements):
            connection.call("CONFIG", "RESETSTAT")
            other = Probe(server.port)
            begin = time.perf_counter()
            run()
            took = time.perf_counter() - begin
            time.sleep(SETTLE_S)
            tick = longest_tick_ms(connection)
            samples = sorted(ms for at, ms in other.finish() if at >= begin - 0.001)
            counts = [sum(ms < bound for ms in samples) for bound in (*BOUNDS_MS, float("inf"))]
            histogram = " ".join(f"{count - before:7}" for before, count in zip([0, *counts], counts))
            longest.append((step, samples[-1]))
            print(
                f"{step:34} {took * 1e3:9.1f} {len(samples):7} {samples[len(samples) // 2]:7.3f} {samples[int(len(samples) * 0.99)]:8.3f}"
                f" {samples[-1]:9.2f} {tick}   {'':14} {histogram}", flush=True,
            )  # fmt: skip
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1_000_000, help="of a huge value")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("pion", "redis82"))
    parser.add_argument("--real-time", action="store_true", help="servers and clients at real-time priority")
    options = parser.parse_args()
    print(where())
    if options.real_time:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # children inherit it
    results = {}
    for name, kind in (("pion", PionServer), ("redis82", Redis82)):
        if options.only in (None, name):
            with kind() as server:
                results[name] = dict(measure(name, server, options.keys, options.elements))
    if len(results) == 2:
        print(f"\n{'longest latency beside it, ms':34} {'pion':>10} {'redis82':>10}")
        for step, ours in results["pion"].items():
            print(f"{step:34} {ours:10.2f} {results['redis82'][step]:10.2f}")


if __name__ == "__main__":
    main()
