"""The mlx engine and the identity it reads, on tiny random models. No server."""

from __future__ import annotations

import os

import pytest

mx = pytest.importorskip("mlx.core")
import numpy as np  # noqa: E402
from mlx.utils import tree_flatten  # noqa: E402
from mlx_lm.generate import generate_step  # noqa: E402
from mlx_lm.tuner.utils import linear_to_lora_layers  # noqa: E402

import mlx_models  # noqa: E402
from mlx_store import RowStore  # noqa: E402
from pion.errors import Refused  # noqa: E402
from pion.mlx import split_prompt, turn_starts  # noqa: E402
from pion.mlx_cache import leaves  # noqa: E402
from pion.mlx_engine import MlxEngine  # noqa: E402
from pion.mlx_manifest import FileDigests, ModelIdentity, modules, parameters, weights_digest  # noqa: E402


def greedy(model, cache, rest, count=64):
    steps = generate_step(mx.array(rest), model, max_tokens=count, prompt_cache=cache)
    return [(token, np.array(logprobs.astype(mx.float32)).tobytes()) for token, logprobs in steps]


def feed(engine, ids, steps, store=None):
    at = 0
    for step in steps:
        engine.feed(np.array(ids[at : at + step], np.uint32), last=False)
        if store is not None:
            store.put(engine.export(at, at + step), at, at + step)
        at += step


def arrays_of(cache):
    """Every array of a cache as (shape, bytes), padding included: for comparing two caches whole."""
    found = tree_flatten([[v for v in vars(leaf).values()] for _, leaf in leaves(cache)])
    return [(a.shape, np.array(a.astype(mx.float32)).tobytes()) for _, a in found if isinstance(a, mx.array)]


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", mlx_models.NAMES)
def test_restored_state_gives_the_same_tokens_and_the_same_logits(name, dtype):
    """Fed in steps, stored, restored by another engine: the next 64 tokens are equal, logits bit for bit."""
    model = mlx_models.make(name, dtype=dtype)
    ids, steps = mlx_models.prompt(75), [12, 12, 12, 12, 12, 8]
    writer = MlxEngine(model)
    assert writer.reuse.kind in ("any", "boundaries")
    store = RowStore(writer.pools)
    feed(writer, ids, steps, store)
    live = writer.take()
    reader = MlxEngine(model)
    store.get(reader.begin_restore(68))
    reader.finish_restore(np.array(ids[:68], np.uint32))
    assert greedy(model, live, ids[68:]) == greedy(model, reader.take(), ids[68:])


@pytest.mark.parametrize("name", ["llama", "gemma3", "llama4", "deepseek"])
@pytest.mark.parametrize("length", [1, 11, 12, 13, 30, 61])
def test_cut_at_any_token(name, length):
    """Stored in steps no longer than the window, cut anywhere: as if the model had been fed up to there in these steps."""
    model = mlx_models.make(name)
    ids = mlx_models.prompt(80)
    writer = MlxEngine(model)
    store = RowStore(writer.pools)
    feed(writer, ids, [12] * 6, store)
    alone = MlxEngine(model)
    feed(alone, ids, [min(12, length - at) for at in range(0, length, 12)])
    reader = MlxEngine(model)
    store.get(reader.begin_restore(length))
    reader.finish_restore(np.array(ids[:length], np.uint32))
    # The rows are those of the longer run; only a step that was shorter alone may round differently.
    cold, warm = greedy(model, alone.take(), ids[length:], 24), greedy(model, reader.take(), ids[length:], 24)
    assert [t for t, _ in cold] == [t for t, _ in warm]
    if length % 12 == 0:
        assert cold == warm


def test_what_a_model_allows_is_said():
    for name, kind, word in (
        ("llama", "any", "3 x KVCache"),
        ("gemma3", "any", "window of 16"),
        ("llama4", "any", "ChunkedKVCache"),
        ("lfm2", "boundaries", "recurrent"),
        ("mamba2", "boundaries", "recurrent"),
        ("falcon_h1", "boundaries", "2 x ArraysCache, 2 x KVCache"),
    ):
        reuse = MlxEngine(mlx_models.make(name)).reuse
        assert reuse.kind == kind and word in reuse.why, (name, reuse)


def test_unknown_cache_class_is_refused_by_name_and_still_works():
    model = mlx_models.make("llama")

    class Strange:
        def __init__(self):
            from mlx_lm.models.cache import KVCache

            self.inner = KVCache()

        def update_and_fetch(self, k, v):
            return self.inner.update_and_fetch(k, v)

        def make_mask(self, *args, **kwargs):
            return self.inner.make_mask(*args, **kwargs)

        @property
        def offset(self):
            return self.inner.offset

    model.make_cache = lambda: [Strange() for _ in model.layers]
    engine = MlxEngine(model)
    assert engine.reuse.kind == "none" and "Strange" in engine.reuse.why and not engine.pools
    engine.feed(np.array([1, 2, 3], np.uint32), last=False)
    with pytest.raises(Refused):
        engine.export(0, 3)


def test_quantised_cache_is_a_model_of_its_own():
    model = mlx_models.make("llama")
    plain, quantised = MlxEngine(model), MlxEngine(model, kv_bits=8, kv_group_size=64)
    a, b = plain.manifest(), quantised.manifest()
    assert a["kv_bits"] is None and b["kv_bits"] == 8 and b["kv_group_size"] == 64
    assert {k for k in a if a[k] != b[k]} == {"kv_bits", "kv_group_size", "layout", "pools"}
    ids = mlx_models.prompt(60)
    store = RowStore(quantised.pools)
    feed(quantised, ids, [20, 20], store)
    live = quantised.take()
    reader = MlxEngine(model, kv_bits=8, kv_group_size=64)
    store.get(reader.begin_restore(40))
    reader.finish_restore(np.array(ids[:40], np.uint32))
    restored = reader.take()
    assert type(restored[0]).__name__ == "QuantizedKVCache" and (restored[0].bits, restored[0].group_size) == (8, 64)
    assert greedy(model, live, ids[40:]) == greedy(model, restored, ids[40:])
    # One chain does not change its kind: a plain cache that turned quantised is no state of the plain model.
    feed(plain, ids, [40])
    cache = [layer.to_quantized(64, 8) for layer in plain.take()]
    with pytest.raises(Refused, match="kv_bits 8"):
        plain.adopt(cache, 40)
    later = MlxEngine(model, kv_bits=8, quantized_kv_start=5000)
    assert later.reuse.kind == "none" and "quantized_kv_start" in later.reuse.why


def test_a_rotating_cache_for_the_whole_model_keeps_its_sinks():
    model = mlx_models.make("qwen2")
    engine = MlxEngine(model, max_kv_size=20)
    pool = engine.pools[0]
    assert (pool.rule, pool.window, pool.keep) == ("window", 16, 4)
    assert engine.manifest()["pools"] != MlxEngine(model, max_kv_size=24).manifest()["pools"]
    ids = mlx_models.prompt(90)
    store = RowStore(engine.pools)
    feed(engine, ids, [16, 16, 16, 16], store)
    live = engine.take()
    store.get(engine.begin_restore(64))
    engine.finish_restore(np.array(ids[:64], np.uint32))
    assert greedy(model, live, ids[64:]) == greedy(model, engine.take(), ids[64:])


def test_each_restore_is_its_own_object():
    model = mlx_models.make("llama")
    engine = MlxEngine(model)
    ids = mlx_models.prompt(60)
    store = RowStore(engine.pools)
    feed(engine, ids, [40], store)
    caches = []
    for _ in range(2):
        store.get(engine.begin_restore(40))
        engine.finish_restore(np.array(ids[:40], np.uint32))
        caches.append(engine.take())
    before = arrays_of(caches[1])
    greedy(model, caches[0], ids[40:])
    assert arrays_of(caches[1]) == before


def test_identity_sees_one_change_at_a_time():
    base = MlxEngine(mlx_models.make("llama")).manifest()

    def differs(model, **options):
        other = MlxEngine(model, **options).manifest()
        return {key for key in base if base[key] != other.get(key)} - {"notes"}

    assert differs(mlx_models.make("llama")) == set()
    assert differs(mlx_models.make("llama", max_position_embeddings=9999)) == set()
    assert differs(mlx_models.make("llama"), prefill_step_size=64) == set()
    assert differs(mlx_models.make("llama", seed=8)) == {"weights"}
    assert "rope" in differs(mlx_models.make("llama", rope_theta=50000.0))
    assert "rope" in differs(mlx_models.make("llama", rope_traditional=True))
    assert "rope" in differs(mlx_models.make("llama", rope_scaling={"type": "linear", "factor": 2.0}))
    assert "pools" in differs(mlx_models.make("llama", dtype=mx.float16))
    turned = mlx_models.make("llama")
    turned.layers[1].self_attn.rope.scale = 0.5
    assert differs(turned) == {"rope"}
    scaled = mlx_models.make("llama")
    scaled.layers[1].self_attn.scale *= 2
    assert differs(scaled) == {"structure"}
    swapped = mlx_models.make("llama")
    a, b = swapped.layers[0].self_attn, swapped.layers[1].self_attn
    a.v_proj.weight, b.v_proj.weight = b.v_proj.weight, a.v_proj.weight
    assert differs(swapped) == {"weights"}


def test_adapters_are_read_before_every_match():
    model = mlx_models.make("llama")
    engine = MlxEngine(model)
    base = engine.manifest()
    mx.random.seed(1)
    linear_to_lora_layers(model, 2, {"rank": 4, "scale": 2.0, "dropout": 0.0})
    with_adapter = engine.manifest()
    assert {k for k in base if base[k] != with_adapter[k]} == {"adapters"}
    assert [entry["scale"] for entry in with_adapter["adapters"]] == [2.0]
    target = model.layers[2].self_attn.q_proj
    target.lora_b = mx.ones_like(target.lora_b)
    other = engine.manifest()
    assert other["adapters"] != with_adapter["adapters"]
    for layer in model.layers[1:]:
        for module in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj, layer.self_attn.o_proj):
            if hasattr(module, "scale"):
                module.scale = 1.0
    assert engine.manifest()["adapters"] != other["adapters"]
    target.lora_b[0, 0] = 5.0  # in place
    assert engine.manifest()["adapters"] != other["adapters"]


def test_replaced_weights_are_noticed_and_changed_ones_on_reread():
    model = mlx_models.make("llama")
    engine = MlxEngine(model)
    first = engine.manifest()
    model.layers[0].mlp.up_proj.weight = model.layers[0].mlp.up_proj.weight * 2
    second = engine.manifest()
    assert second["weights"] != first["weights"]
    model.layers[0].mlp.up_proj.weight[0, 0] = 99.0
    assert engine.manifest(reread=True)["weights"] != second["weights"]


def test_digest_cache_wants_the_same_file_and_the_same_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = mlx_models.make("llama")
    file = tmp_path / "model" / "model.safetensors"
    file.parent.mkdir()
    mx.save_safetensors(str(file), dict(tree_flatten(model.parameters())))
    right = weights_digest(parameters(modules(model)))
    counted = []
    monkeypatch.setattr("pion.mlx_manifest.weights_digest", lambda w: counted.append(1) or weights_digest(w))
    assert ModelIdentity(model, folder=file.parent).read()["weights"] == right
    assert ModelIdentity(model, folder=file.parent).read()["weights"] == right and len(counted) == 1
    assert os.stat(tmp_path / "cache" / "pion" / "weights-digests.json").st_mode & 0o777 == 0o600
    # Same name, size and mtime, other inode and ctime: not believed.
    info = os.stat(file)
    copy = file.with_suffix(".new")
    copy.write_bytes(file.read_bytes())
    os.utime(copy, ns=(info.st_atime_ns, info.st_mtime_ns))
    os.replace(copy, file)
    assert os.stat(file).st_mtime_ns == info.st_mtime_ns
    ModelIdentity(model, folder=file.parent).read()
    assert len(counted) == 2
    # Same file, other memory.
    fused = mlx_models.make("llama", seed=9)
    assert ModelIdentity(fused, folder=file.parent).read()["weights"] == weights_digest(parameters(modules(fused))) != right
    assert FileDigests.key(file, parameters(modules(model))) != FileDigests.key(file, parameters(modules(fused)))


def test_the_seam_is_where_both_encodings_agree():
    merges = {"ab": 300, " the": 301}

    def encode(text):
        out, at = [], 0
        while at < len(text):
            for word, token in merges.items():
                if text.startswith(word, at):
                    out.append(token)
                    at += len(word)
                    break
            else:
                out.append(ord(text[at]))
                at += 1
        return out

    for prefix, suffix in (("xa", "by"), ("x ", "the end"), ("xy", "z"), ("xyz", ""), ("", "q")):
        a, b = split_prompt(encode, prefix, suffix)
        assert a + b == encode(prefix + suffix) and b
        assert a == encode(prefix)[: len(a)]
    assert split_prompt(encode, "xa", "by")[0] == [ord("x")]
    with pytest.raises(ValueError):
        split_prompt(encode, "", "")


class ChatTokenizer:
    """One id a character; the last assistant turn keeps its thinking, earlier ones are rendered without."""

    def apply_chat_template(self, messages, add_generation_prompt=False, tokenize=True):
        out = ""
        for index, message in enumerate(messages):
            text = message["content"]
            if message["role"] == "assistant" and index + 1 < len(messages):
                text = text.split("</think>")[-1]
            out += f"<{message['role'][0]}>{text};"
        return [ord(c) for c in out + ("<a><think>" if add_generation_prompt else "")]


def test_turn_starts_are_where_the_next_turn_may_part():
    tokenizer = ChatTokenizer()
    first = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    ids = tokenizer.apply_chat_template(first, add_generation_prompt=True)
    starts = turn_starts(tokenizer, first, ids)
    assert starts == [len("<s>be brief;"), len("<s>be brief;<u>hello;")]
    # The next turn's history has neither the generation prompt nor the thinking: it parts at the last start.
    then = [*first, {"role": "assistant", "content": "hm</think>hi"}, {"role": "user", "content": "more"}]
    history = tokenizer.apply_chat_template(then, add_generation_prompt=True)
    shared = next(i for i, (a, b) in enumerate(zip(ids + [0], history)) if a != b)
    assert starts[-1] <= shared < starts[-1] + len("<a><think>")
