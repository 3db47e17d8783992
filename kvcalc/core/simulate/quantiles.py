"""Percentiles of ordered values."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The value below which `percent` of 100 lie, between two of them interpolated."""
    low, rest = divmod(percent * (len(ordered) - 1), 100)
    value = ordered[low]
    return value + (ordered[low + 1] - value) * rest / 100 if rest else value
