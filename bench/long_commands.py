#!/usr/bin/env python3
"""What long commands cost the other connections: latencies of a client that asks small things all the while.

    bench/long_commands.py [--elements 1000000] [--keys 1000000] [--only pion|redis82] [--real-time]

While one connection runs a long command (KEYS, SUNION, DEL and COPY of a huge value, FLUSHALL, a checkpoint, a million keys that
expire at once ...), two others send PING and GET, one at a time, and measure each: one of any of 4,096 small keys, which meets the
stripe of the huge value at times, one of always the same key. Per command: how long it took, the latencies beside it, and `tick`, the
server's own view: the longest time that one of its reactors did not come back to its sockets. Redis 8.2 runs the same;
pion-server runs as it starts, with its journal. --real-time runs the servers and the two clients at real-time priority (as root), for a machine
that is shared. What a virtual machine is stopped for is told apart: a process of the highest priority watches the clock, and samples that
overlap with a gap of more than 3 ms are left out; their sum is the last column.
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
PAUSE_S = 0.003  # longer: the machine stood still
SETTLE_S = 0.5     # what a command leaves to the background falls on the others too
BATCH = 200


def probe(port: int, keys: int, real_time: bool, stop: multiprocessing.synchronize.Event, out: multiprocessing.connection.Connection) -> None:
    """Asks until told to stop; sends back (begin, milliseconds) of each question."""
    draw = random.Random(1)
    samples: list[tuple[float, float]] = []
    if real_time:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with Connection(port, timeout_s=600) as connection:
        connection.call("PING")
        out.send("ready")
        while not stop.is_set():
            words = ("PING",) if len(samples) % 4 == 0 else ("GET", f"probe:{draw.randrange(keys)}")
            begin = time.perf_counter()
            connection.call(*words)
            samples.append((begin, (time.perf_counter() - begin) * 1e3))
            time.sleep(0.0001)
    out.send(samples)


def heartbeat(stop: multiprocessing.synchronize.Event, out: multiprocessing.connection.Connection) -> None:
    """At the highest priority there is: when even this process did not run, the machine stood still. Sends back (begin, end) of such."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except PermissionError:
        pass
    pauses = []
    out.send("ready")
    before = time.perf_counter()
    while not stop.is_set():
        time.sleep(0.0005)
        now = time.perf_counter()
        if now - before > PAUSE_S:
            pauses.append((before, now))
        before = now
    out.send(pauses)


class Helper:
    """Another process, for the time of one command."""

    def __init__(self, target: Callable, *args: object):
        self.stop = multiprocessing.Event()
        self.end, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=target, args=(*args, self.stop, other), daemon=True)
        self.process.start()
        assert self.end.recv() == "ready"

    def finish(self) -> list[tuple[float, float]]:
        self.stop.set()
        told = self.end.recv()
        self.process.join()
        return told


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


def bgsave(connection: Connection) -> None:
    before = connection.call("LASTSAVE")  # in seconds
    connection.call("BGSAVE")
    until(lambda: connection.call("LASTSAVE") != before)


def steps(connection: Connection, keys: int, elements: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each with a name and what is measured. What has to be there first is made in between."""
    call = connection.call
    yield "idle, nothing else runs", lambda: time.sleep(1)
    yield "KEYS *", lambda: call("KEYS", "*")
    yield "SUNION of two sets", lambda: call("SUNION", "set1", "set2")
    yield "SUNIONSTORE of two sets", lambda: call("SUNIONSTORE", "union", "set1", "set2")
    time.sleep(1.1)
    yield "BGSAVE (checkpoint)", lambda: bgsave(connection)
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
    at_ms = int(time.time() * 1000) + 5000 + keys // 25
    pipelined(connection, (("SET", f"key:{i}", "v", "PXAT", at_ms) for i in range(keys)), "keys that expire")
    time.sleep(max(0.0, at_ms / 1000 - time.time() - 0.2))
    yield "expiry of all keys at once", lambda: until(lambda: call("DBSIZE") <= PROBE_KEYS)


def longest_tick_ms(connection: Connection) -> str:
    for line in connection.call("INFO", "pion").decode().splitlines():
        if line.startswith("longest_tick_us:"):
            return f"{int(line.split(':')[1]) / 1000:9.1f}"
    return f"{'-':>9}"


def undisturbed(samples: list[tuple[float, float]], begin: float, pauses: list[tuple[float, float]]) -> list[float]:
    """Latencies since `begin`, without those during which the machine stood still."""
    kept = []
    for at, ms in samples:
        if at >= begin - 0.001 and not any(at < end and from_ < at + ms / 1e3 for from_, end in pauses):
            kept.append(ms)
    return sorted(kept) or [0.0]


def measure(server: Server, keys: int, elements: int, real_time: bool) -> list[tuple[str, float, float]]:
    longest = []
    with Connection(server.port, timeout_s=600) as connection:
        load(connection, keys, elements)
        time.sleep(2)  # what loading left to do
        header = " ".join(f"{f'<{bound}':>6}" for bound in BOUNDS_MS) + f" {f'>={BOUNDS_MS[-1]}':>6}"
        print(f"{'':34} {'':>9}   a client of any key                                                       of one key   server   machine")
        print(f"{'':34} {'took ms':>9} {'p50':>7} {'p99':>7} {'longest':>8}  ms: {header}   {'longest':>9} {'tick':>8} {'stood ms':>9}", flush=True)
        for step, run in steps(connection, keys, elements):
            connection.call("CONFIG", "RESETSTAT")
            any_key, one_key, beat = (
                Helper(probe, server.port, PROBE_KEYS, real_time), Helper(probe, server.port, 1, real_time), Helper(heartbeat),
            )  # fmt: skip
            begin = time.perf_counter()
            run()
            took = time.perf_counter() - begin
            time.sleep(SETTLE_S)
            tick = longest_tick_ms(connection)
            pauses = [pause for pause in beat.finish() if pause[1] >= begin]
            samples, others = (undisturbed(helper.finish(), begin, pauses) for helper in (any_key, one_key))
            counts = [sum(ms < bound for ms in samples) for bound in (*BOUNDS_MS, float("inf"))]
            histogram = " ".join(f"{count - before:6}" for before, count in zip([0, *counts], counts))
            longest.append((step, samples[-1], others[-1]))
            print(
                f"{step:34} {took * 1e3:9.1f} {samples[len(samples) // 2]:7.3f} {samples[int(len(samples) * 0.99)]:7.3f} {samples[-1]:8.2f}"
                f"      {histogram}   {others[-1]:9.2f} {tick} {sum(end - from_ for from_, end in pauses) * 1e3:9.1f}", flush=True,
            )  # fmt: skip
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1_000_000, help="of a huge value")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("pion", "redis82"))
    parser.add_argument("--real-time", action="store_true", help="servers and the two clients at real-time priority")
    options = parser.parse_args()
    print(where())
    results: dict[str, list[tuple[str, float, float]]] = {}
    for name, kind in (("pion", PionServer), ("redis82", Redis82)):
        if options.only not in (None, name):
            continue
        print(f"\n{name}")
        server = kind()
        if options.real_time:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # the server inherits it
        try:
            server.start()
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            results[name] = measure(server, options.keys, options.elements, options.real_time)
        finally:
            server.close()
    if len(results) == 2:
        print(f"\n{'longest latency beside it, ms':34} {'any key: pion':>14} {'redis82':>10} {'one key: pion':>16} {'redis82':>10}")
        for (step, any_key, one_key), (_, their_any, their_one) in zip(results["pion"], results["redis82"]):
            print(f"{step:34} {any_key:14.2f} {their_any:10.2f} {one_key:16.2f} {their_one:10.2f}")


if __name__ == "__main__":
    main()
