"""Fixtures of the Python tests: the package from this tree, and servers to speak to.

``server`` runs every test twice: against the small model of the wire in ``fake_server.py``, and against
the real binary ($PION_SERVER, else build/release/pion-server) when it is built.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "pion-vllm-mlx"), str(Path(__file__).parent)]

from fake_server import FakeServer  # noqa: E402
from real_server import BINARY, start_real  # noqa: E402


@pytest.fixture(params=["fake", "real"])
def server(request):
    """A running server with ``port`` and ``path``."""
    if request.param == "fake":
        fake = FakeServer()
        yield fake
        fake.close()
        shutil.rmtree(fake.dir, ignore_errors=True)
        return
    if not BINARY.exists():
        pytest.skip("pion-server is not built")
    real = start_real()
    yield real
    real.stop()
    shutil.rmtree(real.directory, ignore_errors=True)


@pytest.fixture
def fake():
    """The small model of the wire alone, for tests that make it misbehave."""
    server = FakeServer()
    yield server
    server.close()
    shutil.rmtree(server.dir, ignore_errors=True)


@pytest.fixture
def one_server():
    """The real server when it is built, else the small model: for tests whose cost is the language model."""
    if not BINARY.exists():
        fake_one = FakeServer()
        yield fake_one
        fake_one.close()
        shutil.rmtree(fake_one.dir, ignore_errors=True)
        return
    real = start_real()
    yield real
    real.stop()
    shutil.rmtree(real.directory, ignore_errors=True)
