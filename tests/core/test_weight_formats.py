"""Weight formats by name, and what a number of parameters takes in each."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.errors import KvcalcError
from kvcalc.core.weight_formats import (
    WeightEstimate,
    WeightFormat,
    weight_bytes,
    weight_format,
    weight_formats,
)

FORMATS = weight_formats()
#: Llama-3.1-70B: parameters, embeddings and head (2 · 128,256 · 8,192), norms (161 · 8,192).
P70, E70, N70 = 70_553_706_496, 2_101_346_304, 1_318_912


def size(name: str, parameters: int, **known: int) -> WeightEstimate:
    return weight_bytes(weight_format(name), parameters=parameters, **known)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("bf16", "bf16"), ("BFloat16", "bf16"), ("float16", "fp16"), ("F32", "fp32"),
        ("fp8", "fp8"), ("FP8-E4M3", "fp8"), ("fp8 block", "fp8_block"), ("w8a8", "int8"),
        ("AWQ", "awq"), ("awq-int4", "awq"), ("gptq", "gptq"), ("gptq_desc_act", "gptq_g_idx"),
        ("w4a16", "w4a16"), ("compressed-tensors", "w4a16"), ("mxfp4", "mxfp4"),
        ("NVFP4", "nvfp4"), ("bnb-nf4", "nf4"), ("llm.int8", None), ("bnb_8bit", "bnb_int8"),
        ("Q4_K_M", "q4_k_m"), ("q4-k-m", "q4_k_m"), ("gguf_q8_0", "q8_0"),
        ("MXFP4_MOE", "mxfp4_moe"),
        ("int4", "int4"), ("", None), ("q9", None),
    ],
)  # fmt: skip
def test_names(name: str, key: str | None) -> None:
    if key is not None:
        assert weight_format(name).key == key
        return
    with pytest.raises(KvcalcError) as refusal:
        weight_format(name)
    assert refusal.value.code == "unknown_dtype"
    assert refusal.value.hint is not None
    assert "kvcalc dtypes" in refusal.value.hint


def test_the_nearest_names_are_named() -> None:
    with pytest.raises(KvcalcError) as refusal:
        weight_format("q4_k_n")
    assert str(refusal.value.hint).startswith("nearest: q4_k_s, q4_k_m, ")


def test_every_name_is_of_one_format() -> None:
    names = [name for f in FORMATS for name in (f.key, *f.aliases)]
    assert len(names) == len(set(names))
    for f in FORMATS:
        assert all(weight_format(name) == f for name in (f.key, *f.aliases))
        assert f.note


@pytest.mark.parametrize(
    ("key", "bits"),
    [
        ("awq", Fraction("4.15625")),  # 4 + 16/128 + 4/128
        ("gptq", Fraction("4.15625")),
        ("gptq_g_idx", Fraction("4.15625") + Fraction(32, 4096)),
        ("w4a16", Fraction("4.125")),  # 4 + 16/128
        ("fp8_block", 8 + Fraction(32, 128 * 128)),
        ("mxfp4", Fraction("4.25")),  # 4 + 8/32
        ("mxfp8", Fraction("8.25")),
        ("nvfp4", Fraction("4.5")),  # 4 + 8/16
        ("nf4", Fraction("4.5")),  # 4 + 32/64
        ("nf4_double", 4 + Fraction(8, 64) + Fraction(32, 64 * 256)),  # 4.127
        ("q8_0", Fraction("8.5008")),
    ],
)
def test_bits(key: str, bits: Fraction) -> None:
    assert weight_format(key).bits == bits


def test_the_textbook_figures() -> None:
    """70e9 · 4 / 8 = 35e9 and 70e9 · 2 = 140e9."""
    four, sixteen = size("int4", 70 * 10**9), size("bf16", 70 * 10**9)
    assert (four.bytes, four.low_bytes, four.basis) == (35 * 10**9, 35 * 10**9, "estimated")
    assert (sixteen.bytes, sixteen.high_bytes, sixteen.basis) == (140 * 10**9, 140 * 10**9, "exact")
    # Embeddings at 16 bits: (70,553,706,496 − 2,101,346,304) / 2 + 2 · 2,101,346,304.
    assert size("int4", P70, embedding_elements=E70).high_bytes == 34_226_180_096 + 4_202_692_608
    assert size("int4", 7).bytes == 4  # 28 bits, rounded up to whole bytes


def test_a_70b_at_fp8() -> None:
    """One byte each, and one more for embeddings and head: 70,553,706,496 + 2,101,346,304."""
    known = size("fp8", P70, embedding_elements=E70)
    assert known.bytes == 72_655_052_800
    assert known.types == (("fp8", P70 - E70), ("bf16", 2 * E70))
    unknown = size("fp8", P70)
    assert (unknown.bytes, unknown.low_bytes) == (P70, P70)
    assert unknown.high_bytes == P70 + -(-P70 // 8)


def test_a_70b_at_awq() -> None:
    """68,451,041,280 · 4.15625/8 + 2,102,665,216 · 2 = 39,767,785,472 B = 37.04 GiB."""
    found = size("awq", P70, unquantised=E70 + N70)
    assert found.bytes == 35_562_455_040 + 4_205_330_432 == 39_767_785_472
    assert 37.03 < found.bytes / 2**30 < 37.07
    assert found.basis == "estimated"
    assert found.low_bytes < found.bytes < found.high_bytes


def test_gpt_oss_quantises_its_experts_only() -> None:
    """114,661,785,600 · 4.25/8 + 2 · (39,813,120 + 2,127,557,952) = 65,248,815,744."""
    found = size("mxfp4", 116_829_156_672, expert_elements=114_661_785_600)
    assert found.bytes == 60_914_073_600 + 2 * (39_813_120 + 2_127_557_952) == 65_248_815_744
    assert found.basis == "exact"


def test_a_q4_k_m_is_not_four_bits() -> None:
    """The sizes that llama.cpp's table gives for Llama 3.1: 4.58 GiB (8B), 43.1 GB (70B)."""
    eight, seventy = size("Q4_K_M", 8_030_261_248), size("Q4_K_M", P70)
    assert round(eight.bytes / 2**30, 2) == 4.58
    assert eight.basis == "estimated"
    assert abs(seventy.bytes / 1e9 - 43.1) < 0.7
    assert seventy.low_bytes < 43.1e9 - 0.5e9 < seventy.high_bytes


@pytest.mark.parametrize("part", ["embedding_elements", "unquantised", "expert_elements"])
@pytest.mark.parametrize("elements", [-1, 101])
def test_a_part_is_within_the_whole(part: str, elements: int) -> None:
    with pytest.raises(KvcalcError, match="is no part of 100 parameters"):
        size("awq", 100, **{part: elements})


@given(
    fmt=st.sampled_from(FORMATS),
    parameters=st.integers(0, 10**13),
    more=st.integers(0, 10**9),
    share=st.one_of(st.none(), st.integers(0, 100)),
)
def test_properties(fmt: WeightFormat, parameters: int, more: int, share: int | None) -> None:
    kept = None if share is None else parameters * share // 100
    found = weight_bytes(fmt, parameters=parameters, embedding_elements=kept)
    assert sum(part for _, part in found.types) == found.bytes
    assert found.low_bytes <= found.bytes <= found.high_bytes
    assert (found.basis == "exact") == (found.low_bytes == found.high_bytes)
    assert found.bytes * 8 >= parameters
    grown = weight_bytes(fmt, parameters=parameters + more, embedding_elements=kept)
    assert grown.bytes >= found.bytes
