"""A stacked area over tokens or steps, drawn with block glyphs to an eighth of a row.

Columns show what is reached by their right edge; a corner inside a column counts too, so a short
peak is never lost. A cell that several series share shows the largest one, and only the cache has
an edge finer than a cell, where nothing lies on it. Layout only: nothing here is a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.units import fixed
from kvcalc.report.document import Chart, Span, keys, spans_of
from kvcalc.report.lines import Spans, wrap

_EDGES = " ▁▂▃▄▅▆▇█"
#: Cells left of the first column: five for the scale, a blank and the axis.
_MARGIN = 7
_WIDEST = 96
#: Steps of the scale; four of them span the chart.
_NICE = tuple(map(Fraction, ("1", "1.25", "1.5", "2", "2.5", "3", "4", "5", "6", "8", "10")))
_LABELS = 4
#: The room in the last pages, where a chart shows it.
SLACK = "unused in pages"


class _Level(NamedTuple):
    """What a column shows: bytes of the series, with its slack, and of the dotted line."""

    series: float
    slack: float
    dotted: float | None


Cell = tuple[str, str]
_BLANK: Cell = (" ", "")


def draw(chart: Chart, width: int, height: int | None) -> Iterator[Spans]:
    """The chart's lines for a terminal of `width` cells: 8 rows, or 12 from 40 lines on."""
    rows = 12 if height is not None and height >= 40 else 8
    columns = min(width - _MARGIN - 1, _WIDEST)
    right = chart.knots[-1][0]
    top = max(chart.base + max(height, dotted or 0) for _, height, dotted in chart.knots)
    top = max([top, chart.limit or 0, *(chart.base + height for _, height in chart.slack)])
    if columns < 8 or right <= 0 or top <= 0:
        return
    label = _nice(Fraction(top, _LABELS * chart.unit_bytes))
    step = float(label) * _LABELS * chart.unit_bytes / rows
    levels = list(_columns(chart, columns, right))
    end = columns if chart.end is None else _column(chart.end, columns, right)
    if chart.end is not None and chart.end_label:
        yield _marker(chart.end_label, end, columns)
    extra = []
    for r in range(rows, 0, -1):
        cells = [
            _cell(chart, levels[c], (r - 1) * step, step, past=c >= end) for c in range(columns)
        ]
        if chart.limit is not None and (r - 1) * step < chart.limit <= r * step:
            named = _line(cells, chart.limit_label)
            extra += [] if named else [("╌", "no", chart.limit_label)]
        _dots(cells, levels, chart.base, (r - 1) * step, step)
        if any(cell == ("░", "waste") for cell in cells) and ("░", "waste", SLACK) not in extra:
            extra.append(("░", "waste", SLACK))
        every = rows // _LABELS
        scale = "" if r % every else fixed(label * (r // every), 1, _decimals(label))
        yield (Span(f"{scale:>5} ┤"), *_merged(cells))
    ticks = 4 if columns >= 56 else 2
    yield (Span(f"{chart.unit_name:>5} └{_axis(columns, ticks)}"),)
    yield (Span(" " * _MARGIN + _tick_labels(columns, ticks, right, chart.x_name).rstrip(), "dim"),)
    legend = (*spans_of(chart.legend), *([Span("  "), *keys(*extra)] if extra else []))
    yield from wrap(legend, width, "  ")


def _columns(chart: Chart, columns: int, right: int) -> Iterator[_Level]:
    """Bytes of each column: at its right edge or at a corner in it."""
    slack = dict(chart.slack)
    knots = [(x, (height, slack.get(x, height), dotted)) for x, height, dotted in chart.knots]
    corners: dict[int, list[_Level]] = {}
    for corner, level in knots:
        corners.setdefault(_column(corner, columns, right), []).append(_Level(*level))
    i = 0
    for c in range(columns):
        edge = (c + 1) * right / columns
        while i + 2 < len(knots) and knots[i + 1][0] < edge:
            i += 1
        (x0, a), (x1, b) = knots[i : i + 2]
        share = min(max((edge - x0) / (x1 - x0), 0.0), 1.0)
        found = [_between(a, b, share), *corners.get(c, ())]
        dots = [level.dotted for level in found if level.dotted is not None]
        yield _Level(
            max(level.series for level in found), max(level.slack for level in found),
            max(dots) if dots else None,
        )  # fmt: skip


def _between(a: tuple[int, int, int | None], b: tuple[int, int, int | None], x: float) -> _Level:
    """The share `x` of the way from one level to the next."""
    dotted = None if a[2] is None or b[2] is None else a[2] + x * (b[2] - a[2])
    return _Level(a[0] + x * (b[0] - a[0]), a[1] + x * (b[1] - a[1]), dotted)


def _column(x: int, columns: int, right: int) -> int:
    """The column whose right edge is the first at or beyond x."""
    return min(max(-(-x * columns // right) - 1, 0), columns - 1)


def _cell(chart: Chart, level: _Level, low: float, step: float, *, past: bool) -> Cell:
    weights = _share(chart.base, low, step)
    both = _share(chart.base + level.series, low, step)
    series, slack = both - weights, _share(chart.base + level.slack, low, step) - both
    if not past and slack >= 0.5 and slack > series:
        return ("░", "waste")
    if weights >= series and weights > 0 and both >= 0.5:
        return ("▒", "weights") if weights >= 0.5 or series > 0 else _BLANK
    if past:
        return ("░", "no") if both >= 0.5 else _BLANK
    edge = round(both * 8) if series > 0 else 0
    return (_EDGES[edge], "kv") if edge else _BLANK


def _share(level: float, low: float, step: float) -> float:
    """How much of the cell above `low` lies below `level`, 0 to 1."""
    return min(max((level - low) / step, 0.0), 1.0)


def _line(cells: list[Cell], label: str) -> bool:
    """The limit in the cells that are free; whether its label found room at their start."""
    for c, cell in enumerate(cells):
        if cell == _BLANK:
            cells[c] = ("╌", "no")
    text = f" {label} "
    room = all(cell == ("╌", "no") for cell in cells[: len(text) + 4])
    if label and room and len(text) + 4 <= len(cells):
        cells[2 : 2 + len(text)] = [(c, "") for c in text]
        return True
    return not label


def _dots(cells: list[Cell], levels: list[_Level], base: int, low: float, step: float) -> None:
    """The dotted line, without a gap where it jumps."""
    before = 0.0
    for c, level in enumerate(levels):
        if level.dotted is None:
            continue
        at = base + level.dotted
        jump = abs(at - before) > step and min(before, at) < low + step and low < max(before, at)
        if (low < at <= low + step or jump) and cells[c][0] in {" ", "╌"}:
            cells[c] = ("·", "waste")
        before = at


def _marker(label: str, column: int, columns: int) -> Spans:
    """▾ over the first column past the end, its label left of it where there is room."""
    text = f"✗ {label}"
    if column + _MARGIN > len(text):
        return (Span(" " * (_MARGIN + column - len(text) - 1)), Span(f"{text} ▾", "no"))
    return (Span(" " * (_MARGIN + min(column, columns - 1))), Span(f"▾ {text}", "no"))


def _nice(least: Fraction) -> Fraction:
    """The smallest round number at least `least`."""
    power = Fraction(1)
    while power * 10 <= least:
        power *= 10
    while power > least:
        power /= 10
    return next(power * n for n in _NICE if power * n >= least)


def _decimals(label: Fraction) -> int:
    return next((d for d in (0, 1, 2) if (label * 10**d).denominator == 1), 3)


def _axis(columns: int, ticks: int) -> str:
    marks = {k * columns // ticks - 1 for k in range(1, ticks + 1)}
    return "".join("┴" if c in marks else "─" for c in range(columns))


def _tick_labels(columns: int, ticks: int, right: int, name: str) -> str:
    """Numbers under the ticks: the last one ends at it, with its name where that fits."""
    row = [" "] * columns
    last = f"{right:,}"
    placed = [(columns - len(last), last), (0, "0")]
    for k in range(1, ticks):
        text = f"{right * k // ticks:,}"
        placed.append((k * columns // ticks - 1 - len(text) // 2, text))
    placed.append((3, name))
    for start, text in placed:
        around = row[max(start - 2, 0) : start + len(text) + 2]
        if text in {last, "0"} or (start >= 0 and not "".join(around).strip()):
            row[start : start + len(text)] = text
    return "".join(row[:columns])


def _merged(cells: list[Cell]) -> Iterator[Span]:
    """Neighbours of one style as one span."""
    start = 0
    for c in range(1, len(cells) + 1):
        if c == len(cells) or cells[c][1] != cells[start][1]:
            yield Span("".join(glyph for glyph, _ in cells[start:c]), cells[start][1])
            start = c
