"""mlx-lm as an engine of :mod:`pion.core`: one prompt cache at a time, made, fed, exported, restored.

Works with mlx-lm 0.32 on Linux and macOS; older releases by capability (only attributes all of them have are used).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models import cache as cache_classes

from .engine import Engine, Reuse
from .errors import Refused
from .mlx_cache import Layout, leaves, watch_trims
from .mlx_manifest import ModelIdentity
from .pools import Want

# Raised when a release computes or lays out K/V differently for the same weights. NOT the release number of
# mlx or mlx-lm: a store that is emptied by every update helps nobody.
KV_GENERATION = "mlx-kv-1"

_PROBE_TOKENS = 4
_PLACEHOLDERS = ("image_token_id", "image_token_index", "video_token_id", "video_token_index", "audio_token_id")


class MlxEngine(Engine):
    """A loaded mlx-lm model. ``take`` hands the finished cache to the caller, who then owns it.

    ``prefill_step_size`` is the block in which prompts are evaluated, as in ``mlx_lm.generate``.
    ``kv_bits``/``kv_group_size`` quantise the cache as ``generate`` does, after each step; a cache that would change
    its class later in a prompt (``quantized_kv_start``) is not stored. ``max_kv_size`` as in ``make_prompt_cache``.
    """

    name = "mlx-lm"

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        model_path: str | os.PathLike[str] | None = None,
        prefill_step_size: int = 256,
        kv_bits: int | None = None,
        kv_group_size: int = 64,
        quantized_kv_start: int = 0,
        max_kv_size: int | None = None,
    ) -> None:
        if prefill_step_size < 1:
            raise ValueError("prefill_step_size must be at least 1")
        self.model = model
        self.tokenizer = tokenizer
        self.block = prefill_step_size
        self.kv_bits, self.kv_group_size, self.max_kv_size = kv_bits, kv_group_size, max_kv_size
        self.layout: Layout | None = None
        self.export_ms = 0.0  # spent so far on copying rows out, on the caller's path
        self._identity = ModelIdentity(model, tokenizer, model_path)
        self._cache: list[Any] | None = None
        self._plan: Any = None
        self.model_name = f"mlx/{getattr(model, 'model_type', None) or type(model).__name__}"
        try:
            if kv_bits is not None and quantized_kv_start > 0:
                raise Refused(
                    f"quantized_kv_start {quantized_kv_start} changes the class of the cache in the middle of a prompt; "
                    "with 0 the quantised cache is stored as a model of its own"
                )
            watch_trims()
            self.layout = self._examine()
            self.pools = self.layout.pools
            self.reuse = self._say_reuse(self.layout)
        except Refused as error:
            self.reuse = Reuse("none", f"refused: {error}")

    # -- what the model keeps ----------------------------------------------------------------

    def _examine(self) -> Layout:
        """Feed a few tokens and look at what really lies in the cache: classes, shapes, element types."""
        probe = self.make_cache()
        self._evaluate(np.zeros(_PROBE_TOKENS, np.uint32), probe)
        return Layout(probe, _PROBE_TOKENS)

    def _say_reuse(self, layout: Layout) -> Reuse:
        kinds: dict[str, int] = {}
        for _, leaf in leaves(self.empty_like_stored()):
            kinds[type(leaf).__name__] = kinds.get(type(leaf).__name__, 0) + 1
        made_of = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
        if layout.has_state:
            return Reuse("boundaries", f"{made_of}: recurrent state exists only where a step ended")
        if layout.smallest_window is not None:
            return Reuse(
                "any",
                f"{made_of}: cut at any token as long as steps are no longer than the window of {layout.smallest_window}",
            )
        return Reuse("any", f"{made_of}: every layer keeps one row per token")

    def make_cache(self) -> list[Any]:
        """A fresh, empty cache list as the model makes it."""
        return cache_classes.make_prompt_cache(self.model, self.max_kv_size)

    def empty_like_stored(self) -> list[Any]:
        """Empty caches of the classes that rows are restored into: quantised ones if that was asked for."""
        made = self.make_cache()
        if self.kv_bits is not None:
            for index, item in enumerate(made):
                if hasattr(item, "to_quantized"):
                    made[index] = cache_classes.QuantizedKVCache(group_size=self.kv_group_size, bits=self.kv_bits)
        return made

    def _quantize(self, cache: list[Any]) -> None:
        """What ``mlx_lm.generate`` does after each step when ``kv_bits`` is given."""
        if self.kv_bits is None:
            return
        for index, item in enumerate(cache):
            if not hasattr(item, "to_quantized"):
                continue
            try:
                cache[index] = item.to_quantized(group_size=self.kv_group_size, bits=self.kv_bits)
            except NotImplementedError as error:
                raise Refused(f"layer {index} ({type(item).__name__}) cannot be quantised by mlx-lm: {error}") from None

    def _evaluate(self, ids: np.ndarray, cache: list[Any]) -> None:
        """One step. The logits stay unevaluated: the caller of mlx-lm always feeds at least one more token."""
        self.model(mx.array(ids)[None], cache=cache)
        self._quantize(cache)
        mx.eval([array for _, leaf in leaves(cache) for array in _arrays(leaf)])
        mx.clear_cache()

    # -- Engine ------------------------------------------------------------------------------

    def manifest(self, *, reread: bool = False) -> dict[str, Any]:
        if self.layout is None:
            raise Refused(self.reuse.why)
        bits, group = self.layout.setting("kv_bits"), self.layout.setting("kv_group_size")
        return {
            "engine": self.name,
            "engine_build": KV_GENERATION,
            **self._identity.read(fresh=reread),
            "kv_bits": bits[0] if len(bits) == 1 else bits or None,
            "kv_group_size": group[0] if len(group) == 1 else group or None,
            "layout": self.layout.identity(),
            "pools": [pool.to_json() for pool in self.pools],
            "notes": f"mlx {mx.__version__}",
        }

    def clear(self) -> None:
        self._cache = None
        self._plan = None

    def begin_restore(self, length: int) -> list[Want]:
        if self.layout is None:
            raise Refused(self.reuse.why)
        self._plan = self.layout.plan(length)
        return self._plan.wants

    def finish_restore(self, ids: np.ndarray) -> None:
        plan, self._plan = self._plan, None
        fresh = self.empty_like_stored()
        self.layout.fill(plan, fresh)
        self._cache = fresh

    def feed(self, ids: np.ndarray, *, last: bool) -> None:
        if self._cache is None:
            self._cache = self.make_cache()
        # A step of storing may be several of the engine's blocks: blocks are what decides about the last bits.
        for at in range(0, len(ids), self.block):
            self._evaluate(ids[at : at + self.block], self._cache)

    def export(self, start: int, stop: int) -> dict[str, Any]:
        if self.layout is None or self._cache is None:
            raise Refused("there is no state to store")
        began = time.perf_counter()
        rows = self.layout.export(self._cache, start, stop)
        self.export_ms += (time.perf_counter() - began) * 1000
        return rows

    def text(self, token: int) -> str:
        return "" if self.tokenizer is None else self.tokenizer.decode([token])

    def media_start(self, ids: Sequence[int] | np.ndarray) -> int | None:
        settings = [getattr(self.model, name, None) for name in ("args", "config")]
        known = {getattr(s, name, None) for s in settings for name in _PLACEHOLDERS} - {None}
        if not known:
            return None
        at = np.flatnonzero(np.isin(np.asarray(ids), list(known)))
        return int(at[0]) if at.size else None

    # -- for the adapter ---------------------------------------------------------------------

    def take(self) -> list[Any]:
        """The cache as it is now; the engine lets go of it. A fresh one if nothing was fed."""
        cache, self._cache = self._cache, None
        return self.make_cache() if cache is None else cache

    def adopt(self, cache: list[Any], tokens: int) -> None:
        """Look at somebody's cache of ``tokens`` tokens as the state to export. Raises Refused if it is not whole."""
        if self.layout is None:
            raise Refused(self.reuse.why)
        self.layout.check(cache, tokens)
        self._cache = cache


def _arrays(leaf: Any) -> list[mx.array]:
    """What to evaluate after a step: every array reachable from a cache object, whatever its class."""
    out: list[mx.array] = []

    def walk(value: Any) -> None:
        if isinstance(value, mx.array):
            out.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                walk(item)

    for value in vars(leaf).values():
        walk(value)
    return out
