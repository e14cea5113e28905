"""Prompt cache of ``mlx_lm.server`` with Pion behind it: what ``LRUPromptCache`` offers, without its faults.

    hook = PionLRUPromptCache(model_of=lambda key: (model, tokenizer), max_size=10, port=1974)
    response_generator = ResponseGenerator(model_provider, hook)

or all of it at once: ``python -m pion.mlx_server --model ...``.

Two tiers: the newest caches as mlx objects in this process, and Pion, which other processes share and which
outlives this one. What is promised, and what mlx-lm 0.32.2's own class does instead:

* the rest that ``fetch_nearest_cache`` returns is never empty (it is, for an exact hit);
* prefixes count to the token, one-token ones too (off by one there);
* reading an entry makes it young (only inserting does);
* an entry over the byte budget is refused (it throws out everything, itself included);
* a cache is cut by copying rows that are there, never by ``trim``; each caller gets an object of its own;
* an entry whose layers do not hold exactly its tokens is refused, naming the layer.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import Refused
from .mlx import PionPromptCache
from .mlx_cache import clone

log = logging.getLogger("pion")

_CLASSES = ("assistant", "user", "system")  # the first go first, as in mlx-lm
_LARGEST_ID = 0xFFFFFFFF


@dataclass
class _Entry:
    """One cache of this process. ``stored``: its rows were handed to Pion."""

    key: Any
    tokens: list[int]
    cache: list[Any]
    nbytes: int
    kind: str
    used: int
    stored: bool = False


def _common(a: Sequence[int], b: Sequence[int], most: int) -> int:
    """Number of leading ids two lists share, at most ``most``. Ids may be any integers (mlx-lm's image ids are negative)."""
    most = min(most, len(a), len(b))
    low, high = 0, most
    # Slices compare in C: halving finds the fork of 100,000 ids in well under a millisecond.
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _text_only(tokens: Sequence[int]) -> int:
    """Number of tokens before the first id that stands for a piece of a picture (negative, or beyond 32 bits)."""
    for index, token in enumerate(tokens):
        if not 0 <= token <= _LARGEST_ID:
            return index
    return len(tokens)


class PionLRUPromptCache:
    """Drop-in for ``mlx_lm.models.cache.LRUPromptCache``. Thread safe.

    ``model_of(key)`` gives (model, tokenizer) for a key of the server, or None when its caches must stay in this
    process (a draft model's rows are no part of the model's). ``max_size`` entries and ``max_bytes`` bound
    the tier in this process; the server's ``--prompt-budget`` bounds the other. ``options`` go to :class:`PionPromptCache`.
    """

    def __init__(
        self,
        max_size: int = 10,
        max_bytes: int = 1 << 63,
        *,
        model_of: Callable[[Any], tuple[Any, Any] | None] | None = None,
        **options: Any,
    ) -> None:
        self.max_size, self.max_bytes = max_size, max_bytes
        self.model_of = model_of or (lambda key: None)
        self._options = options
        self._entries: list[_Entry] = []
        self._clock = 0
        self._memory: tuple[Any, PionPromptCache] | None = None
        self._warned: set[str] = set()
        self._lock = threading.RLock()

    # -- what the server calls ---------------------------------------------------------------

    def fetch_nearest_cache(self, model: Any, tokens: list[int]) -> tuple[list[Any] | None, list[int]]:
        """(cache, rest): the longest known prefix and the tokens still to feed, always at least one."""
        with self._lock:
            most = len(tokens) - 1
            if most < 1:
                return None, tokens
            memory = self._memory_of(model)
            entry, here = self._nearest(model, tokens, most, memory)
            if memory is not None and here < most:
                ids = tokens[: min(most, _text_only(tokens))]
                cache, matched = memory.fetch(ids, more_than=here)
                if cache is not None and matched > here:
                    if entry is not None:
                        self._touch(entry)
                    return cache, tokens[matched:]
            if entry is None:
                return None, tokens
            self._touch(entry)
            return self._copy(entry, here, memory), tokens[here:]

    def insert_cache(self, model: Any, tokens: list[int], prompt_cache: list[Any], *, cache_type: str = "assistant") -> None:
        """Keep a cache that holds exactly ``tokens``, here and in Pion. Refuses (with a warning) what is not whole."""
        with self._lock:
            if not tokens:
                return
            memory = self._memory_of(model)
            layout = None if memory is None else memory.engine.layout
            try:
                if layout is not None:
                    layout.check(prompt_cache, len(tokens))
                self._keep(model, tokens, prompt_cache, cache_type, cuttable=layout is not None and layout.can_cut(len(tokens)))
            except Refused as error:
                self._warn(str(error))
                return
            # The ends of system and user parts come in the middle of a prefill: they wait until the answer is out.
            if memory is not None and cache_type == "assistant":
                self._store_pending(model, memory)

    def trim_to(self, *, n_sequences: int | None = None, n_bytes: int | None = None) -> None:
        """Shrink this process's tier. What is stored in Pion stays."""
        with self._lock:
            while n_sequences is not None and len(self._entries) > max(0, n_sequences):
                self._evict()
            while n_bytes is not None and self._entries and self.nbytes > max(0, n_bytes):
                self._evict()

    def stats_by_type(self) -> dict[str, dict[str, int]]:
        """Entries and bytes of this process's tier by class."""
        with self._lock:
            return {
                kind: {
                    "n_sequences": sum(e.kind == kind for e in self._entries),
                    "n_bytes": sum(e.nbytes for e in self._entries if e.kind == kind),
                }
                for kind in _CLASSES
            }

    @property
    def nbytes(self) -> int:
        """Bytes of this process's tier."""
        return sum(entry.nbytes for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    # -- for the embedder --------------------------------------------------------------------

    def forget_models(self) -> None:
        """Let go of the model that is loaded now (the server is about to load another)."""
        with self._lock:
            if self._memory is not None:
                self._memory[1].close()
                self._memory = None

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Wait until Pion has what was inserted."""
        return self._memory is None or self._memory[1].flush(timeout_s)

    def close(self) -> None:
        """Flush and close the connections."""
        self.forget_models()

    # -- inside ------------------------------------------------------------------------------

    def _memory_of(self, key: Any) -> PionPromptCache | None:
        """Prompt memory of the model behind ``key``: one at a time, as the server holds one model at a time."""
        if self._memory is not None and self._memory[0] == key:
            return self._memory[1]
        found = self.model_of(key)
        if found is None:
            return None
        self.forget_models()
        model, tokenizer = found
        memory = PionPromptCache(model, tokenizer, **self._options)
        self._memory = (key, memory)
        return memory

    def _nearest(self, key: Any, tokens: list[int], most: int, memory: PionPromptCache | None) -> tuple[_Entry | None, int]:
        best: tuple[_Entry | None, int] = (None, 0)
        layout = None if memory is None else memory.engine.layout
        for entry in self._entries:
            if entry.key != key:
                continue
            length = _common(entry.tokens, tokens, most)
            whole = length == len(entry.tokens)
            if length > best[1] and (whole or (layout is not None and layout.can_cut(len(entry.tokens)))):
                best = (entry, length)
        return best

    def _copy(self, entry: _Entry, length: int, memory: PionPromptCache | None) -> list[Any]:
        """An own object of the first ``length`` tokens. mlx copies arrays when they are written, so a whole one is cheap."""
        if length == len(entry.tokens):
            return copy.deepcopy(entry.cache)
        assert memory is not None and memory.engine.layout is not None
        fresh = memory.engine.empty_like_stored()
        clone(memory.engine.layout, entry.cache, len(entry.tokens), length, fresh)
        return fresh

    def _keep(self, key: Any, tokens: list[int], cache: list[Any], kind: str, cuttable: bool) -> None:
        nbytes = sum(leaf.nbytes for leaf in cache)
        if nbytes > self.max_bytes or self.max_size < 1:
            raise Refused(f"an entry of {nbytes} bytes is larger than the whole budget of {self.max_bytes}")
        # A longer cache that can be cut anywhere makes its own prefixes superfluous.
        self._entries = [
            e
            for e in self._entries
            if e.key != key
            or not (e.tokens == tokens or (cuttable and tokens[: len(e.tokens)] == e.tokens))
        ]
        entry = _Entry(key, list(tokens), copy.deepcopy(cache), nbytes, kind if kind in _CLASSES else "assistant", 0)
        while self._entries and (len(self._entries) >= self.max_size or self.nbytes + nbytes > self.max_bytes):
            self._evict()
        self._entries.append(entry)
        self._touch(entry)

    def _touch(self, entry: _Entry) -> None:
        self._clock += 1
        entry.used = self._clock

    def _evict(self) -> None:
        """Drop the longest unused entry of the class that has the most (of equals: the one that goes first)."""
        counts = [sum(e.kind == kind for e in self._entries) for kind in _CLASSES]
        kind = _CLASSES[counts.index(max(counts))]
        self._entries.remove(min((e for e in self._entries if e.kind == kind), key=lambda e: e.used))

    def _store_pending(self, key: Any, memory: PionPromptCache) -> None:
        """Hand to Pion what it has not got. Shorter ones first, so that nothing is sent twice."""
        layout = memory.engine.layout
        for entry in sorted(self._entries, key=lambda e: len(e.tokens)):
            if entry.key != key or entry.stored or layout is None:
                continue
            entry.stored = True
            length = _text_only(entry.tokens)
            try:
                if length == len(entry.tokens):
                    memory.store(entry.cache, entry.tokens)
                elif length and layout.can_cut(len(entry.tokens)):
                    memory.store(self._copy(entry, length, memory), entry.tokens[:length])
            except Refused as error:
                self._warn(str(error))

    def _warn(self, text: str) -> None:
        if text not in self._warned and len(self._warned) < 64:
            self._warned.add(text)
            log.warning("pion: a prompt cache is not kept: %s", text)
