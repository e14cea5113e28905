"""What the contract of PROMPT.* promises at its edges, found by trying to break it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from prompt.prompts import blob, ids, manifest, match, pool
from support.resp import Connection, ServerError, encode

KV = pool()
MIB = 1 << 20


def payload_bytes(directory: str | os.PathLike) -> int:
    """Disk blocks of all payload files, in bytes."""
    return sum(file.stat().st_blocks * 512 for file in Path(directory, "payload").rglob("*.dat"))


def test_an_empty_manifest_hash_is_not_taken_for_none(pion):
    with Connection(pion.port) as conn:
        conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
        tokens = [1, 2, 3]
        with pytest.raises(ServerError, match="^ERR MANIFEST is empty"):
            match(conn, "m", tokens, "MANIFEST", "")
        with pytest.raises(ServerError, match="^ERR MANIFEST is empty"):
            conn.call("PROMPT.PUT", "m", ids(tokens), 0, "MANIFEST", "", "POOL", "kv", blob(KV, tokens, 0))
        assert match(conn, "m", tokens)[b"matched"] == 0


def test_clients_that_die_while_they_send_leave_no_bytes(pion):
    """Each dies with most of what it announced unsent: what was reserved for it beyond the file's end goes back as well."""
    with Connection(pion.port) as conn:
        conn.call("SET", "kept", "x" * 100_000)  # the file stays
        command = encode(("SET", "never", b""))
        head = command[: command.rindex(b"$")] + b"$%d\r\n" % (40 * MIB)
        for _ in range(4):
            with Connection(pion.port) as dying:
                dying.socket.sendall(head + bytes(MIB))
        deadline = time.monotonic() + 60
        while payload_bytes(pion.dir) > 40 * MIB and time.monotonic() < deadline:  # files grow in steps of 16 MiB
            time.sleep(0.05)
        assert payload_bytes(pion.dir) <= 40 * MIB
        assert conn.call("GET", "never") is None
        assert conn.call("GET", "kept") == b"x" * 100_000
