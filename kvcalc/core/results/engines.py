"""The answers of `kvcalc engines`: the engines, and one with its settings and coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kvcalc.core.results.base import Result, Warn


class SettingItem(NamedTuple):
    """A setting by the engine's own name: its values, what holds without it, what it does."""

    name: str
    kind: str
    default: str
    note: str


class CoefficientItem(NamedTuple):
    """A figure that no shape tells: its value between two ends, and its evidence."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    evidence: str
    sources: tuple[str, ...]
    basis: str


class EngineItem(NamedTuple):
    """One engine in full; the list shows how many settings and coefficients it has."""

    id: str
    name: str
    newest: str | None
    #: Releases whose rules differ, oldest first.
    versions: tuple[str, ...]
    versions_note: str
    #: Whether --engine-version may name one.
    versioned: bool
    settings: tuple[SettingItem, ...]
    coefficients: tuple[CoefficientItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginesResult(Result):
    """Every engine, or the one that was named (`shown`), whose entry alone is the answer then."""

    command: ClassVar[str] = "engines"
    main_list: ClassVar[str] = "items"
    hidden: ClassVar[frozenset[str]] = frozenset({"warnings", "shown"})

    items: tuple[EngineItem, ...]
    shown: bool = False
    warnings: tuple[Warn, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """`{items}`, or the entry itself."""
        data: dict[str, object] = super(EnginesResult, self).to_dict()
        if not self.shown:
            return data
        entry: dict[str, object] = self.main_rows()[0]
        return entry
