"""Two engines behind one small interface: prefill, save, load, ask Pion, and say what came out.

A session holds one loaded model and one context. Times are milliseconds on the monotonic clock, from "the token ids
are there" to "the first token of the answer is chosen" (greedy). All sources of the prefix end in the same call:
the question is evaluated in one step and only its last position's logits are used.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Callable, Sequence

from . import text

Ids = list[int]
Progress = Callable[[int, int], None]


class Session(ABC):
    """One model in one process. Not thread safe."""

    adapter: Any = None
    held: Any = None
    step: int = 512
    """Tokens per prefill step: the engine's own block, and the adapter's, so that both round alike."""

    def prompt(self, prefix_tokens: int) -> tuple[Ids, Ids]:
        """Token ids of a prefix of exactly that length, and of the question."""
        ids = self.tokenize(text.handbook())
        assert len(ids) >= prefix_tokens, f"the handbook has only {len(ids)} tokens"
        return ids[:prefix_tokens], self.tokenize(text.QUESTION)

    def warm_up(self) -> None:
        """One small prefill of other text, so that no row pays for the engine's first call."""
        self.clear()
        self.feed(self.tokenize("A text of another kind, to wake the threads and touch the weights. " * 16)[:256])
        self.first_token()
        self.clear()

    def cold(self, prefix: Ids, question: Ids, progress: Progress = lambda done, of: None) -> dict[str, Any]:
        """Prefill in steps, then the question: what the engine does without any cache."""
        self.clear()
        start = time.perf_counter()
        for at in range(0, len(prefix), self.step):
            self.feed(prefix[at : at + self.step])
            progress(min(at + self.step, len(prefix)), len(prefix))
        return self._ask(question, start)

    def resident(self, prefix: Ids, question: Ids) -> dict[str, Any]:
        """The question alone, on a prefix that is in the context already: the limit of every cache."""
        self.keep(len(prefix))
        return self._ask(question, time.perf_counter())

    def from_file(self, path: str, prefix: Ids, question: Ids) -> dict[str, Any]:
        """The engine's own cache file, then the question."""
        self.clear()
        start = time.perf_counter()
        self.load_file(path, len(prefix))
        out = self._ask(question, start)
        out["bytes"] = Path(path).stat().st_size
        return out

    def from_memory(self, prefix: Ids, question: Ids) -> dict[str, Any]:
        """The state put into an empty context from touched memory of this process, then the question: what no cache can undercut."""
        if self.held is None:
            self.held = self.hold_state(len(prefix))
        self.clear()
        start = time.perf_counter()
        self.put_state(self.held, prefix)
        return self._ask(question, start)

    def from_pion(self, prefix: Ids, question: Ids, namespace: str = "") -> dict[str, Any]:
        """Whatever Pion has of the prefix, the rest prefilled and stored, then the question."""
        self.clear()
        start = time.perf_counter()
        report = self.ask_pion(prefix, question, namespace)
        token = self.first_token()
        ms = (time.perf_counter() - start) * 1e3
        return {"ms": ms, "token": token, "bytes": report.bytes_read, "report": dataclasses.asdict(report)}

    def connect_pion(self, host: str, port: int) -> str:
        """Makes the adapter and connects it; says what reuse this model allows."""
        self.adapter = self.make_adapter(host, port)
        assert self.adapter.core.step == self.step, "the cold side must feed the adapter's steps"
        assert self.adapter.core.connect(), f"no server on {host}:{port}"
        return f"{self.adapter.reuse.kind} ({self.adapter.reuse.why})"

    def flush_pion(self) -> dict[str, Any]:
        """Waits until everything is stored; returns the final report of the last request."""
        assert self.adapter.flush(60.0), "storing did not end"
        return dataclasses.asdict(self.adapter.last)

    def outcome(self, first: int, prefix_tokens: int, count: int) -> dict[str, Any]:
        """The answer's first `count` greedy tokens, and a digest of the K/V of the prefix. Not timed."""
        tokens = [first]
        while len(tokens) < count:
            self.feed([tokens[-1]])
            tokens.append(self.first_token())
        self.keep(prefix_tokens)
        return {"tokens": tokens, "text": self.detokenize(tokens), "digest": self.digest(prefix_tokens)}

    def _ask(self, question: Ids, start: float) -> dict[str, Any]:
        self.feed(question)
        token = self.first_token()
        return {"ms": (time.perf_counter() - start) * 1e3, "token": token, "bytes": 0}

    @abstractmethod
    def tokenize(self, words: str) -> Ids: ...

    @abstractmethod
    def detokenize(self, ids: Sequence[int]) -> str: ...

    @abstractmethod
    def clear(self) -> None:
        """An empty context."""

    @abstractmethod
    def keep(self, tokens: int) -> None:
        """Cuts the context to its first `tokens`."""

    @abstractmethod
    def feed(self, ids: Ids) -> None:
        """Evaluates ids in one step behind what is there."""

    @abstractmethod
    def first_token(self) -> int:
        """The likeliest token after the last one fed."""

    @abstractmethod
    def digest(self, tokens: int) -> str:
        """SHA-256 of the K/V rows of the context's first `tokens`, which must be all it holds."""

    @abstractmethod
    def save_file(self, path: str, prefix: Ids) -> int:
        """Writes the engine's own cache file of the context; returns its bytes."""

    @abstractmethod
    def load_file(self, path: str, tokens: int) -> None:
        """Reads it into an empty context."""

    @abstractmethod
    def hold_state(self, tokens: int) -> Any:
        """A copy of the state of the context's first `tokens`, in memory of ours."""

    @abstractmethod
    def put_state(self, held: Any, prefix: Ids) -> None:
        """Puts it into an empty context."""

    @abstractmethod
    def make_adapter(self, host: str, port: int) -> Any:
        """The PionPromptCache of this engine."""

    @abstractmethod
    def ask_pion(self, prefix: Ids, question: Ids, namespace: str) -> Any:
        """Brings the context to prefix + question through the adapter; returns its report."""


class LlamaSession(Session):
    """llama.cpp through llama-cpp-python: f16 K/V, flash attention, one sequence."""

    def __init__(self, model: str, n_ctx: int, threads: int):
        import llama_cpp

        self.lib = llama_cpp
        self.llm = llama_cpp.Llama(
            model, n_ctx=n_ctx, n_batch=self.step, n_ubatch=self.step, n_threads=threads, n_threads_batch=threads,
            flash_attn=True, verbose=False,
        )
        self.vocabulary = self.llm.n_vocab()

    def tokenize(self, words: str) -> Ids:
        return self.llm.tokenize(words.encode(), add_bos=False)

    def detokenize(self, ids: Sequence[int]) -> str:
        return self.llm.detokenize(list(ids)).decode(errors="replace")

    @property
    def _memory(self) -> Any:
        return self.lib.llama_get_memory(self.llm.ctx)

    def clear(self) -> None:
        self.lib.llama_memory_clear(self._memory, True)
        self.llm.n_tokens = 0

    def keep(self, tokens: int) -> None:
        assert self.lib.llama_memory_seq_rm(self._memory, 0, tokens, -1)
        self.llm.n_tokens = tokens

    def feed(self, ids: Ids) -> None:
        self.llm.eval(ids)

    def first_token(self) -> int:
        import numpy as np

        logits = self.lib.llama_get_logits_ith(self.llm.ctx, -1)
        return int(np.argmax(np.ctypeslib.as_array(logits, shape=(self.vocabulary,))))

    def digest(self, tokens: int) -> str:
        assert self.llm.n_tokens == tokens
        size = self.lib.llama_state_seq_get_size(self.llm.ctx, 0)
        blob = (ctypes.c_uint8 * size)()
        assert self.lib.llama_state_seq_get_data(self.llm.ctx, blob, size, 0) == size
        return hashlib.sha256(blob).hexdigest()

    def save_file(self, path: str, prefix: Ids) -> int:
        ids = (self.lib.llama_token * len(prefix))(*prefix)
        return self.lib.llama_state_seq_save_file(self.llm.ctx, path.encode(), 0, ids, len(prefix))

    def load_file(self, path: str, tokens: int) -> None:
        ids, count = (self.lib.llama_token * tokens)(), ctypes.c_size_t()
        assert self.lib.llama_state_seq_load_file(self.llm.ctx, path.encode(), 0, ids, tokens, ctypes.byref(count))
        assert count.value == tokens
        self.llm.n_tokens = tokens

    def hold_state(self, tokens: int) -> Any:
        self.keep(tokens)
        size = self.lib.llama_state_seq_get_size(self.llm.ctx, 0)
        blob = (ctypes.c_uint8 * size)()
        assert self.lib.llama_state_seq_get_data(self.llm.ctx, blob, size, 0) == size
        return blob

    def put_state(self, held: Any, prefix: Ids) -> None:
        assert self.lib.llama_state_seq_set_data(self.llm.ctx, held, len(held), 0) == len(held)
        self.llm.n_tokens = len(prefix)

    def make_adapter(self, host: str, port: int) -> Any:
        from pion.llama import PionPromptCache

        return PionPromptCache(self.llm, host=host, port=port)

    def ask_pion(self, prefix: Ids, question: Ids, namespace: str) -> Any:
        # The boundary keeps prefix and question in steps of their own where all of it is prefilled.
        return self.adapter.get_or_prefill(prefix + question, namespace=namespace, boundaries=[len(prefix)])


class MlxSession(Session):
    """mlx-lm on CPU, float32 weights (the fast ones there), K/V float32."""

    step = 2048  # mlx-lm's own prefill_step_size

    def __init__(self, model: str, n_ctx: int, threads: int):
        del n_ctx, threads  # mlx grows its caches; its BLAS reads the number of threads from the environment
        import mlx.core as mx
        from mlx_lm import load
        from mlx_lm.models import cache

        self.mx, self.caches, self.path = mx, cache, model
        self.model, self.tokenizer = load(model)
        self.state: list[Any] = []
        self.logits: Any = None

    def tokenize(self, words: str) -> Ids:
        return list(self.tokenizer.encode(words, add_special_tokens=False))

    def detokenize(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids))

    def clear(self) -> None:
        self.state, self.logits = self.caches.make_prompt_cache(self.model), None

    def keep(self, tokens: int) -> None:
        for layer in self.state:
            layer.trim(layer.offset - tokens)
            assert layer.offset == tokens

    def feed(self, ids: Ids) -> None:
        # mlx is lazy: the logits of positions nobody asks for are never computed.
        self.logits = self.model(self.mx.array(ids)[None], cache=self.state)
        self.mx.eval([layer.state for layer in self.state])

    def first_token(self) -> int:
        return int(self.mx.argmax(self.logits[0, -1]).item())

    def digest(self, tokens: int) -> str:
        import numpy as np

        out = hashlib.sha256()
        for layer in self.state:
            assert layer.offset == tokens
            out.update(np.ascontiguousarray(np.array(layer.keys[..., :tokens, :])))
            out.update(np.ascontiguousarray(np.array(layer.values[..., :tokens, :])))
        return out.hexdigest()

    def save_file(self, path: str, prefix: Ids) -> int:
        self.caches.save_prompt_cache(path, self.state)
        return Path(path).stat().st_size

    def load_file(self, path: str, tokens: int) -> None:
        self.state = self.caches.load_prompt_cache(path)

    def hold_state(self, tokens: int) -> Any:
        import numpy as np

        self.keep(tokens)
        return [[np.array(side[..., :tokens, :]) for side in (layer.keys, layer.values)] for layer in self.state]

    def put_state(self, held: Any, prefix: Ids) -> None:
        for layer, sides in zip(self.state, held):
            layer.keys, layer.values = (self.mx.array(side) for side in sides)
            layer.offset = len(prefix)
        self.mx.eval([side for layer in self.state for side in (layer.keys, layer.values)])

    def make_adapter(self, host: str, port: int) -> Any:
        from pion.mlx import PionPromptCache

        return PionPromptCache(
            self.model, self.tokenizer, host=host, port=port, model_path=self.path, prefill_step_size=self.step
        )

    def ask_pion(self, prefix: Ids, question: Ids, namespace: str) -> Any:
        self.state = self.adapter.get_or_prefill(prefix, namespace)
        self.feed(question)
        return self.adapter.last


SESSIONS: dict[str, type[Session]] = {"llama": LlamaSession, "mlx": MlxSession}
