"""What both header readers share: a file opened safely, errors that name it, totals by type."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from typing import Any, NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: No header of a model comes near this: the safetensors format ends at 100 MB itself, and the
#: largest GGUF vocabularies take about 20 MB. Both readers stop here, whatever a file claims.
MAX_HEADER_BYTES = 100_000_000
AGAIN = "the file is damaged or not fully downloaded; fetch it again"


class Total(NamedTuple):
    """All tensors of one type: how many, their elements, the bytes they take in the file."""

    tensors: int
    elements: int
    stored_bytes: int


class OpenFile(NamedTuple):
    """A regular file open for reading: its size in bytes and its name as messages show it."""

    handle: FileIO
    size: int
    where: str


def broken(where: str, problem: str, hint: str = AGAIN) -> KvcalcError:
    """The error for a file that cannot be read; `problem` continues the sentence after the name."""
    return KvcalcError("unreadable_input", f"{where}: {problem}", hint)


def label(path: str | os.PathLike[str]) -> str:
    """A path as messages show it: escaped, and long enough to still name the file."""
    return shown(os.fspath(path), 400)


def totals(rows: Iterable[tuple[str, int, int]]) -> dict[str, Total]:
    """Rows of (type, elements, bytes), one a tensor, summed by type."""
    sums: dict[str, list[int]] = {}
    for kind, elements, stored_bytes in rows:
        row = sums.setdefault(kind, [0, 0, 0])
        row[0] += 1
        row[1] += elements
        row[2] += stored_bytes
    return {kind: Total(*row) for kind, row in sums.items()}


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[OpenFile]:
    """The file at `path`, unbuffered.

    Raises:
        KvcalcError: "unreadable_input" if it is missing, not a regular file (a pipe would block
            for ever), or stops being readable while the caller reads it.
    """
    where = label(path)
    if "\0" in os.fspath(path):
        raise broken(where, "no file name can hold a zero byte", "check the path")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise broken(where, "is not a regular file", "name a file on a disk")
        with open(path, "rb", buffering=0) as handle:
            yield OpenFile(handle, os.fstat(handle.fileno()).st_size, where)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise broken(where, reason, "check the path and its permissions") from error


def utf8(data: bytes, where: str, what: str) -> str:
    """The text that `data` holds.

    Raises:
        KvcalcError: "unreadable_input" if it is no UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise broken(where, f"{what} is not UTF-8 at byte {error.start:,}") from error


def json_object(data: bytes | str, where: str, what: str) -> dict[str, Any]:
    """The JSON object that `data` holds; `what` names it in messages: "the header".

    Raises:
        KvcalcError: "unreadable_input" if it is no UTF-8, no JSON, no object, or names a key twice.
    """
    text = data if isinstance(data, str) else utf8(data, where, what)
    try:
        found = json.loads(text, object_pairs_hook=_without_twins)
    except json.JSONDecodeError as error:
        raise broken(
            where, f"{what} is not JSON at character {error.pos:,}: {error.msg}"
        ) from error
    except _TwinError as error:
        raise broken(where, f'{what} names "{error}" twice') from error
    except ValueError as error:
        raise broken(where, f"{what} holds a number of thousands of digits") from error
    except RecursionError as error:
        raise broken(where, f"{what} is nested too deeply") from error
    if not isinstance(found, dict):
        raise broken(where, f"{what} is not a JSON object")
    check_text(found, where, what)
    return found


def check_text(words: Iterable[str], where: str, what: str) -> None:
    """Refuse half a surrogate pair, which JSON can hold and no output can: it would fail later.

    Raises:
        KvcalcError: "unreadable_input" if one of the words is no Unicode text.
    """
    try:
        "".join(words).encode()
    except UnicodeEncodeError as error:
        raise broken(where, f"{what} holds half a surrogate pair, which is no text") from error


class _TwinError(Exception):
    """A key that stands twice in one JSON object: its readers would differ on which counts."""


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _TwinError(shown(key))
            seen.add(key)
    return table
