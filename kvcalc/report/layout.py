"""Blocks to styled lines of a given width; shared by the terminal and the plain format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvcalc.core.units import printable
from kvcalc.report.document import (
    Bar,
    Block,
    Chart,
    Code,
    Document,
    Formula,
    Paragraph,
    Span,
    Table,
    Verdict,
    spans_of,
)
from kvcalc.report.layout_table import table_lines
from kvcalc.report.lines import INDENT, Spans, cells, wrap

#: The first column of a line that is drawn in columns.
_FIRST_COLUMN = re.compile(r"(?=.{0,14}  \S)\S+(?: \S+)*  +|  +")


def lay_out(document: Document, width: int | None, height: int | None = None) -> list[Spans]:
    """The document as lines; width None is unbounded (plain: no bars, no wrapping, all columns)."""
    lines: list[Spans] = []
    for block in document.blocks:
        body = list(_block(block, width, height))
        if not body:
            continue
        if lines and not (isinstance(block, Paragraph) and block.indent < 0):
            lines.append(())
        lines.extend(body)
    return [tuple(Span(printable(s.text), s.style) for s in line) for line in lines]


def _block(block: Block, width: int | None, height: int | None) -> Iterator[Spans]:
    if isinstance(block, Verdict):
        yield from _verdict(block, width)
    elif isinstance(block, Paragraph):
        indent = max(block.indent, 0) if block.indent >= 0 else 2
        yield from wrap(spans_of(block.text), width, " " * indent)
    elif isinstance(block, Formula):
        yield from _formula(block, width)
    elif isinstance(block, Table):
        yield from table_lines(block, width)
    elif isinstance(block, Bar):
        if width is not None and width >= 40:
            yield from _bar(block, min(width - 4, 96))
    elif isinstance(block, Chart):
        if width is not None and width >= 40:
            from kvcalc.report.chart import draw  # noqa: PLC0415 - only a timeline has one

            yield from draw(block, width, height)
    else:
        yield from _code(block, width)


def _verdict(block: Verdict, width: int | None) -> Iterator[Spans]:
    if block.fits is None:
        head, strong = block.answer, block.strong
        spans = (
            (Span(strong, "bold"), Span(head[len(strong) :]))
            if strong and head.startswith(strong)
            else (Span(head),)
        )
        yield from wrap(spans, width)
        return
    mark = Span("✓", "yes") if block.fits else Span("✗", "no")
    whole = f"{block.plan}: {block.answer}"
    if width is None or cells(whole) + 2 <= width:
        yield (mark, Span(f" {whole}", "bold"))
        return
    plan = wrap((Span(f"{block.plan}:", "bold"),), width - 2, "  ")
    yield (mark, *_after_indent(next(plan)))
    yield from plan
    yield from wrap((Span(block.answer, "bold"),), width, "  ")


def _after_indent(spans: Spans) -> Spans:
    return (Span(" "), *spans[1:])


def _formula(block: Formula, width: int | None) -> Iterator[Spans]:
    """Names over numbers; with several rows the first number carries the row's name, at left."""
    table = [
        ((f"{numbers[0]} {block.labels[i]}" if block.labels else numbers[0]), *numbers[1:])
        for i, (numbers, _) in enumerate(block.rows)
    ]
    widths = [
        max(cells(name), *(cells(row[i]) for row in table)) for i, name in enumerate(block.names)
    ]

    def product(factors: tuple[str, ...]) -> str:
        first = factors[0].ljust(widths[0]) if block.labels else factors[0].rjust(widths[0])
        rest = (f.rjust(w) for f, w in zip(factors[1:], widths[1:], strict=True))
        return f"{INDENT}{' × '.join((first, *rest))}"

    rows = [
        f"{product(row)}  =  {result}" for row, (_, result) in zip(table, block.rows, strict=True)
    ]
    if width is not None and max(map(cells, rows)) > width:
        yield from _upright(block)
        return
    yield (Span(product(block.names), "dim"),)
    for row in rows:
        yield (Span(row),)


def _upright(block: Formula) -> Iterator[Spans]:
    """The product one factor a line, for narrow screens."""
    for i, (numbers, result) in enumerate(block.rows):
        if block.labels:
            yield (Span(f"{INDENT}{block.labels[i]}"),)
        wide = max(map(cells, numbers)) + 2
        for j, (number, name) in enumerate(zip(numbers, block.names, strict=True)):
            factor = number if j == 0 else f"× {number}"
            yield (Span(f"{INDENT}{factor.ljust(wide)}  "), Span(name, "dim"))
        yield (Span(f"{INDENT}= {result}"),)


def _bar(block: Bar, width: int) -> Iterator[Spans]:
    parts = [p for p in block.parts if p.bytes > 0]
    total = sum(p.bytes for p in parts)
    if not total:
        return
    spans, used, seen = [Span(INDENT)], 0, 0
    for part in parts:
        seen += part.bytes
        end = max(round(seen * width / total), used + 1)
        spans.append(Span(part.glyph * (end - used), part.style))
        used = end
    yield tuple(spans)
    if block.legend:
        yield from wrap(spans_of(block.legend), width + 4, INDENT)


def _code(block: Code, width: int | None) -> Iterator[Spans]:
    """Commands as they are, to paste; other lines go on below on a screen too narrow for them."""
    if block.title:
        yield from wrap((Span(block.title, "dim"),), width, INDENT)
    pasted = len(block.lines) if block.pasted is None else block.pasted
    for i, text in enumerate(block.lines):
        spans = (Span(text, "arg"),)
        yield from wrap(spans, None if i < pasted else width, INDENT, _below(text))


def _below(text: str) -> str:
    """The indent of a line's continuation: below its second column, if it has a short first one."""
    first = _FIRST_COLUMN.match(text)
    return INDENT + (" " * len(first[0]) if first else INDENT)
