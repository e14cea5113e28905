"""Servers as child processes: pion-server, Redis 8.2 and Valkey 9.1, on free ports, in temporary folders.

    with PionServer() as server:
        server.port, server.dir, server.socket
        server.kill(); server.start()          # SIGKILL, and again in the same folder

Every process started here ends with the `with` block and at the latest with this process.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from pathlib import Path
from typing import Sequence

from . import parts

_running: weakref.WeakSet["Server"] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for server in list(_running):
        server.close()


def free_port() -> int:
    """A TCP port of the loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class StartFailed(RuntimeError):
    """The server ended, or did not answer PING in time; the text carries the end of its log."""


class Server:
    """One server process that speaks the Redis wire.

    dir: its data folder; a temporary one, removed by close(), unless given. log: what it wrote on stdout and stderr.
    """

    start_timeout_s = 60.0

    def __init__(self, *args: str, dir: str | os.PathLike | None = None, port: int | None = None, env: dict[str, str] | None = None):
        self._own_dir = None if dir else tempfile.mkdtemp(prefix="pion-test-")
        self.dir = Path(dir or self._own_dir)
        self.args = list(args)
        self.port = port or free_port()
        self.env = env
        handle, name = tempfile.mkstemp(prefix="pion-test-log-")
        os.close(handle)
        self.log = Path(name)
        self.process: subprocess.Popen | None = None
        _running.add(self)

    def command(self) -> Sequence[str]:
        """The command line; the subclass knows it."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> "Server":
        """Starts the process and waits until PING is answered."""
        assert self.process is None or self.process.poll() is not None, "already running"
        self.start_without_waiting()
        deadline = time.monotonic() + self.start_timeout_s
        while not self.answers():
            if self.process.poll() is not None:
                raise StartFailed(f"{self.command()[0]} ended with {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise StartFailed(f"{self.command()[0]} does not answer after {self.start_timeout_s} s:\n{self.log_tail()}")
            time.sleep(0.005)
        return self

    def start_without_waiting(self) -> subprocess.Popen:
        """Starts the process only: for tests of a start that must fail, or of what happens meanwhile."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self.env
            )
        return self.process

    def answers(self) -> bool:
        """Whether PING gets a reply (one that asks for a password counts)."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as s:
                s.sendall(b"*1\r\n$4\r\nPING\r\n")
                reply = s.recv(64)
        except OSError:
            return False
        return reply.startswith((b"+PONG", b"-NOAUTH"))

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, sig: int) -> None:
        """A signal to this process: SIGSTOP and SIGCONT, say."""
        assert self.process is not None
        self.process.send_signal(sig)

    def kill(self) -> None:
        """SIGKILL, and waits until the process is gone."""
        if self.alive():
            self.process.kill()
            self.process.wait()

    def stop(self, timeout_s: float = 60.0) -> int:
        """SIGTERM; returns the exit code."""
        if self.alive():
            self.process.terminate()
        return self.process.wait(timeout_s)

    def restart(self) -> "Server":
        """SIGKILL and start, in the same folder and on the same port."""
        self.kill()
        return self.start()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def close(self) -> None:
        """Ends the process; removes its temporary folder and log."""
        if self.process is not None:
            if self.alive():
                self.process.send_signal(signal.SIGCONT)
            self.kill()
            self.process = None
        if self._own_dir:
            shutil.rmtree(self._own_dir, ignore_errors=True)
        self.log.unlink(missing_ok=True)
        _running.discard(self)

    def __enter__(self) -> "Server":
        return self if self.alive() else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class PionServer(Server):
    """pion-server; further arguments are its flags. Its Unix socket is at `socket`."""

    @property
    def socket(self) -> Path:
        return self.dir / "pion.sock"

    def command(self) -> Sequence[str]:
        return [str(parts.pion_server()), "--port", str(self.port), "--dir", str(self.dir), *self.args]


class PeerServer(Server):
    """redis-server or valkey-server without persistence, unless the arguments say otherwise."""

    part_name = ""

    def command(self) -> Sequence[str]:
        return [
            str(parts.part(self.part_name)), "--port", str(self.port), "--dir", str(self.dir),
            "--save", "", "--bind", "127.0.0.1", *self.args,
        ]


class Redis82(PeerServer):
    """Redis 8.2.3."""

    part_name = "PION_REDIS82"


class Valkey91(PeerServer):
    """Valkey 9.1.2."""

    part_name = "PION_VALKEY91"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Anonymous resident memory of a process: without mapped files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status).group(1)) * 1024


def is_sanitized(pid: int) -> bool:
    """Was the process built with the address or the thread sanitizer? Memory and time are other ones there."""
    return re.search(r"lib[at]san", Path(f"/proc/{pid}/maps").read_text()) is not None
