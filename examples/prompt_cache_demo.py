#!/usr/bin/env python3
"""A prefix is read once; every later process, also after a SIGKILL of the server, answers at once.

    scripts/demo                         # installs what is needed, builds, then runs this
    python examples/prompt_cache_demo.py --engine llama --prefix 2048

Starts a pion-server of its own in a temporary folder, unless --port names a running one (which is then not
killed: that row is left out). Exits with 1 when tokens or K/V differ anywhere.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests")]

from support import parts  # noqa: E402
from support.servers import PionServer  # noqa: E402
from ttft import report, study  # noqa: E402


class RunningServer:
    """A server somebody else started: never killed."""

    def __init__(self, port: int):
        self.port = port

    def restart(self) -> Any:
        raise AssertionError("not our server")


@contextlib.contextmanager
def server(port: int | None) -> Iterator[Any]:
    if port:
        yield RunningServer(port)
    else:
        with PionServer() as own:
            yield own


def engine_setup(engine: str, model: str | None, threads: int) -> tuple[str, dict[str, str]]:
    """Path of the model, and the environment its processes need."""
    env = parts.engine_env() | {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    if engine == "mlx":
        # The BLAS inside mlx's Linux wheel is the slow reference one: a cold side without this would flatter us.
        env["LD_PRELOAD"] = str(parts.part("PION_OPENBLAS"))
        return model or str(parts.part("PION_MODEL_SMOLLM2_MLX")), env
    return model or str(parts.part("PION_MODEL_SMOLLM2")), env


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("llama", "mlx"), default="llama")
    parser.add_argument("--model", help="GGUF file (llama) or model folder (mlx); default: SmolLM2-135M-Instruct")
    parser.add_argument("--prefix", type=int, default=2048, help="tokens of the prefix (default 2048)")
    parser.add_argument("--port", type=int, help="a running pion-server on this host; default: start one")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of the engine")
    parser.add_argument("--cold-runs", type=int, default=2, help="cold prefills (default 2)")
    parser.add_argument("--processes", type=int, default=3, help="fresh engine processes per row (default 3)")
    parser.add_argument("--json", help="write every measurement and the adapter's reports to this file")
    parser.add_argument("--answer", type=int, default=64, help="greedy tokens compared (default 64)")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    begun = time.monotonic()

    def say(title: str) -> None:
        print(f"[{time.monotonic() - begun:6.1f} s] {title}", flush=True)

    def progress(done: int, of: int) -> None:
        print(f"[{time.monotonic() - begun:6.1f} s]   {done:,} of {of:,} tokens", flush=True)

    model, env = engine_setup(args.engine, args.model, args.threads)
    setup = study.Setup(
        engine=args.engine, model=model, threads=args.threads, env=env, answer_tokens=args.answer,
        cold_runs=args.cold_runs, warm_processes=args.processes, say=say, progress=progress,
    )
    with server(args.port) as pion:
        run = study.Study(setup, args.prefix, pion)
        rows = run.run(with_kill=args.port is None)
    print(f"\n{report.machine()}")
    print(f"{args.engine}, {Path(model).name}, prefix {args.prefix:,} tokens, question {len(run.prompt['question'])} tokens, {args.threads} threads")
    print(f"reuse: {run.reuse}\n")
    print(report.table(rows))
    print(
        "\nms: from the token ids to the first token of the answer, median; other processes are loaded before their clock"
        "\nstarts, and the column is their FIRST request, (later) their further ones. Tokens: the first"
        f" {args.answer}, greedy,\nagainst cold. K/V: every byte of the prefix's rows against the cold prefill in the same steps."
    )
    if args.json:
        Path(args.json).write_text(json.dumps({name: dataclasses.asdict(row) for name, row in rows.items()}, indent=1))
    wrong = [row.name for row in rows.values() if not all(row.tokens_equal + row.kv_equal)]
    if wrong:
        print(f"\nDIFFERENT: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
