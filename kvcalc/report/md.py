"""Markdown: bold verdict, pipe tables, code blocks; pastes into an issue or a wiki."""

from __future__ import annotations

import re

from kvcalc.core.results.base import Result
from kvcalc.core.units import printable
from kvcalc.report.document import (
    Bar,
    Block,
    Cell,
    Chart,
    Formula,
    Paragraph,
    Share,
    Table,
    Verdict,
    is_heading,
    spans_of,
    text_of,
)
from kvcalc.report.views import view


def render(result: Result) -> str:
    """The result as Markdown; the verdict stands first and, since pages scroll, last."""
    document = view(result)
    blocks = [_block(block) for block in document.blocks]
    verdicts = [b for b, block in zip(blocks, document.blocks, strict=True)
                if isinstance(block, Verdict)]  # fmt: skip
    parts = [b for b in blocks if b]
    if len(parts) > 4 and verdicts:
        parts.append(verdicts[0])
    return "\n\n".join(parts).replace("\u00a0", " ") + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Verdict):
        if block.fits is None:
            return f"**{_escape(block.answer)}**"
        return f"**{'✓' if block.fits else '✗'} {_escape(f'{block.plan}: {block.answer}')}**"
    if isinstance(block, Paragraph):
        text = _escape(text_of(block.text))
        return f"## {text}" if is_heading(block) else text
    if isinstance(block, Formula):
        return _formula(block)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, (Bar, Chart)):
        return ""
    title = f"{_escape(block.title)}\n\n" if block.title else ""
    return title + "```\n" + "\n".join(block.lines) + "\n```"


def _formula(block: Formula) -> str:
    rows = []
    for i, (numbers, result) in enumerate(block.rows):
        label = f"{block.labels[i]}: " if block.labels else ""
        rows.append(f"{label}{' × '.join(numbers)} = {result}")
    return "```\n" + " × ".join(block.names) + "\n" + "\n".join(rows) + "\n```"


def _table(block: Table) -> str:
    keep = [i for i, c in enumerate(block.columns) if not c.screen]
    if not keep:
        return ""
    marked = any(row.mark for row in block.rows)
    head = [_escape(block.columns[i].head) for i in keep]
    rule = ["---:" if block.columns[i].align == ">" else "---" for i in keep]
    lines = [f"{_escape(block.title)}\n"] if block.title else []
    lines += [_pipe(["", *head] if marked else head), _pipe(["---", *rule] if marked else rule)]
    for row in block.rows:
        cells = [_cell(row.cells[i]) for i in keep]
        lines.append(_pipe([row.mark, *cells] if marked else cells))
    text = "\n".join(lines)
    return text + "".join(f"\n\n{_escape(note)}" for note in block.notes)


def _pipe(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(line: Cell) -> str:
    """A cell's words; what one types stands in code, as it is typed."""
    spans = spans_of(line.after) if isinstance(line, Share) else spans_of(line)
    if len(spans) == 1 and spans[0].style == "arg" and not set("`|\\") & set(spans[0].text):
        return f"`{printable(spans[0].text)}`"
    return _escape(text_of(line).strip())


def _escape(text: str) -> str:
    """Characters that Markdown or HTML would read as markup, made plain."""
    text = printable(text)
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text).replace("\n", " ")
