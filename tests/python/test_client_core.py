"""The core that all adapters share, on an engine whose every row is checked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from real_server import BINARY, start_real
from toy_engine import ToyEngine

from pion.client import Client, Media
from pion.core import PromptCore, common_prefix
from pion.identity import differing_fields
from pion.measure import BreakEven
from pion.tokens import seam

IDS = np.random.default_rng(3).integers(0, 50_000, 400)


def core(server, engine=None, *, measured=False, **options) -> PromptCore:
    """A core whose hits are taken whatever they cost: a toy's prefill takes no time at all."""
    one = PromptCore(engine or ToyEngine(), Client(port=server.port, timeout_s=30, connect_timeout_s=10), min_store=8, **options)
    if not measured:
        one.break_even = BreakEven(samples=1 << 60)
    return one


class Live(ToyEngine):
    """A toy that knows what it holds."""

    def resident(self):
        return self.tokens

    def keep_resident(self, length):
        self.tokens = self.tokens[:length]
        return True


KINDS = [{}, {"window": 24}, {"recurrent": True}, {"window": 40, "recurrent": True}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_is_prefilled_once_and_restored_by_another(server, kind):
    first = core(server, ToyEngine(**kind))
    cold = first.acquire(IDS)
    assert (cold.matched, cold.fed, cold.tokens) == (0, 400, 400) and cold.claimed
    assert first.flush() and cold.stored == 400
    second = core(server, ToyEngine(**kind))
    warm = second.acquire(IDS)
    # At least the last token is evaluated; recurrent state stands at ends of steps only.
    at = 399 if not kind.get("recurrent") else (399 // second.step) * second.step
    assert warm.matched == at and warm.fed == 400 - at and sum(second.engine.fed) == 400 - at
    assert np.array_equal(second.engine.tokens, IDS) and warm.lane == "shm"
    assert warm.bytes_read > 0 and warm.cached_tokens == at


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_prompt_is_cut_at_any_token(server, kind):
    first = core(server, ToyEngine(**kind))
    first.prefill(IDS)
    first.flush()
    for cut in (1, 7, 100, 255, 256, 257, 300):
        other = core(server, ToyEngine(**kind))
        ids = np.concatenate([IDS[:cut], [99_999, 99_998]])
        report = other.acquire(ids)
        assert report.matched == cut and report.fed == 2
        assert report.fork.position == cut and report.fork.stored_id == IDS[cut]
        assert report.fork.stored_text == f"<{IDS[cut]}>" and report.fork.asked_text == "<99999>"
        assert "parts from what is stored" in report.why


def test_steps_are_multiples_of_the_block_and_no_longer_than_a_window():
    assert core_step(ToyEngine(block=512)) == 512
    assert core_step(ToyEngine(block=16)) == 256
    assert core_step(ToyEngine(block=16, window=100)) == 96
    assert core_step(ToyEngine(block=512, window=100)) == 100
    with pytest.raises(ValueError, match="multiple"):
        PromptCore(ToyEngine(block=16), Client(port=1), step=24)


def core_step(engine):
    return PromptCore(engine, Client(port=1)).step


def test_prefill_warms_without_generating_and_is_idempotent(server):
    first = core(server)
    assert first.prefill(IDS[:33]).fed == 33
    first.flush()
    second = core(server)
    report = second.prefill(IDS[:33])
    assert (report.matched, report.fed) == (33, 0) and second.engine.tokens.size == 0


def test_two_conversations_alternate_and_both_stay(server):
    """A shared head and two histories on one context: every switch is one read."""
    a = np.concatenate([IDS[:200], IDS[200:300]])
    b = np.concatenate([IDS[:200], IDS[300:400]])
    one = core(server)
    for turn in range(4):
        for ids in (a, b):
            report = one.acquire(ids)
            one.flush()
            if turn == 0:  # the shared head is stored once
                assert report.stored == (300 if ids is a else 100)
            else:
                assert report.matched == 299 and report.fed == 1
            assert np.array_equal(one.engine.tokens, ids)


def test_namespaces_do_not_see_each_other(server):
    first = core(server, namespace="alice")
    first.acquire(IDS)
    first.flush()
    assert core(server, namespace="bob").acquire(IDS).matched == 0
    assert core(server).acquire(IDS).matched == 0
    assert core(server).acquire(IDS, namespace="alice").matched == 399


def test_a_changed_identity_is_never_a_hit_and_the_field_is_named(server):
    first = core(server)
    first.acquire(IDS)
    first.flush()
    other = ToyEngine()
    other.extra = {"rope": {"base": 50_000}}
    report = core(server, other).acquire(IDS)
    assert report.matched == 0 and report.fed == 400 and report.mismatch == ["rope"]
    # Under one fixed name the server itself refuses, and nothing is stored there either.
    named = core(server, model="fixed")
    named.acquire(IDS)
    named.flush()
    report = core(server, other, model="fixed").acquire(IDS)
    assert report.matched == 0 and "rope" in report.why and report.stored == 0


def test_model_changed_is_a_miss_even_when_the_engine_cannot_tell(server):
    one = core(server)
    one.acquire(IDS)
    one.flush()
    one.model_changed()
    assert one.acquire(IDS).matched == 0
    one.flush()
    assert one.acquire(IDS[:100]).cached_tokens == 99


def test_switched_off_sends_nothing(fake):
    one = core(fake, enabled=False)
    report = one.acquire(IDS)
    assert report.fed == 400 and report.why == "switched off" and not fake.commands
    one.store_live()
    one.matched_tokens(IDS)
    assert not fake.commands


def test_connecting_early_leaves_nothing_to_do_but_the_prompt(fake):
    one = core(fake)
    assert one.connect() and one.client.lane == "shm"
    before = len(fake.commands)
    one.acquire(IDS[:5])
    assert fake.commands[before:] == ["PROMPT.MATCH"]
    fake.close()
    assert not core(fake).connect()
    assert not core(fake, enabled=False).connect()


def test_eight_at_once_prefill_once(server):
    """One claims, the others wait and are served."""
    reports, threads = [], []

    def run():
        one = core(server, wait_ms=20_000)
        one.engine.on_feed = lambda engine: time.sleep(0.02)
        reports.append(one.acquire(IDS[:384]))
        one.flush()

    for _ in range(8):
        threads.append(threading.Thread(target=run))
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(reports) == 8
    assert sum(r.fed > 1 for r in reports) == 1, [(r.matched, r.fed, r.claimed) for r in reports]
    assert sum(r.stored for r in reports) == 384


def test_a_claimant_that_dies_is_taken_over_where_its_last_put_ended(server):
    dying = core(server, step=64)

    def die(engine):
        if engine.tokens.size >= 192:
            dying.storer.flush(10)
            dying.close()
            raise KeyboardInterrupt

    dying.engine.on_feed = die
    with pytest.raises(KeyboardInterrupt):
        dying.acquire(IDS)
    assert dying.engine.tokens.size == 0  # no half state
    heir = core(server, step=64)
    report = heir.acquire(IDS)
    assert report.matched == 192 and report.fed == 208 and report.claimed


PATHS = [str(Path(__file__).resolve().parents[2] / "python"), str(Path(__file__).parent)]
KILLED = """
import os, signal, sys
sys.path[:0] = {paths!r}
import numpy as np
from toy_engine import ToyEngine
from pion.client import Client, Media
from pion.core import PromptCore
core = PromptCore(ToyEngine(), Client(port={port}, timeout_s=10), min_store=8, step=64)
def die(engine):
    if engine.tokens.size >= 256:
        core.flush(10)
        os.kill(os.getpid(), signal.SIGKILL)
core.engine.on_feed = die
core.acquire(np.random.default_rng(3).integers(0, 50_000, 400))
"""


def test_a_process_killed_in_the_middle_of_a_prefill_loses_at_most_a_step(server):
    """SIGKILL at 64 %: the next process takes the claim over and goes on where the last PUT ended."""
    script = KILLED.format(paths=PATHS, port=server.port)
    process = subprocess.run([sys.executable, "-c", script], timeout=60)
    assert process.returncode == -signal.SIGKILL
    report = core(server, step=64).acquire(IDS)
    assert report.matched == 256 and report.fed == 144 and report.claimed


def test_what_was_stored_survives_sigkill_of_server_and_client():
    """Both are gone; another process starts at the first new token, every row as it was."""
    if not BINARY.exists():
        pytest.skip("pion-server is not built")
    first_server = start_real()
    try:
        script = KILLED.format(paths=PATHS, port=first_server.port)
        assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == -signal.SIGKILL
    finally:
        first_server.stop(kill=True)
    second_server = start_real(first_server.directory)
    try:
        report = core(second_server, step=64).acquire(IDS)
        assert report.matched == 256 and report.fed == 144
    finally:
        second_server.stop()


def test_the_same_client_finds_the_server_again_after_its_restart():
    if not BINARY.exists():
        pytest.skip("pion-server is not built")
    server = start_real()
    port = server.port
    one = core(server)
    one.acquire(IDS)
    one.flush()
    server.stop(kill=True)
    again = start_real(server.directory, port=port)
    try:
        one.engine.clear()
        assert one.acquire(IDS).matched == 399
    finally:
        again.stop()


@pytest.mark.parametrize("kind", [{}, {"window": 24}, {"window": 24, "keep": 4}, {"window": 24, "recurrent": True}])
@pytest.mark.parametrize("seed", [1, 2])
def test_random_conversations_get_the_right_rows_and_all_of_them(kind, seed):
    """Branching prompts, cut and extended at random; the toy checks every row, and attention must match to the token."""
    if not BINARY.exists():
        pytest.skip("pion-server is not built")
    server = start_real()
    try:
        rng = np.random.default_rng(seed)
        prompts: list[np.ndarray] = [rng.integers(0, 9, 120)]
        stored: list[np.ndarray] = []
        engines = [core(server, ToyEngine(**kind), step=16) for _ in range(2)]
        for _ in range(50):
            base = prompts[rng.integers(len(prompts))]
            cut = int(rng.integers(1, base.size + 1))
            ids = np.concatenate([base[:cut], rng.integers(0, 9, rng.integers(0, 80))])
            prompts.append(ids)
            one = engines[rng.integers(2)]
            boundaries = sorted(rng.integers(1, ids.size + 1, 2).tolist())
            report = one.acquire(ids, boundaries=boundaries)
            assert np.array_equal(one.engine.tokens, ids)
            best = max((common_prefix(s, ids[:-1]) for s in stored), default=0)
            assert report.matched <= best
            if not kind.get("recurrent"):
                assert report.matched == best, (report, best)
            one.flush()
            held = one.matched_tokens(ids)
            assert held >= report.matched
            stored.append(ids[:held])
    finally:
        server.stop()


def test_a_forked_child_uses_connections_and_a_thread_of_its_own(server):
    one = core(server)
    one.acquire(IDS[:50])
    one.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            report = one.acquire(IDS[100:200])
            code = 0 if one.flush(20) and report.stored == 100 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert one.acquire(IDS[:50]).matched == 49
    assert one.matched_tokens(IDS[100:200]) == 100


def test_store_live_keeps_what_was_generated(server):
    one = core(server, Live())
    one.acquire(IDS[:100])
    one.flush()
    one.engine.feed(np.asarray(IDS[100:140], "<u4"), last=True)  # the reply, token ids as generated
    report = one.store_live()
    one.flush()
    assert report.matched == 100 and report.stored == 40
    assert core(server).acquire(IDS[:150]).matched == 140


def test_second_sight_stores_what_was_asked_before(server):
    first = core(server, second_sight=True, step=64)
    first.acquire(IDS[:128])
    first.flush()
    assert core(server).matched_tokens(IDS[:128]) == 0
    second = core(server, second_sight=True, step=64)
    second.acquire(np.concatenate([IDS[:128], IDS[300:364]]))
    second.flush()
    assert core(server).matched_tokens(IDS) == 128


def test_boundaries_are_stored_for_models_that_can_be_cut_only_there(server):
    """Turn starts: the reply without its thinking still matches up to where it began."""
    first = core(server, ToyEngine(recurrent=True))
    first.acquire(IDS[:150], boundaries=(90,))
    first.flush()
    other = core(server, ToyEngine(recurrent=True))
    report = other.acquire(np.concatenate([IDS[:90], IDS[200:260]]), boundaries=(90,))
    assert report.matched == 90


def test_placeholders_of_pictures_end_what_is_stored_and_matched(server):
    class WithMedia(ToyEngine):
        def media_start(self, ids):
            where = np.nonzero(np.asarray(ids) == 7)[0]
            return int(where[0]) if where.size else None

    ids = np.concatenate([IDS[:60], [7] * 10, IDS[60:100]])
    first = core(server, WithMedia())
    assert first.acquire(ids).fed == 110
    first.flush()
    second = core(server, WithMedia())
    report = second.acquire(ids)
    assert report.matched == 60 and report.fed == 50
    assert core(server, ToyEngine()).matched_tokens(ids) == 60


class Pictures(ToyEngine):
    """Id 7 stands for a piece of a picture."""

    def media_start(self, ids):
        where = np.nonzero(np.asarray(ids) == 7)[0]
        return int(where[0]) if where.size else None


WITH_PICTURE = np.concatenate([IDS[:60], [7] * 20, IDS[60:140]])


def test_pictures_with_a_digest_are_stored_and_told_apart(one_server):
    server = one_server
    if not BINARY.exists():
        pytest.skip("the small model of the wire knows no media")
    picture, other = Media(60, 20, b"a" * 32), Media(60, 20, b"a" * 31 + b"b")
    first = core(server, Pictures(), step=16)
    assert first.acquire(WITH_PICTURE, media=[picture]).stored <= 160
    assert first.flush() and first.last.stored == 160
    assert all(not 60 < end < 80 for end in np.cumsum(first.last.steps))
    assert core(server, Pictures()).acquire(WITH_PICTURE, media=[picture]).matched == 159
    assert core(server, Pictures()).acquire(WITH_PICTURE, media=[other]).matched == 60
    assert core(server, Pictures()).acquire(WITH_PICTURE).matched == 60  # a bare placeholder
    assert core(server, Pictures()).matched_tokens(WITH_PICTURE[:70]) == 60
    assert core(server, Pictures()).matched_tokens(WITH_PICTURE, media=[picture]) == 160


def test_a_second_picture_without_a_digest_ends_what_is_stored(one_server):
    server = one_server
    ids = np.concatenate([WITH_PICTURE, [7], IDS[140:180]])
    first = core(server, Pictures())
    assert first.acquire(ids, media=[Media(60, 20, b"x")]).fed == ids.size
    assert first.flush() and first.last.stored == 160


def test_a_live_picture_is_no_other_picture(fake):
    class LivePictures(Live, Pictures):
        pass

    one = core(fake, LivePictures(), store=False)
    one.acquire(WITH_PICTURE, media=[Media(60, 20, b"one")])
    assert one.acquire(WITH_PICTURE, media=[Media(60, 20, b"two")]).resident == 60
    assert one.acquire(WITH_PICTURE, media=[Media(60, 20, b"two")]).resident == 159
    assert one.acquire(WITH_PICTURE[:70], media=[Media(60, 10, b"two")]).resident == 60


def test_media_out_of_order_or_outside_is_refused(fake):
    one = core(fake, Pictures())
    for wrong in ([Media(50, 20, b"a"), Media(60, 5, b"b")], [Media(150, 11, b"a")], [Media(3, 0, b"a")], [Media(3, 1, b"")]):
        with pytest.raises(ValueError, match="media at"):
            one.acquire(WITH_PICTURE, media=wrong)


def test_fetch_restores_only_and_store_held_stores_only(server):
    first = core(server)
    first.acquire(IDS[:200])
    first.flush()
    other = core(server)
    assert other.fetch(IDS[:150]).matched == 150 and np.array_equal(other.engine.tokens, IDS[:150])
    assert other.fetch(IDS[:150], more_than=150).matched == 0 and other.engine.tokens.size == 0
    assert other.engine.fed == []
    other.engine.feed(IDS[:260].astype("<u4"), last=False)
    report = other.store_held(IDS[:260])
    assert other.flush() and (report.matched, report.stored) == (200, 60)
    assert other.stored_under("")


def test_context_size_is_not_identity_and_bounds_the_match(server):
    first = core(server)
    first.acquire(IDS)
    first.flush()
    small = core(server, ToyEngine(n_ctx=300), room=50)
    report = small.acquire(IDS[:300])
    assert report.matched == 250 and report.fed == 50
    with pytest.raises(ValueError, match="context holds 300"):
        small.acquire(IDS)


def test_resident_tokens_are_not_fetched_again(fake):
    one = core(fake, Live())
    one.acquire(IDS[:200])
    one.flush()
    report = one.acquire(IDS[:206])
    assert (report.resident, report.matched, report.fed) == (200, 0, 6)
    one.flush()
    assert core(fake).matched_tokens(IDS) == 200  # a tail shorter than min_store waits


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["flip", "lease", "finish", "shape"])
def test_a_failed_restore_leaves_no_half_state(fake, fault, caplog):
    first = core(fake)
    first.acquire(IDS)
    first.flush()
    second = core(fake)
    if fault == "finish":
        second.engine.fail_finish = True
    elif fault == "shape":
        begin = second.engine.begin_restore

        def wrong(length):
            wants = begin(length)
            wants[0].targets[0][0] = memoryview(bytearray(3))
            return wants

        second.engine.begin_restore = wrong
        with pytest.raises(ValueError, match="3 bytes"):
            second.acquire(IDS)
        assert second.engine.tokens.size == 0
        return
    else:
        fake.faults.add(fault)
    report = second.acquire(IDS)
    assert report.matched == 0 and report.fed == 400 and "restore failed" in report.why
    assert np.array_equal(second.engine.tokens, IDS)
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1


def test_a_corrupt_segment_is_asked_for_again_once(fake):
    first = core(fake)
    first.acquire(IDS)
    first.flush()
    fake.faults.add("corrupt")
    report = core(fake).acquire(IDS)
    assert report.matched == 399  # the fake has mended it; a real server has dropped it and matches less


def test_rows_that_are_no_numbers_are_never_stored(fake, caplog):
    bad = core(fake, ToyEngine(dtype="f16"))
    bad.engine.nan = True
    report = bad.acquire(IDS)
    bad.flush()
    assert report.stored == 0 and bad.storer.refused >= 1
    assert "PROMPT.PUT" not in fake.commands
    assert any("not finite" in r.getMessage() for r in caplog.records)


def test_a_restored_state_with_bad_logits_is_cleared_and_prefilled(fake):
    first = core(fake)
    first.acquire(IDS)
    first.flush()
    second = core(fake)
    answers = iter([False])
    second.engine.logits_finite = lambda: next(answers)
    report = second.acquire(IDS)
    assert report.matched == 0 and report.fed == 400 and "not finite" in report.why


def test_a_server_that_vanishes_is_one_warning_and_no_error(fake, caplog):
    one = core(fake)
    one.acquire(IDS[:100])
    one.flush()
    fake.close()
    for _ in range(3):
        report = one.acquire(IDS[:200])
        assert report.fed == 200 - report.cached_tokens and report.why
        one.flush()
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1


@pytest.mark.parametrize("moment", ["PROMPT.LOCATE", "PROMPT.READ"])
def test_a_server_stopped_in_the_middle_of_a_read_costs_its_deadline(moment):
    """SIGSTOP right after the lease was given: cleared, prefilled, no half state."""
    script = Path(__file__).with_name("fake_server.py")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline().split()[0])
        first = PromptCore(ToyEngine(), Client(port=port, timeout_s=10), min_store=8)
        first.acquire(IDS)
        first.flush()
        lane = "shm" if moment == "PROMPT.LOCATE" else "tcp"
        second = PromptCore(ToyEngine(), Client(port=port, timeout_s=0.4, lane=lane), min_store=8)
        begin = second.engine.begin_restore

        def stop_then_begin(length):
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            return begin(length)

        second.engine.begin_restore = stop_then_begin
        report = second.acquire(IDS)
        assert report.matched == 0 and report.fed == 400 and "in time" in report.why
        assert np.array_equal(second.engine.tokens, IDS)
    finally:
        process.kill()
        process.wait()


def test_a_poor_server_does_not_hold_up_the_prefill(fake):
    """More waiting than the bound: the rest of the chain is dropped, the call goes on."""
    one = core(fake, step=64)
    one.storer._most = 1
    fake.cond.acquire()  # the server answers nothing while this is held
    try:
        one.client.timeout_s = one.storer.client.timeout_s = 0.3
        report = one.acquire(IDS)
        assert report.fed == 400
    finally:
        fake.cond.release()


def test_heads_that_keep_parting_early_are_warned_of_once(fake, caplog):
    one = core(fake)
    for i in range(5):
        one.acquire(np.concatenate([IDS[:10], [i], IDS[11:300]]))
        one.flush()
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1 and "parting near their start" in warnings[0]


# -- measuring, comparing, encoding ------------------------------------------------------------


def test_break_even_is_measured_not_guessed():
    even = BreakEven()
    assert even.pays(1, 1) and even.crossing_tokens() is None
    for tokens in (10, 100, 1000):
        even.prefill.add(tokens, 2.0 * tokens)
        even.fetch.add(tokens, 50 + 0.1 * tokens)
    assert even.crossing_tokens() == 27  # 50 / 1.9
    assert not even.pays(20, 20) and even.pays(30, 30)
    assert not even.pays(1000, 5)  # a long state that saves five tokens
    assert sum(even.pays(5, 5) for _ in range(64)) == 4  # now and then it looks again


def test_a_hit_that_costs_more_than_it_saves_is_not_taken(fake):
    one = core(fake, measured=True)
    one.prefill(IDS[:40])
    one.flush()
    for tokens in (10, 100, 1000):
        one.break_even.prefill.add(tokens, 0.01 * tokens)
        one.break_even.fetch.add(tokens, 50 + 0.1 * tokens)
    report = one.acquire(IDS[:41])
    assert report.matched == 0 and report.fed == 41 and "too few to pay" in report.why


def test_differing_fields_are_paths():
    a = {"x": 1, "pools": [{"dtype": "f16"}], "notes": "a"}
    b = {"x": 1, "pools": [{"dtype": "f32"}], "notes": "b", "y": 2}
    assert list(differing_fields(a, b)) == ["pools[0].dtype", "y"]


def test_common_prefix():
    assert common_prefix(np.array([1, 2, 3]), np.array([1, 2, 4, 5])) == 2
    assert common_prefix(np.array([1, 2]), np.array([1, 2, 4])) == 2


def test_a_seam_is_where_both_encodings_agree():
    """A tokenizer that joins blanks to words parts 'a' + ' b' elsewhere than 'a b'."""

    def encode(text):
        words, out = text.split(" "), []
        for i, word in enumerate(words):
            out.append(word if i == 0 else " " + word)
        return [hash(w) % 1000 for w in out]

    head, tail = seam(encode, "the quick bro", "wn fox")
    assert head + tail == encode("the quick brown fox")
    assert head == encode("the quick")[:2]


def test_a_peek_is_the_look_up_of_the_call_after_it(fake):
    """`in` and then `[]` on the cache: one round trip."""
    first = core(fake)
    first.acquire(IDS)
    first.flush()
    one = core(fake)
    assert one.peek(IDS) == 399
    looked_up = fake.commands.count("PROMPT.MATCH")
    assert one.acquire(IDS).matched == 399
    assert fake.commands.count("PROMPT.MATCH") == looked_up
    assert one.peek(IDS[:50]) == 49
    assert one.acquire(IDS[:90]).matched == 89  # another prompt: asked for, the first lease given back
    assert not fake.leases


def test_live_tokens_are_dropped_when_a_restore_fails(fake):
    """The engine held a part of the prompt, the restore broke it: nothing of it counts any more."""
    first = core(fake)
    first.acquire(IDS)
    first.flush()
    second = core(fake, Live())
    second.enabled = False
    second.acquire(IDS[:50])
    second.enabled = True
    second.engine.fail_finish = True
    report = second.acquire(IDS)
    assert (report.resident, report.matched, report.fed) == (0, 0, 400)
    assert np.array_equal(second.engine.tokens, IDS)
