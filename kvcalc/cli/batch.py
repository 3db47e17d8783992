"""`kvcalc batch`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from kvcalc.cli import output
from kvcalc.cli.spec import Spec
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

SPEC = Spec(
    "batch",
    "JSON Lines in, JSON Lines out",
    (),
    argument=("[FILE]", "one JSON object a line; - or none reads standard input", "files"),
    examples=(
        (
            """echo '{"command": "size", "model": "llama-3.1-8b"}' | kvcalc batch""",
            "one envelope for each line, in order",
        ),
    ),
    note="Keys are the long options with underscores. A bad line gives an error envelope and the "
    "rest goes on; the exit code is 2 if any line failed.",
)


def run(options: dict[str, Any], out: output.Output) -> int:
    """Answer every line; 2 if any could not be answered."""
    import gc  # noqa: PLC0415 - a built-in

    gc.enable()
    if out.format not in {"json", "jsonl", "plain", "text"}:
        raise KvcalcError("usage", f"batch writes JSON Lines, not {out.format}", "leave -f out")
    path = options.get("argument")
    if path in {None, "-"}:
        if sys.stdin is None:
            raise KvcalcError("unreadable_input", "standard input is closed", "name a FILE")
        return _stream(sys.stdin.buffer, out)
    try:
        with open(path, "rb") as file:
            return _stream(file, out)
    except OSError as error:
        raise KvcalcError(
            "unreadable_input", f"cannot read {shown(path)}: {error.strerror}", None
        ) from None


def _stream(source: BinaryIO, out: output.Output) -> int:
    from kvcalc.cli.stream import MAX_LINE, answers  # noqa: PLC0415 - after the options were checked

    failed = False

    def envelopes() -> Iterator[str]:
        nonlocal failed
        for text, good in answers(_lines(source, MAX_LINE)):
            failed = failed or not good
            yield text + "\n"

    out.write_lines(envelopes())
    return 2 if failed else 0


def _lines(source: BinaryIO, limit: int) -> Iterator[bytes]:
    """Lines of a stream; one that never ends is cut, so that memory stays bounded."""
    while line := source.readline(limit + 2):
        yield line
        while len(line) > limit and not line.endswith(b"\n"):
            line = source.readline(limit + 2)
            if not line:
                return
