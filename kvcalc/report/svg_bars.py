"""Horizontal bars with their words: a label, a bar of one or two parts, figures at its right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.report.svg_axes import SLIM
from kvcalc.report.svg_draw import Canvas, text_width

HEIGHT, PITCH = 18.0, 30.0


class Part(NamedTuple):
    """A part of a bar: its size, how it is filled, what a reader sees who points at it."""

    value: int
    style: str
    tip: str


class BarRow(NamedTuple):
    """One bar; `data` are the result's own numbers."""

    label: str
    parts: tuple[Part, ...]
    figures: tuple[str, ...]
    data: dict[str, object]
    strong: bool = False


def draw(
    canvas: Canvas, rows: Sequence[BarRow], *, heads: Sequence[str] = (), title: str = "",
    most: int | None = None,
) -> None:  # fmt: skip
    """The bars below what the canvas holds, to one scale; heads stand over the figures."""
    if title:
        canvas.height += 18
        canvas.text(0, canvas.height, title, class_="b")
    scale = most or max(sum(p.value for p in row.parts) for row in rows) or 1
    labels = max(text_width(row.label, bold=row.strong) for row in rows) + 16
    slim = canvas.width < SLIM
    shown = _shown(canvas, rows, heads, labels) if slim else list(range(len(rows[0].figures)))
    columns = [
        max(
            *(text_width(row.figures[i], bold=row.strong) for row in rows),
            text_width(heads[i]) if i < len(heads) else 0,
        )
        + 18
        for i in shown
    ]
    left = 0.0 if slim else labels
    wide = canvas.width - left - (0 if slim else sum(columns))
    y = canvas.height + 10
    if heads:
        y += 16
        _figures(canvas, [heads[i] for i in shown], columns, y - 2, "mut")
        y += 4
    for row in rows:
        canvas.open("g", class_="bar", data=row.data)
        style = "b" if row.strong else ""
        canvas.text(0, y + 14, row.label, class_=style)
        _figures(canvas, [row.figures[i] for i in shown], columns, y + 14, style)
        y += 20 if slim else 0
        _bar(canvas, row, left, y, wide, scale)
        canvas.close("g")
        y += PITCH
    canvas.height = y


def _bar(canvas: Canvas, row: BarRow, x: float, y: float, wide: float, scale: int) -> None:
    canvas.rect(x, y, wide, HEIGHT, "track")
    for part in row.parts:
        length = wide * part.value / scale
        if part.value > 0:
            canvas.rect(x, y, max(length, 1.5), HEIGHT, part.style, title=part.tip)
        x += length


def _shown(
    canvas: Canvas, rows: Sequence[BarRow], heads: Sequence[str], labels: float
) -> list[int]:
    """Figures that fit beside the labels: all, or the first and the last, or the first."""
    count = len(rows[0].figures)
    for chosen in (list(range(count)), sorted({0, count - 1})):
        room = sum(
            max(text_width(text) for text in (*(row.figures[i] for row in rows), *heads[i : i + 1]))
            + 18
            for i in chosen
        )
        if labels + room <= canvas.width:
            return chosen
    return [0]


def _figures(
    canvas: Canvas, texts: Sequence[str], columns: Sequence[float], y: float, class_: str
) -> None:
    """Texts right-aligned in the columns at the right edge."""
    x = canvas.width - sum(columns)
    for text, column in zip(texts, columns, strict=True):
        x += column
        canvas.text(x, y, text, class_=class_, anchor="end")
