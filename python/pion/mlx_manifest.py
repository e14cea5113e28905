"""Who an mlx model is, read from the loaded object: what touches K/V and nothing else.

Everything is taken from what IS in memory, not from what was asked for at load:

* ``weights``   SHA-256 over every parameter (path, shape, type, bytes);
* ``adapters``  digest and scale of LoRA/DoRA layers, read again before every match;
* ``rope``      class, numbers and frequency tables of the rotation objects the model holds;
* ``structure`` the remaining plain attributes of all modules (scales, head counts, quantisation).

A LoRA model's base has the same ``weights`` and ``structure`` as the model without it, so that a
difference is named ``adapters`` and not everything at once. Context length, batch, step size
and versions of mlx are not identity (``notes`` carries them): none of them changes what a row means.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

# What says how long a prompt may be, not what a row is. (Where it sets the rotation, the rotation's own numbers differ.)
_NOT_IDENTITY = {"max_position_embeddings", "model_max_length", "max_seq_len"}
_INTERNAL = {"_no_grad", "_training"}
_LORA_ARRAYS = ("lora_a", "lora_b", "m")
_LORA_BASES = ("linear", "embedding")
_SAMPLE_BYTES = 4096


def _is_lora(module: Any) -> bool:
    return isinstance(module, nn.Module) and "lora_a" in module


Found = tuple[str, nn.Module, bool]  # path, module, is it a LoRA wrapper


def modules(model: nn.Module) -> list[Found]:
    """Every module with its path, in a fixed order. A LoRA wrapper's base takes the wrapper's path."""

    def walk(item: Any, path: str) -> Iterator[tuple[str, nn.Module, bool]]:
        if isinstance(item, nn.Module):
            lora = _is_lora(item)
            yield path, item, lora
            for name in sorted(item):
                child = item[name]
                if lora:
                    if name in _LORA_BASES:
                        yield from walk(child, path)
                else:
                    yield from walk(child, f"{path}.{name}" if path else name)
        elif isinstance(item, (list, tuple)):
            for index, child in enumerate(item):
                yield from walk(child, f"{path}.{index}")
        elif isinstance(item, dict):
            for name in sorted(item, key=str):
                yield from walk(item[name], f"{path}.{name}")

    return list(walk(model, ""))


def _own_arrays(module: nn.Module, lora: bool) -> Iterator[tuple[str, mx.array]]:
    """Arrays a module holds itself (its own lists and dicts opened, no child modules), by name."""

    def walk(item: Any, path: str) -> Iterator[tuple[str, mx.array]]:
        if isinstance(item, mx.array):
            yield path, item
        elif isinstance(item, nn.Module):
            return
        elif isinstance(item, (list, tuple)):
            for index, child in enumerate(item):
                yield from walk(child, f"{path}.{index}")
        elif isinstance(item, dict):
            for name in sorted(item, key=str):
                yield from walk(item[name], f"{path}.{name}")

    for name in sorted(module):
        if not (lora and name in _LORA_ARRAYS):
            yield from walk(module[name], name)


def parameters(found: Sequence[Found]) -> list[tuple[str, mx.array]]:
    """(path, array) of every weight of the base model, in a fixed order; LoRA arrays and rope tables left out."""
    out = []
    for path, module, lora in found:
        if _is_rope(module):
            continue
        for name, array in _own_arrays(module, lora):
            out.append((f"{path}.{name}" if path else name, array))
    return out


def _bytes(array: mx.array) -> memoryview:
    """The array's bytes, without a copy when it lies contiguous."""
    if array.dtype in (mx.bfloat16, mx.complex64) or array.dtype.size not in (1, 2, 4, 8):
        array = array.reshape(-1).view(mx.uint8) if array.size else array
    elif array.dtype == mx.bool_:
        array = array.astype(mx.uint8)
    mx.eval(array)
    return memoryview(np.ascontiguousarray(np.array(array, copy=False)).reshape(-1)).cast("B")


def _head(path: str, array: mx.array) -> bytes:
    """Frames one array, so that no two lists of arrays have the same bytes."""
    return json.dumps([path, list(array.shape), str(array.dtype), array.nbytes]).encode() + b"\0"


def array_digest(path: str, array: mx.array) -> bytes:
    """SHA-256 of one array with its name, shape and type."""
    state = hashlib.sha256(_head(path, array))
    if array.size:
        state.update(_bytes(array))
    return state.digest()


def weights_digest(weights: list[tuple[str, mx.array]]) -> str:
    """SHA-256 (hex) over the digests of all arrays. 135 M float32 weights: about 0.4 s on two cores."""
    mx.eval([array for _, array in weights])
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        parts = pool.map(lambda item: array_digest(*item), weights)
        return hashlib.sha256(b"".join(parts)).hexdigest()


def sample_digest(weights: list[tuple[str, mx.array]]) -> str:
    """SHA-256 over names, shapes, types and three small pieces of every array: guards the file cache."""
    state = hashlib.sha256()
    for path, array in weights:
        state.update(_head(path, array))
        if not array.size:
            continue
        data = _bytes(array)
        for at in (0, max(0, data.nbytes // 2 - _SAMPLE_BYTES // 2), max(0, data.nbytes - _SAMPLE_BYTES)):
            state.update(data[at : at + _SAMPLE_BYTES])
    return state.hexdigest()


def _plain(value: Any) -> Any:
    """A plain attribute as JSON, or None for what is not plain data."""
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in _NOT_IDENTITY}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict) and not isinstance(value, nn.Module):
        return {str(k): _plain(v) for k, v in sorted(value.items(), key=lambda kv: str(kv[0])) if k not in _NOT_IDENTITY}
    return None


def _attributes(module: nn.Module) -> dict[str, Any]:
    """The plain attributes of a module (numbers, texts, lists of them), child modules and arrays left out."""
    out = {}
    for source in (vars(module), module):
        for name in source:
            if name in _INTERNAL or name in _NOT_IDENTITY:
                continue
            value = source[name]
            if isinstance(value, (mx.array, nn.Module)) or _holds_modules(value):
                continue
            plain = _plain(value)
            if plain is not None:
                out[name] = plain
    if isinstance(module, nn.Dropout) and module.training:
        out["training"] = True
    return out


def _holds_modules(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(v, (nn.Module, mx.array)) or _holds_modules(v) for v in value)
    if isinstance(value, dict) and not isinstance(value, nn.Module):
        return any(isinstance(v, (nn.Module, mx.array)) or _holds_modules(v) for v in value.values())
    return False


def _is_rope(module: Any) -> bool:
    return isinstance(module, nn.Module) and "rope" in type(module).__name__.lower()


def rope(found: Sequence[Found]) -> list[dict[str, Any]]:
    """The rotations in effect: each distinct one with its class, numbers and tables, and a digest of where it stands."""
    entries: dict[str, dict[str, Any]] = {}
    places: dict[str, list[str]] = {}
    for path, module, _ in found:
        if not _is_rope(module):
            continue
        entry: dict[str, Any] = {"class": type(module).__name__, **_attributes(module)}
        tables = {name: array_digest(name, array).hex()[:32] for name, array in _own_arrays(module, False)}
        for name, value in vars(module).items():
            if isinstance(value, mx.array):
                tables[name] = array_digest(name, value).hex()[:32]
        if tables:
            entry["tables"] = tables
        key = json.dumps(entry, sort_keys=True)
        entries[key] = entry
        places.setdefault(key, []).append(path)
    return [
        {**entries[key], "places": hashlib.sha256("\0".join(places[key]).encode()).hexdigest()[:16]} for key in sorted(entries)
    ]


def structure(found: Sequence[Found]) -> str:
    """SHA-256 (hex) over class and plain attributes of every module except rotations and LoRA wrappers."""
    state = hashlib.sha256()
    for path, module, lora in found:
        if lora or _is_rope(module):
            continue
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        state.update(json.dumps([path, kind, _attributes(module)], sort_keys=True).encode() + b"\0")
    return state.hexdigest()


def adapters(found: Sequence[Found]) -> list[dict[str, Any]]:
    """Active LoRA/DoRA adapters: one entry per scale with the digest of its arrays and their places."""
    states: dict[float, Any] = {}
    for path, module, lora in found:
        if not lora:
            continue
        scale = float(getattr(module, "scale", 1.0))
        state = states.setdefault(scale, hashlib.sha256())
        state.update(f"{path}\0{type(module).__name__}\0".encode())
        for name in _LORA_ARRAYS:
            if name in module:
                state.update(array_digest(name, module[name]))
    return [{"digest": state.hexdigest(), "scale": scale} for scale, state in sorted(states.items())]


def tokenizer_digest(tokenizer: Any) -> str | None:
    """SHA-256 (hex) of vocabulary, merges, special tokens and chat template; None when there is no tokenizer.

    Matching is on ids, so this is no part of what a row means; it keeps a changed template or BOS setting
    from being told as "the prompt parts from what is stored". A tokenizer that cannot be read is refused.
    """
    if tokenizer is None:
        return None
    inner = getattr(tokenizer, "_tokenizer", tokenizer)  # mlx-lm wraps the Hugging Face object
    backend = getattr(inner, "backend_tokenizer", None) or getattr(inner, "_tokenizer", None)
    settings = {
        name: str(getattr(inner, name, None))
        for name in ("bos_token_id", "eos_token_id", "add_bos_token", "add_eos_token", "chat_template")
    }
    if backend is not None and hasattr(backend, "to_str"):
        text = backend.to_str()
    elif hasattr(inner, "get_vocab"):
        text = json.dumps(sorted(inner.get_vocab().items()))
    else:
        raise TypeError(f"a tokenizer of type {type(inner).__name__} has neither a vocabulary nor a JSON form")
    return hashlib.sha256(json.dumps([settings, text], sort_keys=True).encode()).hexdigest()


class FileDigests:
    """Remembers digests of weights by the identity of their files: device, inode, size, mtime and ctime, to the ns.

    Size and mtime alone are not enough (both can be copied with a file). What is in memory could still differ from the
    files (another type, a fused adapter), so a sample of every array is part of the key. One small JSON file, 0600.
    """

    def __init__(self, path: Path | None = None) -> None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._path = path or home / "pion" / "weights-digests.json"

    @staticmethod
    def key(folder: str | os.PathLike[str], weights: list[tuple[str, mx.array]]) -> str:
        """Key of a model folder (or file) together with what was loaded from it."""
        root = Path(folder)
        files = sorted(root.glob("*.safetensors")) + sorted(root.glob("*.gguf")) if root.is_dir() else [root]
        if not files:
            raise FileNotFoundError(f"no weights in {root}")
        parts: list[Any] = []
        for file in files:
            info = os.stat(file)
            if not stat.S_ISREG(info.st_mode):
                raise FileNotFoundError(f"{file} is no regular file")
            parts.append([info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns])
        return hashlib.sha256(json.dumps([parts, sample_digest(weights)]).encode()).hexdigest()

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self._path.read_text())
            return found if isinstance(found, dict) else {}
        except (OSError, ValueError):
            return {}

    def get(self, key: str) -> str | None:
        """Digest remembered under ``key``, or None."""
        return self._read().get(key)

    def put(self, key: str, digest: str) -> None:
        """Remember; a folder that cannot be written to is no error."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            known = {**self._read(), key: digest}
            handle, name = tempfile.mkstemp(dir=self._path.parent)
            with os.fdopen(handle, "w") as file:
                json.dump(dict(list(known.items())[-256:]), file)
            os.replace(name, self._path)
        except OSError:
            pass


class ModelIdentity:
    """The manifest of one loaded model without its pools; digests are kept until something looks changed.

    Rotations and adapters are read each time, and a replaced parameter object is noticed by itself. Arrays and
    other attributes changed in place are not: that is what ``model_changed()`` is for, which reads ``fresh``.
    """

    def __init__(self, model: nn.Module, tokenizer: Any = None, folder: str | os.PathLike[str] | None = None) -> None:
        self._model, self._folder = model, folder
        self._tokenizer = tokenizer_digest(tokenizer)
        self._files = FileDigests()
        self._weights = ""
        self._structure = ""
        self._seen: list[weakref.ref[Any]] = []

    def _unchanged(self, weights: list[tuple[str, mx.array]]) -> bool:
        return len(weights) == len(self._seen) and all(ref() is array for ref, (_, array) in zip(self._seen, weights))

    def read(self, *, fresh: bool = False) -> dict[str, Any]:
        """Fields of the manifest. ``fresh``: every digest anew, no cache believed."""
        found = modules(self._model)
        weights = parameters(found)
        if fresh or not self._unchanged(weights):
            self._weights = self._digest(weights, fresh)
            self._structure = structure(found)
            self._seen = [weakref.ref(array) for _, array in weights]
        kind = type(self._model)
        fields: dict[str, Any] = {
            "architecture": f"{getattr(self._model, 'model_type', None) or kind.__module__.rsplit('.', 1)[-1]}",
            "weights": self._weights,
            "structure": self._structure,
            "rope": rope(found),
            "adapters": adapters(found),
        }
        if self._tokenizer is not None:
            fields["tokenizer"] = self._tokenizer
        return fields

    def _digest(self, weights: list[tuple[str, mx.array]], fresh: bool) -> str:
        if self._folder is None or fresh:
            return weights_digest(weights)
        try:
            key = FileDigests.key(self._folder, weights)
        except OSError:
            return weights_digest(weights)
        known = self._files.get(key)
        if known is None:
            known = weights_digest(weights)
            self._files.put(key, known)
        return known
