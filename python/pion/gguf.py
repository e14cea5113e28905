"""Digests of a GGUF file's tensors and of its tokenizer, cached by what the file system cannot fake.

The identity of K/V is the tensor bytes with their names and shapes, and the tokenizer; not the file's
name, and not metadata such as a chat template. Reading 98 MB takes a quarter of a second, so digests
are cached under device, inode, size, modification AND change time: copying another file over this
one with the old time stamp changes the change time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_MAX_TEXT_BYTES = 1 << 30
_RACY_S = 2.0


@dataclass(frozen=True)
class Digests:
    """``weights`` over names, shapes, types and bytes of all tensors; the others over metadata.

    ``tokenizer``: what token ids mean. ``hyperparameters``: architecture and its numbers (rope, heads,
    norms), which the engine reads from the file.
    """

    weights: str
    tokenizer: str
    hyperparameters: str


class _File:
    """Reader of GGUF metadata that keeps what it reads."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def exactly(self, size: int) -> bytes:
        if size > _MAX_TEXT_BYTES:
            raise ValueError("not a GGUF file: a string of gigabytes")
        data = self._file.read(size)
        if len(data) != size:
            raise ValueError("not a whole GGUF file")
        return data

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.exactly(struct.calcsize(layout)))[0]

    def string(self) -> bytes:
        return self.exactly(self.number("<Q"))

    def raw_value(self, kind: int) -> bytes:
        """The value's bytes as they stand in the file."""
        if kind in _SCALARS:
            return self.exactly(struct.calcsize(_SCALARS[kind]))
        if kind == _STRING:
            text = self.string()
            return struct.pack("<Q", len(text)) + text
        if kind == _ARRAY:
            inner, count = self.number("<I"), self.number("<Q")
            head = struct.pack("<IQ", inner, count)
            if inner in _SCALARS:
                return head + self.exactly(count * struct.calcsize(_SCALARS[inner]))
            return head + b"".join(self.raw_value(inner) for _ in range(count))
        raise ValueError(f"not a GGUF file: a value of type {kind}")


def _digest_file(path: str) -> list[str]:
    """[weights, tokenizer, hyperparameters] of one file, as hex."""
    weights, tokenizer, hyper = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    with open(path, "rb") as raw:
        file = _File(raw)
        if file.exactly(4) != b"GGUF":
            raise ValueError(f"{path} is no GGUF file")
        file.number("<I")
        tensors, pairs = file.number("<Q"), file.number("<Q")
        for _ in range(pairs):
            key = file.string()
            kind = file.number("<I")
            value = file.raw_value(kind)
            item = struct.pack("<QI", len(key), kind) + key + value
            # A chat template shapes prompts, not what a token id means: changing it leaves K/V valid.
            if key.startswith(b"tokenizer.") and not key.startswith(b"tokenizer.chat_template"):
                tokenizer.update(item)
            elif key == b"general.architecture" or not key.startswith((b"general.", b"tokenizer.", b"split.", b"quantize.")):
                hyper.update(item)
        for _ in range(tensors):
            name = file.string()
            dims = file.number("<I")
            weights.update(struct.pack("<Q", len(name)) + name + file.exactly(8 * dims + 4 + 8))
        buffer = memoryview(bytearray(1 << 20))
        while got := raw.readinto(buffer):
            weights.update(buffer[:got])
    return [weights.hexdigest(), tokenizer.hexdigest(), hyper.hexdigest()]


def parts_of(path: str) -> list[str]:
    """All files of a split model (``...-00001-of-00003.gguf``), or the one file."""
    found = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.gguf", path)
    if not found:
        return [path]
    count = int(found.group(3))
    return [f"{found.group(1)}-{i:05d}-of-{found.group(3)}.gguf" for i in range(1, count + 1)]


def file_identity(path: str) -> list[int]:
    """What names a file's present content as far as the file system knows."""
    info = os.stat(path)
    return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def gguf_digests(path: str) -> Digests:
    """Digests of a model given by its (first) file."""
    found = [_cached(part, "gguf", _digest_file) for part in parts_of(os.path.realpath(path))]
    weights = [digests[0] for digests in found]
    whole = weights[0] if len(weights) == 1 else hashlib.sha256("".join(weights).encode()).hexdigest()
    return Digests("sha256:" + whole, "sha256:" + found[0][1], "sha256:" + found[0][2])


def file_digest(path: str) -> str:
    """Digest of a whole file (an adapter), cached like the rest."""

    def whole(name: str) -> list[str]:
        with open(name, "rb") as file:
            return [_sha(file)]

    return "sha256:" + _cached(os.path.realpath(path), "file", whole)[0]


def _sha(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _cache_path() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pion" / "digests.json"


def _cached(path: str, kind: str, compute: Callable[[str], list[str]]) -> list[str]:
    identity = file_identity(path)
    key = f"{kind}:" + ":".join(map(str, identity))
    cache = _load_cache()
    known = cache.get(key)
    if isinstance(known, list) and known and all(isinstance(k, str) for k in known):
        return known
    result = compute(path)
    if file_identity(path) != identity:
        raise ValueError(f"{path} changed while it was read")
    # A file changed a moment ago may change again within the same tick of the clock.
    if time.time() - max(identity[3], identity[4]) / 1e9 > _RACY_S:
        cache[key] = result
        _save_cache(cache)
    return result


def _load_cache() -> dict[str, Any]:
    try:
        info = os.stat(_cache_path())
        if info.st_uid != os.geteuid() or info.st_mode & 0o022:
            return {}  # somebody else may have written it
        with open(_cache_path(), encoding="utf-8") as file:
            cache = json.load(file)
        return cache if isinstance(cache, dict) else {}
    except (OSError, ValueError):
        return {}


def _save_cache(cache: dict[str, Any]) -> None:
    """Replace the cache; it is only a saving of time, so failures are silent."""
    path = _cache_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix="digests")
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(dict(list(cache.items())[-256:]), file)
        os.replace(temporary, path)
    except OSError:
        pass
