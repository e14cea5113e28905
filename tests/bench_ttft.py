#!/usr/bin/env python3
"""Time to the first token from every source of the prefix, per prefix length: medians with spread.

    python tests/bench_ttft.py --engine llama --runs 5 256 1024 2048

--runs is the number of cold runs and of fresh engine processes per row. The server is our own, in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

from prompt_cache_demo import engine_setup  # noqa: E402
from support.servers import PionServer  # noqa: E402
from ttft import report, study  # noqa: E402


def parser(description: str) -> argparse.ArgumentParser:
    """Arguments common to this bench and cross_process_ttft.py."""
    out = argparse.ArgumentParser(description=description)
    out.add_argument("prefixes", type=int, nargs="*", default=[256, 1024, 2048], help="prefix lengths in tokens")
    out.add_argument("--engine", choices=("llama", "mlx"), default="llama")
    out.add_argument("--model", help="GGUF file (llama) or model folder (mlx)")
    out.add_argument("--runs", type=int, default=3, help="cold runs, and fresh processes per row")
    out.add_argument("--later", type=int, default=3, help="further requests of each process")
    out.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return out


def measure(args: argparse.Namespace, prefix: int, with_kill: bool = True) -> study.Study:
    """All rows of one prefix length, on a fresh server."""
    model, env = engine_setup(args.engine, args.model, args.threads)
    setup = study.Setup(
        engine=args.engine, model=model, threads=args.threads, env=env, cold_runs=args.runs, warm_processes=args.runs,
        later_requests=args.later, say=lambda title: print(f"  {prefix}: {title}", file=sys.stderr, flush=True),
    )
    with PionServer() as server:
        out = study.Study(setup, prefix, server)
        out.run(with_kill)
    return out


def main() -> int:
    args = parser(__doc__.splitlines()[0]).parse_args()
    print(f"{report.machine()}; {args.engine}, {args.threads} threads; ms to the first token: median [least..most] of N")
    wrong = False
    for prefix in sorted(args.prefixes):
        done = measure(args, prefix)
        print(f"\nprefix {prefix:,} + question {len(done.prompt['question'])} tokens")
        print(report.table(done.rows))
        print("\n".join(report.spread(row) for row in done.rows.values()), flush=True)
        wrong |= not all(all(row.tokens_equal + row.kv_equal) for row in done.rows.values())
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
