"""mlx-lm cache classes as rows and back: bit for bit, or refused by name. No model, no server.

Runs on older releases too (``PYTHONPATH=<folder of an older mlx-lm>``): classes they lack are skipped.
"""

from __future__ import annotations

import copy

import pytest

mx = pytest.importorskip("mlx.core")
import numpy as np  # noqa: E402
from mlx_lm.models import cache as classes  # noqa: E402

from pion.errors import Refused  # noqa: E402
from pion.mlx_cache import Layout, clone, leaves, watch_trims  # noqa: E402

HEADS, K_WIDTH, V_WIDTH = 2, 64, 128


class _Missing:
    """A class that this release of mlx-lm does not have: its tests are skipped."""

    def __init__(self, *_, **__):
        pytest.skip("this release of mlx-lm has no such cache class")

    merge = __init__


def _class(name):
    return getattr(classes, name, _Missing)


ArraysCache, BatchKVCache, CacheList = _class("ArraysCache"), _class("BatchKVCache"), _class("CacheList")
ChunkedKVCache, ConcatenateKVCache = _class("ChunkedKVCache"), _class("ConcatenateKVCache")
if hasattr(ChunkedKVCache, "meta_state"):
    ChunkedKVCache = _Missing  # before 0.32 it counts its padding when it cuts itself to a chunk, and breaks by itself
KVCache, QuantizedKVCache, RotatingKVCache = classes.KVCache, classes.QuantizedKVCache, classes.RotatingKVCache


def rows(seed: int, count: int, width: int, dtype=mx.float32):
    """Random rows (1, HEADS, count, width), the same for the same seed."""
    return mx.random.normal((1, HEADS, count, width), key=mx.random.key(seed)).astype(dtype)


def feed(cache, steps, first=0, dtype=mx.float32):
    """Feed steps of tokens whose rows depend on their position only; returns what the last one fetched."""
    at, out = first, None
    for step in steps:
        keys = mx.concatenate([rows(2 * t, 1, K_WIDTH, dtype) for t in range(at, at + step)], axis=2)
        values = mx.concatenate([rows(2 * t + 1, 1, V_WIDTH, dtype) for t in range(at, at + step)], axis=2)
        out = cache.update_and_fetch(keys, values)
        at += step
    return out


def flat(fetched):
    """Every array of an update_and_fetch result as bytes."""
    out = []
    for side in fetched:
        for array in side if isinstance(side, (tuple, list)) else [side]:
            array = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
            out.append(np.array(array).tobytes())
    return out


def layout_of(make, tokens=4, dtype=mx.float32):
    probe = make()
    for leaf in probe:
        feed(leaf, [tokens], dtype=dtype)
    return Layout(probe, tokens)


class Store:
    """The rows of a chain of PUTs by (pool, layer, side, token), as a server would keep them."""

    def __init__(self, layout):
        self.layout = layout
        self.rows = {}

    def put(self, cache, start, stop):
        for pool in self.layout.pools:
            blob = self.layout.export(cache, start, stop)[pool.name].tobytes()
            at = 0
            for layer in range(pool.layers):
                for side in range(len(pool.sides)):
                    size = pool.row(layer, side)
                    for a, b in pool.put_ranges(start, stop):
                        for token in range(a, b):
                            self.rows[pool.name, layer, side, token] = blob[at : at + size]
                            at += size
            assert at == len(blob)

    def get(self, tokens, fresh):
        plan = self.layout.plan(tokens)
        for want in plan.wants:
            want.check()
            for layer, sides in enumerate(want.targets):
                for side, target in enumerate(sides):
                    target[:] = b"".join(
                        self.rows[want.pool.name, layer, side, t] for t in range(want.start, want.stop)
                    )
        self.layout.fill(plan, fresh)
        return fresh


CASES = {
    "KVCache": (KVCache, [[200], [100, 100], [1] * 7, [256], [257, 3]]),
    "ConcatenateKVCache": (ConcatenateKVCache, [[20], [12, 1, 1]]),
    "QuantizedKVCache": (lambda: QuantizedKVCache(64, 8), [[200], [5, 1, 1], [256]]),
    "QuantizedKVCache4": (lambda: QuantizedKVCache(32, 4), [[30, 1]]),
    "Rotating below its window": (lambda: RotatingKVCache(16, keep=4), [[5], [1] * 9, [16], [1] * 16, [10, 1, 1]]),
    "Rotating after the wrap": (
        lambda: RotatingKVCache(16, keep=4),
        [[1] * 43, [30], [17], [1] * 17, [30, 1], [30, 1, 1, 9], [20, 20, 1], [1] * 20 + [3], [8] * 6],
    ),
    "Rotating without sinks": (lambda: RotatingKVCache(16), [[1] * 43, [30], [9, 9, 9, 1]]),
    "Rotating longer than its growth step": (lambda: RotatingKVCache(300, keep=4), [[1] * 290, [290, 1], [1] * 310]),
}


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=["f32", "f16", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_round_trip_goes_on_bit_equal(name, dtype):
    """Restored from its rows, a cache fetches for the next 40 tokens what the one that never left fetches."""
    make, histories = CASES[name]
    layout = layout_of(lambda: [make(), make()], dtype=dtype)
    for steps in histories:
        tokens = sum(steps)
        live = [make(), make()]
        for leaf in live:
            feed(leaf, steps, dtype=dtype)
        store = Store(layout)
        store.put(live, 0, tokens)
        back = store.get(tokens, [make(), make()])
        layout.check(back, tokens)
        at = tokens
        for step in [1] * 20 + [7] + [1] * 3 + [10]:
            for a, b in zip(live, back):
                kept = feed(a, [step], first=at, dtype=dtype)
                assert flat(kept) == flat(feed(b, [step], first=at, dtype=dtype)), (steps, at, step)
            at += step


def test_a_store_of_steps_can_be_cut_at_any_token():
    """Window rows kept in steps no longer than the window: any length is a state, as if fed up to there."""
    make = lambda: [RotatingKVCache(16, keep=4), KVCache()]  # noqa: E731
    layout = layout_of(make)
    assert layout.smallest_window == 12
    store, live = Store(layout), make()
    for start in range(0, 60, 10):
        for leaf in live:
            feed(leaf, [10], first=start)
        store.put(live, start, start + 10)
    for tokens in (1, 3, 4, 5, 10, 12, 13, 16, 17, 31, 59, 60):
        back = store.get(tokens, make())
        alone = make()
        for leaf in alone:
            feed(leaf, [min(10, tokens - s) for s in range(0, tokens, 10)])
        for a, b in zip(alone, back):
            assert flat(feed(a, [3], first=tokens)) == flat(feed(b, [3], first=tokens)), tokens


@pytest.mark.parametrize("seed", range(24))
def test_random_histories(seed):
    """Rings of random size, sinks and feeding, stored in random steps: at every boundary the restored one goes on bit-equal."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(5, 40))
    keep = int(rng.integers(0, min(5, size - 1)))
    make = lambda: [RotatingKVCache(size, keep=keep), KVCache()]  # noqa: E731
    layout, live = layout_of(make), make()
    store, at = Store(layout), 0
    for _ in range(6):
        start = at
        for step in rng.choice([1, 1, 1, 2, 3, size - keep], size=int(rng.integers(1, 9))):
            if at + step - start > size - keep:
                break
            for leaf in live:
                feed(leaf, [int(step)], first=at)
            at += int(step)
        if at == start:
            continue
        store.put(live, start, at)
        back, goes_on, then = store.get(at, make()), copy.deepcopy(live), at
        for step in rng.choice([1, 1, 2, 7, size + 3], size=5):
            for a, b in zip(goes_on, back):
                assert flat(feed(a, [int(step)], first=then)) == flat(feed(b, [int(step)], first=then)), (at, then, step)
            then += int(step)


def test_chunked_after_its_model_cut_it():
    """The model calls maybe_trim_front before each step; from there on both caches are the same."""
    make = lambda: [ChunkedKVCache(16)]  # noqa: E731
    layout = layout_of(make)
    for steps in ([12], [20], [16, 1], [30, 5, 1]):
        live = make()[0]
        at = 0
        for step in steps:
            live.maybe_trim_front()
            feed(live, [step], first=at)
            at += step
        store = Store(layout)
        store.put([live], 0, at)
        back = store.get(at, make())[0]
        for step in (1, 5, 1):
            live.maybe_trim_front()
            back.maybe_trim_front()
            assert (live.start_position, live.offset) == (back.start_position, back.offset)
            assert flat(feed(live, [step], first=at)) == flat(feed(back, [step], first=at))
            at += step


def test_states_and_their_none_entries():
    state = lambda seed: mx.random.normal((1, 3, 8), key=mx.random.key(seed))  # noqa: E731

    def make(*entries):
        cache = ArraysCache(3)
        cache.cache = list(entries)
        return cache

    layout = Layout([make(state(1), None, state(2).astype(mx.bfloat16))], 4)
    assert layout.has_state and not layout.counts_tokens
    for entries in (
        (state(5), None, state(6).astype(mx.bfloat16)),
        (state(5), None, None),
        (None, None, state(7).astype(mx.bfloat16)),
    ):
        store = Store(layout)
        store.put([make(*entries)], 0, 9)
        back = store.get(9, [ArraysCache(3)])[0]
        assert [e is None for e in back.cache] == [e is None for e in entries]
        for a, b in zip(entries, back.cache):
            assert a is None or (a.dtype == b.dtype and mx.array_equal(a, b))
    with pytest.raises(Refused, match="state 1"):
        layout.export([make(state(5), state(5), None)], 0, 9)
    padded = make(state(5), None, None)
    padded.left_padding = mx.array([3])
    with pytest.raises(Refused, match="left_padding"):
        layout.export([padded], 0, 9)


def test_nested_lists():
    make = lambda: [CacheList(KVCache(), CacheList(RotatingKVCache(16), KVCache())), KVCache()]  # noqa: E731

    def drive(cache, steps, first=0):
        return [flat(feed(leaf, steps, first=first)) for _, leaf in leaves(cache)]

    probe = make()
    drive(probe, [4])
    layout = Layout(probe, 4)
    assert [(p.rule, p.layers) for p in layout.pools] == [("all", 3), ("window", 1)]
    live = make()
    drive(live, [1] * 21)
    store = Store(layout)
    store.put(live, 0, 21)
    assert drive(live, [5, 1], first=21) == drive(store.get(21, make()), [5, 1], first=21)


def test_heads_are_sides_and_runs_are_contiguous():
    layout = layout_of(lambda: [KVCache(), KVCache()])
    pool = layout.pools[0]
    assert pool.sides == ("k0", "k1", "v0", "v1")
    assert [pool.row(0, s) for s in range(4)] == [256, 256, 512, 512]
    cache = [KVCache(), KVCache()]
    for leaf in cache:
        feed(leaf, [10])
    blob = layout.export(cache, 4, 10)["all0"]
    assert blob.nbytes == 6 * pool.token_bytes()
    assert blob[: 6 * 256].tobytes() == np.array(cache[0].keys[0, 0, 4:10]).tobytes()


def test_padding_and_trimmed_rows_are_never_stored():
    """300 tokens trimmed to 200: the file of mlx-lm holds all 300 (measured); ours the 200."""
    layout = layout_of(lambda: [KVCache()])
    fresh, cut = KVCache(), KVCache()
    feed(fresh, [200])
    feed(cut, [300])
    cut.trim(100)
    a, b = layout.export([fresh], 0, 200)["all0"], layout.export([cut], 0, 200)["all0"]
    assert a.nbytes == 200 * layout.pools[0].token_bytes() and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("tokens, offset", [(200, 201), (201, 200)])
def test_one_token_short_or_long_is_refused(tokens, offset):
    layout = layout_of(lambda: [KVCache(), KVCache()])
    cache = [KVCache(), KVCache()]
    feed(cache[0], [tokens])
    feed(cache[1], [offset])
    with pytest.raises(Refused, match=rf"layer 1 \(KVCache\) has offset {offset}, {tokens} tokens"):
        layout.export(cache, 0, tokens)


def test_what_trim_says_is_not_believed():
    watch_trims()
    layout = layout_of(lambda: [ConcatenateKVCache()])
    cache = ConcatenateKVCache()
    feed(cache, [10])
    assert cache.trim(4) == 4
    with pytest.raises(Refused, match="holds 10 rows, 6 tokens"):
        layout.export([cache], 0, 6)

    layout = layout_of(lambda: [ChunkedKVCache(8)])
    cache = ChunkedKVCache(8)
    feed(cache, [12])
    cache.maybe_trim_front()
    feed(cache, [4], first=12)
    cache.maybe_trim_front()
    cache.trim(4)
    with pytest.raises(Refused, match="ChunkedKVCache"):
        layout.export([cache], 0, 12)

    make = lambda: RotatingKVCache(16, keep=4)  # noqa: E731
    layout = layout_of(lambda: [make()])
    for count in (1, 3):
        cache = make()
        feed(cache, [1] * 43)
        assert cache.trim(count) == count
        with pytest.raises(Refused, match="RotatingKVCache"):
            layout.export([cache], 0, 43 - count)
        with pytest.raises(Refused):
            layout.export(copy.deepcopy([cache]), 0, 43 - count)
    # Before the wrap a trim is honest, and what was trimmed is not stored.
    cache, short = make(), make()
    feed(cache, [12])
    cache.trim(4)
    feed(short, [8])
    assert layout.export([cache], 0, 8)["window0"].tobytes() == layout.export([short], 0, 8)["window0"].tobytes()


def test_a_ring_trimmed_before_it_turned_is_honest():
    watch_trims()
    make = lambda: RotatingKVCache(16, keep=4)  # noqa: E731
    layout = layout_of(lambda: [make()])
    for first in ([12], [1] * 12):
        cut, straight = make(), make()
        feed(cut, first)
        cut.trim(4)
        feed(straight, [8])
        for cache in (cut, straight):
            feed(cache, [1] * 22, first=8)
        a, b = (layout.export([cache], 0, 30)["window0"] for cache in (cut, straight))
        assert a.tobytes() == b.tobytes()


def test_attention_trimmed_beside_recurrent_layers_is_refused():
    """Attention of 50 with the state of 64 gives another answer without a word (measured with lfm2)."""
    watch_trims()

    def make(tokens):
        state = ArraysCache(1)
        state[0] = mx.ones((1, 2, 8))
        attention = KVCache()
        feed(attention, [tokens])
        return [state, attention]

    layout = Layout(make(4), 4)
    cache = make(64)
    layout.export(cache, 0, 64)
    cache[1].trim(14)
    with pytest.raises(Refused, match="trimmed"):
        layout.export(cache, 0, 50)


def test_another_kind_of_layer_is_refused_by_name():
    layout = layout_of(lambda: [KVCache(), KVCache()])
    cache = [KVCache(), KVCache()]
    for leaf in cache:
        feed(leaf, [200])
    cache[1] = cache[1].to_quantized(64, 8)
    with pytest.raises(Refused, match=r"layer 1 \(QuantizedKVCache\).*kv_bits 8.*this model's is KVCache"):
        layout.export(cache, 0, 200)

    batch = BatchKVCache([0])
    feed(batch, [4])
    with pytest.raises(Refused, match="layer 0.*BatchKVCache.*extract"):
        Layout([batch], 4)

    class KVCacheOfMine(KVCache):
        pass

    mine = KVCacheOfMine()
    feed(mine, [4])
    with pytest.raises(Refused, match="KVCacheOfMine"):
        Layout([mine], 4)

    two = KVCache()
    two.update_and_fetch(mx.zeros((2, 1, 4, 8)), mx.zeros((2, 1, 4, 8)))
    with pytest.raises(Refused, match="one sequence at a time"):
        Layout([two], 4)

    ring = layout_of(lambda: [RotatingKVCache(16, keep=4)])
    other = RotatingKVCache(16, keep=0)
    feed(other, [20])
    with pytest.raises(Refused, match="keep 0.*keep 4"):
        ring.export([other], 0, 20)


def test_missing_biases_are_refused():
    layout = layout_of(lambda: [QuantizedKVCache(64, 8)])
    assert "k0.biases" in layout.pools[0].sides
    cache = QuantizedKVCache(64, 8)
    feed(cache, [10])
    cache.keys = cache.keys[:2]
    with pytest.raises(Refused, match="QuantizedKVCache"):
        layout.export([cache], 0, 10)


def test_extracted_from_a_batch_equals_alone():
    """A batch of 120 and 70 tokens pads the shorter one; after extract there is no trace of it."""
    layout = layout_of(lambda: [KVCache()])
    alone = [KVCache(), KVCache()]
    feed(alone[0], [120])
    feed(alone[1], [70])
    if not hasattr(BatchKVCache, "merge"):
        pytest.skip("this release of mlx-lm cannot merge caches")
    batch = BatchKVCache.merge(alone)
    for index, tokens in enumerate((120, 70)):
        taken = layout.export([batch.extract(index)], 0, tokens)["all0"]
        assert taken.tobytes() == layout.export([alone[index]], 0, tokens)["all0"].tobytes()


def test_each_copy_is_its_own():
    make = lambda: [KVCache(), RotatingKVCache(64)]  # noqa: E731
    layout = layout_of(make)
    source = make()
    for leaf in source:
        feed(leaf, [40])
    before = layout.export(source, 0, 40)
    short = make()
    clone(layout, source, 40, 25, short)
    layout.check(short, 25)
    for leaf in short:
        feed(leaf, [30], first=900)
    after = layout.export(source, 0, 40)
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)
    whole = make()
    clone(layout, source, 40, 40, whole)
    again = layout.export(whole, 0, 40)
    assert all(before[name].tobytes() == again[name].tobytes() for name in before)


def test_a_copy_is_never_cut_where_rows_are_gone():
    layout = layout_of(lambda: [RotatingKVCache(16)])
    source = [RotatingKVCache(16)]
    feed(source[0], [1] * 20)
    with pytest.raises(Refused, match="left the window"):
        clone(layout, source, 20, 18, [RotatingKVCache(16)])
    state = ArraysCache(1)
    state[0] = mx.ones((1, 2, 8))
    layout = Layout([state], 4)
    with pytest.raises(Refused, match="exists at 9 tokens only"):
        clone(layout, [state], 9, 8, [ArraysCache(1)])
