"""Redis' Tcl suite: what is not in redis_tcl_exceptions.txt passes."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

from suites.redis_tcl import UNITS, UnitResult, run_unit
from support.servers import PionServer

EXCEPTIONS = Path(__file__).with_name("redis_tcl_exceptions.txt")
WORDS = {"scripting", "functions", "acl", "tracking", "replication", "rdb", "cluster", "8.2", "later"}


def read_exceptions() -> dict[str, dict[str, str]]:
    """Unit: name of a check: word."""
    exceptions: dict[str, dict[str, str]] = {}
    for number, line in enumerate(EXCEPTIONS.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        unit, rest = line.split(" | ", 1)
        name, word = rest.rsplit(" | ", 1)
        assert word in WORDS, f"line {number}: {word} is no word of the list"
        assert unit in UNITS, f"line {number}: {unit} is no unit"
        assert name not in exceptions.setdefault(unit, {}), f"line {number}: {name} stands twice"
        exceptions[unit][name] = word
    return exceptions


def unexpected(result: UnitResult, excepted: dict[str, str]) -> list[str]:
    """What did not pass and is not excepted, and exceptions that pass."""
    failed = [f"{name}: {why}" for name, why in result.failed.items() if name not in excepted]
    passed = [f"{name}: passes, so it is no exception any more" for name in excepted if result.passed[name] and name not in result.failed]
    ended = [f"the unit did not run to its end: {result.ended}"] if result.ended else []
    return failed + passed + ended


EXCEPTED = read_exceptions()


@pytest.mark.parametrize("unit", [unit for unit in UNITS if "*" not in EXCEPTED.get(unit, {})])
def test_unit_passes(unit: str, pion_factory: Callable[..., PionServer]) -> None:
    """A fresh server for each unit, as settings of one would spoil the next."""
    result = run_unit(pion_factory(), unit)
    assert result.passed, "no check ran"
    assert not unexpected(result, EXCEPTED.get(unit, {}))
