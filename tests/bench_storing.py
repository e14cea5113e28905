#!/usr/bin/env python3
"""What storing while prefilling costs the prefill: A B A B ... in one engine process, A without Pion, B storing.

    python tests/bench_storing.py --engine llama --rounds 5 --prefix 1024

B asks Pion under a namespace of its own each time, so nothing is found and everything is stored. Both sides feed the same
steps; the clock runs from the token ids to the first token. Every second round begins with B.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

from prompt_cache_demo import engine_setup  # noqa: E402
from support.servers import PionServer  # noqa: E402
from ttft import report  # noqa: E402
from ttft.worker import Worker  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("llama", "mlx"), default="llama")
    parser.add_argument("--model", help="GGUF file (llama) or model folder (mlx)")
    parser.add_argument("--prefix", type=int, default=1024, help="tokens of the prefix")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of prefills")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    model, env = engine_setup(args.engine, args.model, args.threads)
    print(f"{report.machine()}; {args.engine}, {args.threads} threads, prefix {args.prefix:,} tokens")
    plain: list[float] = []
    storing: list[float] = []
    room = -(-(args.prefix + 128) // 256) * 256
    with PionServer() as server, Worker(args.engine, model, room, args.threads, env) as worker:
        prefix, question = worker.call("prompt", prefix_tokens=args.prefix)
        worker.call("connect_pion", host="127.0.0.1", port=server.port)

        def without() -> None:
            plain.append(worker.call("cold", prefix=prefix, question=question)["ms"])

        def with_pion(number: int) -> None:
            got = worker.call("from_pion", prefix=prefix, question=question, namespace=f"round {number}")
            done = worker.call("flush_pion")
            assert got["report"]["matched"] == 0 and done["stored"] >= args.prefix, done
            storing.append(got["ms"])

        for number in range(args.rounds):
            if number % 2:
                with_pion(number)
                without()
            else:
                without()
                with_pion(number)
            print(f"round {number}: {plain[-1]:9.1f} ms alone, {storing[-1]:9.1f} ms storing, {_percent(storing[-1], plain[-1])}", flush=True)
    a, b = statistics.median(plain), statistics.median(storing)
    pairs = statistics.median(with_ / alone for alone, with_ in zip(plain, storing))
    print(f"medians of {args.rounds}: {a:.1f} ms alone, {b:.1f} ms storing: {_percent(b, a)}; median of the rounds' own ratios {_percent(pairs, 1)}")
    return 0


def _percent(value: float, base: float) -> str:
    return f"{(value / base - 1) * 100:+.1f} %"


if __name__ == "__main__":
    sys.exit(main())
