"""Answers of the program in this process, and the figures in them."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import Any, NamedTuple
from unittest import mock

from kvcalc.cli.main import run


class Answer(NamedTuple):
    """What a command wrote to standard output, and its exit code."""

    code: int
    text: str

    @property
    def envelope(self) -> dict[str, Any]:
        """The one JSON object."""
        loaded: dict[str, Any] = json.loads(self.text)
        return loaded

    @property
    def data(self) -> Any:
        """`data` of the envelope."""
        return self.envelope["data"]


def ask(*argv: str, columns: int = 80) -> Answer:
    """Run one command line as a user without configuration would."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KVCALC_", "FORCE_"))}
    clean = {
        **kept,
        "XDG_CONFIG_HOME": os.devnull,
        "APPDATA": os.devnull,
        "COLUMNS": str(columns),
        "LINES": "24",
        "NO_COLOR": "",
    }
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with mock.patch.dict(os.environ, clean, clear=True), contextlib.redirect_stdout(out):
        code = run(list(argv))
    out.flush()
    raw = out.detach()
    assert isinstance(raw, io.BytesIO)
    return Answer(code, raw.getvalue().decode("utf-8"))


def at(data: Any, path: str) -> Any:
    """The value at a path: keys, indices, or key=value for the one item that has it."""
    for part in path.split("."):
        key, equals, value = part.partition("=")
        if equals:
            (data,) = [item for item in data if str(item[key]) == value]
        elif isinstance(data, list):
            data = data[int(part)]
        else:
            data = data[part]
    return data
