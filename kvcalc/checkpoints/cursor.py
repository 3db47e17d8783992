"""A walk through a binary header: every length is checked against the file before it is used."""

from __future__ import annotations

import struct
from typing import Any

from kvcalc.checkpoints.bounded import AGAIN, MAX_HEADER_BYTES, OpenFile, broken
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: Read at once: the most that may be read beyond a header's end.
WINDOW_BYTES = 65_536


class Cursor:
    """Walks forward through a header. Every step is checked against the file before it is taken.

    `place` is what is being read, and its number or its name once that is known: ("tensor", 12),
    ("tensor", "output.weight"). Only an error spells it out.
    `order` is the byte order of all numbers, as in struct: "<" or ">".
    """

    __slots__ = ("_at", "_end", "_file", "_start", "_window", "bytes_read", "order", "place")

    def __init__(self, file: OpenFile) -> None:
        self.place: tuple[str, int | str] = ("the header", "")
        self.order = "<"
        self.bytes_read = 0
        self._file = file
        self._end = min(file.size, MAX_HEADER_BYTES)
        self._window, self._start, self._at = b"", 0, 0

    @property
    def position(self) -> int:
        """Bytes from the start of the file to what is read next."""
        return self._start + self._at

    def error(self, problem: str, hint: str = AGAIN) -> KvcalcError:
        """The error for what is being read now."""
        what, name = self.place
        if name:
            what += f" {name:,}" if isinstance(name, int) else f' "{shown(name)}"'
        return broken(self._file.where, f"{what} {problem}", hint)

    def check(self, count: int, problem: str) -> None:
        """Make sure that `count` more bytes exist.

        Raises:
            KvcalcError: "unreadable_input", "<file>: <place> <problem> past the end …".
        """
        if count <= self._end - self.position:
            return
        if count <= self._file.size - self.position:
            raise self.error(
                f"{problem} past the {MAX_HEADER_BYTES:,} bytes that a header may take"
            )
        raise self.error(f"{problem} past the end of the file ({self._file.size:,} bytes)")

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        self._load(count)
        at = self._at
        self._at = at + count
        return self._window[at : self._at]

    def skip(self, count: int) -> None:
        """Step over `count` bytes without reading them."""
        self.check(count, f"takes {count:,} bytes,")
        self._at += count

    def numbers(self, layout: str) -> tuple[Any, ...]:
        """The numbers of a struct layout without its byte order, such as "IQ" or "128B"."""
        layout = self.order + layout
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def length(self) -> int:
        """A 64-bit length of as many bytes, which all exist."""
        (length,) = self.numbers("Q")
        self.check(length, f"has a length of {length:,},")
        return int(length)

    def name(self, limit: int) -> str:
        """A name: UTF-8 of 1 to `limit` bytes."""
        length = self.length()
        if not 0 < length <= limit:
            raise self.error(f"has a name of {length:,} bytes, expected 1 to {limit:,}")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise self.error("has a name that is not UTF-8") from error

    def skip_strings(self, count: int) -> None:
        """Step over `count` strings, each a 64-bit length and as many bytes.

        A vocabulary has 250,000 of them: this loop is the time a GGUF header takes.
        """
        self.check(8 * count, f"claims {count:,} strings,")
        unpack = struct.Struct(self.order + "Q").unpack_from
        done = 0
        while done < count:
            self._load(8)
            window, at = self._window, self._at
            last = len(window) - 8
            while at <= last and done < count:
                at += 8 + unpack(window, at)[0]
                done += 1
            # Only the last string can lead out of the window: one check covers them all.
            over = at - len(window)
            self._at = min(at, len(window))
            if over > 0:
                self.check(over, f"has string {done:,} of {count:,} running")
                self._at += over

    def _load(self, count: int) -> None:
        """Have the next `count` bytes in the window."""
        if count <= len(self._window) - self._at:
            return
        self.check(count, "runs")
        start = self.position
        self._file.handle.seek(start)
        window = self._file.handle.read(min(max(count, WINDOW_BYTES), self._end - start)) or b""
        self.bytes_read += len(window)
        if len(window) < count:
            raise self.error("is cut off: the file became shorter while it was read")
        self._window, self._start, self._at = window, start, 0
