"""`kvcalc schema`."""

from __future__ import annotations

from typing import Any

from kvcalc.cli import output
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "schema",
    "the JSON Schema of an answer",
    (),
    argument=("[COMMAND]", "whose answer; none gives the envelope of all", "commands"),
    examples=(("kvcalc schema size", "the schema of kvcalc size --json"),),
)


def run(options: dict[str, Any], out: output.Output) -> int:
    """Print one schema; it is JSON in every format."""
    import json  # noqa: PLC0415 - this command alone prints indented

    from kvcalc.schemas import schema  # noqa: PLC0415

    out.format = "json"
    out.write(json.dumps(schema(options.get("argument")), indent=2, ensure_ascii=False) + "\n")
    return 0
