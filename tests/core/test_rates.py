"""Rates: bytes and bits told apart, what is both refused; numbers as written."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.errors import KvcalcError
from kvcalc.core.rates import parse_number, parse_rate
from kvcalc.core.units import MAX_BYTES


@pytest.mark.parametrize(("text", "expected"), [
    ("25GB/s", 25 * 10**9),
    ("25GB", 25 * 10**9),
    ("25 GB/s", 25 * 10**9),
    ("64GiB/s", 64 * 2**30),
    ("1.5GBps", 1_500_000_000),
    ("200Gb/s", 25 * 10**9),  # 200 · 10⁹ / 8
    ("200Gbps", 25 * 10**9),
    ("200Gbit/s", 25 * 10**9),
    ("200gbit/s", 25 * 10**9),
    ("100Gib/s", 13_421_772_800),  # 100 · 2³⁰ / 8
    ("1_000MB/s", 10**9),
    ("512kB/s", 512_000),
    ("8b/s", 1),
    ("12b/s", 2),  # 1.5 bytes
    ("7bytes/s", 7),
])  # fmt: skip
def test_bits_and_bytes(text: str, expected: int) -> None:
    assert parse_rate(text, "--bandwidth") == expected


@pytest.mark.parametrize(("text", "said"), [
    ("25G", "25 GB/s, or 25 Gb/s = 3.13 GB/s"),
    ("25G/s", "25 GB/s, or 25 Gb/s = 3.13 GB/s"),
    ("25gb/s", "25 GB/s, or 25 Gb/s = 3.13 GB/s"),
    ("400gbps", "400 GB/s, or 400 Gb/s = 50.00 GB/s"),
    ("64Gi", "64 GiB/s, or 64 Gib/s = 8.00 GiB/s"),
    ("8k", "8 kB/s, or 8 kb/s = 1.00 kB/s"),
    ("25", "has no unit"),
    ("0GB/s", "out of range"),
    ("1b/s", None),
    ("99999PB/s", "out of range"),
    ("25GB/h", "not a rate"),
    ("25 apples", "not a rate"),
    ("-1GB/s", "not a rate"),
    ("", "not a rate"),
    ("1e3GB/s", "not a rate"),
])  # fmt: skip
def test_what_is_refused(text: str, said: str | None) -> None:
    if said is None:  # an eighth of a byte is none
        said = "out of range"
    with pytest.raises(KvcalcError) as error:
        parse_rate(text, "--bandwidth")
    assert error.value.code == "usage"
    assert said in error.value.message


@given(st.text(max_size=30))
def test_any_text_is_a_rate_or_one_line(text: str) -> None:
    message, value = "--bandwidth", 1
    try:
        value = parse_rate(text, "--bandwidth")
    except KvcalcError as error:
        message = error.message

    assert 0 < value <= MAX_BYTES
    assert message.startswith("--bandwidth")
    assert message.isprintable()


def test_numbers_are_exact() -> None:
    assert parse_number("2.50", "--price") == Fraction(5, 2)
    assert parse_number(".1", "--price") == Fraction(1, 10)
    assert parse_number(0.1, "--price") == Fraction(1, 10)
    assert parse_number(10, "--price") == 10


@pytest.mark.parametrize("text", ["0", "0.0", "-1", "1e3", "nan", "inf", "", "$2", "1,5"])
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(KvcalcError, match=r"--price .* is not a number above 0"):
        parse_number(text, "--price")


def test_what_is_too_large_is_called_so() -> None:
    with pytest.raises(KvcalcError, match="--price 9999999999999999999 is too large"):
        parse_number("9" * 19, "--price")
    with pytest.raises(KvcalcError) as caught:
        parse_rate("99999999999TB/s", "--bandwidth")
    assert "at most" in str(caught.value.hint)
