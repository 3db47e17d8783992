"""The charts of an answer inside a page, in two widths: it shows the one that it has room for."""

from __future__ import annotations

from kvcalc.core.results.base import Result
from kvcalc.report.svg import charts
from kvcalc.report.svg_draw import Canvas

_WIDTHS = (("wide", 712), ("slim", 342))


def pictures(result: Result, key: str = "") -> list[str]:
    """Each chart of the result, wide and slim; `key` keeps their patterns apart in one page."""
    made = []
    for i, draw in enumerate(charts(result, tables=False)):
        for name, width in _WIDTHS:
            canvas = Canvas(width, f"{key}{name}{i}")
            draw(canvas)
            label = "chart; the tables below say the same"
            made.append(f'<div class="{name}">{canvas.embedded(label)}</div>')
    return made
