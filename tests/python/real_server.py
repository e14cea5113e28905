"""The real server for tests of this folder: $PION_SERVER, else build/release/pion-server."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("PION_SERVER") or ROOT / "build" / "release" / "pion-server")


@dataclass
class RealServer:
    """A pion-server in a directory of its own."""

    process: subprocess.Popen
    port: int
    directory: str

    @property
    def path(self) -> str:
        return os.path.join(self.directory, "data", "pion.sock")

    def stop(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.wait(20)


def start_real(directory: str | None = None, *options: str, port: int = 0) -> RealServer:
    """Start the binary (on a free port unless one is named) and wait until it answers."""
    if not port:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    directory = directory or tempfile.mkdtemp(prefix="pion-test-")
    log = open(os.path.join(directory, "log"), "ab")
    process = subprocess.Popen(
        [str(BINARY), "--port", str(port), "--dir", os.path.join(directory, "data"), *options], stdout=log, stderr=log
    )
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), 0.2) as sock:
                sock.sendall(b"*1\r\n$4\r\nPING\r\n")
                if sock.recv(16).startswith(b"+PONG"):
                    return RealServer(process, port, directory)
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise RuntimeError("pion-server did not start: " + Path(directory, "log").read_text(errors="replace")[-2000:])
