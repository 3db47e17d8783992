"""Small models as files: a config, safetensors and GGUF files whose data are holes."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from kvcalc.core.cache import Full

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 96,
    "max_position_embeddings": 2048, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
#: 2 · 96·64 of embedding and head, a norm, and two layers: q, o 64·64, k, v 32·64, three of
#: 128·64, two norms.
PARAMETERS = 2 * 96 * 64 + 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64)
LAYERS = ((Full(kv_heads=2, key_dim=16, value_dim=16),),) * 2
BITS = {"BF16": 16, "F32": 32, "F8_E4M3": 8, "U8": 8, "I32": 32, "I64": 64, "F16": 16}


def safetensors(path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> Path:
    """A file of these tensors, its data a hole."""
    table, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = BITS[dtype] // 8
        for n in shape:
            size *= n
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(table, separators=(",", ":")).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + at)
    return path


def text(word: bytes) -> bytes:
    return struct.pack("<Q", len(word)) + word


def gguf(
    path: Path,
    keys: dict[str, Any],
    tensors: list[tuple[str, int, tuple[int, ...]]],
    tokens: int = 0,
) -> Path:
    """A GGUF file of whole numbers, texts and a vocabulary; its tensors of F16 (1) or F32 (0)."""
    pairs = []
    for name, value in keys.items():
        coded = struct.pack("<II", 4, value) if isinstance(value, int) else b""
        coded = coded or struct.pack("<I", 8) + text(str(value).encode())
        pairs.append(text(name.encode()) + coded)
    if tokens:
        words = b"".join(text(b"token %d" % n) for n in range(tokens))
        pairs.append(text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, tokens) + words)
    infos, at = [], 0
    for name, kind, shape in tensors:
        size = (4, 2)[kind]
        for n in shape:
            size *= n
        infos.append(
            text(name.encode()) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at)
        )
        at += -(-size // 32) * 32
    raw = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(pairs)) + b"".join(pairs + infos)
    with path.open("wb") as file:
        file.write(raw)
        file.truncate(-(-len(raw) // 32) * 32 + at)
    return path


LLAMA = {
    "general.architecture": "llama", "general.name": "A Llama", "general.file_type": 1,
    "llama.block_count": 2, "llama.context_length": 2048, "llama.embedding_length": 64,
    "llama.feed_forward_length": 128, "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}  # fmt: skip


def llama_tensors(layers: int = 2, width: int = 64) -> list[tuple[str, int, tuple[int, ...]]]:
    """Names, types and shapes as llama.cpp's converter writes them."""
    found: list[tuple[str, int, tuple[int, ...]]] = [
        ("token_embd.weight", 1, (width, 96)), ("output.weight", 1, (width, 96)),
        ("output_norm.weight", 0, (width,)),
    ]  # fmt: skip
    for layer in range(layers):
        for name, rows in {"attn_q": width, "attn_k": width // 2, "attn_v": width // 2,
                           "attn_output": width, "ffn_gate": 2 * width, "ffn_up": 2 * width,
                           }.items():  # fmt: skip
            found.append((f"blk.{layer}.{name}.weight", 1, (width, rows)))
        found.append((f"blk.{layer}.ffn_down.weight", 1, (2 * width, width)))
        found += [(f"blk.{layer}.{n}_norm.weight", 0, (width,)) for n in ("attn", "ffn")]
    return found


def hf_tensors(layers: int = 2) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of CONFIG's model, as transformers names them."""
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (96, 64), "lm_head.weight": (96, 64),
        "model.norm.weight": (64,),
    }  # fmt: skip
    for layer in range(layers):
        p = f"model.layers.{layer}."
        rows = {"self_attn.q_proj": 64, "self_attn.k_proj": 32, "self_attn.v_proj": 32,
                "self_attn.o_proj": 64, "mlp.gate_proj": 128, "mlp.up_proj": 128}  # fmt: skip
        found |= {f"{p}{name}.weight": (n, 64) for name, n in rows.items()}
        found[p + "mlp.down_proj.weight"] = (64, 128)
        found |= {f"{p}{n}_layernorm.weight": (64,) for n in ("input", "post_attention")}
    return {name: ("BF16", shape) for name, shape in found.items()}


def shard(folder: Path, *, count: int = 2, index: bool = True) -> list[Path]:
    """CONFIG's model in `count` files of the folder."""
    items = list(hf_tensors().items())
    size = -(-len(items) // count)
    places: dict[str, str] = {}
    files = []
    for n in range(count):
        part = dict(items[n * size : (n + 1) * size])
        files.append(folder / f"model-{n + 1:05d}-of-{count:05d}.safetensors")
        safetensors(files[-1], part)
        places |= dict.fromkeys(part, files[-1].name)
    if index:
        table = {"metadata": {"total_size": 2 * PARAMETERS}, "weight_map": places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(table))
    return files
