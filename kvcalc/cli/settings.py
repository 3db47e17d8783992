"""Defaults from KVCALC_… variables and kvcalc.toml, below what the command line says."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from kvcalc.cli.options import OPTIONS, Option
from kvcalc.cli.spec import COMMANDS, Spec
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import shown

_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})
#: Variables that are no option: the folder of the user's presets.
_OTHERS = frozenset({"KVCALC_PRESETS"})
_KEYS = frozenset(option.key for option in OPTIONS.values())


class Filled(NamedTuple):
    """Options, and where those come from that were not typed: key → variable or file."""

    options: dict[str, Any]
    origins: dict[str, str]


def fill(given: dict[str, Any], spec: Spec) -> dict[str, Any]:
    """The options of `filled`."""
    return filled(given, spec).options


def filled(given: dict[str, Any], spec: Spec) -> Filled:
    """The options with what the environment and configuration files add.

    Order: option, KVCALC_<OPTION>, ./kvcalc.toml, kvcalc.toml in the app folder. `json` and
    `format`, and options that exclude each other, count as one: what is nearer wins.

    Raises:
        KvcalcError: "usage" for an unknown key or a value of the wrong kind; "unreadable_input".
    """
    out, origins = dict(given), {}
    sources = [("", _environment(spec)), *((path, _file(path, spec)) for path in _paths())]
    for path, source in sources:
        if out.keys() & {"json", "format"}:
            source = {k: v for k, v in source.items() if k not in {"json", "format"}}  # noqa: PLW2901
        for key, value in source.items():
            if key not in out:
                out[key] = value
                origins[key] = path or _variable(key)
    return Filled(out, origins)


def attributed(error: KvcalcError, origins: dict[str, str]) -> KvcalcError:
    """The error, its hint naming the variable or the file that set the option it speaks of."""
    words = {word.rstrip(":,;") for word in error.message.split()}
    said = {
        f"{where} sets {option.flags[-1]}"
        for option in OPTIONS.values()
        if (where := origins.get(option.key)) and words & set(option.flags)
    }
    if not said:
        return error
    hint = "; ".join([*([error.hint] if error.hint else []), *sorted(said)])
    return KvcalcError(error.code, error.message, hint)


def _variable(key: str) -> str:
    return f"KVCALC_{key.upper()}"


def _paths() -> list[str]:
    from kvcalc.resolve import app_dir  # noqa: PLC0415 - loaded by every command anyway

    names = [os.path.join(os.curdir, "kvcalc.toml"), os.path.join(app_dir(), "kvcalc.toml")]
    return [path for path in names if os.path.isfile(path)]


def _environment(spec: Spec) -> dict[str, Any]:
    found = {}
    names = {k for k in os.environ if k.startswith("KVCALC_")}
    if not names:
        return {}
    known = {_variable(key): key for key in _KEYS}
    for name in sorted(names - known.keys() - _OTHERS):
        close = [_variable(key) for key in nearest(name[7:].lower(), sorted(_KEYS))]
        if close:  # a misspelt option; anything else is the user's own
            raise KvcalcError(
                "usage", f"the variable {shown(name)} is of no option",
                f"nearest: {', '.join(close)}",
            )  # fmt: skip
    for option in spec.all_options():
        variable = _variable(option.key)
        if variable in names and (text := os.environ[variable]) != "":
            found[option.key] = _typed(option, text, variable)
    return found


def _typed(option: Option, value: Any, where: str) -> Any:
    if option.is_flag:
        if isinstance(value, bool):
            return value
        word = str(value).lower()
        if word not in _YES | _NO:
            raise KvcalcError("usage", f"{where} is {shown(value)}", "expected true or false")
        return word in _YES
    if isinstance(value, bool) or not isinstance(value, (str, int, float, list, dict)):
        raise KvcalcError("usage", f"{where} is {shown(value)}", f"expected {option.metavar}")
    if isinstance(value, dict):
        if option.repeat != "pairs":
            raise KvcalcError("usage", f"{where} is a table", f"expected {option.metavar}")
        return [f"{k}={v}" for k, v in value.items()]
    if isinstance(value, list):
        if not option.repeat:
            raise KvcalcError("usage", f"{where} is a list", f"expected one {option.metavar}")
        return option.split([str(v) for v in value])
    return option.split([str(value)]) if option.repeat else str(value)


def _file(path: str, spec: Spec) -> dict[str, Any]:
    """Keys of one kvcalc.toml: general ones, then those of the command's own table."""
    import tomli  # noqa: PLC0415 - only where a file is

    try:
        with open(path, "rb") as file:
            data = tomli.load(file)
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError, RecursionError) as error:
        reason = str(getattr(error, "strerror", None) or error)
        raise KvcalcError(
            "unreadable_input", f"{path}: {shown(reason, 120)}", "mend it or move it away"
        ) from None
    options = {option.key: option for option in spec.all_options()}
    found: dict[str, Any] = {}
    tables = {k: v for k, v in data.items() if isinstance(v, dict) and k in COMMANDS}
    for command, table in tables.items():
        _check_keys(path, table, f"[{command}] ")
    _check_keys(path, {k: v for k, v in data.items() if k not in tables}, "")
    for key, value in {**data, **tables.get(spec.name, {})}.items():
        if key in options and key not in tables:
            found[key] = _typed(options[key], value, f"{path}: {key}")
    return found


def _check_keys(path: str, keys: dict[str, Any], where: str) -> None:
    for key in keys:
        if key not in _KEYS:
            close = nearest(key, sorted(_KEYS))
            hint = f"nearest: {', '.join(close)}" if close else "keys are the long options with _"
            raise KvcalcError("usage", f"{path}: {where}{shown(key)} is no option", hint)
