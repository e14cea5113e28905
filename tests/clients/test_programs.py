"""Clients in C, Go, Java, JavaScript and Rust, each over the RESP versions it speaks: the whole session of program.py."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from clients.program import built, go_through
from support.servers import PionServer

HERE = Path(__file__).parent


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not there: run scripts/setup-clients"
    return found


def node(script: str) -> list[str | Path]:
    return [tool("node"), HERE / "node" / script, built("PION_NODE_MODULES")]


def java() -> list[str | Path]:
    folder = built("PION_CLIENT_JAVA")
    return [tool("java"), "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join([str(folder), f"{folder}/*"]), "JedisClient"]


COMMANDS = {
    "hiredis": lambda: [built("PION_CLIENT_C")],
    "go-redis": lambda: [built("PION_CLIENT_GO")],
    "jedis": java,
    "redis-rs": lambda: [built("PION_CLIENT_RUST")],
    "ioredis": lambda: node("ioredis.mjs"),
    "node-redis": lambda: node("node_redis.mjs"),
}
ONLY_RESP2 = {"hiredis"}  # Debian's is of before RESP3
AGAINST_SANITIZERS_TOO = {"go-redis", "node-redis"}

SESSIONS = [
    pytest.param(name, protocol, id=f"{name}-{protocol}", marks=[pytest.mark.wire] if name in AGAINST_SANITIZERS_TOO else [])
    for name in COMMANDS
    for protocol in (2, 3)
    if protocol == 2 or name not in ONLY_RESP2
]


@pytest.mark.parametrize("name, protocol", SESSIONS)
def test_client_goes_through(pion: PionServer, name: str, protocol: int) -> None:
    go_through(pion, COMMANDS[name](), protocol)
