"""What an engine must offer so that :class:`pion.core.PromptCore` can serve it.

One object per engine context (one cache list, one sequence). None of it is thread safe:
the core calls an engine only from the thread that called the core. Everything that talks
to the server, decides, measures and reports is in the core; an engine only knows its state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .pools import Pool, Want


@dataclass(frozen=True)
class Reuse:
    """What reuse a model allows, said at load.

    ``kind``: ``"any"`` (a stored prompt can be cut at any token), ``"boundaries"`` (only where a
    PUT ended), or ``"none"``. ``why`` is a sentence for the user.
    """

    kind: str
    why: str


@dataclass(frozen=True)
class Fork:
    """Where a prompt parts from one that is stored: token index, both ids and both texts."""

    position: int
    stored_id: int
    asked_id: int
    stored_text: str
    asked_text: str

    def __str__(self) -> str:
        return f"token {self.position}: stored {self.stored_text!r}, asked {self.asked_text!r}"


@dataclass
class Report:
    """What one call did. Tokens are counts, times are milliseconds.

    ``matched`` came from the store, ``resident`` were already in the engine, ``fed`` were
    evaluated. ``stored`` counts tokens whose PUT was acknowledged; storing goes on behind the
    call, so read it after ``flush()`` when it must be final. ``why`` says in one sentence why not
    more was matched ("" when all that could be was).
    """

    tokens: int = 0
    matched: int = 0
    resident: int = 0
    fed: int = 0
    stored: int = 0
    bytes_read: int = 0
    lane: str = ""
    match_ms: float = 0.0
    wait_ms: float = 0.0
    restore_ms: float = 0.0
    prefill_ms: float = 0.0
    total_ms: float = 0.0
    steps: list[int] = field(default_factory=list)
    claimed: bool = False
    why: str = ""
    mismatch: list[str] = field(default_factory=list)
    fork: Fork | None = None

    @property
    def cached_tokens(self) -> int:
        """Tokens that were not evaluated in this call (what OpenAI's usage calls ``cached_tokens``)."""
        return self.matched + self.resident


class Engine(ABC):
    """State of one engine context, as the core needs it.

    Attributes set by the implementation:

    * ``name``        "llama.cpp", "mlx-lm", ...
    * ``model_name``  short name of the model for the wire and for messages
    * ``pools``       tuple of :class:`Pool`, in the manifest's order
    * ``block``       tokens per block in which the engine itself prefills; steps are multiples of it
    * ``n_ctx``       most tokens the context can hold, or None
    * ``reuse``       what reuse the model allows
    """

    name: str = ""
    model_name: str = ""
    pools: tuple[Pool, ...] = ()
    block: int = 512
    n_ctx: int | None = None
    reuse: Reuse = Reuse("none", "not examined")

    @abstractmethod
    def manifest(self, *, reread: bool = False) -> dict[str, Any]:
        """The identity as it IS now: a JSON object with ``pools`` (``[pool.to_json(), ...]``).

        Called before every match, so it must be cheap: what can change between two calls (adapters,
        their scale) is read again, digests come from a cache. With ``reread`` all of it is computed
        anew; that is what ``model_changed()`` does. Only what changes K/V belongs in it (except ``notes``).
        """

    @abstractmethod
    def clear(self) -> None:
        """Forget everything, data included, whatever state the context is in. Must not fail."""

    @abstractmethod
    def begin_restore(self, length: int) -> list[Want]:
        """Buffers for the rows that a state of ``length`` tokens needs.

        For every pool one Want per range of ``pool.match_ranges(length)``. Buffers are the engine's
        and stay valid until ``finish_restore`` or ``clear``. Nothing of the live state changes yet.
        Raises :class:`pion.errors.Refused` when the context cannot take such a state.
        """

    @abstractmethod
    def finish_restore(self, ids: np.ndarray) -> None:
        """Make the buffers of ``begin_restore(len(ids))`` the state of the context.

        The former state is dropped completely. ``ids`` (u32) are the tokens the state stands for.
        Raises Refused when the engine does not take it; the core then calls ``clear``.
        """

    @abstractmethod
    def feed(self, ids: np.ndarray, *, last: bool) -> None:
        """Evaluate ``ids`` (u32) after what the state holds, in ONE step of the engine's own kind.

        ``last`` says that the logits of the final token are wanted. Returns only when the
        evaluation has ended (an engine with lazy arrays evaluates them here).
        """

    @abstractmethod
    def export(self, start: int, stop: int) -> dict[str, Any]:
        """Rows of a PUT of tokens [start, stop): pool name -> one contiguous buffer, packed.

        ``stop`` is the number of tokens in the state. Which rows: ``pool.put_ranges(start, stop)``, one
        after the other within each (layer, side) run. Buffers become the core's: the engine must not
        write to them again. Checks that every layer holds exactly ``stop`` tokens at positions
        0..stop-1 and raises Refused (naming the layer and both numbers) for anything else.
        """

    def resident(self) -> np.ndarray | None:
        """Token ids the context holds now (u32), or None when that is not known or not usable."""
        return None

    def keep_resident(self, length: int) -> bool:
        """Cut the live state to its first ``length`` tokens. False (and unchanged) if it cannot be exact."""
        return False

    def logits_finite(self) -> bool:
        """After ``feed(..., last=True)``: are the logits finite? Guards against a poisoned state."""
        return True

    def text(self, token: int) -> str:
        """Text of one token, for messages. "" when unknown."""
        return ""

    def media_start(self, ids: Sequence[int] | np.ndarray) -> int | None:
        """Index of the first placeholder of a picture or a sound in ``ids``, or None.

        Without a digest the store may only know the prompt up to there.
        """
        return None
