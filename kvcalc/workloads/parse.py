"""One line of a trace to a request: numbers checked, named by the file's own fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from kvcalc.core.simulate.job import HashIds, Prefix, Segments
from kvcalc.core.units import cdiv, shown
from kvcalc.workloads.fields import BLOCKS, Format, place_of
from kvcalc.workloads.request import BadLineError, TraceRequest

#: Longer prompts and outputs are typing errors.
MAX_TOKENS = 10**9
_DAY = 86_400


class Parser:
    """Lines of one format to requests; times must not go back.

    Args:
        format: What the fields are called.
        header: The columns of a CSV; None for JSON objects.
    """

    def __init__(self, format: Format, header: list[str] | None) -> None:
        self._format = format
        self._header = header
        get = self._getter
        self._prompt, self._output = get(format.prompt), get(format.output)
        self._time = get(format.time) if format.time else None
        self._last = -math.inf
        self._first: float | None = None
        self._block = format.block
        self._days: dict[str, int] = {}
        #: The minute of the time before, up to its colon, in seconds.
        self._minutes: dict[str, int] = {}
        self._day: int | None = None
        self._prefixes: dict[Segments, Segments] = {}

    @property
    def unit(self) -> str | None:
        """What times count: seconds, steps, or None without times."""
        if self._time is None:
            return None
        return "steps" if self._format.steps else "seconds"

    def _getter(self, field: str) -> Callable[[Any], Any]:
        if self._header is None:
            return lambda row: row.get(field)
        place = place_of(field, self._header)
        return lambda row: row[place] if place < len(row) else None

    def request(self, row: Any, number: int) -> TraceRequest:
        """The request of a row, `number` counting from 0.

        Raises:
            BadLineError: Naming the field and what was expected.
        """
        if self._header is not None and len(row) < len(self._header):
            raise BadLineError(f"{len(row)} fields, expected {len(self._header)}")
        prompt = _whole(self._prompt(row), self._format.prompt)
        output = _whole(self._output(row), self._format.output)
        at = self._at(row) if self._time is not None else self._timeless(row)
        if self._header is not None:
            return TraceRequest(number, at, prompt, output)
        return TraceRequest(_id(row, number), at, prompt, output, self._prefix(row, prompt))

    def _timeless(self, row: Any) -> float:
        late = {"arrival_seconds", "arrival_step"} & row.keys() if self._header is None else ()
        for field in late:
            raise BadLineError(f"{field} is given, but not in the lines before")
        return 0

    def _at(self, row: Any) -> float:
        f = self._format
        assert self._time is not None  # noqa: S101 - the caller checked
        field, value = f.time or "", self._time(row)
        if value is None or value == "":
            raise BadLineError(f"{field} is missing, though the lines before have it")
        if not f.per_second:
            at = self._stamp(value, field)
        else:
            at = _number(value, field)
            if f.steps and at != int(at):
                raise BadLineError(f"{field} is {shown(value)}, expected a whole number")
            at = at / f.per_second if f.per_second > 1 else at
        if f.relative:
            self._first = at if self._first is None else self._first
            at = round(at - self._first, 9)
        if at < self._last:
            raise BadLineError(f"{field} is {shown(value)}, earlier than the line before")
        self._last = at
        return at

    def _stamp(self, value: Any, field: str) -> float:
        """2023-11-16 18:15:46.6805900 as seconds; an offset from UTC at the end is subtracted."""
        text = str(value).strip()
        known = self._minutes.get(text[:17])
        if known is not None and text[17:].replace(".", "", 1).isdecimal():
            return known + float(text[17:])
        try:
            day, clock, offset = text[:10], text[11:], 0
            days = self._days.get(day)
            if days is None:
                days = self._days[day] = date.fromisoformat(day).toordinal()
            if "+" in clock or "-" in clock:
                sign = "+" if "+" in clock else "-"
                clock, _, zone = clock.partition(sign)
                offset = (-60 if sign == "+" else 60) * (int(zone[:2]) * 60 + int(zone[-2:]))
            hours, minutes, seconds = clock.rstrip("Z").split(":")
            # From the first day on: seconds since year 1 would leave floats 8 microseconds apart.
            self._day = days if self._day is None else self._day
            whole = (days - self._day) * _DAY + int(hours) * 3600 + int(minutes) * 60 + offset
            if len(text) > 17 and not offset and text[16] == ":":
                self._minutes = {text[:17]: whole}
            return whole + float(seconds)
        except ValueError:
            raise BadLineError(
                f"{field} is {shown(value)}, expected a time like 2023-11-16 18:15:46.68"
            ) from None

    def _prefix(self, row: Mapping[str, Any], prompt: int) -> Prefix:
        ids, segments = row.get("hash_ids"), row.get("prefix")
        if ids is not None and segments is not None:
            raise BadLineError("prefix and hash_ids say the same thing: give one of them")
        if segments is not None:
            return self._segments(segments)
        if ids is None:
            return None
        if not isinstance(ids, list) or not all(type(i) in {int, str} for i in ids):
            raise BadLineError("hash_ids is no list of whole numbers")
        return HashIds(ids, self._block_of(len(ids), prompt))

    def _block_of(self, count: int, prompt: int) -> int:
        """Tokens of a block, such that `count` of them make up the prompt."""
        sizes = BLOCKS if self._block is None else (self._block,)
        for size in sizes:
            if cdiv(prompt, size) == count:
                if self._block is None and count > 1:
                    self._block = size
                return size
        expected = " or ".join(f"{cdiv(prompt, size):,} of {size}" for size in sizes)
        raise BadLineError(
            f"{count:,} hash_ids for {prompt:,} prompt tokens, expected {expected} tokens"
        )

    def _segments(self, value: Any) -> Segments:
        pairs = value if isinstance(value, list) else ()
        found = tuple(
            (str(pair[0]), pair[1])
            for pair in pairs
            if isinstance(pair, list) and len(pair) == 2
            and type(pair[0]) in {int, str} and type(pair[1]) is int and pair[1] > 0
        )  # fmt: skip
        if not isinstance(value, list) or len(found) != len(value):
            raise BadLineError(f"prefix is {shown(value)}, expected [[key, tokens], …]")
        return self._prefixes.setdefault(found, found)


def _id(row: Mapping[str, Any], number: int) -> str | int:
    name = row.get("id", row.get("request_id", number))
    return name if type(name) in {int, str} else number


def _whole(value: Any, field: str) -> int:
    """A whole number above 0; 147.0 is one too, as some traces write it."""
    kind, number = type(value), None
    if kind is int:
        number = value
    elif kind is str and value.isdecimal():
        number = int(value) if len(value) < 20 else None
    elif kind in {str, float}:
        parsed = _float_or_none(value)
        number = int(parsed) if parsed is not None and parsed.is_integer() else None
    if number is None or not 0 < number <= MAX_TOKENS:
        said = "missing" if value is None or value == "" else shown(value)
        raise BadLineError(f"{field} is {said}, expected a whole number above 0")
    return int(number)


def _number(value: Any, field: str) -> float:
    number = _float_or_none(value)
    if number is None or type(value) is bool or not 0 <= number < 1e18:
        raise BadLineError(f"{field} is {shown(value)}, expected a number, 0 or more")
    return number


def _float_or_none(value: Any) -> float | None:
    try:
        number = float(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def columns(row: Sequence[str]) -> list[str]:
    """Column names, without the blanks around them."""
    return [name.strip() for name in row]
