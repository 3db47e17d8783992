"""`kvcalc simulate` as a document: policies side by side, or one with its series."""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc.core.results.rows import Rows
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.core.units import fixed, percent, trimmed
from kvcalc.report.document import (
    Bar,
    BarPart,
    Block,
    Cell,
    Chart,
    Column,
    Document,
    Paragraph,
    Row,
    Span,
    Table,
    Verdict,
    keys,
)
from kvcalc.report.views.times import duration

_NOTES = {
    "naive": "naive reserves {max:,} tokens",
    "pow2": "pow2 rounds the output to a power of two",
    "exact": "exact knows its length beforehand, as no engine does",
    "paged": "paged is vLLM: blocks of {block:,}",
}


def view(r: SimulateResult) -> Document:
    """The sentence, what was simulated, the figures, the series."""
    blocks: list[Block] = [_verdict(r), Paragraph(_what(r), indent=-1)]
    blocks += [_bar(r, r.policy), _figures([r])]
    if r.chart and len(r.series) > 2:
        blocks.append(_chart(r))
    if r.per_request:
        blocks.append(_requests(r))
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document("a stream of requests", tuple(blocks))


def rows_view(rows: Rows) -> Document:
    """Policies, or whatever differs, as columns; never more than four beside each other."""
    results = [row.result for row in rows.rows if isinstance(row.result, SimulateResult)]
    names = [", ".join(map(str, row.combination.values())) for row in rows.rows]
    blocks: list[Block] = [_beside(results, names), Paragraph(_what(results[0]), indent=-1)]
    blocks += [_bar(r, name) for r, name in zip(results, names, strict=True)]
    parts = range(0, len(results), 4)
    blocks += [_figures(results[i : i + 4], names[i : i + 4]) for i in parts]
    warnings = dict.fromkeys(w.message for r in results for w in r.warnings)
    blocks += [Paragraph(text) for text in warnings]
    return Document("a stream of requests", tuple(blocks))


def _doing(r: SimulateResult) -> str:
    if r.policy == "paged":
        return "Paged blocks"
    if r.policy == "naive":
        return f"Reserving {r.settings['max_model_len']:,} tokens each"
    return {"pow2": "Reserving powers of two", "exact": "Reserving known lengths"}[r.policy]


def _verdict(r: SimulateResult) -> Verdict:
    done, n = r.requests.finished, r.requests.total
    many = f"{done:,} of {n:,}" if done < n else f"{n:,}"
    strong = f"{_doing(r)} serve {many} requests with at most {r.peak.running:,} at once"
    if r.policy != "paged":
        strong = strong.replace(" serve ", " serves ")
    wait = _time(r, "queue", "p99")
    text = f"{strong}; 99% wait at most {wait}." if wait else f"{strong}."
    if r.solved is not None:
        return _solved(r)
    return Verdict(text, strong=strong)


def _solved(r: SimulateResult) -> Verdict:
    s = r.solved
    assert s is not None  # noqa: S101 - the caller looked; for the type checker
    machine = _machine(r)
    limit = duration(s.max_wait_seconds)
    if s.value is None:
        what = "no rate" if s.option == "rate" else "no number of GPUs"
        return Verdict(f"{what} keeps 99% from waiting more than {limit}", machine, fits=False)
    if s.option == "gpus":
        answer = f"{s.value:g} GPUs are enough" if s.value > 1 else "one GPU is enough"
        return Verdict(f"{answer}: 99% wait at most {limit}", machine, fits=True)
    rate = fixed(s.value, 1, 2)
    return Verdict(f"{rate} requests/s while 99% wait at most {limit}", machine, fits=True)


def _beside(results: Sequence[SimulateResult], names: Sequence[str]) -> Verdict:
    by_policy = {r.policy: r for r in results}
    paged, naive = by_policy.get("paged"), by_policy.get("naive")
    if paged is None or naive is None or len(by_policy) < len(results):
        best = max(results, key=lambda r: r.shares.used_fraction)
        name = names[list(results).index(best)]
        share = percent(best.shares.used_fraction)
        strong = f"{name}: {share} of the memory holds tokens"
        return Verdict(f"{strong}, the most of {len(results)}.", strong=strong)
    rate = paged.throughput.requests_per_second
    load = f"{trimmed(rate, 1, 1)} requests/s" if rate else f"{paged.requests.finished:,} requests"
    strong = f"Paged blocks serve {load} with {paged.peak.running:,} at once"
    text = (
        f"{strong}; {_doing(naive)[0].lower()}{_doing(naive)[1:]} stops at {naive.peak.running:,}"
    )
    if naive.steps > paged.steps:
        took = (naive.seconds or naive.steps) / (paged.seconds or paged.steps)
        if took >= 1.05:
            text += f" and takes {trimmed(took, 1, 1)}× as long"
    return Verdict(f"{text}.", strong=strong)


def _machine(r: SimulateResult) -> str:
    name = r.model.name if r.model is not None else "blocks"
    return f"{name} on {r.gpus} × {r.gpu}" if r.gpu else name


def _what(r: SimulateResult) -> str:
    rate = f", scaled to {trimmed(r.requests_per_second)}/s" if r.requests_per_second else ""
    about = "≈" if r.pool.basis == "estimated" else ""
    parts = [f"{r.requests.total:,} requests{rate}"]
    if r.model is not None:
        parts.append(_machine(r))
    parts.append(f"pool {about}{r.pool.tokens:,} tokens")
    parts.append("vLLM scheduler" if r.scheduler == "vllm" else "batch after batch")
    parts.append("seconds are roofline ceilings" if r.clock == "seconds" else _step(r))
    return "; ".join(parts)


def _step(r: SimulateResult) -> str:
    if r.step_seconds is None:
        return "time in steps"
    return f"a step is {duration(r.step_seconds)}"


def _figures(results: Sequence[SimulateResult], names: Sequence[str] | None = None) -> Table:
    names = names or [r.policy for r in results]
    columns = (Column("", "<"), *(Column(name) for name in names))
    rows = [Row((name, *cells)) for name, cells in _lines(results)]
    policies = list(dict.fromkeys(r.policy for r in results))
    first = results[0]
    notes = "; ".join(
        _NOTES[p].format(max=first.settings["max_model_len"] or 0, block=first.pool.block_tokens)
        for p in policies
    )
    return Table(
        columns, tuple(rows), notes=(notes,) if len(results) > 1 else (), peers=len(results) > 1
    )


def _lines(results: Sequence[SimulateResult]) -> list[tuple[str, list[Cell]]]:
    """Measures in rows; those that say nothing of any result are left out."""

    def row(name: str, values: list[Cell]) -> None:
        if any(values):
            lines.append((name, values))

    lines: list[tuple[str, list[Cell]]] = []
    row("memory holding tokens", [percent(r.shares.used_fraction) for r in results])
    for name, key in (
        ("  reserved for later", "reserved_fraction"),
        ("  never used", "internal_fraction"),
        ("  too small for the next", "external_fraction"),
    ):
        shares = [getattr(r.shares, key) for r in results]
        row(name, [percent(s) for s in shares] if max(shares) >= 0.0005 else [])
    row("running at once, most", [f"{r.peak.running:,}" for r in results])
    row("  on average", [trimmed(r.mean.running, 1, 1) for r in results])
    row("waiting, median", [_time(r, "queue", "p50") for r in results])
    row("waiting, p99", [_time(r, "queue", "p99") for r in results])
    row("first token, median", [_time(r, "first_token", "p50") for r in results])
    row("preempted", [f"{r.requests.preempted:,}" for r in results])
    counted: tuple[tuple[str, list[int]], ...] = (
        ("rejected", [r.requests.rejected for r in results]),
        ("cut at the maximum", [r.requests.cut for r in results]),
    )
    for name, counts in counted:
        row(name, [f"{n:,}" for n in counts] if any(counts) else [])
    hits = [r.prefix.hit_fraction for r in results]
    row("prompt tokens cached", [percent(h) for h in hits] if any(hits) else [])
    speeds = [r.throughput.output_tokens_per_second for r in results]
    row("output tokens/s", ["" if s is None else fixed(s, 1, 0) for s in speeds])
    row("all done after", [run_length(r) for r in results])
    return lines


#: How memory was spent: label, glyph, style; in the order of `Shares`.
SPENT = (
    ("tokens", "█", "kv"),
    ("for later", "▓", "engine"),
    ("never used", "░", "waste"),
    ("too small", "·", "dim"),
)


def _bar(r: SimulateResult, name: str) -> Bar:
    """How the memory was spent, and by what policy."""
    parts = tuple(
        BarPart(label, round(share * 10**6), glyph, style)
        for share, (label, glyph, style) in zip(r.shares, SPENT, strict=True)
        if share >= 0.0005
    )
    entries = (
        (part.glyph, part.style, f"{part.label} {percent(part.bytes / 10**6)}") for part in parts
    )
    return Bar(parts, (Span(name, "bold"), Span("  "), *keys(*entries)))


def _time(r: SimulateResult, what: str, which: str) -> str:
    """A percentile in seconds, else in steps; empty if there is none."""
    seconds = getattr(getattr(r.latency, f"{what}_seconds"), which)
    if seconds is not None:
        return duration(seconds)
    steps = getattr(getattr(r.latency, f"{what}_steps"), which)
    return "" if steps is None else f"{trimmed(steps, 1, 1)} steps"


def waited(r: SimulateResult) -> str:
    """What 99 of 100 requests waited at most."""
    return _time(r, "queue", "p99") or "–"


def run_length(r: SimulateResult) -> str:
    """How long it took to serve them all."""
    return f"{r.steps:,} steps" if r.seconds is None else duration(r.seconds)


def in_thousands(blocks: int) -> bool:
    """Whether an axis up to so many blocks counts them in thousands."""
    return blocks >= 10_000


def _chart(r: SimulateResult) -> Chart:
    """Blocks in use over steps; in thousands where their numbers are long."""
    knots = [(s.step + 1, s.used_blocks, None) for s in r.series]
    pool = r.pool.blocks - 1
    limit = pool if r.peak.used_blocks * 2 > pool else None
    many = in_thousands(max(limit or 0, r.peak.used_blocks))
    legend = keys(("█", "kv", f"{'thousand ' if many else ''}blocks in use"))
    return Chart(
        ((0, 0, None), *knots), "steps", "10³" if many else "", 1000 if many else 1, legend,
        limit=limit, limit_label=f"pool of {pool:,}",
    )  # fmt: skip


def _requests(r: SimulateResult) -> Table:
    columns = (
        Column("request", "<"), Column("first token"), Column("last token"),
        Column("preempted", drop=2), Column("cached", drop=3), Column("waited", drop=1),
    )  # fmt: skip
    rows = [
        Row((str(q.id), f"{q.first_token_step:,}", f"{q.finish_step:,}", f"{q.preemptions:,}",
             f"{q.hit_tokens:,}", _waited(q.queue_seconds, q.queue_steps)))
        for q in r.per_request
    ]  # fmt: skip
    return Table(columns, tuple(rows), title="steps")


def _waited(seconds: float | None, steps: int | None) -> str:
    return f"{steps or 0:,} steps" if seconds is None else duration(seconds)
