"""`kvcalc timeline` as a document."""

from __future__ import annotations

from kvcalc.core.results.timeline import Milestone, TimelineResult
from kvcalc.core.units import GIB, KIB, MIB, cdiv, fixed, format_bytes, unit_of
from kvcalc.report.document import (
    Block,
    Chart,
    Column,
    Document,
    Line,
    Paragraph,
    Row,
    Span,
    Table,
    Verdict,
    keys,
)
from kvcalc.report.views.size import weights_line

#: The weights and the limit are drawn where the cache is at least this part of the whole height.
_LEGIBLE = 8


def view(r: TimelineResult) -> Document:
    """The sentence, the curve, the steps that matter, the weights."""
    blocks: list[Block] = [_verdict(r)]
    second = _second(r)
    if second:
        blocks.append(Paragraph(second, indent=-1))
    if r.chart and (r.pool is None or r.pool.bytes > 0):
        blocks.append(_chart(r))
    blocks.append(_table(r))
    if r.weights.bytes is not None:
        blocks.append(Paragraph(weights_line(r.weights, r.model.parameters)))
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document(f"{r.model.name}: KV cache over time", tuple(blocks))


def _single(r: TimelineResult) -> bool:
    return len(r.requests) == 1


def _about(r: TimelineResult) -> str:
    """The sign of an estimated limit."""
    return "≈" if r.pool is not None and r.pool.basis == "estimated" else ""


def _verdict(r: TimelineResult) -> Verdict:
    if r.memory_end is None:
        return _bare(r)
    if r.memory_end.step is not None:
        return Verdict(_missing(r), plan_of(r), fits=False)
    last = r.points[-1]
    size = format_bytes(last.kv_bytes)
    if _single(r):
        answer = f"{last.tokens:,} tokens fit, the KV cache ends at {size}"
    else:
        answer = f"{len(r.requests)} requests fit, at most {format_bytes(r.peak.kv_bytes)} at once"
    surely = "" if r.memory_end.low_step is None else ", but not surely"
    return Verdict(answer + surely, plan_of(r), fits=True)


def plan_of(r: TimelineResult) -> str:
    """Model, machine and rules in one phrase."""
    assert r.gpu is not None  # noqa: S101 - the caller checked; for the type checker
    weights = f" {r.weights.format}" if r.weights.format else ""
    gpu = r.gpu.id or f"{format_bytes(r.gpu.memory_bytes)} GPU"
    engine = "textbook" if r.engine.id == "none" else f"{r.engine.id} {r.engine.version}"
    return f"{r.model.name}{weights}, {r.gpu.count} × {gpu}, {engine}"


def _missing(r: TimelineResult) -> str:
    end, pool = r.memory_end, r.pool
    assert end is not None and pool is not None  # noqa: S101, PT018 - both or neither
    if pool.bytes < 0:
        name, unit = ("GiB", GIB) if -pool.bytes >= GIB // 10 else ("MiB", MIB)
        short = fixed(cdiv(-pool.bytes * 100, unit), 100)
        where = " per GPU" if r.gpu is not None and r.gpu.count > 1 else ""
        return f"the weights alone are {_about(r)}{short} {name}{where} too large"
    if _single(r) and end.step == 1:
        return f"the prompt of {r.requests[0].prompt_tokens:,} tokens does not fit"
    if _single(r):
        return f"memory ends at token {_about(r)}{end.tokens:,}"
    return f"memory ends in step {_about(r)}{end.step:,}, at {end.tokens:,} tokens"


def _bare(r: TimelineResult) -> Verdict:
    last = r.points[-1]
    if not _single(r):
        most = format_bytes(r.peak.kv_bytes)
        text = f"{len(r.requests)} requests of {r.model.name} hold at most {most} of KV cache"
        return Verdict(f"{text}, in step {r.peak.step:,} of {last.step:,}.", strong=text)
    prefill = r.points[1]
    text = f"{r.model.name}'s KV cache ends at {format_bytes(last.kv_bytes)}"
    if last.step == 1:
        return Verdict(f"{text}: a prompt of {last.tokens:,} tokens.", strong=text)
    return Verdict(
        f"{text}: {format_bytes(prefill.kv_bytes)} after the prompt of {prefill.tokens:,} tokens, "
        f"then a token a step to {last.tokens:,}.",
        strong=text,
    )


def _second(r: TimelineResult) -> str:
    """What is wanted beside what there is."""
    if r.pool is None or r.gpu is None or r.pool.bytes < 0:
        return ""
    where = " of each GPU" if r.gpu.count > 1 else ""
    pool = f"the KV pool{where} holds {_about(r)}{format_bytes(r.pool.bytes)}"
    low, high = r.pool.low_bytes, r.pool.high_bytes
    if low != high:
        name, unit = unit_of(high)
        pool += f" ({fixed(low, unit)}–{fixed(high, unit)} {name})"
    peak = f" and {format_bytes(r.pool.peak_bytes)}{' per GPU' if where else ''}"
    if _single(r):
        return f"The request grows to {r.points[-1].tokens:,} tokens{peak}; {pool}."
    return f"The requests grow to {r.peak.tokens:,} tokens at once{peak}; {pool}."


def _chart(r: TimelineResult) -> Chart:
    """The curve: on the weights and under the limit where that leaves it legible, else alone."""
    curve = r.curve
    base, limit, word = curve.weight_bytes or 0, curve.limit_bytes, "limit"
    most = max(k.kv_bytes for k in curve.knots)
    if most * _LEGIBLE < max(base + most, limit or 0):
        pool = None if r.pool is None else r.pool.bytes
        base, limit, word = 0, pool if pool is not None and pool <= 2 * most else None, "KV pool"
    reserved = [k.naive_bytes for k in curve.knots if k.naive_bytes is not None]
    name, unit = unit_of(max(base + max([most, *reserved]), limit or 0, 1))
    entries = [("▒", "weights", f"weights {fixed(base, unit)}")] if base else []
    entries.append(("█", "kv", "KV cache"))
    if curve.end is not None:
        entries.append(("░", "no", "would not fit"))
    if reserved:
        entries.append(("·", "waste", "naive"))
    if r.gpu is not None and r.gpu.count > 1:
        entries.append(("", "", f"{name} per GPU"))
    return Chart(
        knots=tuple((k.x, k.kv_bytes, k.naive_bytes) for k in curve.knots),
        x_name=curve.unit,
        unit_name=name,
        unit_bytes=unit,
        legend=keys(*entries),
        base=base,
        limit=limit,
        limit_label="" if limit is None else f"{word} {fixed(limit, unit)}",
        end=curve.end,
        end_label="out of memory",
        slack=tuple((k.x, k.paged_bytes) for k in curve.knots),
    )


def _table(r: TimelineResult) -> Table:
    """Milestones, one row a step; reserved and paged bytes where a maximum context is given."""
    peak = r.peak.kv_bytes
    name, unit = ("GiB", GIB) if peak >= GIB // 2 else ("MiB", MIB) if peak >= MIB else ("KiB", KIB)
    naive = r.max_context_tokens is not None
    points = {p.step: p for p in r.points}
    steps: dict[int, list[Milestone]] = {}
    for m in r.milestones:
        steps.setdefault(m.step, []).append(m)
    columns = [Column("step"), Column("tokens", drop=2), Column(f"KV {name}")]
    if naive:
        columns += [Column("paged", drop=3), Column("naive", drop=4)]
    columns += [Column("", "<", drop=9), Column("", "<", drop=1, screen=True, narrow=True)]
    end = r.out_of_memory_at_step
    rows = []
    for step, named in steps.items():
        point = points[step]
        cells: list[Line] = [f"{step:,}", f"{point.tokens:,}", fixed(point.kv_bytes, unit)]
        if naive:
            cells += [fixed(point.paged_bytes, unit), fixed(point.naive_bytes or 0, unit)]
        cells += [_joined([_note(r, m) for m in named]), _joined([_short(m) for m in named])]
        rows.append(Row(tuple(cells), style="dim" if end is not None and step > end else ""))
    return Table(tuple(columns), tuple(rows), notes=_notes(r, name))


def _joined(notes: list[tuple[Span, ...]]) -> Line:
    spans: list[Span] = []
    for note in notes:
        spans += [*([Span("; ")] if spans else []), *note]
    return tuple(spans)


def _note(r: TimelineResult, m: Milestone) -> tuple[Span, ...]:
    if m.kind == "out_of_memory":
        return (Span("✗ out of memory", "no"), Span(_range(r)))
    if m.kind == "prefill" and _single(r):
        return (Span("prefill: the whole prompt at once"),)
    if m.kind == "outgrows_weights" and r.weights.basis == "estimated":
        return (Span(f"{m.label}, ≈{format_bytes(r.weights.bytes or 0)}"),)
    if m.kind == "decoded" and m.added_bytes is not None:
        return (Span(f"{m.label}: + {format_bytes(m.added_bytes)}"),)
    return (Span(m.label),)


def _short(m: Milestone) -> tuple[Span, ...]:
    words = {"decoded": f"+{m.label.split()[0]}", "outgrows_weights": "past weights",
             "window": "window full"}  # fmt: skip
    if m.kind == "out_of_memory":
        return (Span("✗ full", "no"),)
    return (
        Span(words.get(m.kind, m.label.replace(" of requests", "").replace(" of request", ""))),
    )


def _range(r: TimelineResult) -> str:
    """Between which tokens (or steps) memory surely ends, where the limit is uncertain."""
    end = r.memory_end
    if end is None:
        return ""
    word, low, high = (
        ("token", end.low_tokens, end.high_tokens)
        if _single(r)
        else ("step", end.low_step, end.high_step)
    )
    if low == high or low is None:
        return ""
    return (
        f" ({word} {low:,}–{high:,})" if high is not None else f" ({word} {low:,} at the earliest)"
    )


def _notes(r: TimelineResult, unit: str) -> tuple[str, ...]:
    if r.max_context_tokens is None:
        return ()
    pages = f"paged: whole blocks of {r.block_size:,} tokens"
    reserved = f"naive: {r.max_context_tokens:,} tokens reserved for each admitted request"
    return (f"{unit}; {pages}; {reserved}",)
