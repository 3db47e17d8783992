"""File types of GGUF: the mixes of known files, fallbacks, importance matrices, names."""

from __future__ import annotations

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.core.gguf_mix import Mix
from kvcalc.core.gguf_types import FILE_TYPES
from kvcalc.core.gguf_weights import (
    Shape,
    Tensor,
    bits_per_weight,
    file_type,
    quantized,
    tensors_of,
)

LLAMA_8B = Shape("llama", 32, 4096, 32, 8, 128, 14336, 128256)
LLAMA_2_7B = Shape("llama", 32, 4096, 32, 32, 128, 11008, 32000)
LLAMA_70B = Shape("llama", 80, 8192, 64, 8, 128, 28672, 128256)


def stored(shape: Shape, name: str, *, imatrix: bool = False) -> int:
    return sum(
        t.bytes for t in quantized(tensors_of(shape), name, shape.mix._replace(imatrix=imatrix))
    )


@pytest.mark.parametrize(
    ("shape", "name", "published", "header"),
    [
        # sizes of published files, less at most the vocabulary and merges in their headers
        (LLAMA_2_7B, "Q4_K_M", 4_081_004_224, 800_000),
        (LLAMA_8B, "Q4_K_M", 4_920_739_232, 8_000_000),
        (LLAMA_8B, "Q8_0", 8_540_775_840, 8_000_000),
        (LLAMA_70B, "Q4_K_M", 42_520_393_088, 8_000_000),
    ],
)
def test_published_files(shape: Shape, name: str, published: int, header: int) -> None:
    assert 0 < published - stored(shape, name) < header


def test_elements_are_the_model() -> None:
    assert sum(t.elements for t in tensors_of(LLAMA_8B)) == 8_030_261_248
    assert sum(t.elements for t in tensors_of(LLAMA_2_7B)) == 6_738_415_616
    mixtral = Shape("llama", 32, 4096, 32, 8, 128, 0, 32000, experts=8, expert_intermediate=14336)
    assert sum(t.elements for t in tensors_of(mixtral)) == 46_702_792_704
    qwen = Shape("qwen2", 28, 3584, 28, 4, 128, 18944, 152064, qkv_bias=True)
    assert sum(t.elements for t in tensors_of(qwen)) == 7_615_616_512


def test_a_q4_k_m_is_not_4_bits() -> None:
    tensors = quantized(tensors_of(LLAMA_8B), "q4_k_m", LLAMA_8B.mix)
    assert 4.88 < bits_per_weight(tensors) < 4.90
    assert {t.type for t in tensors} == {"F32", "Q4_K", "Q6_K"}


def test_the_first_layers_get_more_bits_with_an_importance_matrix() -> None:
    assert stored(LLAMA_8B, "Q4_0", imatrix=True) > stored(LLAMA_8B, "Q4_0")
    assert stored(LLAMA_8B, "IQ4_XS", imatrix=True) < stored(LLAMA_8B, "IQ4_XS")


@pytest.mark.parametrize("name", ["IQ1_S", "IQ2_XXS", "IQ2_M", "IQ3_XXS", "Q2_K_S"])
def test_small_types_need_an_importance_matrix(name: str) -> None:
    with pytest.raises(KvcalcError, match="importance matrix"):
        stored(LLAMA_8B, name)
    assert stored(LLAMA_8B, name, imatrix=True) < stored(LLAMA_8B, "Q3_K_M")


@pytest.mark.parametrize("name", sorted(FILE_TYPES))
def test_every_file_type_keeps_norms_and_is_found_by_name_and_number(name: str) -> None:
    for shape in (LLAMA_8B, LLAMA_8B._replace(arch="falcon"), LLAMA_8B._replace(tied=True)):
        tensors = quantized(tensors_of(shape), name, shape.mix._replace(imatrix=True))
        assert all(t.type == "F32" for t in tensors if t.name.endswith("_norm.weight"))
    number, _ = FILE_TYPES[name]
    assert file_type(number) == file_type(name.lower()) == file_type(f"MOSTLY_{name}") == name


def test_rows_that_blocks_do_not_divide_fall_back() -> None:
    """A row of 96 takes no block of 256: Q4_K becomes Q5_0; 72 takes none of 32: F16."""
    odd = [Tensor("blk.0.ffn_up.weight", (96, 4)), Tensor("blk.0.attn_q.weight", (72, 4))]
    types = {t.name: t.type for t in quantized(odd, "Q4_K_S", Mix("llama", 1))}
    assert types == {"blk.0.ffn_up.weight": "Q5_0", "blk.0.attn_q.weight": "F16"}


def test_experts_and_70b_models_have_rules_of_their_own() -> None:
    mixtral = Shape("llama", 32, 4096, 32, 8, 128, 0, 32000, experts=8, expert_intermediate=14336)
    types = {t.name: t.type for t in quantized(tensors_of(mixtral), "Q4_K_M", mixtral.mix, "F16")}
    assert types["blk.5.attn_v.weight"] == types["blk.5.attn_k.weight"] == "Q8_0"
    assert types["blk.5.attn_output.weight"] == "Q5_K"
    assert types["blk.5.ffn_gate_inp.weight"] == "F32"
    assert LLAMA_70B.mix.is_70b
    large = {t.name: t.type for t in quantized(tensors_of(LLAMA_70B), "Q4_K_S", LLAMA_70B.mix)}
    assert large["blk.40.attn_v.weight"] == "Q5_K"
    moe = {t.name: t.type for t in quantized(tensors_of(mixtral), "MXFP4_MOE", mixtral.mix)}
    assert moe["blk.0.ffn_up_exps.weight"] == "MXFP4"
    assert moe["blk.0.attn_q.weight"] == "Q8_0"


def test_shared_experts_and_norms_are_listed() -> None:
    shape = Shape(
        "qwen2moe", 3, 64, 4, 2, 16, 128, 100, experts=4, expert_intermediate=32,
        shared_intermediate=48, dense_layers=1, post_norms=True, qk_norm=True,
    )  # fmt: skip
    names = {t.name: t.shape for t in tensors_of(shape)}
    assert names["blk.0.ffn_up.weight"] == (64, 128)
    assert names["blk.1.ffn_up_shexp.weight"] == (64, 48)
    assert names["blk.1.ffn_down_exps.weight"] == (32, 64, 4)
    assert names["blk.2.post_ffw_norm.weight"] == (64,)
    assert names["blk.2.attn_q_norm.weight"] == (16,)


@pytest.mark.parametrize("name", ["q9_k", 4, 999, ""])
def test_unknown_file_types_name_the_nearest(name: str | int) -> None:
    with pytest.raises(KvcalcError) as refused:
        file_type(name)
    assert refused.value.code == "unknown_dtype"
