"""Runs the conversations in sessions/*.wire; sessions/README.md says how they are written."""

from __future__ import annotations

import re
import shlex
import socket
from pathlib import Path
from typing import Callable

import pytest

from support.resp import encode
from support.servers import PionServer

pytestmark = pytest.mark.wire

SESSIONS = sorted((Path(__file__).parent / "sessions").glob("*.wire"))
TIMEOUT_S = 30.0


def unescape(text: str) -> bytes:
    """Bytes of a >> or << line."""
    text = re.sub(r"\{(\d+)\*(.)\}", lambda match: match[2] * int(match[1]), text)
    return re.sub(
        rb"\\(x[0-9a-fA-F]{2}|.)",
        lambda match: bytes([int(match[1][1:], 16)]) if len(match[1]) == 3 else {b"r": b"\r", b"n": b"\n", b"t": b"\t"}.get(match[1], match[1]),
        text.encode("latin-1"),
    )


class Peer:
    """One connection of a session: sends bytes, and reads what must come."""

    def __init__(self, server: PionServer, unix: bool):
        if unix:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(TIMEOUT_S)
            self.socket.connect(str(server.socket))
        else:
            self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S)
        self.input = b""

    def fill(self) -> bool:
        """Reads more. False: the server closed."""
        try:
            piece = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self.input += piece
        return bool(piece)

    def take(self, size: int) -> bytes:
        while len(self.input) < size and self.fill():
            pass
        taken, self.input = self.input[:size], self.input[size:]
        return taken

    def line(self) -> bytes:
        while b"\r\n" not in self.input:
            if not self.fill():
                taken, self.input = self.input, b""
                return taken + b"<closed>"
        taken, _, self.input = self.input.partition(b"\r\n")
        return taken

    def rest(self) -> bytes:
        while self.fill():
            pass
        return self.input


class Session:
    def __init__(self, start: Callable[..., PionServer]):
        self.start = start
        self.arguments: list[str] = []
        self.running: PionServer | None = None
        self.peers: dict[str, Peer] = {}
        self.unix: set[str] = set()

    @property
    def server(self) -> PionServer:
        if self.running is None:
            self.running = self.start(*self.arguments)
        return self.running

    def peer(self, name: str) -> Peer:
        if name not in self.peers:
            self.peers[name] = Peer(self.server, name in self.unix)
        return self.peers[name]

    def expect_line(self, name: str, wanted: str) -> None:
        got = self.peer(name).line().decode("latin-1")
        if wanted.endswith("..."):
            assert got.startswith(wanted[:-3]), f"wanted {wanted!r}, got {got!r}"
        else:
            assert got == wanted

    def quiet(self) -> None:
        other = Peer(self.server, False)
        other.socket.sendall(encode(["PING"]))
        other.line()
        peer = self.peer("")
        peer.socket.setblocking(False)
        try:
            peer.input += peer.socket.recv(65536)
        except BlockingIOError:
            pass
        peer.socket.settimeout(TIMEOUT_S)
        assert peer.input == b""

    def run(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match = re.fullmatch(r"(\w*)(>>|>|<<|<)", word)
        if match and match[2] == ">":
            self.peer(match[1]).socket.sendall(encode(shlex.split(rest)))
        elif match and match[2] == "<":
            self.expect_line(match[1], rest)
        elif match and match[2] == ">>":
            self.peer(match[1]).socket.sendall(unescape(rest))
        elif match:
            wanted = unescape(rest)
            assert self.peer(match[1]).take(len(wanted)) == wanted
        elif word == "server":
            assert self.running is None, "the server runs already"
            self.arguments = shlex.split(rest)
        elif word == "unix":
            self.unix.add(rest)
        elif word == "closed":
            assert self.peer(rest).rest() == b""
        elif word == "half-close":
            self.peer(rest).socket.shutdown(socket.SHUT_WR)
        elif line == "quiet":
            self.quiet()
        elif line == "restart":
            assert self.server.stop() == 0
            self.peers.clear()
            self.server.start()
        elif line == "kill -9":
            self.peers.clear()
            self.server.restart()
        elif word == "log":
            assert rest in self.server.log_text()
        else:
            raise AssertionError(f"what is {line!r}?")


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_session(path: Path, pion_factory: Callable[..., PionServer]) -> None:
    session = Session(pion_factory)
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        try:
            session.run(line)
        except (AssertionError, OSError) as error:
            pytest.fail(f"{path.name}:{number}: {line}\n{error}", pytrace=False)
