"""Storage formats: exact bytes of a row, and refusals where blocks do not divide."""

from __future__ import annotations

import pytest

from kvcalc.core.dtypes import (
    DTYPES,
    bits_per_element,
    dtype,
    kv_bytes,
    pair_bytes,
    row_bytes,
    storage,
)
from kvcalc.core.errors import KvcalcError

#: Bytes of one vector of 128 elements of one head, from each format's own layout.
HEAD_OF_128 = {
    "fp32": 512,  # 4 each
    "bf16": 256,  # 2 each
    "fp16": 256,
    "fp8": 128,  # 1 each
    "fp8_e5m2": 128,
    "int8": 128,
    "int4": 64,  # two in a byte
    "int8_per_token_head": 132,  # 128 + an fp32 scale
    "fp8_per_token_head": 132,
    "int4_per_token_head": 68,  # 64 + an fp32 scale
    "nvfp4": 72,  # 64 + 8 scales of one byte, one per 16
    "mxfp4": 68,  # 64 + 4 scales, one per 32
    "mxfp8": 132,  # 128 + 4 scales, one per 32
    "q8_0": 136,  # 4 blocks of 34
    "q5_1": 96,  # 4 of 24
    "q5_0": 88,  # 4 of 22
    "q4_1": 80,  # 4 of 20
    "q4_0": 72,  # 4 of 18
    "iq4_nl": 72,  # 4 of 18
}


@pytest.mark.parametrize(("name", "size"), HEAD_OF_128.items())
def test_bytes_of_one_head_of_128(name: str, size: int) -> None:
    assert size == row_bytes(dtype(name), 1, 128)


@pytest.mark.parametrize(("name", "size"), HEAD_OF_128.items())
def test_eight_heads_keep_keys_and_values_each(name: str, size: int) -> None:
    """8 heads × (K + V) of 128: sixteen such vectors."""
    assert 16 * size == kv_bytes(storage(name), 8, 128, 128)


def test_every_format_is_covered_here() -> None:
    pairs = {name for name in DTYPES if name.startswith("turboquant")}

    assert set(DTYPES) == set(HEAD_OF_128) | pairs
    assert len(pairs) == 4


@pytest.mark.parametrize(
    ("name", "dim", "slot"),
    [
        ("turboquant_k8v4", 64, 100),
        ("turboquant_k8v4", 96, 148),
        ("turboquant_4bit_nc", 64, 70),
        ("turboquant_4bit_nc", 96, 102),
        ("turboquant_4bit_nc", 256, 262),
        ("turboquant_k3v4_nc", 64, 62),
        ("turboquant_k3v4_nc", 96, 90),
        ("turboquant_3bit_nc", 96, 78),
        ("turboquant_3bit_nc", 128, 102),
        ("turboquant_3bit_nc", 256, 198),
    ],
)
def test_turboquant_slots(name: str, dim: int, slot: int) -> None:
    """K bits + K scale + V bits + V scale, rounded up to an even size.

    Recorded from vLLM 0.33.0's TurboQuantConfig. k3v4_nc at 96: 288/8 + 2 + 384/8 + 4 =
    36 + 2 + 48 + 4 = 90.
    """
    assert slot == pair_bytes(dtype(name), dim, dim)
    assert 8 * slot == kv_bytes(storage(name), 8, dim, dim)


def test_keys_and_values_may_be_stored_apart() -> None:
    """One head of 128: K q8_0 136 + V q4_0 72 = 208; K q5_0 88 + V f16 256 = 344."""
    assert kv_bytes(storage("auto", "q8_0", "q4_0"), 1, 128, 128) == 208
    assert kv_bytes(storage("f16", "q5_0"), 1, 128, 128) == 344
    assert storage("f16", "q5_0").label == "K q5_0, V fp16"
    assert storage("bf16").label == "bf16"


def test_keys_and_values_may_differ_in_width() -> None:
    """MLA expanded: 64 heads × (192 + 128) × 2 bytes = 40,960."""
    assert kv_bytes(storage("bf16"), 64, 192, 128) == 40_960


def test_ggml_blocks_run_over_the_whole_row() -> None:
    """Two heads of 16 are one block of 32: 34 bytes; one head of 16 is no block."""
    assert row_bytes(dtype("q8_0"), 2, 16) == 34
    with pytest.raises(KvcalcError, match="a row of 1 × 16") as refused:
        row_bytes(dtype("q8_0"), 1, 16)
    assert refused.value.code == "not_divisible"


def test_scaled_blocks_of_other_formats_stay_within_a_head() -> None:
    """nvfp4 scales 16 elements of one head: two heads of 24 are 48 elements, yet refused."""
    with pytest.raises(KvcalcError, match="a head of 24") as refused:
        row_bytes(dtype("nvfp4"), 2, 24)
    assert refused.value.code == "not_divisible"
    assert row_bytes(dtype("nvfp4"), 2, 64) == 2 * 36


@pytest.mark.parametrize(
    ("alias", "key"),
    [
        ("f16", "fp16"), ("FLOAT16", "fp16"), ("half", "fp16"), ("bfloat16", "bf16"),
        ("fp8_e4m3", "fp8"), ("fp8-e4m3", "fp8"), ("e5m2", "fp8_e5m2"), ("float32", "fp32"),
        ("Q8_0", "q8_0"), ("q8-0", "q8_0"), ("int8-per-token-head", "int8_per_token_head"),
    ],
)  # fmt: skip
def test_familiar_names(alias: str, key: str) -> None:
    assert key == dtype(alias).key


@pytest.mark.parametrize("name", ["fp9", "", "q8", "bf16 ", "\x1b[31m", None, 8])
def test_unknown_formats_are_refused(name: object) -> None:
    with pytest.raises(KvcalcError) as refused:
        dtype(name, "--k-dtype")  # type: ignore[arg-type]  # what batch may hold

    assert refused.value.code == "unknown_dtype"
    assert refused.value.message.startswith("--k-dtype: no dtype")
    assert "\x1b" not in refused.value.message
    assert "kvcalc dtypes" in (refused.value.hint or "")


def test_the_nearest_formats_are_named() -> None:
    with pytest.raises(KvcalcError) as refused:
        dtype("bf61")

    assert "bf16" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("k", "v"), [("turboquant_k8v4", "bf16"), ("bf16", "turboquant_3bit_nc"),
                 ("turboquant_k8v4", "turboquant_3bit_nc")]
)  # fmt: skip
def test_formats_that_hold_both_cannot_hold_one(k: str, v: str) -> None:
    with pytest.raises(KvcalcError, match="one slot") as refused:
        storage("auto", k, v)

    assert refused.value.code == "usage"


@pytest.mark.parametrize(
    ("name", "bits"),
    [("bf16", 16), ("q8_0", 8.5), ("q4_0", 4.5), ("q5_1", 6), ("nvfp4", 4.5), ("mxfp4", 4.25),
     ("turboquant_k8v4", 6)],
)  # fmt: skip
def test_bits_of_an_element(name: str, bits: float) -> None:
    """q8_0: 34 bytes · 8 / 32 = 8.5; nvfp4: 9 · 8 / 16 = 4.5; mxfp4: 17 · 8 / 32 = 4.25."""
    assert bits == bits_per_element(dtype(name))
