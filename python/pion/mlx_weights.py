"""Make a model folder for mlx-lm out of a Llama-architecture GGUF file.

    python -m pion.mlx_weights <model.gguf> <folder> [--dtype float32|float16|bfloat16]

mlx-lm loads safetensors, the small model the project tests with is shipped as a GGUF.
The tool dequantises the tensors, names them as mlx-lm's ``llama`` does, and rebuilds the
tokenizer from the vocabulary and merges in the file. No torch, no network.

Two things that are easy to get wrong:

* GGUF keeps the Q and K rows of Llama in the order the *interleaved* rotation wants, so
  ``rope_traditional`` is true in the written config and nothing is permuted back.
* float32 is the fast type on mlx's CPU back end, so it is the default.

The folder appears under its name only when it is complete (written beside it, renamed).
Needs ``gguf``, ``mlx`` and ``tokenizers``; mlx-lm brings all but the first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    # Run by its path: Python has put this folder first, where mlx.py and gguf.py hide the packages of these names.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

# llama.cpp's tensor names and mlx-lm's, for one block and for the whole model.
_BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_MODEL_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}

# Pre-tokenizers whose splitting this tool can rebuild exactly: digits one by one, then byte level.
_SINGLE_DIGIT_PRE = {"smollm", "refact", "command-r"}

_CONTROL_TOKEN = 3  # gguf token types
_USER_TOKEN = 4


class UnsupportedGguf(ValueError):
    """The file is not one this tool can convert exactly; the message says why."""


def mlx_name(gguf_name: str) -> str:
    """``blk.3.attn_q.weight`` -> ``model.layers.3.self_attn.q_proj.weight``."""
    stem, _, kind = gguf_name.rpartition(".")
    if kind not in ("weight", "bias"):
        raise UnsupportedGguf(f"tensor {gguf_name}: neither a weight nor a bias")
    if stem.startswith("blk."):
        _, layer, part = stem.split(".", 2)
        if part in _BLOCK_NAMES:
            return f"model.layers.{int(layer)}.{_BLOCK_NAMES[part]}.{kind}"
    elif stem in _MODEL_NAMES:
        return f"{_MODEL_NAMES[stem]}.{kind}"
    raise UnsupportedGguf(f"tensor {gguf_name}: unknown to this tool")


def _field(reader: Any, key: str, default: Any = None) -> Any:
    field = reader.fields.get(key)
    return default if field is None else field.contents()


def _config(reader: Any, tied: bool) -> dict[str, Any]:
    """mlx-lm's config.json for a Llama GGUF. Raises UnsupportedGguf for what it cannot express."""
    arch = _field(reader, "general.architecture")
    if arch != "llama":
        raise UnsupportedGguf(f"architecture is {arch!r}, this tool converts 'llama' only")
    if _field(reader, "llama.rope.scaling.type", "none") != "none":
        raise UnsupportedGguf("rope scaling in the file is not converted")
    heads = int(_field(reader, "llama.attention.head_count"))
    hidden = int(_field(reader, "llama.embedding_length"))
    rope_dims = int(_field(reader, "llama.rope.dimension_count", hidden // heads))
    if rope_dims != hidden // heads:
        raise UnsupportedGguf(f"rope turns {rope_dims} of {hidden // heads} channels of a head")
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": int(_field(reader, "llama.block_count")),
        "intermediate_size": int(_field(reader, "llama.feed_forward_length")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(_field(reader, "llama.attention.head_count_kv", heads)),
        "rms_norm_eps": float(_field(reader, "llama.attention.layer_norm_rms_epsilon")),
        "vocab_size": len(_field(reader, "tokenizer.ggml.tokens")),
        "max_position_embeddings": int(_field(reader, "llama.context_length")),
        "rope_theta": float(_field(reader, "llama.rope.freq_base", 10000.0)),
        "rope_traditional": True,
        "tie_word_embeddings": tied,
        "bos_token_id": int(_field(reader, "tokenizer.ggml.bos_token_id", 1)),
        "eos_token_id": int(_field(reader, "tokenizer.ggml.eos_token_id", 2)),
    }


def _write_tokenizer(reader: Any, folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json from the vocabulary and merges in the GGUF."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind, pre = _field(reader, "tokenizer.ggml.model"), _field(reader, "tokenizer.ggml.pre")
    if kind != "gpt2" or pre not in _SINGLE_DIGIT_PRE:
        raise UnsupportedGguf(f"tokenizer {kind!r} with splitting {pre!r} is not one this tool rebuilds")
    tokens = list(_field(reader, "tokenizer.ggml.tokens"))
    types = list(_field(reader, "tokenizer.ggml.token_type"))
    merges = [tuple(m.split(" ", 1)) for m in _field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == _CONTROL_TOKEN]
    )
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, types) if k == _USER_TOKEN])
    tokenizer.save(str(folder / "tokenizer.json"))

    def token_of(key: str) -> str | None:
        index = _field(reader, key)
        return None if index is None else tokens[int(index)]

    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": bool(_field(reader, "tokenizer.ggml.add_bos_token", False)),
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": token_of("tokenizer.ggml.bos_token_id"),
        "eos_token": token_of("tokenizer.ggml.eos_token_id"),
        "unk_token": token_of("tokenizer.ggml.unknown_token_id"),
        "pad_token": token_of("tokenizer.ggml.padding_token_id"),
        "model_max_length": int(_field(reader, "llama.context_length")),
        "chat_template": _field(reader, "tokenizer.chat_template"),
    }
    settings = {k: v for k, v in settings.items() if v is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))


def _write_weights(reader: Any, folder: Path, dtype: str) -> None:
    """model.safetensors: every tensor dequantised to ``dtype``, mlx-lm's names, row-major."""
    import mlx.core as mx
    from gguf.quants import dequantize

    target = getattr(mx, dtype)
    # One tensor at a time through float32, so the peak is the written model, not twice float32.
    weights = {}
    for tensor in reader.tensors:
        weights[mlx_name(tensor.name)] = mx.array(dequantize(tensor.data, tensor.tensor_type)).astype(target)
        mx.eval(weights[mlx_name(tensor.name)])
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})


def convert(gguf_path: str | os.PathLike[str], folder: str | os.PathLike[str], dtype: str = "float32") -> Path:
    """Convert ``gguf_path`` into a new model folder and return its path.

    An existing folder is left as it is and returned: the caller's set-up step may run again.
    Raises UnsupportedGguf when the file cannot be converted exactly, FileNotFoundError, OSError.
    """
    from gguf import GGUFReader

    target = Path(folder)
    if (target / "config.json").exists():
        return target
    reader = GGUFReader(str(gguf_path))
    config = _config(reader, tied=all(t.name != "output.weight" for t in reader.tensors))
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _write_weights(reader, scratch, dtype)
        _write_tokenizer(reader, scratch)
        (scratch / "config.json").write_text(json.dumps({**config, "torch_dtype": dtype}, indent=1))
        try:
            os.rename(scratch, target)
        except OSError:
            # Another process made the same folder meanwhile; its result is as good as ours.
            if not (target / "config.json").exists():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pion.mlx_weights", description=__doc__.split("\n")[0])
    parser.add_argument("gguf")
    parser.add_argument("folder")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    args = parser.parse_args(argv)
    try:
        print(convert(args.gguf, args.folder, args.dtype))
    except (UnsupportedGguf, FileNotFoundError) as error:
        print(f"pion.mlx_weights: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
