"""A what-if table: one answer for each combination of the options that had several values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import Result, Warn


class WhatIfRow(NamedTuple):
    """One combination of the options that had several values, and its answer."""

    combination: dict[str, Any]
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Result):
    """Answers to the product of several options' values, in option order."""

    main_list: ClassVar[str] = "rows"

    name: str
    rows: tuple[WhatIfRow, ...]
    warnings: tuple[Warn, ...] = ()

    @property
    def command(self) -> str:  # type: ignore[override]
        """The command the rows are answers of."""
        return self.name

    @property
    def yes(self) -> bool:
        """Yes if any row says yes."""
        return any(row.result.yes for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """`data`: the rows, each with its combination and its full data."""
        return {"rows": self.main_rows()}

    def main_rows(self) -> list[dict[str, Any]]:
        """One dict a row."""
        return [{"combination": r.combination, **r.result.to_dict()} for r in self.rows]
