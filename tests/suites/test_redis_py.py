"""redis-py's own tests: what passes against Redis 8.2.3 and is not in redis_py_exceptions.txt passes against pion-server."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.redis_py import FILES, Outcome, run, run_together, start_server

EXCEPTIONS = Path(__file__).with_name("redis_py_exceptions.txt")
WORDS = {"scripting", "functions", "acl", "tracking", "replication", "modules", "cluster", "later"}
PROTOCOLS = (2, 3)

Outcomes = dict[tuple[str, int], dict[str, Outcome]]


def read_exceptions() -> dict[str, str]:
    """File, or test without its parameters: word."""
    exceptions: dict[str, str] = {}
    for number, line in enumerate(EXCEPTIONS.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        name, word = line.split(" | ")
        assert word in WORDS, f"line {number}: {word} is no word of the list"
        assert name.split("::")[0] in FILES, f"line {number}: {name} is in no file that is run"
        assert name not in exceptions, f"line {number}: {name} stands twice"
        exceptions[name] = word
    return exceptions


EXCEPTED = read_exceptions()


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """All runs, at the same time; a file that is an exception as a whole is not run."""
    return run_together([(kind, protocol) for protocol in PROTOCOLS for kind in ("pion", "redis82")], without=EXCEPTED)


def without_parameters(name: str) -> str:
    return name.split("[")[0]


def worse(outcomes: Outcomes, protocol: int) -> dict[str, Outcome]:
    """Tests that pass against Redis and do not against us."""
    ours = outcomes["pion", protocol]
    passed = [name for name, outcome in outcomes["redis82", protocol].items() if outcome.what == "passed"]
    return {name: mine for name in passed if (mine := ours.get(name, Outcome("missing"))).what != "passed"}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_passes_against_redis_passes_here(outcomes: Outcomes, protocol: int) -> None:
    assert sum(outcome.what == "passed" for outcome in outcomes["redis82", protocol].values()) > 1500, "the suite did not run"
    suspects = [name for name in worse(outcomes, protocol) if without_parameters(name) not in EXCEPTED]
    if suspects:  # once more, with the machine to themselves: some measure time
        server = start_server("pion")
        try:
            again = run(server, protocol, suspects)
        finally:
            server.close()
        suspects = [f"{name}: {outcome.what}: {outcome.why}" for name, outcome in again.items() if outcome.what != "passed"]
    assert not suspects


@pytest.mark.timeout(900)
def test_exceptions_are_needed(outcomes: Outcomes) -> None:
    needed = {without_parameters(name) for protocol in PROTOCOLS for name, mine in outcomes["pion", protocol].items() if mine.what == "failed"}
    run_by_name = {name for name in EXCEPTED if "::" in name}
    assert sorted(run_by_name - needed) == [], "these pass, or are not there, so they are no exceptions any more"
