"""`kvcalc engines`."""

from __future__ import annotations

from typing import Any

from kvcalc.cli import output
from kvcalc.cli.spec import Spec
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

SPEC = Spec(
    "engines",
    "the engines kvcalc knows: releases, settings, defaults",
    ("names",),
    argument=("[show] NAME", "one engine in full; none lists them all", "engines"),
    rest=True,
    examples=(
        ("kvcalc engines", "releases and how many settings"),
        ("kvcalc engines show sglang", "its settings and defaults, and what is estimated"),
    ),
)


def run(options: dict[str, Any], out: output.Output) -> int:
    """The list, bare names, or one engine."""
    from kvcalc.api.engines import engines  # noqa: PLC0415 - `kvcalc.engines` is a package
    from kvcalc.cli.main import deliver  # noqa: PLC0415 - main imports this module's command

    words = list(options.pop("argument", []))
    if words[:1] == ["show"]:
        words = words[1:]
        if not words:
            raise KvcalcError("usage", "show needs a NAME", "all names: kvcalc engines")
    if len(words) > 1:
        text = shown(" ".join(words))
        raise KvcalcError("usage", f"{text}: one NAME at a time", "all names: kvcalc engines")
    result = engines(words[0] if words else None)
    if not options.pop("names", False):
        return deliver(result, out)
    out.format = "plain"
    out.write("".join(f"{item.id}\n" for item in result.items))
    return 0
