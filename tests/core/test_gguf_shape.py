"""GGUF weights of a preset: its tensors from the parameter count, its bytes by file type."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvcalc import resolve
from kvcalc.catalog.models import load_model
from kvcalc.core.gguf_shape import gguf_file, shape_of


@pytest.mark.parametrize(
    ("name", "intermediate", "experts", "tied"),
    [
        # intermediate_size or moe_intermediate_size, experts and tie_word_embeddings of the configs
        ("llama-3.1-8b", 14_336, 0, False),
        ("llama-3.2-1b", 8192, 0, True),
        ("mistral-7b-v0.1", 14_336, 0, False),
        ("mixtral-8x7b", 14_336, 8, False),
        ("qwen2.5-0.5b", 4864, 0, True),
        ("qwen2.5-72b", 29_568, 0, False),
        ("qwen3-32b", 25_600, 0, False),
        ("qwen3-30b-a3b", 768, 128, False),
        ("gemma-2-9b", 14_336, 0, True),
        ("gemma-3-27b", 21_504, 0, True),
    ],
)
def test_the_parameter_count_gives_the_width(
    name: str, intermediate: int, experts: int, tied: bool
) -> None:
    shape = shape_of(load_model(name))
    assert shape is not None
    assert (shape.intermediate, shape.experts, shape.tied) == (intermediate, experts, tied)


@pytest.mark.parametrize(
    ("name", "kind", "published"),
    [
        # published files hold up to 8 MB of vocabulary, merges and settings before the tensors
        ("llama-3.1-8b", "q4_k_m", 4_920_739_232),
        ("llama-3.1-8b", "q8_0", 8_540_775_840),
        ("llama-2-7b", "q4_k_m", 4_081_004_224),
        ("qwen2.5-7b", "q4_k_m", 4_683_074_240),
    ],
)
def test_published_files(name: str, kind: str, published: int) -> None:
    weights = resolve.weights_of(load_model(name), kind, None)
    assert weights.bytes is not None
    assert 0 < published - weights.bytes < 8_000_000


def test_ollamas_file_with_wide_values_lies_within_the_range() -> None:
    """Its log: 18.81 GiB (4.93 BPW), 64 F16 tensors, where quantize would write 18.40 GiB."""
    weights = resolve.weights_of(load_model("qwen3-32b"), "q4_k_m", None)
    assert (weights.bytes, weights.low_bytes) == (19_756_174_336, 19_756_174_336)
    assert weights.high_bytes is not None
    assert round(weights.high_bytes / 2**30, 2) == 18.81
    assert weights.basis == "estimated"


def test_the_types_add_up() -> None:
    weights = resolve.weights_of(load_model("llama-3.1-8b"), "q4_k_m", None)
    assert [t.type for t in weights.types] == ["q4_k", "q6_k", "f32"]
    assert sum(t.bytes for t in weights.types) == weights.bytes == 4_912_898_048
    # 65 norms of 4,096 numbers
    assert weights.types[2].bytes == 65 * 4096 * 4


def test_an_importance_matrix_moves_the_range() -> None:
    file = gguf_file(load_model("llama-3.1-8b"), "iq4_xs")
    assert file is not None
    assert file.low_bytes < file.bytes < file.high_bytes
    tiny = gguf_file(load_model("llama-3.1-8b"), "iq2_xxs")  # quantize refuses without one
    assert tiny is not None
    assert tiny.bytes == tiny.low_bytes


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": 8_030_261_249},
        {"parameters": 8_000_000_000},
        {"parameters": 1},
        {"parameters": None},
        {"architecture": "phi3"},
        {"architecture": None},
        {"hidden_size": None},
        {"vocab_size": None},
        {"query_heads": 31},
        {"weights": None},
        {"layers": ()},
    ],
)
def test_what_the_count_does_not_tell_is_not_guessed(change: dict[str, object]) -> None:
    model = replace(load_model("llama-3.1-8b"), **change)  # type: ignore[arg-type]
    assert shape_of(model) is None
    assert gguf_file(model, "q4_k_m") is None


def test_other_models_keep_the_whole_models_bits() -> None:
    weights = resolve.weights_of(load_model("phi-4"), "q4_k_m", None)
    assert weights.basis == "estimated"
    assert weights.low_bytes is not None
    assert weights.high_bytes is not None
    assert weights.bytes is not None
    assert weights.low_bytes < weights.bytes < weights.high_bytes
