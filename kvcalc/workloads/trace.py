"""A trace: its requests one at a time, whatever the file, every fault with its line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any, Protocol

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown
from kvcalc.workloads.fields import Format, format_of, hint_for
from kvcalc.workloads.parse import Parser, columns
from kvcalc.workloads.request import BadLineError, TraceRequest
from kvcalc.workloads.source import shown_name, text_lines

_SKIP = "--skip-bad counts such lines and goes on"


class Workload(Protocol):
    """A stream of requests that can be read again; `unit` and `skipped` hold after the first."""

    name: str
    format: str
    unit: str | None
    skipped: int

    def __iter__(self) -> Iterator[TraceRequest]:
        """The requests in order of arrival."""


class Trace:
    """Requests of a file, or of standard input ("-").

    Args:
        path: JSON Lines or CSV, gzip or not.
        limit: Read at most so many.
        skip_bad: Count lines that are no request and go on.
    """

    def __init__(self, path: str, *, limit: int | None = None, skip_bad: bool = False) -> None:
        self.name = shown_name(path)
        self.format = ""
        self.unit: str | None = None
        self.skipped = 0
        self._path, self._limit, self._skip = path, limit, skip_bad

    def __iter__(self) -> Iterator[TraceRequest]:
        """The requests in order of arrival.

        Raises:
            KvcalcError: "invalid_trace" naming file and line; "unreadable_input".
        """
        self.skipped = 0
        requests = self._requests()
        return requests if self._limit is None else islice(requests, self._limit)

    def _requests(self) -> Iterator[TraceRequest]:
        # Closed at once where a line is bad: an error keeps its frames, and with them the file.
        with closing(text_lines(self._path)) as lines:
            yield from self._read(lines)

    def _read(self, lines: Iterator[str]) -> Iterator[TraceRequest]:
        number, first = 0, ""
        for line in lines:
            number += 1
            if not line.isspace():
                first = line
                break
        if not first:
            raise KvcalcError(
                "invalid_trace", f"{self.name} has no requests", "one JSON object a line, or CSV"
            )
        if first.lstrip()[:1] in {"{", "["}:
            yield from self._json(chain([first], lines), number)
        else:
            yield from self._csv(first, lines, number)

    def _json(self, lines: Iterable[str], number: int) -> Iterator[TraceRequest]:
        parser: Parser | None = None
        count = 0
        for at, line in enumerate(lines, number):
            if line.isspace():
                continue
            try:
                row = _object(line)
                if parser is None:
                    parser = Parser(self._recognised(row, at), None)
                    self.unit = parser.unit
                request = parser.request(row, count)
            except BadLineError as bad:
                self._bad(at, bad)
                continue
            count += 1
            yield request

    def _csv(self, first: str, lines: Iterable[str], number: int) -> Iterator[TraceRequest]:
        header = columns(next(csv.reader([first])))
        parser = Parser(self._recognised(header, number), header)
        self.unit = parser.unit
        rows = csv.reader(lines)
        count = 0
        while True:
            try:
                row = next(rows, None)
                if row is None:
                    return
                if not row or (len(row) == 1 and not row[0].strip()):
                    continue
                request = parser.request(row, count)
            except csv.Error as error:
                self._bad(number + rows.line_num, BadLineError(f"not CSV: {error}"))
                continue
            except BadLineError as bad:
                self._bad(number + rows.line_num, bad)
                continue
            count += 1
            yield request

    def _recognised(self, fields: Any, line: int) -> Format:
        found = format_of(fields)
        if found is None:
            names = ", ".join(shown(f, 30) for f in list(fields)[:6])
            raise KvcalcError(
                "invalid_trace", f"{self.name}:{line}: unknown fields {names}",
                hint_for([str(f) for f in fields]),
            )  # fmt: skip
        self.format = found.name
        return found

    def _bad(self, line: int, bad: BadLineError) -> None:
        if not self._skip:
            raise KvcalcError("invalid_trace", f"{self.name}:{line}: {bad}", _SKIP) from None
        self.skipped += 1


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        whole = line.endswith("\n") and not line.lstrip().startswith("{")
        what = "no JSON object" if whole else "not a whole JSON object"
        raise BadLineError(f"{what}: {shown(line.strip(), 40)}") from None
    if not isinstance(row, dict):
        raise BadLineError(f"no JSON object: {shown(line.strip(), 40)}")
    return row
