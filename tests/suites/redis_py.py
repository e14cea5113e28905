"""redis-py 8.1.0's own tests against a running server, in RESP2 and RESP3.

    tests/suites/redis_py.py [--against pion|redis82] [--protocol 2|3] [--list-failures] [FILE ...]

Runs the tests of the source archive (scripts/setup-suites) that talk to a single server. `run` gives each test's outcome by name.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suites.redis_tcl import start_server  # noqa: E402
from support.servers import Server  # noqa: E402

MARKERS = (
    "fixed_client redismod pipeline onlycluster onlynoncluster ssl asyncio replica experimental cp_integration no_mock_connections "
    "multidb_integration forked"
).split()
LEFT_OUT = "onlycluster or ssl or redismod or cp_integration or multidb_integration or replica"
# Files that test the client alone or want a service of their own (identity provider, telemetry, cluster, proxy).
NOT_FOR_SERVERS = (
    "test_credentials.py", "test_asyncio/test_credentials.py", "test_scenario", "test_asyncio/test_scenario", "test_observability",
    "maint_notifications", "test_asyncio/test_multidb", "test_multidb", "test_auth", "test_asyncio/test_observability",
)  # fmt: skip
TEST_TIMEOUT_S = 60
RUN_TIMEOUT_S = 1200


def run(server: Server, protocol: int, files: list[str]) -> dict[str, str]:
    """Test name: passed, failed or skipped. The server's data is deleted."""
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
            os.environ["PION_SUITE_REDIS_PY_PYTHON"], "-m", "pytest", "-q", "-c", str(settings), f"--rootdir={root}", "-p", "no:cacheprovider",
            f"--redis-url={url}", f"--redis-mod-url={url}", f"--protocol={protocol}", "-m", f"not ({LEFT_OUT})", f"--junitxml={report}",
            *(f"--ignore={root / 'tests' / name}" for name in NOT_FOR_SERVERS), *(str(root / "tests" / file) for file in files or [""]),
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=work, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
        if not report.exists():
            raise RuntimeError("redis-py's tests did not run:\n" + done.stdout.decode("utf-8", "replace")[-3000:])
        return read_report(report)


def read_report(report: Path) -> dict[str, str]:
    """Outcomes of a JUnit file by test name."""
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        kinds = {child.tag for child in case}
        outcomes[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", choices=("pion", "redis82"), default="pion")
    parser.add_argument("--protocol", type=int, choices=(2, 3), help="default: both")
    parser.add_argument("--list-failures", action="store_true")
    parser.add_argument("files", nargs="*", help="below the archive's tests/, default all")
    options = parser.parse_args()
    for protocol in [options.protocol] if options.protocol else [2, 3]:
        server = start_server(options.against)
        try:
            outcomes = run(server, protocol, options.files)
        finally:
            server.close()
        count = Counter(outcomes.values())
        print(f"RESP{protocol}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped", flush=True)
        if options.list_failures:
            print("".join(f"  {name}\n" for name, outcome in outcomes.items() if outcome == "failed"), end="")


if __name__ == "__main__":
    main()
