"""Measured coefficients of an engine's budget: presets/engines/<id>.toml, and the user's own.

A coefficient is what no shape tells: buffers of a runtime, the cost of a captured graph. Each has
a best value, the ends between which it was seen, and its evidence. A file of the same name in a
user's folder (`engines/<id>.toml`) replaces single coefficients: what `check --measured` wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from kvcalc.catalog.files import Entry, read_toml
from kvcalc.catalog.locate import data_dir, shown_path
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import GIB, MIB, shown

#: Bytes of one; a plain number has none.
UNITS = {"GiB": GIB, "MiB": MIB, "B": 1, "": 1}
SHIPPED, MEASURED = "estimated", "measured"


class Coefficient(NamedTuple):
    """One figure: its value and the ends it was seen between, in `unit`; where it comes from."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    evidence: str
    sources: tuple[str, ...]
    #: "estimated", or "measured" where the user's own start-up log gave it.
    basis: str = SHIPPED

    def bytes(self, times: float = 1) -> tuple[int, int, int]:
        """Value, low and high of `times` of it, whole bytes."""
        size = UNITS[self.unit] * times
        return round(self.value * size), round(self.low * size), round(self.high * size)


Coefficients = Mapping[str, Coefficient]


_user_dirs: list[str] = []


def look_in(folders: Iterable[str]) -> None:
    """Name the user's folders whose engines/<id>.toml replace single coefficients."""
    _user_dirs[:] = folders


def coefficients(engine: str, user_dirs: Iterable[str] | None = None) -> Coefficients:
    """All coefficients of an engine by name; later folders win.

    `user_dirs`: The user's folders; None are those that `look_in` named.

    Raises:
        KvcalcError: "invalid_preset" or "unreadable_input" for a file of the user.
    """
    return _merged(engine, tuple(_user_dirs if user_dirs is None else user_dirs))


@cache
def _merged(engine: str, user_dirs: tuple[str, ...]) -> Coefficients:
    found = _read(os.path.join(data_dir("presets"), "engines", f"{engine}.toml"), SHIPPED)
    for folder in user_dirs:
        path = os.path.join(folder, "engines", f"{engine}.toml")
        if os.path.isfile(path):
            found |= _read(path, MEASURED)
    return MappingProxyType(found)


def _read(path: str, basis: str) -> dict[str, Coefficient]:
    tables = read_toml(path).get("coefficients")
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise KvcalcError(
            "invalid_preset", f"{shown_path(path)}: no table of coefficients",
            "write [coefficients.NAME] with value, low, high and unit",
        )  # fmt: skip
    return {name: _coefficient(path, name, table, basis) for name, table in tables.items()}


def _coefficient(path: str, name: str, table: Entry, basis: str) -> Coefficient:
    value: Any = table.get("value")
    low: Any = table.get("low", value)
    high: Any = table.get("high", value)
    unit = table.get("unit", "")
    whole = all(isinstance(n, (int, float)) for n in (value, low, high))
    if not whole or unit not in UNITS or not low <= value <= high:
        raise KvcalcError(
            "invalid_preset", f"{shown_path(path)}: coefficient {shown(name)} is not usable",
            f"low ≤ value ≤ high, and unit one of {', '.join(u for u in UNITS if u)}",
        )  # fmt: skip
    return Coefficient(
        name, value, low, high, unit, str(table.get("evidence", "")),
        tuple(map(str, table.get("sources", ()))), str(table.get("basis", basis)),
    )  # fmt: skip
