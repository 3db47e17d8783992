"""A fault that the strict check found, told in one line: file, key, what is there, what should."""

from __future__ import annotations

from typing import Any

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import shown

Location = tuple[int | str, ...]
EXAMPLES = {"models": "kvcalc models show llama-3.1-70b", "gpus": "kvcalc gpus show h100-sxm"}
_NAME = "a name of a-z, 0-9, ., + and -"
_KINDS = "full, sliding_window, chunked, latent, indexer, compressed, state, cross or shared"
#: Where a key is missing; every other one is a whole number.
_MISSING = {
    "id": _NAME, "kind": _KINDS, "variant": "text such as mamba2", "dtype": "text such as bf16",
}  # fmt: skip
_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "text in quotes",
    "string_too_short": "text, not empty",
    "list_type": "a list",
    "too_short": "two entries",
    "too_long": "two entries",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "bool_type": "true or false",
    "union_tag_not_found": _KINDS,
    "union_tag_invalid": _KINDS,
}


def told(fault: dict[str, Any], path: str, kind: str, keys: list[str]) -> KvcalcError:
    """The error for one fault as pydantic describes it.

    Args:
        fault: An entry of its `errors()`.
        path: The file, as shown.
        kind: "models" or "gpus".
        keys: What the table at hand may hold.
    """
    what, loc = fault["type"], _plain(fault["loc"])
    where, compare = _dotted(loc), f"compare {EXAMPLES[kind]}"
    if what == "value_error":
        message, _, expected = str(fault["ctx"]["error"]).partition("|")
        return _error(path, message, f"{expected}; {compare}")
    if what == "extra_forbidden":
        close = nearest(str(loc[-1]), keys)
        near = f"nearest: {', '.join(close)}" if close else f"known: {', '.join(keys)}"
        return _error(path, f"unknown key {where}", f"{near}; {compare}")
    if what == "missing":
        expected = _MISSING.get(str(loc[-1]), "a whole number")
        return _error(path, f"{where} is missing", f"expected {expected}; {compare}")
    if what == "union_tag_not_found":
        return _error(path, f"{where}.kind is missing", f"expected {_KINDS}; {compare}")
    if what == "union_tag_invalid":
        where, value = f"{where}.kind", fault["ctx"]["tag"]
    else:
        value = fault["input"]
    return _error(path, f"{where} is {_value(value)}", f"expected {_expected(fault)}; {compare}")


def _error(path: str, message: str, hint: str) -> KvcalcError:
    return KvcalcError("invalid_preset", f"{path}: {message}", hint)


def _expected(fault: dict[str, Any]) -> str:
    what, ctx = fault["type"], fault.get("ctx", {})
    if what == "greater_than_equal":
        return f"at least {ctx['ge']:,}"
    if what == "less_than_equal":
        return f"at most {ctx['le']:,}"
    if what == "literal_error":
        return str(ctx["expected"]).replace("'", "")
    if what == "string_too_long":
        return f"at most {ctx['max_length']:,} characters"
    if what == "string_pattern_mismatch":
        return "a date such as 2026-11-29" if "{4}" in ctx["pattern"] else _NAME
    return _EXPECTED.get(what, str(fault["msg"]).lower())


def _plain(loc: Location) -> Location:
    """The location without the union's tag: layers, 0, full, kv_heads."""
    return loc[:2] + loc[3:] if len(loc) > 2 and loc[0] == "layers" else loc


def _dotted(loc: Location) -> str:
    """layers[0].kv_heads."""
    text = ""
    for part in loc:
        if part != "[key]":
            text += f"[{part}]" if isinstance(part, int) else f".{shown(part)}"
    return text.lstrip(".")


def _value(value: object) -> str:
    """The value as its TOML shows it, cut to a line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{shown(value)}"' if value else '""'
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else shown(value)
