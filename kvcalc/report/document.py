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
    #: A shorter form of the column before it, shown where that one is dropped; a table whose
    #: columns all are is for a narrow terminal alone.
    narrow: bool = False


class Share(NamedTuple):
    """A cell that is a bar: a fraction of the longest, and words after it (terminal only).

    `beyond` is a second part, wasted, after the first.
    """

    fraction: float
    style: str = "kv"
    after: Line = ""
    beyond: float = 0


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
    #: All columns but the first are alike: a narrow screen shows some, and the others below.
    peers: bool = False


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
    the base too. `slack` is what lies on the series, unused: (x, bytes with it) at the same x.
    From `end` on nothing fits.
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
    slack: tuple[tuple[int, int], ...] = ()


class Code(NamedTuple):
    """Lines to paste, never wrapped; from the `pasted`-th on only to read (None: all to paste)."""

    lines: tuple[str, ...]
    title: str = ""
    pasted: int | None = None


Block = Verdict | Paragraph | Formula | Table | Bar | Chart | Code


class Document(NamedTuple):
    """A whole answer. `tall_repeat`: an answer taller than the screen ends with its verdict."""

    title: str
    blocks: tuple[Block, ...]


def without_charts(document: Document) -> Document:
    """The document without charts, bars and columns of bars."""
    blocks = (b for b in document.blocks if not isinstance(b, (Bar, Chart)))
    return document._replace(
        blocks=tuple(_without_bars(b) if isinstance(b, Table) else b for b in blocks)
    )


def _without_bars(table: Table) -> Table:
    keep = [
        i
        for i in range(len(table.columns))
        if not any(isinstance(row.cells[i], Share) for row in table.rows)
    ]
    rows = (row._replace(cells=tuple(row.cells[i] for i in keep)) for row in table.rows)
    return table._replace(columns=tuple(table.columns[i] for i in keep), rows=tuple(rows))


def keys(*entries: tuple[str, str, str]) -> tuple[Span, ...]:
    """A legend: glyph, its style, its words; an entry never breaks."""
    spans: list[Span] = []
    for glyph, style, words in entries:
        spans += [Span("  ")] if spans else []
        spans += [Span(glyph, style)] if glyph else []
        spans.append(Span(("\u00a0" if glyph else "") + words.replace(" ", "\u00a0")))
    return tuple(spans)


def is_heading(block: Paragraph) -> bool:
    """Whether a paragraph is the heading of what follows: bold, from the margin."""
    spans = spans_of(block.text)
    return block.indent == 0 and len(spans) == 1 and spans[0].style == "bold"


def spans_of(line: Line) -> tuple[Span, ...]:
    """A line as spans."""
    return (Span(line),) if isinstance(line, str) else line


def text_of(line: Cell) -> str:
    """A line without its styles; a bar is its words."""
    if isinstance(line, Share):
        line = line.after
    return line if isinstance(line, str) else "".join(span.text for span in line)
