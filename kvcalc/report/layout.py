"""Blocks to styled lines of a given width; shared by the terminal and the plain format."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from kvcalc.core.units import printable
from kvcalc.report.document import (
    Bar,
    Block,
    Cell,
    Chart,
    Code,
    Column,
    Document,
    Formula,
    Line,
    Paragraph,
    Row,
    Share,
    Span,
    Table,
    Verdict,
    spans_of,
    text_of,
)

Spans = tuple[Span, ...]
_EIGHTHS = " ▏▎▍▌▋▊▉"
_GAP = "  "
NARROW = 60
_INDENT = "  "


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
        yield from _table(block, width)
    elif isinstance(block, Bar):
        if width is not None and width >= 40:
            yield from _bar(block, min(width - 4, 96))
    elif isinstance(block, Chart):
        if width is not None and width >= 40:
            from kvcalc.report.chart import draw  # noqa: PLC0415 - only a timeline has one

            yield from draw(block, width, height)
    else:
        yield from _code(block)


def cells(text: str) -> int:
    """Terminal cells of a text: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def line_cells(spans: Spans) -> int:
    """Terminal cells of a line of spans."""
    return sum(cells(s.text) for s in spans)


def wrap(spans: Spans, width: int | None, indent: str = "") -> Iterator[Spans]:
    """Words broken at blanks (never at a no-break space), each line indented."""
    if width is None:
        yield (Span(indent), *spans) if indent else spans
        return
    line: list[Span] = [Span(indent)] if indent else []
    used = len(indent)
    fresh = True
    for span in spans:
        for i, word in enumerate(span.text.split(" ")):
            gap = 1 if i else 0
            if not fresh and used + gap + cells(word) > width:
                yield tuple(line)
                line, used, gap = ([Span(indent)] if indent else []), len(indent), 0
            word = " " * gap + word  # noqa: PLW2901 - the word with the blank before it
            if line and line[-1].style == span.style:
                line[-1] = Span(line[-1].text + word, span.style)
            else:
                line.append(Span(word, span.style))
            used += cells(word)
            fresh = False
    if line:
        yield tuple(line)


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
        return f"{_INDENT}{' × '.join((first, *rest))}"

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
            yield (Span(f"{_INDENT}{block.labels[i]}"),)
        wide = max(map(cells, numbers)) + 2
        for j, (number, name) in enumerate(zip(numbers, block.names, strict=True)):
            factor = number if j == 0 else f"× {number}"
            yield (Span(f"{_INDENT}{factor.ljust(wide)}  "), Span(name, "dim"))
        yield (Span(f"{_INDENT}= {result}"),)


def _table(block: Table, width: int | None) -> Iterator[Spans]:
    shown = [i for i, c in enumerate(block.columns) if width is not None or not c.screen]
    keep = [i for i in shown if not block.columns[i].narrow]
    spare = [i for i in shown if block.columns[i].narrow]
    bars = _bar_width(block, width)
    while True:
        columns = [block.columns[i] for i in keep]
        widths = [_column_width(block, i, bars) for i in keep]
        margin = 4 if any(r.mark for r in block.rows) else 2
        total = margin + sum(widths) + len(_GAP) * (len(keep) - 1)
        droppable = [k for k, c in enumerate(columns) if c.drop]
        if width is None or total <= width or not droppable:
            break
        del keep[max(droppable, key=lambda k: (columns[k].drop, k))]
        keep, spare = sorted([*keep, *spare]), []
    if block.optional and width is not None and total > width:
        return
    if block.title:
        yield (Span(f"{_INDENT}{block.title}", "dim"),)
    if any(c.head for c in columns):
        heads = (((Span(c.head, "dim"),), c, w) for c, w in zip(columns, widths, strict=True))
        yield _joined(" " * margin, [_aligned(c, head, w) for head, c, w in heads])
    for row in block.rows:
        if row.rule:
            yield _rule(columns, widths, row, keep, margin)
        if columns[-1].wrap and width is not None and total > width:
            yield from _wrapped_row(row, keep, columns, widths, margin, width)
        else:
            yield _row(row, keep, columns, widths, margin, bars)
    for note in block.notes:
        yield from wrap((Span(note, "dim"),), width, _INDENT)


def _bar_width(block: Table, width: int | None) -> int:
    """Cells for the longest bar: what the other columns leave, between 8 and 36."""
    if width is None or not any(isinstance(c, Share) for r in block.rows for c in r.cells):
        return 0
    rest = sum(
        _column_width(block, i, 0) + len(_GAP) for i, c in enumerate(block.columns) if not c.drop
    )
    return max(8, min(36, width - rest - 4))


def _cell_spans(cell: Cell, bars: int) -> Spans:
    if isinstance(cell, Share):
        return (Span(eighth_bar(cell.fraction, bars), cell.style), *spans_of(cell.after))
    return spans_of(cell)


def _column_width(block: Table, i: int, bars: int) -> int:
    texts = (line_cells(_cell_spans(r.cells[i], bars)) for r in block.rows)
    return max(cells(block.columns[i].head), *texts, 0)


def _wrapped_row(
    row: Row, keep: list[int], columns: list[Column], widths: list[int], margin: int, width: int
) -> Iterator[Spans]:
    """A row whose last cell continues below itself."""
    lead = margin + sum(widths[:-1]) + len(_GAP) * (len(keep) - 1)
    text = _cell_spans(row.cells[keep[-1]], 0)
    lines = list(wrap(text, max(width - lead, 20)))
    first = [*row.cells]
    first[keep[-1]] = lines[0] if lines else ""
    yield _row(row._replace(cells=tuple(first)), keep, columns, [*widths[:-1], 0], margin, 0)
    for line in lines[1:]:
        yield (Span(" " * lead), *line)


def _row(
    row: Row, keep: list[int], columns: list[Column], widths: list[int], margin: int, bars: int
) -> Spans:
    parts = []
    for i, column, w in zip(keep, columns, widths, strict=True):
        style = row.style or column.style
        spans = tuple(Span(s.text, s.style or style) for s in _cell_spans(row.cells[i], bars))
        parts.append(_aligned(column, spans, w))
    if margin == 2:
        return _joined(_INDENT, parts)
    marks = {"✗": "no", "✓": "yes", "▸": "bold"}
    lead = (Span(_INDENT), Span((row.mark or " ").ljust(2), marks.get(row.mark, "")))
    return (*lead, *_joined("", parts))


def _rule(
    columns: list[Column], widths: list[int], row: Row, keep: list[int], margin: int
) -> Spans:
    """A rule above the sum: under the numbers of right-aligned columns that have one."""
    parts: list[Spans] = []
    for i, column, w in zip(keep, columns, widths, strict=True):
        text = text_of(row.cells[i]).strip()
        full = column.align == ">" and text and "–" not in text
        parts.append((Span("─" * w if full else " " * w),))
    return _joined(" " * margin, parts)


def _aligned(column: Column, spans: Spans, width: int) -> Spans:
    blank = Span(" " * (width - line_cells(spans)))
    return (blank, *spans) if column.align == ">" else (*spans, blank)


def _joined(lead: str, parts: list[Spans]) -> Spans:
    out: list[Span] = [Span(lead)] if lead else []
    for i, part in enumerate(parts):
        if i:
            out.append(Span(_GAP))
        out.extend(part)
    return tuple(out)


def eighth_bar(share: float, width: int) -> str:
    """A bar of `share` of `width` cells, to an eighth of a cell; something is always visible."""
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(min(eighths, width * 8), 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def _bar(block: Bar, width: int) -> Iterator[Spans]:
    parts = [p for p in block.parts if p.bytes > 0]
    total = sum(p.bytes for p in parts)
    if not total:
        return
    spans, used, seen = [Span(_INDENT)], 0, 0
    for part in parts:
        seen += part.bytes
        end = max(round(seen * width / total), used + 1)
        spans.append(Span(part.glyph * (end - used), part.style))
        used = end
    yield tuple(spans)
    if block.legend:
        yield from wrap(spans_of(block.legend), width + 4, _INDENT)


def _code(block: Code) -> Iterator[Spans]:
    if block.title:
        yield (Span(f"{_INDENT}{block.title}", "dim"),)
    for line in block.lines:
        yield (Span(f"{_INDENT}{line}", "arg"),)


def as_text(lines: list[Spans]) -> str:
    """Lines without styles, no blanks at their ends."""
    return "".join("".join(s.text for s in line).rstrip() + "\n" for line in lines)


def line(*parts: Line) -> Line:
    """Several pieces as one line."""
    return tuple(span for part in parts for span in spans_of(part))
