"""redis-cli: single commands, RESP3, pipe mode, scans and its own reports."""

from __future__ import annotations

import shutil
import subprocess
from typing import Callable

import pytest

from support.servers import PionServer

pytestmark = pytest.mark.wire


def cli(server: PionServer, *arguments: str, stdin: str | None = None) -> str:
    tool = shutil.which("redis-cli")
    assert tool, "redis-cli is not there: run scripts/setup-apt test"
    run = subprocess.run([tool, "-p", str(server.port), *arguments], capture_output=True, text=True, timeout=60, input=stdin)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_single_commands(pion: PionServer) -> None:
    assert cli(pion, "ping") == "PONG\n"
    assert cli(pion, "set", "a", "1") == "OK\n"
    assert cli(pion, "-n", "3", "get", "a") == "\n"
    assert cli(pion, "-3", "get", "a") == "1\n"
    assert cli(pion, "--no-raw", "get", "none") == "(nil)\n"
    assert "8.2.3" in cli(pion, "-3", "hello")
    assert cli(pion, "-s", str(pion.socket), "get", "a") == "1\n"
    assert "unknown command" in cli(pion, "nosuch")


def test_several_lines(pion: PionServer) -> None:
    assert cli(pion, stdin='set k "a b"\nget k\nincr n\n') == "OK\na b\n1\n"


def test_pipe_mode(pion: PionServer) -> None:
    commands = "".join(f"SET k{i} {i}\r\n" for i in range(10_000))
    assert "errors: 0, replies: 10000" in cli(pion, "--pipe", stdin=commands)
    assert cli(pion, "dbsize") == "10000\n"
    assert len(cli(pion, "--scan", "--pattern", "k9*").splitlines()) == 1111


def test_password(pion_factory: Callable[..., PionServer]) -> None:
    server = pion_factory("--requirepass", "secret")
    assert "NOAUTH" in cli(server, "get", "a")
    assert cli(server, "--no-auth-warning", "-a", "secret", "ping") == "PONG\n"


def test_reports(pion: PionServer) -> None:
    cli(pion, "mset", "a", "1", "b", "22")
    assert "Biggest string found" in cli(pion, "--bigkeys")
    assert "redis_version:8.2.3" in cli(pion, "info", "server")
    assert cli(pion, "command", "count").strip().isdigit()
    assert "summary" in cli(pion, "command", "docs", "get")
    assert cli(pion, "client", "list").count("\n") >= 1
