"""The client: lanes, typed replies, verification, deadlines, the breaker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from real_server import BINARY, start_real

from pion.client import Client
from pion.errors import Corrupt, DataError, Gap, Mismatch, NoLease, NoModel, ReplyError, Unavailable
from pion.pools import Pool, Want, as_tokens, finite, non_finite_run
from pion.replies import Media

POOL = Pool("attention", 3, ("k", "v"), ((640, 320),) * 3, "f16")
MANIFEST = {"engine": "test", "pools": [POOL.to_json()]}


def blob(tokens, start: int, stop: int, pool: Pool = POOL, seed: int = 7) -> np.ndarray:
    """Rows [start, stop), each a function of (layer, side, token)."""
    parts = []
    for layer in range(pool.layers):
        for side in range(len(pool.sides)):
            every = np.random.default_rng([seed, layer, side]).integers(
                0, 60, (len(tokens), pool.row(layer, side)), dtype=np.uint8
            )
            parts.append(every[start:stop].reshape(-1))
    return np.concatenate(parts)


def read(client: Client, lease: int, start: int, stop: int, pool: Pool = POOL) -> tuple[np.ndarray, str]:
    out = np.zeros((stop - start) * pool.token_bytes(), np.uint8)
    targets, at = [], 0
    for layer in range(pool.layers):
        sides = []
        for side in range(len(pool.sides)):
            size = (stop - start) * pool.row(layer, side)
            sides.append(memoryview(out[at : at + size]))
            at += size
        targets.append(sides)
    fetch = client.read_into(lease, [Want(pool, start, stop, targets)])
    assert fetch.bytes == out.size
    return out, fetch.lane


TOKENS = list(range(1000, 1300))


@pytest.fixture(params=["tcp", "unix", "shm"])
def client(server, request):
    with Client(port=server.port, lane=request.param, timeout_s=30, connect_timeout_s=10) as c:
        yield c


def test_rows_come_back_bit_equal_wherever_they_are_cut(client):
    """Three PUTs, read whole and cut inside each segment, over every lane."""
    client.model_set("m", MANIFEST)
    for start, stop in ((0, 120), (120, 121), (121, 300)):
        put = client.put("m", TOKENS[:stop], start, {"attention": blob(TOKENS, start, stop)}, prefill_ms=12.5)
        assert (put.start, put.stop) == (start, stop) and put.segment is not None
    for start, stop in ((0, 300), (0, 1), (0, 119), (119, 122), (60, 250), (299, 300)):
        match = client.match("m", TOKENS)
        assert match.matched == 300 and match.lease is not None
        rows, lane = read(client, match.lease, start, stop)
        assert np.array_equal(rows, blob(TOKENS, start, stop))
        assert lane == client.lane
    assert client.lane == {"tcp": "tcp", "unix": "unix", "shm": "shm"}[client._wanted_lane]


def test_large_rows_come_back(client):
    """8 MiB of rows: the shm lane reads files, and chunks of 64 KiB are verified."""
    pool = Pool("attention", 2, ("k", "v"), 8192, "f16")
    tokens = list(range(256))
    client.model_set("big", {"engine": "test", "pools": [pool.to_json()]})
    want = blob(tokens, 0, 256, pool)
    assert client.put("big", tokens, 0, {"attention": want}).stop == 256
    for start, stop in ((0, 256), (3, 201)):
        match = client.match("big", tokens)
        rows, _ = read(client, match.lease, start, stop, pool)
        assert np.array_equal(rows, blob(tokens, start, stop, pool))


def test_rows_that_no_bulk_may_hold_go_through_a_memory_file(client, monkeypatch):
    monkeypatch.setattr("pion.client.LARGEST_BULK", 1000)
    client.model_set("m", MANIFEST)
    if client.lane == "tcp":
        with pytest.raises(DataError, match="Unix socket only"):
            client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 50)})
        return
    assert client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 50)}).tokens == 50
    rows, _ = read(client, client.match("m", TOKENS).lease, 0, 50)
    assert np.array_equal(rows, blob(TOKENS, 0, 50))


def test_the_lane_is_chosen_by_the_client(server):
    with Client(port=server.port) as client:
        client.ping()
        assert client.lane == "shm"


def test_known_tokens_are_not_stored_twice_and_first_rows_stay(client):
    client.model_set("m", MANIFEST)
    client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 50)})
    again = client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 50, seed=8)})
    assert again.tokens == 0 and again.segment is None
    rows, _ = read(client, client.match("m", TOKENS).lease, 0, 50)
    assert np.array_equal(rows, blob(TOKENS, 0, 50))


def test_match_is_exact_to_the_token_and_names_the_fork(client):
    client.model_set("m", MANIFEST)
    client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 50)})
    other = [*TOKENS[:17], 5, *TOKENS[18:50]]
    match = client.match("m", other)
    assert match.matched == 17 and match.fork == (17, TOKENS[17])
    assert client.match("m", TOKENS[:50], most=30).matched == 30
    assert client.match("m", TOKENS[:50], salt="other").matched == 0
    asked = client.match("m", TOKENS[:50], lease_ms=0)
    assert asked.matched == 50 and asked.lease is None


def test_errors_are_typed(client):
    with pytest.raises(NoModel):
        client.match("nobody", TOKENS)
    client.model_set("m", MANIFEST)
    changed = {**MANIFEST, "type_k": "q8_0"}
    with pytest.raises(Mismatch) as mismatch:
        client.model_set("m", changed)
    assert "type_k" in mismatch.value.text
    with pytest.raises(Gap) as gap:
        client.put("m", TOKENS[:50], 20, {"attention": blob(TOKENS, 20, 50)})
    assert gap.value.stored_to == 0
    with pytest.raises(NoLease):
        read(client, 12345, 0, 1)
    with pytest.raises(ReplyError):
        client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 49)})
    with pytest.raises(Mismatch):
        client.match("m", TOKENS, manifest_hash="00" * 32)
    # Errors are replies: the connection still serves.
    assert client.put("m", TOKENS[:2], 0, {"attention": blob(TOKENS, 0, 2)}).stop == 2
    assert client.match("m", TOKENS, manifest_hash=client.model_get("m")["hash"]).matched == 2


def test_forget_revoke_and_lists(client):
    client.model_set("m", MANIFEST)
    client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 50)})
    client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 50)}, salt="s")
    assert client.model_list() == ["m"]
    assert client.model_get("m")["json"]["engine"] == "test"
    assert client.forget("m", TOKENS[:10]) == 50
    assert client.match("m", TOKENS, salt="s").matched == 50
    client.revoke_salt("s")
    assert client.match("m", TOKENS, salt="s").matched == 0
    client.put("m", TOKENS[:5], 0, {"attention": blob(TOKENS, 0, 5)})
    client.revoke_model("m")
    client.model_set("m", MANIFEST)
    assert client.match("m", TOKENS).matched == 0


def test_a_lease_belongs_to_its_connection_and_ends_with_release(client, server):
    client.model_set("m", MANIFEST)
    client.put("m", TOKENS[:50], 0, {"attention": blob(TOKENS, 0, 50)})
    match = client.match("m", TOKENS)
    with Client(port=server.port, lane="tcp", timeout_s=30, connect_timeout_s=10) as other:
        with pytest.raises(NoLease):
            read(other, match.lease, 0, 10)
        assert not other.release(match.lease)
    assert client.release(match.lease)
    assert not client.release(match.lease)


def test_one_claimant_and_the_others_wait_for_its_puts(server):
    with Client(port=server.port, timeout_s=30, connect_timeout_s=10) as first, Client(port=server.port, timeout_s=30, connect_timeout_s=10) as second:
        first.model_set("m", MANIFEST)
        assert first.match("m", TOKENS, lease_ms=0, claim_ms=20_000, wait_ms=0).claimed
        assert not second.match("m", TOKENS, lease_ms=0, claim_ms=20_000, wait_ms=50).claimed
        got = []
        waiter = threading.Thread(
            target=lambda: got.append(second.match("m", TOKENS, lease_ms=0, claim_ms=20_000, wait_ms=8_000))
        )
        waiter.start()
        first.put("m", TOKENS[:100], 0, {"attention": blob(TOKENS, 0, 100)})
        waiter.join(15)
        assert got and got[0].matched == 100 and not got[0].claimed
        first.close()  # a claimant that is gone is taken over
        assert second.match("m", TOKENS, lease_ms=0, claim_ms=20_000, wait_ms=8_000).claimed


def test_pictures_are_told_apart_by_their_whole_digest():
    """64 rows of a picture at 50: the same digest goes on, another one or plain padding ends the match there."""
    if not BINARY.exists():
        pytest.skip("pion-server is not built")
    server = start_real()
    try:
        with Client(port=server.port, timeout_s=30, connect_timeout_s=10) as client:
            client.model_set("m", MANIFEST)
            ids = [*TOKENS[:50], *[0] * 64, *TOKENS[50:86]]
            digest = bytes(range(32))
            client.put("m", ids, 0, {"attention": blob(ids, 0, 150)}, media=[Media(50, 64, digest)])

            def matched(*media: Media) -> int:
                return client.match("m", ids, lease_ms=0, media=media).matched

            assert matched(Media(50, 64, digest)) == 150
            for same_tail in (2, 4, 8):
                assert matched(Media(50, 64, bytes(32 - same_tail) + digest[-same_tail:])) == 50
            assert matched() == 50
    finally:
        server.stop()


# -- what must not happen ----------------------------------------------------------------------


def stored(fake, **options) -> Client:
    client = Client(port=fake.port, **options)
    client.model_set("m", MANIFEST)
    client.put("m", TOKENS, 0, {"attention": blob(TOKENS, 0, 300)})
    return client


def test_a_flipped_bit_in_a_mapped_file_is_an_error(fake):
    client = stored(fake, lane="shm")
    match = client.match("m", TOKENS)
    fake.faults.add("flip")
    with pytest.raises(DataError, match="damaged"):
        read(client, match.lease, 0, 300)


def test_rows_read_under_a_lease_that_ran_out_are_thrown_away(fake):
    client = stored(fake, lane="shm")
    match = client.match("m", TOKENS)
    fake.faults.add("lease")
    with pytest.raises(DataError, match="lease"):
        read(client, match.lease, 0, 300)


def test_a_server_without_descriptors_is_read_over_its_socket(fake):
    client = stored(fake, lane="auto")
    fake.faults.add("no_attach")
    rows, lane = read(client, client.match("m", TOKENS).lease, 0, 300)
    assert lane == "unix" and np.array_equal(rows, blob(TOKENS, 0, 300))


@pytest.mark.parametrize("lane", ["tcp", "shm"])
def test_a_corrupt_segment_is_that_error_and_the_connection_goes_on(fake, lane):
    client = stored(fake, lane=lane)
    match = client.match("m", TOKENS)
    fake.faults.add("corrupt")
    with pytest.raises(Corrupt):
        read(client, match.lease, 0, 300)
    client.ping()


def test_passed_descriptors_cannot_be_written_through(fake):
    client = stored(fake, lane="shm")
    read(client, client.match("m", TOKENS).lease, 0, 300)
    fds = list(client._files._fds.values())
    assert fds
    with pytest.raises(OSError):
        os.pwrite(fds[0], b"x", 0)


def test_a_stale_connection_is_replaced_once(fake):
    client = Client(port=fake.port)
    client.ping()
    fake.cut()
    client.ping()


@pytest.mark.parametrize("lane", ["tcp", "shm"])
def test_a_put_on_a_stale_connection_is_sent_again_whole(fake, lane):
    pool = Pool("attention", 2, ("k", "v"), 8192, "f16")
    client = Client(port=fake.port, lane=lane)
    client.model_set("big", {"engine": "test", "pools": [pool.to_json()]})
    ids = list(range(64))
    client.put("big", ids[:32], 0, {"attention": blob(ids, 0, 32, pool)})
    fake.cut()
    assert client.put("big", ids, 32, {"attention": blob(ids, 32, 64, pool)}).stop == 64
    rows, _ = read(client, client.match("big", ids).lease, 0, 64, pool)
    assert np.array_equal(rows, blob(ids, 0, 64, pool))


def test_a_password_is_sent_and_a_wrong_one_is_no_outage():
    from fake_server import FakeServer

    server = FakeServer(password="sesame")
    with Client(port=server.port, password="sesame") as good:
        good.ping()
        assert good.lane == "shm"
    with Client(port=server.port, password="wrong") as bad, pytest.raises(ReplyError, match="WRONGPASS"):
        bad.ping()
    assert bad.breaker.reason is None
    server.close()


def test_a_frozen_server_costs_one_deadline_then_nothing_and_is_found_again(caplog):
    """SIGSTOP keeps the sockets open: the first call waits its deadline, the next ones do not wait."""
    script = Path(__file__).with_name("fake_server.py")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline().split()[0])
        client = Client(port=port, timeout_s=0.4, connect_timeout_s=0.4)
        client.breaker.cooldown_s = 0.2
        client.ping()
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)  # until it has really stopped
        calls = 0
        with pytest.raises(Unavailable, match="in time"):
            client.ping()
        before = threading.active_count()
        for _ in range(19):
            with pytest.raises(Unavailable):
                client.ping()
            calls += 1
        # Nobody but a probe's own thread talks to the server while the breaker is open.
        assert client._conn is None and threading.active_count() <= before + 1 and calls == 19
        assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1
        process.send_signal(signal.SIGCONT)
        until = time.monotonic() + 20
        while True:
            try:
                client.ping()
                break
            except Unavailable:
                assert time.monotonic() < until, "the server was never found again"
                time.sleep(0.05)
    finally:
        process.kill()
        process.wait()


def test_a_server_that_is_not_there_is_one_warning(caplog):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = Client(port=port)
    for _ in range(5):
        with pytest.raises(Unavailable):
            client.ping()
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1


# -- pools -------------------------------------------------------------------------------------


def brute_put(pool: Pool, start: int, stop: int) -> set[int]:
    if pool.rule == "all":
        return set(range(start, stop))
    return set(range(max(start, stop - pool.window), stop)) | set(range(start, min(pool.keep, stop)))


def brute_match(pool: Pool, m: int) -> set[int]:
    if pool.rule == "all":
        return set(range(m))
    return set(range(max(0, m - pool.window), m)) | set(range(min(pool.keep, m)))


@pytest.mark.parametrize("window,keep", [(1, 0), (4, 0), (4, 2), (3, 5), (8, 1)])
def test_ranges_of_window_pools_equal_the_rule_written_out(window, keep):
    pool = Pool("w", 1, ("k",), 4, "f16", "window", window, keep)
    for stop in range(1, 20):
        got = [i for a, b in pool.match_ranges(stop) for i in range(a, b)]
        assert got == sorted(brute_match(pool, stop)), stop
        for start in range(stop):
            got = [i for a, b in pool.put_ranges(start, stop) for i in range(a, b)]
            assert got == sorted(brute_put(pool, start, stop)), (start, stop)


@pytest.mark.parametrize("dtype,size", [("f16", 2), ("bf16", 2), ("f32", 4), ("q8_0", 34), ("q4_1", 20)])
def test_every_kind_of_row_is_checked_for_numbers(dtype, size):
    rows = np.zeros(size * 64, np.uint8)
    assert finite(dtype, rows)
    rows[size * 40 : size * 40 + 4] = 0xFF
    assert not finite(dtype, rows)


def test_a_bad_run_is_named():
    pool = Pool("a", 2, ("k", "v"), 8, (("f16", "u8"), ("f16", "f32")), "all")
    rows = np.zeros(4 * 32, np.uint8)
    rows[32 + 3] = 0xFF  # integers have no NaN
    assert non_finite_run(pool, 4, rows) is None
    rows[3 * 32 + 2 : 3 * 32 + 4] = 0xFF
    assert non_finite_run(pool, 4, rows) == (1, 1)


def test_token_ids_are_checked():
    assert as_tokens([1, 2**32 - 1]).dtype == np.dtype("<u4")
    for bad in ([-1], [2**32], [[1]], [1.5]):
        with pytest.raises((ValueError, TypeError)):
            as_tokens(bad)
