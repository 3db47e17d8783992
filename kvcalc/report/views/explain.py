"""`kvcalc explain` as a document: the list of topics, or pages of sections."""

from __future__ import annotations

from kvcalc.core.results.explain import ExplainResult, Grid, Page, Section
from kvcalc.report.document import (
    Block,
    Code,
    Column,
    Document,
    Formula,
    Paragraph,
    Row,
    Span,
    Table,
    Verdict,
)


def view(r: ExplainResult) -> Document:
    """One page, all of them, or the topics."""
    if not r.pages:
        return _topics(r)
    if len(r.pages) == 1:
        (page,) = r.pages
        return Document(page.title, (*_page(page), Paragraph(_more(r)), *_told(r)))
    blocks: list[Block] = [Verdict(f"The KV cache of {r.model.name}, in {len(r.pages)} pages.")]
    for number, page in enumerate(r.pages, 1):
        first, *rest = _page(page)
        assert isinstance(first, Verdict)  # noqa: S101 - a page opens with its sentence
        blocks += [
            _heading(f"{number}. {page.title}"),
            Paragraph((Span(first.answer, "bold"),)),
            *rest,
        ]
    blocks += _told(r)
    return Document(f"{r.model.name}: the KV cache explained", tuple(blocks))


def _told(r: ExplainResult) -> list[Block]:
    return [Paragraph(w.message) for w in r.warnings]


def _topics(r: ExplainResult) -> Document:
    rows = tuple(Row(((Span(t.topic, "arg"),), t.question, t.answer)) for t in r.topics)
    columns = (Column("topic", "<"), Column("question", "<"), Column(r.model.name, "<", drop=1))
    text = f"{len(rows)} pages on the KV cache, with the numbers of {r.model.name}."
    name = r.model.id
    commands = (f"kvcalc explain formula {name}", f"kvcalc explain all {name} -o kv.html")
    ask = Code(commands, "one page, or all of them")
    blocks = (Verdict(text, strong=text), Table(columns, rows), ask)
    return Document("the KV cache explained", blocks)


def _more(r: ExplainResult) -> str:
    names = [t.topic for t in r.topics]
    at = names.index(r.pages[0].topic)
    following = names[at + 1] if at + 1 < len(names) else names[0]
    return f"Next: kvcalc explain {following} {r.model.id}"


def _heading(text: str) -> Paragraph:
    return Paragraph((Span(text, "bold"),), indent=0)


def _page(page: Page) -> list[Block]:
    blocks: list[Block] = [Verdict(page.sentence, strong=page.sentence.split(":")[0].rstrip("."))]
    for section in page.sections:
        blocks += _section(section)
    return blocks


def _section(section: Section) -> list[Block]:
    blocks: list[Block] = [_heading(section.heading)]
    blocks += [Paragraph(text) for text in section.text]
    if section.product is not None:
        rows = tuple((numbers, result) for _, numbers, result in section.product.rows)
        labels = tuple(label for label, _, _ in section.product.rows)
        blocks.append(Formula(section.product.names, rows, labels if any(labels) else ()))
    if section.grid is not None:
        blocks.append(_grid(section.grid))
    if section.drawing:
        blocks.append(Code(section.drawing, pasted=0))
    if section.commands:
        blocks.append(Code(section.commands))
    return blocks


def _grid(grid: Grid) -> Table:
    columns = tuple(
        Column(head, ">" if right else "<", drop=0 if i < 2 else i)
        for i, (head, right) in enumerate(zip(grid.heads, grid.right, strict=True))
    )
    rows = tuple(Row(row) for row in grid.rows)
    return Table(columns, rows, notes=(grid.note,) if grid.note else ())
