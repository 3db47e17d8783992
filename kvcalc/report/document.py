"""What an answer says, before any format: verdict, formulas, tables, bars, lines.

Views turn a result into these blocks; text, plain and md lay them out. Strings in blocks are final:
numbers are formatted by the views through `core.units`, and nowhere after.
"""

from __future__ import annotations

from typing import NamedTuple

#: Style names a span may carry; `report.text` maps them to colours.
STYLES = ("", "bold", "dim", "kv", "kv_room", "waste", "weights", "engine", "no", "yes", "arg")


class Span(NamedTuple):
    """A piece of text in one style."""

    text: str
    style: str = ""


#: A line of text: a plain string or spans.
Line = str | tuple[Span, ...]


class Verdict(NamedTuple):
    """The first line: "✓ plan: answer", "✗ plan: …", or one bare sentence (fits None)."""

    answer: str
    plan: str | None = None
    fits: bool | None = None
    #: How much of a bare sentence is set in bold.
    strong: str = ""


class Paragraph(NamedTuple):
    """A sentence that wraps; `indent` blanks before each line."""

    text: Line
    indent: int = 2


class Formula(NamedTuple):
    """A product: factor names over their numbers, several rows under one head.

    Each row is (numbers, result); names has one entry per number. `labels` name the rows (layer
    kinds) where there are several.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], str], ...]
    labels: tuple[str, ...] = ()


class Column(NamedTuple):
    """A column: its head, alignment, whether it is dropped last (0) or first (high)."""

    head: str
    align: str = ">"
    drop: int = 0
    #: Shown on a terminal only (bars).
    screen: bool = False
    #: The last column's text wraps where the table is wider than the screen.
    wrap: bool = False
    style: str = ""
    #: A shorter form of a column that a narrow terminal drops, shown in its place.
    narrow: bool = False


class Share(NamedTuple):
    """A cell that is a bar: a fraction of the longest, and words after it (terminal only)."""

    fraction: float
    style: str = "kv"
    after: Line = ""


#: What a table cell may hold.
Cell = Line | Share


class Row(NamedTuple):
    """Cells of one table row; `mark` stands in the margin (▸ asked, ✓, ✗)."""

    cells: tuple[Cell, ...]
    mark: str = ""
    style: str = ""
    #: A rule above this row (a sum).
    rule: bool = False


class Table(NamedTuple):
    """A table without frames; notes stand under it, dim."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    #: Left out where it does not fit the screen.
    optional: bool = False


class BarPart(NamedTuple):
    """A share of a bar: label for the legend, bytes, glyph, style."""

    label: str
    bytes: int
    glyph: str
    style: str


class Bar(NamedTuple):
    """One horizontal bar over the full width, with its legend (terminal only)."""

    parts: tuple[BarPart, ...]
    legend: Line = ""


class Chart(NamedTuple):
    """A stacked area, terminal only: `base` at the bottom, the knots' bytes on it.

    Knots are (x, bytes, dotted bytes or None), ascending, straight between; the dotted line lies on
    the base too. From `end` on nothing fits.
    """

    knots: tuple[tuple[int, int, int | None], ...]
    x_name: str
    unit_name: str
    unit_bytes: int
    legend: Line
    base: int = 0
    limit: int | None = None
    limit_label: str = ""
    end: int | None = None
    end_label: str = ""


class Code(NamedTuple):
    """Lines to paste, never wrapped."""

    lines: tuple[str, ...]
    title: str = ""


Block = Verdict | Paragraph | Formula | Table | Bar | Chart | Code


class Document(NamedTuple):
    """A whole answer. `tall_repeat`: an answer taller than the screen ends with its verdict."""

    title: str
    blocks: tuple[Block, ...]


def spans_of(line: Line) -> tuple[Span, ...]:
    """A line as spans."""
    return (Span(line),) if isinstance(line, str) else line


def text_of(line: Cell) -> str:
    """A line without its styles; a bar is its words."""
    if isinstance(line, Share):
        line = line.after
    return line if isinstance(line, str) else "".join(span.text for span in line)
