"""Lists of `kvcalc fit`: machines for a model, or models for a machine."""

from __future__ import annotations

from kvcalc.core.results.fit import Candidate, FitList
from kvcalc.core.units import GIB, fixed, format_bytes
from kvcalc.report.document import Block, Column, Document, Paragraph, Row, Table, Verdict

_SHOWN = 10


def list_view(r: FitList) -> Document:
    """The verdict, the best ten (or all), what was left out."""
    fits = [c for c in r.candidates if c.fits]
    blocks: list[Block] = [_verdict(r, fits)]
    shown = (list(r.candidates) if r.show_all else fits[:_SHOWN]) or list(r.candidates[:3])
    blocks.append(_machines(r, shown) if r.model is not None else _models(shown))
    blocks.append(Paragraph(_rest(r, fits, shown)))
    if r.show_why and r.left_out:
        rows = tuple(Row((entry.name, entry.reason)) for entry in r.left_out)
        blocks.append(Table((Column("left out", "<"), Column("why", "<", wrap=True)), rows))
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document("what fits", tuple(blocks))


def _load(r: FitList) -> str:
    requests = "1 request" if r.requests == 1 else f"{r.requests:,} requests"
    return f"{requests} of {r.context_tokens:,} tokens"


def _verdict(r: FitList, fits: list[Candidate]) -> Verdict:
    rules = "textbook" if r.engine.id == "none" else r.engine.id
    if r.model is not None:
        plan = f"{r.model.name} {r.weights or ''}".strip() + f", {rules}, {_load(r)}"
        if not fits:
            return Verdict("no GPU of the catalog is enough", plan, fits=False)
        best = fits[0]
        some = "one" if best.gpus == 1 else f"{best.gpus} ×"
        return Verdict(f"{some} {best.gpu} is enough", plan, fits=True)
    gpu = r.gpu.id or format_bytes(r.gpu.memory_bytes or 0) if r.gpu is not None else ""
    count = r.gpu.count if r.gpu is not None else 1
    mixed = r.gpu is not None and bool(r.gpu.members)
    plan = f"{gpu if mixed else f'{count} × {gpu}'}, {rules}, {_load(r)}"
    if not fits:
        return Verdict("no model of the catalog fits", plan, fits=False)
    return Verdict(f"{len(fits)} of {len(r.candidates)} models fit", plan, fits=True)


def _spread(c: Candidate) -> str:
    if c.max_requests_low == c.max_requests_high:
        return ""
    return f"{c.max_requests_low:,}–{c.max_requests_high:,}"


def _longest(c: Candidate) -> str:
    if c.at_maximum:
        return "maximum"
    return f"{c.max_context_tokens:,}" if c.max_context_tokens is not None else "no end"


def _machines(r: FitList, shown: list[Candidate]) -> Table:
    columns = (
        Column("GPUs", "<"), Column("GiB in all"), Column("weights", drop=3),
        Column("KV pool", drop=4), Column("requests"), Column("low–high", drop=5),
        Column("longest", drop=2),
    )  # fmt: skip
    rows = tuple(
        Row(
            (f"{c.gpus} × {c.gpu}", fixed(c.memory_bytes, GIB), fixed(c.weight_bytes, GIB),
             fixed(c.kv_pool_bytes, GIB), f"{c.max_requests:,}", _spread(c), _longest(c)),
            "" if c.fits or not r.show_all else "✗",
        )
        for c in shown
    )  # fmt: skip
    return Table(columns, rows, notes=("weights and KV pool are GiB per GPU",))


def _billions(c: Candidate) -> str:
    return fixed(c.parameters, 10**9) if c.parameters else ""


def _models(shown: list[Candidate]) -> Table:
    columns = (
        Column("model", "<"), Column("10⁹ par.", drop=1), Column("weights GiB", drop=2),
        Column("KV pool", drop=4), Column("requests"), Column("low–high", drop=5),
        Column("longest", drop=3),
    )  # fmt: skip
    rows = tuple(
        Row(
            (c.model, _billions(c), fixed(c.weight_bytes, GIB),
             fixed(c.kv_pool_bytes, GIB), f"{c.max_requests:,}", _spread(c), _longest(c)),
            "" if c.fits else "✗",
        )
        for c in shown
    )  # fmt: skip
    return Table(columns, rows)


def _rest(r: FitList, fits: list[Candidate], shown: list[Candidate]) -> str:
    more = len(fits) - min(len(shown), len(fits))
    parts = []
    if r.model is not None:
        parts.append("smallest count of 1, 2, 4, 8 that fits; least memory first")
    else:
        parts.append("largest model first")
    if more > 0:
        parts.append(f"{more} more: --all")
    if r.left_out and not r.show_why:
        parts.append(f"{len(r.left_out)} left out: --why")
    return "; ".join(parts)
