#!/usr/bin/env python3
"""Restart with many segments and keys: time until the first prompt hit and the first GET, and RAM per segment.

    bench/restart.py [--segments 1000000] [--keys 1000000] [--dir PATH]

Segments are small on purpose (8 tokens, one row of 8 bytes): what is measured is the cost of a segment, not of its payload. They
are chains of 4 under 250,000 heads. The server is killed with SIGKILL after a SAVE and a tail of records that only the
journal holds. The limit beside it: reading the same checkpoint and journal bytes and checksumming them.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

import xxhash  # noqa: E402
from measure import where  # noqa: E402
from support.resp import Connection, ServerError, as_map  # noqa: E402
from support.servers import PionServer, resident_bytes  # noqa: E402

TOKENS_PER_SEGMENT = 8
CHAIN = 4
BATCH = 500
MANIFEST = '{"weights":"restart","pools":[{"name":"attn","rule":"all","layers":1,"sides":["k"],"row_bytes":8,"dtype":"u8"}]}'


def chain(head: int, segments: int) -> bytes:
    return struct.pack(f"<{segments * TOKENS_PER_SEGMENT}I", *range(head * 1000, head * 1000 + segments * TOKENS_PER_SEGMENT))


def put(head: int, part: int) -> tuple:
    rows = struct.pack(f"<{TOKENS_PER_SEGMENT}Q", *range(TOKENS_PER_SEGMENT))
    return ("PROMPT.PUT", "m", chain(head, part + 1), part * TOKENS_PER_SEGMENT, "POOL", "attn", rows)


def run_batches(connection: Connection, commands, count: int, what: str) -> None:
    begin, done = time.monotonic(), 0
    while done < count:
        batch = [next(commands) for _ in range(min(BATCH, count - done))]
        connection.send_many(batch)
        for _ in batch:
            reply = connection.read()
            if isinstance(reply, ServerError):
                raise SystemExit(f"{what}: {reply}")
        done += len(batch)
    print(f"{what}: {count} in {time.monotonic() - begin:.1f} s", flush=True)


def read_and_check(directory: Path) -> tuple[int, float]:
    """Reads every checkpoint and journal byte and checksums it: what no restart can avoid."""
    begin, total = time.perf_counter(), 0
    for file in [*directory.glob("checkpoint/*.ckpt"), *directory.glob("journal/*.log")]:
        data = file.read_bytes()
        xxhash.xxh3_64_intdigest(data)
        total += len(data)
    return total, time.perf_counter() - begin


def first_answers(server: PionServer, segments: int) -> tuple[float, float]:
    """Starts the server; seconds until the first prompt hit and the first GET from the start of the process."""
    begin = time.perf_counter()
    server.start_without_waiting()
    while True:
        try:
            connection = Connection(server.port)
            break
        except OSError:
            time.sleep(0.002)
    with connection:
        head = segments // CHAIN // 2
        reply = as_map(connection.call("PROMPT.MATCH", "m", chain(head, CHAIN)))
        hit = time.perf_counter() - begin
        assert reply[b"matched"] == CHAIN * TOKENS_PER_SEGMENT, reply
        got = connection.call("GET", "key:000000000007")
        assert got is None or len(got) == 64
        return hit, time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="keep the data here and use it again when it is there")
    arguments = parser.parse_args()
    print(where())
    scratch = None if arguments.dir else tempfile.TemporaryDirectory(prefix="pion-bench-", dir=ROOT / "build")
    directory = arguments.dir or Path(scratch.name) / "data"
    server = PionServer("--prompt-budget", str(64 << 30), dir=directory)
    if not directory.exists():
        with server:
            with Connection(server.port) as connection:
                keys = (("SET", f"key:{i:012d}", b"v" * 64) for i in range(arguments.keys))
                run_batches(connection, keys, arguments.keys, "keys")
                connection.call("PROMPT.MODEL", "SET", "m", MANIFEST)
                before = resident_bytes(server.pid)
                puts = (put(head, part) for head in range(arguments.segments // CHAIN) for part in range(CHAIN))
                run_batches(connection, puts, arguments.segments, "segments")
                grown = resident_bytes(server.pid) - before
                print(f"RAM: {grown / arguments.segments:.0f} bytes a segment (target: at most 200)")
                connection.call("SAVE")
                connection.call("SET", "after", "the checkpoint")
            server.kill()
        server = PionServer("--prompt-budget", str(64 << 30), dir=directory)
    hits, gets = [], []
    for _ in range(arguments.rounds):
        hit, get = first_answers(server, arguments.segments)
        hits.append(hit), gets.append(get)
        with Connection(server.port) as connection:
            info = as_map(connection.call("PROMPT.INFO"))
            print(f"first hit {hit:.3f} s, first GET {get:.3f} s; RAM in all {resident_bytes(server.pid) / 1e6:.0f} MB; PROMPT.INFO {info}", flush=True)
        server.kill()
    size, limit = read_and_check(directory)
    print(f"median first hit {sorted(hits)[len(hits) // 2]:.3f} s (target: at most 1 s); reading and checksumming the same {size / 1e6:.0f} MB: {limit:.3f} s")
    server.close()
    return 0 if sorted(hits)[len(hits) // 2] <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
