"""node-redis, pinned in tests/node, over RESP2 and RESP3."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support import parts
from support.servers import PionServer

pytestmark = pytest.mark.wire


@pytest.mark.parametrize("protocol", [2, 3])
def test_node_redis(pion: PionServer, protocol: int) -> None:
    node = shutil.which("node")
    assert node, "node is not there: run scripts/setup-apt test"
    script = Path(__file__).with_name("node_redis.mjs")
    run = subprocess.run(
        [node, str(script), str(pion.port), str(protocol), str(parts.part("PION_NODE_MODULES"))], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0 and run.stdout.endswith("ok\n"), run.stdout + run.stderr
