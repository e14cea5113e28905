#!/usr/bin/env python3
"""Server CPU per GET and SET, and resident bytes per key, beside Redis 8.2 and Valkey 9.1 in the same run.

    bench/redis_compare.py [--keys 1000000] [--rounds 5] [--pipelines 50 16 1] [--threads N]

redis-benchmark drives each server in turn (A B C A B C ...), 50 connections, random keys of 16 bytes, values of 64. The CPU is
the server's own, from /proc/<pid>/stat: the client's share does not count. The peers run without persistence; pion-server runs as
it starts, with its journal, every acknowledged write safe at SIGKILL. Beside them runs the limit: a bare epoll loop
(bench/bare_loop.cc) that receives, writes once a tick what a journal would get, and sends replies of the right length, without any
work for the command. Needs redis-tools and scripts/setup-peers.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from measure import server_cpu_us, spread, where  # noqa: E402
from support import parts  # noqa: E402
from support.servers import PionServer, Redis82, Server, Valkey91, resident_bytes  # noqa: E402

VALUE_BYTES = 64
CONNECTIONS = 50
REQUESTS = {1: 150_000, 16: 600_000, 50: 1_500_000}  # long enough for the 10 ms grain of /proc
TARGET_CPU_RATIO = 0.35        # pipeline 50, against the better peer
TARGET_RATE_RATIO = 1.3        # pipeline 1, requests per second of server CPU
TARGET_BYTES_PER_KEY = 105
REST_S = 4.0                   # after loading: buffers of unsynced records go back


class BareLoop(Server):
    """What the kernel alone takes."""

    def command(self) -> list[str]:
        binary = Path(parts.pion_server()).with_name("bare_loop")
        return [str(binary), str(self.port), str(self.dir)]


def load(port: int, keys: int) -> None:
    """Sets every key once, as redis-benchmark names them."""
    value = b"v" * VALUE_BYTES
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for first in range(0, keys, 10_000):
            batch = range(first, min(first + 10_000, keys))
            connection.sendall(b"".join(b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$64\r\n%b\r\n" % (i, value) for i in batch))
            owed = 5 * len(batch)  # +OK\r\n each
            while owed > 0:
                owed -= len(connection.recv(min(owed, 1 << 16)))


def cpu_us(server: Server, command: str, pipeline: int, keys: int) -> float:
    """CPU of the server per command, microseconds."""
    load = ["-t", command, "-r", str(keys), "-d", str(VALUE_BYTES)]
    return server_cpu_us(server, load, requests=REQUESTS.get(pipeline, 500_000), pipeline=pipeline, connections=CONNECTIONS)


def compare_cpu(servers: dict[str, Server], pipeline: int, keys: int, rounds: int) -> bool:
    good = True
    for command in ("set", "get"):
        times: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(rounds):
            for name, server in servers.items():
                times[name].append(cpu_us(server, command, pipeline, keys))
        for name, values in times.items():
            print(f"pipeline {pipeline:3} {command:4} {name:12} {spread(values):>24} µs of server CPU a command", flush=True)
        medians = {name: statistics.median(values) for name, values in times.items()}
        best = min(value for name, value in medians.items() if name not in ("pion", "bare loop"))
        floor = medians["bare loop"]
        ratio = medians["pion"] / best
        if pipeline == 1:
            reached = 1 / ratio >= TARGET_RATE_RATIO
            print(f"  requests per second of CPU against the better peer: {1 / ratio:.2f}x, target {TARGET_RATE_RATIO}x {'ok' if reached else 'BELOW'}")
            print(f"  the bare loop's: {best / floor:.2f}x; ours against it {floor / medians['pion']:.2f}")
        else:
            reached = ratio <= TARGET_CPU_RATIO
            print(f"  CPU against the better peer: {ratio:.2f}, target {TARGET_CPU_RATIO} {'ok' if reached else 'ABOVE'}")
            print(f"  the bare loop's: {floor / best:.2f}; ours beyond it {medians['pion'] - floor:.2f} µs, the better peer's {best - floor:.2f} µs")
        good = good and (reached or pipeline == 16)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pipelines", type=int, nargs="+", default=[50, 16, 1])
    parser.add_argument("--threads", type=int, help="pion-server -w")
    arguments = parser.parse_args()
    print(where())
    threads = ["-w", str(arguments.threads)] if arguments.threads else []
    with PionServer(*threads) as pion, Redis82() as redis, Valkey91() as valkey, BareLoop() as bare:
        servers: dict[str, Server] = {"pion": pion, "redis 8.2": redis, "valkey 9.1": valkey}
        good = True
        for name, server in servers.items():
            empty = resident_bytes(server.pid)
            load(server.port, arguments.keys)
            time.sleep(REST_S)
            per_key = (resident_bytes(server.pid) - empty) / arguments.keys
            print(f"{name:12} {per_key:7.1f} resident bytes a key (16 B keys, 64 B values)", flush=True)
            if name == "pion":
                good = good and per_key <= TARGET_BYTES_PER_KEY
        servers["bare loop"] = bare  # keeps no keys
        for pipeline in arguments.pipelines:
            good = compare_cpu(servers, pipeline, arguments.keys, arguments.rounds) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
