"""A process with SmolLM2 in mlx-lm for tests: one JSON command a line on stdin, one JSON answer a line on stdout.

    {"do": "ask", "prefix": [ids], "suffix": [ids], "namespace": "...", "count": 64, "keep": "name"}

Run by :class:`Worker`, which preloads a BLAS worth having (the one in mlx's Linux wheel is ten times slower), with one
thread: two that wait for each other are far slower where other tests use the processors too.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support import parts


def blas_env() -> dict[str, str]:
    """The environment of an mlx process."""
    return {**parts.engine_env(), "LD_PRELOAD": str(parts.part("PION_OPENBLAS")), "OPENBLAS_NUM_THREADS": "1"}


class Worker:
    """The process and its pipe. Use as a context manager."""

    def __init__(self, port: int, **options: Any) -> None:
        env = blas_env()
        env["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
        argv = [str(parts.part("PION_PYTHON")), __file__, str(parts.part("PION_MODEL_SMOLLM2_MLX")), str(port), json.dumps(options)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)

    def send(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with {self.process.wait()}")
        return json.loads(line)

    def call(self, **command: Any) -> Any:
        self.send(**command)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _serve(model_path: str, port: int, options: dict[str, Any]) -> None:
    import mlx.core as mx
    import numpy as np
    from mlx_lm import load
    from mlx_lm.generate import generate_step

    from pion.client import Client
    from pion_vllm_mlx import PionPromptCache, split_prompt

    model, tokenizer = load(model_path)
    # Deadlines are tested elsewhere; here a busy machine must not look like a server that is down.
    client = Client(port=port, timeout_s=30, connect_timeout_s=10)
    pc = PionPromptCache(model, port=port, client=client, **options)

    def digest(cache: list[Any], tokens: int) -> str:
        state = hashlib.sha256()
        for layer in cache:
            assert layer.offset == tokens
            state.update(np.ascontiguousarray(np.array(layer.keys[..., :tokens, :])))
            state.update(np.ascontiguousarray(np.array(layer.values[..., :tokens, :])))
        return state.hexdigest()

    def ask(command: dict[str, Any]) -> dict[str, Any]:
        prefix, suffix = command["prefix"], command["suffix"]
        cache = pc.get_or_prefill(prefix, namespace=command.get("namespace", "test|smollm2"))
        rows = digest(cache, len(prefix))
        report = pc.last
        tokens = [t for t, _ in generate_step(mx.array(suffix), model, max_tokens=command["count"], prompt_cache=cache)]
        pc.flush()
        return {
            "tokens": tokens,
            "text": tokenizer.decode(tokens),
            "rows": rows,
            "matched": report.matched,
            "fed": report.fed,
            "stored": report.stored,
            "lane": report.lane,
            "claimed": report.claimed,
            "why": report.why,
            "prefill_ms": report.prefill_ms,
            "export_ms": pc.engine.export_ms,
        }

    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "split":
            out: Any = split_prompt(tokenizer.encode, command["prefix"], command["suffix"])
        elif command["do"] == "ask":
            out = ask(command)
        else:
            raise ValueError(command["do"])
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
