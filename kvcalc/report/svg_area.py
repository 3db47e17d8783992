"""A stacked area over tokens or steps: weights, KV cache on them, what would not fit, the limit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from kvcalc.core.units import fixed, format_bytes
from kvcalc.report.document import Chart
from kvcalc.report.svg_axes import Plot, plot
from kvcalc.report.svg_draw import Canvas, number, text_width

#: Height of the plot itself.
HEIGHT = 250.0


class Mark(NamedTuple):
    """A point of the curve worth naming; `data` are the result's own numbers."""

    x: int
    label: str
    tip: str
    data: dict[str, object]
    style: str = ""


class Names(NamedTuple):
    """What the legend calls the series."""

    series: str = "KV cache"
    dotted: str = "naive reservation"
    base: str = "weights"
    slack: str = "unused in pages"
    #: The limit's label in full; else the chart's with its unit.
    limit: str = ""


class _Area(NamedTuple):
    chart: Chart
    plot: Plot


def draw(
    canvas: Canvas, chart: Chart, *, marks: Sequence[Mark] = (), names: Names | None = None,
    y_name: str = "", height: float = HEIGHT, tips: Sequence[tuple[int, str]] = (),
) -> None:  # fmt: skip
    """The chart below what the canvas holds, then its legend."""
    names = names or Names()
    tops = [chart.base + max(b, d or 0) for _, b, d in chart.knots]
    highest = max([chart.limit or 0, *tops, *(chart.base + b for _, b in chart.slack), 1])
    top = canvas.height + (54 if chart.end is not None else 40)
    made = plot(
        canvas, top, height, right=max(chart.knots[-1][0], 1), highest=highest,
        unit=chart.unit_bytes, unit_name=chart.unit_name, y_name=y_name, x_name=chart.x_name,
    )  # fmt: skip
    area = _Area(chart, made)
    canvas.open(
        "g", class_="area", data_base_bytes=chart.base,
        data_limit_bytes="" if chart.limit is None else chart.limit,
        data_end="" if chart.end is None else chart.end,
        data_knots=" ".join(f"{x}:{b}" for x, b, _ in chart.knots),
        data_dotted=" ".join(f"{x}:{d}" for x, _, d in chart.knots if d is not None),
        data_slack=" ".join(f"{x}:{b}" for x, b in chart.slack),
    )  # fmt: skip
    if chart.base:
        canvas.rect(made.left, made.y(chart.base), made.width, made.bottom - made.y(chart.base),
                    "weights", title=f"{names.base} {format_bytes(chart.base)}")  # fmt: skip
    _slack(canvas, area, names)
    _series(canvas, area, names)
    _dotted(canvas, area, names)
    _tips(canvas, made, tips)
    _marks(canvas, area, marks)
    _limit(canvas, area, names)
    canvas.close("g")
    canvas.height = made.bottom + 62
    _legend(canvas, chart, names)


def value_at(chart: Chart, x: float) -> float:
    """Bytes of the series at x: straight between the knots."""
    for (x0, b0, _), (x1, b1, _) in zip(chart.knots, chart.knots[1:], strict=False):
        if x <= x1:
            return b0 + (b1 - b0) * (x - x0) / (x1 - x0)
    return chart.knots[-1][1]


def _path(area: _Area, points: Sequence[tuple[float, float]]) -> str:
    """A closed area from the base up to the points."""
    base = area.plot.y(area.chart.base)
    inner = "".join(
        f"L{number(area.plot.x(x))} {number(area.plot.y(area.chart.base + b))}" for x, b in points
    )
    first, last = area.plot.x(points[0][0]), area.plot.x(points[-1][0])
    return f"M{number(first)} {number(base)}{inner}L{number(last)} {number(base)}Z"


def _slack(canvas: Canvas, area: _Area, names: Names) -> None:
    """What pages hold beyond the series, behind it; only as far as memory reaches."""
    end = area.chart.end
    points = [(float(x), float(b)) for x, b in area.chart.slack if end is None or x <= end]
    if has_slack(area.chart) and len(points) > 1:
        fill = f"url(#{canvas.key}hatched-waste)"
        canvas.add("path", d=_path(area, points), fill=fill, title=names.slack)


def has_slack(chart: Chart) -> bool:
    """Whether what pages hold beyond the series can be seen: a hundredth of the height."""
    used = {x: b for x, b, _ in chart.knots}
    most = max(chart.base + b for b in used.values())
    return any((b - used[x]) * 100 >= most for x, b in chart.slack)


def _series(canvas: Canvas, area: _Area, names: Names) -> None:
    chart = area.chart
    points = [(float(x), float(b)) for x, b, _ in chart.knots]
    end = chart.end
    if end is None or end >= points[-1][0]:
        canvas.add("path", d=_path(area, points), class_="kv", title=names.series)
        return
    at = (float(end), value_at(chart, end))
    inside = [*(p for p in points if p[0] < end), at]
    beyond = [at, *(p for p in points if p[0] > end)]
    canvas.add("path", d=_path(area, inside), class_="kv", title=names.series)
    canvas.add("path", d=_path(area, beyond), fill=f"url(#{canvas.key}hatched-no)",
               title="would not fit")  # fmt: skip


def _dotted(canvas: Canvas, area: _Area, names: Names) -> None:
    points = [(x, d) for x, _, d in area.chart.knots if d is not None]
    if len(points) < 2:
        return
    coordinates = " ".join(
        f"{number(area.plot.x(x))},{number(area.plot.y(area.chart.base + d))}" for x, d in points
    )
    canvas.add("polyline", points=coordinates, class_="s-waste", stroke_width=2.5,
               stroke_dasharray="2 4", title=names.dotted)  # fmt: skip


def _tips(canvas: Canvas, made: Plot, tips: Sequence[tuple[int, str]]) -> None:
    """Strips that say what stands at the values they are nearest to."""
    edges = [made.left, *(made.x((a + b) / 2) for (a, _), (b, _) in pairwise(tips))]
    for (x, words), left, right in zip(tips, edges, [*edges[1:], made.left + made.width],
                                       strict=False):  # fmt: skip
        canvas.add("rect", x=left, y=made.top, width=max(right - left, 0.0), height=made.height,
                   fill="transparent", title=words, data={"data_x": x})  # fmt: skip


def _limit(canvas: Canvas, area: _Area, names: Names) -> None:
    chart, made = area.chart, area.plot
    if chart.limit is None:
        return
    y = made.y(chart.limit)
    canvas.line(made.left, y, made.left + made.width, y, "s-no", width=2, dashes="6 4")  # fmt: skip
    if chart.limit_label:
        label = names.limit or f"{chart.limit_label} {chart.unit_name}"
        canvas.text(made.left + 8, y - 8, label, class_="halo")
    if chart.end is None:
        return
    x = made.x(chart.end)
    level = made.y(chart.base + value_at(chart, chart.end))
    canvas.line(x, made.top - 10, x, made.bottom, "s-no")
    canvas.add("circle", cx=x, cy=level, r=5, class_="bg", stroke="none")
    canvas.add("circle", cx=x, cy=level, r=5, class_="s-no", stroke_width=2.5,
               title=f"{chart.end_label}: {chart.x_name} {chart.end:,}")  # fmt: skip
    left = x - made.left > text_width(f"✗ {chart.end_label} at {chart.end:,}") + 12
    canvas.text(x - 6 if left else x + 6, made.top - 16, f"✗ {chart.end_label} at {chart.end:,}",
                class_="no b", anchor="end" if left else "start")  # fmt: skip


def _marks(canvas: Canvas, area: _Area, marks: Sequence[Mark]) -> None:
    """A dot each; a label where it meets no other."""
    taken: list[tuple[float, float, float, float]] = []
    for mark in marks:
        x = area.plot.x(mark.x)
        y = area.plot.y(area.chart.base + value_at(area.chart, mark.x))
        canvas.add("circle", cx=x, cy=y, r=4, class_="fg", title=mark.tip, data=mark.data)
        wide = text_width(mark.label, 12)
        left = x - wide / 2 if x - wide / 2 > area.plot.left else area.plot.left + 4
        left = min(left, area.plot.left + area.plot.width - wide)
        box = (left - 4, y - 24, left + wide + 4, y - 6)
        crossed = area.chart.limit is not None and (
            box[1] - 4 < area.plot.y(area.chart.limit) < box[3] + 4
        )
        if not mark.label or crossed or any(_meet(box, other) for other in taken):
            continue
        taken.append(box)
        canvas.text(left, y - 10, mark.label, class_="small halo")


def _meet(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _legend(canvas: Canvas, chart: Chart, names: Names) -> None:
    entries = []
    if chart.base:
        size = fixed(chart.base, chart.unit_bytes)
        entries.append(("weights", f"{names.base} {size} {chart.unit_name}"))
    entries.append(("kv", names.series))
    if has_slack(chart):
        entries.append(("hatched-waste", names.slack))
    if chart.end is not None:
        entries.append(("hatched-no", "would not fit"))
    if any(d is not None for _, _, d in chart.knots):
        entries.append(("dotted", names.dotted))
    legend(canvas, entries)


def legend(canvas: Canvas, entries: Sequence[tuple[str, str]], left: float = 0) -> None:
    """Swatches and words in a row, wrapped where the picture ends."""
    x, y = left, canvas.height
    for style, words in entries:
        wide = 20 + text_width(words)
        if x > left and x + wide > canvas.width - 8:
            x, y = left, y + 22
        if style == "dotted":
            canvas.line(x, y - 5, x + 13, y - 5, "s-waste", width=2.5, dashes="2 3")  # fmt: skip
        else:
            canvas.rect(x, y - 11, 13, 13, style)
        canvas.text(x + 20, y, words, class_="mut")
        x += wide + 22
    canvas.height = y + 22
