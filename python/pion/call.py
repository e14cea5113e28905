"""One call of the core: what was asked, and where it stands."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import xxhash

from .engine import Report
from .replies import Media

UNKNOWN = -1


@dataclass
class Call:
    """One ``acquire`` or one of its smaller sisters. All numbers are counts of tokens.

    ``limit``: most to match; ``storable``: where storing ends (before a picture without digest); ``live``: what
    the engine holds of the prompt now; ``known``: what the server holds of it, or UNKNOWN. ``media``: pictures and
    sounds in order; the ids in their spans mean nothing.
    """

    tokens: np.ndarray
    salt: str
    leave: int
    limit: int
    storable: int
    report: Report
    media: tuple[Media, ...] = ()
    boundaries: Sequence[int] = ()
    store_all: bool = False
    only_store: bool = False
    live: int = 0
    known: int = UNKNOWN
    began: float = field(default_factory=time.perf_counter)

    @property
    def size(self) -> int:
        """Tokens of the prompt."""
        return int(self.tokens.size)

    def media_before(self, stop: int) -> tuple[Media, ...]:
        """The items that lie whole in the first ``stop`` tokens."""
        return tuple(item for item in self.media if item.position + item.length <= stop)

    def outside_media(self, stop: int, after: int = -1) -> int:
        """``stop``, or where the item around it begins; where it ends if that is not behind ``after``."""
        for item in self.media:
            end = item.position + item.length
            if item.position < stop < end:
                return item.position if item.position > after else end
        return stop

    def steps(self, step: int) -> Iterator[int]:
        """Ends of the steps to the prompt's end, each outside of items; boundaries and ``storable`` are ends."""
        at, size = self.live, self.size
        cuts = sorted({b for b in (*self.boundaries, self.storable) if at < b < size})
        while at < size:
            stop = min(at + step, size)
            while cuts and cuts[0] <= at:
                cuts.pop(0)
            if cuts and cuts[0] < stop:
                stop = cuts[0]
            at = self.outside_media(stop, at)
            yield at

    def seen_key(self, model: str, stop: int) -> str:
        """Key under which a server notes that somebody asked for these first ``stop`` tokens."""
        state = xxhash.xxh3_128()
        state.update(self.tokens[:stop].tobytes())
        state.update(self.salt.encode())
        for item in self.media_before(stop):
            state.update(b"%d %d %d " % (item.position, item.length, len(item.digest)) + item.digest)
        return f"pion:seen:{model}:{state.hexdigest()}"


def checked_media(media: Sequence[Media], size: int) -> tuple[Media, ...]:
    """Items in order, not overlapping, inside ``size`` tokens; ValueError for others."""
    at = 0
    for item in media:
        if item.position < at or item.length < 1 or item.position + item.length > size:
            raise ValueError(f"media at {item.position} of {item.length} tokens: out of order, or not inside {size} tokens")
        if not 1 <= len(item.digest) <= 64:
            raise ValueError(f"media at {item.position}: a digest of {len(item.digest)} bytes, 1 to 64 are compared")
        at = item.position + item.length
    return tuple(media)
