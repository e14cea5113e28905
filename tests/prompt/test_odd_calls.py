"""Calls nobody should make, and what they are answered: in each case a sentence, and nothing changed."""

from __future__ import annotations

import json
import threading

import pytest

from prompt.prompts import blob, ids, manifest, match, pool, put, runs
from support.resp import Connection, ServerError, as_map

KV = pool()
TOKENS = list(range(60))


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def conn(pion, request):
    with Connection(pion.port, protocol=request.param) as connection:
        connection.call("PROMPT.MODEL", "SET", "m", manifest(KV))
        put(connection, "m", [KV], TOKENS, 0, "PREFILL_MS", 6)
        yield connection


def refused(conn: Connection, *words) -> str:
    with pytest.raises(ServerError) as caught:
        conn.call(*words)
    return str(caught.value)


def test_options_given_twice(conn):
    """Which of two salts was meant is not ours to guess."""
    rows = blob(KV, TOKENS, 0)
    for words in (("SALT", "a", "SALT", "b"), ("MAX", 5, "MAX", 7), ("LEASE", 5, "lease", 5), ("CLAIM", 5, "CLAIM", 5), ("MANIFEST", "a", "MANIFEST", "a")):
        assert refused(conn, "PROMPT.MATCH", "m", ids(TOKENS), *words) == f"ERR {words[0]} was given twice"
    for words in (("SALT", "a", "SALT", "b"), ("PREFILL_MS", 1, "PREFILL_MS", 2), ("DURABLE", "durable"), ("MANIFEST", "a", "MANIFEST", "a")):
        assert refused(conn, "PROMPT.PUT", "m", ids(TOKENS), 0, *words, "POOL", "kv", rows) == f"ERR {words[0]} was given twice"
    lease = match(conn, "m", TOKENS)[b"lease"]
    for words in (("FROM", 1, "FROM", 2), ("TO", 1, "TO", 2), ("POOL", "kv", "POOL", "kv"), ("LAYERS", 0, 1, "LAYERS", 0, 1)):
        for command in ("PROMPT.READ", "PROMPT.LOCATE"):
            assert refused(conn, command, lease, *words) == f"ERR {words[0]} was given twice"
    assert refused(conn, "PROMPT.FORGET", "m", ids(TOKENS), "SALT", "", "SALT", "x") == "ERR SALT was given twice"
    assert refused(conn, "PROMPT.REVOKE", "SALT", "", "MODEL", "m", "MODEL", "n") == "ERR MODEL was given twice"
    assert refused(conn, "PROMPT.LIST", "m", "COUNT", 1, "COUNT", 2) == "ERR COUNT was given twice"
    assert match(conn, "m", TOKENS, "LEASE", 0)[b"matched"] == 60
    # Media items are many; the order of options is free.
    words = ("MEDIA", 5, 2, "d", "LEASE", 0, "MEDIA", 9, 1, "e", "MAX", 59)
    assert match(conn, "m", TOKENS, *words)[b"matched"] == 5


def test_numbers_at_their_limits(conn):
    for words, text in (
        (("MAX", -1), "MAX must be an integer between 0 and"),
        (("MAX", "1e3"), "MAX must be an integer between 0 and"),
        (("LEASE", -1), "LEASE must be an integer between 0 and 86400000"),
        (("LEASE", 86_400_001), "LEASE must be an integer between 0 and 86400000"),
        (("CLAIM", 0), "CLAIM must be an integer between 1 and"),
        (("CLAIM", 5, "WAIT", -1), "WAIT must be an integer between 0 and"),
        (("WAIT", 5), "WAIT needs CLAIM"),
        (("SALT",), "SALT is missing at the end"),
        (("SALT", "s" * 1025), "SALT is longer than 1024 bytes"),
        (("MEDIA", 0, 61, "d"), "media item at 0 goes beyond the 60 tokens"),
        (("MEDIA", 0, 0, "d"), "MEDIA length must be an integer between 1 and"),
        (("MEDIA", 5, 2, "d", "MEDIA", 6, 1, "d"), "media item at 6 overlaps"),
        (("MEDIA", 5, 2, "d" * 65), "MEDIA digest is longer than 64 bytes"),
        (("MEDIA", 5, 2, ""), "MEDIA digest is empty"),
    ):
        assert refused(conn, "PROMPT.MATCH", "m", ids(TOKENS), *words).startswith("ERR " + text)
    assert refused(conn, "PROMPT.MATCH", "m", b"abc") == "ERR tokens must be 32-bit little-endian ids"
    for words in (("MAX", 0), ("MAX", 0, "CLAIM", 100)):
        nothing = match(conn, "m", TOKENS, *words)
        assert (nothing[b"matched"], nothing[b"lease"], nothing[b"segments"], nothing[b"claimed"]) == (0, None, [], 0)
    assert match(conn, "m", [], "LEASE", 0)[b"matched"] == 0
    assert match(conn, "m", TOKENS, "MAX", 2**63 - 1, "LEASE", 0)[b"matched"] == 60
    rows = blob(KV, TOKENS, 0)
    for time in ("nan", "inf", "-1", "1e300", "1000000001", "", "x", "0x10"):
        assert "PREFILL_MS must be" in refused(conn, "PROMPT.PUT", "m", ids(TOKENS), 0, "SALT", "t", "POOL", "kv", rows, "PREFILL_MS", time)
    assert float(match(conn, "m", TOKENS, "LEASE", 0)[b"saved_ms"]) == 6.0
    for first in (-1, 61, 2**32, 2**63, "", "1.0"):
        assert refused(conn, "PROMPT.PUT", "m", ids(TOKENS), first, "POOL", "kv", b"").startswith("ERR from")
    assert refused(conn, "PROMPT.PUT", "m", b"", 0, "POOL", "kv", b"") == "ERR no tokens"
    assert as_map(conn.call("PROMPT.PUT", "m", ids(TOKENS), 60, "POOL", "kv", b""))[b"segment"] is None


def test_ranges_of_a_lease(conn):
    lease = match(conn, "m", TOKENS)[b"lease"]
    for words in (("FROM", 20, "TO", 10), ("FROM", 61), ("TO", 61), ("FROM", 4294967295)):
        assert "is outside of this lease, which has 0 to 60" in refused(conn, "PROMPT.READ", lease, *words)
    for words in (("LAYERS", 1, 0), ("LAYERS", 0, 3), ("LAYERS", 3, 3)):
        assert refused(conn, "PROMPT.READ", lease, *words) == "ERR pool kv has layers 0 to 2"
    assert refused(conn, "PROMPT.READ", lease, "LAYERS", 0) == "ERR LAYERS is missing at the end"
    assert refused(conn, "PROMPT.READ", lease, "POOL", "") == "ERR model m has no pool "
    for words in (("FROM", -1), ("TO", 2**32)):
        assert " must be an integer between 0 and 4294967295" in refused(conn, "PROMPT.READ", lease, *words)
    assert conn.call("PROMPT.READ", lease, "LAYERS", 2, 2) == []
    assert conn.call("PROMPT.LOCATE", lease, "TO", 0) == [[]] * 4
    assert conn.call("PROMPT.READ", lease, "to", 1, "from", 0, "layers", 0, 1) == runs(KV, TOKENS, range(1))[:2]
    for wrong in (-1, "x", "", "0x1", 2**63):
        assert refused(conn, "PROMPT.READ", wrong).startswith("ERR lease must be an integer")
        assert refused(conn, "PROMPT.RELEASE", wrong).startswith("ERR lease must be an integer")
    assert refused(conn, "PROMPT.READ", 2**63 - 1).startswith("NOLEASE")
    assert conn.call("PROMPT.RELEASE", 2**63 - 1) == 0
    assert conn.call("PROMPT.READ", lease, "TO", 3) == runs(KV, TOKENS, range(3))


def test_too_many_arguments(conn):
    for words in (("PROMPT.INFO", "m", "x"), ("PION.STATS", "RESET", "x"), ("PROMPT.MODEL", "LIST", "x"), ("PROMPT.REVOKE", "MODEL", "m", "x")):
        assert refused(conn, *words).startswith("ERR wrong number of arguments for")
    assert refused(conn, "PROMPT.FORGET", "m", ids(TOKENS), "MAX", 3) == "ERR unknown option 'MAX'"
    assert refused(conn, "PROMPT.READ", 1, "UNVERIFIED") == "ERR unknown option 'UNVERIFIED'"
    assert match(conn, "m", TOKENS, "LEASE", 0)[b"matched"] == 60


def test_names_in_errors_cannot_break_the_wire(conn):
    """Names are bytes: a line end in one is no line end of a reply."""
    for name in (b"a\r\n+OK\r\n", b"\n", b"\0", b"\xff\xfe", b"n" * 1024):
        assert refused(conn, "PROMPT.MATCH", name, ids([1])).startswith("NOMODEL")
        assert refused(conn, "PROMPT.PUT", "m", ids([1]), 0, "POOL", name, b"").startswith("ERR model m has no pool")
        assert refused(conn, "PROMPT.MATCH", "m", ids([1]), name).startswith("ERR unknown option")
        assert refused(conn, "PROMPT.MATCH", "m", ids([1]), "MANIFEST", name[:64]).startswith("MISMATCH")
        assert conn.call("PING") == "PONG"
    tricky = pool(name="p\r\n+OK")
    conn.call("PROMPT.MODEL", "SET", "tricky\r\n-ERR", manifest(tricky))
    assert refused(conn, "PROMPT.MODEL", "SET", "tricky\r\n-ERR", manifest(pool(name="p\r\n+NO"))).startswith("MISMATCH model tricky")
    assert refused(conn, "PROMPT.PUT", "tricky\r\n-ERR", ids([1]), 0).startswith("ERR pool p")
    assert conn.call("PING") == "PONG"


def test_manifests_that_cannot_be(conn):
    def one(**fields) -> str:
        return json.dumps({"engine": "t", "pools": [{"name": "kv", "rule": "all", "layers": 1, "sides": ["k"], "row_bytes": 8, **fields}]})

    wrong = [one(**fields) for fields in (
        {"layers": 0}, {"layers": -1}, {"layers": 1.5}, {"layers": 2**40}, {"layers": "1"}, {"layers": None}, {"layers": True},
        {"row_bytes": 0}, {"row_bytes": -4}, {"row_bytes": 2**33}, {"row_bytes": []}, {"row_bytes": [[8, 8]]}, {"row_bytes": [[8], [8]]},
        {"row_bytes": [[0]]}, {"row_bytes": 1.5}, {"rule": "window"}, {"rule": "window", "window": 0}, {"rule": "window", "window": 2**40},
        {"rule": "window", "window": 4, "keep": -1}, {"rule": "ALL"}, {"rule": None}, {"sides": []}, {"sides": "k"}, {"sides": [1]},
        {"sides": ["k", "k"]}, {"name": ""}, {"name": "x" * 1025}, {"name": 1},
        {"layers": 65536, "sides": [str(i) for i in range(5)]},
        {"sides": [str(i) for i in range(4096)], "row_bytes": 2**31},
    )]  # fmt: skip
    wrong += ["", "{", "[]", "null", "1", '"x"', "{}", '{"pools":[]}', '{"pools":{}}', '{"pools":[1]}', '{"pools":[{}]} x', '{"a":1,"a":2,"pools":[]}']
    wrong += ['{"pools":[{}],"x":' + "[" * 100 + "]" * 100 + "}", '{"x":18446744073709551616,"pools":[]}', '{"x":1e999,"pools":[]}', '{"x":NaN}']
    same = json.loads(one())["pools"]
    wrong += [json.dumps({"pools": same * 2}), json.dumps({"pools": [{**same[0], "name": str(i)} for i in range(65)]})]
    # Each pool is small enough, all of them are not: a short manifest must not cost much memory.
    wrong.append(json.dumps({"pools": [{**same[0], "name": str(i), "layers": 65536} for i in range(5)]}))
    for text in wrong:
        assert refused(conn, "PROMPT.MODEL", "SET", "q", text).startswith("ERR manifest"), text[:200]
    assert refused(conn, "PROMPT.MODEL", "SET", "q", b'{"x":"\xff","pools":[]}').startswith("ERR manifest")
    assert refused(conn, "PROMPT.MODEL", "SET", "", one()).startswith("ERR a model's name")
    assert conn.call("PROMPT.MODEL", "LIST") == [b"m"]
    assert conn.call("PROMPT.MODEL", "SET", "q", one(layers=1.0)) == "OK"
    assert conn.call("PROMPT.MODEL", "SET", "q", one()) == "OK"
    assert "pools[0].unknown is missing there" in refused(conn, "PROMPT.MODEL", "SET", "q", one(unknown={"deep": [1]}))


def test_two_models_of_one_manifest_share_nothing(conn):
    conn.call("PROMPT.MODEL", "SET", "twin", manifest(KV))
    assert as_map(conn.call("PROMPT.MODEL", "GET", "m"))[b"hash"] == as_map(conn.call("PROMPT.MODEL", "GET", "twin"))[b"hash"]
    assert match(conn, "twin", TOKENS)[b"matched"] == 0
    put(conn, "twin", [KV], TOKENS)
    lease = match(conn, "m", TOKENS)[b"lease"]
    assert conn.call("PROMPT.MODEL", "DROP", "twin") == 60
    assert conn.call("PROMPT.READ", lease, "TO", 2) == runs(KV, TOKENS, range(2))
    assert conn.call("PROMPT.MODEL", "DROP", "m") == 60
    assert refused(conn, "PROMPT.READ", lease).startswith("REVOKED")
    assert conn.call("PROMPT.RELEASE", lease) == 0
    assert conn.call("PROMPT.MODEL", "DROP", "m") == 0
    conn.call("PROMPT.MODEL", "SET", "m", manifest(pool(row_bytes=32)))
    assert match(conn, "m", TOKENS)[b"matched"] == 0


def test_a_put_of_what_is_there_with_overlaps_and_gaps(conn):
    longer = [*TOKENS, *range(100, 110)]
    assert put(conn, "m", [KV], TOKENS[:30])[b"segment"] is None
    assert put(conn, "m", [KV], TOKENS[:30], 10)[b"segment"] is None
    assert refused(conn, "PROMPT.PUT", "m", ids(longer), 61, "POOL", "kv", blob(KV, longer, 61)) == "GAP stored up to 60"
    part = put(conn, "m", [KV], longer[:65], 50)
    assert (part[b"from"], part[b"to"]) == (60, 65)
    assert put(conn, "m", [KV], longer, 65)[b"from"] == 65
    parted = [*TOKENS[:20], 999, *TOKENS[21:]]
    assert refused(conn, "PROMPT.PUT", "m", ids(parted), 30, "POOL", "kv", blob(KV, parted, 30)) == "GAP stored up to 20"
    assert put(conn, "m", [KV], parted, 15)[b"from"] == 20
    for tokens in (longer, parted):
        assert conn.call("PROMPT.READ", match(conn, "m", tokens)[b"lease"]) == runs(KV, tokens, range(len(tokens)))


def test_salts_are_bytes(conn):
    salts = [b"\0", b"\0\0", b"\xff" * 1024, b"\r\n", b" ", b"SALT"]
    for i, salt in enumerate(salts):
        put(conn, "m", [KV], TOKENS[: i + 1], 0, "SALT", salt)
    for i, salt in enumerate(salts):
        assert match(conn, "m", TOKENS, "SALT", salt, "LEASE", 0)[b"matched"] == i + 1
    assert conn.call("PROMPT.REVOKE", "SALT", b"\0") == 1
    assert [match(conn, "m", TOKENS, "SALT", salt, "LEASE", 0)[b"matched"] for salt in salts] == [0, 2, 3, 4, 5, 6]
    assert match(conn, "m", TOKENS, "SALT", "", "LEASE", 0)[b"matched"] == 60
    assert refused(conn, "PROMPT.REVOKE", "SALT", "s" * 1025) == "ERR SALT is longer than 1024 bytes"


def test_puts_beside_forget_and_revoke_with_kills(pion):
    """Whatever they do to each other, a match gives right rows, and so it does after SIGKILL at any moment."""
    tokens = list(range(200))
    for life in range(4):
        stop = threading.Event()
        problems: list[str] = []

        def client(number: int) -> None:
            mine = tokens if number % 2 else [*tokens[:120], 5000 + number, *tokens[121:]]
            step = 0
            try:
                with Connection(pion.port) as conn:
                    while not stop.is_set():
                        step += 1
                        conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
                        try:
                            put(conn, "m", [KV], mine[: 40 + step % 160])
                            found = match(conn, "m", mine)
                            if found[b"matched"] and conn.call("PROMPT.READ", found[b"lease"]) != runs(KV, mine, range(found[b"matched"])):
                                problems.append("wrong rows")
                            if step % 3 == 0:
                                conn.call("PROMPT.FORGET", "m", ids(mine[: 1 + (7 * step) % 190]))
                            if step % 17 == 0:
                                conn.call("PROMPT.REVOKE", *(("SALT", "") if number % 2 else ("MODEL", "m")))
                        except ServerError as error:
                            if not str(error).startswith(("REVOKED", "NOMODEL", "GAP", "ERR what is stored of this prompt kept changing")):
                                problems.append(str(error))
            except (OSError, EOFError):
                pass  # killed
            except Exception as error:  # noqa: BLE001 - told by the test's own thread
                problems.append(repr(error))

        threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        stop.wait(0.4 + 0.1 * life)
        pion.kill()
        stop.set()
        for thread in threads:
            thread.join()
        assert not problems, problems[:5]
        pion.start()
        with Connection(pion.port) as conn:
            conn.call("PROMPT.MODEL", "SET", "m", manifest(KV))
            for number in range(4):
                mine = tokens if number % 2 else [*tokens[:120], 5000 + number, *tokens[121:]]
                found = match(conn, "m", mine)
                if found[b"matched"]:
                    assert conn.call("PROMPT.READ", found[b"lease"]) == runs(KV, mine, range(found[b"matched"]))
            info = as_map(conn.call("PROMPT.INFO"))
            assert info[b"prompt_corrupt_segments"] == 0
