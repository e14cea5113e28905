"""mlx-lm's prompt caches as rows, and rows as prompt caches, bit for bit.

mlx-lm keeps a model's state as a list with one object per layer, of one of several classes. A
:class:`Layout` knows for one model which class stands where, puts equal layers together into
:class:`pion.pools.Pool` s, and translates both ways:

* ``export``: the rows of tokens [start, stop), in token order, never a row of padding;
* ``plan`` and ``fill``: buffers to read rows into, and fresh caches made of them.

A class without a codec in ``mlx_codecs`` is refused by name before anything is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from .errors import Refused
from .mlx_codecs import CODECS, TRIMMED, TRIMMED_TURNED, Blank, Codec, Spec, what
from .pools import Pool, Want


def leaves(cache: Sequence[Any]) -> list[tuple[str, Any]]:
    """(name, object) of every cache object, CacheLists opened, in order. Names say where: "layer 3 (KVCache)"."""
    out: list[tuple[str, Any]] = []

    def walk(item: Any, path: str) -> None:
        if type(item).__name__ == "CacheList" and _is_mlx_lm(item):
            for index, child in enumerate(item.caches):
                walk(child, f"{path}.{index}")
        elif item is not None:
            out.append((f"layer {path} ({type(item).__name__})", item))

    for index, item in enumerate(cache):
        walk(item, str(index))
    return out


def _is_mlx_lm(item: Any) -> bool:
    return type(item).__module__ == "mlx_lm.models.cache"


def _codec_of(leaf: Any, where: str) -> type[Codec]:
    codec = CODECS.get(type(leaf).__name__)
    if codec is None or not _is_mlx_lm(leaf):
        kind = f"{type(leaf).__module__}.{type(leaf).__name__}"
        hint = " (extract one sequence from the batch first)" if type(leaf).__name__.startswith("Batch") else ""
        raise Refused(f"{where}: cache class {kind} is not one that is stored{hint}")
    return codec


def watch_trims() -> None:
    """From now on every cache object that is trimmed remembers it.

    A trim leaves no trace in a turned ring, nor in the recurrent layers beside a trimmed attention
    layer, and what is in them then belongs to no prefix. Only mlx-lm's own ``trim`` methods can tell, so
    they are wrapped, once per process; what they do and return stays the same.
    """
    from mlx_lm.models import cache as classes

    for name in CODECS:
        kind = getattr(classes, name, None)
        original = None if kind is None else vars(kind).get("trim")
        if original is None or hasattr(original, TRIMMED):
            continue

        def trim(self: Any, n: int, _original: Any = original) -> int:
            if n > 0:
                turned = self.offset > getattr(self, "max_size", self.offset)
                setattr(self, TRIMMED, max(getattr(self, TRIMMED, 0), TRIMMED_TURNED if turned else 1))
            return _original(self, n)

        setattr(trim, TRIMMED, True)
        kind.trim = trim


@dataclass
class _Plan:
    """Buffers of a restore under way and what turns them into a cache."""

    wants: list[Want]
    puts: list[tuple[int, Callable[[Any], None]]]  # index of the leaf, its filler


class Layout:
    """How one model's cache list maps to pools. Made once per model from a cache that was fed a few tokens.

    Raises Refused (naming layer and class) for a cache that cannot be stored. Not thread safe.
    """

    def __init__(self, probe: Sequence[Any], tokens: int) -> None:
        """``probe``: a cache list after ``tokens`` tokens, all layers filled that ever are."""
        self._specs: list[Spec | None] = []
        for where, leaf in leaves(probe):
            codec = _codec_of(leaf, where)
            spec = codec.describe(leaf, where)
            if spec is not None:
                codec.check(leaf, spec, tokens, where)
            self._specs.append(spec)
        if not any(self._specs):
            raise Refused("no layer of this model keeps anything")
        self._groups: list[tuple[Spec, list[int]]] = []  # (spec, indices of leaves), one per pool
        for index, spec in enumerate(self._specs):
            if spec is None:
                continue
            for known, members in self._groups:
                if known == spec:
                    members.append(index)
                    break
            else:
                self._groups.append((spec, [index]))
        self.pools = tuple(self._pool(spec, members, number) for number, (spec, members) in enumerate(self._groups))

    @staticmethod
    def _pool(spec: Spec, members: list[int], number: int) -> Pool:
        sides = spec.sides()
        rows = tuple(size for _, size, _ in sides)
        kinds = tuple(kind for _, _, kind in sides)
        return Pool(
            name=f"{spec.rule}{number}",
            layers=len(members),
            sides=tuple(name for name, _, _ in sides),
            row_bytes=rows[0] if len(set(rows)) == 1 else (rows,) * len(members),
            dtype=kinds[0] if len(set(kinds)) == 1 else (kinds,) * len(members),
            rule=spec.rule,
            window=spec.window,
            keep=spec.keep,
            codec="",
        )

    def identity(self) -> list[dict[str, Any]]:
        """Per pool what the rows alone do not tell: class, settings, which layers. Part of the manifest."""
        return [
            {
                "class": spec.codec.names[0],
                "leaves": members,
                **{name: value for name, value in spec.settings if not name.startswith("kv_")},
            }
            for spec, members in self._groups
        ]

    def setting(self, name: str) -> list[int]:
        """Distinct values of a setting (``kv_bits``, ``kv_group_size``) over all layers, ascending."""
        return sorted({value for spec, _ in self._groups for key, value in spec.settings if key == name})

    @property
    def smallest_window(self) -> int | None:
        """Tokens of the smallest sliding window, or None."""
        return min((spec.window for spec, _ in self._groups if spec.rule == "window"), default=None)

    @property
    def has_state(self) -> bool:
        """Does a layer keep a state that exists at boundaries only?"""
        return any(spec.rule == "trailing" for spec, _ in self._groups)

    @property
    def counts_tokens(self) -> bool:
        """Can the number of tokens be checked from the cache itself (some layer keeps an offset)?"""
        return any(spec.rule != "trailing" for spec, _ in self._groups)

    def can_cut(self, tokens: int) -> bool:
        """Does a cache of ``tokens`` tokens still hold all rows of each of its prefixes?"""
        return not self.has_state and all(
            spec.rule == "all" or tokens <= spec.window + spec.keep for spec, _ in self._groups
        )

    def check(self, cache: Sequence[Any], tokens: int) -> None:
        """Raise Refused unless EVERY layer holds exactly ``tokens`` tokens in the form this model has."""
        found = leaves(cache)
        if len(found) != len(self._specs):
            raise Refused(f"a cache of {len(found)} objects, this model's has {len(self._specs)}")
        for (where, leaf), spec in zip(found, self._specs):
            codec = _codec_of(leaf, where)
            if spec is None:
                if codec.describe(leaf, where) is not None:
                    raise Refused(f"{where} is filled, it was empty at load")
                continue
            if codec is not spec.codec:
                described = codec.describe(leaf, where)
                raise Refused(f"{where} holds {what(described)}, this model's is {what(spec)}")
            if self.has_state and spec.rule != "trailing" and getattr(leaf, TRIMMED, 0):
                raise Refused(f"{where} was trimmed, the recurrent layers beside it cannot be: they are of another boundary")
            codec.check(leaf, spec, tokens, where)

    def export(self, cache: Sequence[Any], start: int, stop: int) -> dict[str, np.ndarray]:
        """Pool name -> u8 array, ``[layer][side][token][row]``, of the rows a PUT of [start, stop) carries.

        Checks the whole cache first. The arrays are copies: the model may go on.
        """
        self.check(cache, stop)
        found = leaves(cache)
        # One evaluation for all layers; then reading memory costs nothing.
        mx.eval([a for _, leaf in found for a in _arrays_of(leaf)])
        out = {}
        for pool, (spec, members) in zip(self.pools, self._groups):
            ranges = pool.put_ranges(start, stop)
            rows = sum(b - a for a, b in ranges)
            blob = np.empty(rows * pool.token_bytes(), np.uint8)
            at = 0
            for layer, index in enumerate(members):
                sides = []
                for side in range(len(pool.sides)):
                    size = pool.row(layer, side)
                    sides.append(blob[at : at + rows * size].reshape(rows, size))
                    at += rows * size
                spec.codec.copy_rows(found[index][1], spec, ranges, stop, sides)
            out[pool.name] = blob
        return out

    def plan(self, tokens: int) -> _Plan:
        """Buffers for a state of ``tokens`` tokens: fill the wants, then call :meth:`fill`."""
        wants: list[Want] = []
        puts: list[tuple[int, Callable[[Any], None]]] = []
        blank = Blank()
        blank.stock([one for spec, members in self._groups for one in spec.codec.shapes(spec, tokens) * len(members)])
        for pool, (spec, members) in zip(self.pools, self._groups):
            ranges = pool.match_ranges(tokens)
            targets: list[list[list[memoryview]]] = [[] for _ in ranges]
            for index in members:
                sides, put = spec.codec.plan(spec, tokens, blank)
                puts.append((index, put))
                for place, per_range in zip(targets, sides):
                    place.append([memoryview(buffer).cast("B") for buffer in per_range])
            wants += [Want(pool, start, stop, place) for (start, stop), place in zip(ranges, targets)]
        return _Plan(wants, puts)

    def fill(self, plan: _Plan, fresh: Sequence[Any]) -> None:
        """Make the plan's buffers the content of ``fresh``, an empty cache list of this model."""
        found = leaves(fresh)
        if len(found) != len(self._specs):
            raise Refused(f"a cache of {len(found)} objects, this model's has {len(self._specs)}")
        for want in plan.wants:
            for sides in want.targets:
                for target in sides:
                    _release(target)
        for index, put in plan.puts:
            put(found[index][1])
        plan.puts.clear()
        mx.eval([a for _, leaf in found for a in _arrays_of(leaf)])


def _release(view: memoryview) -> None:
    """Let go of a buffer, so that mlx may update it in place."""
    try:
        view.release()
    except BufferError:
        # Somebody still reads through it. Correct all the same, only slower: mlx copies before it writes.
        pass


def _arrays_of(leaf: Any) -> list[mx.array]:
    """Every array a cache object holds, whatever its class."""
    if hasattr(leaf, "cache"):
        return [a for a in leaf.cache if a is not None]
    if leaf.keys is None:
        return []
    out: list[mx.array] = []
    for side in (leaf.keys, leaf.values):
        out += list(side) if isinstance(side, (tuple, list)) else [side]
    return out


def clone(layout: Layout, cache: Sequence[Any], tokens: int, length: int, fresh: Sequence[Any]) -> None:
    """Copy the first ``length`` of a cache's ``tokens`` tokens into ``fresh``. Raises Refused if it cannot be exact.

    The source is only read. ``length`` < ``tokens`` works where every row is still there: never for
    recurrent layers, and for a window only as long as nothing has left it.
    """
    layout.check(cache, tokens)
    found = leaves(cache)
    mx.eval([a for _, leaf in found for a in _arrays_of(leaf)])
    plan = layout.plan(length)
    by_pool: dict[str, list[Want]] = {}
    for want in plan.wants:
        by_pool.setdefault(want.pool.name, []).append(want)
    for pool, (spec, members) in zip(layout.pools, layout._groups):
        if length < tokens:
            if spec.rule == "trailing":
                raise Refused(f"the state of {pool.layers} recurrent layers exists at {tokens} tokens only, not at {length}")
            if spec.rule == "window" and tokens > spec.window + spec.keep:
                raise Refused(f"rows of {length} tokens have left the window of {spec.window}")
        for want in by_pool[pool.name]:
            for layer, index in enumerate(members):
                sides = [np.frombuffer(t, np.uint8).reshape(want.stop - want.start, -1) for t in want.targets[layer]]
                spec.codec.copy_rows(found[index][1], spec, [(want.start, want.stop)], tokens, sides)
                del sides
    layout.fill(plan, fresh)
