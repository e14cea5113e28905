"""The constructor and members that users of ``pion_vllm_mlx`` know, on top of :class:`pion.mlx.PionPromptCache`."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import Any

from pion.client import DEFAULT_PORT
from pion.engine import Report
from pion.mlx import PionPromptCache as _PromptCache

log = logging.getLogger("pion")

_LOSSLESS = (None, "fp16", "fp32", "bf16", "native")
_BLOCK = 256
_MOST_NAMESPACES = 100_000  # bound on what is counted for admission_threshold


class PionPromptCache(_PromptCache):
    """Prompt cache of one mlx-lm model.

    ``vquant``, ``boundary_protect``, ``softmax_bitexact`` are kept for old callers: rows are always stored as the model
    made them, bit for bit. ``admission_threshold``: requests for a namespace before it is stored.
    ``prefill_chunk_size``: block of evaluation, as ``prefill_step_size`` of ``mlx_lm.generate``. Everything after ``*``
    is passed on to :class:`pion.mlx.PionPromptCache`.
    """

    def __init__(
        self,
        model: Any,
        vquant: str | None = "fp16",
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        stage2: bool = False,
        admission_threshold: int = 1,
        boundary_protect: int = 0,
        prefill_chunk_size: int | None = None,
        softmax_bitexact: bool = False,
        **options: Any,
    ) -> None:
        if model is None:
            raise TypeError("PionPromptCache needs a loaded mlx-lm model")
        if stage2:
            raise NotImplementedError("stage2: this version keeps K/V, it does not compute attention on the server")
        if vquant not in _LOSSLESS:
            log.warning("pion: vquant=%r is not applied: K/V is stored as the model made it, bit for bit", vquant)
        if admission_threshold < 1:
            raise ValueError("admission_threshold must be at least 1")
        super().__init__(
            model,
            host=host,
            port=port,
            prefill_step_size=prefill_chunk_size or options.pop("prefill_step_size", _BLOCK),
            **options,
        )
        self.admission_threshold = admission_threshold
        self.last_prefill_ms = 0.0
        self._asked: dict[str, int] = {}
        self._counts = {"hits": 0, "misses": 0, "admission_skips": 0, "tokens_matched": 0, "tokens_fed": 0}
        self._fetch_ms = 0.0
        self._prefill_ms = 0.0

    def get_or_prefill(
        self,
        prefix_token_ids: Sequence[int],
        namespace: str | None = None,
        *,
        boundaries: Sequence[int] = (),
        store: bool | None = None,
    ) -> list[Any]:
        """An mlx-lm cache list that holds exactly ``prefix_token_ids``, ready for a suffix (of at least one token)."""
        admitted = self._admit(namespace or "")
        cache = super().get_or_prefill(
            prefix_token_ids, namespace, boundaries=boundaries, store=admitted if store is None else store
        )
        if len(prefix_token_ids):
            self._count(self.last, admitted)
        return cache

    def _admit(self, namespace: str) -> bool:
        if self.admission_threshold == 1:
            return True
        if len(self._asked) >= _MOST_NAMESPACES and namespace not in self._asked:
            self._asked.clear()
        self._asked[namespace] = self._asked.get(namespace, 0) + 1
        return self._asked[namespace] >= self.admission_threshold

    def _count(self, report: Report | None, admitted: bool) -> None:
        if report is None:
            return
        self.last_prefill_ms = report.prefill_ms
        self._counts["hits" if report.matched else "misses"] += 1
        self._counts["admission_skips"] += not admitted and report.fed > 0
        self._counts["tokens_matched"] += report.matched
        self._counts["tokens_fed"] += report.fed
        self._fetch_ms += report.match_ms + report.restore_ms
        self._prefill_ms += report.prefill_ms

    def lookup(self, ns: str) -> bool:
        """Is anything stored under this namespace for this model? False also when the server does not answer."""
        return self.stored_under(ns)

    @staticmethod
    def make_namespace(*parts: object) -> str:
        """A namespace of fixed length: the first 32 hex digits of SHA-256 over the parts joined by ``|``."""
        return hashlib.sha256("|".join(str(part) for part in parts).encode()).hexdigest()[:32]

    def stats(self) -> dict[str, float]:
        """Counts and milliseconds of this object. ``store_ms_total`` is what storing cost on the caller's path."""
        calls = self._counts["hits"] + self._counts["misses"]
        return {
            **self._counts,
            "hit_rate": self._counts["hits"] / calls if calls else 0.0,
            "fetch_ms_total": self._fetch_ms,
            "prefill_ms_total": self._prefill_ms,
            "store_ms_total": self.engine.export_ms,
        }

    @property
    def cold_rehydrates_observed(self) -> int:
        """Fetches that found their rows not resident and had to be repeated: the server reads them itself, so none."""
        return 0
