"""redis-py 8.1.0's own tests against a running server, in RESP2 and RESP3.

    tests/suites/redis_py.py [--against pion|redis82] [--protocol 2|3] [--list-failures] [FILE ...]

Runs the tests of the source archive (scripts/setup-suites) that talk to a single server; `run` gives each test's outcome by name, and
`run_together` those of several servers and protocols at once, as most of the time goes into sleeping.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.servers import PionServer, Redis82, Server  # noqa: E402

MARKERS = (
    "fixed_client redismod pipeline onlycluster onlynoncluster ssl asyncio replica experimental cp_integration no_mock_connections "
    "multidb_integration forked"
).split()
LEFT_OUT = "onlycluster or ssl or redismod or cp_integration or multidb_integration or replica"
# The files that talk to a server, in groups of about equal time. All others test the client alone, or want a cluster, a sentinel, a
# module, an identity provider or a proxy.
GROUPS = [
    ["test_pubsub.py", "test_pipeline.py", "test_lock.py", "test_encoding.py", "test_monitor.py", "test_scripting.py", "test_function.py"],
    ["test_commands.py", "test_connection_pool.py", "test_multiprocessing.py", "test_client.py", "test_command_parser.py"],
    ["test_hash.py", "test_connection.py", "test_retry.py", "test_max_connections_error.py", "test_vsets.py"],
    ["test_cache.py", "test_asyncio/test_connection.py", "test_asyncio/test_connection_pool.py", "test_asyncio/test_usage_counter.py"],
    ["test_asyncio/test_hash.py", "test_asyncio/test_pipeline.py", "test_asyncio/test_lock.py", "test_asyncio/test_monitor.py",
     "test_asyncio/test_scripting.py", "test_asyncio/test_encoding.py", "test_asyncio/test_command_parser.py"],
    ["test_asyncio/test_pubsub.py", "test_asyncio/test_commands.py", "test_asyncio/test_vsets.py"],
]  # fmt: skip
FILES = [file for group in GROUPS for file in group]
TEST_TIMEOUT_S = 60
RUN_TIMEOUT_S = 600
AT_ONCE = 8  # processes: they sleep most of the time

_CLASS_NAME = re.compile(r"tests\.(test_asyncio\.)?(\w+)(?:\.(\w+))?$")


@dataclass
class Outcome:
    """What became of one test: passed, failed or skipped, and of a failure the first line of why."""

    what: str
    why: str = ""


def start_server(kind: str) -> Server:
    """A fresh server of a kind, pion or redis82, that lets the tests use DEBUG ERROR."""
    return (PionServer if kind == "pion" else Redis82)("--enable-debug-command", "yes").start()


def run(server: Server, protocol: int, tests: Iterable[str]) -> dict[str, Outcome]:
    """Outcomes by name (file::class::test[parameters]). `tests`: files or names. The server's data is deleted."""
    root = Path(os.environ["PION_SUITE_REDIS_PY"])
    with tempfile.TemporaryDirectory(prefix="pion-redis-py-") as work:
        settings = Path(work) / "pytest.ini"
        settings.write_text(
            f"[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\ntimeout = {TEST_TIMEOUT_S}\n"
            "markers =\n" + "".join(f"    {marker}\n" for marker in MARKERS)
        )
        report = Path(work) / "report.xml"
        url = f"redis://127.0.0.1:{server.port}/0"
        command = [
            os.environ["PION_SUITE_REDIS_PY_PYTHON"], "-m", "pytest", "-q", "--tb=no", "-c", str(settings), f"--rootdir={root}",
            "-p", "no:cacheprovider", "-p", "redis_py_plugin", f"--redis-url={url}", f"--redis-mod-url={url}", f"--protocol={protocol}",
            "-m", f"not ({LEFT_OUT})", f"--junitxml={report}", *(str(root / "tests" / test) for test in tests),
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=work, env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{Path(__file__).parent}"}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode not in (0, 1) or not report.exists():  # 1: a test failed
            raise RuntimeError(f"redis-py's tests ended with {done.returncode}:\n" + done.stdout.decode("utf-8", "replace")[-3000:])
        return read_report(report)


def read_report(report: Path) -> dict[str, Outcome]:
    """Outcomes of a JUnit file. A test that fails and whose end fails too stands there twice."""
    outcomes: dict[str, Outcome] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        folder, module, kind = _CLASS_NAME.match(case.get("classname")).groups()
        name = "::".join(part for part in (f"{'test_asyncio/' if folder else ''}{module}.py", kind, case.get("name")) if part)
        failed = [child for child in case if child.tag in ("failure", "error")]
        if failed:
            outcomes[name] = Outcome("failed", (failed[0].get("message") or "").split("\n")[0][:200])
        elif outcomes.get(name, Outcome("")).what != "failed":
            outcomes[name] = Outcome("skipped" if case.find("skipped") is not None else "passed")
    return outcomes


def run_together(runs: Iterable[tuple[str, int]], without: Iterable[str] = ()) -> dict[tuple[str, int], dict[str, Outcome]]:
    """All files but `without`, for each (server, protocol). Every group has a fresh server of its own."""

    def one(kind: str, protocol: int, files: list[str]) -> dict[str, Outcome]:
        server = start_server(kind)
        try:
            return run(server, protocol, files)
        finally:
            server.close()

    outcomes: dict[tuple[str, int], dict[str, Outcome]] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [
            (which, pool.submit(one, *which, files)) for which in runs for group in GROUPS if (files := [f for f in group if f not in without])
        ]
        for which, job in jobs:
            outcomes.setdefault(which, {}).update(job.result())
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", choices=("pion", "redis82"), default="pion")
    parser.add_argument("--protocol", type=int, choices=(2, 3), help="default: both")
    parser.add_argument("--list-failures", action="store_true")
    parser.add_argument("files", nargs="*", metavar="FILE", help="below the archive's tests/, default all that talk to a server")
    options = parser.parse_args()
    without = [file for file in FILES if file not in options.files] if options.files else []
    protocols = [options.protocol] if options.protocol else [2, 3]
    for (_, protocol), outcomes in run_together([(options.against, protocol) for protocol in protocols], without).items():
        count = Counter(outcome.what for outcome in outcomes.values())
        print(f"RESP{protocol}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped", flush=True)
        if options.list_failures:
            print("".join(f"  {name}: {outcome.why}\n" for name, outcome in outcomes.items() if outcome.what == "failed"), end="")


if __name__ == "__main__":
    main()
