"""A command and its options to a result; several values of an option to a what-if table.

The command line and `batch` both come through here, so one rule says what a list means.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.base import Result, Warn
from kvcalc.core.units import shown

#: Combinations of a what-if table; more is a typing error and would not be read.
MAX_ROWS = 10_000


def function_of(command: str) -> Callable[..., Result]:
    """The Python function behind a command."""
    from importlib import import_module  # noqa: PLC0415 - one command, one module

    from kvcalc import HOMES  # noqa: PLC0415

    found: Callable[..., Result] = getattr(import_module(HOMES[command]), command)
    return found


def answer(command: str, options: dict[str, Any], *, lists: frozenset[str]) -> Result:
    """The command's answer; a `Rows` if an option outside `lists` has several values.

    Args:
        command: A command with a Python function of its name.
        options: Keywords of that function; products hold lists.
        lists: Keywords whose several values are one list there.

    Raises:
        KvcalcError: What the command raises; "usage" for too many combinations.
    """
    function = function_of(command)
    single: dict[str, Any] = {}
    several: dict[str, list[Any]] = {}
    for key, value in options.items():
        if key in lists or not isinstance(value, list):
            single[key] = value
        elif len(value) == 1:
            single[key] = value[0]
        elif value:
            several[key] = value
    if not several:
        return function(**single)
    from kvcalc.api.auto import concrete  # noqa: PLC0415 - tables alone need them
    from kvcalc.core.results.rows import Rows, WhatIfRow  # noqa: PLC0415

    count = 1
    for values in several.values():
        count *= len(values)
    if count > MAX_ROWS:
        raise KvcalcError(
            "usage", f"{count:,} combinations", f"the most is {MAX_ROWS:,}; give fewer values"
        )
    rows = []
    warnings: dict[Warn, None] = {}
    for chosen in itertools.product(*several.values()):
        # A row says which machine `auto` was.
        keywords, told = concrete(function, {**single, **dict(zip(several, chosen, strict=True))})
        combination = {key: keywords[key] for key in several}
        made = function(**keywords)
        rows.append(WhatIfRow(combination, made))
        warnings.update(dict.fromkeys((*told, *getattr(made, "warnings", ()))))
    return Rows(name=command, rows=tuple(rows), warnings=tuple(warnings))


def pairs(texts: list[str]) -> dict[str, str]:
    """NAME=VALUE texts as a mapping.

    Raises:
        KvcalcError: "usage" for a text without "=" or a name given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise KvcalcError(
                "usage", f"--set {shown(text)} is not NAME=VALUE", "like --set max_num_seqs=64"
            )
        if name.strip() in found:
            raise KvcalcError("usage", f"--set {shown(name)} is given twice", "give it once")
        found[name.strip()] = value.strip()
    return found
