"""llama.cpp as an engine: one sequence of one context, through llama-cpp-python's bindings.

:class:`SequenceEngine` works on the C handles (any context, any sequence number);
:class:`LlamaEngine` serves a ``llama_cpp.Llama`` and keeps its counters in step.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from typing import Any

import llama_cpp.llama_cpp as low
import numpy as np

from . import llama_state
from .engine import Engine, Reuse
from .errors import Refused
from .gguf import file_digest, file_identity, gguf_digests
from .llama_state import TYPE_NAMES, Attention, Shape, State
from .llama_watch import address, install, watch
from .pools import Pool, Want

# Raised by us when a release of llama.cpp computes other K/V from the same weights and tokens. Its own
# build number changes daily and would empty the store each time.
KV_EPOCH = 1
_ROPE_WITH_MORE_POSITIONS = {8, 24, 40}  # M-RoPE, vision, interleaved M-RoPE
_RESERVE_BYTES = 256 << 20  # at most so much memory is taken before it is needed

install()


class SequenceEngine(Engine):
    """One sequence of a llama.cpp context.

    ``model`` and ``ctx`` are handles of ``llama_cpp.llama_cpp``, ``params`` the context's parameters
    (for what rope the caller asked), ``model_path`` the GGUF file. The context must not be used by
    others while this object is called. ``reserve_tokens``: room made at once for restoring so many.
    """

    name = "llama.cpp"

    def __init__(
        self,
        model: Any,
        ctx: Any,
        params: Any,
        model_path: str,
        *,
        seq_id: int = 0,
        reserve_tokens: int = 4096,
        overrides: dict[str, Any] | None = None,
        media_tokens: Sequence[int] = (),
    ) -> None:
        self._model, self._ctx, self._params, self._path = model, ctx, params, model_path
        self._seq = seq_id
        self._overrides = overrides or {}
        self._media = np.asarray(sorted(media_tokens), dtype="<u4")
        self._vocab = low.llama_model_get_vocab(model)
        self._memory = low.llama_get_memory(ctx)
        self._alone = int(low.llama_n_seq_max(ctx)) == 1
        self._buffer = np.empty(0, np.uint8)
        self._scratch: list[tuple[np.ndarray, np.ndarray]] = []
        self._plan: llama_state.Plan | None = None
        self._suspect = False  # the context may hold bytes that are no numbers
        self._fed = np.empty(0, "<u4")
        self.n_ctx = int(low.llama_n_ctx_seq(ctx))
        self.block = int(low.llama_n_ubatch(ctx))
        self._meta = _metadata(model)
        self._arch = self._meta.get("general.architecture", "")
        self.model_name = _short_name(self._meta, model_path)
        self._parts, self._recurrent, self._has_values = 0, False, True
        self._shape: Shape | None = None
        self._replaced = _replaced_after_loading(model_path)
        self._static: dict[str, Any] = {}
        self._identity: list[list[int]] = []
        self.reuse = self._examine()
        if self._shape is not None and self.reuse.kind != "none":
            self.pools = self._make_pools(self._shape)
            self._static = self._static_manifest()
            each = max(1, sum(pool.token_bytes() for pool in self.pools if pool.rule != "trailing"))
            self._reserve(max(1, min(self.n_ctx, reserve_tokens, _RESERVE_BYTES // each)))

    # -- what this model is ------------------------------------------------------------------

    def _examine(self) -> Reuse:
        """Find out the state's layout by looking at one, and say what reuse it allows."""
        if self._memory is None or low.llama_model_has_encoder(self._model):
            return Reuse("none", "the model keeps no K/V of its prompt (an encoder)")
        if low.llama_model_rope_type(self._model) in _ROPE_WITH_MORE_POSITIONS:
            return Reuse("none", "M-RoPE: cells carry positions in a picture, which token ids do not tell")
        if self._replaced:
            return Reuse("none", self._replaced)
        n_swa = int(low.llama_model_n_swa(self._model))
        hybrid = bool(low.llama_model_is_hybrid(self._model))
        self._recurrent = hybrid or bool(low.llama_model_is_recurrent(self._model))
        attention = 0 if self._recurrent and not hybrid else 2 if n_swa else 1
        blob = self._probe()
        refusal: Refused | None = None
        for self._has_values in (True, False):
            try:
                state = llama_state.parse(blob, attention, self._recurrent, has_values=self._has_values)
            except Refused as error:
                refusal = refusal or error
                continue
            self._parts, self._shape = attention, state.shape
            return self._reuse_of(n_swa)
        return Reuse("none", str(refusal))

    def _reuse_of(self, n_swa: int) -> Reuse:
        if self._recurrent:
            return Reuse(
                "boundaries",
                "recurrent layers: their state exists only where storing stopped (every step, and at given boundaries)",
            )
        if self._parts == 2:
            return Reuse("any", f"sliding window of {n_swa} tokens, stored in steps no longer than it")
        return Reuse("any", "full attention: every token's rows are kept")

    def _probe(self) -> np.ndarray:
        """A state of this sequence to look at: the live one, or one of a single token, then cleared."""
        if self._last_position() >= 0:
            return self._take_state().copy()
        bos = int(low.llama_vocab_bos(self._vocab))
        self._decode(np.asarray([max(0, bos)], "<u4"), 0, False)
        blob = self._take_state().copy()
        self._suspect = self._alone  # nothing of the probe may stay in a context that is ours alone
        self.clear()
        return blob

    def _make_pools(self, shape: Shape) -> tuple[Pool, ...]:
        pools: list[Pool] = []
        window = int(low.llama_model_n_swa(self._model))
        for index, attention in enumerate(shape.attention):
            sides = ("k", "v") if attention.values else ("k",)
            rows = _by_layer(attention, lambda side: side.row_bytes)
            kinds = _by_layer(attention, lambda side: TYPE_NAMES[side.type])
            pools.append(
                Pool(
                    name="attention" if index == 0 else "window",
                    layers=len(attention.keys),
                    sides=sides,
                    row_bytes=_one_or_all(rows),
                    dtype=_one_or_all(kinds),
                    rule="all" if index == 0 else "window",
                    window=0 if index == 0 else window,
                )
            )
        if shape.recurrent_bytes:
            pools.append(Pool("state", 1, ("state",), shape.recurrent_bytes, "u8", "trailing"))
        return tuple(pools)

    def _static_manifest(self) -> dict[str, Any]:
        """Everything of the identity that cannot change while the model is loaded."""
        assert self._shape is not None
        digests = gguf_digests(self._path)
        self._identity = [file_identity(self._path)]
        attention = self._shape.attention[0] if self._shape.attention else None
        static: dict[str, Any] = {
            "engine": self.name,
            "engine_build": KV_EPOCH,
            "architecture": self._arch,
            "weights": digests.weights,
            "tokenizer": digests.tokenizer,
            "hyperparameters": digests.hyperparameters,
            "rope": self._rope(),
            "attention": {
                "causal": bool(low.llama_get_causal_attn(self._ctx)),
                "flash": attention is not None and not attention.v_transposed,
                "kind": int(self._params.attention_type),
            },
            "pools": [pool.to_json() for pool in self.pools],
            "notes": {"file": os.path.basename(self._path)},
        }
        if attention is not None:
            static["type_k"] = "/".join(sorted({TYPE_NAMES[s.type] for a in self._shape.attention for s in a.keys}))
            static["type_v"] = "/".join(sorted({TYPE_NAMES[s.type] for a in self._shape.attention for s in a.values}))
        if self._overrides:
            static["overrides"] = {key: repr(value) for key, value in sorted(self._overrides.items())}
        return static

    def _rope(self) -> dict[str, Any]:
        """Effective rope of the context, resolved as llama.cpp does: what was asked, else the model's own."""
        p, meta, arch = self._params, self._meta, self._arch
        scaling = int(p.rope_scaling_type)
        if scaling < 0:
            kinds = {"none": 0, "linear": 1, "yarn": 2, "longrope": 3}
            scaling = kinds.get(meta.get(f"{arch}.rope.scaling.type", "linear"), 1)
        base = float(p.rope_freq_base) or float(meta.get(f"{arch}.rope.freq_base", 10000.0))
        scale = float(p.rope_freq_scale) or float(low.llama_model_rope_freq_scale_train(self._model))
        trained = int(low.llama_model_n_ctx_train(self._model))
        original = int(p.yarn_orig_ctx) or int(meta.get(f"{arch}.rope.scaling.original_context_length", trained))
        rope: dict[str, Any] = {
            "type": int(low.llama_model_rope_type(self._model)),
            "scaling": scaling,
            "base": base,
            "scale": 1.0 if scaling == 0 else scale,
        }
        for name in ("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow"):
            value = float(getattr(p, name))
            if value >= 0:
                rope[name] = value
        if scaling >= 2:
            rope["original_context"] = original
        if scaling == 3:
            # Long-context factors replace the short ones by the size of the context, not of the prompt.
            rope["long_factors"] = self.n_ctx > original
        return rope

    def manifest(self, *, reread: bool = False) -> dict[str, Any]:
        """The identity now. Adapters and the file's identity are looked at on every call."""
        if reread and self.reuse.kind != "none":
            self._static = self._static_manifest()
        elif self._identity and self._identity != [file_identity(self._path)]:
            raise Refused(f"{self._path} was changed after it was loaded: what is in memory has no known identity")
        manifest = dict(self._static)
        adapters = self._adapters()
        if adapters:
            manifest["adapters"] = adapters
        control = watch.control.get(address(self._ctx))
        if control:
            manifest["control_vector"] = control
        return manifest

    def _adapters(self) -> list[dict[str, Any]]:
        """Active adapters in order: digest and scale."""
        found = []
        for adapter, scale in watch.active.get(address(self._ctx), self._adapters_before()):
            path = watch.paths.get(adapter) or self._adapter_path(adapter)
            if not path:
                raise Refused("a LoRA adapter is active whose file is not known")
            found.append({"digest": file_digest(path), "scale": scale})
        return found

    def _adapters_before(self) -> list[tuple[int, float]]:
        """Adapters set before this module was imported, as far as anybody can say."""
        return []

    def _adapter_path(self, adapter: int) -> str:
        return ""

    # -- state -------------------------------------------------------------------------------

    def _last_position(self) -> int:
        return int(low.llama_memory_seq_pos_max(self._memory, self._seq))

    def _reserve(self, tokens: int) -> None:
        """Make room for a state of so many tokens, and touch it: a first write to fresh pages is slow."""
        assert self._shape is not None
        self._grow(llama_state.plan(self._shape, self._positions(tokens)).nbytes)

    def _grow(self, nbytes: int) -> np.ndarray:
        if self._buffer.size < nbytes:
            self._buffer = np.empty(0, np.uint8)  # give the old one back first
            self._buffer = np.zeros(nbytes, np.uint8)
            self._buffer[::4096] = 1
        return self._buffer

    def _take_state(self) -> np.ndarray:
        """The sequence's state (u8), in the common buffer."""
        size = int(low.llama_state_seq_get_size(self._ctx, self._seq))
        buffer = self._grow(size)
        got = int(low.llama_state_seq_get_data(self._ctx, _pointer(buffer), size, self._seq))
        if got != size:
            raise Refused(f"llama.cpp gave {got} bytes of a state of {size}")
        return buffer[:size]

    def _positions(self, length: int) -> list[np.ndarray]:
        """Positions whose rows each attention part of a state of ``length`` tokens holds."""
        ranges = [pool.match_ranges(length)[0] for pool in self.pools if pool.rule != "trailing"]
        return [np.arange(start, stop, dtype=np.int32) for start, stop in ranges]

    def clear(self) -> None:
        """Forget the sequence. After a state that may be damaged the data go too, all of it."""
        if self._memory is None:
            return
        if self._alone:
            low.llama_memory_clear(self._memory, self._suspect)
        else:
            if self._suspect and self._last_position() >= 0:
                self._overwrite()
            low.llama_memory_seq_rm(self._memory, self._seq, -1, -1)
        self._suspect = False
        watch.spoiled.pop(address(self._memory), None)
        self._set_fed(np.empty(0, "<u4"))

    def _overwrite(self) -> None:
        """Zeros over this sequence's rows: other sequences share the context, so it cannot be cleared whole."""
        length = self._last_position() + 1
        for want in self.begin_restore(length):
            for target in (t for layer in want.targets for t in layer):
                np.asarray(target)[:] = 0
        self._transpose()
        assert self._plan is not None
        low.llama_state_seq_set_data(self._ctx, _pointer(self._buffer), self._plan.nbytes, self._seq)

    def begin_restore(self, length: int) -> list[Want]:
        """See Engine. Targets lie where llama.cpp will read them (V of a transposed cache: beside it)."""
        if self._shape is None:
            raise Refused(self.reuse.why)
        if length > self.n_ctx:
            raise Refused(f"a state of {length} tokens, the context holds {self.n_ctx}")
        positions = self._positions(length)
        where = self._plan = llama_state.plan(self._shape, positions)
        blob = self._grow(where.nbytes)
        llama_state.write_frame(blob, self._shape, where, positions, self._seq, length)
        self._scratch = []
        wants: list[Want] = []
        for pool, attention, pos, keys, values in zip(
            self.pools, self._shape.attention, positions, where.keys, where.values
        ):
            cells = int(pos.size)
            targets: list[list[memoryview]] = []
            for layer, key in enumerate(attention.keys):
                sides = [memoryview(blob[keys[layer] : keys[layer] + cells * key.row_bytes])]
                if attention.values:
                    size = cells * attention.values[layer].row_bytes
                    place = blob[values[layer] : values[layer] + size]
                    if attention.v_transposed:
                        rows = np.empty(size, np.uint8)
                        self._scratch.append((rows, place))
                        place = rows
                    sides.append(memoryview(place))
                targets.append(sides)
            wants.append(Want(pool, int(pos[0]), length, targets))
        if self._shape.recurrent_bytes:
            state = blob[where.recurrent : where.recurrent + self._shape.recurrent_bytes]
            wants.append(Want(self.pools[-1], length - 1, length, [[memoryview(state)]]))
        return wants

    def finish_restore(self, ids: np.ndarray) -> None:
        """See Engine."""
        assert self._plan is not None and self._shape is not None
        self._transpose()
        self._suspect = True
        if self._alone:
            low.llama_memory_clear(self._memory, False)
        else:
            low.llama_memory_seq_rm(self._memory, self._seq, -1, -1)
        size = self._plan.nbytes
        took = int(low.llama_state_seq_set_data(self._ctx, _pointer(self._buffer), size, self._seq))
        last = self._last_position()
        if took != size or last != ids.size - 1:
            raise Refused(f"llama.cpp took {took} of {size} bytes; last position {last} of {ids.size} tokens")
        self._suspect = False
        watch.spoiled.pop(address(self._memory), None)
        self._set_fed(ids)

    def _transpose(self) -> None:
        """Rows of V into the layout [channel][cell] of a context without flash attention."""
        if not self._scratch:
            return
        assert self._shape is not None
        sides = [side for attention in self._shape.attention for side in attention.values]
        for side, (rows, place) in zip(sides, self._scratch):
            dtype = np.dtype("<u4" if side.type == 0 else "<u2")
            channels = side.row_bytes // dtype.itemsize
            place.view(dtype).reshape(channels, -1)[:] = rows.view(dtype).reshape(-1, channels).T
        self._scratch = []

    def export(self, start: int, stop: int) -> dict[str, Any]:
        """See Engine. The state is taken whole, checked, and the new rows are copied out in token order."""
        self._check_storable(stop)
        state = llama_state.parse(
            self._take_state(), self._parts, self._recurrent, has_values=self._has_values
        )
        if state.shape != self._shape:
            raise Refused("the layout of the context's K/V changed since it was loaded")
        self._check_positions(state, stop)
        blobs: dict[str, Any] = {}
        for pool, part in zip(self.pools, state.parts):
            (first, _), = pool.put_ranges(start, stop)
            base = stop - part.cells  # the part's lowest position
            blobs[pool.name] = _packed(state, part, pool, first - base, stop - base)
        if state.recurrent is not None:
            at, size, _ = state.recurrent
            blobs[self.pools[-1].name] = state.blob[at : at + size].copy()
        return blobs

    def _check_storable(self, stop: int) -> None:
        if self._shape is None:
            raise Refused(self.reuse.why)
        if spoiled := watch.spoiled.get(address(self._memory)):
            raise Refused(spoiled)
        if self._suspect:
            raise Refused("the context is in an unknown state after a failure")
        last = self._last_position()
        if last != stop - 1:
            raise Refused(f"the sequence ends at position {last}, {stop} tokens were named")

    def _check_positions(self, state: State, stop: int) -> None:
        for pool, part in zip(self.pools, state.parts):
            first, _ = pool.match_ranges(stop)[0]
            positions = part.positions if part.order is None else part.positions[part.order]
            if positions.size != stop - first or not np.array_equal(positions, np.arange(first, stop)):
                raise Refused(
                    f"pool {pool.name} holds {positions.size} rows"
                    + (f" at positions {positions[0]}..{positions[-1]}" if positions.size else "")
                    + f", needed are {first}..{stop - 1} without a gap"
                )
        if self._recurrent and (state.recurrent is None or state.recurrent[2] != stop - 1):
            where = "nowhere" if state.recurrent is None else state.recurrent[2]
            raise Refused(f"the recurrent state stands at {where}, not at its boundary {stop - 1}")

    # -- evaluating --------------------------------------------------------------------------

    def _set_fed(self, ids: np.ndarray) -> None:
        self._fed = ids.copy()

    def _decode(self, ids: np.ndarray, past: int, last: bool) -> None:
        """One llama_decode of ids at positions past...; logits of the final one when ``last``."""
        batch = low.llama_batch_init(int(ids.size), 0, 1)
        try:
            batch.n_tokens = int(ids.size)
            for i, token in enumerate(ids.tolist()):
                batch.token[i] = token
                batch.pos[i] = past + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = self._seq
                batch.logits[i] = last and i == ids.size - 1
            code = low.llama_decode(self._ctx, batch)
        finally:
            low.llama_batch_free(batch)
        if code != 0:
            raise RuntimeError(f"llama_decode returned {code}")

    def feed(self, ids: np.ndarray, *, last: bool) -> None:
        """See Engine."""
        at = 0
        n_batch = int(low.llama_n_batch(self._ctx))
        while at < ids.size:
            part = ids[at : at + n_batch]
            at += part.size
            self._decode(part, int(self._fed.size), last and at == ids.size)
            self._fed = np.concatenate([self._fed, part])

    def resident(self) -> np.ndarray | None:
        """See Engine."""
        if self._suspect or address(self._memory) in watch.spoiled:
            return None
        return self._fed if self._last_position() == self._fed.size - 1 else None

    def keep_resident(self, length: int) -> bool:
        """See Engine. Recurrent state cannot be cut; a window only where its rows are still there."""
        have = self.resident()
        if have is None or not 0 < length <= have.size:
            return False
        if length == have.size:
            return True
        if self._recurrent:
            return False
        lowest = int(low.llama_memory_seq_pos_min(self._memory, self._seq))
        # With a window llama.cpp answers for the window's rows; the full layers hold at least those.
        needed = self.pools[-1].match_ranges(length)[0][0]
        if lowest > needed:
            return False
        if not low.llama_memory_seq_rm(self._memory, self._seq, length, -1):
            return False
        self._set_fed(have[:length])
        return True

    def logits_finite(self) -> bool:
        """See Engine."""
        row = low.llama_get_logits_ith(self._ctx, -1)
        if not row:
            return True
        count = int(low.llama_vocab_n_tokens(self._vocab))
        finite = bool(np.isfinite(np.ctypeslib.as_array(row, shape=(count,))).all())
        self._suspect = self._suspect or not finite
        return finite

    def text(self, token: int) -> str:
        """See Engine."""
        room = ctypes.create_string_buffer(256)
        if int(low.llama_vocab_type(self._vocab)) == 0:  # no vocabulary: asking for a text would abort
            return ""
        if token >= int(low.llama_vocab_n_tokens(self._vocab)):
            return ""
        size = low.llama_token_to_piece(self._vocab, token, room, 256, 0, True)
        return room.raw[: max(0, size)].decode("utf-8", "replace")

    def media_start(self, ids: Sequence[int] | np.ndarray) -> int | None:
        """See Engine."""
        if not self._media.size:
            return None
        where = np.nonzero(np.isin(np.asarray(ids), self._media))[0]
        return int(where[0]) if where.size else None


class LlamaEngine(SequenceEngine):
    """The sequence of a ``llama_cpp.Llama``, whose own counters stay right."""

    def __init__(self, llm: Any, **options: Any) -> None:
        self._llm = llm
        super().__init__(
            llm._model.model,
            llm._ctx.ctx,
            llm.context_params,
            llm.model_path,
            overrides=getattr(llm, "kv_overrides", None),
            **options,
        )
        self.block = min(self.block, int(llm.n_batch))

    def _adapters_before(self) -> list[tuple[int, float]]:
        adapter = getattr(self._llm, "_lora_adapter", None)
        return [(address(adapter), float(self._llm.lora_scale))] if adapter else []

    def _adapter_path(self, adapter: int) -> str:
        own = getattr(self._llm, "_lora_adapter", None)
        return self._llm.lora_path or "" if own and address(own) == adapter else ""

    @property
    def has_picture_handler(self) -> bool:
        """A chat handler that evaluates pictures into the context itself, behind input_ids that say nothing of it."""
        handler = getattr(self._llm, "chat_handler", None)
        return handler is not None and (hasattr(handler, "mtmd_ctx") or hasattr(handler, "clip_model_path"))

    def _set_fed(self, ids: np.ndarray) -> None:
        self._llm.input_ids[: ids.size] = ids
        self._llm.n_tokens = int(ids.size)
        self._llm._requires_eval = True

    def feed(self, ids: np.ndarray, *, last: bool) -> None:
        """See Engine."""
        self._llm.eval(ids.tolist())

    def resident(self) -> np.ndarray | None:
        """See Engine."""
        count = int(self._llm.n_tokens)
        if self._suspect or count == 0 or address(self._memory) in watch.spoiled or self.has_picture_handler:
            return None
        if self._last_position() != count - 1:
            return None
        ids = self._llm.input_ids[:count]
        return None if bool(np.any(ids < 0)) else ids.astype("<u4")


def _packed(state: State, part: llama_state.Rows, pool: Pool, start: int, stop: int) -> np.ndarray:
    """Rows at places [start, stop) of a part, as [layer][side][token][row]."""
    out = np.empty((stop - start) * pool.token_bytes(), np.uint8)
    at = 0
    for layer in range(pool.layers):
        for side in range(len(pool.sides)):
            size = (stop - start) * pool.row(layer, side)
            llama_state.rows_of(state, part, layer, side == 1, start, stop, out[at : at + size])
            at += size
    return out


def _pointer(buffer: np.ndarray) -> Any:
    return ctypes.cast(buffer.ctypes.data, ctypes.POINTER(ctypes.c_uint8))


def _by_layer(attention: Attention, of: Any) -> tuple[tuple[Any, ...], ...]:
    if not attention.values:
        return tuple((of(key),) for key in attention.keys)
    return tuple((of(key), of(value)) for key, value in zip(attention.keys, attention.values))


def _one_or_all(table: tuple[tuple[Any, ...], ...]) -> Any:
    """One value when all layers and sides have the same, else the table."""
    first = table[0][0]
    return first if all(value == first for layer in table for value in layer) else table


def _metadata(model: Any) -> dict[str, str]:
    """The model's metadata as llama.cpp holds it (strings; arrays are left out)."""
    found: dict[str, str] = {}
    room = ctypes.create_string_buffer(4096)
    for i in range(int(low.llama_model_meta_count(model))):
        if low.llama_model_meta_key_by_index(model, i, room, 4096) < 0:
            continue
        key = room.value.decode("utf-8", "replace")
        if low.llama_model_meta_val_str_by_index(model, i, room, 4096) >= 0:
            found[key] = room.value.decode("utf-8", "replace")
    return found


def _short_name(meta: dict[str, str], path: str) -> str:
    name = meta.get("general.basename") or meta.get("general.name") or os.path.splitext(os.path.basename(path))[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-").lower()[:64] or "model"


def _replaced_after_loading(path: str) -> str:
    """Why the file on disk is not the one in memory ("" when it is, or nobody can tell)."""
    real = os.path.realpath(path)
    try:
        inode = os.stat(real).st_ino
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            lines = [line.split(None, 5) for line in maps]
    except OSError:
        return ""
    mapped = {int(part[4]) for part in lines if len(part) == 6 and part[5].strip().removesuffix(" (deleted)") == real}
    if mapped and inode not in mapped:
        return f"{path} was replaced after it was loaded: the weights in memory have no known identity"
    return ""
