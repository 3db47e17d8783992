"""A stacked area over tokens or steps, drawn with block glyphs to an eighth of a row.

Columns show what is reached by their right edge; a corner inside a column counts too, so a short
peak is never lost. A cell that two series share shows the larger one, and only the topmost series
has an edge finer than a cell. Layout only: nothing here is a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvcalc.core.units import fixed
from kvcalc.report.document import Chart, Span, spans_of
from kvcalc.report.layout import Spans, wrap

_EDGES = " ▁▂▃▄▅▆▇█"
#: Cells left of the first column: five for the scale, a blank and the axis.
_MARGIN = 7
_WIDEST = 96
#: Steps of the scale; four of them span the chart.
_NICE = tuple(map(Fraction, ("1", "1.25", "1.5", "2", "2.5", "3", "4", "5", "6", "8", "10")))
_LABELS = 4

Cell = tuple[str, str]
_BLANK: Cell = (" ", "")


def draw(chart: Chart, width: int, height: int | None) -> Iterator[Spans]:
    """The chart's lines for a terminal of `width` cells: 8 rows, or 12 from 40 lines on."""
    rows = 12 if height is not None and height >= 40 else 8
    columns = min(width - _MARGIN - 1, _WIDEST)
    right = chart.knots[-1][0]
    top = max(y for row in (_levels(chart, k) for k in chart.knots) for y in row)
    top = max(top, chart.limit or 0)
    if columns < 8 or right <= 0 or top <= 0:
        return
    label = _nice(Fraction(top, _LABELS * chart.unit_bytes))
    step = float(label) * _LABELS * chart.unit_bytes / rows
    levels = list(_columns(chart, columns, right))
    end = columns if chart.end is None else _column(chart.end, columns, right)
    if chart.end is not None and chart.end_label:
        yield _marker(chart.end_label, end, columns)
    for r in range(rows, 0, -1):
        cells = [
            _cell(chart, levels[c], (r - 1) * step, step, past=c >= end) for c in range(columns)
        ]
        if chart.limit is not None and (r - 1) * step < chart.limit <= r * step:
            _line(cells, chart.limit_label)
        _dots(cells, levels, (r - 1) * step, step)
        every = rows // _LABELS
        scale = "" if r % every else fixed(label * (r // every), 1, _decimals(label))
        yield (Span(f"{scale:>5} ┤"), *_merged(cells))
    ticks = 4 if columns >= 56 else 2
    yield (Span(f"{chart.unit_name:>5} └{_axis(columns, ticks)}"),)
    yield (Span(" " * _MARGIN + _tick_labels(columns, ticks, right, chart.x_name).rstrip(), "dim"),)
    yield from wrap(spans_of(chart.legend), width, "  ")


def _levels(chart: Chart, knot: tuple[int, int, int | None]) -> tuple[int, int]:
    _, height, dotted = knot
    return chart.base + height, 0 if dotted is None else chart.base + dotted


def _columns(chart: Chart, columns: int, right: int) -> Iterator[tuple[float, float | None]]:
    """(series, dotted) bytes of each column: at its right edge or at a corner in it."""
    knots = chart.knots
    corners: dict[int, list[tuple[float, float | None]]] = {}
    for corner, height, dotted in knots:
        corners.setdefault(_column(corner, columns, right), []).append((height, dotted))
    i = 0
    for c in range(columns):
        edge = (c + 1) * right / columns
        while i + 2 < len(knots) and knots[i + 1][0] < edge:
            i += 1
        found = [_between(knots[i], knots[i + 1], edge), *corners.get(c, ())]
        dots = [d for _, d in found if d is not None]
        yield max(h for h, _ in found), max(dots) if dots else None


def _between(
    a: tuple[int, int, int | None], b: tuple[int, int, int | None], x: float
) -> tuple[float, float | None]:
    share = min(max((x - a[0]) / (b[0] - a[0]), 0.0), 1.0)
    dotted = None if a[2] is None or b[2] is None else a[2] + share * (b[2] - a[2])
    return a[1] + share * (b[1] - a[1]), dotted


def _column(x: int, columns: int, right: int) -> int:
    """The column whose right edge is the first at or beyond x."""
    return min(max(-(-x * columns // right) - 1, 0), columns - 1)


def _cell(
    chart: Chart, level: tuple[float, float | None], low: float, step: float, *, past: bool
) -> Cell:
    weights = _share(chart.base, low, step)
    both = _share(chart.base + level[0], low, step)
    series = both - weights
    if weights >= series and weights > 0 and both >= 0.5:
        return ("▒", "weights") if weights >= 0.5 or series > 0 else _BLANK
    if past:
        return ("░", "no") if both >= 0.5 else _BLANK
    edge = round(both * 8) if series > 0 else 0
    return (_EDGES[edge], "kv") if edge else _BLANK


def _share(level: float, low: float, step: float) -> float:
    """How much of the cell above `low` lies below `level`, 0 to 1."""
    return min(max((level - low) / step, 0.0), 1.0)


def _line(cells: list[Cell], label: str) -> None:
    """The limit in the cells that are free, its label where the first of them are."""
    for c, cell in enumerate(cells):
        if cell == _BLANK:
            cells[c] = ("╌", "no")
    text = f" {label} "
    if label and all(cell == ("╌", "no") for cell in cells[: len(text) + 4]):
        cells[2 : 2 + len(text)] = [(c, "") for c in text]


def _dots(
    cells: list[Cell], levels: list[tuple[float, float | None]], low: float, step: float
) -> None:
    for c, (_, dotted) in enumerate(levels):
        if dotted and low < dotted <= low + step and cells[c][0] in {" ", "╌"}:
            cells[c] = ("·", "waste")


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
