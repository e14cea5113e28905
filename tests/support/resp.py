"""A plain RESP connection for tests: it shows exactly what came over the wire and hides nothing.

Commands may be sent long before their replies are read, so a test knows which effects were acknowledged when the server died.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any

Word = bytes | bytearray | memoryview | str | int | float


class ServerError(Exception):
    """An error reply: its whole text, code word first."""


class Connection:
    """One TCP (`host`, `port`) or Unix (`path`) connection. Raises ConnectionError when the server is gone."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1", path: str = "", timeout_s: float = 30.0, protocol: int = 2):
        if path:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(timeout_s)
            self.socket.connect(path)
        else:
            self.socket = socket.create_connection((host, port), timeout=timeout_s)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = bytearray()
        self.at = 0
        if protocol == 3:
            self.call("HELLO", 3)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def send(self, *words: Word) -> None:
        self.socket.sendall(encode(words))

    def send_many(self, commands: Iterable[tuple[Word, ...]]) -> None:
        self.socket.sendall(b"".join(encode(words) for words in commands))

    def call(self, *words: Word) -> Any:
        """Sends one command, returns its reply; an error reply is raised as ServerError."""
        self.send(*words)
        reply = self.read()
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def read(self) -> Any:
        """The next reply; error replies are returned, not raised, so that pipelines stay in step."""
        line = self._line()
        mark, rest = line[:1], line[1:]
        if mark == b"+":
            return rest.decode()
        if mark == b"-":
            return ServerError(rest.decode(errors="replace"))
        if mark == b":":
            return int(rest)
        if mark in (b"$", b"=", b"!"):
            if rest == b"-1":
                return None
            body = self._take(int(rest))
            self._take(2)
            if mark == b"!":
                return ServerError(body.decode(errors="replace"))
            return body[4:] if mark == b"=" else body
        if mark in (b"*", b"~", b">"):
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if mark == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        if mark == b"_":
            return None
        if mark == b"#":
            return rest == b"t"
        if mark == b",":
            return float(rest)
        if mark == b"(":
            return int(rest)
        raise AssertionError(f"not RESP: {line!r}")

    def _more(self) -> None:
        if self.at > 1 << 20 and self.at * 2 > len(self.input):
            del self.input[: self.at]
            self.at = 0
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.input += data

    def _line(self) -> bytes:
        while (end := self.input.find(b"\r\n", self.at)) < 0:
            self._more()
        line = bytes(self.input[self.at : end])
        self.at = end + 2
        return line

    def _take(self, size: int) -> bytes:
        while len(self.input) - self.at < size:
            self._more()
        body = bytes(self.input[self.at : self.at + size])
        self.at += size
        return body


def encode(words: Iterable[Word]) -> bytes:
    parts = []
    for word in words:
        data = word if isinstance(word, (bytes, bytearray, memoryview)) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def as_map(reply: Any) -> dict[bytes, Any]:
    """A map reply of either protocol (RESP2 sends pairs flat)."""
    if isinstance(reply, dict):
        return reply
    return dict(zip(reply[::2], reply[1::2], strict=True))
