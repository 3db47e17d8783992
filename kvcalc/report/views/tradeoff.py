"""`kvcalc tradeoff` as a document."""

from __future__ import annotations

from kvcalc.core.results.tradeoff import TradeoffResult, Work
from kvcalc.core.units import format_bytes, trimmed
from kvcalc.report.document import Block, Column, Document, Paragraph, Row, Table, Verdict
from kvcalc.report.views.speed import si


def view(r: TradeoffResult) -> Document:
    """The sentence and the two ways beside each other."""
    blocks: list[Block] = [_verdict(r), _table(r)]
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document(f"{r.model.name}: work against memory", tuple(blocks))


def _verdict(r: TradeoffResult) -> Verdict:
    size = format_bytes(r.kv_bytes)
    if r.tokens == 1:
        return Verdict(f"1 token costs 1 token pass with a cache or without: {size} saves nothing.")
    text = (
        f"{r.tokens:,} tokens cost {r.uncached_token_passes:,} token passes without a cache, "
        f"{r.cached_token_passes:,} with it"
    )
    ratio = trimmed(r.ratio)
    return Verdict(f"{text}: {ratio}× less work for {size} of memory.", strong=text)


def _table(r: TradeoffResult) -> Table:
    known = r.uncached.projection_flops is not None
    seen = r.uncached.attention_flops is not None
    columns = [Column("", "<"), Column("token passes"), Column("", "<", drop=3)]
    columns += [Column("FLOPs", drop=1)] if known else []
    columns += [Column("attention", drop=2)] if seen else []
    columns.append(Column("KV cache"))

    def row(name: str, passes: int, how: str, work: Work, kv: str) -> Row:
        flops = [f"≈{si(work.projection_flops)}"] if work.projection_flops is not None else []
        flops += [f"≈{si(work.attention_flops)}"] if work.attention_flops is not None else []
        return Row((name, f"{passes:,}", how, *flops, kv))

    return Table(
        tuple(columns),
        (
            row("without", r.uncached_token_passes, _sum(r.tokens), r.uncached, "none"),
            row("with", r.cached_token_passes, "one per token", r.cached, format_bytes(r.kv_bytes)),
        ),
        notes=_notes(r),
    )


def _sum(tokens: int) -> str:
    """1 + 2 + … + 1,000."""
    if tokens <= 3:
        return " + ".join(str(n) for n in range(1, tokens + 1))
    return f"1 + 2 + … + {tokens:,}"


def _notes(r: TradeoffResult) -> tuple[str, ...]:
    notes = []
    if r.pass_parameters is not None:
        active = "active " if r.model.active_parameters is not None else ""
        top = "; attention comes on top" if r.uncached.attention_flops is not None else ""
        notes.append(f"FLOPs: 2 × {r.pass_parameters:,} {active}parameters × passes{top}")
    else:
        notes.append("no FLOPs: the parameters of a pass are not known")
    if r.uncached.attention_flops is None:
        notes.append("no attention FLOPs: the query heads or the kind of attention are not known")
    return tuple(notes)
