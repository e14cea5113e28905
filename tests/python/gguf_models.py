"""Models made in the test: tiny ones with random weights, copies with other weights, adapters."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import gguf
import numpy as np

VOCAB = 256


def _writer(path: Path, arch: str, layers: int, embd: int, ff: int) -> gguf.GGUFWriter:
    w = gguf.GGUFWriter(str(path), arch)
    w.add_name(f"tiny {arch}")
    w.add_context_length(2048)
    w.add_embedding_length(embd)
    w.add_block_count(layers)
    w.add_feed_forward_length(ff)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("no_vocab")
    w.add_vocab_size(VOCAB)
    return w


def _finish(w: gguf.GGUFWriter) -> None:
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class _Random:
    def __init__(self, writer: gguf.GGUFWriter, seed: int) -> None:
        self.writer, self.rng = writer, np.random.default_rng(seed)

    def add(self, name: str, *shape: int, scale: float = 0.3, base: float = 0.0) -> None:
        self.writer.add_tensor(name, (base + scale * self.rng.standard_normal(shape)).astype(np.float32))


def tiny_mamba(path: Path, seed: int = 1) -> Path:
    """A recurrent model: two mamba layers."""
    embd, inner, state, rank, conv = 32, 64, 8, 4, 4
    w = _writer(path, "mamba", 2, embd, 0)
    w.add_ssm_conv_kernel(conv)
    w.add_ssm_inner_size(inner)
    w.add_ssm_state_size(state)
    w.add_ssm_time_step_rank(rank)
    r = _Random(w, seed)
    r.add("token_embd.weight", VOCAB, embd)
    r.add("output_norm.weight", embd, base=1, scale=0.1)
    for i in range(2):
        b = f"blk.{i}."
        r.add(b + "attn_norm.weight", embd, base=1, scale=0.1)
        r.add(b + "ssm_in.weight", 2 * inner, embd)
        r.add(b + "ssm_conv1d.weight", inner, conv)
        r.add(b + "ssm_conv1d.bias", inner, scale=0.1)
        r.add(b + "ssm_x.weight", rank + 2 * state, inner)
        r.add(b + "ssm_dt.weight", inner, rank)
        r.add(b + "ssm_dt.bias", inner, scale=0.1)
        r.add(b + "ssm_a", inner, state, base=-1, scale=0.1)
        r.add(b + "ssm_d", inner)
        r.add(b + "ssm_out.weight", embd, inner)
    _finish(w)
    return path


def tiny_lfm2(path: Path, seed: int = 2) -> Path:
    """A hybrid: a short-convolution layer, an attention layer, another convolution."""
    embd, heads, kv_heads, ff, cache = 64, 4, 2, 96, 3
    head = embd // heads
    w = _writer(path, "lfm2", 3, embd, ff)
    w.add_head_count(heads)
    w.add_head_count_kv([0, kv_heads, 0])
    w.add_rope_freq_base(10000.0)
    w.add_shortconv_l_cache(cache)
    r = _Random(w, seed)
    r.add("token_embd.weight", VOCAB, embd)
    r.add("token_embd_norm.weight", embd, base=1, scale=0.1)
    for i in range(3):
        b = f"blk.{i}."
        r.add(b + "attn_norm.weight", embd, base=1, scale=0.1)
        r.add(b + "ffn_norm.weight", embd, base=1, scale=0.1)
        r.add(b + "ffn_gate.weight", ff, embd)
        r.add(b + "ffn_up.weight", ff, embd)
        r.add(b + "ffn_down.weight", embd, ff)
        if i == 1:
            r.add(b + "attn_q.weight", embd, embd)
            r.add(b + "attn_k.weight", kv_heads * head, embd)
            r.add(b + "attn_v.weight", kv_heads * head, embd)
            r.add(b + "attn_output.weight", embd, embd)
            r.add(b + "attn_q_norm.weight", head, base=1, scale=0.1)
            r.add(b + "attn_k_norm.weight", head, base=1, scale=0.1)
        else:
            r.add(b + "shortconv.conv.weight", embd, cache)
            r.add(b + "shortconv.in_proj.weight", 3 * embd, embd)
            r.add(b + "shortconv.out_proj.weight", embd, embd)
    _finish(w)
    return path


def swapped_weights(source: str, target: Path) -> Path:
    """A copy of a model in which attn_v of layers 3/4, 11/12 and 20/21 changed places; same size and times."""
    shutil.copyfile(source, target)
    tensors = {t.name: (int(t.data_offset), int(t.n_bytes)) for t in gguf.GGUFReader(source).tensors}
    with open(target, "r+b") as file:
        for a, b in ((3, 4), (11, 12), (20, 21)):
            (at, size), (bt, other) = tensors[f"blk.{a}.attn_v.weight"], tensors[f"blk.{b}.attn_v.weight"]
            assert size == other
            file.seek(at)
            first = file.read(size)
            file.seek(bt)
            second = file.read(size)
            assert first != second
            file.seek(at)
            file.write(second)
            file.seek(bt)
            file.write(first)
    info = os.stat(source)
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
    return target


def random_lora(path: Path, seed: int, *, arch: str = "llama", layers: int = 30, embd: int = 576, kv: int = 192) -> Path:
    """A rank-4 adapter on attn_k and attn_v of every layer."""
    rng = np.random.default_rng(seed)
    w = gguf.GGUFWriter(str(path), arch)
    w.add_type("adapter")
    w.add_string("adapter.type", "lora")
    w.add_float32("adapter.lora.alpha", 8.0)
    for i in range(layers):
        for name in ("attn_k", "attn_v"):
            w.add_tensor(f"blk.{i}.{name}.weight.lora_a", (0.05 * rng.standard_normal((4, embd))).astype(np.float32))
            w.add_tensor(f"blk.{i}.{name}.weight.lora_b", (0.05 * rng.standard_normal((kv, 4))).astype(np.float32))
    _finish(w)
    return path
