"""The shared-memory lane: rows read where the server keeps them, verified on the way.

The server passes read-only descriptors of its payload files over the Unix socket. Rows are read with
``preadv`` straight into their destinations, in a few large calls by two threads, and every 64 KiB payload
chunk is checked (XXH3-64, seed 0) before anybody uses a row. Reading instead of mapping: a fresh mapping costs a page
fault per 4 KiB, a read does not; few calls, because the interpreter costs more than the copy otherwise.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import xxhash

from .errors import DataError, ProtocolError

CHUNK_BYTES = 64 * 1024
_PARALLEL_BYTES = 8 << 20
_BATCH_BYTES = 1 << 20
_BATCHES = 16
_IOV_MAX = 1000


class Run(NamedTuple):
    """Bytes [offset, offset + length) of a payload file, in an extent whose payload begins at ``base``.

    ``checksums`` are little-endian u64, for the chunks the run touches, in order;
    ``payload_bytes`` is the length of the extent's payload (its last chunk may be short).
    """

    file_id: int
    offset: int
    length: int
    base: int
    checksums: bytes
    payload_bytes: int

    @classmethod
    def parse(cls, raw: object) -> "Run":
        """A run as LOCATE answers it; ProtocolError for anything that does not add up."""
        if not isinstance(raw, list) or len(raw) < 6:
            raise ProtocolError("LOCATE: a run is not six values")
        run = cls._make(raw[:6])
        file_id, offset, length, base, checksums, payload = run
        try:
            whole = min(file_id, length, base) >= 0 and base <= offset and offset + length <= base + payload
            chunks = len(checksums) // 8
        except TypeError:
            raise ProtocolError("LOCATE: a run of other types than agreed") from None
        if not whole:
            raise ProtocolError("LOCATE: a run leaves its extent")
        if length and chunks != run.last_chunk - run.first_chunk + 1:
            raise ProtocolError("LOCATE: not one checksum per chunk")
        return run

    @property
    def first_chunk(self) -> int:
        """Index of the chunk the first byte lies in."""
        return (self.offset - self.base) // CHUNK_BYTES

    @property
    def last_chunk(self) -> int:
        """Index of the chunk the last byte lies in."""
        return (self.offset - self.base + self.length - 1) // CHUNK_BYTES


@dataclass
class _Extent:
    """All that is wanted of one extent: pieces (start, stop, target) relative to its payload, checksums by chunk."""

    file_id: int
    base: int
    payload_bytes: int
    pieces: list[tuple[int, int, memoryview]]
    checksums: dict[int, int]


def plan(wanted: Sequence[tuple[memoryview, Sequence[Run]]]) -> list[_Extent]:
    """Order what is wanted by extent. Each target is covered by its runs, one after the other."""
    extents: dict[tuple[int, int], _Extent] = {}
    for target, runs in wanted:
        done = 0
        for run in runs:
            if run.length == 0:
                continue
            key = (run.file_id, run.base)
            extent = extents.get(key)
            if extent is None:
                extent = extents[key] = _Extent(run.file_id, run.base, run.payload_bytes, [], {})
            start = run.offset - run.base
            extent.pieces.append((start, start + run.length, target[done : done + run.length]))
            sums = struct.unpack(f"<{len(run.checksums) // 8}Q", run.checksums)
            extent.checksums.update(enumerate(sums, run.first_chunk))
            done += run.length
        if done != target.nbytes:
            raise ProtocolError(f"LOCATE: runs of {done} bytes for rows of {target.nbytes}")
    for extent in extents.values():
        extent.pieces.sort(key=lambda piece: piece[0])
    return list(extents.values())


class PayloadFiles:
    """Descriptors of payload files by id. ``attach`` asks the server for those not known yet.

    ``attach(ids)`` returns ``{file_id: descriptor}``; the descriptors become this object's.
    """

    def __init__(self, attach: Callable[[Sequence[int]], dict[int, int]]) -> None:
        self._attach = attach
        self._fds: dict[int, int] = {}

    def close(self) -> None:
        """Close all descriptors."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def take(self, found: dict[int, int]) -> None:
        """Keep these descriptors; DataError for one that is not a file opened for reading."""
        for file_id, fd in found.items():
            old = self._fds.pop(file_id, None)
            if old is not None:
                os.close(old)
            self._fds[file_id] = fd
            _check_descriptor(fd)

    def need(self, ids: Sequence[int]) -> None:
        """Make sure every file of ``ids`` has a descriptor; DataError when the server does not pass one."""
        unknown = [i for i in dict.fromkeys(ids) if i not in self._fds]
        for at in range(0, len(unknown), 64):
            self.take(self._attach(unknown[at : at + 64]))
        missing = [i for i in unknown if i not in self._fds]
        if missing:
            raise DataError(f"the server passed no descriptor of payload file {missing[0]}")

    def fetch(self, wanted: Sequence[tuple[memoryview, Sequence[Run]]]) -> int:
        """Fill the targets; bytes filled. DataError when a file cannot be read or a chunk does not carry its checksum."""
        extents = plan(wanted)
        self.need([extent.file_id for extent in extents])
        total = sum(target.nbytes for target, _ in wanted)
        parallel = total >= _PARALLEL_BYTES and len(os.sched_getaffinity(0)) > 1
        most = max(_BATCH_BYTES, total // _BATCHES) if parallel else total
        batches = [batch for extent in extents for batch in _batches(extent, most)]
        try:
            if parallel:
                self._read_in_two(batches)
            else:
                self._read(deque(batches))
        except OSError as error:
            raise DataError(f"a payload file cannot be read: {error}") from error
        return total

    def _read_in_two(self, batches: list["_Batch"]) -> None:
        """Read with a thread beside this one: while one is in the kernel, without the interpreter's lock, the other verifies."""
        waiting = deque(batches)
        failed: list[BaseException] = []

        def second() -> None:
            try:
                self._read(waiting)
            except BaseException as error:  # handed to the caller below
                failed.append(error)

        thread = threading.Thread(target=second, name="pion-fetch")
        thread.start()
        try:
            self._read(waiting)
        finally:
            waiting.clear()
            thread.join()
        if failed:
            raise failed[0]

    def _read(self, waiting: "deque[_Batch]") -> None:
        while True:
            try:
                batch = waiting.popleft()
            except IndexError:
                return
            extent = batch.extent
            _read_all(self._fds[extent.file_id], batch.views, extent.base + batch.first, batch.last - batch.first)
            _verify(batch)


@dataclass(frozen=True)
class _Batch:
    """Whole chunks [first, last) of an extent's payload, read at once into ``views``, one after the other."""

    extent: _Extent
    first: int
    last: int
    views: list[memoryview]


def _batches(extent: _Extent, most_bytes: int) -> Iterator[_Batch]:
    """The chunks that are touched, neighbours together, in batches of about ``most_bytes``."""
    chunks = sorted(extent.checksums)
    most = max(1, most_bytes // CHUNK_BYTES)
    at = 0
    piece = 0
    while at < len(chunks):
        stop = min(at + most, len(chunks))
        if chunks[stop - 1] - chunks[at] != stop - 1 - at:  # a gap within reach
            stop = at + 1
            while stop - at < most and chunks[stop] == chunks[stop - 1] + 1:
                stop += 1
        first = chunks[at] * CHUNK_BYTES
        last = min((chunks[stop - 1] + 1) * CHUNK_BYTES, extent.payload_bytes)
        while piece < len(extent.pieces) and extent.pieces[piece][1] <= first:
            piece += 1
        yield _Batch(extent, first, last, _cover(extent.pieces, piece, first, last))
        at = stop


def _cover(pieces: list[tuple[int, int, memoryview]], piece: int, first: int, last: int) -> list[memoryview]:
    """Views that together hold payload bytes [first, last): targets where wanted, memory of no use between."""
    views: list[memoryview] = []
    at = first
    while at < last:
        if piece < len(pieces) and pieces[piece][0] <= at:
            start, stop, target = pieces[piece]
            end = min(stop, last)
            views.append(target[at - start : end - start])
            piece += 1
        else:
            end = min(pieces[piece][0], last) if piece < len(pieces) else last
            views.append(memoryview(bytearray(end - at)))
        at = end
    return views


def _read_all(fd: int, views: list[memoryview], offset: int, size: int) -> None:
    got = os.preadv(fd, views[:_IOV_MAX], offset)
    while got < size:  # rare: a signal, or very many short rows
        rest = _skip(views, got)
        more = os.preadv(fd, rest[:_IOV_MAX], offset + got)
        if more == 0:
            raise DataError("a payload file is shorter than its extent")
        got += more


def _skip(views: list[memoryview], count: int) -> list[memoryview]:
    for i, view in enumerate(views):
        if count < view.nbytes:
            return [view[count:], *views[i + 1 :]]
        count -= view.nbytes
    return []


def _verify(batch: _Batch) -> None:
    """Check every chunk of a batch; a chunk may lie in several views."""
    sums, last = batch.extent.checksums, batch.last
    digest_of = xxhash.xxh3_64_intdigest
    chunk, at = batch.first // CHUNK_BYTES, batch.first
    open_chunk: Any = None  # a digest under way over several views, and bytes it still lacks
    lacking = 0
    for view in batch.views:
        inside, size = 0, view.nbytes
        while inside < size:
            if not lacking:
                lacking = min(CHUNK_BYTES, last - at)
                if size - inside >= lacking:
                    digest = digest_of(view[inside : inside + lacking])
                    inside, at, lacking = inside + lacking, at + lacking, 0
                    if digest != sums[chunk]:
                        raise _damaged(batch.extent, chunk)
                    chunk += 1
                    continue
                open_chunk = xxhash.xxh3_64()
            part = min(lacking, size - inside)
            open_chunk.update(view[inside : inside + part])
            inside, at, lacking = inside + part, at + part, lacking - part
            if not lacking:
                if open_chunk.intdigest() != sums[chunk]:
                    raise _damaged(batch.extent, chunk)
                chunk += 1


def _damaged(extent: _Extent, chunk: int) -> DataError:
    return DataError(f"payload file {extent.file_id}: chunk {chunk} of the extent at {extent.base} is damaged")


def _check_descriptor(fd: int) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode) or fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
        raise DataError("a payload descriptor is not a regular file opened for reading only")


def is_own_socket(path: str) -> bool:
    """A socket of our own user (or root's), that we may open."""
    try:
        info = os.stat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(info.st_mode) and info.st_uid in (os.geteuid(), 0) and os.access(path, os.W_OK)
