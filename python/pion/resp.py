"""RESP over one socket: commands out, replies in, big payloads without copies.

Large arguments are sent from the caller's buffers with ``sendmsg``; large bulks are received with
``recv_into`` straight into buffers that the caller names. Descriptors travel both ways over a
Unix socket (``SCM_RIGHTS``, with the first byte). Not thread safe; the client locks.
"""

from __future__ import annotations

import array
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from .errors import ProtocolError, ReplyError, reply_error

_BUFFER_BYTES = 64 * 1024
_INLINE_BYTES = 4 * 1024  # arguments up to here are joined into one buffer before sending
_IOV_MAX = 512
_GROUP_BYTES = 8 << 20  # bulks of agreed lengths are received in calls of about this size
_LOW_WATER_BYTES = 256 << 10
_MAX_FDS = 64
_UNIX_SEND_BYTES = 4 << 20  # less where net.core.wmem_max is less
_MAX_DEPTH = 32
_MAX_BULK_BYTES = 1 << 40
_MAX_ELEMENTS = 1 << 28

Argument = bytes | bytearray | memoryview | str | int
Bulk = Callable[[int], memoryview | None]
"""Given the length of a bulk, the buffer it goes to (of that very length), or None for a bytes object."""


class Deadline:
    """A point in time that all steps of one call share."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left; raises TimeoutError when there are none."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError("deadline passed")
        return left


class Connection:
    """One connected socket. Any exception but ReplyError leaves it unusable: close it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._pos = 0
        self._end = 0
        self._header_bytes = 16  # of the last bulk that went to a buffer of the caller's
        self._fds: list[int] = []
        self.is_unix = sock.family == socket.AF_UNIX
        if self.is_unix:  # the kernel's own choice makes the server take large rows in small pieces
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNIX_SEND_BYTES)
        # Blocking, with the kernel's own time-outs: Python's would poll before every read, and could not
        # fill a large buffer in one call. A late answer is a BlockingIOError.
        sock.settimeout(None)

    def _arm(self, option: int, deadline: Deadline) -> None:
        """The next sends or receives end with the deadline."""
        seconds, rest = divmod(max(1e-4, deadline.left()), 1)
        self._sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", int(seconds), int(rest * 1e6)))

    def close(self) -> None:
        """Close the socket and any descriptor nobody took."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        self._sock.close()

    def ends(self) -> tuple[str, str]:
        """Local and remote address of a TCP connection (equal: the peer is on this host)."""
        return str(self._sock.getsockname()[0]), str(self._sock.getpeername()[0])

    # -- out ---------------------------------------------------------------------------------

    def send(self, commands: Sequence[Sequence[Argument]], deadline: Deadline, fds: Sequence[int] = ()) -> None:
        """Send commands back to back. ``fds`` go with the first byte (Unix sockets only)."""
        pieces: list[memoryview] = []
        small = bytearray()
        for command in commands:
            small += b"*%d\r\n" % len(command)
            for argument in command:
                data = _as_bytes(argument)
                size = len(data)
                small += b"$%d\r\n" % size
                if size <= _INLINE_BYTES:
                    small += data
                else:
                    pieces.append(memoryview(small))
                    pieces.append(memoryview(data))
                    small = bytearray()
                small += b"\r\n"
        pieces.append(memoryview(small))
        self._send_pieces(pieces, deadline, fds)

    def _send_pieces(self, pieces: list[memoryview], deadline: Deadline, fds: Sequence[int]) -> None:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        at = 0
        while at < len(pieces):
            self._arm(socket.SO_SNDTIMEO, deadline)
            sent = self._sock.sendmsg(pieces[at : at + _IOV_MAX], ancillary)
            ancillary = []
            while at < len(pieces) and sent >= len(pieces[at]):
                sent -= len(pieces[at])
                at += 1
            if sent:
                pieces[at] = pieces[at][sent:]

    # -- in ----------------------------------------------------------------------------------

    def expect_fds(self, deadline: Deadline) -> None:
        """Wait for the next bytes and take the descriptors that come with them (see ``take_fds``)."""
        if self._pos != self._end:
            raise ProtocolError("bytes of an earlier reply were left when descriptors were expected")
        self._arm(socket.SO_RCVTIMEO, deadline)
        space = socket.CMSG_SPACE(_MAX_FDS * array.array("i").itemsize)
        data, ancillary, flags, _ = self._sock.recvmsg(_BUFFER_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, raw in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                got = array.array("i")
                got.frombytes(raw[: len(raw) - len(raw) % got.itemsize])
                self._fds.extend(got)
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("more descriptors came than one call may carry")
        if not data:
            raise EOFError("connection closed by the server")
        self._view[: len(data)] = data
        self._pos, self._end = 0, len(data)

    def take_fds(self) -> list[int]:
        """Descriptors received since the last call; they are the caller's to close."""
        fds, self._fds = self._fds, []
        return fds

    def reply(self, deadline: Deadline, bulk: Bulk | None = None) -> Any:
        """One reply. Error replies are returned as ReplyError objects, maps as dicts, nulls as None.

        ``bulk`` names the buffer of each bulk string in turn; such a bulk stands in the result as
        that buffer.
        """
        return self._value(deadline, bulk, 0)

    def reply_into(self, deadline: Deadline, targets: Sequence[memoryview]) -> ReplyError | None:
        """One reply that is an array of bulks as long as ``targets``, received into them. An error reply is returned.

        The lengths are agreed, so what stands between the bulks is known before it comes: many of them are
        received in one call, and what stood between them is compared behind it.
        """
        head = b"*%d\r\n" % len(targets)
        line = self._line(deadline, len(head))
        if line[:1] == b"-":
            return reply_error(line[1:].decode("utf-8", "replace"))
        if line != head[:-2]:
            raise ProtocolError(f"an array of {len(targets)} bulks was agreed, not {line[:32]!r}")
        end = b""
        at = 0
        while at < len(targets):
            views: list[memoryview] = []
            between: list[tuple[bytearray, bytes]] = []
            size = 0
            while at < len(targets) and size < _GROUP_BYTES and len(views) < _IOV_MAX - 2:
                expected = end + b"$%d\r\n" % targets[at].nbytes
                if at == 0:  # other lengths than agreed are seen here, not by waiting for bytes that never come
                    self._expect(self._line(deadline, len(expected)) + b"\r\n", expected)
                else:
                    between.append((bytearray(len(expected)), expected))
                    views.append(memoryview(between[-1][0]))
                views.append(targets[at])
                size += targets[at].nbytes
                end = b"\r\n"
                at += 1
            if at == len(targets):
                between.append((bytearray(len(end)), end))
                views.append(memoryview(between[-1][0]))
            self._receive_many(views, size, deadline)
            for got, expected in between:
                self._expect(got, expected)
        return None

    @staticmethod
    def _expect(got: bytes | bytearray, expected: bytes) -> None:
        if got != expected:
            raise ProtocolError(f"{expected!r} was agreed between two bulks, not {bytes(got)!r}")

    def _fill(self, deadline: Deadline, most: int) -> None:
        if self._pos == self._end:
            self._pos = self._end = 0
        elif self._end == _BUFFER_BYTES:
            rest = self._end - self._pos
            self._view[:rest] = self._view[self._pos : self._end]
            self._pos, self._end = 0, rest
            if rest == _BUFFER_BYTES:
                raise ProtocolError("a line of a reply is longer than 64 KiB")
        self._arm(socket.SO_RCVTIMEO, deadline)
        got = self._sock.recv_into(self._view[self._end : self._end + most])
        if got == 0:
            raise EOFError("connection closed by the server")
        self._end += got

    def _line(self, deadline: Deadline, most: int) -> bytes:
        """The next line; at most ``most`` bytes are read ahead for it at a time."""
        while True:
            found = self._buffer.find(b"\r\n", self._pos, self._end)
            if found >= 0:
                line = bytes(self._view[self._pos : found])
                self._pos = found + 2
                return line
            self._fill(deadline, most)

    def _into(self, target: memoryview, deadline: Deadline) -> None:
        """Fill ``target`` with the next bytes of the stream, and take the CRLF behind them."""
        tail = bytearray(2)
        self._receive([target, memoryview(tail)], deadline)
        if tail != b"\r\n":
            raise ProtocolError("a bulk does not end with CRLF")

    def _receive_many(self, views: list[memoryview], size: int, deadline: Deadline) -> None:
        """As ``_receive``, of ``size`` bytes at least. A TCP socket wakes its reader for every segment, and on one host the sender pays
        for that; it is told to wait for more while more than that is still to come."""
        if self.is_unix or size < 2 * _LOW_WATER_BYTES:
            return self._receive(views, deadline)
        last = list(views)
        first: list[memoryview] = []
        count = size - _LOW_WATER_BYTES
        for view in views:
            first.append(view[:count])
            count -= first[-1].nbytes
            if count == 0:
                break
        _advance(last, size - _LOW_WATER_BYTES)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _LOW_WATER_BYTES)
        self._receive(first, deadline)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._receive(last, deadline)
        return None

    def _receive(self, views: list[memoryview], deadline: Deadline) -> None:
        """Fill all of ``views`` with the next bytes of the stream."""
        views = [view for view in views if view.nbytes]
        while views and self._pos < self._end:
            part = min(views[0].nbytes, self._end - self._pos)
            views[0][:part] = self._view[self._pos : self._pos + part]
            self._pos += part
            _advance(views, part)
        while views:
            self._arm(socket.SO_RCVTIMEO, deadline)
            got = self._sock.recvmsg_into(views, 0, socket.MSG_WAITALL)[0]
            if got == 0:
                raise EOFError("connection closed in the middle of a reply")
            _advance(views, got)

    def _bulk(self, size: int, deadline: Deadline, bulk: Bulk | None) -> Any:
        if size < 0:
            return None
        if size > _MAX_BULK_BYTES:
            raise ProtocolError(f"a bulk of {size} bytes")
        target = bulk(size) if bulk is not None else None
        if target is not None:
            self._into(target, deadline)
            return target
        room = bytearray(size)
        self._into(memoryview(room), deadline)
        return bytes(room)

    def _value(self, deadline: Deadline, bulk: Bulk | None, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ProtocolError("a reply nests too deeply")
        # Where a buffer of the caller's may follow, no more is read ahead than its header has: the rest would be copied twice.
        line = self._line(deadline, _BUFFER_BYTES if bulk is None else self._header_bytes)
        kind, rest = line[:1], line[1:]
        if kind == b"$" and bulk is not None:
            self._header_bytes = len(line) + 2
        if kind == b"+":
            return rest.decode("utf-8", "replace")
        if kind == b"-":
            return reply_error(rest.decode("utf-8", "replace"))
        if kind in (b":", b"$", b"*", b"%", b"~", b">", b"!", b"=", b"|"):
            number = _integer(rest)
            return self._sized(kind, number, deadline, bulk, depth)
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind == b"(":
            return _integer(rest)
        raise ProtocolError(f"a reply begins with {kind!r}")

    def _sized(self, kind: bytes, number: int, deadline: Deadline, bulk: Bulk | None, depth: int) -> Any:
        if kind == b":":
            return number
        if kind == b"$":
            return self._bulk(number, deadline, bulk)
        if kind == b"=":
            return self._bulk(number, deadline, None)[4:]
        if kind == b"!":
            return reply_error(self._bulk(number, deadline, None).decode("utf-8", "replace"))
        if number > _MAX_ELEMENTS:
            raise ProtocolError(f"an aggregate of {number} elements")
        if kind in (b"%", b"|"):
            pairs = {}
            for _ in range(number):
                key = self._value(deadline, None, depth + 1)
                pairs[text(key)] = self._value(deadline, bulk, depth + 1)
            # An attribute stands before the value it speaks of.
            return pairs if kind == b"%" else self._value(deadline, bulk, depth)
        if number < 0:
            return None
        return self._array(number, deadline, bulk, depth)

    def _array(self, number: int, deadline: Deadline, bulk: Bulk | None, depth: int) -> list[Any]:
        """Elements of an array. Numbers, arrays and short bulks that lie whole in the buffer are taken on a
        short way: LOCATE answers thousands of them, and the long way costs microseconds each."""
        if depth > _MAX_DEPTH or number > _MAX_ELEMENTS:
            raise ProtocolError("a reply nests too deeply, or an array is too long")
        out: list[Any] = []
        buffer = self._buffer
        find = buffer.find
        for _ in range(number):
            pos = self._pos
            kind = buffer[pos] if pos < self._end else 0
            if kind == 58 or kind == 42 or kind == 36 and bulk is None:  # ':', '*', '$'
                found = find(b"\r\n", pos, self._end)
                if found > 0:
                    try:
                        value = int(buffer[pos + 1 : found])
                    except ValueError:
                        raise ProtocolError("not a number in a reply") from None
                    stop = found + 2
                    if kind == 58:
                        self._pos = stop
                        out.append(value)
                        continue
                    if kind == 42 and value >= 0:
                        self._pos = stop
                        out.append(self._array(value, deadline, bulk, depth + 1))
                        continue
                    if kind == 36 and value >= 0 and stop + value + 2 <= self._end:
                        if buffer[stop + value : stop + value + 2] != b"\r\n":
                            raise ProtocolError("a bulk does not end with CRLF")
                        self._pos = stop + value + 2
                        out.append(bytes(buffer[stop : stop + value]))
                        continue
            out.append(self._value(deadline, bulk, depth + 1))
        return out


def _as_bytes(argument: Argument) -> bytes | bytearray | memoryview:
    if isinstance(argument, (bytes, bytearray)):
        return argument
    if isinstance(argument, str):
        return argument.encode()
    if isinstance(argument, int):
        return b"%d" % argument
    return memoryview(argument).cast("B")


def _advance(views: list[memoryview], count: int) -> None:
    """Take ``count`` bytes off the front of the views."""
    while views and count >= views[0].nbytes:
        count -= views.pop(0).nbytes
    if views:
        views[0] = views[0][count:]


def _integer(raw: bytes | bytearray) -> int:
    try:
        return int(raw)
    except ValueError:
        raise ProtocolError(f"not a number in a reply: {bytes(raw[:32])!r}") from None


def text(value: Any) -> Any:
    """Bytes as text where they are text; anything else unchanged."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    return value


def as_map(value: Any) -> dict[str, Any]:
    """A RESP3 map, or RESP2's flat list of pairs, as a dict with text keys."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list) and len(value) % 2 == 0:
        return {text(value[i]): value[i + 1] for i in range(0, len(value), 2)}
    raise ProtocolError(f"a map was expected, not {type(value).__name__}")


def raise_error(value: Any) -> Any:
    """``value``, or raise it when it is an error reply."""
    if isinstance(value, ReplyError):
        raise value
    return value
