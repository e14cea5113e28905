"""The rows of PUTs by token, as a server keeps them: lets engines be tested without one. First rows stay."""

from __future__ import annotations

from typing import Any


class RowStore:
    """One chain of one model: ``put`` takes an export, ``get`` fills the wants of a length."""

    def __init__(self, pools: Any) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self.rows: dict[tuple[str, int, int, int], bytes] = {}

    def put(self, blobs: dict[str, Any], start: int, stop: int) -> None:
        for name, pool in self.pools.items():
            blob, at = bytes(memoryview(blobs[name]).cast("B")), 0
            for layer in range(pool.layers):
                for side in range(len(pool.sides)):
                    size = pool.row(layer, side)
                    for a, b in pool.put_ranges(start, stop):
                        for token in range(a, b):
                            self.rows.setdefault((name, layer, side, token), blob[at : at + size])
                            at += size
            assert at == len(blob), f"pool {name}: {len(blob)} bytes, its ranges have {at}"

    def get(self, wants: Any) -> None:
        for want in wants:
            want.check()
            for layer, sides in enumerate(want.targets):
                for side, target in enumerate(sides):
                    target[:] = b"".join(
                        self.rows[want.pool.name, layer, side, token] for token in range(want.start, want.stop)
                    )
