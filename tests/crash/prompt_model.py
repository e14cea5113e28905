"""Prompt chains of one salt as they must be found after a kill, and the bytes of their rows.

A row is a function of pool, layer, side and the whole prefix up to its token, as real K/V is: two chains that differ in one early
token share no later row. So a row served for another chain, layer or position never looks right by accident.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
from dataclasses import dataclass, field

WINDOW = 16
ROW_BYTES = 256

PLAIN = {"weights": "crash-plain", "pools": [{"name": "attn", "rule": "all", "layers": 2, "sides": ["k", "v"], "row_bytes": ROW_BYTES, "dtype": "f16"}]}
HYBRID = {
    "weights": "crash-hybrid",
    "pools": [
        {"name": "attn", "rule": "all", "layers": 2, "sides": ["k", "v"], "row_bytes": ROW_BYTES, "dtype": "f16"},
        {"name": "swa", "rule": "window", "window": WINDOW, "layers": 1, "sides": ["k", "v"], "row_bytes": ROW_BYTES, "dtype": "f16"},
        {"name": "ssm", "rule": "trailing", "layers": 1, "sides": ["state"], "row_bytes": ROW_BYTES, "dtype": "f32"},
    ],
}
MODELS = {b"plain": PLAIN, b"hybrid": HYBRID}

Chain = tuple[int, ...]


def manifest(model: bytes) -> str:
    return json.dumps(MODELS[model])


def blob_of_tokens(tokens: Chain) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def prefix_digests(tokens: Chain) -> list[bytes]:
    digests, digest = [], b""
    for token in tokens:
        digest = hashlib.blake2b(digest + struct.pack("<I", token), digest_size=16).digest()
        digests.append(digest)
    return digests


def row(pool: str, layer: int, side: str, digest: bytes) -> bytes:
    seed = hashlib.blake2b(digest + f"{pool}/{layer}/{side}".encode(), digest_size=32).digest()
    return seed * (ROW_BYTES // 32)


def rows(pool: dict, side: str, layer: int, digests: list[bytes], positions: range) -> bytes:
    return b"".join(row(pool["name"], layer, side, digests[p]) for p in positions)


def positions_of(pool: dict, start: int, end: int) -> range:
    """The token positions whose rows belong to tokens [start, end) of a pool."""
    if pool["rule"] == "all":
        return range(start, end)
    if pool["rule"] == "window":
        return range(max(start, end - pool["window"]), end)
    return range(end - 1, end)


def runs(pool: dict, tokens: Chain, start: int, end: int) -> list[bytes]:
    """One run of rows per layer and side, as PUT takes them (joined) and READ of [start, end) gives them."""
    digests = prefix_digests(tokens[:end])
    positions = positions_of(pool, start, end)
    return [rows(pool, side, layer, digests, positions) for layer in range(pool["layers"]) for side in pool["sides"]]


@dataclass
class PromptLoad:
    """A seeded stream of PUT and REVOKE on one salt. `puts` is the model: the chains stored, in order."""

    id: int
    model: bytes
    random: random.Random
    puts: list[Chain] = field(default_factory=list)
    revoke_every: int = 40

    @property
    def salt(self) -> bytes:
        return b"salt-%d" % self.id

    def next(self) -> tuple[tuple, Chain | None]:
        """The next command and the chain it stores, or None for a REVOKE of everything."""
        if self.puts and self.random.randrange(self.revoke_every) == 0:
            return (b"PROMPT.REVOKE", b"SALT", self.salt, b"MODEL", self.model), None
        base: Chain = self.random.choice(self.puts[-12:]) if self.puts and self.random.randrange(8) else ()
        cut = self.random.choice([len(base), self.random.randrange(len(base) + 1)])
        if len(base) > 300:
            cut = min(cut, 100)
        tail_length = self.random.choice([1, 5, 20, 60, 120])
        tail = tuple(self.random.randrange(1 << 32) for _ in range(tail_length))
        chain = base[:cut] + tail
        start = max(0, cut - (WINDOW if self.model == b"hybrid" else self.random.choice([0, 0, 7])))
        words: list = [b"PROMPT.PUT", self.model, blob_of_tokens(chain), start, b"SALT", self.salt]
        for pool in MODELS[self.model]["pools"]:
            words += [b"POOL", pool["name"].encode(), b"".join(runs(pool, chain, start, len(chain)))]
        words += [b"PREFILL_MS", len(chain) - start]
        if self.random.randrange(10) == 0:
            words.append(b"DURABLE")
        return tuple(words), chain

    def expected_match(self, puts: list[Chain], chain: Chain) -> int:
        """How far `chain` matches when exactly `puts` are stored."""
        best = 0
        for stored in puts:
            shared = common_prefix(stored, chain)
            if self.model == b"plain" or shared == len(stored):
                best = max(best, shared)
        return best


def common_prefix(a: Chain, b: Chain) -> int:
    for position, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return position
    return min(len(a), len(b))


def apply(puts: list[Chain], chain: Chain | None) -> None:
    if chain is None:
        puts.clear()
    else:
        puts.append(chain)
