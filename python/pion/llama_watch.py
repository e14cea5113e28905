"""What llama.cpp cannot be asked, seen as it happens: shifts, embeddings, and the adapters of a context.

llama.cpp has no function that tells whether positions were shifted, whether rows come from a picture
instead of tokens, or which LoRA adapters and control vectors are active. All of it changes what K/V is
worth. So the few functions that do it are wrapped in llama-cpp-python's module; the wrappers note the
call and pass it on unchanged.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import llama_cpp
import llama_cpp.llama_cpp as low


@dataclass
class Watch:
    """Notes by handle (addresses, as llama-cpp-python passes them)."""

    spoiled: dict[int, str] = field(default_factory=dict)  # memory -> why its rows are not those of their tokens
    paths: dict[int, str] = field(default_factory=dict)  # adapter -> file, "" when it had none
    active: dict[int, list[tuple[int, float]]] = field(default_factory=dict)  # context -> adapters, scales
    control: dict[int, str] = field(default_factory=dict)  # context -> digest of the control vector

    def forget_context(self, ctx: int) -> None:
        """The address may be another context's next."""
        self.active.pop(ctx, None)
        self.control.pop(ctx, None)


def address(handle: Any) -> int:
    """A handle's address, whether it came as a number or as a ctypes pointer."""
    if handle is None:
        return 0
    return int(handle) if isinstance(handle, int) else int(ctypes.cast(handle, ctypes.c_void_p).value or 0)


watch = Watch()


def _wrap(name: str, note: Callable[..., None]) -> None:
    original = getattr(low, name, None)
    if original is None or getattr(original, "_pion_watched", False):
        return

    @functools.wraps(original)
    def call(*args: Any) -> Any:
        result = original(*args)
        note(result, *args)
        return result

    call._pion_watched = True  # type: ignore[attr-defined]
    setattr(low, name, call)
    if getattr(llama_cpp, name, None) is original:
        setattr(llama_cpp, name, call)


def _note_shift(_: Any, memory: Any, *__: Any) -> None:
    watch.spoiled[address(memory)] = "positions were shifted (seq_add): these rows belong to other tokens' context"


def _note_clear(_: Any, memory: Any, *__: Any) -> None:
    watch.spoiled.pop(address(memory), None)


def _note_decode(_: Any, ctx: Any, batch: Any, *__: Any) -> None:
    if batch.embd:
        memory = address(low.llama_get_memory(ctx))
        watch.spoiled[memory] = "embeddings (a picture, a sound) were evaluated: those rows have no token ids"


def _note_adapter(adapter: Any, _model: Any, path: Any, *_: Any) -> None:
    if adapter:
        watch.paths[address(adapter)] = path.decode() if isinstance(path, bytes) else ""


def _note_active(failed: Any, ctx: Any, adapters: Any, count: int, scales: Any, *_: Any) -> None:
    if not failed:
        watch.active[address(ctx)] = [(address(adapters[i]), float(scales[i])) for i in range(count)]


def _note_control(failed: Any, ctx: Any, data: Any, size: int, embd: int, first: int, last: int, *_: Any) -> None:
    if failed:
        return
    if not data or not size:
        watch.control.pop(address(ctx), None)
        return
    raw = ctypes.string_at(ctypes.cast(data, ctypes.c_void_p), size * 4)
    watch.control[address(ctx)] = "sha256:" + hashlib.sha256(raw + repr((embd, first, last)).encode()).hexdigest()


def _note_free(_: Any, ctx: Any, *__: Any) -> None:
    watch.forget_context(address(ctx))


def install() -> None:
    """Wrap the functions (once per process)."""
    _wrap("llama_memory_seq_add", _note_shift)
    _wrap("llama_memory_seq_div", _note_shift)
    _wrap("llama_memory_clear", _note_clear)
    _wrap("llama_decode", _note_decode)
    _wrap("llama_adapter_lora_init", _note_adapter)
    _wrap("llama_adapter_lora_init_from_file_ptr", _note_adapter)
    _wrap("llama_set_adapters_lora", _note_active)
    _wrap("llama_set_adapter_cvec", _note_control)
    _wrap("llama_free", _note_free)
