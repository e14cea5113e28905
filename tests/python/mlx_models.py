"""Tiny mlx-lm models with random weights, one per kind of cache. Deterministic: the same name gives the same weights."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.models import deepseek_v3, falcon_h1, gemma3_text, lfm2, llama, llama4, mamba2, qwen2

VOCABULARY = 256


def _llama(**changes: Any) -> Any:
    settings = dict(
        model_type="llama",
        hidden_size=64,
        num_hidden_layers=3,
        intermediate_size=96,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=VOCABULARY,
        head_dim=64,
    )
    return llama.Model(llama.ModelArgs(**{**settings, **changes}))


def _gemma3(window: int = 16) -> Any:
    return gemma3_text.Model(
        gemma3_text.ModelArgs(
            model_type="gemma3_text",
            hidden_size=64,
            num_hidden_layers=4,
            intermediate_size=96,
            num_attention_heads=2,
            head_dim=32,
            vocab_size=VOCABULARY,
            num_key_value_heads=1,
            query_pre_attn_scalar=32,
            sliding_window=window,
            sliding_window_pattern=2,
        )
    )


def _lfm2() -> Any:
    return lfm2.Model(
        lfm2.ModelArgs(
            model_type="lfm2",
            vocab_size=VOCABULARY,
            hidden_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=4096,
            norm_eps=1e-5,
            conv_bias=False,
            conv_L_cache=3,
            block_dim=64,
            block_multiple_of=32,
            block_ffn_dim_multiplier=1.0,
            block_auto_adjust_ff_dim=False,
            block_ff_dim=96,
            full_attn_idxs=[1, 3],
        )
    )


def _mamba2() -> Any:
    return mamba2.Model(
        mamba2.ModelArgs(
            model_type="mamba2",
            num_heads=4,
            head_dim=16,
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            state_size=16,
            num_hidden_layers=2,
            layer_norm_epsilon=1e-5,
            conv_kernel=4,
            n_groups=1,
            use_bias=False,
            use_conv_bias=True,
            tie_word_embeddings=True,
            time_step_limit=(0.0, float("inf")),
            time_step_rank=4,
        )
    )


def _falcon_h1() -> Any:
    return falcon_h1.Model(
        falcon_h1.ModelArgs(
            head_dim=16,
            hidden_size=64,
            intermediate_size=96,
            mamba_chunk_size=16,
            mamba_d_head=16,
            mamba_d_ssm=64,
            mamba_d_state=16,
            mamba_n_heads=4,
            num_attention_heads=4,
            num_hidden_layers=2,
            num_key_value_heads=2,
            vocab_size=VOCABULARY,
        )
    )


def _llama4() -> Any:
    text = dict(
        attention_bias=False,
        attention_chunk_size=16,
        head_dim=16,
        hidden_size=64,
        interleave_moe_layer_step=99,
        intermediate_size=96,
        intermediate_size_mlp=96,
        max_position_embeddings=4096,
        model_type="llama4_text",
        num_attention_heads=4,
        num_experts_per_tok=1,
        num_hidden_layers=4,
        num_key_value_heads=2,
        num_local_experts=2,
        rms_norm_eps=1e-5,
        rope_scaling=None,
        rope_theta=10000.0,
        use_qk_norm=False,
        vocab_size=VOCABULARY,
    )
    return llama4.Model(llama4.ModelArgs(text_config=text, model_type="llama4"))


def _deepseek() -> Any:
    """Multi-head latent attention: K and V rows of different and unusual widths."""
    return deepseek_v3.Model(
        deepseek_v3.ModelArgs(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=96,
            moe_intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            kv_lora_rank=16,
            q_lora_rank=32,
            qk_rope_head_dim=16,
            v_head_dim=16,
            qk_nope_head_dim=16,
            first_k_dense_replace=2,
        )
    )


def _qwen2() -> Any:
    """A class without ``make_cache``: for these ``max_kv_size`` makes a rotating cache with sinks."""
    return qwen2.Model(
        qwen2.ModelArgs(
            model_type="qwen2",
            hidden_size=64,
            num_hidden_layers=2,
            intermediate_size=96,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=VOCABULARY,
        )
    )


_MAKERS = {
    "llama": _llama,
    "gemma3": _gemma3,
    "lfm2": _lfm2,
    "mamba2": _mamba2,
    "falcon_h1": _falcon_h1,
    "llama4": _llama4,
    "deepseek": _deepseek,
    "qwen2": _qwen2,
}
NAMES = tuple(_MAKERS)


def make(name: str, *, seed: int = 7, dtype: Any = mx.float32, **changes: Any) -> Any:
    """A model by the name of its kind. ``changes`` go to its configuration."""
    mx.random.seed(seed)
    model = _MAKERS[name](**changes)
    model.update(tree_map(lambda a: a.astype(dtype) if a.dtype == mx.float32 else a, model.parameters()))
    mx.eval(model.parameters())
    model.eval()
    return model


def prompt(count: int, seed: int = 1) -> list[int]:
    """Random token ids, the same for the same seed; a longer one continues a shorter one."""
    import numpy as np

    return np.random.default_rng(seed).integers(0, VOCABULARY, 4096)[:count].tolist()
