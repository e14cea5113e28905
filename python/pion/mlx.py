"""Prompt memory for mlx-lm.

    from pion.mlx import PionPromptCache
    pc = PionPromptCache(model, tokenizer)
    cache, rest = pc.prompt(ids)                      # a whole prompt; at least its last token is left
    text = generate(model, tokenizer, prompt=rest, prompt_cache=cache)

A prompt is matched token by token with what any process stored under the same model; only the rest is
prefilled, and stored while it is. What comes back is bit-equal to what was stored. Without a
server (down, slow, full) the model prefills as if there were no Pion, after one warning.

What each call did stands in ``pc.last`` (:class:`pion.engine.Report`); what this model allows in ``pc.reuse``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .adapter import Adapter
from .client import DEFAULT_PORT, Client, Media
from .core import PromptCore
from .engine import Report
from .errors import Refused
from .mlx_cache import leaves
from .mlx_engine import MlxEngine
from .pools import as_tokens
from .tokens import seam

__all__ = ["PionPromptCache", "split_prompt", "turn_starts"]

_MADE_UNDER = "_pion_made_under"  # on cache objects that were handed out: the identity then


class PionPromptCache(Adapter):
    """Prompt memory of one loaded mlx-lm model. Thread safe; calls take turns.

    * ``tokenizer``: for readable reports, and part of the identity when given.
    * ``namespace``: becomes the salt. Prompts of different namespaces never see each other.
    * ``name``: a fixed name on the wire. Another identity under it is refused and reported field by
      field; by default the name carries a digest of the identity, so each has its own.
    * ``model_path``: folder of the weights; digests are then remembered by file identity.
    * ``prefill_step_size``: block of evaluation, as in ``mlx_lm.generate``; ``step``: tokens between two PUTs,
      a multiple of it. A cold run with Pion feeds exactly these blocks.
    * ``kv_bits``, ``kv_group_size``, ``quantized_kv_start``, ``max_kv_size``: as given to ``generate``; identity, all of them.
    * ``min_store``: a tail shorter than this is not stored. ``second_sight``: store only what was asked for before.
    * ``enabled=False`` sends nothing.

    Caches that are returned belong to the caller: using one changes no other and nothing that is stored.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        unix_socket: str | None = None,
        password: str | None = None,
        client: Client | None = None,
        namespace: str = "",
        name: str | None = None,
        model_path: str | os.PathLike[str] | None = None,
        prefill_step_size: int = 256,
        step: int | None = None,
        kv_bits: int | None = None,
        kv_group_size: int = 64,
        quantized_kv_start: int = 0,
        max_kv_size: int | None = None,
        min_store: int = 64,
        second_sight: bool = False,
        store: bool = True,
        enabled: bool = True,
    ) -> None:
        self.engine = MlxEngine(
            model,
            tokenizer=tokenizer,
            model_path=model_path,
            prefill_step_size=prefill_step_size,
            kv_bits=kv_bits,
            kv_group_size=kv_group_size,
            quantized_kv_start=quantized_kv_start,
            max_kv_size=max_kv_size,
        )
        self.core = PromptCore(
            self.engine,
            client,
            host=host,
            port=port,
            unix_socket=unix_socket,
            password=password,
            namespace=namespace,
            model=name,
            step=step,
            min_store=min_store,
            store=store,
            second_sight=second_sight,
            enabled=enabled,
        )
        self._lock = threading.RLock()

    # -- what it is --------------------------------------------------------------------------

    def make_cache(self) -> list[Any]:
        """A fresh, empty cache of this model."""
        return self.engine.make_cache()

    # -- the calls ---------------------------------------------------------------------------

    def get_or_prefill(
        self,
        prefix_ids: Sequence[int],
        namespace: str | None = None,
        *,
        boundaries: Sequence[int] = (),
        store: bool | None = None,
    ) -> list[Any]:
        """A cache that holds exactly ``prefix_ids``, to be given to ``generate`` with a prompt that is not empty.

        ``boundaries``: token counts (turn starts) at which to stop and store; a model with recurrent layers can
        be cut only at such places, at the ends of steps, and at the end. ``store``: for this call, another answer
        than the constructor's.
        """
        ids = as_tokens(prefix_ids)
        with self._lock:
            if ids.size == 0:
                return self.engine.make_cache()
            storing = self.core.store
            self.core.store = storing if store is None else store
            try:
                self.core.acquire(ids, leave=0, namespace=namespace, boundaries=boundaries)
            finally:
                self.core.store = storing
            return self._hand_out()

    def prompt(
        self, ids: Sequence[int], namespace: str | None = None, *, boundaries: Sequence[int] = ()
    ) -> tuple[list[Any], list[int]]:
        """(cache, rest) for a whole prompt: ``rest`` is its last token, which gives ``generate`` its logits."""
        tokens = as_tokens(ids)
        if tokens.size == 0:
            raise ValueError("an empty prompt")
        return self.get_or_prefill(tokens[:-1], namespace, boundaries=boundaries), [int(tokens[-1])]

    def prefill(
        self, ids: Sequence[int], namespace: str | None = None, *, boundaries: Sequence[int] = ()
    ) -> Report:
        """Make sure that ``ids`` is stored, without generating. Idempotent: a second call feeds nothing."""
        with self._lock:
            try:
                return self.core.prefill(ids, namespace=namespace, boundaries=boundaries)
            finally:
                self.engine.clear()

    def fetch(
        self, ids: Sequence[int], namespace: str | None = None, *, more_than: int = 0, media: Sequence[Media] = ()
    ) -> tuple[list[Any] | None, int]:
        """(cache, matched): what is stored of ``ids``, if it is more than ``more_than`` tokens; nothing is prefilled.

        (None, 0) when there is nothing to win. The whole of ``ids`` may be matched: ask for what may be skipped.
        ``media``: the pictures and sounds in ``ids``, by position, length and digest.
        """
        tokens = as_tokens(ids)
        with self._lock:
            if tokens.size == 0:
                return None, 0
            report = self.core.fetch(tokens, more_than=more_than, namespace=namespace, media=media)
            return (self._hand_out(), report.matched) if report.matched else (None, 0)

    def _hand_out(self) -> list[Any]:
        """The finished cache, marked with the identity it was made under."""
        cache = self.engine.take()
        if self.enabled and self.engine.layout is not None:
            made_under = self.core.identity.now()
            for _, leaf in leaves(cache):
                setattr(leaf, _MADE_UNDER, made_under)
        return cache

    def store(
        self, cache: list[Any], ids: Sequence[int], namespace: str | None = None, *, media: Sequence[Media] = ()
    ) -> Report:
        """Store a cache made elsewhere (after a generation, say) that holds exactly ``ids``.

        ``ids`` are the tokens that were fed, never an encoding of the text. Raises Refused, naming the layer,
        for a cache that does not hold exactly these tokens, of another kind than this model's, or begun here before the
        model changed. The cache is only read. ``media`` as for ``fetch``.
        """
        tokens = as_tokens(ids)
        with self._lock:
            if self.engine.layout is not None and not self.engine.layout.counts_tokens:
                raise Refused("only recurrent layers: nothing in this cache says how many tokens it holds; use prefill()")
            self.engine.adopt(cache, int(tokens.size))
            try:
                made_under = {getattr(leaf, _MADE_UNDER, None) for _, leaf in leaves(cache)} - {None}
                if made_under and made_under != {self.core.identity.now()}:
                    raise Refused("the model's identity (weights, adapters, rope) changed since this cache was begun")
                return self.core.store_held(tokens, namespace=namespace, media=media)
            finally:
                self.engine.clear()

    def stored_under(self, namespace: str) -> bool:
        """Is anything stored under ``namespace`` for this model? False also when the server does not answer."""
        with self._lock:
            return self.core.stored_under(namespace)

    def model_changed(self) -> None:
        """Weights or adapters were changed in place: nothing stored before is matched any more."""
        with self._lock:
            super().model_changed()


def split_prompt(encode: Callable[[str], Sequence[int]], prefix: str, suffix: str) -> tuple[list[int], list[int]]:
    """Split ``prefix + suffix`` into (prefix ids, suffix ids) whose sum is the encoding of the whole text.

    Encoding the two apart gives other ids around the seam (" the" is one token, " " and "the" are two), and so another
    prompt. The seam is put where both encodings agree; the suffix keeps at least one token for ``generate``.
    """
    head, rest = seam(encode, prefix, suffix)
    if not head and not rest:
        raise ValueError("an empty prompt")
    return (head, rest) if rest else (head[:-1], head[-1:])


def turn_starts(tokenizer: Any, messages: Sequence[dict[str, Any]], ids: Sequence[int]) -> list[int]:
    """Token counts at which the messages of a chat begin in ``ids``: boundaries for models with recurrent layers.

    ``ids`` is the whole prompt (``tokenizer.apply_chat_template(messages, add_generation_prompt=True)``). The last
    count is where the generation prompt begins. The next turn's history parts from this prompt at one of them, when a
    client drops the thinking or the template renders the last turn in another way than earlier ones.
    """
    starts = set()
    for count in range(1, len(messages) + 1):
        part = tokenizer.apply_chat_template(list(messages[:count]), add_generation_prompt=False, tokenize=True)
        part = part["input_ids"] if isinstance(part, dict) or hasattr(part, "input_ids") else part
        shared = 0
        for a, b in zip(part, ids):
            if a != b:
                break
            shared += 1
        starts.add(shared)
    return sorted(s for s in starts if 0 < s < len(ids))
