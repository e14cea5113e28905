"""pion.mlx against a running server, on tiny random models: one process is enough for what a process can see."""

from __future__ import annotations

import logging
import os
import signal
import threading

import pytest

mx = pytest.importorskip("mlx.core")
import numpy as np  # noqa: E402
from mlx_lm.generate import generate_step  # noqa: E402
from mlx_lm.models.cache import KVCache  # noqa: E402
from mlx_lm.tuner.utils import linear_to_lora_layers  # noqa: E402

import mlx_models  # noqa: E402
from pion.client import Client  # noqa: E402
from pion.errors import Mismatch, Refused  # noqa: E402
from pion.mlx import PionPromptCache  # noqa: E402
from pion_vllm_mlx import PionPromptCache as PublicCache  # noqa: E402


@pytest.fixture
def port(pion):
    return pion.port


def memory(port, model, **options):
    """A prompt cache with small steps, storing everything."""
    options.setdefault("prefill_step_size", 16)
    options.setdefault("step", 16)
    options.setdefault("min_store", 1)
    # Deadlines have tests of their own; elsewhere a busy machine must not look like a server that is down.
    options.setdefault("client", Client(port=port, timeout_s=30, connect_timeout_s=10))
    return PionPromptCache(model, **options)


def greedy(model, cache, rest, count=24):
    return [token for token, _ in generate_step(mx.array(rest), model, max_tokens=count, prompt_cache=cache)]


def alone(model, ids, count=24, **options):
    """What the model says without a server, fed in the same steps."""
    options = {"prefill_step_size": 16, "step": 16, **options}
    cache, rest = PionPromptCache(model, enabled=False, **options).prompt(ids)
    return greedy(model, cache, rest, count)


@pytest.mark.parametrize("name", mlx_models.NAMES)
def test_second_object_takes_up_what_the_first_stored(port, name):
    """64 greedy tokens with and without Pion, fed alike; and nothing is fed twice."""
    model, ids = mlx_models.make(name), mlx_models.prompt(101)
    cold = alone(model, ids, 64)
    for expected in (0, 100):
        with memory(port, model) as pc:
            cache, rest = pc.prompt(ids)
            assert rest == ids[100:] and pc.last.matched == expected and pc.last.fed == 100 - expected
            assert pc.flush()
            assert pc.last.stored == 100 - expected
            assert greedy(model, cache, rest, 64) == cold


@pytest.mark.parametrize("lane", ["tcp", "unix", "shm"])
@pytest.mark.parametrize("name", ["gemma3", "falcon_h1", "deepseek"])
def test_rows_come_back_bit_equal_over_each_lane(port, name, lane):
    model, ids = mlx_models.make(name), mlx_models.prompt(96)
    with memory(port, model) as pc:
        kept = pc.get_or_prefill(ids)
        assert pc.flush() and pc.last.stored == 96
        kept_rows = pc.engine.layout.export(kept, 0, 96)
    with memory(port, model, client=Client(port=port, lane=lane)) as pc:
        back = pc.get_or_prefill(ids)
        assert (pc.last.matched, pc.last.lane) == (96, lane)
        rows = pc.engine.layout.export(back, 0, 96)
    for pool in kept_rows:
        assert kept_rows[pool].tobytes() == rows[pool].tobytes()


def test_longest_prefix_counts_to_the_token(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(80)
    with memory(port, model) as pc:
        pc.prefill(ids)
        pc.flush()
        for keep in (1, 37, 79):
            other = ids[:keep] + [(ids[keep] + 1) % 256] + mlx_models.prompt(10, seed=9)
            cache, rest = pc.prompt(other)
            assert pc.last.matched == keep and pc.last.fork.position == keep
            assert greedy(model, cache, rest) == alone(model, other)
        pc.get_or_prefill(ids[1:])
        assert pc.last.matched == 0


def test_namespaces_do_not_see_each_other(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(40)
    pc = PublicCache(model, port=port, min_store=1)
    pc.get_or_prefill(ids, namespace="app|v1|a")
    pc.flush()
    assert pc.lookup("app|v1|a") and not pc.lookup("app|v1|b")
    pc.get_or_prefill(ids, namespace="app|v1|b")
    assert pc.last.matched == 0
    pc.get_or_prefill(ids, namespace="app|v1|a")
    assert pc.last.matched == 40
    assert pc.stats()["hits"] == 1 and pc.stats()["misses"] == 2
    assert len(PublicCache.make_namespace("app", "v1", 3)) == 32
    pc.close()


def test_admission_threshold_counts_requests_of_a_namespace(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(40)
    pc = PublicCache(model, port=port, admission_threshold=2, min_store=1)
    for stored in (0, 40):
        pc.get_or_prefill(ids, namespace="n")
        pc.flush()
        assert pc.last.stored == stored
    pc.get_or_prefill(ids, namespace="n")
    assert pc.last.matched == 40 and pc.stats()["admission_skips"] == 1
    pc.close()


def test_two_conversations_share_their_head(port):
    """S + A and S + B in turn: from the second round on nothing but the last token is fed."""
    model = mlx_models.make("llama")
    head = mlx_models.prompt(50)
    talks = [head + mlx_models.prompt(30, seed=s) for s in (5, 6)]
    with memory(port, model) as pc:
        for turn in range(4):
            for ids in talks:
                pc.get_or_prefill(ids)
                pc.flush()
                if turn:
                    assert pc.last.matched == 80
        assert pc.core.client.model_get(pc.core.model)["tokens"] == 50 + 30 + 30


def test_whole_prompt_stored_leaves_a_token(port):
    """Asked exactly what is stored: attention models step back by one, recurrent ones to the boundary before."""
    for name, matched in (("llama", 63), ("lfm2", 48), ("falcon_h1", 48)):
        model, ids = mlx_models.make(name), mlx_models.prompt(64)
        with memory(port, model) as pc:
            pc.prefill(ids)
            pc.flush()
            cache, rest = pc.prompt(ids)
            assert rest == ids[63:] and pc.last.matched == matched
            pc.flush()
            # Fed alike: what is left of the last step, then the last token.
            assert len(greedy(model, cache, rest, 8)) == 8


def test_recurrent_models_are_cut_at_boundaries_only(port):
    model, ids = mlx_models.make("lfm2"), mlx_models.prompt(64)
    with memory(port, model, prefill_step_size=32, step=32) as pc:
        pc.get_or_prefill(ids)
        pc.flush()
        cache = pc.get_or_prefill(ids[:50])
        assert pc.last.matched == 32 and pc.last.fed == 18
        pc.engine.layout.check(cache, 50)
    cold = PionPromptCache(model, enabled=False, prefill_step_size=32, step=32).get_or_prefill(ids[:50])
    assert greedy(model, cache, [7]) == greedy(model, cold, [7])


def test_boundaries_at_turn_starts(port):
    """The history of the next turn drops the thinking: with a boundary before it, recurrent layers are reused up to there."""
    model = mlx_models.make("lfm2")
    system, thinking, reply = mlx_models.prompt(37), mlx_models.prompt(20, seed=2), mlx_models.prompt(9, seed=3)
    with memory(port, model) as pc:
        pc.get_or_prefill(system + thinking + reply, boundaries=[37])
        assert 5 in pc.last.steps
        pc.flush()
        pc.get_or_prefill(system + reply)
        assert pc.last.matched == 37


def test_prefill_is_idempotent_and_warms_others(port):
    model, ids = mlx_models.make("gemma3"), mlx_models.prompt(70)
    with memory(port, model) as pc:
        assert pc.prefill(ids).fed == 70
        pc.flush()
        assert pc.prefill(ids).fed == 0
        cache = pc.get_or_prefill(ids + [3])
        assert pc.last.matched == 70
        assert greedy(model, cache, [9]) == greedy(model, memory(port, model, enabled=False).get_or_prefill(ids + [3]), [9])


def test_a_hit_is_the_callers_own(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(64)
    with memory(port, model) as pc:
        pc.prefill(ids)
        pc.flush()
        first, second = pc.get_or_prefill(ids), pc.get_or_prefill(ids)
        greedy(model, first, [1, 2, 3])
        first[0].keys[..., :10, :] = 0
        third = pc.get_or_prefill(ids)
        assert mx.array_equal(second[0].keys[..., :64, :], third[0].keys[..., :64, :])
        assert greedy(model, second, [5]) == greedy(model, third, [5])


def test_store_after_generation_takes_the_ids_as_fed(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(40)
    with memory(port, model) as pc:
        cache, rest = pc.prompt(ids)
        said = greedy(model, cache, rest, 12)
        held = cache[0].offset
        told = (ids + said)[:held]
        report = pc.store(cache, told)
        assert pc.flush() and report.stored == held - 39
        pc.get_or_prefill(told + [1])
        assert pc.last.matched == held
        for wrong in (told[:-1], told + [1]):
            with pytest.raises(Refused, match=rf"layer 0 \(KVCache\) has offset {held}, {len(wrong)} tokens"):
                pc.store(cache, wrong)


def test_a_cache_begun_under_another_identity_is_not_stored(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(40)
    with memory(port, model) as pc:
        cache, rest = pc.prompt(ids)
        said = greedy(model, cache, rest, 5)
        told = (ids + said)[: cache[0].offset]
        linear_to_lora_layers(model, 2, {"rank": 4, "scale": 2.0, "dropout": 0.0})
        with pytest.raises(Refused, match="identity .* changed"):
            pc.store(cache, told)


def test_a_recurrent_cache_from_elsewhere_cannot_be_counted(port):
    model = mlx_models.make("mamba2")
    with memory(port, model) as pc:
        cache = pc.get_or_prefill(mlx_models.prompt(20))
        with pytest.raises(Refused, match="nothing in this cache says how many"):
            pc.store(cache, mlx_models.prompt(20))


def test_generated_rows_do_not_replace_prefilled_ones(port):
    """The same ids fed one by one have other bits: no error, no new rows, the first ones stay."""
    model, ids = mlx_models.make("llama"), mlx_models.prompt(48)
    with memory(port, model) as pc:
        pc.get_or_prefill(ids)
        pc.flush()
        first = pc.engine.layout.export(pc.get_or_prefill(ids), 0, 48)["all0"].tobytes()
        singly = pc.make_cache()
        for token in ids:
            model(mx.array([[token]]), cache=singly)
        report = pc.store(singly, ids)
        pc.flush()
        assert report.stored == 0
        put = pc.core.client.put(
            pc.core.model, ids, 0, pc.engine.layout.export(singly, 0, 48), manifest_hash=pc.core.identity.hash
        )
        assert (put.tokens, put.segment) == (0, None)
        assert pc.engine.layout.export(pc.get_or_prefill(ids), 0, 48)["all0"].tobytes() == first


def test_another_identity_under_a_fixed_name_is_refused_by_field(port):
    ids = mlx_models.prompt(40)
    with memory(port, mlx_models.make("llama"), name="mine") as pc:
        pc.prefill(ids)
        pc.flush()
    for field, model, options in (
        ("weights", mlx_models.make("llama", seed=8), {}),
        ("rope", mlx_models.make("llama", rope_theta=50000.0), {}),
        ("kv_bits", mlx_models.make("llama"), {"kv_bits": 8}),
        ("pools", mlx_models.make("llama", dtype=mx.float16), {}),
    ):
        with memory(port, model, name="mine", **options) as pc:
            pc.get_or_prefill(ids)
            assert pc.last.matched == 0 and any(field in f for f in pc.last.mismatch), (field, pc.last)
            with pytest.raises(Mismatch, match=field):
                pc.core.identity.declare()


def test_quantised_branch_is_its_own_model(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(64)
    with memory(port, model) as plain, memory(port, model, kv_bits=8) as quantised:
        plain.prefill(ids)
        plain.flush()
        live = quantised.get_or_prefill(ids)
        assert quantised.last.matched == 0 and "kv_bits" in quantised.last.mismatch
        quantised.flush()
        back = quantised.get_or_prefill(ids)
        assert quantised.last.matched == 64
        a, b = (quantised.engine.layout.export(c, 0, 64)["all0"].tobytes() for c in (live, back))
        assert a == b


def test_changed_weights_are_a_miss_after_model_changed(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(40)
    with memory(port, model) as pc:
        pc.prefill(ids)
        pc.flush()
        model.layers[0].self_attn.k_proj.weight[0, 0] = 9.0
        pc.model_changed()
        pc.get_or_prefill(ids)
        assert pc.last.matched == 0
        pc.flush()
    with memory(port, model) as pc:
        pc.get_or_prefill(ids)
        assert pc.last.matched == 40
    with memory(port, mlx_models.make("llama")) as pc:
        pc.get_or_prefill(ids)
        assert pc.last.matched == 40  # the old weights have their own, still there


def test_a_state_that_is_not_finite_is_never_stored(port, caplog):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(40)
    model.layers[1].self_attn.v_proj.weight = model.layers[1].self_attn.v_proj.weight * float("nan")
    with memory(port, model) as pc, caplog.at_level(logging.WARNING, "pion"):
        pc.get_or_prefill(ids)
        pc.flush()
        assert pc.last.stored == 0 and "not finite" in caplog.text
        pc.get_or_prefill(ids)
        assert pc.last.matched == 0


def test_a_trimmed_cache_stores_what_is_left(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(60)
    with memory(port, model) as pc:
        cache = pc.get_or_prefill(ids, store=False)
        for layer in cache:
            layer.trim(20)
        pc.store(cache, ids[:40])
        pc.flush()
        pc.get_or_prefill(ids)
        assert pc.last.matched == 40


def test_switched_off_sends_nothing(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a connection was made")

    monkeypatch.setattr(Client, "_connect", fail)
    model, ids = mlx_models.make("llama"), mlx_models.prompt(40)
    pc = PionPromptCache(model, enabled=False)
    cache, rest = pc.prompt(ids)
    assert cache[0].offset == 39 and pc.last.why == "switched off"
    assert pc.fetch(ids) == (None, 0) and not pc.stored_under("x")
    pc.model_changed()


def test_without_a_server_one_warning_and_the_same_answer(caplog):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(60)
    cold = alone(model, ids)
    with caplog.at_level(logging.WARNING, "pion"):
        pc = memory(1, model)
        for _ in range(5):
            cache, rest = pc.prompt(ids)
            assert greedy(model, cache, rest) == cold
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1


def test_frozen_server_costs_one_deadline_and_comes_back(pion):
    """SIGSTOP keeps the sockets open: the first call waits for its deadline, the others do not wait at all."""
    model, ids = mlx_models.make("llama"), mlx_models.prompt(60)
    client = Client(port=pion.port, timeout_s=0.3, connect_timeout_s=0.3)
    with memory(pion.port, model, client=client) as pc:
        pc.prefill(ids)
        assert pc.flush()
        cold = alone(model, ids)
        pion.send(signal.SIGSTOP)
        os.waitpid(pion.pid, os.WUNTRACED)
        try:
            for _ in range(5):
                cache, rest = pc.prompt(ids)
                assert greedy(model, cache, rest) == cold and pc.last.matched == 0 and pc.last.why
        finally:
            pion.send(signal.SIGCONT)
        assert _eventually(lambda: pc.prompt(ids) and pc.last.matched == 59)


def _eventually(true, tries=200):
    """Whether something becomes true; the time between two tries is the breaker's business, not a promise."""
    pause = threading.Event()
    for _ in range(tries):
        if true():
            return True
        pause.wait(0.1)
    return False


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("lane", ["tcp", "shm"])
def test_server_fails_between_match_and_read(pion, how, lane):
    """What was begun to be restored is thrown away: the cold answer, and the reason."""
    model, ids = mlx_models.make("lfm2"), mlx_models.prompt(60)
    cold = alone(model, ids)
    with memory(pion.port, model) as pc:
        pc.prefill(ids)
        assert pc.flush()
    client = Client(port=pion.port, lane=lane, timeout_s=0.5, connect_timeout_s=0.5)
    with memory(pion.port, model, client=client) as pc:
        read_into = client.read_into

        def fail_then_read(*args, **kwargs):
            pion.send(how)
            if how == signal.SIGKILL:
                pion.process.wait()
            else:
                os.waitpid(pion.pid, os.WUNTRACED)  # a signal takes its time
            return read_into(*args, **kwargs)

        client.read_into = fail_then_read
        try:
            cache, rest = pc.prompt(ids)
            assert pc.last.matched == 0 and pc.last.fed == 59 and pc.last.why
            assert greedy(model, cache, rest) == cold
        finally:
            if how == signal.SIGSTOP:
                pion.send(signal.SIGCONT)


def test_server_killed_between_two_calls(pion):
    model, ids = mlx_models.make("gemma3"), mlx_models.prompt(60)
    with memory(pion.port, model) as pc:
        cold = alone(model, ids)
        pc.prefill(ids)
        assert pc.flush()
        pion.kill()
        cache, rest = pc.prompt(ids)
        assert greedy(model, cache, rest) == cold
        pion.start()
        assert _eventually(lambda: pc.prompt(ids) and pc.last.matched == 59)
        cache, rest = pc.prompt(ids)
        assert greedy(model, cache, rest) == cold


def test_second_sight_stores_only_what_was_asked_before(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(48)
    with memory(port, model, second_sight=True) as pc:
        for stored in (0, 48):
            pc.get_or_prefill(ids)
            pc.flush()
            assert pc.last.stored == stored


def test_short_match_brings_nothing_of_the_longer_story(port):
    """A new session shares 12 tokens with a long one of a window model: nothing behind them comes along."""
    model = mlx_models.make("gemma3")
    story = mlx_models.prompt(200)
    new = story[:12] + mlx_models.prompt(40, seed=4)
    with memory(port, model, prefill_step_size=4, step=4) as pc:
        pc.prefill(story)
        pc.flush()
        cache, rest = pc.prompt(new)
        assert pc.last.matched == 12
        pc.engine.layout.check(cache, len(new) - 1)
        assert greedy(model, cache, rest) == alone(model, new, prefill_step_size=4, step=4)


def test_threads_take_turns(port):
    model = mlx_models.make("llama")
    prompts = [mlx_models.prompt(60, seed=s) for s in range(6)]
    with memory(port, model) as pc:
        found = {}

        def ask(index):
            cache = pc.get_or_prefill(prompts[index])
            found[index] = cache[0].offset, np.array(cache[0].keys[0, 0, :60]).tobytes()

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for index, ids in enumerate(prompts):
        cold = PionPromptCache(model, enabled=False, prefill_step_size=16, step=16).get_or_prefill(ids)
        assert found[index] == (60, np.array(cold[0].keys[0, 0, :60]).tobytes())


def test_arguments_of_the_older_package(caplog):
    model = mlx_models.make("llama")
    with pytest.raises(NotImplementedError, match="stage2"):
        PublicCache(model, stage2=True)
    with caplog.at_level(logging.WARNING, "pion"):
        pc = PublicCache(model, "int8", "127.0.0.1", 1, boundary_protect=2, prefill_chunk_size=64, softmax_bitexact=True)
    assert "vquant" in caplog.text and pc.engine.block == 64
    assert isinstance(pc.get_or_prefill([])[0], KVCache)
    pc.enabled = False
    assert pc.get_or_prefill(mx.array([1, 2]))[0].offset == 2
    assert pc.last_prefill_ms > 0 and pc.cold_rehydrates_observed == 0
