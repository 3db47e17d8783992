"""A table in the cells of a terminal: as it is, with fewer columns, wrapped, or upright.

Where the whole table is wider than the screen, columns are left out in the order that their views
name. On a narrow screen what is still too wide wraps its words (never a number), then stands
upright: a row becomes its name with `head: value` below it, every column among them. Where columns
are peers, as many as fit stand beside each other and the rest below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvcalc.report.document import Cell, Column, Row, Share, Span, Table, spans_of, text_of
from kvcalc.report.lines import (
    GAP,
    INDENT,
    NARROW,
    Spans,
    cells,
    eighth_bar,
    line_cells,
    wrap,
)

#: Lines of a cell that wraps; a table that needs more stands upright.
_MOST_LINES = 3
#: A column of words is never narrower than this, unless its words are.
_LEAST = 8
#: The longest bar of a column of bars: at least, and at most.
_BARS = (8, 36)
_MARKS = {"✗": "no", "✓": "yes", "▸": "bold"}


class _Plan(NamedTuple):
    """Which columns are shown, how wide each is, cells before the first, and those of a bar."""

    keep: list[int]
    widths: list[int]
    margin: int
    bars: int

    @property
    def total(self) -> int:
        """Cells of a row."""
        return self.margin + sum(self.widths) + len(GAP) * (len(self.keep) - 1)


def table_lines(block: Table, width: int | None) -> Iterator[Spans]:
    """The table for a screen of `width` cells; None is unbounded, without bars."""
    if all(c.narrow for c in block.columns):
        if width is None or width >= NARROW:
            return
        block = block._replace(columns=tuple(c._replace(narrow=False) for c in block.columns))
    margin = 4 if any(r.mark for r in block.rows) else 2
    plans = list(_plans(block, width, margin))
    fitting = (p for p in plans if width is None or p.total <= width)
    plan = next(fitting, None)
    if plan is not None or width is None:
        yield from _drawn(block, plan or plans[0], width)
        return
    if block.optional:
        return
    last = plans[-1]
    if block.columns[last.keep[-1]].wrap and width >= NARROW:
        yield from _drawn(block, last, width)
        return
    if block.peers and len(block.columns) > 2:
        yield from _in_parts(block, width)
        return
    for most in range(2, _MOST_LINES + 1):
        for plan in plans:
            shrunk = _shrunk(block, plan, width, most)
            if shrunk is not None:
                yield from _drawn(block, shrunk, width)
                return
    yield from _upright(block, width, margin)


def _plans(block: Table, width: int | None, margin: int) -> Iterator[_Plan]:
    """All columns, then fewer and fewer."""
    shown = [i for i, c in enumerate(block.columns) if width is not None or not c.screen]
    keep = [i for i in shown if not block.columns[i].narrow]
    while True:
        yield _plan(block, keep, margin, width)
        droppable = [i for i in keep if block.columns[i].drop]
        if width is None or not droppable:
            return
        gone = max(droppable, key=lambda i: (block.columns[i].drop, i))
        short = [gone + 1] if gone + 1 in shown and block.columns[gone + 1].narrow else []
        keep = sorted([*(i for i in keep if i != gone), *short])


def _plan(block: Table, keep: list[int], margin: int, width: int | None) -> _Plan:
    """These columns; the longest bar has what the others leave, between 8 and 36 cells."""
    barred = [any(isinstance(r.cells[i], Share) for r in block.rows) for i in keep]
    least, most = _BARS if any(barred) and width is not None else (0, 0)
    for bars in range(most, least - 1, -1):
        plan = _Plan(keep, [_column_width(block, i, bars) for i in keep], margin, bars)
        if width is None or plan.total <= width:
            break
    return plan


def _cell_spans(cell: Cell, bars: int) -> Spans:
    if not isinstance(cell, Share):
        return spans_of(cell)
    whole = max(round(cell.fraction * bars), 1)
    beyond = round((cell.fraction + cell.beyond) * bars) - whole if cell.beyond else 0
    if beyond > 0:
        bar = [Span("█" * whole, cell.style), Span("░" * beyond, "waste")]
    else:
        bar = [Span(eighth_bar(cell.fraction, bars), cell.style)]
    return (*bar, *spans_of(cell.after))


def _column_width(block: Table, i: int, bars: int) -> int:
    texts = (line_cells(_cell_spans(r.cells[i], bars)) for r in block.rows)
    return max(cells(block.columns[i].head), *texts, 0)


def _shrunk(block: Table, plan: _Plan, width: int, most: int) -> _Plan | None:
    """The plan with its columns of words made narrower until it fits; None if that is too much."""
    least = [
        _longest_word(block, i) if _is_words(block, i) else w
        for i, w in zip(plan.keep, plan.widths, strict=True)
    ]
    widths = list(plan.widths)
    for _ in range(plan.total - width):
        k = max(range(len(widths)), key=lambda k: widths[k] - least[k])
        if widths[k] <= least[k]:
            return None
        widths[k] -= 1
    made = plan._replace(widths=widths)
    lines = (
        len(_wrapped(spans_of(cell), w))
        for row in block.rows
        for i, w in zip(plan.keep, widths, strict=True)
        if not isinstance(cell := row.cells[i], Share)
    )
    return made if max(lines, default=1) <= most else None


def _is_words(block: Table, i: int) -> bool:
    """Whether a column holds words, which may wrap, and not numbers or bars."""
    return block.columns[i].align != ">" and not any(
        isinstance(row.cells[i], Share) or "█" in text_of(row.cells[i]) for row in block.rows
    )


def _longest_word(block: Table, i: int) -> int:
    """Cells of the longest word: continued lines are indented by two."""
    texts = [block.columns[i].head, *(text_of(row.cells[i]) for row in block.rows)]
    words = (word for text in texts for word in text.split(" "))
    return max(max(map(cells, words), default=0) + len(INDENT), _LEAST)


def _wrapped(spans: Spans, width: int) -> list[Spans]:
    if line_cells(spans) <= width:
        return [spans]
    return list(wrap(spans, width, hang=INDENT))


def _drawn(block: Table, plan: _Plan, width: int | None) -> Iterator[Spans]:
    """Title, heads, rows and notes."""
    yield from _title(block, width)
    columns = [block.columns[i] for i in plan.keep]
    wide = width is not None and plan.total > width
    if any(c.head for c in columns):
        heads = Row(tuple((Span(c.head, "dim"),) for c in block.columns))
        yield from _row_lines(heads, block, plan)
    for row in block.rows:
        if row.rule:
            yield _rule(row, block, plan)
        if wide and width is not None:
            yield from _last_wrapped(row, block, plan, width)
        else:
            yield from _row_lines(row, block, plan)
    yield from _notes(block, width)


def _title(block: Table, width: int | None) -> Iterator[Spans]:
    if block.title:
        yield from wrap((Span(block.title, "dim"),), width, INDENT)


def _notes(block: Table, width: int | None) -> Iterator[Spans]:
    for note in block.notes:
        yield from wrap((Span(note, "dim"),), width, INDENT)


def _row_lines(row: Row, block: Table, plan: _Plan) -> Iterator[Spans]:
    """A row; cells wider than their column go on below."""
    parts = []
    for i, w in zip(plan.keep, plan.widths, strict=True):
        column = block.columns[i]
        style = row.style or column.style
        spans = tuple(Span(s.text, s.style or style) for s in _cell_spans(row.cells[i], plan.bars))
        parts.append([_aligned(column, one, w) for one in _wrapped(spans, w)])
    for n in range(max(map(len, parts))):
        yield _joined(
            _lead(row.mark if n == 0 else "", plan.margin),
            [
                part[n] if n < len(part) else (Span(" " * w),)
                for part, w in zip(parts, plan.widths, strict=True)
            ],
        )


def _last_wrapped(row: Row, block: Table, plan: _Plan, width: int) -> Iterator[Spans]:
    """A row whose last cell continues below itself."""
    lead = plan.total - plan.widths[-1]
    text = _cell_spans(row.cells[plan.keep[-1]], 0)
    lines = list(wrap(text, max(width - lead, 20)))
    first = [*row.cells]
    first[plan.keep[-1]] = lines[0] if lines else ""
    narrow = plan._replace(widths=[*plan.widths[:-1], line_cells(lines[0]) if lines else 0])
    yield from _row_lines(row._replace(cells=tuple(first)), block, narrow)
    for line in lines[1:]:
        yield (Span(" " * lead), *line)


def _lead(mark: str, margin: int) -> Spans:
    if margin == len(INDENT):
        return (Span(INDENT),)
    return (Span(INDENT), Span((mark or " ").ljust(2), _MARKS.get(mark, "")))


def _rule(row: Row, block: Table, plan: _Plan) -> Spans:
    """A rule above the sum: under the numbers of right-aligned columns that have one."""
    parts: list[Spans] = []
    for i, w in zip(plan.keep, plan.widths, strict=True):
        text = text_of(row.cells[i]).strip()
        full = block.columns[i].align == ">" and text and "–" not in text
        parts.append((Span("─" * w if full else " " * w),))
    return _joined((Span(" " * plan.margin),), parts)


def _aligned(column: Column, spans: Spans, width: int) -> Spans:
    blank = Span(" " * (width - line_cells(spans)))
    return (blank, *spans) if column.align == ">" else (*spans, blank)


def _joined(lead: Spans, parts: list[Spans]) -> Spans:
    out: list[Span] = list(lead)
    for i, part in enumerate(parts):
        if i:
            out.append(Span(GAP))
        out.extend(part)
    return tuple(out)


def _in_parts(block: Table, width: int) -> Iterator[Spans]:
    """Columns that are peers, as many beside each other as fit, the first one before each part."""
    margin = 4 if any(r.mark for r in block.rows) else 2
    rest = list(range(1, len(block.columns)))
    while rest:
        for count in range(len(rest), 0, -1):
            part = [0, *rest[:count]]
            plan = _plan(block, part, margin, width)
            fits = plan if plan.total <= width else _shrunk(block, plan, width, 2)
            if fits is not None or count == 1:
                break
        last = count == len(rest)
        one = block._replace(notes=block.notes if last else ())
        yield from _drawn(one, fits or plan, width)
        rest = rest[count:]
        if rest:
            yield ()


def _upright(block: Table, width: int, margin: int) -> Iterator[Spans]:
    """A row as its name, and below it every other column as `head: value`; bars have no value."""
    kept = [i for i, c in enumerate(block.columns) if not (c.narrow or c.screen)]
    if not kept:
        return
    yield from _title(block, width)
    first, *others = kept
    yield from wrap((Span(block.columns[first].head, "dim"),), width, INDENT)
    for row in block.rows:
        style = row.style or "bold"
        name = tuple(Span(s.text, s.style or style) for s in _cell_spans(row.cells[first], 0))
        lead = _lead(row.mark, margin)
        lines = list(wrap(name, width - margin, hang=INDENT))
        yield from ((*lead, *line) if n == 0 else (Span(" " * margin), *line)
                    for n, line in enumerate(lines))  # fmt: skip
        indent = " " * (margin + 2)
        heads = [block.columns[i].head if len(others) > 1 else "" for i in others]
        items = [
            _item(head, row.cells[i], width - len(indent))
            for i, head in zip(others, heads, strict=True)
            if text_of(row.cells[i]).strip()
        ]
        pairs: list[Span] = []
        for item in items:
            pairs += [*([Span(GAP)] if pairs else []), *item]
        if pairs:
            yield from wrap(tuple(pairs), width, indent)
    yield from _notes(block, width)


def _item(head: str, cell: Cell, room: int) -> list[Span]:
    """`head: value`, in one piece where it fits a line."""
    spans = [*([Span(f"{head}: ", "dim")] if head else []), *_cell_spans(cell, 0)]
    if line_cells(tuple(spans)) > room:
        return spans
    return [Span(s.text.replace(" ", "\u00a0"), s.style) for s in spans]
