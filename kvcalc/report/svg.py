"""The svg format: a picture of an answer, its figures the JSON's own.

A growth curve, a budget, bars of policies and techniques have their own drawings; every other
answer is drawn as a terminal shows it. Equal results give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from kvcalc.core.results.base import Result
from kvcalc.core.results.compare import CompareResult
from kvcalc.core.results.fit import FitResult
from kvcalc.core.results.report import ReportResult
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.core.results.size import SizeResult
from kvcalc.core.results.timeline import Milestone, TimelineResult
from kvcalc.core.results.waste import WasteResult
from kvcalc.core.units import fixed, format_bytes, percent, trimmed, unit_of
from kvcalc.report import svg_area, svg_bars, svg_budget, svg_table, svg_terminal
from kvcalc.report.document import Chart, Document, Paragraph, Table, Verdict
from kvcalc.report.svg_area import Mark, Names, legend
from kvcalc.report.svg_bars import BarRow, Part
from kvcalc.report.svg_draw import Canvas
from kvcalc.report.views import view

WIDTH, _MARGIN = 760.0, 24.0


def render(result: Result) -> str:
    """The result as a picture of its own."""
    document = view(result)
    pieces = charts(result)
    if not pieces:
        return svg_terminal.picture(document)
    canvas = Canvas(WIDTH - 2 * _MARGIN)
    canvas.open("g", transform=f"translate({int(_MARGIN)} {int(_MARGIN)})")
    canvas.height = 4
    _head(canvas, document)
    for piece in pieces:
        canvas.height += 8
        piece(canvas)
    canvas.close("g")
    canvas.width = WIDTH
    canvas.height += 2 * _MARGIN
    return canvas.picture(document.title, _sentence(document))


def charts(result: Result, *, tables: bool = True) -> list[Callable[[Canvas], None]]:
    """What draws a result, in order; nothing where a terminal's picture says it all.

    Without `tables` only what a page with the document's tables lacks.
    """
    if isinstance(result, TimelineResult):
        return [lambda c: _timeline(c, result, tables=tables)]
    if isinstance(result, SizeResult):
        return _size(result, tables=tables)
    if isinstance(result, FitResult):
        ladder = [lambda c: svg_budget.ladder(c, result)] if tables else []
        return [lambda c: svg_budget.budget(c, result), *ladder]
    if isinstance(result, WasteResult) and result.policies:
        return [lambda c: _waste(c, result)]
    if isinstance(result, CompareResult):
        return [lambda c: _compare(c, result)]
    if isinstance(result, (SimulateResult, Rows)):
        return _simulated(result)
    return _report(result) if isinstance(result, ReportResult) else []


def _simulated(r: SimulateResult | Rows) -> list[Callable[[Canvas], None]]:
    """Policies and series of a simulation; other commands' rows are drawn as tables."""
    from kvcalc.report import svg_simulate  # noqa: PLC0415 - simulations alone

    if isinstance(r, SimulateResult):
        return svg_simulate.pieces(r)
    return svg_simulate.rows_pieces(r) if r.name == "simulate" else []


def _report(r: ReportResult) -> list[Callable[[Canvas], None]]:
    """The pictures of a report's answers, one below the other, their tables left out."""
    traced = r.parts.simulated[:1]
    answers = (r.parts.fit or r.parts.size, r.parts.timeline, r.parts.waste, *traced,
               r.parts.compare)  # fmt: skip
    return [piece for a in answers if a is not None for piece in charts(a, tables=a is answers[0])]


def _head(canvas: Canvas, document: Document) -> None:
    verdict = next((b for b in document.blocks if isinstance(b, Verdict)), None)
    if verdict is not None:
        svg_table.verdict(canvas, verdict)
    for block in document.blocks[1:2]:
        if isinstance(block, Paragraph):
            svg_table.paragraph(canvas, block)


def _sentence(document: Document) -> str:
    first = document.blocks[0]
    return first.answer if isinstance(first, Verdict) else ""


def _timeline(canvas: Canvas, r: TimelineResult, *, tables: bool) -> None:
    """The curve with its milestones, and the milestones as a table."""
    from dataclasses import replace  # noqa: PLC0415 - the result class loaded it

    blocks = view(replace(r, chart=True)).blocks
    chart = next((b for b in blocks if isinstance(b, Chart)), None)
    if chart is not None:
        per_gpu = r.gpu is not None and r.gpu.count > 1
        marks = [_mark(r, m) for m in r.milestones if m.kind != "start"]
        y_name = "on one GPU" if per_gpu else ""
        svg_area.draw(canvas, chart, marks=marks, y_name=y_name, tips=_points(r))
    canvas.height += 4
    for block in blocks:
        if tables and isinstance(block, Table):
            svg_table.table(canvas, block)


def _points(r: TimelineResult) -> list[tuple[int, str]]:
    """What a reader sees who points at a listed step."""
    where = " on all GPUs" if r.gpu is not None and r.gpu.count > 1 else ""
    by_x = {
        (p.tokens if r.curve.unit == "tokens" else p.step):
            f"step {p.step:,}: {p.tokens:,} tokens, {format_bytes(p.kv_bytes)}{where}"
        for p in r.points
    }  # fmt: skip
    return sorted(by_x.items())


def _mark(r: TimelineResult, m: Milestone) -> Mark:
    x = m.tokens if r.curve.unit == "tokens" else m.step
    words = {"decoded": "", "out_of_memory": "", "outgrows_weights": "outgrows the weights"}
    label = words.get(m.kind, m.label if len(r.requests) == 1 else "")
    tip = f"{m.label}: step {m.step:,}, {m.tokens:,} tokens, {format_bytes(m.kv_bytes)}"
    data: dict[str, object] = {
        "data_step": m.step, "data_tokens": m.tokens, "data_kv_bytes": m.kv_bytes,
    }  # fmt: skip
    return Mark(x, label, tip, data)


def _size(r: SizeResult, *, tables: bool) -> list[Callable[[Canvas], None]]:
    pieces: list[Callable[[Canvas], None]] = []
    if r.contexts[-1].tokens > 1:
        pieces.append(lambda c: _growth(c, r))
    if tables and r.attention_variants is not None:
        pieces.append(lambda c: _variants(c, r))
    return pieces


def _growth(canvas: Canvas, r: SizeResult) -> None:
    """Bytes of one request over its tokens; where layers forget, beside one that never does."""
    knots: list[tuple[int, int, int | None]] = [(0, r.state_bytes_per_request, None)]
    knots += [(c.tokens, c.bytes_per_request, None) for c in sorted(r.contexts)]
    if r.curve:
        knots = [(p.tokens, p.bytes, p.unwindowed_bytes) for p in r.curve]
    most = max(max(b, d or 0) for _, b, d in knots)
    name, unit = unit_of(max(most, 1))
    chart = Chart(tuple(knots), "tokens in one request", name, unit, "")
    marks = [
        Mark(c.tokens, format_bytes(c.bytes_per_request),
             f"{c.tokens:,} tokens: {c.bytes_per_request:,} B",
             {"data_tokens": c.tokens, "data_bytes": c.bytes_per_request})
        for c in r.contexts if c.tokens <= knots[-1][0]
    ]  # fmt: skip
    marks += [
        Mark(b.tokens, f"bend at {b.tokens:,}", f"{b.tokens:,} tokens: {b.bytes:,} B",
             {"data_bend_tokens": b.tokens, "data_bytes": b.bytes})
        for b in r.bends if b.tokens < knots[-1][0]
    ]  # fmt: skip
    svg_area.draw(canvas, chart, marks=marks, names=Names("this model", "if all layers were full"))


def _variants(canvas: Canvas, r: SizeResult) -> None:
    v = r.attention_variants
    assert v is not None  # noqa: S101 - the caller checked; for the type checker
    name, unit = unit_of(max(v.actual_bytes_per_token, 1))
    heads, own = r.model.query_heads, r.model.kv_heads
    sizes = [("MHA", heads, v.mha_bytes_per_token)]
    if own not in {heads, 1}:
        sizes.append(("GQA", own, v.actual_bytes_per_token))
    sizes.append(("MQA", 1, v.mqa_bytes_per_token))
    rows = []
    for word, count, value in sizes:
        mine = value == v.actual_bytes_per_token
        label = f"{word}, {count} KV head{'' if count == 1 else 's'}"
        part = Part(value, "kv" if mine else "weights", f"{label}: {value:,} B per token")
        figure = f"{trimmed(value, unit)} {name}"
        rows.append(BarRow(
            label + (", this model" if mine else ""), (part,), (figure,),
            {"data_bytes_per_token": value}, strong=mine,
        ))  # fmt: skip
    svg_bars.draw(canvas, rows, title="KV cache per token, if every attention layer used")


def _waste(canvas: Canvas, r: WasteResult) -> None:
    name, unit = unit_of(max(p.allocated_bytes for p in r.policies))
    rows = []
    for p in r.policies:
        parts = (
            Part(p.used_bytes, "kv", f"used {format_bytes(p.used_bytes)}"),
            Part(p.wasted_bytes, "hatched-waste", f"wasted {format_bytes(p.wasted_bytes)}"),
        )
        figures = [fixed(p.allocated_bytes, unit), percent(p.waste_fraction)]
        if p.requests_per_pool is not None:
            figures.append(f"{p.requests_per_pool:,}")
        rows.append(BarRow(
            p.policy, parts, tuple(figures),
            {"data_allocated_bytes": p.allocated_bytes, "data_used_bytes": p.used_bytes,
             "data_wasted_bytes": p.wasted_bytes},
        ))  # fmt: skip
    heads = [f"{name} reserved", "wasted"]
    if len(rows[0].figures) > 2:
        heads.append(f"in {format_bytes(r.pool_bytes or 0)}")
    svg_bars.draw(canvas, rows, heads=heads)
    canvas.height += 16
    legend(canvas, [("kv", "used"), ("hatched-waste", "wasted")])


def _compare(canvas: Canvas, r: CompareResult) -> None:
    """A bar a technique, on the baseline's scale, beside what the technique replaces."""
    name, unit = unit_of(max(r.baseline_bytes, 1))
    rows = []
    for t in r.techniques:
        part = Part(min(t.bytes, r.baseline_bytes), "kv", f"{t.label}: {t.bytes:,} B")
        rows.append(BarRow(
            t.label, (part,),
            (fixed(t.bytes, unit), fixed(t.before_bytes, unit),
             "–" if t.factor is None else f"{fixed(t.factor)}×"),
            {"data_technique": t.technique, "data_bytes": t.bytes,
             "data_before_bytes": t.before_bytes},
        ))  # fmt: skip
    svg_bars.draw(canvas, rows, heads=(name, "instead of", "factor"), most=r.baseline_bytes)
