"""Tables of a study, and what the machine is."""

from __future__ import annotations

import datetime
import os
import platform
import re
import statistics
from pathlib import Path
from typing import Mapping, Sequence

from .study import COLD, RESIDENT, Row


def machine() -> str:
    """Processor, cores, memory, kernel and date in one line."""
    model = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = model.group(1) if model else platform.machine()
    today = datetime.date.today().isoformat()
    return f"{name}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}, {today}"


def _yes(values: Sequence[bool]) -> str:
    return "yes" if all(values) else f"NO ({values.count(False)} of {len(values)})"


def table(rows: Mapping[str, Row]) -> str:
    """One line per source: ms (and later requests), times faster than cold, against the limit, MB, equal or not."""
    cold, limit = rows[COLD].ms, rows[RESIDENT].ms
    lines = [
        f"{'source of the prefix':42} {'ms':>9} {'(later)':>9} {'vs cold':>9} {'vs limit':>9} {'MB':>7}  {'tokens equal':13} K/V bit-equal"
    ]
    for row in rows.values():
        later = f"{statistics.median(row.later_ms):9.1f}" if row.first_ms and row.later_ms else " " * 9
        moved = f"{row.moved_bytes / 1e6:7.1f}" if row.moved_bytes else f"{'-':>7}"
        equal = "(reference)  " if row.name == COLD and len(row.tokens_equal) == 1 else f"{_yes(row.tokens_equal):13}"
        same = "(reference)" if row.name == COLD and len(row.kv_equal) == 1 else _yes(row.kv_equal)
        lines.append(
            f"{row.name:42} {row.ms:9.1f} {later} {cold / row.ms:8.1f}x {row.ms / limit:8.2f}x {moved}  {equal} {same}"
        )
    return "\n".join(lines)


def spread(row: Row) -> str:
    """Median, least and largest of first and of later requests."""
    parts = []
    for label, values in (("first", row.first_ms), ("later", row.later_ms)):
        if values:
            parts.append(f"{label} {statistics.median(values):9.1f} [{min(values):.1f}..{max(values):.1f}] of {len(values)}")
    return f"  {row.name:42} " + "; ".join(parts)
