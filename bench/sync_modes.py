#!/usr/bin/env python3
"""SET under `appendfsync always` against the same server under `everysec`: requests per second, at pipeline 1 and 16.

    bench/sync_modes.py [--rounds 7] [--requests 100000]

Both servers run in turn, A B A B ..., 50 connections, values of 64 bytes. The limit beside it is the disk's: how long one
fdatasync after a 4 KiB write into an allocated file takes there.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from measure import seconds, spread, where  # noqa: E402
from support.servers import PionServer  # noqa: E402

TARGET = 0.6


def rate(server: PionServer, pipeline: int, requests: int) -> float:
    """Requests per second as redis-benchmark sees them."""
    run = subprocess.run(
        ["redis-benchmark", "-p", str(server.port), "-t", "set", "-n", str(requests), "-c", "50", "-P", str(pipeline), "-r", "100000",
         "-d", "64", "--csv"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(re.search(r'"SET","([\d.]+)"', run.stdout).group(1))


def sync_ms(directory: Path) -> list[float]:
    """Milliseconds of write and fdatasync, 4 KiB, into a file that is allocated and zeroed."""
    fd = os.open(directory / "sync-limit", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(fd, bytes(1 << 20), 0)
    os.fsync(fd)

    def once(at: int) -> None:
        os.pwrite(fd, b"x" * 4096, at)
        os.fdatasync(fd)

    times = [seconds(lambda at=at: once(at * 4096)) * 1e3 for at in range(200)]
    os.close(fd)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=100_000)
    arguments = parser.parse_args()
    print(where())
    good = True
    with tempfile.TemporaryDirectory(prefix="pion-bench-", dir=ROOT / "build") as scratch:
        place = Path(scratch)
        print(f"write and fdatasync of 4 KiB: {spread(sync_ms(place))} ms")
        with PionServer("--appendfsync", "always", dir=place / "always") as always, PionServer(dir=place / "everysec") as everysec:
            for pipeline in (1, 16):
                requests = arguments.requests * (1 if pipeline == 1 else 5)
                rates: dict[str, list[float]] = {"always": [], "everysec": []}
                for round in range(arguments.rounds + 1):
                    for name, server in (("everysec", everysec), ("always", always)):
                        measured = rate(server, pipeline, requests)
                        if round > 0:  # the first is the warm-up
                            rates[name].append(measured)
                ratios = [a / e for a, e in zip(rates["always"], rates["everysec"])]
                good &= statistics.median(ratios) >= TARGET
                print(
                    f"pipeline {pipeline}: always {spread(rates['always'], 1e-3, 1)} k/s, everysec {spread(rates['everysec'], 1e-3, 1)} k/s, "
                    f"ratio {spread(ratios)} target {TARGET} {'ok' if statistics.median(ratios) >= TARGET else 'BELOW'}",
                    flush=True,
                )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
