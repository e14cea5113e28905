"""The random comparison with Redis 8.2, short; `run.py` beside this file runs longer and with other seeds."""

from __future__ import annotations

import time

import pytest

from differential.run import compare


@pytest.mark.parametrize("protocol", [2, 3])
def test_random_commands_answer_as_redis(protocol: int) -> None:
    seed = int(time.time()) // 86_400 * 10 + protocol  # another stream each day, the same all day
    report = compare(30, seed, protocol)
    assert report.commands > 1_000
    assert not report.differences, f"seed {seed}\n" + "\n".join(map(str, report.differences))
