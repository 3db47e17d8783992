"""Times and rates in words."""

from __future__ import annotations

import pytest

from kvcalc.report.views.speed import seconds
from kvcalc.report.views.times import duration, per_second


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0042, "4.2 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (1783, "29 min 43 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (11_220, "3 h 07 min"),
        (172_799, "48 h 00 min"),
        (172_800, "2 days"),
        (536_871, "6.2 days"),
    ],
)
def test_a_duration_in_its_own_units(value: float, text: str) -> None:
    assert duration(value).replace("\u00a0", " ") == text


def test_ceilings_carry_three_digits_and_then_minutes() -> None:
    assert seconds(0.0366).replace("\u00a0", " ") == "36.6 ms"
    assert seconds(125).replace("\u00a0", " ") == "2 min 05 s"


def test_no_rate_is_nothing() -> None:
    assert [per_second(v) for v in (2.384, 0.01, 0.002, 1.4e-6)] == [
        "2.38", "0.01", "0.002", "1.4e-06",
    ]  # fmt: skip
