"""A document's blocks as HTML: headings, sentences, formulas, tables that sort and copy, bars."""

from __future__ import annotations

from kvcalc.report.document import (
    Bar,
    Block,
    Cell,
    Chart,
    Code,
    Formula,
    Line,
    Paragraph,
    Row,
    Share,
    Table,
    Verdict,
    is_heading,
    spans_of,
    text_of,
)
from kvcalc.report.svg_area import draw
from kvcalc.report.svg_draw import Canvas, escape

_MARKS = {"✓": ("yes", "fits: "), "✗": ("no", "does not fit: "), "▸": ("bold", "asked: ")}


class Blocks:
    """Turns blocks to HTML and numbers what a button refers to."""

    def __init__(self) -> None:
        self._count = 0

    def render(self, block: Block) -> str:
        """One block; nothing for an empty one."""
        if isinstance(block, Verdict):
            return _verdict(block)
        if isinstance(block, Paragraph):
            return _paragraph(block)
        if isinstance(block, Formula):
            return _formula(block)
        if isinstance(block, Table):
            return self._table(block)
        if isinstance(block, Bar):
            return _bar(block)
        if isinstance(block, Chart):
            return self._chart(block)
        return self._code(block)

    def _id(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def _code(self, block: Code) -> str:
        name = self._id()
        title = f"<span>{escape(block.title)}</span>" if block.title else "<span></span>"
        text = escape("\n".join(block.lines))
        drawn = any("  " in line for line in block.lines)
        style = ' class="picture-text"' if drawn else ""
        return (
            f'<div><div class="tools">{title}{copy_button(name)}</div>'
            f'<pre id="{name}"{style}>{text}</pre></div>'
        )

    def _chart(self, block: Chart) -> str:
        canvas = Canvas(712, self._id())
        draw(canvas, block)
        label = f"{block.unit_name} over {block.x_name}"
        return f'<div class="tw">{canvas.embedded(label)}</div>'

    def _table(self, block: Table) -> str:
        keep = [i for i, c in enumerate(block.columns) if not c.narrow and not _is_glyphs(block, i)]
        if not keep:
            return ""
        marked = any(row.mark for row in block.rows)
        name = self._id()
        sorts = len(block.rows) > 2
        heads = ['<th class="l"></th>'] if marked else []
        for i in keep:
            words = escape(block.columns[i].head)
            if sorts and words:
                words = f'<button type="button" class="sort">{words}</button>'
            left = "" if block.columns[i].align == ">" else ' class="l"'
            heads.append(f'<th scope="col"{left}>{words}</th>')
        body = "".join(_row(block, row, keep, marked=marked) for row in block.rows)
        caption = f"<caption>{escape(block.title)}</caption>" if block.title else ""
        empty = not any(block.columns[i].head for i in keep)
        head = "" if empty else f"<thead><tr>{''.join(heads)}</tr></thead>"
        tools = "" if empty else f'<div class="tools"><span></span>{copy_button(name)}</div>'
        notes = "".join(f'<p class="note">{escape(note)}</p>' for note in block.notes)
        return (
            f'<div class="block">{tools}<div class="tw"><table id="{name}">{caption}{head}'
            f"<tbody>{body}</tbody></table></div>{notes}</div>"
        )


def copy_button(name: str) -> str:
    """The button that copies the element of that id."""
    return f'<button type="button" data-copies="{name}">copy</button>'


def line_html(line: Line) -> str:
    """Spans with their styles."""
    out = []
    for text, style in spans_of(line):
        words = escape(text)
        if style == "arg":
            words = f"<code>{words}</code>"
        elif style:
            words = f'<span class="t-{style}">{words}</span>'
        out.append(words)
    return "".join(out)


def _verdict(block: Verdict) -> str:
    if block.fits is None:
        return f"<h1><bdi>{escape(block.answer)}</bdi></h1>"
    style, mark = ("yes", "✓") if block.fits else ("no", "✗")
    said = "yes: " if block.fits else "no: "
    return (
        f'<p class="plan"><bdi>{escape(block.plan or "")}</bdi></p>'
        f'<h1 aria-label="{said}{escape(block.answer)}"><span class="{style}" aria-hidden="true">'
        f"{mark}</span> {escape(block.answer)}</h1>"
    )


def _paragraph(block: Paragraph) -> str:
    if is_heading(block):
        return f'<h2 class="strong">{escape(text_of(block.text))}</h2>'
    style = ' class="sub"' if block.indent < 0 else ""
    return f"<p{style}>{line_html(block.text)}</p>"


def _formula(block: Formula) -> str:
    """Names over their numbers, as one reads a product."""
    labelled = bool(block.labels)
    heads = ['<th class="l"></th>'] if labelled else []
    for i, name in enumerate(block.names):
        heads += (["<th></th>"] if i else []) + [f'<th scope="col">{escape(name)}</th>']
    rows = []
    for r, (numbers, result) in enumerate(block.rows):
        cells = [f'<td class="l">{escape(block.labels[r])}</td>'] if labelled else []
        for i, number in enumerate(numbers):
            cells += (["<td>×</td>"] if i else []) + [f"<td>{escape(number)}</td>"]
        cells.append(f'<td>=</td><td class="l">{escape(result)}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="tw"><table class="formula"><thead><tr>{"".join(heads)}<th></th><th></th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(block: Table, row: Row, keep: list[int], *, marked: bool) -> str:
    cells = []
    if marked:
        style, said = _MARKS.get(row.mark, ("", ""))
        named = f' aria-label="{said}"' if row.mark else ""
        cells.append(f'<td class="l"><span class="t-{style}"{named}>{escape(row.mark)}</span></td>')
    for i in keep:
        words = text_of(row.cells[i]).strip()
        kind = "l" if block.columns[i].align != ">" else ""
        kind += " wrap" if kind and len(words) > 40 else ""
        cells.append(f'<td class="{kind}">{_cell(row.cells[i])}</td>' if kind else
                     f"<td>{_cell(row.cells[i])}</td>")  # fmt: skip
    style = " ".join(s for s in ("sum" if row.rule else "", row.style) if s)
    return f'<tr class="{style}">{"".join(cells)}</tr>' if style else f"<tr>{''.join(cells)}</tr>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Share):
        width = f"{100 * cell.fraction:.2f}%"
        bar = (
            '<svg width="160" height="14" aria-hidden="true"><rect class="track" width="100%" '
            f'height="14"/><rect class="kv" width="{width}" height="14"/></svg>'
        )
        return f'<span class="bar-row">{bar}<span>{line_html(cell.after)}</span></span>'
    inset = len(text_of(cell)) - len(text_of(cell).lstrip(" "))
    return "\u00a0" * inset + line_html(cell)


def _is_glyphs(block: Table, i: int) -> bool:
    """Whether a column is a terminal's bar of glyphs, or one of two parts, which is a picture's."""
    cells = [row.cells[i] for row in block.rows]
    shares = [cell for cell in cells if isinstance(cell, Share)]
    return block.columns[i].screen and not (shares and not any(c.beyond for c in shares))


def _bar(block: Bar) -> str:
    """A bar of the page's own width, and its legend."""
    parts = [p for p in block.parts if p.bytes > 0]
    total = sum(p.bytes for p in parts)
    canvas = Canvas(0, "bar")
    seen, drawn, words = 0, [], []
    for part in parts:
        style = {"kv_room": "hatched-room", "dim": "track", "waste": "hatched-waste"}.get(
            part.style, part.style
        )
        x, wide = 100 * seen / total, 100 * part.bytes / total
        fill = f'fill="url(#bar{style})"' if style.startswith("hatched") else f'class="{style}"'
        drawn.append(
            f'<rect {fill} x="{x:.2f}%" width="{wide:.2f}%" height="30" data-bytes="{part.bytes}">'
            f"<title>{escape(part.label)}</title></rect>"
        )
        seen += part.bytes
        words.append(part.label)
    legend = f"<p class='note'>{line_html(block.legend)}</p>" if block.legend else ""
    label = escape(text_of(block.legend)) or escape(", ".join(words))
    return (
        f'<div><svg width="100%" height="30" role="img" aria-label="{label}">{canvas.hatches()}'
        f"{''.join(drawn)}</svg>{legend}</div>"
    )
