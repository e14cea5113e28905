"""One codec per mlx-lm cache class: what a layer keeps per token, read out and put back bit for bit.

Sides are per head (``k0 k1 k2 v0 v1 v2``), so each run is contiguous in memory as mlx holds it
and nothing is transposed on the way. Rows are in token order, and rows of padding are never read.

Nothing here trusts ``trim``, ``is_trimmable`` or ``size``: a Concatenate cache brings trimmed rows
back, a Chunked one trims less than asked, a wrapped Rotating one moves its counters only. What is
checked is the arrays: offset and number of rows of EVERY layer against the number of tokens.

Only attributes that all supported releases share (``keys``, ``values``, ``offset``, ``_idx``, ``cache``...) are
touched. ``state``, ``meta_state`` and ``from_state`` changed between mlx-lm releases and are not used.

A new cache class is one codec here and one entry in ``CODECS``.
"""

from __future__ import annotations

import ctypes
import io
import math
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import mlx.core as mx
import numpy as np

from .errors import Refused
from .pools import Pool

_LARGE_BYTES = 256 << 10  # smaller arrays are simply zeroed
_GROWTH = 256  # mlx-lm's caches grow in steps of 256 rows
_DTYPES = {
    mx.float32: "f32",
    mx.float16: "f16",
    mx.bfloat16: "bf16",
    mx.uint32: "u32",
    mx.int32: "i32",
    mx.uint8: "u8",
}
TRIMMED = "_pion_cut"  # attribute of a cache object once somebody called its trim(): 1, or
TRIMMED_TURNED = 2  # when a ring had lost rows already, which a trim cannot bring back
_NO_TURN = 0  # "the ring lies in token order"


def _dtype_name(dtype: Any) -> str:
    try:
        return _DTYPES[dtype]
    except KeyError:
        raise Refused(f"element type {dtype} is not one that is stored") from None


def _memory(array: mx.array) -> np.ndarray:
    """The evaluated array's own memory as numpy, same shape; bfloat16 as its 16-bit words.

    The view keeps mlx from updating the array in place while it lives: drop it before the model runs.
    """
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    mx.eval(array)
    return np.array(array, copy=False)


class _Void(io.RawIOBase):
    """A ``.npy`` file of a header and of rows that nobody delivers.

    ``mx.load`` of it is an array in memory that was never written to. mlx has no other way to such a one:
    ``mx.empty`` and ``mx.zeros`` fill, ``mx.array`` and ``mx.from_dlpack`` copy.
    """

    def __init__(self, shape: tuple[int, ...], kind: str) -> None:
        super().__init__()
        about = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
        about += b" " * (-(len(about) + 11) % 64) + b"\n"
        self._head = b"\x93NUMPY\x01\x00" + len(about).to_bytes(2, "little") + about
        self._at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset if whence == io.SEEK_SET else self._at + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        part = self._head[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(buffer)
        return len(buffer)


_NPY = {mx.uint16: "<u2", mx.float16: "<f2", mx.float32: "<f4", mx.uint32: "<u4", mx.int32: "<i4", mx.uint8: "|u1"}


class Blank:
    """Makes mlx arrays to be filled from outside, without writing to them first. One per restore.

    Fresh memory costs more than the copy into it: a page fault per 4 KiB. So nothing is written before the rows
    come, and huge pages are asked for. Where mlx does not take part, a template of zeros is copied.
    """

    _untouched: ClassVar[bool] = True

    def __init__(self) -> None:
        self._stock: dict[tuple[tuple[int, ...], Any], list[mx.array]] = {}

    def stock(self, wanted: list[tuple[tuple[int, ...], Any]]) -> None:
        """Make the arrays that will be asked for, all at once: an evaluation each costs a third of a restore."""
        made: list[mx.array] = []
        for shape, dtype in wanted:
            kind = mx.uint16 if dtype == mx.bfloat16 else dtype
            if Blank._untouched and math.prod(shape) * kind.size >= _LARGE_BYTES:
                made.append(mx.load(_Void(shape, _NPY[kind]), format="npy"))
                self._stock.setdefault((shape, kind), []).append(made[-1])
        try:
            mx.eval(made)
        except (RuntimeError, TypeError, ValueError, OSError):
            Blank._untouched = False
            self._stock.clear()

    def make(self, shape: tuple[int, ...], dtype: Any) -> tuple[mx.array, np.ndarray]:
        """An array of undefined content and its writable memory. bfloat16 comes as uint16: view it when it is full."""
        kind = mx.uint16 if dtype == mx.bfloat16 else dtype
        ready = self._stock.get((shape, kind))
        array = ready.pop() if ready else mx.array(np.zeros(shape, _NPY[kind]))
        memory = np.array(array, copy=False)
        _ask_for_huge_pages(memory)
        return array, memory


def _ask_for_huge_pages(memory: np.ndarray) -> None:
    """Neighbouring arrays become one range of the kernel's, so even small ones lie in huge pages. A wish: errors are none."""
    page = mmap.PAGESIZE
    if _madvise is None or memory.nbytes < 16 * page:
        return
    start = memory.ctypes.data // page * page
    _madvise(start, -(-(memory.ctypes.data + memory.nbytes) // page) * page - start, mmap.MADV_HUGEPAGE)


def _libc_madvise() -> Any:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


_madvise = _libc_madvise()


@dataclass(frozen=True)
class _Array:
    """One array of a layer that holds rows: (1, heads, rows, width)."""

    name: str
    heads: int
    width: int
    dtype: Any

    @property
    def row_bytes(self) -> int:
        return self.width * self.dtype.size


@dataclass(frozen=True)
class Spec:
    """What a layer keeps per token. Layers of equal specs form a pool."""

    codec: type[Codec]
    arrays: tuple[_Array, ...]
    rule: str
    window: int = 0
    keep: int = 0
    settings: tuple[tuple[str, int], ...] = ()  # bits, group size, chunk size: identity, and needed to rebuild

    def sides(self) -> tuple[tuple[str, int, str], ...]:
        """(name, row bytes, element type) of each side; arrays without width (a value-free K/V) have none."""
        return self.codec.sides(self)

    def setting(self, name: str) -> int:
        return dict(self.settings)[name]


class Codec:
    """Reads and fills one mlx-lm cache class. Subclasses hold no state."""

    names: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def describe(leaf: Any, where: str) -> Spec | None:
        """The spec of a filled layer; None for a layer that is empty although tokens were fed."""
        raise NotImplementedError

    @staticmethod
    def sides(spec: Spec) -> tuple[tuple[str, int, str], ...]:
        return tuple(
            (f"{a.name}{head}", a.row_bytes, _dtype_name(a.dtype))
            for a in spec.arrays
            if a.row_bytes
            for head in range(a.heads)
        )

    @staticmethod
    def check(leaf: Any, spec: Spec, tokens: int, where: str) -> None:
        """Raise Refused unless the layer holds exactly ``tokens`` tokens' worth of state."""
        raise NotImplementedError

    @staticmethod
    def copy_rows(leaf: Any, spec: Spec, ranges: list[tuple[int, int]], tokens: int, out: list[np.ndarray]) -> None:
        """Copy the rows of ``ranges`` into ``out`` (per side, u8 of (rows, row bytes))."""
        raise NotImplementedError

    @classmethod
    def shapes(cls, spec: Spec, tokens: int) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and type of the arrays that ``plan`` will take from its blank."""
        return []

    @staticmethod
    def plan(spec: Spec, tokens: int, blank: Blank) -> tuple[list[list[np.ndarray]], Callable[[Any], None]]:
        """Buffers per range of ``match_ranges`` and side (u8, contiguous), and what puts them into a fresh layer."""
        raise NotImplementedError


def _span_copy(memory: np.ndarray, spans: list[tuple[int, int, int]], ranges: list[tuple[int, int]], out: np.ndarray) -> None:
    """Copy token ``ranges`` out of ``memory`` (rows, row bytes), whose token spans are (start, stop, row of start)."""
    at = 0
    for start, stop in ranges:
        for first, last, row in spans:
            a, b = max(start, first), min(stop, last)
            if a < b:
                out[at + a - start : at + b - start] = memory[row + a - first : row + b - first]
        at += stop - start


class _RowsCodec(Codec):
    """Shared by the classes whose arrays are (1, heads, rows, width)."""

    rule: ClassVar[str] = "all"

    @classmethod
    def named_arrays(cls, leaf: Any) -> list[tuple[str, mx.array]]:
        return [("k", leaf.keys), ("v", leaf.values)]

    @classmethod
    def limits(cls, leaf: Any) -> tuple[int, int, tuple[tuple[str, int], ...]]:
        """(window, keep, settings) of the layer."""
        return 0, 0, ()

    @classmethod
    def spans(cls, leaf: Any, spec: Spec, rows: int, tokens: int, where: str) -> list[tuple[int, int, int]]:
        """(first token, last token + 1, row in the buffer) in token order. ``rows``: of the buffer. Refuses what is not whole."""
        raise NotImplementedError

    @classmethod
    def describe(cls, leaf: Any, where: str) -> Spec | None:
        if leaf.keys is None:
            return None
        arrays = []
        for name, array in cls.named_arrays(leaf):
            if array.ndim != 4 or array.shape[0] != 1:
                raise Refused(
                    f"{where}: array of shape {tuple(array.shape)}; one sequence at a time is stored (extract it from its batch first)"
                )
            arrays.append(_Array(name, array.shape[1], array.shape[3], array.dtype))
        window, keep, settings = cls.limits(leaf)
        return Spec(cls, tuple(arrays), cls.rule, window, keep, settings)

    @classmethod
    def check(cls, leaf: Any, spec: Spec, tokens: int, where: str) -> None:
        if leaf.keys is None:
            raise Refused(f"{where} is empty, {tokens} tokens were given")
        found = cls.describe(leaf, where)
        if found != spec:
            raise Refused(f"{where} holds {what(found)}, this model's is {what(spec)}")
        if not isinstance(leaf.offset, int):
            raise Refused(f"{where}: offset is {type(leaf.offset).__name__}, as in a batch; extract one sequence first")
        if leaf.offset != tokens:
            raise Refused(f"{where} has offset {leaf.offset}, {tokens} tokens were given")
        counts = {array.shape[2] for _, array in cls.named_arrays(leaf)}
        if len(counts) != 1:
            raise Refused(f"{where}: its arrays hold {sorted(counts)} rows")
        cls.spans(leaf, spec, counts.pop(), tokens, where)

    @classmethod
    def copy_rows(cls, leaf: Any, spec: Spec, ranges: list[tuple[int, int]], tokens: int, out: list[np.ndarray]) -> None:
        side = 0
        for _, array in cls.named_arrays(leaf):
            if array.shape[3] == 0:
                continue
            spans = cls.spans(leaf, spec, array.shape[2], tokens, "")
            memory = _memory(array)[0]
            for head in range(memory.shape[0]):
                rows = memory[head]
                if not rows.flags.c_contiguous:
                    rows = np.ascontiguousarray(rows)
                _span_copy(rows.view(np.uint8), spans, ranges, out[side])
                side += 1

    @classmethod
    def capacity(cls, rows: int) -> int:
        """Rows to allocate for ``rows`` so that the first tokens after a restore need no larger buffer."""
        return (rows // _GROWTH + 1) * _GROWTH

    @classmethod
    def shapes(cls, spec: Spec, tokens: int) -> list[tuple[tuple[int, ...], Any]]:
        rows = cls.capacity(sum(stop - start for start, stop in _ranges(spec, tokens)))
        return [((1, part.heads, rows, part.width), part.dtype) for part in spec.arrays]

    @classmethod
    def plan(cls, spec: Spec, tokens: int, blank: Blank) -> tuple[list[list[np.ndarray]], Callable[[Any], None]]:
        ranges = _ranges(spec, tokens)
        held = sum(stop - start for start, stop in ranges)
        arrays: list[tuple[mx.array, Any]] = []
        padding: list[np.ndarray] = []
        sides: list[list[np.ndarray]] = [[] for _ in ranges]
        for part, (shape, dtype) in zip(spec.arrays, cls.shapes(spec, tokens)):
            array, memory = blank.make(shape, dtype)
            arrays.append((array, part.dtype))
            padding.append(memory[:, :, held:])
            if not part.row_bytes:
                continue
            at = 0
            for index, (start, stop) in enumerate(ranges):
                for head in range(part.heads):
                    sides[index].append(memory[0, head, at : at + stop - start].view(np.uint8))
                at += stop - start

        def put(leaf: Any) -> None:
            while padding:  # taken off: while a view lives, mlx does not write in place
                padding.pop()[:] = 0
            full = [a.view(dtype) if a.dtype != dtype else a for a, dtype in arrays]
            cls.assign(leaf, spec, full, tokens, held)

        return sides, put

    @classmethod
    def assign(cls, leaf: Any, spec: Spec, arrays: list[mx.array], tokens: int, held: int) -> None:
        leaf.keys, leaf.values = arrays
        leaf.offset = tokens


def _ranges(spec: Spec, tokens: int) -> list[tuple[int, int]]:
    return Pool("", 1, ("x",), 1, "u8", spec.rule, spec.window, spec.keep).match_ranges(tokens)


class _Plain(_RowsCodec):
    """KVCache: rows 0..offset of a buffer that is padded to 256, or still holds trimmed rows."""

    names = ("KVCache",)

    @classmethod
    def spans(cls, leaf: Any, spec: Spec, rows: int, tokens: int, where: str) -> list[tuple[int, int, int]]:
        if rows < tokens:
            raise Refused(f"{where} holds {rows} rows, {tokens} tokens were given")
        return [(0, tokens, 0)]


class _Concatenate(_Plain):
    """ConcatenateKVCache: no padding, so more rows than tokens means that trimmed rows will come back."""

    names = ("ConcatenateKVCache",)

    @classmethod
    def spans(cls, leaf: Any, spec: Spec, rows: int, tokens: int, where: str) -> list[tuple[int, int, int]]:
        if rows != tokens:
            raise Refused(f"{where} holds {rows} rows, {tokens} tokens were given (this class does not drop trimmed rows)")
        return [(0, tokens, 0)]

    @classmethod
    def capacity(cls, rows: int) -> int:
        return rows


class _Quantized(_Plain):
    """QuantizedKVCache: packed words, scales and (in affine mode) biases for K and for V."""

    names = ("QuantizedKVCache",)
    _PARTS = ("", ".scales", ".biases")

    @classmethod
    def named_arrays(cls, leaf: Any) -> list[tuple[str, mx.array]]:
        out = []
        for side, arrays in (("k", leaf.keys), ("v", leaf.values)):
            if len(arrays) > len(cls._PARTS):
                raise Refused(f"QuantizedKVCache with {len(arrays)} arrays a side")
            out += [(side + cls._PARTS[i], array) for i, array in enumerate(arrays)]
        return out

    @classmethod
    def limits(cls, leaf: Any) -> tuple[int, int, tuple[tuple[str, int], ...]]:
        return 0, 0, (("kv_bits", int(leaf.bits)), ("kv_group_size", int(leaf.group_size)))

    @staticmethod
    def sides(spec: Spec) -> tuple[tuple[str, int, str], ...]:
        return tuple(
            (f"{a.name[0]}{head}{a.name[1:]}", a.row_bytes, _dtype_name(a.dtype))
            for a in spec.arrays
            if a.row_bytes
            for head in range(a.heads)
        )

    @classmethod
    def assign(cls, leaf: Any, spec: Spec, arrays: list[mx.array], tokens: int, held: int) -> None:
        keys = sum(a.name.startswith("k") for a in spec.arrays)
        leaf.keys, leaf.values = tuple(arrays[:keys]), tuple(arrays[keys:])
        leaf.offset = tokens


class _Rotating(_RowsCodec):
    """RotatingKVCache: the first ``keep`` tokens and the last ``max_size - keep``, in a ring once single tokens came.

    Rows are stored in token order. Where in the ring the oldest row stands is kept beside the
    last row (side ``ring``), because attention over a turned ring rounds differently: with it the
    restored cache goes on bit-equal; a cut elsewhere lies in token order, as after a block.
    """

    names = ("RotatingKVCache",)
    rule = "window"

    @classmethod
    def limits(cls, leaf: Any) -> tuple[int, int, tuple[tuple[str, int], ...]]:
        if leaf.keep >= leaf.max_size:
            raise Refused(f"RotatingKVCache keeps {leaf.keep} of {leaf.max_size} tokens for ever")
        return int(leaf.max_size - leaf.keep), int(leaf.keep), (("max_size", int(leaf.max_size)),)

    @staticmethod
    def sides(spec: Spec) -> tuple[tuple[str, int, str], ...]:
        return (*Codec.sides(spec), ("ring", 4, "u32"))

    @classmethod
    def spans(cls, leaf: Any, spec: Spec, rows: int, tokens: int, where: str) -> list[tuple[int, int, int]]:
        size, keep, at = spec.window + spec.keep, spec.keep, leaf._idx
        if getattr(leaf, TRIMMED, 0) == TRIMMED_TURNED:
            raise Refused(f"{where} was trimmed after its ring had turned: trim moves counters, the rows are gone")
        if at > rows:
            raise Refused(f"{where}: ring position {at} beyond its {rows} rows")
        if at == rows or at >= tokens:
            held = at
            spans = [(0, held, 0)] if held == tokens else [(0, keep, 0), (tokens - held + keep, tokens, keep)]
        else:
            # Turned: the oldest row stands at `at`, the newest before it.
            held, oldest = rows, tokens - rows + keep
            older = rows - at
            spans = [(0, keep, 0), (oldest, oldest + older, at), (oldest + older, tokens, keep)]
            if at <= keep or held > tokens:
                raise Refused(f"{where}: ring position {at}, {rows} rows and offset {tokens} do not belong together")
        if held < min(tokens, size) or held > tokens:
            raise Refused(f"{where} holds {held} rows, {min(tokens, size)} of {tokens} tokens are needed")
        return spans

    @classmethod
    def turn(cls, leaf: Any, spec: Spec, tokens: int) -> int:
        """Position of the oldest row in a turned ring, or _NO_TURN."""
        rows = leaf.keys.shape[2]
        return leaf._idx if leaf._idx < rows and leaf._idx < tokens else _NO_TURN

    @classmethod
    def copy_rows(cls, leaf: Any, spec: Spec, ranges: list[tuple[int, int]], tokens: int, out: list[np.ndarray]) -> None:
        super().copy_rows(leaf, spec, ranges, tokens, out)
        ring = out[-1].view("<u4")
        ring[:] = _NO_TURN
        if ranges and ranges[-1][1] == tokens:
            ring[-1] = cls.turn(leaf, spec, tokens)

    @classmethod
    def capacity(cls, rows: int) -> int:
        # The class takes "as many rows as the buffer has" for the end of the ring: no padding.
        return rows

    @classmethod
    def plan(cls, spec: Spec, tokens: int, blank: Blank) -> tuple[list[list[np.ndarray]], Callable[[Any], None]]:
        sides, put_rows = super().plan(spec, tokens, blank)
        rings = [np.zeros((stop - start, 4), np.uint8) for start, stop in _ranges(spec, tokens)]
        for index, ring in enumerate(rings):
            sides[index].append(ring)

        def put(leaf: Any) -> None:
            put_rows(leaf)
            turn = int(rings[-1].view("<u4")[-1, 0])
            if turn == _NO_TURN:
                return
            size, keep = spec.window + spec.keep, spec.keep
            if not (tokens > size and keep < turn < size):
                raise Refused(f"stored ring position {turn} does not fit a ring of {size} rows at {tokens} tokens")
            # From "oldest first" to "oldest at `turn`".
            for name in ("keys", "values"):
                rows = getattr(leaf, name)
                turned = mx.concatenate([rows[..., :keep, :], mx.roll(rows[..., keep:, :], turn - keep, axis=2)], axis=2)
                setattr(leaf, name, turned)
            leaf._idx = turn

        return sides, put

    @classmethod
    def assign(cls, leaf: Any, spec: Spec, arrays: list[mx.array], tokens: int, held: int) -> None:
        if leaf.max_size != spec.setting("max_size") or leaf.keep != spec.keep:
            raise Refused(
                f"ring of {leaf.max_size} keeping {leaf.keep}, stored one has {spec.setting('max_size')} keeping {spec.keep}"
            )
        super().assign(leaf, spec, arrays, tokens, held)
        leaf._idx = held


class _Chunked(_RowsCodec):
    """ChunkedKVCache: the rows since ``start_position``; before each step the model cuts them to the last chunk."""

    names = ("ChunkedKVCache",)
    rule = "window"

    @classmethod
    def limits(cls, leaf: Any) -> tuple[int, int, tuple[tuple[str, int], ...]]:
        return int(leaf.chunk_size), 0, ()

    @classmethod
    def spans(cls, leaf: Any, spec: Spec, rows: int, tokens: int, where: str) -> list[tuple[int, int, int]]:
        held = tokens - leaf.start_position
        if held > rows or held < min(tokens, spec.window):
            raise Refused(
                f"{where} holds {min(held, rows)} rows from {leaf.start_position} on, {min(tokens, spec.window)} of {tokens} tokens are needed"
            )
        return [(leaf.start_position, tokens, 0)]

    @classmethod
    def capacity(cls, rows: int) -> int:
        # Older releases count the buffer's rows, padding included, when they cut it to a chunk.
        return rows

    @classmethod
    def assign(cls, leaf: Any, spec: Spec, arrays: list[mx.array], tokens: int, held: int) -> None:
        if leaf.chunk_size != spec.window:
            raise Refused(f"chunks of {leaf.chunk_size} tokens, stored ones have {spec.window}")
        super().assign(leaf, spec, arrays, tokens, held)
        leaf.start_position = tokens - held


class _Arrays(Codec):
    """ArraysCache: states of recurrent layers, valid at one boundary only. None means "fresh" and stays None."""

    names = ("ArraysCache", "MambaCache")

    @staticmethod
    def describe(leaf: Any, where: str) -> Spec | None:
        entries = leaf.cache
        if all(entry is None for entry in entries):
            return None
        for name in ("left_padding", "lengths"):
            if getattr(leaf, name, None) is not None:
                raise Refused(f"{where} carries {name} of a batch; extract one sequence first")
        arrays = []
        for index, entry in enumerate(entries):
            if entry is None:
                continue
            if entry.shape[0] != 1:
                raise Refused(f"{where}: state of shape {tuple(entry.shape)}; extract one sequence from its batch first")
            arrays.append(_Array(f"s{index}", 1, math.prod(entry.shape), entry.dtype))
        shapes = tuple(
            (f"s{index}.{axis}", size)
            for index, entry in enumerate(entries)
            if entry is not None
            for axis, size in enumerate(entry.shape)
        )
        return Spec(_Arrays, tuple(arrays), "trailing", settings=(("entries", len(entries)), *shapes))

    @staticmethod
    def sides(spec: Spec) -> tuple[tuple[str, int, str], ...]:
        rows = tuple((a.name, a.row_bytes, _dtype_name(a.dtype)) for a in spec.arrays)
        return (*rows, ("present", spec.setting("entries"), "u8"))

    @staticmethod
    def shape(spec: Spec, name: str) -> tuple[int, ...]:
        return tuple(size for key, size in spec.settings if key.startswith(name + "."))

    @staticmethod
    def check(leaf: Any, spec: Spec, tokens: int, where: str) -> None:
        if len(leaf.cache) != spec.setting("entries"):
            raise Refused(f"{where} has {len(leaf.cache)} states, this model's has {spec.setting('entries')}")
        for name in ("left_padding", "lengths"):
            if getattr(leaf, name, None) is not None:
                raise Refused(f"{where} carries {name} of a batch; extract one sequence first")
        known = {a.name: a for a in spec.arrays}
        for index, entry in enumerate(leaf.cache):
            if entry is None:
                continue
            part = known.get(f"s{index}")
            if part is None or tuple(entry.shape) != _Arrays.shape(spec, part.name) or entry.dtype != part.dtype:
                raise Refused(f"{where}: state {index} is {entry.dtype} of shape {tuple(entry.shape)}, not as at load")

    @staticmethod
    def copy_rows(leaf: Any, spec: Spec, ranges: list[tuple[int, int]], tokens: int, out: list[np.ndarray]) -> None:
        for side, part in enumerate(spec.arrays):
            entry = leaf.cache[int(part.name[1:])]
            if entry is None:
                out[side][:] = 0
            else:
                out[side][0] = np.ascontiguousarray(_memory(entry)).reshape(-1).view(np.uint8)
        out[-1][0] = [entry is not None for entry in leaf.cache]

    @staticmethod
    def plan(spec: Spec, tokens: int, blank: Blank) -> tuple[list[list[np.ndarray]], Callable[[Any], None]]:
        arrays, sides = [], []
        for part in spec.arrays:
            array, memory = blank.make(_Arrays.shape(spec, part.name), part.dtype)
            arrays.append((part, array))
            sides.append(memory.reshape(1, -1).view(np.uint8))
        present = np.zeros((1, spec.setting("entries")), np.uint8)

        def put(leaf: Any) -> None:
            filled: list[mx.array | None] = [None] * spec.setting("entries")
            for part, array in arrays:
                index = int(part.name[1:])
                if present[0, index]:
                    filled[index] = array.view(part.dtype) if array.dtype != part.dtype else array
            leaf.cache = filled

        return [[*sides, present]], put


CODECS: dict[str, type[Codec]] = {
    name: codec for codec in (_Plain, _Concatenate, _Quantized, _Rotating, _Chunked, _Arrays) for name in codec.names
}


def what(spec: Spec | None) -> str:
    """A spec in words, for refusals."""
    if spec is None:
        return "nothing"
    settings = "".join(f", {name} {value}" for name, value in spec.settings if not name.startswith("s"))
    arrays = ", ".join(f"{a.name} {a.heads}x{a.width} {_DTYPES.get(a.dtype, a.dtype)}" for a in spec.arrays)
    window = f", window {spec.window} keep {spec.keep}" if spec.rule == "window" else ""
    return f"{spec.codec.names[0]} ({arrays}{window}{settings})"

