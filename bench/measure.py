"""What all benchmarks share: paired runs, medians with spread, ratios, and the line that says where they ran."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.servers import Server, cpu_seconds  # noqa: E402


def where() -> str:
    """Hardware and date, one line."""
    cpu = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, {datetime.date.today()}"


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def paired(
    ours: Callable[[], object], limit: Callable[[], object], rounds: int, between: Callable[[], object] = lambda: None
) -> tuple[list[float], list[float]]:
    """Runs limit, ours, limit, ours ...: the machine's mood falls on both. One warm-up round each. `between` is not measured."""
    limit(), ours()
    ours_s, limit_s = [], []
    for _ in range(rounds):
        between()
        limit_s.append(seconds(limit))
        ours_s.append(seconds(ours))
    return ours_s, limit_s


def server_cpu_us(server: Server, load: list[str], *, requests: int, pipeline: int, connections: int) -> float:
    """CPU of a server per command, microseconds, while redis-benchmark sends `requests` of what `load` says. The client's does not count."""
    sizes = ["-n", str(requests), "-c", str(connections), "-P", str(pipeline), "-q"]
    before = cpu_seconds(server.pid)
    subprocess.run(["redis-benchmark", "-p", str(server.port), *sizes, *load], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (cpu_seconds(server.pid) - before) * 1e6 / requests


def spread(values: list[float], scale: float = 1.0, digits: int = 2) -> str:
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    return f"{statistics.median(values) * scale:.{digits}f} [{low * scale:.{digits}f}..{high * scale:.{digits}f}]"


def verdict(name: str, ours_s: list[float], limit_s: list[float], target: float) -> bool:
    """Prints one row: both medians in ms, the ratio of speeds (limit's time over ours), and whether it reaches the target."""
    ratios = [limit / own for own, limit in zip(ours_s, limit_s)]
    ratio = statistics.median(ratios)
    mark = "ok" if ratio >= target else "BELOW"
    print(f"{name:52} {spread(ours_s, 1e3):>26} ms  limit {spread(limit_s, 1e3):>26} ms  ratio {spread(ratios)}  target {target}  {mark}", flush=True)
    return ratio >= target
