"""What models, gpus and dtypes share: a list, bare names, `show NAME`, verbs of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kvcalc.cli import output
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown


def run_lookup(
    command: str, verbs: Mapping[str, str] | None = None
) -> Callable[[dict[str, Any], output.Output], int]:
    """The runner of one look-up command.

    Args:
        command: models, gpus or dtypes.
        verbs: First words that do something else, to the module whose `run` does it and whose
            `OPTIONS` it alone takes.
    """

    def run(options: dict[str, Any], out: output.Output) -> int:
        from kvcalc.answer import function_of  # noqa: PLC0415
        from kvcalc.cli.main import deliver  # noqa: PLC0415 - main imports this module's command

        words = list(options.pop("argument", []))
        for verb, name in (verbs or {}).items():
            module = import_module(name)
            if words[:1] == [verb]:
                return int(module.run(words[1:], options, out))
            for option in module.OPTIONS & options.keys():
                raise KvcalcError(
                    "usage", f"--{option} belongs to {command} {verb}",
                    f"like kvcalc {command} {verb} SOURCE --{option}",
                )  # fmt: skip
        if words[:1] == ["show"]:
            words = words[1:]
            if not words:
                raise KvcalcError("usage", "show needs a NAME", f"all names: kvcalc {command}")
        if len(words) > 1:
            text = " ".join(words)
            raise KvcalcError(
                "usage", f"{shown(text)}: one NAME at a time", f"all names: kvcalc {command}"
            )
        names = options.pop("names", False)
        result = function_of(command)(words[0] if words else None, **options)
        if names:
            return _bare(result.main_rows(), out)
        return deliver(result, out)

    return run


def _bare(rows: list[dict[str, Any]], out: output.Output) -> int:
    out.format = "plain"
    names = (row.get("id", row.get("key", row.get("preset"))) for row in rows)
    out.write("".join(f"{name}\n" for name in names if name is not None))
    return 0
