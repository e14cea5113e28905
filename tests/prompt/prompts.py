"""Helpers of the PROMPT.* tests: manifests, rows that say whose they are, and the commands as small functions."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
from typing import Any, Sequence

from support.resp import Connection, as_map, encode


def manifest(*pools: dict[str, Any], **fields: Any) -> str:
    return json.dumps({"engine": "test", "pools": list(pools), **fields})


def pool(name: str = "kv", rule: str = "all", layers: int = 2, row_bytes: int = 64, **fields: Any) -> dict[str, Any]:
    return {"name": name, "rule": rule, "layers": layers, "sides": ["k", "v"], "row_bytes": row_bytes, "dtype": "f16", **fields}


def ids(tokens: Sequence[int]) -> bytes:
    """Token ids as the wire wants them: u32, little-endian."""
    return struct.pack(f"<{len(tokens)}I", *tokens)


def row(about: dict[str, Any], run: int, tokens: Sequence[int], position: int) -> bytes:
    """The row of one token in one (layer, side): other bytes for every prefix, pool and run."""
    seed = hashlib.blake2b(ids(tokens[: position + 1]) + about["name"].encode() + struct.pack("<I", run), digest_size=32).digest()
    return (seed * (about["row_bytes"] // 32 + 1))[: about["row_bytes"]]


def runs(about: dict[str, Any], tokens: Sequence[int], positions: Sequence[int]) -> list[bytes]:
    """Per layer and side, the rows of these positions: what READ answers."""
    return [b"".join(row(about, run, tokens, p) for p in positions) for run in range(about["layers"] * len(about["sides"]))]


def blob(about: dict[str, Any], tokens: Sequence[int], start: int) -> bytes:
    """What a PUT of [start, len(tokens)) brings for this pool."""
    n = len(tokens)
    if about["rule"] == "all":
        positions = range(start, n)
    elif about["rule"] == "trailing":
        positions = range(n - 1, n)
    else:
        first = max(start, n - about["window"])
        positions = [*range(start, min(about.get("keep", 0), first)), *range(first, n)]
    return b"".join(runs(about, tokens, positions))


def put(conn: Connection, model: str, pools: Sequence[dict[str, Any]], tokens: Sequence[int], start: int = 0, *options: Any) -> dict[bytes, Any]:
    words: list[Any] = ["PROMPT.PUT", model, ids(tokens), start]
    for about in pools:
        words += ["POOL", about["name"], blob(about, tokens, start)]
    return as_map(conn.call(*words, *options))


def match(conn: Connection, model: str, tokens: Sequence[int], *options: Any) -> dict[bytes, Any]:
    return as_map(conn.call("PROMPT.MATCH", model, ids(tokens), *options))


def put_passed(path: str, words: Sequence[Any], fd: int) -> Connection:
    """Sends one command with a descriptor; the reply is still to be read."""
    conn = Connection(path=path)
    data = encode(words)
    sent = socket.send_fds(conn.socket, [data], [fd])
    conn.socket.sendall(data[sent:])
    return conn


def memory_file(data: bytes, sealed: bool) -> int:
    import fcntl

    fd = os.memfd_create("rows", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(fd, data)
    if sealed:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd
