"""Questions as JSON Lines, answers as JSON Lines: in order, one at a time, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kvcalc import __version__
from kvcalc.answer import answer
from kvcalc.cli.options import OPTIONS
from kvcalc.cli.spec import COMMANDS, Spec, spec_of
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import shown
from kvcalc.report.data import dumps, envelope

#: A line longer than this is no question.
MAX_LINE = 1 << 20
_FUNCTIONS = frozenset({
    "size", "fit", "timeline", "waste", "tradeoff", "speed", "offload", "compare", "simulate",
    "workload", "check", "report", "explain", "models", "gpus", "dtypes",
})  # fmt: skip
#: What stands before the options, where it is not a model.
_ARGUMENTS = {"workload": ("trace",), "check": ("log", "model"), "explain": ("topic", "model")}
#: Keys that name a file, of which - is standard input.
_FILES = frozenset({"trace", "log"})
_SCREEN = frozenset({
    "format", "json", "output_file", "color", "quiet", "verbose", "chart", "no_chart", "names",
    "id", "force", "measured",
})  # fmt: skip


class _Command:
    """What a batch line may say for one command."""

    def __init__(self, name: str) -> None:
        spec = spec_of(name)
        self.name = name
        self.schema = f"kvcalc.{name}/1"
        options = [o for o in spec.all_options() if o.key not in _SCREEN]
        self.repeat = {o.key: o.repeat for o in options}
        self.keys = frozenset(self.repeat) | set(_arguments(spec))
        self.lists = frozenset(
            o.key for o in options if o.repeat in {"list", "pairs"} or o.name in spec.lists
        )


def _arguments(spec: Spec) -> tuple[str, ...]:
    return _ARGUMENTS.get(spec.name, ("name",) if spec.rest else ("model",))


_commands: dict[str, _Command] = {}


def _command(line: dict[str, Any]) -> _Command:
    name = line.get("command")
    if isinstance(name, str) and (kept := _commands.get(name)) is not None:
        return kept
    if name is None:
        raise KvcalcError("usage", "command is missing", 'a line is {"command": "size", …}')
    if not isinstance(name, str) or name not in _FUNCTIONS:
        every = ", ".join(sorted(_FUNCTIONS))
        close = nearest(str(name), sorted(_FUNCTIONS))
        hint = f"nearest: {', '.join(close)}" if close else f"all: {every}"
        if isinstance(name, str) and name in COMMANDS:
            hint = f"kvcalc {name} by itself; a line is one of: {every}"
        raise KvcalcError("usage", f'no command "{shown(name)}" in batch', hint)
    assert name in COMMANDS  # noqa: S101 - every function has its command
    return _commands.setdefault(name, _Command(name))


def answers(lines: Iterable[bytes]) -> Iterator[tuple[str, bool]]:
    """One envelope a line, and whether it could be answered; blank lines are skipped."""
    number = 0
    for raw in lines:
        number += 1
        if raw.isspace() or not raw:
            continue
        command: str | None = None
        try:
            line = _parsed(raw)
            wanted = _command(line)
            command = wanted.name
            yield _answered(wanted, line), True
        except KvcalcError as error:
            error.message = f"line {number}: {error.message}"
            wrapped = envelope(command, version=__version__, exit_code=2, error=error)
            yield dumps(wrapped), False


def _parsed(raw: bytes) -> dict[str, Any]:
    if len(raw) > MAX_LINE:
        raise KvcalcError("usage", f"longer than {MAX_LINE:,} bytes", "one question a line")
    try:
        line = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise KvcalcError("unreadable_input", "not UTF-8", "write the lines as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise KvcalcError("usage", f"not JSON: {shown(error, 120)}", "one object a line") from None
    if not isinstance(line, dict):
        raise KvcalcError("usage", "not a JSON object", 'a line is {"command": "size", …}')
    return line


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _answered(command: _Command, line: dict[str, Any]) -> str:
    keywords: dict[str, Any] = {}
    for key, value in line.items():
        if key == "command":
            continue
        if key not in command.keys:
            close = nearest(key, sorted(command.keys))
            hint = f"nearest: {', '.join(close)}" if close else "keys are the long options with _"
            raise KvcalcError("usage", f'{command.name} has no key "{shown(key)}"', hint)
        if key in _FILES and value == "-":
            raise KvcalcError(
                "usage", f'{key} is "-": standard input is the batch\'s own', "name a file"
            )
        if value is not None:
            keywords[key] = _checked(command, key, value)
    result = answer(command.name, keywords, lists=command.lists)
    warnings = [w._asdict() for w in getattr(result, "warnings", ())]
    code = 0 if result.yes else 1
    return dumps(envelope(
        command.name, version=__version__, data=result.to_dict(), exit_code=code, warnings=warnings
    ))  # fmt: skip


def _checked(command: _Command, key: str, value: Any) -> Any:
    """The value as the Python function takes it: text, number, flag, list or settings.

    Raises:
        KvcalcError: "usage" for another kind of value.
    """
    kind = command.repeat.get(key, "product")
    if key == "set":
        if isinstance(value, dict):
            return {name: _scalar(key, v) for name, v in value.items()}
        raise KvcalcError("usage", f"set is {shown(value)}", 'expected {"NAME": VALUE, …}')
    if isinstance(value, list):
        if not kind:
            raise KvcalcError("usage", f"{key} is a list", "expected one value")
        return [_scalar(key, v) for v in value]
    scalar = _scalar(key, value)
    if kind == "list" or (key in command.lists):
        return [scalar]
    return scalar


def _check_text(key: str, value: str) -> None:
    """Refuse half of a surrogate pair: no file has such a name, and no answer could repeat it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise KvcalcError(
            "usage", f"{key} is {shown(value)}", "expected whole characters"
        ) from None


def _scalar(key: str, value: Any) -> Any:
    option = OPTIONS.get(key)
    if isinstance(value, bool):
        if option is not None and not option.is_flag and key != "set":
            raise KvcalcError("usage", f"{key} is {str(value).lower()}", "expected a value")
        return value
    if option is not None and option.is_flag:
        raise KvcalcError("usage", f"{key} is {shown(value)}", "expected true or false")
    if isinstance(value, str) and not value.isascii():
        _check_text(key, value)
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return str(value)
    raise KvcalcError("usage", f"{key} is {shown(dumps(value))}", "expected a number or text")
