"""Prompt memory for llama-cpp-python.

    from llama_cpp import Llama
    from pion.llama import PionPromptCache

    llm = Llama(model_path, n_ctx=4096, flash_attn=True)
    cache = PionPromptCache(llm)            # a server on this host; see arguments for others
    print(cache.reuse.why)

    report = cache.get_or_prefill(ids)      # llm now holds exactly these tokens, logits included
    for token in cache.generate(ids): ...   # the same, then llama-cpp-python's own sampling

    llm.set_cache(cache)                    # or: leave everything to create_completion

``docs/llama.md`` says what is compared with what, what is refused, and why.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import llama_cpp
import llama_cpp.llama_cpp as low
import numpy as np
from llama_cpp.llama import LlamaState
from llama_cpp.llama_cache import BaseLlamaCache

from .adapter import Adapter
from .client import DEFAULT_PORT, Client
from .core import PromptCore, common_prefix
from .engine import Report
from .errors import PionError
from .llama_engine import LlamaEngine, SequenceEngine
from .pools import as_tokens

__all__ = ["PionPromptCache", "SequenceEngine", "LlamaEngine"]
log = logging.getLogger("pion")


class PionPromptCache(Adapter, BaseLlamaCache):
    """Prompt memory of one ``Llama``; also a cache for its ``set_cache``.

    ``options`` go to :class:`pion.core.PromptCore`: ``namespace``, ``model``, ``step``, ``min_store``,
    ``replay``, ``room`` (tokens kept free for the answer), ``store``, ``second_sight``, ``enabled``, ...
    ``media_tokens`` are ids that stand for pictures or sounds: nothing from the first of them on is
    stored or matched. Not thread safe, like the ``Llama`` it serves.
    """

    def __init__(
        self,
        llm: llama_cpp.Llama,
        client: Client | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        reserve_tokens: int = 4096,
        media_tokens: Sequence[int] = (),
        **options: Any,
    ) -> None:
        super().__init__()
        self.llm = llm
        self.engine = LlamaEngine(llm, reserve_tokens=reserve_tokens, media_tokens=media_tokens)
        self.core = PromptCore(self.engine, client, host=host, port=port, **options)
        self.core.connect()

    # -- per sequence ------------------------------------------------------------------------

    def get_or_prefill(
        self, ids: Sequence[int] | np.ndarray, *, namespace: str | None = None, boundaries: Sequence[int] = ()
    ) -> Report:
        """Bring the Llama to exactly ``ids``, the last token evaluated: restore, prefill the rest, store it."""
        return self.core.acquire(ids, namespace=namespace, boundaries=boundaries)

    def prefill(
        self, ids: Sequence[int] | np.ndarray, *, namespace: str | None = None, boundaries: Sequence[int] = ()
    ) -> Report:
        """Make sure ``ids`` is stored, without generating. Does nothing when it is."""
        return self.core.prefill(ids, namespace=namespace, boundaries=boundaries)

    def generate(
        self,
        ids: Sequence[int],
        *,
        namespace: str | None = None,
        boundaries: Sequence[int] = (),
        store_reply: bool = False,
        **sampling: Any,
    ) -> Iterator[int]:
        """``Llama.generate`` on a prompt that is restored first: yields token ids without end.

        What is not stored is fed in one call after the restore (longer rests in steps, and stored).
        With ``store_reply`` the rows of the tokens generated are stored when the caller stops.
        """
        self.get_or_prefill(ids, namespace=namespace, boundaries=boundaries)
        try:
            # The context holds these very ids with fresh logits, so generate() samples at once.
            yield from self.llm.generate(list(map(int, ids)), **sampling)
        finally:
            if store_reply:
                self.store_live(namespace=namespace)

    def store_live(self, *, namespace: str | None = None) -> Report:
        """Store what the context holds now (prompt and generated tokens, as they were fed)."""
        return self.core.store_live(namespace=namespace)

    # -- llama-cpp-python's cache ------------------------------------------------------------

    @property
    def cache_size(self) -> int:
        """Bytes the server holds for this model (0 when it cannot be asked)."""
        try:
            info = self.core.client.prompt_info(self.core.model or None)
        except PionError:
            return 0
        return int(info.get("bytes", 0) or 0)

    def _find_longest_prefix_key(self, key: tuple[int, ...]) -> tuple[int, ...] | None:
        matched = self.core.matched_tokens(key)
        return tuple(key[:matched]) if matched else None

    def __contains__(self, key: Sequence[int]) -> bool:
        """Is any prefix of ``key`` stored? A look-up that ``[]`` right after it does not repeat."""
        return not self.engine.has_picture_handler and min(key, default=-1) >= 0 and self.core.peek(key) > 0

    def __getitem__(self, key: Sequence[int]) -> LlamaState:
        """Bring the Llama to ``key`` (restored, the rest prefilled and stored), and give its state.

        ``create_completion`` then finds its context ahead of what the state offers and samples at once:
        nothing is copied twice. Someone who calls ``load_state`` with it gets the same tokens.
        KeyError when the prompt's own logits are wanted (``logits_all``): they are not stored; and with a
        chat handler for pictures, which evaluates them itself.
        """
        if self.engine.has_picture_handler or min(key, default=-1) < 0:
            raise KeyError("the chat handler evaluates pictures itself; its ids do not tell them")
        if self.llm._logits_all and self.llm.draft_model is None:
            raise KeyError("logits of the prompt are wanted; a hit has none")
        ids = as_tokens(key)
        if ids.size == 0:
            raise KeyError("an empty prompt")
        self.get_or_prefill(ids)
        return _LiveState(self.llm, ids)

    def __setitem__(self, key: Sequence[int], value: LlamaState) -> None:
        """After a completion: store the tokens the context holds (the last one sampled has no rows yet)."""
        live = self.engine.resident()
        if live is None or min(key, default=-1) < 0 or common_prefix(live, as_tokens(key)) != live.size:
            log.info("pion: the context holds other tokens than the completion named; nothing stored")
            return
        self.store_live()


class _LiveState(LlamaState):
    """A LlamaState for this Llama: its n_ctx, one row of scores, bytes taken only when asked for."""

    def __init__(self, llm: llama_cpp.Llama, ids: np.ndarray) -> None:
        # Behind the tokens stands -1: a zero could pass for a matching token id.
        input_ids = np.full(llm.input_ids.shape, -1, dtype=np.intc)
        input_ids[: ids.size] = ids
        self.input_ids = input_ids
        self.scores = np.zeros((1, llm.n_vocab()), dtype=np.single)
        self.n_tokens = int(ids.size)
        self.seed = llm._seed
        self._llm = llm
        self._bytes: bytes | None = None

    @property
    def llama_state(self) -> bytes:  # type: ignore[override]
        """The whole context's state, while the context still holds these tokens."""
        if self._bytes is None:
            live = self._llm.input_ids[: self._llm.n_tokens]
            if not np.array_equal(live, self.input_ids[: self.n_tokens]):
                raise RuntimeError("the Llama has gone on since this state was looked up; look it up again")
            size = int(low.llama_state_get_size(self._llm._ctx.ctx))
            buffer = np.empty(size, np.uint8)
            pointer = buffer.ctypes.data_as(llama_cpp.ctypes.POINTER(llama_cpp.ctypes.c_uint8))
            got = int(low.llama_state_get_data(self._llm._ctx.ctx, pointer, size))
            self._bytes = buffer[:got].tobytes()
        return self._bytes

    @property
    def llama_state_size(self) -> int:  # type: ignore[override]
        """Bytes of ``llama_state``."""
        return len(self.llama_state)
