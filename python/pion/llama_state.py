"""llama.cpp's sequence state, taken apart and put together (state format of sequence files version 3).

Nothing here calls llama.cpp; it works on bytes. Layout of ``llama_state_seq_get_data``, little-endian::

    u32 magic, i32 sequence
    attention part (0, 1 or 2 of them; a sliding-window model has the full layers first, then the window's):
        u32 streams; per stream: u32 cells; nothing more when 0, else
            per cell: i32 position, u32 1, i32 sequence
            u32 v_transposed, u32 layers
            per layer: i32 type, u64 row_bytes, rows of K [cell][row]
            V in rows:     per layer: i32 type, u64 row_bytes, rows of V [cell][row]
            V transposed:  per layer: i32 type, u32 element_bytes, u32 channels, V [channel][cell]
    recurrent part (0 or 1): u32 cells (1), i32 position, u32 0, then bytes we do not look into

Rows lie in cell order, which is token order only in a quiet context: :func:`parse` says where each
position's row is. Sequence number and stream count are accidents of a context: :class:`Shape` keeps
them apart from what the rows are. ``llama_state_get_data`` (the whole context) begins with the
architecture's name instead of magic and sequence; the parts are the same.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from .errors import Refused

MAGIC = 0xAF143CD8
CELL_BYTES = 12

# ggml type numbers that K and V can have.
TYPE_NAMES: dict[int, str] = {
    0: "f32",
    1: "f16",
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    20: "iq4_nl",
    30: "bf16",
}
_CELL = np.dtype([("pos", "<i4"), ("count", "<u4"), ("seq", "<i4")])


@dataclass(frozen=True)
class Side:
    """K or V of one layer: ggml type and bytes of one token's row (also when it lies transposed)."""

    type: int
    row_bytes: int


@dataclass(frozen=True)
class Attention:
    """What does not change between states of one context: streams, V's layout, and every layer's sides."""

    streams: int
    v_transposed: bool
    keys: tuple[Side, ...]
    values: tuple[Side, ...]  # () when the model keeps no V (latent attention)


@dataclass(frozen=True)
class Shape:
    """Layout of a context's states: its attention parts, and bytes of the recurrent part's state (0: none)."""

    attention: tuple[Attention, ...]
    recurrent_bytes: int


@dataclass
class Rows:
    """One attention part of a parsed state.

    ``keys[layer]`` and ``values[layer]`` are offsets into the blob; ``positions`` are the cells'
    positions in the order of the rows, ``order`` sorts them (None: they are sorted).
    """

    shape: Attention
    positions: np.ndarray
    order: np.ndarray | None
    keys: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    @property
    def cells(self) -> int:
        """Number of rows per layer and side."""
        return int(self.positions.size)


@dataclass
class State:
    """A parsed state. ``recurrent`` is (offset, bytes, position) of the opaque state, or None."""

    blob: np.ndarray
    parts: list[Rows]
    recurrent: tuple[int, int, int] | None
    sequence: int

    @property
    def shape(self) -> Shape:
        """The layout without the rows."""
        return Shape(tuple(part.shape for part in self.parts), self.recurrent[1] if self.recurrent else 0)


class _Reader:
    """Cursor over a blob that refuses to run off its end."""

    def __init__(self, blob: np.ndarray, at: int = 0) -> None:
        self.blob, self.at = blob, at
        self._view = memoryview(blob)

    def take(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        self.need(size)
        out = struct.unpack_from(layout, self._view, self.at)
        self.at += size
        return out

    def need(self, size: int) -> None:
        if size < 0 or self.at + size > self.blob.size:
            raise Refused("this state of llama.cpp is not laid out as known: it ends too early")

    def skip(self, size: int) -> int:
        """Offset of the next ``size`` bytes, which are passed over."""
        self.need(size)
        at = self.at
        self.at += size
        return at


def parse(blob: np.ndarray, attention_parts: int, recurrent: bool, *, has_values: bool = True, whole: bool = False) -> State:
    """Take a state apart. ``blob`` is u8. Raises Refused for anything that does not add up to its last byte.

    An empty sequence gives parts without rows (their shape unknown: no layers).
    """
    reader = _Reader(blob)
    sequence = 0
    if whole:
        (length,) = reader.take("<I")
        reader.skip(length)
    else:
        magic, sequence = reader.take("<Ii")
        if magic != MAGIC:
            raise Refused(f"a state of llama.cpp begins with {magic:#x}, not {MAGIC:#x}: another format version")
    parts = [_parse_attention(reader, has_values) for _ in range(attention_parts)]
    state = _parse_recurrent(reader, whole) if recurrent else None
    if reader.at != blob.size:
        raise Refused(f"this state of llama.cpp is not laid out as known: {blob.size - reader.at} bytes are left over")
    return State(blob, parts, state, sequence)


def _parse_attention(reader: _Reader, has_values: bool) -> Rows:
    (streams,) = reader.take("<I")
    if not 1 <= streams <= 4096:
        raise Refused(f"a state of llama.cpp with {streams} streams")
    found: Rows | None = None
    for _ in range(streams):
        (cells,) = reader.take("<I")
        if cells == 0:
            continue
        if found is not None:
            raise Refused("the rows of one sequence lie in more than one stream")
        found = _parse_stream(reader, streams, cells, has_values)
    if found is None:
        return Rows(Attention(streams, False, (), ()), np.empty(0, np.int32), None)
    return found


def _parse_stream(reader: _Reader, streams: int, cells: int, has_values: bool) -> Rows:
    at = reader.skip(cells * CELL_BYTES)
    meta = reader.blob[at : at + cells * CELL_BYTES].view(_CELL)
    if np.any(meta["count"] != 1):
        raise Refused("cells that belong to several sequences, or carry more than a position (M-RoPE, n-gram embeddings)")
    positions = meta["pos"].copy()
    transposed, layers = reader.take("<II")
    if transposed > 1 or not 1 <= layers <= 4096:
        raise Refused("this state of llama.cpp is not laid out as known: no layer count after the cells")
    keys, key_at = _parse_rows(reader, layers, cells)
    values: list[Side] = []
    value_at: list[int] = []
    if has_values and transposed:
        for _ in range(layers):
            kind, element, channels = reader.take("<iII")
            value_at.append(reader.skip(cells * element * channels))
            values.append(Side(_known(kind), element * channels))
    elif has_values:
        values, value_at = _parse_rows(reader, layers, cells)
    order = None if np.all(positions[1:] > positions[:-1]) else np.argsort(positions, kind="stable")
    shape = Attention(streams, bool(transposed), tuple(keys), tuple(values))
    return Rows(shape, positions, order, key_at, value_at)


def _parse_rows(reader: _Reader, layers: int, cells: int) -> tuple[list[Side], list[int]]:
    sides: list[Side] = []
    offsets: list[int] = []
    for _ in range(layers):
        kind, row = reader.take("<iQ")
        if row > 1 << 32:
            raise Refused("this state of llama.cpp is not laid out as known: a row of gigabytes")
        offsets.append(reader.skip(cells * row))
        sides.append(Side(_known(kind), row))
    return sides, offsets


def _known(kind: int) -> int:
    if kind not in TYPE_NAMES:
        raise Refused(f"K or V of ggml type {kind}, which is not known here")
    return kind


def _parse_recurrent(reader: _Reader, whole: bool) -> tuple[int, int, int] | None:
    (cells,) = reader.take("<I")
    if cells == 0:
        # The two counts that follow stand there for an empty state too, with the layers' headers.
        reader.skip(reader.blob.size - reader.at)
        return None
    if cells != 1:
        raise Refused(f"a recurrent state of {cells} cells")
    position, count = reader.take("<iI")
    if count:
        reader.skip(4 * count)
    size = reader.blob.size - reader.at
    return reader.skip(size), size, position


def rows_of(state: State, part: Rows, layer: int, value: bool, start: int, stop: int, out: np.ndarray) -> None:
    """Copy the rows at places [start, stop) in position order into ``out`` (u8, [row][bytes])."""
    side = part.shape.values[layer] if value else part.shape.keys[layer]
    at = part.values[layer] if value else part.keys[layer]
    size = part.cells * side.row_bytes
    if value and part.shape.v_transposed:
        element = 4 if side.type == 0 else 2
        dtype = np.dtype(f"<u{element}")
        block = state.blob[at : at + size].view(dtype).reshape(-1, part.cells)
        columns = block[:, start:stop] if part.order is None else block[:, part.order[start:stop]]
        out.view(dtype).reshape(stop - start, -1)[:] = columns.T
        return
    rows = state.blob[at : at + size].reshape(part.cells, side.row_bytes)
    out.reshape(stop - start, side.row_bytes)[:] = (
        rows[start:stop] if part.order is None else rows[part.order[start:stop]]
    )


@dataclass
class Plan:
    """Where everything lies in a blob to be built: its size, and offsets of each part's runs."""

    nbytes: int
    keys: list[list[int]]
    values: list[list[int]]
    recurrent: int


def plan(shape: Shape, positions: list[np.ndarray]) -> Plan:
    """Offsets of a state whose part i holds rows at ``positions[i]`` (ascending)."""
    at = 8
    keys: list[list[int]] = []
    values: list[list[int]] = []
    for attention, where in zip(shape.attention, positions):
        cells = int(where.size)
        at += 4 + 4 * attention.streams
        part_keys: list[int] = []
        part_values: list[int] = []
        if cells:
            at += cells * CELL_BYTES + 8
            for side in attention.keys:
                part_keys.append(at + 12)
                at += 12 + cells * side.row_bytes
            for side in attention.values:
                part_values.append(at + 12)
                at += 12 + cells * side.row_bytes
        keys.append(part_keys)
        values.append(part_values)
    recurrent = 0
    if shape.recurrent_bytes:
        recurrent = at + 12
        at += 12 + shape.recurrent_bytes
    return Plan(at, keys, values, recurrent)


def write_frame(
    blob: np.ndarray, shape: Shape, where: Plan, positions: list[np.ndarray], sequence: int, length: int
) -> None:
    """Write everything of a state of ``length`` tokens but its rows. ``blob``: u8, at least ``where.nbytes``."""
    view = memoryview(blob)
    struct.pack_into("<Ii", view, 0, MAGIC, sequence)
    at = 8
    for index, (attention, pos) in enumerate(zip(shape.attention, positions)):
        cells = int(pos.size)
        struct.pack_into("<II", view, at, attention.streams, cells)
        at += 8
        if cells:
            meta = blob[at : at + cells * CELL_BYTES].view(_CELL)
            meta["pos"], meta["count"], meta["seq"] = pos, 1, sequence
            at += cells * CELL_BYTES
            struct.pack_into("<II", view, at, attention.v_transposed, len(attention.keys))
            for side, run in zip(attention.keys, where.keys[index]):
                struct.pack_into("<iQ", view, run - 12, side.type, side.row_bytes)
            at += 8 + sum(12 + cells * side.row_bytes for side in attention.keys)
            for side, run in zip(attention.values, where.values[index]):
                if attention.v_transposed:
                    element = 4 if side.type == 0 else 2
                    struct.pack_into("<iII", view, run - 12, side.type, element, side.row_bytes // element)
                else:
                    struct.pack_into("<iQ", view, run - 12, side.type, side.row_bytes)
                at += 12 + cells * side.row_bytes
        # The sequence's rows stand in the first stream of the blob; the reader puts them into its own.
        struct.pack_into(f"<{attention.streams - 1}I", view, at, *([0] * (attention.streams - 1)))
        at += 4 * (attention.streams - 1)
    if shape.recurrent_bytes:
        struct.pack_into("<IiI", view, at, 1, length - 1, 0)
