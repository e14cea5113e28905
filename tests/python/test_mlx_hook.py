"""The prompt cache of mlx_lm.server with Pion behind it."""

from __future__ import annotations

import logging

import pytest

mx = pytest.importorskip("mlx.core")
from mlx_lm.generate import BatchGenerator, generate_step  # noqa: E402
from mlx_lm.models.cache import KVCache  # noqa: E402

import mlx_models  # noqa: E402
from pion.client import Client  # noqa: E402
from pion.mlx import PionPromptCache  # noqa: E402
from pion.mlx_hook import PionLRUPromptCache  # noqa: E402

KEY = ("path", None, None)


@pytest.fixture
def port(pion):
    return pion.port


def hook(model, port=1, **options):
    options = {"enabled": port != 1, "min_store": 1, "prefill_step_size": 16, "step": 16, **options}
    options["client"] = Client(port=port, timeout_s=30, connect_timeout_s=10)
    bounds = options.pop("max_size", 10), options.pop("max_bytes", 1 << 63)
    return PionLRUPromptCache(*bounds, model_of=lambda key: (model, None), **options)


def filled(model, ids):
    """A cache of ids, as the server's prefill makes it."""
    return PionPromptCache(model, enabled=False, prefill_step_size=16).get_or_prefill(ids)


def greedy(model, cache, rest, count=16):
    return [token for token, _ in generate_step(mx.array(rest), model, max_tokens=count, prompt_cache=cache)]


def test_the_rest_is_never_empty():
    model, ids = mlx_models.make("llama"), mlx_models.prompt(40)
    cache = hook(model)
    assert cache.fetch_nearest_cache(KEY, ids) == (None, ids)
    cache.insert_cache(KEY, ids, filled(model, ids))
    found, rest = cache.fetch_nearest_cache(KEY, ids)
    assert rest == ids[39:] and found[0].offset == 39
    assert greedy(model, found, rest) == greedy(model, filled(model, ids[:39]), rest)
    assert cache.fetch_nearest_cache(KEY, ids[:1]) == (None, ids[:1])
    assert cache.fetch_nearest_cache(KEY, []) == (None, [])


def test_one_token_prefixes_count():
    model = mlx_models.make("llama")
    cache = hook(model)
    for ids in ([5], [7, 8]):
        cache.insert_cache(KEY, ids, filled(model, ids))
    assert cache.fetch_nearest_cache(KEY, [5, 6])[1] == [6]
    assert cache.fetch_nearest_cache(KEY, [7, 9])[1] == [9]
    assert cache.fetch_nearest_cache(KEY, [7, 8, 9])[1] == [9]
    assert cache.fetch_nearest_cache(KEY, [9, 9])[0] is None


def test_reading_refreshes():
    model = mlx_models.make("llama")
    cache = hook(model, max_size=3)
    prompts = [mlx_models.prompt(20, seed=s) for s in range(4)]
    for ids in prompts[:3]:
        cache.insert_cache(KEY, ids, filled(model, ids))
    for _ in range(5):
        cache.fetch_nearest_cache(KEY, prompts[0])
    cache.insert_cache(KEY, prompts[3], filled(model, prompts[3]))
    assert [cache.fetch_nearest_cache(KEY, ids)[0] is not None for ids in prompts] == [True, False, True, True]


def test_an_entry_over_the_budget_is_refused_and_the_others_stay(caplog):
    model = mlx_models.make("llama")
    one = sum(layer.nbytes for layer in filled(model, mlx_models.prompt(20)))
    cache = hook(model, max_bytes=int(2.5 * one))
    prompts = [mlx_models.prompt(20, seed=s) for s in range(2)]
    for ids in prompts:
        cache.insert_cache(KEY, ids, filled(model, ids))
    long = mlx_models.prompt(256 * 7, seed=9)
    big = [KVCache() for _ in model.layers]
    for layer in big:
        layer.update_and_fetch(mx.zeros((1, 2, len(long), 64)), mx.zeros((1, 2, len(long), 64)))
    with caplog.at_level(logging.WARNING, "pion"):
        cache.insert_cache(KEY, long, big)
    assert "larger than the whole budget" in caplog.text
    assert len(cache) == 2 and cache.nbytes == 2 * one
    assert all(cache.fetch_nearest_cache(KEY, ids)[0] is not None for ids in prompts)


def test_entries_that_are_not_whole_are_refused(caplog):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(20)
    cache = hook(model)
    with caplog.at_level(logging.WARNING, "pion"):
        cache.insert_cache(KEY, ids + [1], filled(model, ids))
        cache.insert_cache(KEY, ids[:-1], filled(model, ids))
    assert len(cache) == 0 and "has offset 20, 21 tokens" in caplog.text


def test_entries_are_not_changed_by_use():
    model, ids = mlx_models.make("gemma3"), mlx_models.prompt(40)
    cache, source = hook(model), filled(model, ids)
    cache.insert_cache(KEY, ids, source)
    greedy(model, source, [1, 2, 3])
    answers = []
    for _ in range(3):
        found, rest = cache.fetch_nearest_cache(KEY, ids + [4])
        assert rest == [4]
        answers.append(greedy(model, found, rest))
    assert answers[0] == answers[1] == answers[2] == greedy(model, filled(model, ids), [4])


def test_window_and_recurrent_entries_are_taken_whole_or_not_at_all():
    for name in ("gemma3", "lfm2"):
        model, ids = mlx_models.make(name), mlx_models.prompt(60)
        cache = hook(model)
        cache.insert_cache(KEY, ids[:40], filled(model, ids[:40]))
        assert cache.fetch_nearest_cache(KEY, ids)[1] == ids[40:]
        assert cache.fetch_nearest_cache(KEY, ids[:40])[0] is None
        assert cache.fetch_nearest_cache(KEY, ids[:30])[0] is None


def test_bounds_and_statistics():
    model = mlx_models.make("llama")
    cache = hook(model, max_size=4)
    for seed, kind in enumerate(("system", "user", "assistant", "assistant")):
        ids = mlx_models.prompt(20, seed=seed)
        cache.insert_cache(KEY, ids, filled(model, ids), cache_type=kind)
    assert {k: v["n_sequences"] for k, v in cache.stats_by_type().items()} == {"assistant": 2, "user": 1, "system": 1}
    cache.insert_cache(KEY, mlx_models.prompt(20, seed=7), filled(model, mlx_models.prompt(20, seed=7)))
    assert cache.stats_by_type()["system"]["n_sequences"] == 1 and len(cache) == 4
    cache.trim_to(n_sequences=2)
    assert len(cache) == 2
    cache.trim_to(n_bytes=0)
    assert len(cache) == 0 and cache.nbytes == 0


@pytest.mark.parametrize("name", ["llama", "gemma3", "lfm2", "falcon_h1"])
def test_another_process_finds_what_was_inserted(port, name):
    """A batch's caches go through the hook; a hook that never saw them gets them from Pion and goes on alike."""
    model, ids = mlx_models.make(name), mlx_models.prompt(40)
    first = hook(model, port)
    generator = BatchGenerator(model, max_tokens=6, prefill_step_size=16)
    generator.insert([ids, mlx_models.prompt(25, seed=5)])
    done = []
    while len(done) < 2:
        done += [r for r in generator.next()[1] if r.finish_reason]
    for response in done:
        first.insert_cache(KEY, response.all_tokens[:], response.prompt_cache)
    assert first.flush() and len(first) == 2
    second = hook(model, port)
    for response in done:
        tokens = list(response.all_tokens)
        cache, rest = second.fetch_nearest_cache(KEY, tokens + [1])
        assert cache is not None and rest == [1]
        second._memory[1].engine.layout.check(cache, len(tokens))
        assert greedy(model, cache, rest) == greedy(model, response.prompt_cache, rest)
    if name == "llama":
        cache, rest = second.fetch_nearest_cache(KEY, ids[:30] + [1, 2])
        assert (cache[0].offset, rest) == (30, [1, 2])
    assert second.fetch_nearest_cache(("other", None, None), tokens + [1])[0] is not None  # same model by another path
    second.close()
    first.close()


def test_pictures_stay_here_text_before_them_is_shared(port):
    """mlx-lm puts negative ids for a picture's places: compared whole here, and no part of what Pion stores."""
    model = mlx_models.make("llama")
    head, picture = mlx_models.prompt(20), [-1234567890123456789] * 4
    ids = head + picture + [3, 4]
    first = hook(model, port)
    first.insert_cache(KEY, ids, filled(model, head + [9] * 4 + [3, 4]))
    first.flush()
    assert first.fetch_nearest_cache(KEY, ids + [5])[1] == [5]
    assert len(first.fetch_nearest_cache(KEY, head + [-99] * 4 + [3, 4, 5])[1]) == 7
    second = hook(model, port)
    cache, rest = second.fetch_nearest_cache(KEY, ids + [5])
    assert (cache[0].offset, rest) == (20, picture + [3, 4, 5])


def test_a_draft_models_caches_stay_here(port):
    model, ids = mlx_models.make("llama"), mlx_models.prompt(20)
    cache = PionLRUPromptCache(model_of=lambda key: None, port=port)
    both = filled(model, ids) + filled(model, ids)
    cache.insert_cache(KEY, ids, both)
    found, rest = cache.fetch_nearest_cache(KEY, ids + [1])
    assert len(found) == 6 and rest == [1]
    assert cache.fetch_nearest_cache(KEY, ids)[0] is None
