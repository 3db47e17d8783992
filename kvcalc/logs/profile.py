"""What a start measured, as an engine profile: coefficients of a budget in the user's own file.

As engines/<engine>.toml in a folder of the user's presets it replaces the shipped coefficients of
the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.core.units import GIB, MIB
from kvcalc.logs.facts import Log

_UNITS = {"GiB": GIB, "MiB": MIB}


class Measured(NamedTuple):
    """One coefficient as a log gives it, in bytes, and how it was found there."""

    name: str
    unit: str
    value: float
    low: float
    high: float
    evidence: str


def profile_text(log: Log, version: str | None, found: Sequence[Measured]) -> str:
    """The profile as TOML; empty if nothing was found."""
    if not found:
        return ""
    title = _title(log, version)
    head = (
        f"# Measured from {_quoted(log.name)} by kvcalc check: {_quoted(title)}\n"
        f"# As engines/{log.engine}.toml in a folder of your presets it wins over kvcalc's own.\n"
    )
    return head + "".join(_table(m, title) for m in found)


def _table(m: Measured, title: str) -> str:
    size = _UNITS[m.unit]
    return (
        f"\n[coefficients.{m.name}]\n"
        f"value = {m.value / size:.6g}\nlow = {m.low / size:.6g}\nhigh = {m.high / size:.6g}\n"
        f'unit = "{m.unit}"\nbasis = "measured"\n'
        f'evidence = "{_quoted(m.evidence)}"\nsources = ["{_quoted(title)}"]\n'
    )


def _title(log: Log, version: str | None) -> str:
    parts = [log.engine, version or "of an unknown release"]
    if log.model:
        parts.append(f"with {log.model}")
    if log.devices:
        parts.append(f"on {log.devices[0]}")
    return " ".join(parts)


def _quoted(text: str) -> str:
    """Safe between the quotes of a TOML string."""
    return "".join(c if c.isprintable() and c not in '"\\' else "_" for c in text)
