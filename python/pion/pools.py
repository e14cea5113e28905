"""Pools: what an engine keeps per token, and which rows a prefix of it needs.

A pool is a group of layers with one *hit rule*:

* ``all``       every token's row is needed (attention),
* ``window``    the last ``window`` rows, and the first ``keep`` that never leave (sliding-window attention),
* ``trailing``  one row: the state after the last token (recurrent layers).

Rows travel packed, little-endian, in the order ``[layer][side][token][row]``, so every
(layer, side) run is contiguous. For ``trailing`` pools "token" is a single row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RULES = ("all", "window", "trailing")


@dataclass(frozen=True)
class Pool:
    """One pool of a manifest.

    ``row_bytes`` is one number, or ``[layer][side]`` when layers or sides differ. ``sides``
    are names: ``("k", "v")``, or one per head, or one per array of a quantised cache.
    ``dtype`` names the element type of a row ("f16", "f32", "bf16", "q8_0", ..., "u8" for
    opaque bytes); rows of floating types are checked for finiteness before they are stored.
    """

    name: str
    layers: int
    sides: tuple[str, ...]
    row_bytes: int | tuple[tuple[int, ...], ...]
    dtype: str | tuple[tuple[str, ...], ...]
    rule: str = "all"
    window: int = 0
    keep: int = 0
    codec: str = ""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"pool {self.name}: rule {self.rule!r} is none of {RULES}")
        if self.rule == "window" and self.window < 1:
            raise ValueError(f"pool {self.name}: a window pool needs its window")

    def row(self, layer: int, side: int) -> int:
        """Bytes of one row of (layer, side)."""
        return self.row_bytes if isinstance(self.row_bytes, int) else self.row_bytes[layer][side]

    def dtype_of(self, layer: int, side: int) -> str:
        """Element type of (layer, side)."""
        return self.dtype if isinstance(self.dtype, str) else self.dtype[layer][side]

    def token_bytes(self) -> int:
        """Bytes of one row over all layers and sides."""
        if isinstance(self.row_bytes, int):
            return self.row_bytes * self.layers * len(self.sides)
        return sum(sum(layer) for layer in self.row_bytes)

    def put_ranges(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Token ranges whose rows a PUT of tokens [start, stop) carries, in ascending order."""
        if self.rule == "all":
            return [(start, stop)]
        if self.rule == "trailing":
            return [(stop - 1, stop)]
        tail = max(start, stop - self.window)
        head_stop = min(self.keep, stop)
        if start >= head_stop:
            return [(tail, stop)]
        return [(start, head_stop), (tail, stop)] if head_stop < tail else [(start, stop)]

    def match_ranges(self, length: int) -> list[tuple[int, int]]:
        """Token ranges whose rows a match of ``length`` tokens needs, in ascending order."""
        if length == 0:
            return []
        if self.rule == "all":
            return [(0, length)]
        if self.rule == "trailing":
            return [(length - 1, length)]
        tail = max(0, length - self.window)
        head = min(self.keep, length)
        if head == 0:
            return [(tail, length)]
        return [(0, head), (tail, length)] if head < tail else [(0, length)]

    def put_rows(self, start: int, stop: int) -> int:
        """Rows per (layer, side) in a PUT of tokens [start, stop)."""
        return sum(b - a for a, b in self.put_ranges(start, stop))

    def to_json(self) -> dict[str, Any]:
        """The pool as it stands in a manifest."""
        out: dict[str, Any] = {
            "name": self.name,
            "rule": self.rule,
            "layers": self.layers,
            "sides": list(self.sides),
            "row_bytes": self.row_bytes
            if isinstance(self.row_bytes, int)
            else [list(layer) for layer in self.row_bytes],
            "dtype": self.dtype if isinstance(self.dtype, str) else [list(layer) for layer in self.dtype],
        }
        if self.rule == "window":
            out["window"] = self.window
            out["keep"] = self.keep
        if self.codec:
            out["codec"] = self.codec
        return out


@dataclass
class Want:
    """Rows [start, stop) of one pool and where they belong.

    ``targets[layer][side]`` is a writable, C-contiguous buffer of exactly
    ``(stop - start) * row(layer, side)`` bytes. For ``trailing`` pools stop - start is 1.
    """

    pool: Pool
    start: int
    stop: int
    targets: list[list[memoryview]]

    def check(self) -> None:
        """Raise ValueError when a target has another length than its rows."""
        if len(self.targets) != self.pool.layers:
            raise ValueError(f"pool {self.pool.name}: {len(self.targets)} layers of targets, {self.pool.layers} needed")
        for layer, sides in enumerate(self.targets):
            for side, target in enumerate(sides):
                need = (self.stop - self.start) * self.pool.row(layer, side)
                if target.nbytes != need:
                    raise ValueError(
                        f"pool {self.pool.name} layer {layer} side {side}: target of {target.nbytes} bytes, rows have {need}"
                    )


# Element types of block-quantised rows: bytes of a block and how many half floats stand at its head.
_BLOCKS: dict[str, tuple[int, int]] = {
    "q4_0": (18, 1),
    "q4_1": (20, 2),
    "q5_0": (22, 1),
    "q5_1": (24, 2),
    "q8_0": (34, 1),
    "iq4_nl": (18, 1),
}
_MASKS: dict[str, tuple[str, int]] = {
    "f16": ("<u2", 0x7C00),
    "bf16": ("<u2", 0x7F80),
    "f32": ("<u4", 0x7F800000),
}


def finite(dtype: str, rows: Any) -> bool:
    """False when ``rows`` (any buffer) holds a NaN or an infinity.

    Types it does not know, and integers, have no such value: True.
    """
    raw = np.frombuffer(rows, dtype=np.uint8)
    if dtype in _MASKS:
        kind, mask = _MASKS[dtype]
        if raw.size == 0:
            return True
        words = raw.view(kind)
        # All exponent bits set is what NaN and the infinities have in common; integer compares are
        # many times faster than numpy's isfinite on half floats.
        return not bool(np.any((words & mask) == mask))
    if dtype in _BLOCKS:
        block, scales = _BLOCKS[dtype]
        heads = raw.reshape(-1, block)[:, : 2 * scales]
        words = np.ascontiguousarray(heads).view("<u2")
        return not bool(np.any((words & 0x7C00) == 0x7C00))
    return True


def non_finite_run(pool: Pool, rows: int, blob: Any) -> tuple[int, int] | None:
    """First (layer, side) of a packed blob of ``rows`` rows that is not finite, or None."""
    view = memoryview(blob).cast("B")
    at = 0
    for layer in range(pool.layers):
        for side in range(len(pool.sides)):
            size = rows * pool.row(layer, side)
            if not finite(pool.dtype_of(layer, side), view[at : at + size]):
                return layer, side
            at += size
    return None


def as_tokens(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Token ids as a one-dimensional little-endian u32 array; refuses negative ids and other shapes."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise ValueError(f"token ids must be one-dimensional, not of shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"token ids must be integers, not {array.dtype}")
    if array.size and (int(array.min()) < 0 or int(array.max()) > 0xFFFFFFFF):
        raise ValueError("token ids must lie in 0..2**32-1")
    return np.ascontiguousarray(array, dtype="<u4")
