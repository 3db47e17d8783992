"""`kvcalc report` as a document: for Markdown and the terminal; its page is `html_report`."""

from __future__ import annotations

from kvcalc.core.results.report import ReportResult
from kvcalc.core.results.rows import Rows
from kvcalc.core.units import GIB, fixed
from kvcalc.report.document import (
    Block,
    Code,
    Column,
    Document,
    Line,
    Paragraph,
    Row,
    Span,
    Table,
    Verdict,
    text_of,
)
from kvcalc.report.views import compare, fit, fit_list, simulate, size, timeline, waste


def view(r: ReportResult) -> Document:
    """The verdict, then each answer under its own heading, then what it rests on."""
    parts = r.parts
    blocks: list[Block] = []
    if parts.fit is not None:
        blocks += _without_code(fit.view(parts.fit).blocks)
    else:
        blocks += size.view(parts.size).blocks[:1]
    if len(r.plans) > 1:
        blocks += [_heading("How many requests fit, by plan"), _plans(r)]
    blocks += [_heading("What one token costs"), *_after_verdict(size.view(parts.size))]
    blocks += [_heading("Step by step"), *_all_of(timeline.view(parts.timeline))]
    if parts.waste is not None:
        blocks += [_heading("Why pages"), *_all_of(waste.view(parts.waste))]
    blocks += _trace(r)
    blocks += [_heading("What would save memory"), *_all_of(compare.view(parts.compare))]
    if parts.machines is not None:
        listed = fit_list.list_view(parts.machines)
        blocks += [_heading("Machines that would do"), *_all_of(listed)]
    start = r.plans[0].texts[r.plans[0].steps[r.contexts.index(r.context_tokens)].text_of[0]]
    if start.command:
        lines = (start.command, *start.startup_lines)
        blocks += [Code(lines, "start it so, and the engine should log about this", pasted=1)]
    blocks += [_heading("What this rests on"), *_basis(r), Code((r.line,), "made by")]
    return Document(f"plan for {r.model.name}", tuple(blocks))


def _heading(text: str) -> Paragraph:
    return Paragraph((Span(text, "bold"),), indent=0)


def _without_code(blocks: tuple[Block, ...]) -> list[Block]:
    """The command comes at the end, once."""
    return [block for block in blocks if not isinstance(block, Code)]


def _after_verdict(document: Document) -> list[Block]:
    return [block for block in document.blocks if not isinstance(block, Verdict)]


def _all_of(document: Document) -> list[Block]:
    """The blocks, with the verdict as a sentence: a report has one verdict."""
    blocks: list[Block] = []
    for block in document.blocks:
        if isinstance(block, Verdict):
            plan = f"{block.plan}: " if block.plan else ""
            blocks.append(Paragraph(f"{plan}{block.answer}"))
        elif not isinstance(block, Code) and not _is_weights(block):
            blocks.append(block)
    return blocks


def _is_weights(block: Block) -> bool:
    """The line of the weights, which stands once, with what a token costs."""
    return isinstance(block, Paragraph) and text_of(block.text).startswith("weights  ")


def _trace(r: ReportResult) -> list[Block]:
    """The first plan's simulation, and how the others did in one line each."""
    if not r.simulations:
        return []
    blocks: list[Block] = [_heading("A stream of requests")]
    for i, (s, found) in enumerate(zip(r.simulations, r.parts.simulated, strict=True)):
        name = f"{s.machine}, {s.kv_dtype}"
        if found is None:
            blocks.append(Paragraph(f"{name}: not simulated: {s.reason}."))
            continue
        document = simulate.rows_view(found) if isinstance(found, Rows) else simulate.view(found)
        if i == 0:
            blocks += _all_of(document)
        else:
            first = document.blocks[0]
            assert isinstance(first, Verdict)  # noqa: S101 - a view opens with its sentence
            blocks.append(Paragraph(f"{name}: {first.answer}"))
    return blocks


def _plans(r: ReportResult) -> Table:
    """A row a plan, a column a context; the asked one is marked."""
    columns = [Column("plan", "<")]
    for i, tokens in enumerate(r.contexts):
        asked = tokens == r.context_tokens
        columns.append(Column(f"{'▸ ' if asked else ''}{tokens:,}", drop=0 if asked else i + 1))
    rows = []
    for p in r.plans:
        most = (step.max_requests for step in p.steps)
        cells: list[Line] = [f"{n:,}" if n else (Span("✗", "no"),) for n in most]
        rows.append(Row((f"{p.machine}, {p.kv_dtype}", *cells)))
    return Table(tuple(columns), tuple(rows), notes=("requests that fit, by their context",))


def _basis(r: ReportResult) -> list[Block]:
    texts = ["KV bytes per token follow from the model's shapes: exact"]
    plan = r.plans[0]
    memory = plan.budgets[0][0] if plan.budgets else None
    if memory is not None and memory.item == "memory":
        seen = fixed(memory.bytes, GIB)
        texts.append(f"{seen} GiB is what programs see on this GPU: {memory.basis}")
    if r.assumptions:
        assumed = "; ".join(f"{a.option} {a.value}" for a in r.assumptions)
        texts.append(f"assumed, not given: {assumed}")
    texts += [f"left out: {x.machine}, {x.kv_dtype}: {x.reason}" for x in r.left_out]
    texts += [w.message for w in r.warnings]
    return [Paragraph(f"{text}.") for text in texts]
