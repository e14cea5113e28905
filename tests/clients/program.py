"""Client programs in other languages, and how their test talks with them.

A program is started with the server's port and the RESP version. It goes through what its users do (connect, pipeline, transaction with
a WATCH that fails, publish and subscribe, a wait that another connection ends, a stream's consumer group, a value of 1 MiB), ends with 1
and says why on stderr when something is not as it must be, and prints `ok` at the end. Twice it asks for something in between, with a
line on stdout, and goes on when it reads the answer: `kill` (the server gets SIGKILL; `killed`) and `start` (it runs again, on the same
port and in the same folder; `started`).
"""

from __future__ import annotations

import hashlib
import os
import selectors
import subprocess
import time
from pathlib import Path
from typing import Sequence

from support import parts
from support.servers import Server

TIMEOUT_S = 120


def built(name: str) -> Path:
    """What scripts/setup-clients made of that part; refused when its sources have changed since."""
    made = parts.part(name)
    for line in (made.parent / "sources.sha256").read_text().splitlines():
        digest, source = line.split(maxsplit=1)
        if hashlib.sha256((parts.ROOT / source).read_bytes()).hexdigest() != digest:
            raise parts.MissingPart(f"{source} has changed: run scripts/setup-clients")
    return made


class Lines:
    """The lines of a pipe, each waited for until a deadline."""

    def __init__(self, pipe: int, deadline: float):
        self._pipe, self._deadline, self._rest = pipe, deadline, b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(pipe, selectors.EVENT_READ)

    def next(self) -> str:
        """The next line, or "" at the end of the output."""
        while b"\n" not in self._rest:
            if not self._selector.select(max(0.0, self._deadline - time.monotonic())):
                raise TimeoutError(f"the program said nothing new after {TIMEOUT_S} s")
            more = os.read(self._pipe, 65536)
            if not more:
                return ""
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode()


def go_through(server: Server, command: Sequence[str | Path], protocol: int, env: dict[str, str] | None = None) -> None:
    """Runs a client program against the server and gives it what it asks for."""
    words = [str(word) for word in command] + [str(server.port), str(protocol)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as program:
        try:
            said = _answer(server, program)
        finally:
            program.kill()
        errors = program.stderr.read().decode("utf-8", "replace")
        assert said == ["kill", "start", "ok"], f"it said {said}, then ended with {program.wait()}:\n{errors}"


def _answer(server: Server, program: subprocess.Popen) -> list[str]:
    said: list[str] = []
    lines = Lines(program.stdout.fileno(), time.monotonic() + TIMEOUT_S)
    while line := lines.next():
        said.append(line)
        if line == "kill":
            server.kill()
        elif line == "start":
            server.start()
        elif line == "ok":
            program.wait(10)
        else:
            continue
        if line != "ok":
            program.stdin.write(f"{'killed' if line == 'kill' else 'started'}\n".encode())
            program.stdin.flush()
    return said
