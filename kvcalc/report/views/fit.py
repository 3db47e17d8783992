"""`kvcalc fit` as a document: verdict, bar, budget, ladder, changes, command."""

from __future__ import annotations

from kvcalc.core.results.fit import FitList, FitResult, LadderStep, Suggestion
from kvcalc.core.results.rows import Rows
from kvcalc.core.units import GIB, MIB, cdiv, counted, fixed, format_bytes
from kvcalc.report.document import (
    Bar,
    BarPart,
    Block,
    Code,
    Column,
    Document,
    Paragraph,
    Row,
    Span,
    Table,
    Verdict,
    keys,
)
from kvcalc.report.views.fit_list import list_view
from kvcalc.report.views.fit_price import money, price_table

_ITEMS = {
    "memory": "memory a program sees",
    "unused": "left unused",
    "reserve": "reserved",
    "weights": "weights",
    "kv_pool": "KV pool",
    "graphs": "CUDA graphs",
}


#: Solved options of which more helps; of a setting or a context the most is what leaves room.
_ENOUGH = frozenset({"gpus", "utilization", "kv-dtype"})
_UNUSED = frozenset({"unused", "reserve", "margin"})
_NAMED = frozenset({"memory", "weights", "kv_pool"})


def view(r: FitResult | FitList) -> Document:
    """One machine in full, or a list of machines or models."""
    if isinstance(r, FitList):
        return list_view(r)
    blocks: list[Block] = [Verdict(_answer(r), plan_of(r), r.fits)]
    second = _second(r)
    if second:
        blocks.append(Paragraph(second, indent=-1))
    blocks += _bar(r)
    blocks.append(_budget(r))
    if len(r.ranks) > 1:
        blocks.append(_ranks(r))
    elif r.gpu.count > 1:
        blocks.append(_totals(r))
    if not r.fits:
        blocks.append(_missing(r))
    blocks.append(_ladder(r))
    if r.price is not None:
        blocks.append(price_table(r, r.price))
    if r.suggestions:
        blocks.append(_changes(r))
    if r.model.source == "user preset":
        blocks.append(Paragraph(f"from your own preset {r.model.file}"))
    blocks += [Paragraph(w.message) for w in r.warnings]
    blocks += [Paragraph(limit.message) for limit in r.limits if limit.code != "model_maximum"]
    if r.startup_lines or r.line != r.ask_again:
        title = f"start it so, and {r.engine.id} should log about this" if r.startup_lines else (
            f"start {r.engine.id} so"
        )  # fmt: skip
        blocks.append(Code((r.line, *r.startup_lines), title, pasted=1))
    if r.ask_again:
        blocks.append(Code((r.ask_again,), "ask this again"))
    return Document(f"{r.model.name}: what fits", tuple(blocks))


def rows_view(rows: Rows) -> Document:
    """One row a combination, never merged: what it needs, the pool, the requests."""
    results = [row.result for row in rows.rows if isinstance(row.result, FitResult)]
    if len(results) != len(rows.rows):
        return _lists_view(rows)
    yes = sum(r.fits for r in results)
    spread = any(r.max_requests_low != r.max_requests_high for r in results)
    names = list(rows.rows[0].combination)
    columns = [
        Column(name.replace("_", " "), ">" if name in {"context", "requests"} else "<")
        for name in names
    ]
    columns += [Column("GiB each", drop=2), Column("KV pool", drop=1), Column("requests")]
    columns += [Column("low–high", drop=3)] if spread else []
    priced = any(r.price is not None for r in results)
    columns += [Column("each an hour", drop=5)] if priced else []
    columns.append(Column("", "<", drop=4))
    body = []
    for row, r in zip(rows.rows, results, strict=True):
        cells = [*_chosen(row.combination, r), fixed(r.bytes_per_request, GIB)]
        cells += [fixed(r.kv_pool_bytes, GIB), f"{r.max_requests:,}"]
        if spread:
            ends = f"{r.max_requests_low:,}–{r.max_requests_high:,}"
            cells.append(ends if about(r) else "")
        if priced:
            each = None if r.price is None else r.price.per_request_hour
            cells.append("" if each is None else money(each))
        cells.append("" if r.fits else f"{up(r.shortfall_bytes)} short")
        body.append(Row(tuple(cells), "✓" if r.fits else "✗"))
    verdict = Verdict(f"{yes} of {len(results)} combinations fit", _common(results), yes > 0)
    return Document("what fits", (verdict, Table(tuple(columns), tuple(body), notes=_GIB_NOTE)))


def _common(results: list[FitResult]) -> str:
    """What all combinations share: model with weights, rules, requests."""
    parts = (
        {f"{r.model.name} {r.weights.format or ''}".strip() for r in results},
        {_rules(r) for r in results},
        {counted(r.requests).replace(" ", "\u00a0") for r in results},
    )
    return ", ".join(same for (same, *others) in map(sorted, parts) if not others)


def _rules(r: FitResult) -> str:
    if r.engine.id == "none":
        return "textbook"
    return f"{r.engine.id} {r.engine.version or ''}".strip()


def _chosen(combination: dict[str, object], r: FitResult) -> list[str]:
    """The values of a combination, counts written out."""
    counts = {"context": r.context_tokens, "requests": r.requests}
    return [f"{counts[k]:,}" if k in counts else str(v) for k, v in combination.items()]


_GIB_NOTE = ("GiB each and KV pool are GiB per GPU",)


def _lists_view(rows: Rows) -> Document:
    """Lists of several combinations, one after the other."""
    blocks: list[Block] = []
    for row in rows.rows:
        named = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in row.combination.items())
        blocks.append(Paragraph(named, indent=0))
        if isinstance(row.result, (FitResult, FitList)):
            blocks += view(row.result).blocks
    return Document("what fits", tuple(blocks))


def about(r: FitResult) -> str:
    """The sign of an estimate, where the ends of the interval differ."""
    return "≈" if r.max_requests_low != r.max_requests_high else ""


def plan_of(r: FitResult) -> str:
    """Model, machine and rules in one phrase."""
    weights = r.weights.format or (f"{format_bytes(r.weights.bytes)} of weights"
                                   if r.weights.bytes else "")  # fmt: skip
    gpu = r.gpu.id or (
        f"{format_bytes(r.gpu.memory_bytes)} GPU" if r.gpu.memory_bytes else r.gpu.name
    )
    named = f"{r.model.name} {weights}".strip()
    machine = gpu if r.gpu.members else f"{r.gpu.count} × {gpu}"
    return f"{named}, {machine}, {_rules(r)}"


def _answer(r: FitResult) -> str:
    at = f"of {r.context_tokens:,} tokens"
    if not r.fits:
        word = "≈" if r.shortfall_low_bytes != r.shortfall_high_bytes else ""
        where = " per GPU" if r.gpu.count > 1 else ""
        load = "at" if r.requests == 1 else f"for {counted(r.requests)} of"
        return f"{word}{up(r.shortfall_bytes)} short{where} {load} {r.context_tokens:,} tokens"
    if r.solved is not None and r.solved.value is not None and r.solved.option != "requests":
        word = "is enough for" if r.solved.option in _ENOUGH else "leaves room for"
        return f"{r.solved.argument} {word} {counted(r.requests)} {at}"
    sure = "" if r.max_requests_low >= r.requests else ", but not surely"
    if r.requests > 1:
        more = r.max_requests - r.requests
        room = f"; room for {about(r)}{more:,} more" if more else ""
        return f"{counted(r.requests)} {at} fit{sure}{room}"
    return f"{about(r)}{counted(r.max_requests)} {at}{sure and ' fit' + sure}"


def up(value: int) -> str:
    """What is missing, rounded up to a hundredth of its unit."""
    name, unit = ("GiB", GIB) if value >= GIB // 10 else ("MiB", MIB)
    return f"{fixed(cdiv(value * 100, unit), 100)} {name}"


def _second(r: FitResult) -> str:
    parts = []
    if about(r):
        parts.append(f"Between {r.max_requests_low:,} and {r.max_requests_high:,}")
    longest = r.max_context_tokens
    if longest:
        most = r.model.max_context_tokens
        end = f" of {most:,}" if most is not None and longest != most else ""
        text = f"one request alone may reach {about(r)}{longest:,}{end} tokens"
        if most is not None and longest == most:
            text = f"one request alone may reach the model's maximum of {most:,} tokens"
        parts.append(text)
    elif r.max_requests == 0:
        parts.append("not one request of a single token fits")
    if r.typical is not None:
        t = r.typical
        parts.append(f"at the average of {t.context_tokens:,} tokens {counted(t.max_requests)}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _bar(r: FitResult) -> list[Block]:
    lines = {line.item: line for line in r.budget}
    if "memory" not in lines or not r.fits or r.kv_pool_bytes < 0:
        return []
    need = min(r.bytes_per_request * cdiv(r.requests, r.replicas), r.kv_pool_bytes)
    unused = -sum(line.bytes for line in r.budget if line.item in _UNUSED)
    weights = -lines["weights"].bytes if "weights" in lines else 0
    engine = -sum(line.bytes for line in r.budget if line.item not in {*_UNUSED, *_NAMED})
    parts = (
        BarPart("weights", weights, "▒", "weights"),
        BarPart("engine", engine, "▓", "engine"),
        BarPart("needed", need, "█", "kv"),
        BarPart("room", r.kv_pool_bytes - need, "░", "kv_room"),
        BarPart("rest", unused, "·", "dim"),
    )
    entries = [(p.glyph, p.style, f"{p.label} {fixed(p.bytes, GIB)}") for p in parts if p.bytes > 0]
    return [Bar(parts, (*keys(*entries), Span("\u00a0GiB")))]


def _budget(r: FitResult) -> Table:
    rows = []
    for line in r.budget:
        last = line.item == "kv_pool"
        name = _ITEMS.get(line.item, line.item)
        if line.item == "weights" and line.note:
            name = f"weights, {line.note}"
        sign = "≈" if last and line.low_bytes != line.high_bytes else ""
        spread = ""
        if line.low_bytes != line.high_bytes:
            ends = sorted((abs(line.low_bytes), abs(line.high_bytes)))
            spread = f"{fixed(ends[0], GIB)}–{fixed(ends[1], GIB)}"
            if last and line.low_bytes < 0:
                spread = f"{fixed(line.low_bytes, GIB)}–{fixed(line.high_bytes, GIB)}"
        note = line.note if line.item != "weights" else _bits(r)
        cells = (name, f"{sign}{fixed(line.bytes, GIB)}", line.basis, spread, note)
        rows.append(Row(cells, style="bold" if last else "", rule=last and len(r.budget) > 1))
    columns = (
        Column("per GPU", "<"), Column("GiB"), Column("basis", "<", drop=3),
        Column("low–high", drop=4), Column("", "<", drop=5),
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _bits(r: FitResult) -> str:
    bits = r.weights.bits_per_weight
    return "" if bits is None else f"{bits:.4g} bits a weight"


def _totals(r: FitResult) -> Table:
    """Per GPU and in all, never one figure for both."""
    n = r.gpu.count
    rows = []
    for line in r.budget:
        about_ = "≈" if line.item == "kv_pool" and line.low_bytes != line.high_bytes else ""
        each, total = fixed(line.bytes, GIB), fixed(n * line.bytes, GIB)
        rows.append(Row((_ITEMS.get(line.item, line.item), f"{about_}{each}", f"{about_}{total}")))
    one = r.bytes_per_request
    shared = n // r.replicas
    label = f"one request of {r.context_tokens:,} tokens"
    rows.append(Row((label, fixed(one, GIB), fixed(shared * one, GIB)), rule=True))
    return Table((Column("GiB", "<"), Column("per GPU"), Column(f"{n} GPUs")), tuple(rows))


def _ranks(r: FitResult) -> Table:
    rows = tuple(
        Row((k.gpu or "", str(k.stage), str(k.layers), fixed(k.weight_bytes, GIB),
             fixed(k.kv_pool_bytes, GIB), f"{k.kv_bytes_per_token:,}", f"{k.tokens:,}"))
        for k in r.ranks
    )  # fmt: skip
    heads = ("stage", "layers", "weights GiB", "KV pool GiB", "B per token", "tokens")
    columns = (Column("GPU", "<"), *(Column(h) for h in heads))
    if r.gpu.members:
        return Table(columns, rows)
    return Table(columns[1:], tuple(row._replace(cells=row.cells[1:]) for row in rows))


def _missing(r: FitResult) -> Table:
    need = r.shortfall_bytes + r.kv_pool_bytes
    low, high = r.shortfall_low_bytes, r.shortfall_high_bytes
    spread = f"{fixed(low, GIB)}–{fixed(high, GIB)}" if low != high else ""
    pool = next(line for line in r.budget if line.item == "kv_pool")
    ends = (
        f"{fixed(pool.low_bytes, GIB)}–{fixed(pool.high_bytes, GIB)}"
        if pool.low_bytes != pool.high_bytes
        else ""
    )
    missing = fixed(cdiv(r.shortfall_bytes * 100, GIB), 100)
    load = f"{counted(r.requests)} of {r.context_tokens:,} tokens"
    rows = (
        Row((load, fixed(need, GIB), "")),
        Row(("KV pool", fixed(r.kv_pool_bytes, GIB), ends)),
        Row(("missing", missing, spread), style="bold", rule=True),
    )
    return Table((Column("per GPU", "<"), Column("GiB"), Column("low–high", drop=1)), rows)


def _ladder(r: FitResult) -> Table:
    spread = any(s.max_requests_low != s.max_requests_high for s in r.ladder)
    columns = [Column("context"), Column("GiB each", drop=2), Column("requests")]
    if spread:
        columns.append(Column("low–high", drop=1))
    columns.append(Column("", "<", drop=3))
    rows = []
    for step in r.ladder:
        asked = step.context_tokens == r.context_tokens
        cells = [f"{step.context_tokens:,}", fixed(step.bytes_per_request, GIB), _most(step)]
        if spread:
            same = step.max_requests_low == step.max_requests_high
            cells.append("" if same else f"{step.max_requests_low:,}–{step.max_requests_high:,}")
        maximum = step.context_tokens == r.model.max_context_tokens
        cells.append("the model's maximum" if maximum else "")
        rows.append(Row(tuple(cells), "▸" if asked else "", "bold" if asked else ""))
    return Table(tuple(columns), tuple(rows))


def _most(step: LadderStep) -> str | tuple[Span, ...]:
    return f"{step.max_requests:,}" if step.max_requests else (Span("✗", "no"),)


def _changes(r: FitResult) -> Table:
    title = "change one thing" if r.fits else "nearest fix, each enough alone"
    enough = [s for s in r.suggestions if s.fits]
    shown = r.suggestions if r.fits or not enough else enough
    if not r.fits and not enough:
        title = "not enough alone, but it helps"
    rows = tuple(_change(r, s) for s in shown)
    columns = (
        Column(title, "<"), Column("requests"), Column("", drop=1), Column("longest", drop=2),
        Column("KV pool GiB per GPU", drop=3),
    )  # fmt: skip
    return Table(columns, rows)


def _change(r: FitResult, s: Suggestion) -> Row:
    longest = "no end" if s.max_context_tokens is None else f"{s.max_context_tokens:,}"
    more = s.max_requests - r.max_requests
    plus = f"+{more:,}" if more > 0 else ""
    pool = fixed(s.kv_pool_bytes, GIB)
    return Row(((Span(s.argument, "arg"),), f"{s.max_requests:,}", plus, longest, pool))
