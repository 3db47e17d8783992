"""Bytes and counts: what is read, what is refused, how figures are rounded."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvcalc.core import units
from kvcalc.core.errors import KvcalcError


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("4096", 4096),
        (4096, 4096),
        ("4_096", 4096),
        ("4k", 4096),
        ("4K", 4096),
        ("128K", 131_072),
        ("1M", 1_048_576),
        ("1m", 1_048_576),
        (" 8 ", 8),
        ("+8", 8),
        ("1000000000000", 10**12),
    ],
)
def test_counts_are_read_in_binary_multiples(text: str | int, tokens: int) -> None:
    assert tokens == units.parse_count(text, "-c")


@pytest.mark.parametrize(
    "text",
    [
        "0", 0, "-1", -1, "+-8", "1.5", "1e3", "4G", "4kk", "4 thousand", "", " ", "k", "_4", "4_",
        "4__096", "4_k", "0x10", "４", "1000000000001", "9" * 31, "9" * 300, True, None, 4.0,
        "1,024",
    ],
)  # fmt: skip
def test_other_counts_are_refused_by_name(text: object) -> None:
    with pytest.raises(KvcalcError) as refused:
        units.parse_count(text, "--context")  # type: ignore[arg-type]  # what batch may hold

    assert refused.value.code == "usage"
    assert refused.value.message.startswith("--context ")
    assert "\n" not in refused.value.message


def test_a_count_of_zero_is_read_where_zero_is_allowed() -> None:
    assert units.parse_count("0", "--at", minimum=0) == 0
    with pytest.raises(KvcalcError, match="0 or more"):
        units.parse_count("-1", "--at", minimum=0)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GiB", 85_899_345_920),
        ("80 GiB", 85_899_345_920),
        ("80gib", 85_899_345_920),
        ("80GB", 80_000_000_000),
        ("512MiB", 536_870_912),
        ("512MB", 512_000_000),
        ("1.5KiB", 1_536),
        ("1TiB", 1_099_511_627_776),
        ("35_000_000_000", 35_000_000_000),
        (35_000_000_000, 35_000_000_000),
        ("1B", 1),
        ("79.18GiB", 85_018_877_624),  # 79.18 × 1,073,741,824 = 85,018,877,624.32
        ("0.0000000005GB", 1),  # half a byte goes up
    ],
)
def test_sizes_are_read_with_their_unit(text: str | int, size: int) -> None:
    assert size == units.parse_bytes(text, "--weight-bytes")


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("80G", ("80 GB = 74.51 GiB", "80 GiB", "80GB or 80GiB")),
        ("80 g", ("80 GB = 74.51 GiB", "80 GiB", "80GB or 80GiB")),
        ("512M", ("512 MB = 488.28 MiB", "512 MiB", "512MB or 512MiB")),
        ("1.5T", ("1.5 TB = 1.36 TiB", "1.5 TiB", "1.5TB or 1.5TiB")),
    ],
)
def test_a_bare_letter_is_refused_with_both_readings(text: str, readings: tuple[str, ...]) -> None:
    """80 × 10⁹ / 2³⁰ = 74.505…, 512 × 10⁶ / 2²⁰ = 488.28…, 1.5 × 10¹² / 2⁴⁰ = 1.364…."""
    with pytest.raises(KvcalcError) as refused:
        units.parse_bytes(text, "--gpu-memory")

    decimal, binary, hint = readings
    assert decimal in refused.value.message
    assert refused.value.message.endswith(f"or {binary}")
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    "text", ["80", 80, "-1GiB", "GiB", "1e3GiB", "80XB", "80GiBs", "0GiB", "2000000TiB", "", "∞GiB"]
)
def test_other_sizes_are_refused_in_one_line(text: str | int) -> None:
    with pytest.raises(KvcalcError) as refused:
        units.parse_bytes(text, "--reserve")

    assert refused.value.code == "usage"
    assert refused.value.message.startswith("--reserve ")
    assert refused.value.hint


def test_control_characters_of_the_input_never_reach_the_terminal() -> None:
    assert units.shown("\x1b[31mred") == "\\x1b[31mred"
    assert units.shown("") == '""'
    assert len(units.shown("x" * 500)) == 60


@pytest.mark.parametrize(("a", "b", "blocks"), [(0, 16, 0), (1, 16, 1), (16, 16, 1), (17, 16, 2)])
def test_division_rounds_up(a: int, b: int, blocks: int) -> None:
    assert blocks == units.cdiv(a, b)
    assert blocks * b == units.pad(a, b)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.00"),
        (671_088_640, "0.63"),  # 0.625 GiB: half up
        (1_342_177_280, "1.25"),
        (1_100_000_000_000, "1,024.45"),
        (-6_796_813_795, "−6.33"),
        (-1, "0.00"),
    ],
)
def test_two_decimals_half_up_with_separators(value: int, text: str) -> None:
    assert text == units.fixed(value, units.GIB)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (327_680, "320 KiB"),
        (70_272, "68.63 KiB"),  # 68.625
        (1_342_177_280, "1.25 GiB"),
        (42_949_672_960, "40 GiB"),
        (2**40, "1 TiB"),
    ],
)
def test_a_sentence_takes_the_largest_unit_and_a_no_break_space(value: int, text: str) -> None:
    assert text.replace(" ", "\u00a0") == units.format_bytes(value).replace(",", "")


def test_shares_are_shown_in_per_cent() -> None:
    """7,788 of 12,288 token slots are wasted by naive allocation: 0.6337890625."""
    assert units.percent(Fraction(7788, 12288)) == "63.4%"
    assert units.percent(0.62, 0) == "62%"
