"""Preset files, read whole: bytes on disk to a TOML table, every failure named in one line."""

from __future__ import annotations

import os
from typing import Any

import tomli

from kvcalc.catalog.locate import shown_path
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: The largest shipped preset has 5 kB; more than this is no preset.
MAX_BYTES = 1_000_000
Entry = dict[str, Any]


def read_toml(path: str) -> Entry:
    """The table in a preset file.

    Raises:
        KvcalcError: "unreadable_input" if the file cannot be opened or is too large;
            "invalid_preset" if it is not UTF-8 or not TOML, with the line.
    """
    name = shown_path(path)
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KvcalcError(
            "unreadable_input", f"{name}: cannot be read: {error.strerror or error}"
        ) from None
    if len(raw) > MAX_BYTES:
        raise KvcalcError("unreadable_input", f"{name}: larger than {MAX_BYTES:,} bytes")
    try:
        return tomli.loads(raw.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise KvcalcError(
            "invalid_preset", f"{name}: line {line} is not UTF-8", "save the file as UTF-8"
        ) from None
    except (ValueError, RecursionError) as error:
        # Python's own limit on digits is a bare ValueError, with advice for programmers.
        told = isinstance(error, tomli.TOMLDecodeError)
        what = shown(error, 160) if told else "too long a number or too deep a nesting"
        raise KvcalcError(
            "invalid_preset", f"{name}: not TOML: {what}", "see toml.io for the syntax"
        ) from None


def toml_files(folder: str) -> list[str]:
    """Paths of the *.toml files in `folder`, sorted; none if it does not exist.

    Raises:
        KvcalcError: "unreadable_input" if the folder exists and cannot be listed.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise KvcalcError(
            "unreadable_input", f"{shown_path(folder)}: cannot be listed: {error.strerror}"
        ) from None
    return [os.path.join(folder, n) for n in sorted(names) if n.endswith(".toml") and n[0] != "."]
