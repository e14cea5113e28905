"""llama-cpp-python with and without Pion: same tokens, bit-equal rows, and what must be refused.

Real models (PION_MODEL_SMOLLM2, PION_MODEL_GEMMA3), short prompts: seconds are dear on two cores. "Fed
alike": the cold side feeds the same tokens in the same calls.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

llama_cpp = pytest.importorskip("llama_cpp")
import llama_cpp.llama_cpp as low  # noqa: E402
from gguf_models import random_lora, swapped_weights, tiny_lfm2, tiny_mamba  # noqa: E402
from llama_cpp import Llama  # noqa: E402
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding  # noqa: E402

from pion.client import Client  # noqa: E402
from pion.engine import Report  # noqa: E402
from pion.errors import Refused  # noqa: E402
from pion.llama import PionPromptCache  # noqa: E402
from pion.llama_engine import LlamaEngine, SequenceEngine  # noqa: E402

SMOL = os.environ.get("PION_MODEL_SMOLLM2", "")
GEMMA = os.environ.get("PION_MODEL_GEMMA3", "")
needs_smol = pytest.mark.skipif(not Path(SMOL).is_file(), reason="PION_MODEL_SMOLLM2 names no file")
needs_gemma = pytest.mark.skipif(not Path(GEMMA).is_file(), reason="PION_MODEL_GEMMA3 names no file")

TEXT = (
    "The keeper of the lighthouse wrote down every ship that passed, its flag, its cargo and the hour. "
    "On clear nights he counted the lamps of the fishing boats and compared them with the night before. "
    "When the fog came he rang the bell and wrote nothing, because nothing could be seen. "
) * 30
QUESTION = "\nWhat did the keeper do in fog?"
TYPES = {"f16": 1, "q8_0": 8, "q4_0": 2, "bf16": 30}


def load(path: str = SMOL, **options) -> Llama:
    """A small context: 512 tokens, blocks of 128. One thread: beside a busy machine two wait for each other."""
    defaults = {"n_ctx": 512, "n_batch": 128, "n_ubatch": 128, "flash_attn": True, "verbose": False}
    return Llama(path, **defaults | {"n_threads": 1, "n_threads_batch": 1} | options)


def cache(llm: Llama, server, **options) -> PionPromptCache:
    client = Client(port=server.port, timeout_s=60, connect_timeout_s=20)
    one = PionPromptCache(llm, client, reserve_tokens=256, **({"min_store": 8} | options))
    one.core.break_even.pays = lambda *_: True  # these tests are about what is right, not about what pays
    return one


def tokens(llm: Llama, count: int, start: int = 0) -> list[int]:
    return llm.tokenize(TEXT.encode())[start : start + count]


def question(llm: Llama) -> list[int]:
    return llm.tokenize(QUESTION.encode(), add_bos=False)


def greedy(one: PionPromptCache, ids: list[int], count: int) -> list[int]:
    out: list[int] = []
    for token in one.generate(ids, temp=0.0, repeat_penalty=1.0):
        out.append(token)
        if len(out) == count:
            return out
    return out


def logits(llm: Llama) -> np.ndarray:
    row = low.llama_get_logits_ith(llm._ctx.ctx, -1)
    return np.ctypeslib.as_array(row, shape=(llm.n_vocab(),)).copy()


def stored(server, llm: Llama, ids: list[int], **options) -> PionPromptCache:
    """A cache whose Llama has prefilled and stored ids."""
    one = cache(llm, server, **options)
    report = one.prefill(ids)
    assert one.flush() and report.stored == len(ids), report
    return one


# -- same tokens -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [pytest.param(SMOL, marks=needs_smol, id="smollm2"), pytest.param(GEMMA, marks=needs_gemma, id="gemma3")]
)
def test_sixty_four_greedy_tokens_are_those_without_pion(one_server, path):
    """Prefix in the adapter's steps, question in one call: bit-equal logits, same 64 tokens."""
    llm = load(path)
    prefix, ids = tokens(llm, 128), tokens(llm, 128) + question(llm)
    cold = cache(llm, one_server, step=128, enabled=False)
    want = greedy(cold, ids, 64)
    assert cold.last.steps == [128, len(ids) - 128]
    cold.engine.clear()
    stored(one_server, llm, prefix, step=128)
    reader = load(path)
    warm = cache(reader, one_server)
    assert greedy(warm, ids, 64) == want
    assert warm.last.matched == 128 and warm.last.fed == len(ids) - 128


@needs_smol
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="flash"),
        pytest.param({"flash_attn": False}, id="v-transposed"),
        pytest.param({"type_k": 8}, id="q8-f16"),
        pytest.param({"type_k": 8, "type_v": 2}, id="q8-q4"),
    ],
)
def test_rows_are_bit_equal_wherever_they_are_cut(one_server, options):
    writer = load(**options)
    ids = tokens(writer, 96)
    stored(one_server, writer, ids, step=128)
    want = LlamaEngine.export(stored_engine(writer), 0, 96)["attention"]
    reader = cache(load(**options), one_server)
    for cut in (95, 64, 33, 1):
        report = reader.get_or_prefill([*ids[:cut], 17])
        assert report.matched == cut
        reader.engine.keep_resident(cut)
        got = reader.engine.export(0, cut)["attention"]
        pool = reader.engine.pools[0]
        at = bt = 0
        for layer in range(pool.layers):
            for side in range(2):
                row = pool.row(layer, side)
                assert np.array_equal(got[at : at + cut * row], want[bt : bt + cut * row]), (cut, layer, side)
                at, bt = at + cut * row, bt + 96 * row
        reader.engine.clear()


def stored_engine(llm: Llama) -> LlamaEngine:
    return LlamaEngine(llm, reserve_tokens=64)


@needs_smol
def test_an_exact_hit_leaves_the_last_token_to_the_engine(one_server):
    """The whole prompt is stored, and a longer one: at most N-1 are matched, the text is that of N-1 then 1."""
    writer = load()
    ids = tokens(writer, 60)
    stored(one_server, writer, ids)
    reader = load()
    one = cache(reader, one_server)
    got = greedy(one, ids[:50], 8)
    assert one.last.matched == 49 and one.last.fed == 1
    alike = load()
    alike.eval(ids[:49])
    alike.eval(ids[49:50])
    want = [alike.sample(temp=0.0)]
    while len(want) < 8:
        alike.eval(want[-1:])
        want.append(alike.sample(temp=0.0))
    assert got == want


@needs_smol
def test_logits_after_a_restore_are_bit_equal_when_fed_alike(one_server):
    """The last 1, 2 and 16 tokens evaluated anew: always what a cold run in the same calls gives."""
    writer = load()
    ids = tokens(writer, 48)
    stored(one_server, writer, ids)
    for replay in (1, 2, 16):
        reader, alike = load(), load()
        one = cache(reader, one_server, replay=replay)
        report = one.get_or_prefill(ids)
        assert (report.matched, report.fed) == (48 - replay, replay)
        alike.eval(ids[: 48 - replay])
        alike.eval(ids[48 - replay :])
        assert np.array_equal(logits(reader), logits(alike)), replay


@needs_smol
def test_rows_of_generated_tokens_stay_as_first_stored(one_server):
    """Fed one by one, then put again with other bits, as a block may give: no error, the first rows stay."""
    one_by_one = load()
    ids = tokens(one_by_one, 40)
    first = cache(one_by_one, one_server)
    for token in ids:
        one_by_one.eval([token])
    report = first.store_live()
    first.flush()
    assert report.stored == 40
    want = first.engine.export(0, 40)["attention"]
    again = first.core.client.put(first.core.model, ids, 0, {"attention": want ^ 1})
    assert again.tokens == 0 and again.segment is None
    assert first.store_live().matched == 40
    reader = cache(load(), one_server)
    reader.get_or_prefill([*ids, 5])
    reader.engine.keep_resident(40)
    assert np.array_equal(reader.engine.export(0, 40)["attention"], want)


@needs_smol
def test_two_questions_on_one_prefix_do_not_see_each_other(one_server):
    writer = load()
    prefix = tokens(writer, 64)
    stored(one_server, writer, prefix)
    reader = load()
    one = cache(reader, one_server)
    a, b = writer.tokenize(b" Who?", add_bos=False), writer.tokenize(b" And when was it?", add_bos=False)
    one.get_or_prefill(prefix + a)
    first = logits(reader)
    one.get_or_prefill(prefix + b)
    one.engine.clear()
    one.get_or_prefill(prefix + a)
    assert np.array_equal(logits(reader), first)


@needs_smol
def test_context_and_batch_sizes_are_not_identity(one_server):
    """Another n_ctx, another n_batch: full match each time, and room for what follows."""
    writer = load()
    ids = tokens(writer, 100)
    stored(one_server, writer, ids)
    for n_ctx, n_batch in ((256, 64), (1024, 512), (256, 128)):
        reader = load(n_ctx=n_ctx, n_batch=n_batch)
        one = cache(reader, one_server)
        report = one.get_or_prefill([*ids, 5])
        assert report.matched == 100, report
        reader.eval(tokens(writer, 100, 100))
        assert reader.n_tokens == 201 and np.isfinite(logits(reader)).all()


# -- identity ----------------------------------------------------------------------------------


@needs_smol
def test_types_of_k_and_v_are_identity_each(one_server):
    """Four kinds of K/V under one name: the same kind hits, every other pair is a mismatch that names the type."""
    pairs = [("f16", "f16"), ("q8_0", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0")]
    llms = {pair: load(type_k=TYPES[pair[0]], type_v=TYPES[pair[1]], n_ctx=128) for pair in pairs}
    ids = tokens(llms[pairs[0]], 24)
    for pair in pairs:
        stored(one_server, llms[pair], ids)
    hits = 0
    for pair in pairs:
        one = cache(llms[pair], one_server)
        one.engine.clear()
        assert one.get_or_prefill([*ids, 5]).matched == 24
        hits += 1
        for other in pairs:
            if other != pair:
                cache(llms[other], one_server, model=f"fixed-{other}")  # declares the name
                named = cache(llms[pair], one_server, model=f"fixed-{other}")
                named.engine.clear()
                report = named.get_or_prefill([*ids, 5])
                assert report.matched == 0
                different = [name for name, a, b in zip(("type_k", "type_v"), pair, other) if a != b]
                assert any(name in report.why for name in different), report.why
    assert hits == 4


@needs_smol
@pytest.mark.parametrize(
    "change",
    [
        {"rope_freq_base": 50000.0},
        {"rope_freq_scale": 0.5},
        {"rope_scaling_type": 2, "yarn_orig_ctx": 256},
        {"flash_attn": False},
    ],
)
def test_rope_and_flash_attention_of_the_context_are_identity(one_server, change):
    writer = load(n_ctx=256)
    ids = tokens(writer, 24)
    one = stored(one_server, writer, ids, model="fixed")
    assert one.core.model == "fixed"
    report = cache(load(n_ctx=256, **change), one_server, model="fixed").get_or_prefill([*ids, 5])
    assert report.matched == 0 and report.fed == 25
    assert ("rope" if "flash_attn" not in change else "attention") in report.why


@needs_smol
def test_other_weights_under_the_same_name_size_and_time_are_a_miss(one_server, tmp_path):
    writer = load()
    ids = tokens(writer, 24)
    stored(one_server, writer, ids, model="fixed")
    other = load(str(swapped_weights(SMOL, tmp_path / Path(SMOL).name)))
    one = cache(other, one_server, model="fixed")
    report = one.get_or_prefill([*ids, 5])
    assert report.matched == 0 and "weights" in report.why
    alone = load(other.model_path)
    alone.eval([*ids, 5])
    assert np.array_equal(logits(other), logits(alone))


@needs_smol
def test_a_file_changed_after_loading_has_no_identity(one_server, tmp_path):
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(Path(SMOL).read_bytes())
    llm = load(str(copy))
    ids = tokens(llm, 24)
    one = cache(llm, one_server)
    os.utime(copy)
    report = one.get_or_prefill(ids)
    assert report.matched == 0 and report.fed == 24 and "changed after it was loaded" in report.why
    replaced = tmp_path / "new.gguf"
    replaced.write_bytes(Path(SMOL).read_bytes())
    os.replace(replaced, copy)
    assert cache(llm, one_server).reuse.kind == "none"


@needs_smol
def test_adapters_and_their_scale_are_identity(one_server, tmp_path):
    """Made under A: not for the base model, not for B, not for half of A; for A, bit-equal."""
    a, b = random_lora(tmp_path / "a.gguf", 1), random_lora(tmp_path / "b.gguf", 2)
    under_a = load(lora_path=str(a))
    ids = tokens(under_a, 24)
    stored(one_server, under_a, ids, model="fixed")
    for llm in (load(), load(lora_path=str(b)), load(lora_path=str(a), lora_scale=0.5)):
        report = cache(llm, one_server, model="fixed").get_or_prefill([*ids, 5])
        assert report.matched == 0 and "adapters" in report.why
    again = load(lora_path=str(a))
    assert cache(again, one_server, model="fixed").get_or_prefill([*ids, 5]).matched == 24
    alike = load(lora_path=str(a))
    alike.eval(ids)
    alike.eval([5])
    assert np.array_equal(logits(again), logits(alike))


@needs_smol
def test_an_adapter_switched_on_later_is_seen_before_the_next_match(one_server, tmp_path):
    llm = load()
    one = cache(llm, one_server)
    ids = tokens(llm, 24)
    one.prefill(ids)
    one.flush()
    path = random_lora(tmp_path / "a.gguf", 1)
    adapter = low.llama_adapter_lora_init(llm._model.model, str(path).encode())
    pointers, scales = (low.llama_adapter_lora_p_ctypes * 1)(adapter), (low.ctypes.c_float * 1)(1.0)
    assert low.llama_set_adapters_lora(llm._ctx.ctx, pointers, 1, scales) == 0
    assert "identity changed" in one.store_live().why
    report = one.get_or_prefill([*ids, 5])
    assert report.cached_tokens == 0 and report.mismatch == ["adapters"]
    low.llama_set_adapters_lora(llm._ctx.ctx, None, 0, None)
    one.engine.clear()
    assert one.get_or_prefill([*ids, 5]).matched == 24
    low.llama_adapter_lora_free(adapter)


def test_digests_are_of_tensors_and_tokenizer_and_never_of_a_time_stamp(tmp_path, monkeypatch):
    from pion import gguf as digests

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "_RACY_S", -1e9)  # cache even what was written a moment ago
    path = tiny_mamba(tmp_path / "m.gguf")
    first = digests.gguf_digests(str(path))
    info = os.stat(path)
    other = tiny_mamba(tmp_path / "n.gguf", seed=9).read_bytes()
    assert len(other) == info.st_size
    with open(path, "r+b") as file:  # same inode, same size
        file.write(other)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    second = digests.gguf_digests(str(path))
    assert second.weights != first.weights and second.tokenizer == first.tokenizer
    monkeypatch.setattr(digests, "_digest_file", lambda _: pytest.fail("read again though nothing changed"))
    assert digests.gguf_digests(str(path)) == second
    cache_file = tmp_path / "cache" / "pion" / "digests.json"
    assert cache_file.stat().st_mode & 0o077 == 0
    cache_file.chmod(0o666)  # what others may have written is not believed
    with pytest.raises(pytest.fail.Exception):
        digests.gguf_digests(str(path))


def test_a_split_model_is_all_its_files():
    from pion.gguf import parts_of

    assert parts_of("/m/a-00002-of-00003.gguf") == [f"/m/a-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    assert parts_of("/m/a.gguf") == ["/m/a.gguf"]


# -- windows -----------------------------------------------------------------------------------


@needs_gemma
def test_a_sliding_window_is_cut_anywhere_and_carries_nothing_over(one_server):
    """560 tokens, window 512, also with swa_full: cut behind and inside the window, with a former story in the context.

    At 512 the cold side can be fed alike, so logits are bit-equal. Elsewhere the stored rows come from a longer
    block than a cold run's, which rounds otherwise; lost or foreign rows would give a KL of 0.5 to 7.
    """
    writer = load(GEMMA, n_ctx=1024, n_batch=256, n_ubatch=256, swa_full=True)
    ids = tokens(writer, 560)
    stored(one_server, writer, ids)
    reader = load(GEMMA, n_ctx=1024, n_batch=256, n_ubatch=256, swa_full=False)
    one = cache(reader, one_server)
    reader.eval(tokens(reader, 200, 300))  # a former story; reset() forgets only the count
    reader.reset()
    for cut in (512, 550, 100):
        report = one.get_or_prefill([*ids[:cut], 5, 6])
        assert report.matched == cut and report.fed == 2
        got = logits(reader)
        state = low.llama_memory_seq_pos_max(reader._ctx.memory, 0)
        assert state == cut + 1
        alike = load(GEMMA, n_ctx=1024, n_batch=256, n_ubatch=256, swa_full=False)
        for start in range(0, cut, 256):
            alike.eval(ids[start : min(cut, start + 256)])
        alike.eval([5, 6])
        cold = logits(alike)
        assert np.array_equal(got, cold) or cut != 512
        assert int(got.argmax()) == int(cold.argmax())
        p, q = np.exp(cold - cold.max()), np.exp(got - got.max())
        p, q = p / p.sum(), q / q.sum()
        assert float((p * np.log(np.maximum(p, 1e-30) / np.maximum(q, 1e-30))).sum()) < 0.1, cut
    one.engine.keep_resident(100)
    rows = one.engine.export(0, 100)
    assert len(rows["window"]) == 100 * one.engine.pools[1].token_bytes()


@needs_gemma
def test_a_live_window_is_not_cut_where_its_rows_are_gone(one_server):
    llm = load(GEMMA, n_ctx=1024, n_batch=256, n_ubatch=256, swa_full=False)
    one = cache(llm, one_server, enabled=False)
    ids = tokens(llm, 790)
    one.get_or_prefill(ids)
    assert not one.engine.keep_resident(300)
    assert llm.n_tokens == 790
    assert one.engine.keep_resident(789)


# -- recurrent and hybrid ----------------------------------------------------------------------


@pytest.mark.parametrize("make", [tiny_mamba, tiny_lfm2])
def test_recurrent_state_is_matched_at_its_boundaries_only(one_server, tmp_path, make):
    path = str(make(tmp_path / "tiny.gguf"))
    writer = load(path)
    ids = np.random.default_rng(5).integers(1, 255, 200).tolist()
    first = cache(writer, one_server)
    assert first.reuse.kind == "boundaries" and "recurrent" in first.reuse.why
    first.get_or_prefill(ids, boundaries=(64,))
    first.flush()
    reader = load(path)
    one = cache(reader, one_server)
    report = one.get_or_prefill(ids)  # the boundary at 200 is one too many: a token must be left
    assert report.matched == 64 and report.fed == 136
    alike = load(path)
    alike.eval(ids[:64])
    alike.eval(ids[64:])
    assert np.array_equal(logits(reader), logits(alike))
    one.engine.clear()
    assert one.get_or_prefill([*ids, 9]).matched == 200
    one.engine.clear()
    assert one.get_or_prefill([*ids[:63], 9, 9]).matched == 0  # 63 rows of attention do not make a state at 63


@pytest.mark.parametrize("make", [tiny_mamba, tiny_lfm2])
def test_a_state_is_stored_under_its_own_boundary_only(tmp_path, make):
    """One token short or long: refused, and both numbers are named."""
    engine = LlamaEngine(load(str(make(tmp_path / "tiny.gguf"))), reserve_tokens=64)
    engine.feed(np.arange(1, 65, dtype="<u4"), last=False)
    for wrong in (63, 65):
        with pytest.raises(Refused, match=f"position 63, {wrong} tokens"):
            engine.export(0, wrong)
    assert len(engine.export(0, 64)["state"]) == engine.pools[-1].token_bytes()


# -- refusals ----------------------------------------------------------------------------------


@needs_smol
@pytest.mark.parametrize("options", [{}, {"type_k": 8}])
def test_shifted_positions_are_never_stored(one_server, options, caplog):
    llm = load(**options)
    ids = tokens(llm, 60)
    one = cache(llm, one_server)
    one.get_or_prefill(ids)
    one.flush()
    llm._ctx.kv_cache_seq_rm(0, 10, 30)
    llm._ctx.kv_cache_seq_shift(0, 30, -1, -20)
    llm.input_ids[10:40] = llm.input_ids[30:60]
    llm.n_tokens = 40
    with pytest.raises(Refused, match="shifted"):
        one.engine.export(0, 40)
    assert one.engine.resident() is None
    assert one.store_live().tokens == 0
    report = one.get_or_prefill(ids[:20] + ids[40:50])  # and the context is used again after it was cleared
    assert report.matched == 20 and one.engine.resident() is not None


@needs_smol
def test_rows_of_embeddings_are_never_stored(one_server):
    """What a picture becomes has rows without token ids; and a handler for pictures is left alone."""
    llm = load(n_ctx=128)
    one = cache(llm, one_server)
    ids = tokens(llm, 20)
    one.get_or_prefill(ids)
    batch = low.llama_batch_init(2, llm.n_embd(), 1)
    batch.n_tokens = 2
    for i in range(2):
        for j in range(llm.n_embd()):
            batch.embd[i * llm.n_embd() + j] = 0.1
        batch.pos[i], batch.n_seq_id[i], batch.logits[i] = 20 + i, 1, False
        batch.seq_id[i][0] = 0
    assert low.llama_decode(llm._ctx.ctx, batch) == 0
    low.llama_batch_free(batch)
    llm.n_tokens = 22
    with pytest.raises(Refused, match="picture"):
        one.engine.export(0, 22)
    assert one.engine.resident() is None and one.store_live().tokens == 0
    assert one.get_or_prefill(ids).fed >= 1 and one.engine.resident() is not None

    class Handler:
        mtmd_ctx = None

    llm.chat_handler = Handler()
    assert ids not in one and one.engine.resident() is None
    with pytest.raises(KeyError, match="pictures"):
        one[ids]


@needs_smol
def test_rows_out_of_token_order_are_sorted(one_server):
    """Two sequences share a context, so their cells are scattered; rows still come out by position."""
    quiet = load(n_ctx=256)
    ids = tokens(quiet, 90)
    params = low.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max, params.kv_unified = 256, 64, 64, 2, True
    params.flash_attn_type = low.LLAMA_FLASH_ATTN_TYPE_ENABLED
    ctx = low.llama_init_from_model(quiet._model.model, params)
    try:
        engines = [
            SequenceEngine(quiet._model.model, ctx, params, SMOL, seq_id=i, reserve_tokens=64) for i in (0, 1)
        ]
        for at in range(0, 90, 30):
            engines[1].feed(np.asarray(tokens(quiet, 30, 200 + at), "<u4"), last=False)
            engines[0].feed(np.asarray(ids[at : at + 30], "<u4"), last=False)
        # The other sequence leaves holes, which the next tokens fill in cell order, not token order.
        engines[1].clear()
        engines[0].feed(np.asarray(tokens(quiet, 40, 90), "<u4"), last=False)
        blob = engines[0]._take_state().copy()
        from pion import llama_state

        part = llama_state.parse(blob, 1, False).parts[0]
        rows = engines[0].export(0, 130)["attention"].reshape(30, 2, 130, 384)
        assert part.order is not None, "the context was not busy enough to scatter its cells"
        quiet_engine = stored_engine(quiet)
        for at in range(0, 90, 30):
            quiet_engine.feed(np.asarray(ids[at : at + 30], "<u4"), last=False)
        want = quiet_engine.export(0, 90)["attention"].reshape(30, 2, 90, 384)
        # K of the first layer depends on token and position alone, so it is bit-equal whatever the cells.
        assert np.array_equal(rows[0, 0, :90], want[0, 0])
        # And the other way: into a sequence of its own number, in a context with two.
        for w in engines[1].begin_restore(90):
            for layer in range(30):
                for side in (0, 1):
                    np.asarray(w.targets[layer][side])[:] = want[layer, side].reshape(-1)
        engines[1].finish_restore(np.asarray(ids, "<u4"))
        assert np.array_equal(engines[1].export(0, 90)["attention"].reshape(30, 2, 90, 384), want)
        assert engines[0]._last_position() == 129
    finally:
        low.llama_free(ctx)


@needs_smol
def test_a_poisoned_state_is_cleared_with_its_data(one_server, caplog):
    """NaN rows put by the raw command: the adapter notices, heals the context and prefills; later answers are right."""
    llm = load()
    ids = tokens(llm, 40)
    one = cache(llm, one_server)
    one.core.identity.declare()
    rows = np.full(40 * one.engine.pools[0].token_bytes(), 0xFF, np.uint8)
    one.core.client.put(one.core.model, ids, 0, {"attention": rows})
    report = one.get_or_prefill([*ids, 5])
    assert report.matched == 0 and report.fed == 41 and "not finite" in report.why
    alike = load()
    alike.eval([*ids, 5])
    assert np.array_equal(logits(llm), logits(alike))
    other = tokens(llm, 30, 100)
    one.get_or_prefill(other)
    alike.reset()
    alike.eval(other)
    assert np.array_equal(logits(llm), logits(alike))


@needs_smol
def test_a_state_that_does_not_fit_is_refused_before_it_harms():
    engine = stored_engine(load(n_ctx=128))
    with pytest.raises(Refused, match="context holds"):
        engine.begin_restore(300)


@needs_smol
def test_a_state_of_another_format_version_is_refused_by_name():
    from pion import llama_state

    engine = stored_engine(load(n_ctx=128))
    engine.feed(np.asarray([1, 2, 3], "<u4"), last=False)
    blob = engine._take_state().copy()
    for damage, words in (
        (lambda b: b.__setitem__(0, b[0] ^ 1), "another format version"),
        (lambda b: b.__setitem__(8, 9), "not laid out as known|streams"),
        (lambda b: b.__setitem__(20, 2), "several sequences"),
    ):
        broken = blob.copy()
        damage(broken)
        with pytest.raises(Refused, match=words):
            llama_state.parse(broken, 1, False)
    with pytest.raises(Refused, match="ends too early"):
        llama_state.parse(blob[:-1].copy(), 1, False)
    with pytest.raises(Refused, match="left over"):
        llama_state.parse(np.concatenate([blob, blob[:4]]), 1, False)


# -- llama-cpp-python's own door ---------------------------------------------------------------


@needs_smol
def test_set_cache_serves_create_completion_without_a_copy(one_server, monkeypatch):
    """Two processes' worth of Llamas, other n_ctx and n_batch: same text; reads keep; no state is loaded twice."""
    prompt = TEXT[:730]  # in the middle of a sentence, so that the answer is not just an end
    plain = load()
    steps = cache(plain, one_server, enabled=False)
    want = plain.detokenize(greedy(steps, plain.tokenize(prompt.encode(), special=True), 12)).decode()
    first = load()
    one = cache(first, one_server)
    first.set_cache(one)
    answer = first.create_completion(prompt, max_tokens=12, temperature=0.0, repeat_penalty=1.0)
    assert answer["choices"][0]["text"] == want and len(want) > 10
    one.flush()
    second = load(n_ctx=1024, n_batch=256)
    two = cache(second, one_server)
    second.set_cache(two)
    monkeypatch.setattr(Llama, "load_state", lambda *_: pytest.fail("the state was copied a second time"))
    for _ in range(2):
        text = second.create_completion(prompt, max_tokens=12, temperature=0.0, repeat_penalty=1.0)
        assert isinstance(two.core.last, Report)
    assert text["choices"][0]["text"]  # an exact hit replays one token alone, which may round differently
    ids = second.tokenize(prompt.encode(), special=True)
    assert ids in two and two._find_longest_prefix_key(tuple(ids)) is not None
    assert two.core.matched_tokens(ids) == len(ids)  # reading has removed nothing


@needs_smol
def test_the_state_of_a_hit_can_be_loaded_by_hand(one_server):
    """For those who call load_state: built for the reader's n_ctx and scores."""
    writer = load()
    ids = tokens(writer, 50)
    stored(one_server, writer, ids)
    reader = load(n_ctx=256, n_batch=64)
    one = cache(reader, one_server)
    state = one[ids]
    before = logits(reader)
    reader.load_state(state)
    assert reader.n_tokens == 50 and state.llama_state_size == len(state.llama_state)
    reader.n_tokens = 49
    reader.eval(ids[49:])
    assert np.array_equal(logits(reader), before)


@needs_smol
def test_prompt_logits_are_not_served_from_a_hit(one_server):
    one = cache(load(logits_all=True, n_ctx=64), one_server)
    with pytest.raises(KeyError, match="logits"):
        one[[1, 2, 3]]


@needs_smol
def test_prompt_lookup_drafts_see_the_restored_ids(one_server):
    """Speculation by prompt lookup has no context of its own: a hit gives the tokens a cold run gives."""
    prompt = tokens(load(n_ctx=128), 70)

    def run(server_on: bool) -> list[int]:
        llm = load(draft_model=LlamaPromptLookupDecoding(num_pred_tokens=2))
        one = cache(llm, one_server, enabled=server_on)
        out = greedy(one, prompt, 16)
        assert one.last.matched == (69 if server_on else 0)
        return out

    stored(one_server, load(), prompt)
    llm = load(draft_model=LlamaPromptLookupDecoding(num_pred_tokens=2))
    alike = cache(llm, one_server, enabled=False)
    alike.get_or_prefill(prompt[:69])
    llm.eval(prompt[69:])
    want = []
    for token in llm.generate(prompt, temp=0.0, repeat_penalty=1.0):
        want.append(token)
        if len(want) == 16:
            break
    assert run(True) == want


@needs_smol
def test_reuse_is_said_at_load_and_a_report_says_what_happened(one_server):
    llm = load()
    one = cache(llm, one_server)
    assert one.reuse.kind == "any" and "attention" in one.reuse.why
    ids = tokens(llm, 60)
    one.get_or_prefill(ids)
    one.flush()
    other = cache(load(), one_server)
    changed = [*ids[:30], ids[31], *ids[31:]]
    report = other.get_or_prefill(changed)
    assert report.matched == 30 and report.fork.position == 30
    assert report.fork.stored_text == llm.detokenize([ids[30]], special=True).decode()
    assert report.fork.asked_text == llm.detokenize([ids[31]], special=True).decode()
