"""PROMPT.* over the wire, as docs/prompt-memory.md says it."""

from __future__ import annotations

import os
import threading
import time

import pytest

from prompt import prompts
from prompt.prompts import blob, ids, manifest, match, memory_file, pool, put, runs
from support.resp import Connection, ServerError, as_map

KV = pool()
WIN = pool("win", "window", row_bytes=32, window=8, keep=2)
STATE = pool("state", "trailing", layers=1, row_bytes=96)


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def conn(pion, request):
    with Connection(pion.port, protocol=request.param) as connection:
        yield connection


def test_models(conn):
    text = manifest(KV)
    assert conn.call("PROMPT.MODEL", "SET", "m", text) == "OK"
    assert conn.call("PROMPT.MODEL", "SET", "m", manifest(KV, notes="another day")) == "OK"
    with pytest.raises(ServerError, match=r'^MISMATCH model m: pools\[0\]\.dtype is "f16" there, "f32" here$'):
        conn.call("PROMPT.MODEL", "SET", "m", manifest({**KV, "dtype": "f32"}))
    got = as_map(conn.call("PROMPT.MODEL", "GET", "m"))
    assert list(got) == [b"json", b"hash", b"tokens", b"bytes"]
    assert got[b"json"] == text.encode() and len(got[b"hash"]) == 64 and got[b"tokens"] == 0
    with pytest.raises(ServerError, match="^MISMATCH model m: manifest is"):
        match(conn, "m", [1], "MANIFEST", "0" * 64)
    assert match(conn, "m", [1], "MANIFEST", got[b"hash"])[b"matched"] == 0
    with pytest.raises(ServerError, match="^NOMODEL"):
        match(conn, "nobody", [1])
    with pytest.raises(ServerError, match="^ERR manifest: "):
        conn.call("PROMPT.MODEL", "SET", "x", "{}")
    assert conn.call("PROMPT.MODEL", "LIST") == [b"m"]
    put(conn, "m", [KV], [1, 2, 3])
    assert conn.call("PROMPT.MODEL", "DROP", "m") == 3
    assert conn.call("PROMPT.MODEL", "LIST") == []
    with pytest.raises(ServerError, match="^NOMODEL"):
        conn.call("PROMPT.MODEL", "GET", "m")


def test_store_match_read_release(conn):
    conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
    tokens = list(range(100, 160))
    first = put(conn, "m", [KV], tokens[:40], 0, "PREFILL_MS", "80")
    assert (first[b"from"], first[b"to"]) == (0, 40) and first[b"segment"] > 0
    second = put(conn, "m", [KV], tokens, 40, "PREFILL_MS", 20)
    found = match(conn, "m", tokens + [7])
    assert list(found) == [b"matched", b"lease", b"segments", b"saved_ms", b"restore_ms", b"claimed", b"fork"]
    assert found[b"matched"] == 60 and found[b"claimed"] == 0 and found[b"fork"] is None
    assert found[b"segments"] == [[first[b"segment"], 0, 40], [second[b"segment"], 40, 60]]
    assert float(found[b"saved_ms"]) == 100.0
    lease = found[b"lease"]
    assert conn.call("PROMPT.READ", lease) == runs(KV, tokens, range(60))
    assert conn.call("PROMPT.READ", lease, "POOL", "kv", "FROM", 30, "TO", 50, "LAYERS", 1, 2) == runs(KV, tokens, range(30, 50))[2:]
    assert conn.call("PROMPT.READ", lease, "FROM", 60, "TO", 60) == [b""] * 4
    with pytest.raises(ServerError, match="^ERR pool kv: FROM 0 TO 61 is outside of this lease, which has 0 to 60"):
        conn.call("PROMPT.READ", lease, "TO", 61)
    with pytest.raises(ServerError, match="^ERR model m has no pool x"):
        conn.call("PROMPT.READ", lease, "POOL", "x")
    assert conn.call("PROMPT.RELEASE", lease) == 1
    assert conn.call("PROMPT.RELEASE", lease) == 0
    with pytest.raises(ServerError, match="^NOLEASE"):
        conn.call("PROMPT.READ", lease)
    assert match(conn, "m", tokens, "LEASE", 0)[b"lease"] is None
    assert match(conn, "m", tokens, "MAX", 59)[b"matched"] == 59
    assert match(conn, "m", tokens, "SALT", "other")[b"matched"] == 0
    assert match(conn, "m", tokens[:10] + [1])[b"fork"] == [10, tokens[10]]


def test_put_says_what_is_wrong(conn):
    conn.call("PROMPT.MODEL", "SET", "m", manifest(KV, STATE))
    tokens = [1, 2, 3]
    good = ["POOL", "kv", blob(KV, tokens, 0), "POOL", "state", blob(STATE, tokens, 0)]

    def refused(*words) -> str:
        with pytest.raises(ServerError) as caught:
            conn.call("PROMPT.PUT", "m", ids(tokens), *words)
        return str(caught.value)

    assert refused(0, *good[:3]) == "ERR pool state is missing"
    assert refused(0, "POOL", "kv", b"x" * 255, *good[3:]).startswith("ERR pool kv: expected 768 bytes (3 rows of 256), given 255")
    # A state that belongs to another length can only be noticed by its rows: the boundary is named.
    assert "the state at boundary 3" in refused(0, *good[:3], "POOL", "state", b"x" * 191)
    assert refused(1, *good) == "ERR pool kv: expected 512 bytes (2 rows of 256), given 768"
    assert refused(1, "POOL", "kv", blob(KV, tokens, 1), *good[3:]) == "GAP stored up to 0"
    assert refused(0, *good, "POOL", "kv", b"") == "ERR pool kv was given twice"
    assert refused(0, *good, "SPEED", "9") == "ERR unknown option 'SPEED'"
    assert refused(0, *good, "MEDIA", 1, 1) == "ERR the last option is incomplete"
    assert refused("x", *good) == "ERR from must be a number of tokens"
    assert refused(0, "POOL", "kv", "FD", 0, 0, 768, *good[3:]).startswith("ERR descriptors are passed over the Unix socket only")
    assert match(conn, "m", tokens)[b"matched"] == 0
    assert conn.call("PROMPT.PUT", "m", ids(tokens), 0, *good, "DURABLE")


def test_known_tokens_are_not_stored_twice(conn):
    """PC020: other bits for known tokens are no error; the first rows stay."""
    conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
    tokens = list(range(30))
    put(conn, "m", [KV], tokens)
    reader = match(conn, "m", tokens)
    again = as_map(conn.call("PROMPT.PUT", "m", ids(tokens), 0, "POOL", "kv", b"\xff" * len(blob(KV, tokens, 0))))
    assert again == {b"from": 30, b"to": 30, b"segment": None}
    longer = tokens + [77]
    part = as_map(conn.call("PROMPT.PUT", "m", ids(longer), 20, "POOL", "kv", blob(KV, longer, 20)))
    assert (part[b"from"], part[b"to"]) == (30, 31)
    assert conn.call("PROMPT.READ", reader[b"lease"]) == runs(KV, tokens, range(30))
    assert conn.call("PROMPT.READ", match(conn, "m", longer)[b"lease"]) == runs(KV, longer, range(31))
    assert as_map(conn.call("PION.STATS"))[b"prompt_corrupt_segments"] == 0


def test_pools_of_every_rule(conn):
    pools = [KV, WIN, STATE]
    conn.call("PROMPT.MODEL", "SET", "m", manifest(*pools))
    tokens = list(range(1, 41))
    for end in (10, 25, 40):
        put(conn, "m", pools, tokens[:end], (0, 10, 25)[(10, 25, 40).index(end)])
    for asked, expected in ((40, 40), (39, 25), (25, 25), (24, 10), (9, 0)):
        found = match(conn, "m", tokens, "MAX", asked)
        assert found[b"matched"] == expected, asked
        if not expected:
            continue
        got = as_map(conn.call("PROMPT.READ", found[b"lease"]))
        assert got[b"kv"] == runs(KV, tokens, range(expected))
        assert got[b"win"] == runs(WIN, tokens, [0, 1, *range(max(2, expected - 8), expected)])
        assert got[b"state"] == runs(STATE, tokens, [expected - 1])
    lease = match(conn, "m", tokens)[b"lease"]
    with pytest.raises(ServerError, match="^ERR pool state is trailing"):
        conn.call("PROMPT.READ", lease, "POOL", "state", "TO", 40)
    assert conn.call("PROMPT.READ", lease, "POOL", "win", "FROM", 35) == runs(WIN, tokens, range(35, 40))
    # A PUT that ends inside what is stored brings a boundary.
    inside = put(conn, "m", pools, tokens[:30], 22)
    assert inside[b"from"] == inside[b"to"] == 30 and inside[b"segment"] > 0
    assert match(conn, "m", tokens, "MAX", 35)[b"matched"] == 30
    assert put(conn, "m", pools, tokens[:30], 22)[b"segment"] is None


def test_media(conn):
    """PC035: the whole digest decides, a match never ends inside an item."""
    conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
    tokens = list(range(120))
    media = ["MEDIA", 50, 64, b"\x00" * 63 + b"1"]
    put(conn, "m", [KV], tokens, 0, *media)
    assert match(conn, "m", tokens, *media)[b"matched"] == 120
    assert match(conn, "m", tokens, *media, "MAX", 100)[b"matched"] == 50
    assert match(conn, "m", tokens, "MEDIA", 50, 64, b"\x00" * 63 + b"2")[b"matched"] == 50
    assert match(conn, "m", tokens)[b"matched"] == 50
    with pytest.raises(ServerError, match="^ERR media item at 50 overlaps"):
        match(conn, "m", tokens, "MEDIA", 45, 6, "d", *media)
    with pytest.raises(ServerError, match="^ERR media item at 119 goes beyond"):
        match(conn, "m", tokens, "MEDIA", 119, 2, "d")


def test_large_rows_stream_and_come_back(conn):
    """Blobs of 64 KiB and more go to disk while they arrive, and out by sendfile."""
    wide = pool(layers=3, row_bytes=4096)
    conn.call("PROMPT.MODEL", "SET", "wide", manifest(wide))
    tokens = list(range(500))
    for end in (200, 400, 500):
        put(conn, "wide", [wide], tokens[:end], max(0, end - 200))  # the last one overlaps what is stored
    found = match(conn, "wide", tokens)
    assert found[b"matched"] == 500
    assert conn.call("PROMPT.READ", found[b"lease"]) == runs(wide, tokens, range(500))
    assert conn.call("PROMPT.READ", found[b"lease"], "FROM", 333, "TO", 450, "LAYERS", 1, 2) == runs(wide, tokens, range(333, 450))[2:4]
    with pytest.raises(ServerError, match="^ERR pool kv: expected"):
        conn.call("PROMPT.PUT", "wide", ids(tokens), 0, "POOL", "kv", b"x" * 100_000)
    with pytest.raises(ServerError, match="^ERR model wide has no pool other"):
        conn.call("PROMPT.PUT", "wide", ids(tokens), 0, "POOL", "other", b"x" * 100_000)
    assert conn.call("PING") == "PONG"


def test_forget_and_revoke(conn):
    conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
    conn.call("PROMPT.MODEL", "SET", "n", manifest(KV))
    tokens = list(range(60))
    for model in ("m", "n"):
        put(conn, model, [KV], tokens, 0, "SALT", "s")
        put(conn, model, [KV], tokens)
    put(conn, "m", [KV], tokens[:20] + [9, 9], 0)
    lease = match(conn, "m", tokens)[b"lease"]
    assert conn.call("PROMPT.FORGET", "m", ids(tokens[:40])) == 40
    with pytest.raises(ServerError, match="^REVOKED"):
        conn.call("PROMPT.READ", lease)
    assert conn.call("PROMPT.RELEASE", lease) == 0
    kept = match(conn, "m", tokens)
    assert kept[b"matched"] == 20, "what the other prompt shares"
    assert conn.call("PROMPT.READ", kept[b"lease"]) == runs(KV, tokens, range(20))
    assert match(conn, "m", tokens[:20] + [9, 9])[b"matched"] == 22
    assert conn.call("PROMPT.FORGET", "m", ids([5, 5])) == 0
    assert conn.call("PROMPT.REVOKE", "SALT", "s", "MODEL", "m") == 60
    assert match(conn, "m", tokens, "SALT", "s")[b"matched"] == 0
    assert match(conn, "n", tokens, "SALT", "s")[b"matched"] == 60
    assert conn.call("PROMPT.REVOKE", "SALT", "s") == 60
    assert match(conn, "n", tokens)[b"matched"] == 60
    assert conn.call("PROMPT.REVOKE", "MODEL", "n") == 60
    with pytest.raises(ServerError, match="^NOMODEL"):
        match(conn, "n", tokens)


def test_list_info_stats(conn):
    conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
    conn.call("PION.STATS", "RESET")
    put(conn, "m", [KV], list(range(20)), 0, "PREFILL_MS", 10)
    put(conn, "m", [KV], list(range(30)), 20, "PREFILL_MS", 5)
    put(conn, "m", [KV], list(range(10)) + [99], 10)
    put(conn, "m", [KV], [5, 6], 0, "SALT", "x")
    cursor, chains = conn.call("PROMPT.LIST", "m", "COUNT", 100)
    assert cursor == 0
    listed = {(chain[b"salt"], chain[b"tokens"]) for chain in map(as_map, chains)}
    assert listed == {(b"", 30), (b"", 11), (b"x", 2)}
    assert len(conn.call("PROMPT.LIST", "m", "SALT", "x")[1]) == 1
    seen, cursor = 0, 0
    while True:
        cursor, chains = conn.call("PROMPT.LIST", "m", "COUNT", 1, "CURSOR", cursor)
        seen += len(chains)
        if cursor == 0:
            break
    assert seen == 3
    info = as_map(conn.call("PROMPT.INFO"))
    assert info[b"segments"] == 4 and info[b"tokens"] == 33 and 0 < info[b"bytes"] <= info[b"budget"]
    assert as_map(conn.call("PROMPT.INFO", "m"))[b"tokens"] == 33
    found = match(conn, "m", list(range(30)))
    conn.call("PROMPT.READ", found[b"lease"])
    match(conn, "m", [77])
    stats = as_map(conn.call("PION.STATS"))
    assert stats[b"prompt_hits"] == 1 and stats[b"prompt_misses"] == 1 and stats[b"prompt_tokens_served"] == 30
    assert stats[b"prompt_bytes_served"] == 30 * 256 and stats[b"prompt_leases"] == 1
    assert float(stats[b"prefill_seconds_avoided_measured"]) == pytest.approx(0.015)
    assert float(stats[b"prefill_seconds_avoided_estimated"]) == 0
    conn.call("PION.STATS", "RESET")
    assert as_map(conn.call("PION.STATS"))[b"prompt_hits"] == 0


def test_names_are_data(pion, conn):
    """PC043: a name is bytes, never a path."""
    before = set(os.listdir(pion.dir.parent))
    for name in (b"../x", b"a/b", b"n" * 255, b"nul\0l", b"\xff\xfe", b"\r\n"):
        conn.call("PROMPT.MODEL", "SET", name, manifest(KV))
        put(conn, name, [KV], [1, 2], 0, "SALT", name)  # type: ignore[arg-type]
        assert match(conn, name, [1, 2], "SALT", name)[b"matched"] == 2
    with pytest.raises(ServerError, match="^ERR a model's name has"):
        conn.call("PROMPT.MODEL", "SET", b"n" * 1025, manifest(KV))
    pion.restart()
    with Connection(pion.port) as again:
        assert match(again, b"nul\0l", [1, 2], "SALT", b"nul\0l")[b"matched"] == 2  # type: ignore[arg-type]
    assert set(os.listdir(pion.dir.parent)) == before


def test_survives_a_kill(pion, conn):
    """PC100 and P1: what PUT answered is there after SIGKILL, and READ gives the same bytes."""
    pools = [KV, WIN, STATE]
    conn.call("PROMPT.MODEL", "SET", "m", manifest(*pools))
    tokens = list(range(90))
    for end in (30, 60, 90):
        put(conn, "m", pools, tokens[:end], end - 30)
    conn.call("PROMPT.REVOKE", "SALT", "nothing")
    put(conn, "m", pools, tokens[:30], 0, "SALT", "gone")
    conn.call("PROMPT.REVOKE", "SALT", "gone")
    pion.kill()
    pion.start()
    with Connection(pion.port) as again:
        found = match(again, "m", tokens)
        assert found[b"matched"] == 90
        assert as_map(again.call("PROMPT.READ", found[b"lease"]))[b"kv"] == runs(KV, tokens, range(90))
        assert match(again, "m", tokens, "SALT", "gone")[b"matched"] == 0


def test_revoked_bytes_are_gone_from_the_disk(pion, conn):
    """PC110: neither the ids nor the rows are in any file once the space was given back."""
    conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
    tokens = [0xABCD0000 + 7 * i for i in range(64)]
    put(conn, "m", [KV], tokens, 0, "SALT", "tenant", "DURABLE")
    marks = [ids(tokens[:16]), blob(KV, tokens, 0)[:256]]

    def found() -> int:
        count = 0
        for path in pion.dir.rglob("*"):
            try:
                count += sum(mark in path.read_bytes() for mark in marks) if path.is_file() else 0
            except FileNotFoundError:
                pass  # unlinked just now
        return count

    assert found() >= 2
    conn.call("PROMPT.REVOKE", "SALT", "tenant")
    pion.restart()
    until = time.monotonic() + 30  # space is given back in the background, once the record that frees it is durable
    while found() and time.monotonic() < until:
        time.sleep(0.1)
    assert found() == 0


# -- descriptors ---------------------------------------------------------------------------


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
def test_put_by_descriptor(pion, conn, sealed):
    wide = pool(layers=3, row_bytes=1024)
    conn.call("PROMPT.MODEL", "SET", "m", manifest(wide))
    tokens = list(range(150))
    rows = blob(wide, tokens, 0)
    fd = memory_file(b"pad" + rows, sealed)
    words = ["PROMPT.PUT", "m", ids(tokens), 0, "POOL", "kv", "FD", 0, 3, len(rows)]
    with prompts.put_passed(str(pion.socket), words, fd) as passed:
        assert as_map(passed.read())[b"to"] == 150
    # Part of it is known already: laid out anew from the same descriptor.
    longer = tokens + list(range(1000, 1030))
    more = memory_file(blob(wide, longer, 100), sealed)
    words = ["PROMPT.PUT", "m", ids(longer), 100, "POOL", "kv", "FD", 0, 0, len(blob(wide, longer, 100))]
    with prompts.put_passed(str(pion.socket), words, more) as passed:
        assert as_map(passed.read())[b"from"] == 150
    found = match(conn, "m", longer)
    assert conn.call("PROMPT.READ", found[b"lease"]) == runs(wide, longer, range(180))
    os.close(fd)
    os.close(more)


def test_a_descriptor_that_changes_cannot_make_wrong_bytes(pion, conn):
    """Whatever the owner writes into it meanwhile, what was stored verifies and is one of the two contents per chunk."""
    wide = pool(layers=2, row_bytes=8192)
    conn.call("PROMPT.MODEL", "SET", "m", manifest(wide))
    size = 400 * 8192 * 4
    fd = memory_file(b"\x11" * size, sealed=False)
    stop = threading.Event()

    def scribble() -> None:
        while not stop.is_set():
            for byte in (b"\x22", b"\x11"):
                os.pwrite(fd, byte * (1 << 20), 5 << 20)

    writer = threading.Thread(target=scribble)
    writer.start()
    try:
        for i in range(10):
            tokens = [i] + list(range(399))
            words = ["PROMPT.PUT", "m", ids(tokens), 0, "POOL", "kv", "FD", 0, 0, size]
            with prompts.put_passed(str(pion.socket), words, fd) as passed:
                assert as_map(passed.read())[b"to"] == 400
            data = b"".join(conn.call("PROMPT.READ", match(conn, "m", tokens)[b"lease"]))
            assert set(data) <= {0x11, 0x22}
    finally:
        stop.set()
        writer.join()
    os.close(fd)
    assert as_map(conn.call("PION.STATS"))[b"prompt_corrupt_segments"] == 0


def test_wrong_descriptors_are_refused(pion, conn):
    conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
    tokens = [1, 2, 3]
    reader, writer = os.pipe()
    fd = memory_file(blob(KV, tokens, 0), True)
    for passed_fd, place, text in (
        (reader, (0, 0, 768), "neither a memory file nor a regular file"),
        (fd, (0, 1, 768), "holds 768 bytes, asked for 768 at 1"),
        (fd, (1, 0, 768), "descriptor 1 was not passed"),
        (fd, (0, -1, 768), "cannot be negative"),
    ):
        words = ["PROMPT.PUT", "m", ids(tokens), 0, "POOL", "kv", "FD", *place]
        with prompts.put_passed(str(pion.socket), words, passed_fd) as conn2:
            reply = conn2.read()
            assert isinstance(reply, ServerError) and text in str(reply)
            assert conn2.call("PING") == "PONG"
    for each in (reader, writer, fd):
        os.close(each)


def test_locate_and_attach(pion, conn):
    """Rows can be read where they lie; their checksums come along."""
    pytest.importorskip("xxhash")
    import socket

    import xxhash

    wide = pool(layers=3, row_bytes=3000)
    conn.call("PROMPT.MODEL", "SET", "m", manifest(wide))
    tokens = list(range(300))
    for end in (100, 200, 300):
        put(conn, "m", [wide], tokens[:end], end - 100)
    with pytest.raises(ServerError, match="^ERR PROMPT.ATTACH passes descriptors, which only the Unix socket can"):
        conn.call("PROMPT.ATTACH")
    with Connection(path=str(pion.socket)) as local:
        lease = match(local, "m", tokens)[b"lease"]
        located = local.call("PROMPT.LOCATE", lease, "FROM", 50, "TO", 250, "UNVERIFIED")
        assert located == local.call("PROMPT.LOCATE", lease, "FROM", 50, "TO", 250)
        files = sorted({run[0] for bulk in located for run in bulk})
        local.send("PROMPT.ATTACH", *files)
        data, fds, _, _ = socket.recv_fds(local.socket, 1 << 16, 64)
        local.input += data
        places = {file_id: fds[index] for file_id, index in local.read()}
        for bulk, expected in zip(located, runs(wide, tokens, range(50, 250)), strict=True):
            got = b""
            for file_id, offset, length, base, checksums, payload in bulk:
                got += os.pread(places[file_id], length, offset)
                first = (offset - base) // 65536
                for i in range(len(checksums) // 8):
                    at = (first + i) * 65536
                    chunk = os.pread(places[file_id], min(65536, payload - at), base + at)
                    assert xxhash.xxh3_64_intdigest(chunk) == int.from_bytes(checksums[8 * i : 8 * i + 8], "little")
            assert got == expected
        for fd in fds:
            with pytest.raises(OSError):
                os.pwrite(fd, b"x", 0)  # PC082: read-only
            os.close(fd)
        assert local.call("PROMPT.RELEASE", lease) == 1
        with pytest.raises(ServerError, match="^ERR no file 999"):
            local.call("PROMPT.ATTACH", 999)


# -- claims --------------------------------------------------------------------------------


def ask(pion, tokens, *options):
    conn = Connection(pion.port)
    conn.send("PROMPT.MATCH", "m", ids(tokens), "MAX", len(tokens) - 1, "CLAIM", 30_000, "WAIT", 30_000, *options)
    return conn


def test_eight_clients_one_prefill(pion):
    """PC118: of eight that ask at once one prefills, also when the first is gone half way."""
    tokens = list(range(600))
    with Connection(pion.port) as conn:
        conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
    prefilled = 0
    conns = [ask(pion, tokens) for _ in range(8)]
    pending = {id(c): c for c in conns}
    for killed in (True, False):
        holder, reply = first_answer(pending)
        assert reply[b"claimed"] == 1
        at = reply[b"matched"]
        while at < (300 if killed else 599):
            end = min(at + 100, 599)
            put(holder, "m", [KV], tokens[:end], at)
            prefilled += end - at
            at = end
        if killed:
            holder.close()
    for conn in list(pending.values()):
        reply = as_map(conn.read())
        assert reply[b"matched"] == 599 and reply[b"claimed"] == 0 and reply[b"lease"] is not None
        conn.close()
    assert prefilled == 599
    with Connection(pion.port) as conn:
        stats = as_map(conn.call("PROMPT.INFO"))
        assert stats[b"tokens"] == 599 and stats[b"claims"] == 0 and stats[b"waiting"] == 0


def first_answer(pending):
    """The connection that is answered first, taken out of `pending`, and its reply."""
    import select

    ready, _, _ = select.select([c.socket for c in pending.values()], [], [], 20)
    assert ready, "nobody was answered"
    conn = next(c for c in pending.values() if c.socket is ready[0])
    del pending[id(conn)]
    return conn, as_map(conn.read())


def test_waiting_ends(pion):
    with Connection(pion.port) as conn:
        conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
        tokens = list(range(50))
        assert match(conn, "m", tokens, "CLAIM", 60_000)[b"claimed"] == 1
        with Connection(pion.port) as other:
            assert match(other, "m", tokens, "CLAIM", 60_000)[b"claimed"] == 0
            assert match(other, "m", tokens, "CLAIM", 60_000, "WAIT", 30)[b"claimed"] == 0
            with pytest.raises(ServerError, match="^ERR WAIT needs CLAIM"):
                match(other, "m", tokens, "WAIT", 30)
            other.send("PROMPT.MATCH", "m", ids(tokens), "CLAIM", 60_000, "WAIT", 60_000)
            conn.call("PROMPT.REVOKE", "MODEL", "m")
            assert str(other.read()).startswith("NOMODEL")


# -- under pressure ------------------------------------------------------------------------


def test_readers_under_an_eviction_storm(pion_factory):
    """PC097, PC099: more sessions than the budget holds; no client sees an error, a lease delivers what MATCH promised."""
    server = pion_factory("--prompt-budget", "600kb")
    sessions = [[s * 1000 + i for i in range(90)] for s in range(6)]
    problems: list[str] = []
    served = [0]
    with Connection(server.port) as conn:
        conn.call("PROMPT.MODEL", "SET", "m", manifest(KV, WIN))

    def client(number: int) -> None:
        try:
            with Connection(server.port) as conn:
                for step in range(40):
                    tokens = sessions[(number + step) % 6][: 30 + 30 * (step % 3)]
                    found = match(conn, "m", tokens)
                    if found[b"matched"]:
                        got = as_map(conn.call("PROMPT.READ", found[b"lease"]))
                        if got[b"kv"] != runs(KV, tokens, range(found[b"matched"])):
                            problems.append("wrong rows")
                        served[0] += 1
                        if conn.call("PROMPT.RELEASE", found[b"lease"]) != 1:
                            problems.append("a lease was broken")
                    # Another client may have stored, or eviction taken, some of it meanwhile: a gap is an answer, not a fault.
                    for end in range(found[b"matched"] + 10, len(tokens) + 1, 10):
                        try:
                            put(conn, "m", [KV, WIN], tokens[:end], end - 10)
                        except ServerError as error:
                            if not str(error).startswith(("GAP", "OOM")):
                                raise
                            break
        except Exception as error:  # noqa: BLE001 - told by the test's own thread
            problems.append(repr(error))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[:5]
    with Connection(server.port) as conn:
        info = as_map(conn.call("PROMPT.INFO"))
        assert info[b"bytes"] <= info[b"budget"] == 600 * 1024
        assert info[b"evicted_segments"] + info[b"evicted_boundaries"] > 0 and served[0] > 10
        assert info[b"prompt_corrupt_segments"] == 0 and info[b"leases"] == 0


def test_a_lease_ends_with_its_connection_and_a_claim_too(pion):
    with Connection(pion.port) as conn:
        conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
        tokens = list(range(40))
        put(conn, "m", [KV], tokens[:20])
        dying = Connection(pion.port)
        assert match(dying, "m", tokens, "CLAIM", 600_000, "LEASE", 600_000)[b"claimed"] == 1
        assert as_map(conn.call("PROMPT.INFO"))[b"leases"] == 1
        dying.close()
        waiting = match(conn, "m", tokens, "CLAIM", 60_000, "WAIT", 60_000, "LEASE", 0)
        assert waiting[b"claimed"] == 1 and waiting[b"matched"] == 20
        assert as_map(conn.call("PROMPT.INFO"))[b"leases"] == 0


def test_budget_larger_than_the_entry_only(pion_factory):
    """PC078 on the wire, with streamed blobs: refused with the numbers, what is there stays, the connection lives."""
    server = pion_factory("--prompt-budget", "1mb")
    wide = pool(row_bytes=4096)
    with Connection(server.port) as conn:
        conn.call("PROMPT.MODEL", "SET", "m", manifest(wide))
        small = [1000 + i for i in range(20)]
        put(conn, "m", [wide], small)
        with pytest.raises(ServerError, match=r"^OOM larger than the prompt budget: \d+ bytes needed, budget 1048576"):
            put(conn, "m", [wide], list(range(200)))
        assert match(conn, "m", small)[b"matched"] == 20
        for i in range(10):  # streams that find no room are held until their PUT has evicted
            tokens = [5000 + 100 * i + k for k in range(30)]
            put(conn, "m", [wide], tokens)
            found = match(conn, "m", tokens)
            assert conn.call("PROMPT.READ", found[b"lease"]) == runs(wide, tokens, range(30))
            assert conn.call("PROMPT.RELEASE", found[b"lease"]) == 1
            info = as_map(conn.call("PROMPT.INFO"))
            assert info[b"bytes"] <= info[b"budget"]
