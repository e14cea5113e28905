"""Storing behind the caller's back: a queue, one thread, one connection of its own."""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .client import Client
from .engine import Report
from .errors import PionError, Unavailable
from .pools import Pool, non_finite_run
from .replies import Media

log = logging.getLogger("pion")

_IDLE_S = 2.0  # a thread with nothing to store ends after so long


@dataclass
class Chain:
    """The PUTs of one call. When one of them fails, the later ones would leave a gap: they are dropped."""

    report: Report
    broken: str = ""
    stored_to: int = 0


@dataclass
class Piece:
    """One PUT to come: rows of ``tokens[start:]``."""

    chain: Chain
    model: str
    manifest_hash: str | None
    salt: str
    tokens: np.ndarray
    media: tuple[Media, ...]
    start: int
    pools: tuple[Pool, ...]
    blobs: dict[str, Any]
    prefill_ms: float | None  # None: nobody timed it
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.nbytes = sum(memoryview(blob).nbytes for blob in self.blobs.values())


class Storer:
    """Takes pieces, stores them in order. Never raises to the caller and never makes it wait.

    More than ``most_pending_bytes`` waiting: the rest of that chain is dropped. A state with a NaN or
    an infinity is refused here, off the path to the first token.
    """

    def __init__(self, client: Client, most_pending_bytes: int = 512 << 20) -> None:
        self.client = client
        self.refused = 0
        self.failed = 0
        self._most = most_pending_bytes
        self._warned: set[str] = set()
        self._start_anew()
        _LIVE.add(self)

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        self._pending = 0
        self._idle = threading.Condition()
        self._queue: queue.SimpleQueue[Piece] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, piece: Piece) -> None:
        """Store this piece some time soon."""
        if piece.chain.broken:
            return
        if self._pid != os.getpid():  # forked: the thread, and what it had to store, are the parent's
            self._start_anew()
        with self._idle:
            if self._pending and self._pending + piece.nbytes > self._most:
                piece.chain.broken = "the server takes rows more slowly than they are made"
                return
            self._pending += piece.nbytes + 1
            self._queue.put(piece)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pion-store", daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Wait until all that was put is stored or dropped. False when that took too long."""
        until = time.monotonic() + timeout_s
        if self._pid != os.getpid():
            return True
        with self._idle:
            while self._pending:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._idle.wait(left)
        return True

    def close(self, timeout_s: float = 5.0) -> None:
        """Flush and close the connection. The thread ends by itself when there is nothing to do."""
        self.flush(timeout_s)
        self.client.close()

    def _run(self) -> None:
        while True:
            try:
                piece = self._queue.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._idle:
                    if self._queue.empty():
                        self._thread = None
                        return
                continue
            try:
                if not piece.chain.broken:
                    self._store(piece)
            except Unavailable as error:  # the breaker has warned already
                self.failed += 1
                piece.chain.broken = str(error)
            except PionError as error:
                self.failed += 1
                piece.chain.broken = str(error)
                self._warn(type(error).__name__, "pion: a prefix was not stored: %s", error)
            except Exception as error:  # a fault of ours must not end the thread in silence
                self.failed += 1
                piece.chain.broken = repr(error)
                log.exception("pion: storing failed")
            finally:
                with self._idle:
                    self._pending -= piece.nbytes + 1
                    self._idle.notify_all()

    def _store(self, piece: Piece) -> None:
        stop = len(piece.tokens)
        for pool in piece.pools:
            bad = non_finite_run(pool, pool.put_rows(piece.start, stop), piece.blobs[pool.name])
            if bad is not None:
                self.refused += 1
                piece.chain.broken = (
                    f"refused: pool {pool.name} layer {bad[0]} side {pool.sides[bad[1]]} is not finite"
                )
                self._warn("finite", "pion: %s; nothing of it was stored", piece.chain.broken)
                return
        put = self.client.put(
            piece.model,
            piece.tokens,
            piece.start,
            piece.blobs,
            salt=piece.salt,
            prefill_ms=piece.prefill_ms,
            manifest_hash=piece.manifest_hash,
            media=piece.media,
        )
        piece.chain.stored_to = stop
        piece.chain.report.stored += put.tokens

    def _warn(self, kind: str, message: str, *args: object) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            log.warning(message, *args)


_LIVE: "weakref.WeakSet[Storer]" = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """What was prefilled just before the end of the process is worth a moment's wait."""
    for storer in list(_LIVE):
        storer.flush(5.0)
