"""What the PROMPT.* commands answer, typed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Media:
    """A picture or a sound inside a prompt: where its placeholder ids stand and its whole digest."""

    position: int
    length: int
    digest: bytes


@dataclass(frozen=True)
class Match:
    """Reply of PROMPT.MATCH. ``fork`` is (position, token id stored there) when a stored prompt parts here."""

    matched: int
    lease: int | None
    segments: list[tuple[int, int, int]]
    saved_ms: float
    restore_ms: float
    claimed: bool
    fork: tuple[int, int] | None


@dataclass(frozen=True)
class Put:
    """Reply of PROMPT.PUT: tokens [start, stop) became ``segment``; nothing new when it is None."""

    start: int
    stop: int
    segment: int | None

    @property
    def tokens(self) -> int:
        """Tokens that were new to the server."""
        return self.stop - self.start


@dataclass
class Fetch:
    """What a read took: the lane, the bytes, and whether the lease held until the end."""

    lane: str = ""
    bytes: int = 0
    held: bool = True
