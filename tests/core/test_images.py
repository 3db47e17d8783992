"""Tokens of an image: the processors' own arithmetic, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvcalc
from kvcalc import KvcalcError
from kvcalc.core.images import image_tokens


@pytest.mark.parametrize(
    ("architecture", "image", "rows", "columns", "tokens"),
    [
        # 2048 / 28 = 73.1, 2488 / 28 = 88.9.
        ("qwen2_5_vl", "2488x2048", 73, 89, 73 * 89),
        ("qwen2_vl", "28x28", 2, 2, 4),  # at least 56 × 56 pixels
        # 4,000 · 3,000 = 12 million pixels: 3,000 / 28 = 107.1, 4,000 / 28 = 142.9.
        ("qwen2_5_vl", "4000x3000", 107, 143, 107 * 143),
        # 8,000 · 6,000 over 12,845,056: √3.7368 = 1.9331; 110.85 and 147.8 rounded down.
        ("qwen2_5_vl", "8000x6000", 110, 147, 110 * 147),
        # 1,080 / 32 = 33.75, 1,920 / 32 = 60.
        ("qwen3_vl", "1920x1080", 34, 60, 34 * 60),
        # 3,000 / 1,540 = 1.948: 1,540 × 1,026, so 55 columns and 36.6 rows, one token more a row.
        ("mistral3", "3000x2000", 37, 55, 37 * 56),
        ("pixtral", "1024x1024", 64, 64, 64 * 65),
        ("gemma3", "3000x20", None, None, 256),
    ],
)
def test_by_hand(
    architecture: str, image: str, rows: int | None, columns: int | None, tokens: int
) -> None:
    found = image_tokens(architecture, image)

    assert (found.rows, found.columns, found.tokens) == (rows, columns, tokens)


@given(st.integers(100, 9000), st.integers(100, 9000))
def test_an_image_on_its_side_takes_as_much(width: int, height: int) -> None:
    one, other = (image_tokens("qwen2_5_vl", f"{a}x{b}") for a, b in
                  ((width, height), (height, width)))  # fmt: skip
    assert one.tokens == other.tokens
    assert 4 <= one.tokens <= 12_845_056 // 28**2


@pytest.mark.parametrize(
    ("architecture", "image", "said"),
    [
        ("qwen2_5_vl", "foo", "no size in pixels"),
        ("qwen2_5_vl", "0x10", "no size in pixels"),
        ("qwen2_5_vl", "10x1000000", "no size in pixels"),
        ("qwen2_5_vl", "1x400", "over 200 times"),
        ("llama", "10x10", "in llama is not known"),
        (None, "10x10", "in this model is not known"),
    ],
)
def test_refusals(architecture: str | None, image: str, said: str) -> None:
    with pytest.raises(KvcalcError, match=said):
        image_tokens(architecture, image)


def test_images_are_a_part_of_the_context() -> None:
    alone = kvcalc.size("qwen3-vl-8b", image="1920x1080")
    assert alone.contexts[0].tokens == 2040
    more = kvcalc.size("qwen3-vl-8b", image=["1920x1080"], context="4k")
    assert [c.tokens for c in more.contexts] == [4096]
    with pytest.raises(KvcalcError, match="the images take 2,040 tokens, more than -c 2,000"):
        kvcalc.size("qwen3-vl-8b", image=["1920x1080"], context=2000)
    with pytest.raises(KvcalcError, match="ends at 262,144"):
        kvcalc.size("qwen3-vl-8b", image=["4000x4000"] * 40)
