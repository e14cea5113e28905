"""Redis 7.0.15's Tcl suite in external mode, one fresh server per unit.

    tests/suites/redis_tcl.py [--against pion|redis82] [--unit type/hash ...] [--deny needs:repl ...] [--list-failures]

Every check of the suite ends as one of ok, err, skipped. `run_unit` gives them by name; the command prints a line a unit and, for
what did not pass, the name and the first line of why. Needs scripts/setup-suites and tcl.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.servers import PionServer, Redis82, Server  # noqa: E402

UNITS = [
    "dump", "protocol", "keyspace", "scan", "info-command", "type/string", "type/incr", "type/list", "type/list-3", "type/set",
    "type/zset", "type/hash", "type/stream", "type/stream-cgroups", "sort", "expire", "other", "multi", "quit", "latency-monitor",
    "pubsub", "slowlog", "scripting", "functions", "introspection", "introspection-2", "bitops", "bitfield", "geo", "hyperloglog",
    "lazyfree", "pause", "tracking", "violations",
]  # fmt: skip
DENIED_TAGS = ("slow", "needs:debug", "needs:repl", "needs:save")
UNIT_TIMEOUT_S = 600
SILENCE_TIMEOUT_S = 100  # the suite's own: a check that says nothing for so long

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(r"^\[(ok|err|ignore|skip|exception)\]: (.*)$")
_MILLISECONDS = re.compile(r" \(\d+ ms\)$")


@dataclass
class UnitResult:
    """What became of a unit's checks, by name (a name may come several times)."""

    unit: str
    passed: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)  # name: first line of why
    skipped: Counter[str] = field(default_factory=Counter)
    ended: str = ""  # why the unit did not run to its end, or empty


def suite_dir() -> Path:
    """The unpacked source archive."""
    path = os.environ.get("PION_SUITE_REDIS")
    if not path or not (Path(path) / "tests/test_helper.tcl").exists():
        raise SystemExit("Redis' Tcl suite is not here: run scripts/setup-suites and source the env.sh of the cache")
    return Path(path)


def parse_output(unit: str, output: str) -> UnitResult:
    """Reads the suite's own report lines."""
    result = UnitResult(unit)
    lines = _COLOUR.sub("", output).splitlines()
    for at, line in enumerate(lines):
        found = _LINE.match(line)
        if not found:
            continue
        kind, rest = found.groups()
        if kind == "ok":
            result.passed[_MILLISECONDS.sub("", rest)] += 1
        elif kind == "err":
            name = re.sub(r" in tests/unit/\S+$", "", rest)
            result.failed[name] = lines[at + 1].strip() if at + 1 < len(lines) else ""
        elif kind == "exception":
            result.ended = rest
        else:
            result.skipped[rest] += 1
    if "All tests passed" not in output and not result.failed and not result.ended:
        result.ended = "no summary: " + " | ".join(line.strip() for line in lines[-3:])
    return result


def copy_suite(work: Path) -> None:
    """The suite writes beside itself. It empties the server with FUNCTION FLUSH too, which a server without functions refuses."""
    shutil.copytree(suite_dir() / "tests", work / "tests")
    for path in (work / "tests/support/server.tcl", work / "tests/support/util.tcl", work / "tests/test_helper.tcl"):
        text = path.read_text()
        path.write_text(re.sub(r"^(\s*)(r function flush)$", r"\1catch {\2}", text, flags=re.MULTILINE))


def run_unit(server: Server, unit: str, denied: tuple[str, ...] = DENIED_TAGS) -> UnitResult:
    """Runs one unit against a running server, whose data it deletes."""
    with tempfile.TemporaryDirectory(prefix="pion-tcl-") as work:
        copy_suite(Path(work))
        command = [
            "tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", str(server.port), "--durable", "--ignore-encoding",
            "--timeout", str(SILENCE_TIMEOUT_S), "--single", f"unit/{unit}", "--tags", " ".join(f"-{tag}" for tag in denied),
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=UNIT_TIMEOUT_S, check=False
            )
            return parse_output(unit, done.stdout.decode("utf-8", "replace"))
        except subprocess.TimeoutExpired as late:
            result = parse_output(unit, (late.stdout or b"").decode("utf-8", "replace"))
            result.ended = f"not done after {UNIT_TIMEOUT_S} s"
            return result


def start_server(kind: str) -> Server:
    """A fresh server of a kind: pion or redis82."""
    return (PionServer if kind == "pion" else Redis82)().start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", choices=("pion", "redis82"), default="pion")
    parser.add_argument("--unit", action="append", choices=UNITS, help="may be given several times; default: all")
    parser.add_argument("--deny", action="append", default=[], help="a further tag to leave out")
    parser.add_argument("--list-failures", action="store_true", help="name what did not pass")
    options = parser.parse_args()
    passed = 0
    for unit in options.unit or UNITS:
        server = start_server(options.against)
        try:
            result = run_unit(server, unit, DENIED_TAGS + tuple(options.deny))
        finally:
            server.close()
        passed += result.passed.total()
        print(f"{unit}: {result.passed.total()} ok, {len(result.failed)} failed, {result.skipped.total()} skipped", result.ended, flush=True)
        if options.list_failures:
            for name, why in result.failed.items():
                print(f"  {name}: {why[:160]}")
    print(f"{passed} checks pass")


if __name__ == "__main__":
    main()
