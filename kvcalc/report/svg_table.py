"""The words of a document in a picture: its verdict, its sentences, its tables."""

from __future__ import annotations

from kvcalc.report.document import Paragraph, Row, Share, Table, Verdict, spans_of, text_of
from kvcalc.report.svg_draw import Canvas, text_width, wrapped

_LINE = 22.0
_GAP = 22.0


def verdict(canvas: Canvas, block: Verdict) -> None:
    """The heading: the plan above it, ✓ or ✗ before it, wrapped."""
    left = 0.0
    if block.plan is not None:
        for line in wrapped(block.plan, canvas.width):
            canvas.height += 18
            canvas.text(0, canvas.height, line, class_="mut")
    if block.fits is not None:
        left = 22.0
        mark, style = ("✓", "yes") if block.fits else ("✗", "no")
        canvas.text(0, canvas.height + 25, mark, class_=f"title {style}")
    for line in wrapped(block.answer, canvas.width - left, 17, bold=True):
        canvas.height += 25
        canvas.text(left, canvas.height, line, class_="title")


def paragraph(canvas: Canvas, block: Paragraph) -> None:
    """A sentence, wrapped."""
    for line in wrapped(text_of(block.text), canvas.width):
        canvas.height += 20
        canvas.text(0, canvas.height, line, class_="mut")


def table(canvas: Canvas, block: Table) -> None:
    """A table without frames, as wide as its words; columns of bars are left out."""
    keep = [i for i, c in enumerate(block.columns) if not c.screen and not c.narrow]
    if not keep:
        return
    marked = any(row.mark for row in block.rows)
    widths = [
        max(
            text_width(block.columns[i].head),
            *(_width(row, text_of(row.cells[i]).strip()) for row in block.rows),
            0,
        )
        for i in keep
    ]
    while sum(widths) + _GAP * len(keep) > canvas.width:
        last = max(range(len(keep)), key=lambda k: block.columns[keep[k]].drop)
        if not block.columns[keep[last]].drop:
            break
        del keep[last], widths[last]
    left = 22.0 if marked else 0.0
    if block.title:
        canvas.height += _LINE
        canvas.text(0, canvas.height, block.title, class_="b")
    if any(block.columns[i].head for i in keep):
        canvas.height += _LINE
        _cells(canvas, block, [block.columns[i].head for i in keep], keep, widths, left, "mut")
        canvas.line(0, canvas.height + 7, left + sum(widths) + _GAP * (len(keep) - 1),
                    canvas.height + 7, "s-line")  # fmt: skip
        canvas.height += 3
    for row in block.rows:
        _row(canvas, block, row, keep, widths, left)
    for note in block.notes:
        paragraph(canvas, Paragraph(note))


def _width(row: Row, text: str) -> float:
    return text_width(text, bold=row.style == "bold")


def _row(
    canvas: Canvas, block: Table, row: Row, keep: list[int], widths: list[float], left: float
) -> None:
    if row.rule:
        wide = left + sum(widths) + _GAP * (len(keep) - 1)
        canvas.line(0, canvas.height + 7, wide, canvas.height + 7, "s-fg", width=1.2)
        canvas.height += 3
    canvas.height += _LINE
    if row.mark:
        style = {"✓": "yes", "✗": "no"}.get(row.mark, "b")
        canvas.text(0, canvas.height, row.mark, class_=style)
    texts = [text_of(row.cells[i]).strip() for i in keep]
    style = {"bold": "b", "dim": "mut"}.get(row.style, "")
    _cells(canvas, block, texts, keep, widths, left, style, row)


def _cells(
    canvas: Canvas, block: Table, texts: list[str], keep: list[int], widths: list[float],
    left: float, style: str, row: Row | None = None,
) -> None:  # fmt: skip
    x = left
    for text, i, width in zip(texts, keep, widths, strict=True):
        own = style
        if row is not None and not isinstance(cell := row.cells[i], Share):
            first = next((s.style for s in spans_of(cell) if s.style), "")
            own = first if first in {"no", "yes", "kv"} else style
            own = "mono kv" if first == "arg" else own
        if text and block.columns[i].align == ">":
            canvas.text(x + width, canvas.height, text, class_=own, anchor="end")
        elif text:
            canvas.text(x, canvas.height, text, class_=own)
        x += width + _GAP
