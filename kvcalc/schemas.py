"""The JSON Schema of every answer, made from the result classes themselves."""

from __future__ import annotations

import importlib
import types
import typing
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from kvcalc.core.errors import CODES, KvcalcError, nearest
from kvcalc.core.units import shown

#: Command → its result classes; several are alternatives.
RESULTS = {
    "size": ("kvcalc.core.results.size:SizeResult",),
    "fit": ("kvcalc.core.results.fit:FitResult", "kvcalc.core.results.fit:FitList"),
    "timeline": ("kvcalc.core.results.timeline:TimelineResult",),
    "waste": ("kvcalc.core.results.waste:WasteResult",),
    "tradeoff": ("kvcalc.core.results.tradeoff:TradeoffResult",),
    "speed": ("kvcalc.core.results.speed:SpeedResult",),
    "offload": ("kvcalc.core.results.offload:OffloadResult",),
    "compare": ("kvcalc.core.results.compare:CompareResult",),
    "models": ("kvcalc.core.results.catalog:Listing",),
    "gpus": ("kvcalc.core.results.catalog:Listing",),
    "dtypes": ("kvcalc.core.results.catalog:Listing",),
    "check": ("kvcalc.core.results.check:CheckResult",),
    "simulate": ("kvcalc.core.results.simulate:SimulateResult",),
    "workload": ("kvcalc.core.results.workload:WorkloadResult",),
    "explain": ("kvcalc.core.results.explain:ExplainResult",),
    "report": ("kvcalc.core.results.report:ReportResult",),
    "engines": ("kvcalc.core.results.engines:EnginesResult",),
}
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema(command: str | None = None) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a command's envelope, or of any envelope.

    Raises:
        KvcalcError: "usage" for a command that has no JSON of its own.
    """
    if command is None:
        return {"$schema": DRAFT, "title": "kvcalc", **_envelope("error", {"type": "object"})}
    if command not in RESULTS:
        close = nearest(command, list(RESULTS))
        hint = f"nearest: {', '.join(close)}" if close else f"all: {', '.join(RESULTS)}"
        raise KvcalcError("usage", f'no schema "{shown(command)}"', hint)
    shapes = [_result(_load(path)) for path in RESULTS[command]]
    if command in {"models", "gpus", "dtypes", "engines"}:
        shapes.append({"type": "object", "description": "one entry in full"})
    else:
        shapes.append(_rows(shapes))
    title = f"kvcalc.{command}/1"
    return {"$schema": DRAFT, "title": title, **_envelope(command, {"anyOf": shapes})}


def _load(path: str) -> type:
    module, name = path.split(":")
    found: type = getattr(importlib.import_module(module), name)
    return found


def _rows(shapes: list[dict[str, Any]]) -> dict[str, Any]:
    """A what-if table: full answers, each with its combination."""
    row = {"type": "object", "required": ["combination"],
           "properties": {"combination": {"type": "object"}}}  # fmt: skip
    rows = {"type": "array", "items": {"allOf": [row, {"anyOf": list(shapes)}]}}
    return {"type": "object", "required": ["rows"], "properties": {"rows": rows}}


def _envelope(command: str, data: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "string"}
    message = {"type": "object", "required": ["code", "message"],
               "properties": {"code": text, "message": text}}  # fmt: skip
    error = {
        "type": "object",
        "required": ["code", "message", "hint"],
        "properties": {
            "code": {"enum": list(CODES)}, "message": text, "hint": {"type": ["string", "null"]},
        },
    }  # fmt: skip
    properties = {
        "schema": {"const": f"kvcalc.{command}/1"} if command != "error" else text,
        "version": text,
        "command": {"type": ["string", "null"]},
        "status": {"enum": ["ok", "no", "error"]},
        "exit_code": {"enum": [0, 1, 2, 70]},
        "data": {"anyOf": [data, {"type": "null"}]},
        "warnings": {"type": "array", "items": message},
        "errors": {"type": "array", "items": error},
    }
    return {"type": "object", "required": list(properties), "properties": properties}


def _result(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    hidden: frozenset[str] = cls.hidden  # type: ignore[attr-defined]
    names = [n for n in cls.__slots__ if n not in hidden]  # type: ignore[attr-defined]
    # fit calls its `line` `command` in JSON.
    renamed = {n: ("command" if n == "line" else n) for n in names}
    return _object({renamed[n]: _of(hints[n]) for n in names}, cls.__doc__)


def _object(properties: dict[str, Any], doc: str | None) -> dict[str, Any]:
    first = (doc or "").strip().split("\n")[0]
    return {"type": "object", "description": first, "required": list(properties),
            "properties": properties}  # fmt: skip


_PLAIN = {int: "integer", str: "string", float: "number", bool: "boolean", type(None): "null"}


def _of(hint: Any) -> dict[str, Any]:
    """The schema of one annotation."""
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is Any:
        return {}
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return {"type": "array", "items": _of(args[0])}
    if origin is dict or hint is dict:
        return {"type": "object"}
    if origin in {types.UnionType, typing.Union}:
        return {"anyOf": [_of(arg) for arg in args]}
    return _named_tuple(hint)


def _named_tuple(cls: type[NamedTuple]) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return _object({name: _of(hints[name]) for name in cls._fields}, cls.__doc__)
