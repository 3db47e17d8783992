"""Lines of a file or of standard input, gzip or not, as they come."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Generator
from typing import BinaryIO

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: A longer line is no request.
MAX_LINE = 1 << 24

#: Standard input can be read once; several passes and several policies all want it.
_stdin: bytes | None = None


def shown_name(path: str) -> str:
    """The name that errors call a source by."""
    return "stdin" if path == "-" else shown(path, 200)


def text_lines(path: str) -> Generator[str, None, None]:
    """The lines of a trace; "-" is standard input. Whoever stops before the end closes it.

    Raises:
        KvcalcError: "unreadable_input" naming the file and why.
    """
    name = shown_name(path)
    try:
        with (
            _open(path) as file,
            io.TextIOWrapper(_unpacked(file), encoding="utf-8-sig", newline="\n") as text,
        ):
            while line := text.readline(MAX_LINE):
                yield line
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise KvcalcError(
            "unreadable_input", f"{name}: the gzip stream is cut short or damaged", "fetch it again"
        ) from None
    except UnicodeDecodeError:
        raise KvcalcError(
            "unreadable_input", f"{name}: not UTF-8 text", "a trace is text"
        ) from None
    except OSError as error:
        raise KvcalcError(
            "unreadable_input", f"{name}: {error.strerror}", "a trace is a file, or - for stdin"
        ) from None


def _open(path: str) -> BinaryIO:
    if path != "-":
        return open(path, "rb")
    global _stdin  # noqa: PLW0603 - see there
    if _stdin is None:
        _stdin = sys.stdin.buffer.read()
    return io.BytesIO(_stdin)


def _unpacked(file: BinaryIO) -> BinaryIO:
    """The stream itself, or what its gzip contains."""
    buffered = file if isinstance(file, io.BytesIO) else io.BufferedReader(file)  # type: ignore[type-var]
    if buffered.read(2) == b"\x1f\x8b":
        buffered.seek(0)
        return gzip.GzipFile(fileobj=buffered)  # type: ignore[return-value]
    buffered.seek(0)
    return buffered
