"""A log's bytes in chunks: plain, gzip or UTF-16, from a file or standard input, in bounded memory.

What is no log is refused before it is read: a folder, binary data, more than `MOST_BYTES`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import format_bytes, shown

CHUNK = 2**20
#: A start-up log has kilobytes, a long-running server's a few hundred megabytes.
MOST_BYTES = 2**30
#: Control characters that logs do hold: backspace, tab, line ends, escape.
_TEXT_CONTROLS = b"\b\t\n\v\f\r\x1b"
_CONTROLS = bytes(c for c in range(32) if c not in _TEXT_CONTROLS) + b"\x7f"
#: Above this share of control characters the data is no text (random bytes have 11 %).
_BINARY_SHARE = 50
_GZIP, _UTF16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")


def chunks(path: str) -> Iterator[bytes]:
    """The log's bytes as UTF-8, some at a time; "-" is standard input.

    Raises:
        KvcalcError: "unreadable_input" if it cannot be read, is no text, or is too long.
    """
    name = log_name(path)
    try:
        if path == "-":
            yield from _text(sys.stdin.buffer, name)
            return
        if os.path.isdir(path):
            raise KvcalcError("unreadable_input", f"{name}: is a folder", "name the log in it")
        with open(path, "rb") as file:
            known = os.fstat(file.fileno()).st_size
            if known > MOST_BYTES:
                raise _too_long(name, known)
            yield from _text(file, name)
    except (OSError, ValueError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "not a readable file"
        raise KvcalcError("unreadable_input", f"cannot read {name}: {reason}") from None


def log_name(path: str) -> str:
    """The log as messages name it."""
    return "standard input" if path == "-" else shown(path, 120)


def _text(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Chunks of text: unpacked if it is gzip, UTF-8 if it was UTF-16 (PowerShell's `>`)."""
    first = file.read(CHUNK)
    data = _unzipped(first, file, name) if first[:2] == _GZIP else _plain(first, file)
    done = 0
    decode = None
    for i, raw in enumerate(data):
        chunk = raw
        if i == 0 and raw[:2] in _UTF16:
            import codecs  # noqa: PLC0415 - few logs are UTF-16

            decode = codecs.getincrementaldecoder("utf-16")("replace").decode
        if decode is not None:
            chunk = decode(raw).encode()
        if i == 0:
            _check_text(chunk, name)
        done += len(chunk)
        if done > MOST_BYTES:
            raise _too_long(name, None)
        yield chunk


def _plain(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    chunk = first
    while chunk:
        yield chunk
        chunk = file.read(CHUNK)


def _unzipped(first: bytes, file: BinaryIO, name: str) -> Iterator[bytes]:
    """What a gzip file holds, members one after the other; one that is cut gives what it has."""
    import zlib  # noqa: PLC0415 - few logs are packed

    unpack = zlib.decompressobj(wbits=31)
    found = False
    for packed in _plain(first, file):
        rest = packed
        while rest:
            try:
                chunk = unpack.decompress(rest, CHUNK)
            except zlib.error:
                if found:  # garbage after the last member
                    return
                raise KvcalcError(
                    "unreadable_input", f"{name}: is no gzip file, though it begins like one"
                ) from None
            if chunk:
                found = True
                yield chunk
            rest = unpack.unconsumed_tail
            if unpack.eof:
                rest = unpack.unused_data.lstrip(b"\0")
                unpack = zlib.decompressobj(wbits=31)
            elif not chunk and not rest:
                break


def _check_text(chunk: bytes, name: str) -> None:
    controls = len(chunk) - len(chunk.translate(None, _CONTROLS))
    if controls * _BINARY_SHARE > len(chunk):
        raise KvcalcError(
            "unreadable_input", f"{name}: is no log, but binary data",
            "check reads the text that an engine prints when it starts; gzip is unpacked",
        )  # fmt: skip


def _too_long(name: str, size: int | None) -> KvcalcError:
    much = f"{format_bytes(size)}" if size else f"more than {format_bytes(MOST_BYTES)}"
    return KvcalcError(
        "unreadable_input", f"{name}: {much} is no start-up log",
        "cut it: head -c 100000000 LOG | kvcalc check -",
    )  # fmt: skip
