"""json, jsonl and csv: the same numbers for scripts; integers in bytes, nothing rounded."""

from __future__ import annotations

import json
from typing import Any

from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.base import Result
from kvcalc.core.units import printable


def envelope(
    command: str | None,
    *,
    version: str,
    data: dict[str, Any] | None = None,
    exit_code: int = 0,
    warnings: list[dict[str, str]] | None = None,
    error: KvcalcError | None = None,
) -> dict[str, Any]:
    """The one JSON object every answer and every failure comes in."""
    status = "error" if error is not None else ("ok" if exit_code == 0 else "no")
    errors = []
    if error is not None:  # as on stderr, whatever was typed into it
        hint = None if error.hint is None else printable(error.hint)
        errors = [{"code": error.code, "message": printable(error.message), "hint": hint}]
    return {
        "schema": f"kvcalc.{command or 'error'}/1",
        "version": version,
        "command": command,
        "status": status,
        "exit_code": exit_code,
        "data": data,
        "warnings": warnings or [],
        "errors": errors,
    }


def dumps(value: Any) -> str:
    """Compact JSON on one line."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def jsonl(result: Result) -> str:
    """The main list, one object a line."""
    return "".join(dumps(flat(row)) + "\n" for row in result.main_rows())


def csv(result: Result) -> str:
    """The main list as a table; nested keys joined by a dot, lists as JSON."""
    import csv as writer  # noqa: PLC0415 - only this format needs it
    import io  # noqa: PLC0415

    rows = [flat(row) for row in result.main_rows()]
    names = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO()
    table = writer.DictWriter(out, names, lineterminator="\n")
    table.writeheader()
    table.writerows({k: _cell(v) for k, v in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return printable(value)
    return dumps(value) if isinstance(value, list) else value


def flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects with their keys joined by a dot."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out.update(flat(value, f"{prefix}{key}."))
        else:
            out[f"{prefix}{key}"] = value
    return out
