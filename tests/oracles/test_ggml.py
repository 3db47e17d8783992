"""ggml's types, and files that llama.cpp's quantize wrote: each tensor's type, bytes in all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc import resolve
from kvcalc.checkpoints.source import load_source
from kvcalc.core.gguf_types import TYPES
from kvcalc.core.gguf_weights import Shape, Tensor, bits_per_weight, quantized, tensors_of

ROOT = Path(__file__).parents[2]
ORACLES = ROOT.parent / "shared" / "oracles"


def sources(sample: str, name: str) -> list[Any]:
    everything = ORACLES / f"{name}.jsonl"
    missing = pytest.mark.skipif(not everything.exists(), reason="no ../shared")
    return [
        pytest.param(ROOT / "tests" / "data" / f"{sample}.jsonl", id="sample"),
        pytest.param(everything, id="all", marks=missing),
    ]


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("path", sources("ggml_type", "ggml_type"))
def test_types(path: Path) -> None:
    for record in records(path):
        kind = TYPES[record["name"]]
        assert (kind.id, kind.block_elements, kind.block_bytes, kind.bits_per_weight) == (
            record["id"],
            record["block_size"],
            record["type_size"],
            record["bits_per_weight"],
        )


def shape_of(config: dict[str, Any]) -> Shape:
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    experts = config.get("num_experts", 0)
    return Shape(
        arch="qwen3moe" if experts else "llama",
        layers=config["num_hidden_layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=config["num_key_value_heads"],
        head_dim=config.get("head_dim", hidden // heads),
        intermediate=config["intermediate_size"],
        vocab=config["vocab_size"],
        tied=config["tie_word_embeddings"],
        experts=experts,
        expert_intermediate=config.get("moe_intermediate_size", 0),
        qk_norm=bool(experts),
    )


def by_name(tensors: list[Tensor]) -> dict[str, Any]:
    """Types by the tensor's name without its layer; a list where layers differ."""
    types: dict[str, list[str]] = {}
    for tensor in tensors:
        name = tensor.name.split(".", 2)[2] if tensor.name.startswith("blk.") else tensor.name
        types.setdefault(name, []).append(tensor.type)
    return {n: found[0] if len(set(found)) == 1 else found for n, found in types.items()}


@pytest.mark.parametrize("path", sources("ggml_quantize", "gguf_quantize"))
def test_quantized_files(path: Path) -> None:
    different = []
    for record in records(path):
        shape = shape_of(record["config_min"])
        tensors = quantized(tensors_of(shape), record["ftype"], shape.mix)
        figures = (sum(t.elements for t in tensors), sum(t.bytes for t in tensors))
        if (
            figures != (record["n_elements"], record["tensor_bytes"])
            or by_name(tensors) != record["types_by_tensor"]
            or bits_per_weight(tensors) != pytest.approx(record["bpw"], abs=1e-12)
        ):
            different.append((record["name"], figures))
        for tensor, listed in zip(tensors, record.get("tensors") or (), strict=False):
            assert (tensor.name, list(tensor.shape), tensor.type, tensor.bytes) == (
                listed["name"],
                listed["shape"],
                listed["type"],
                listed["bytes"],
            )
    assert not different


#: Plain files, and types that no --weights names.
_ELSEWHERE = {"BF16", "F16", "F32", "Q1_0", "Q2_0"}


@pytest.mark.parametrize("path", sources("ggml_quantize", "gguf_quantize"))
def test_weights_of_a_config_are_the_file_that_quantize_writes(path: Path, tmp_path: Path) -> None:
    """The way of `--weights q4_k_m`: config.json, parameter count, tensors, their types."""
    different = []
    compared = 0
    for record in records(path):
        if record["ftype"] in _ELSEWHERE:
            continue
        config = tmp_path / "config.json"
        config.write_text(json.dumps(record["config_min"]), encoding="utf-8")
        weights = resolve.weights_of(load_source(str(config)), record["ftype"].lower(), None)
        compared += 1
        if weights.bytes != record["tensor_bytes"]:
            different.append((record["name"], weights.bytes, record["tensor_bytes"]))
    assert compared
    assert not different
