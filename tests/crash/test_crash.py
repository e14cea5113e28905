"""The short form of the crash run; the long one is a command of its own (README.md beside this file)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("crash_run.py")
KILLS = int(os.environ.get("PION_CRASH_KILLS", "1000"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "share, options",
    [
        (0.5, ["--sync", "everysec"]),
        (0.2, ["--sync", "always"]),
        (0.3, ["--sync", "everysec", "--budget", "3000000"]),
    ],
    ids=["everysec", "always", "evicting"],
)
def test_nothing_acknowledged_is_lost(share: float, options: list[str]) -> None:
    kills = max(1, int(KILLS * share))
    run = subprocess.run([sys.executable, RUN, "--kills", str(kills), *options], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{kills} kills" in run.stdout
