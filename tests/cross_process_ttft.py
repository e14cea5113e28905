#!/usr/bin/env python3
"""First-token time of another process against prefix length: a table, and a picture.

    python tests/cross_process_ttft.py --runs 5 128 512 1024 2048 4096 --picture docs/img/ttft.svg

The process that asks has loaded its engine and never seen the prefix; a different one stored it.
"""

from __future__ import annotations

import statistics
import sys

from bench_ttft import measure, parser
from ttft import picture, report, study

_LINES = [study.COLD, study.FILE, study.OTHER, study.KILLED, study.RESIDENT]


def main() -> int:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--picture", help="SVG file to write")
    args = arguments.parse_args()
    machine = report.machine()
    print(f"{machine}; {args.engine}, {args.threads} threads; first request of a fresh, loaded process")
    lines: dict[str, list[picture.Point]] = {name: [] for name in _LINES}
    wrong = False
    for prefix in sorted(args.prefixes):
        done = measure(args, prefix)
        for name in _LINES:
            times = done.rows[name].first_ms or done.rows[name].later_ms
            lines[name].append((prefix, statistics.median(times), min(times), max(times)))
            wrong |= not all(done.rows[name].tokens_equal + done.rows[name].kv_equal)
        cold, pion = done.rows[study.COLD].ms, done.rows[study.OTHER].ms
        print(f"prefix {prefix:>6,}: cold {cold:9.1f} ms, Pion {pion:8.1f} ms, {cold / pion:6.1f}x", flush=True)
        print("\n".join(report.spread(done.rows[name]) for name in _LINES), flush=True)
    if args.picture:
        subtitle = f"{args.engine}, SmolLM2-135M; {machine}; median and spread of {args.runs}"
        picture.draw(args.picture, "Time to the first token, another process", subtitle, lines)
        print(f"wrote {args.picture}")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
