"""An engine without a model: rows are a function of the tokens before them, so any wrong row shows."""

from __future__ import annotations

import numpy as np
import xxhash

from pion.engine import Engine, Reuse
from pion.errors import Refused
from pion.pools import Pool, Want


def row(tokens: np.ndarray, index: int, layer: int, side: int, size: int) -> np.ndarray:
    """The one right row of token ``index`` (u8)."""
    seed = xxhash.xxh3_64_intdigest(tokens[: index + 1].tobytes(), seed=layer * 16 + side)
    return np.frombuffer(np.random.default_rng(seed).bytes(size), np.uint8) & 0x3F  # finite as any float type


class ToyEngine(Engine):
    """Pools: attention (all), optionally a window of 8 tokens and a recurrent state."""

    name = "toy"

    def __init__(self, *, window=False, keep=0, recurrent=False, block=16, n_ctx=4096, row_bytes=64, dtype="f16"):
        self.model_name, self.block, self.n_ctx = "toy", block, n_ctx
        pools = [Pool("attention", 2, ("k", "v"), row_bytes, dtype)]
        if window:
            pools.append(Pool("window", 3, ("k", "v"), ((32, 16),) * 3, dtype, "window", window=window, keep=keep))
        if recurrent:
            pools.append(Pool("state", 1, ("s",), 128, "u8", "trailing"))
        self.pools = tuple(pools)
        self.reuse = Reuse("boundaries" if recurrent else "any", "a toy")
        self.tokens = np.empty(0, "<u4")
        self.rows: dict = {}
        self.extra: dict = {}
        self.fed: list[int] = []
        self.fail_finish = False
        self.nan = False
        self.on_feed = None

    def manifest(self, *, reread=False):
        return {"engine": "toy", **self.extra, "pools": [pool.to_json() for pool in self.pools]}

    def clear(self):
        self.tokens = np.empty(0, "<u4")
        self.rows = {}

    def begin_restore(self, length):
        self.targets = {}
        wants = []
        for pool in self.pools:
            for start, stop in pool.match_ranges(length):
                buffers = [
                    [np.zeros((stop - start) * pool.row(a, b), np.uint8) for b in range(len(pool.sides))]
                    for a in range(pool.layers)
                ]
                self.targets[pool.name, start] = buffers
                wants.append(Want(pool, start, stop, [[memoryview(x) for x in layer] for layer in buffers]))
        return wants

    def finish_restore(self, ids):
        if self.fail_finish:
            raise Refused("the toy was told to fail")
        self.tokens = ids.copy()
        self.check(self.targets, ids)

    def check(self, targets, ids):
        """Every restored row is the one right row."""
        for (name, start), buffers in targets.items():
            pool = next(p for p in self.pools if p.name == name)
            for a, layer in enumerate(buffers):
                for b, buffer in enumerate(layer):
                    size = pool.row(a, b)
                    for i in range(buffer.size // size):
                        want = row(ids, start + i, a, b, size)
                        assert np.array_equal(buffer[i * size : (i + 1) * size], want), (name, a, b, start + i)

    def feed(self, ids, *, last):
        if self.on_feed:
            self.on_feed(self)
        self.fed.append(int(ids.size))
        self.tokens = np.concatenate([self.tokens, ids])

    def export(self, start, stop):
        if stop != self.tokens.size:
            raise Refused(f"{self.tokens.size} tokens here, {stop} named")
        blobs = {}
        for pool in self.pools:
            parts = [
                row(self.tokens, i, a, b, pool.row(a, b))
                for a in range(pool.layers)
                for b in range(len(pool.sides))
                for lo, hi in pool.put_ranges(start, stop)
                for i in range(lo, hi)
            ]
            blobs[pool.name] = np.concatenate(parts)
            if self.nan:
                blobs[pool.name][:2] = 0xFF
        return blobs

    def text(self, token):
        return f"<{token}>"
