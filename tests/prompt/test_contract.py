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


def input_bytes(conn: Connection) -> int:
    return int(conn.call("INFO", "stats").split(b"total_net_input_bytes:")[1].split()[0])


LARGE = pool(row_bytes=64 * 1024)


@pytest.mark.parametrize("kept", ["streamed", "held", "small"])
@pytest.mark.parametrize("word", ["MODEL", "SALT", "SALT of one model"])
def test_a_put_whose_rows_are_on_their_way_is_refused_by_a_revocation(pion_factory, word, kept):
    """Also when the model is there again by then: the rows were made before. Wherever they are kept until they are all there: on
    disk, in memory because the budget is full, or in memory because there are few."""
    pion = pion_factory("--prompt-budget", "3mb" if kept == "held" else "1gb")
    about = pool(row_bytes=64) if kept == "small" else LARGE
    tokens = list(range(8))
    rows = blob(about, tokens, 0)
    revoke = {"MODEL": ("MODEL", "m"), "SALT": ("SALT", "s"), "SALT of one model": ("SALT", "s", "MODEL", "m")}[word]
    with Connection(pion.port) as conn, Connection(pion.port) as other:
        for name in ("m", "n", "filler"):
            conn.call("PROMPT.MODEL", "SET", name, manifest(about))
        filler = list(range(100, 109))
        conn.call("PROMPT.PUT", "filler", ids(filler), 0, "POOL", "kv", blob(about, filler, 0))
        for name, salt, refused in (("m", "s", True), ("m", "t", word == "MODEL"), ("n", "s", word == "SALT")):
            command = encode(("PROMPT.PUT", name, ids(tokens), 0, "SALT", salt, "POOL", "kv", rows))
            before = input_bytes(other)
            conn.socket.sendall(command[: len(command) // 2])
            while input_bytes(other) < before + len(command) // 4:  # until the server saw the pool's rows begin
                time.sleep(0.01)
            other.call("PROMPT.REVOKE", *revoke)
            other.call("PROMPT.MODEL", "SET", "m", manifest(about))
            conn.socket.sendall(command[len(command) // 2 :])
            reply = conn.read()
            assert isinstance(reply, ServerError) == refused, reply
            assert match(conn, name, tokens, "SALT", salt, "LEASE", 0)[b"matched"] == (0 if refused else len(tokens))
            if refused:
                assert str(reply).startswith("REVOKED ")
                pion.kill()
                pion.start()
                conn, other = Connection(pion.port), Connection(pion.port)
                assert match(conn, name, tokens, "SALT", salt, "LEASE", 0)[b"matched"] == 0
                conn.send("PROMPT.PUT", name, ids(tokens), 0, "SALT", salt, "POOL", "kv", rows)
                assert not isinstance(conn.read(), ServerError)
                assert match(conn, name, tokens, "SALT", salt, "LEASE", 0)[b"matched"] == len(tokens)


def test_help_is_offered_only_where_there_is_help(pion):
    with Connection(pion.port) as conn:
        with pytest.raises(ServerError, match=r"^ERR unknown subcommand 'nosuch'\.$"):
            conn.call("PROMPT.MODEL", "nosuch")
        with pytest.raises(ServerError, match=r"Try CLIENT HELP\.$"):
            conn.call("CLIENT", "nosuch")
