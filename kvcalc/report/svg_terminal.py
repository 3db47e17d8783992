"""A document as a terminal shows it, in a picture: for answers that are words and tables.

Every word is placed by its column and stretched to its cells, and block glyphs are drawn as
shapes, so that the picture is the same whatever monospaced font its reader has.
"""

from __future__ import annotations

import re

from kvcalc.report.document import Document, Span
from kvcalc.report.layout import lay_out
from kvcalc.report.lines import Spans, cells, line_cells
from kvcalc.report.svg_draw import Canvas

CELL, LINE = 8.0, 19.0
_PAD = 20.0
#: Columns a terminal has unless a table needs more.
COLUMNS = 88
_LEFT = {c: i / 8 for i, c in enumerate("▏▎▍▌▋▊▉", 1)}
_LOW = {c: i / 8 for i, c in enumerate("▁▂▃▄▅▆▇", 1)}
_SHAPES = re.compile("[█▒▓░─╌▏▎▍▌▋▊▉▁▂▃▄▅▆▇]+")
_WORDS = re.compile(r"\S+(?: \S+)*")
_CLASSES = {
    "bold": "b", "dim": "mut", "kv": "kv", "kv_room": "kv", "waste": "waste", "weights": "",
    "engine": "", "no": "no b", "yes": "yes b", "arg": "kv",
}  # fmt: skip
_HATCHED = {"kv_room": "hatched-room", "waste": "hatched-waste", "no": "hatched-no"}


def picture(document: Document, command: str = "", columns: int = COLUMNS) -> str:
    """The document as a terminal of so many columns shows it, below the command if one is given."""
    lines = lay_out(document, columns, 30)
    if command:
        lines = [(Span("$ ", "dim"), Span(command, "bold")), (), *lines]
    return drawn(lines, document.title, columns)


def drawn(lines: list[Spans], title: str, columns: int = COLUMNS) -> str:
    """Lines of spans as a picture."""
    columns = max([columns, *(line_cells(line) for line in lines)])
    canvas = Canvas(columns * CELL + 2 * _PAD)
    canvas.open("g", class_="mono")
    y = _PAD
    for line in lines:
        column = 0
        for span in line:
            column = _span(canvas, span, column, y)
        y += LINE
    canvas.close("g")
    canvas.height = y + _PAD
    return canvas.picture(title)


def _span(canvas: Canvas, span: Span, column: int, y: float) -> int:
    """One span from its column on; the column after it."""
    at = 0
    for found in _SHAPES.finditer(span.text):
        column = _words(canvas, span.text[at : found.start()], span.style, column, y)
        column = _shapes(canvas, found[0], span.style, column, y)
        at = found.end()
    return _words(canvas, span.text[at:], span.style, column, y)


def _words(canvas: Canvas, text: str, style: str, column: int, y: float) -> int:
    for found in _WORDS.finditer(text):
        first = column + cells(text[: found.start()])
        wide = cells(found[0]) * CELL
        canvas.add(
            "text", found[0], x=_PAD + first * CELL, y=y + 14,
            class_=f"mono {_CLASSES.get(style, '')}".strip(), textLength=wide,
            lengthAdjust="spacingAndGlyphs",
        )  # fmt: skip
    return column + cells(text)


def _shapes(canvas: Canvas, text: str, style: str, column: int, y: float) -> int:
    """Runs of one glyph as one shape each."""
    i = 0
    while i < len(text):
        glyph, n = text[i], 1
        while i + n < len(text) and text[i + n] == glyph:
            n += 1
        _shape(canvas, glyph, n, style, _PAD + (column + i) * CELL, y)
        i += n
    return column + len(text)


def _shape(canvas: Canvas, glyph: str, n: int, style: str, x: float, y: float) -> None:
    wide = n * CELL
    fill = {"weights": "weights", "engine": "engine", "waste": "waste", "no": "no",
            "": "fg", "bold": "fg", "dim": "mut"}.get(style, "kv")  # fmt: skip
    if glyph in "─╌":
        stroke = "s-no" if style == "no" else "s-fg"
        dashes = "4 4" if glyph == "╌" else ""
        canvas.line(x, y + 9.5, x + wide, y + 9.5, stroke, dashes=dashes)
    elif glyph == "░":
        canvas.rect(x, y, wide, LINE, _HATCHED.get(style, "hatched-room"))
    elif glyph in _LEFT:
        for k in range(n):
            canvas.rect(x + k * CELL, y, CELL * _LEFT[glyph], LINE, fill)
    elif glyph in _LOW:
        high = LINE * _LOW[glyph]
        canvas.rect(x, y + LINE - high, wide, high, fill)
    else:
        canvas.rect(x, y, wide, LINE, "weights" if glyph == "▒" else fill)
