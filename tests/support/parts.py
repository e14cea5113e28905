"""Where the scripts put engines, models and peers: the variables of ~/.cache/pion/env.sh."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("PION_CACHE", Path.home() / ".cache" / "pion"))


class MissingPart(RuntimeError):
    """A part that a setup script makes is not there; the text names the script."""


_MADE_BY = {
    "PION_PYTHON": "setup-python",
    "PION_OPENBLAS": "setup-python",
    "PION_LLAMA_LIB": "setup-llama",
    "PION_MODEL_SMOLLM2": "setup-models smollm2",
    "PION_MODEL_SMOLLM2_MLX": "setup-models smollm2-mlx",
    "PION_MODEL_GEMMA3": "setup-models gemma3",
    "PION_REDIS82": "setup-peers",
    "PION_VALKEY91": "setup-peers",
    "PION_NODE_MODULES": "setup-clients",
    "PION_CLIENT_C": "setup-clients",
    "PION_CLIENT_GO": "setup-clients",
    "PION_CLIENT_JAVA": "setup-clients",
    "PION_CLIENT_RUST": "setup-clients",
}


def _env_file() -> dict[str, str]:
    try:
        lines = (CACHE / "env.sh").read_text().splitlines()
    except FileNotFoundError:
        return {}
    words = [shlex.split(line) for line in lines if line.startswith("export ")]
    return dict(word[1].split("=", 1) for word in words if len(word) == 2)


def part(name: str) -> Path:
    """The path of one part: the environment's variable if set, else that of env.sh."""
    value = os.environ.get(name) or _env_file().get(name)
    if not value or not Path(value).exists():
        raise MissingPart(f"{name} is not there: run scripts/{_MADE_BY[name]}")
    return Path(value)


def pion_server() -> Path:
    """The server's binary: $PION_SERVER if set (a sanitizer build, say), else the release build."""
    path = Path(os.environ.get("PION_SERVER", ROOT / "build" / "release" / "pion-server"))
    if not path.exists():
        raise MissingPart(f"{path} is not there: run scripts/build")
    return path


def engine_env() -> dict[str, str]:
    """The environment in which engine processes run: our package, libllama, and for mlx a BLAS worth comparing with."""
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT / "pion-vllm-mlx"), str(ROOT / "tests")])
    env["LLAMA_CPP_LIB_PATH"] = str(part("PION_LLAMA_LIB"))
    env["TRANSFORMERS_VERBOSITY"] = "error"  # mlx-lm tokenises with it; its hints are not about us
    return env
