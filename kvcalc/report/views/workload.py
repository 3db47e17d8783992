"""`kvcalc workload` as a document: rates, lengths, what prompts share."""

from __future__ import annotations

from kvcalc.core.results.workload import Lengths, WorkloadResult
from kvcalc.core.units import fixed, percent, trimmed
from kvcalc.report.document import Block, Column, Document, Paragraph, Row, Table, Verdict
from kvcalc.report.views.times import duration, per_second


def view(r: WorkloadResult) -> Document:
    """The sentence, the lengths, the sharing."""
    blocks: list[Block] = [_verdict(r)]
    if r.lengths:
        blocks.append(_lengths(r.lengths))
    if r.arrivals is not None and r.arrivals.interarrival_cv is not None:
        blocks.append(Paragraph(_arrivals(r)))
    if r.prefix is not None:
        blocks += [Paragraph(_sharing(r)), _cache(r)]
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document("a trace", tuple(blocks))


def _verdict(r: WorkloadResult) -> Verdict:
    strong = f"{r.requests:,} request{'' if r.requests == 1 else 's'}"
    text = strong
    if r.arrivals is not None and r.arrivals.requests_per_second is not None:
        each = per_second(r.arrivals.requests_per_second)
        text += f" in {duration(r.arrivals.duration_seconds)}, {each} a second"
    elif r.last_step is not None:
        text += f" up to step {r.last_step:,}"
    elif r.requests:
        text += ", without times"
    if len(r.lengths) == 2:
        prompt, output = r.lengths
        text += f": {_about(prompt.mean)} tokens in and {_about(output.mean)} out on average"
    if r.prefix is not None:
        cache = f"{r.prefix.cache_blocks:,} blocks" if r.prefix.cache_blocks else "an endless cache"
        text += f"; {cache} would hit {percent(r.prefix.hit_fraction)} of the prompts' blocks"
    return Verdict(f"{text}.", strong=strong)


def _lengths(lengths: tuple[Lengths, ...]) -> Table:
    heads = ("mean", "least", "p10", "median", "p90", "p95", "p99", "most", "in all")
    drops = (0, 4, 5, 0, 0, 6, 1, 3, 2)
    columns = (
        Column("tokens", "<"),
        *(Column(head, drop=drop) for head, drop in zip(heads, drops, strict=True)),
    )
    rows = tuple(
        Row((
            x.of, _about(x.mean), f"{x.min:,}", *map(_about, (x.p10, x.p50, x.p90, x.p95, x.p99)),
            f"{x.max:,}", f"{x.total_tokens:,}",
        ))
        for x in lengths
    )  # fmt: skip
    return Table(columns, rows)


def _arrivals(r: WorkloadResult) -> str:
    assert r.arrivals is not None  # noqa: S101 - the caller looked; for the type checker
    cv = r.arrivals.interarrival_cv or 0.0
    kind = "evenly spaced" if cv < 0.5 else "as if by chance" if cv < 1.5 else "in bursts"
    return f"arrivals {kind}: the gaps' deviation is {fixed(cv, 1, 2)} × their mean (chance: 1)"


def _sharing(r: WorkloadResult) -> str:
    p = r.prefix
    assert p is not None  # noqa: S101 - the caller looked; for the type checker
    return (
        f"{p.sharing_requests:,} requests begin as another did: of {p.blocks:,} blocks of "
        f"{p.block_tokens:,} tokens {p.unique_blocks:,} differ"
    )


def _cache(r: WorkloadResult) -> Table:
    p = r.prefix
    assert p is not None  # noqa: S101 - as above
    size = f"{p.cache_blocks:,}" if p.cache_blocks else "endless"
    columns = (
        Column("cache, blocks"), Column("blocks hit"), Column("share"), Column("tokens hit"),
        Column("share"),
    )  # fmt: skip
    cells = (
        size, f"{p.hit_blocks:,}", percent(p.hit_fraction), f"{p.hit_tokens:,}",
        percent(p.token_hit_fraction),
    )  # fmt: skip
    return Table(columns, (Row(cells),))


def _about(value: float) -> str:
    return trimmed(value, 1, 1) if value < 1000 else fixed(value, 1, 0)
