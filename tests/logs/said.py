"""A line of a log, and what it says: for the tables of wordings."""

from __future__ import annotations

from typing import Any, NamedTuple

GIB, MIB = 2**30, 2**20


class Said(NamedTuple):
    """A line, the figures in it (as printed, with their unit) and the settings."""

    line: str
    figures: dict[str, float]
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed; a NamedTuple default


def gib(**figures: float) -> dict[str, float]:
    """Figures printed in GiB, in bytes."""
    return {name: value * GIB for name, value in figures.items()}


def mib(**figures: float) -> dict[str, float]:
    """Figures printed in MiB, in bytes."""
    return {name: value * MIB for name, value in figures.items()}
