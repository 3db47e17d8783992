"""`kvcalc speed` as a document; the scales of FLOPs and seconds, also for `tradeoff`."""

from __future__ import annotations

from kvcalc.core.results.speed import SpeedResult
from kvcalc.core.units import GIB, fixed, format_bytes, percent
from kvcalc.report.document import (
    Bar,
    BarPart,
    Block,
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

_PREFIXES = (("E", 18), ("P", 15), ("T", 12), ("G", 9), ("M", 6), ("k", 3))
_SECONDS = (("s", 0), ("ms", -3), ("µs", -6), ("ns", -9))


def view(r: SpeedResult) -> Document:
    """The sentence, the two phases, what a step reads, where the bound turns."""
    blocks: list[Block] = [_verdict(r), _phases(r), _reading(r), Paragraph(_further(r), indent=-1)]
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document(f"{r.model.name} on {r.gpu.id}: ceilings", tuple(blocks))


def significant(value: float) -> str:
    """Three digits, which is more than a ceiling carries: 27.3, 2,130, 0.664."""
    if value >= 1000:
        step = 10 ** (len(str(int(value))) - 3)
        return f"{int(fixed(value, step, 0).replace(',', '')) * step:,}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return fixed(value, 1, digits)


def si(value: float, unit: str = "") -> str:
    """A decimal prefix and three digits: 600 TFLOP, 3.95 TFLOP, 16.1 T."""
    prefix, power = next((p for p in _PREFIXES if value >= 10 ** p[1]), ("", 0))
    return f"{significant(value / 10**power)}\u00a0{prefix}{unit}".rstrip("\u00a0")


def seconds(value: float) -> str:
    """36.6 ms, 1.92 s, 2 min 05 s."""
    if value >= 60:
        return duration(value)
    name, power = next((s for s in _SECONDS if value >= 10.0 ** s[1]), _SECONDS[-1])
    return f"{significant(value / 10.0**power)}\u00a0{name}"


def _verdict(r: SpeedResult) -> Verdict:
    d = r.decode
    text = f"At most {significant(d.tokens_per_second)} tokens/s"
    experts = " if every expert is read" if d.least_weight_bytes is not None else ""
    load = (
        f"{d.requests:,} requests at {significant(d.tokens_per_second_per_request)} tokens/s each"
        if d.requests > 1
        else "one request"
    )
    limited = "reading memory" if d.bound == "memory" else "arithmetic"
    return Verdict(
        f"{text}{experts}: {load}, limited by {limited}. A ceiling from bandwidth and FLOPs, "
        "not a forecast.",
        strong=text,
    )


def _phases(r: SpeedResult) -> Table:
    p, d, g = r.prefill, r.decode, r.gpu
    times = f"{g.count} × " if g.count > 1 else ""
    rate = f"{times}{si(g.dense_flops_per_second, 'FLOP/s')}"
    bandwidth = f"{times}{fixed(g.bandwidth_bytes_per_second, 10**9, 0)}\u00a0GB/s"

    def lines(
        name: str, work: int, read: int, took: tuple[float, float], speed: float, bound: str
    ) -> list[Row]:
        """What bounds the phase first, the other below it."""
        ceiling = f"≤\u00a0{significant(speed)}"
        rows = [(si(work, "FLOP"), rate, seconds(took[0])),
                (f"{fixed(read, GIB)}\u00a0GiB", bandwidth, seconds(took[1]))]  # fmt: skip
        if bound == "memory":
            rows.reverse()
        return [Row((name, *rows[0], ceiling, bound)), Row(("", *rows[1], "", ""))]

    rows = lines(
        f"prefill {p.tokens:,}", p.flops, p.read_bytes, (p.compute_seconds, p.read_seconds),
        p.tokens_per_second, p.bound,
    )[:1]  # fmt: skip
    rows += lines(
        "decode, one step", d.flops, d.weight_bytes + d.kv_bytes,
        (d.compute_seconds, d.read_seconds), d.tokens_per_second, d.bound,
    )  # fmt: skip
    columns = (
        Column(f"{times}{g.id}", "<"), Column("work", drop=2), Column("at", drop=3),
        Column("takes"), Column("tokens/s"), Column("bound", "<", drop=1),
    )  # fmt: skip
    own = r.weights.format
    converted = f"; {own} weights are converted to it" if own and own != g.flops_dtype else ""
    return Table(columns, tuple(rows), notes=(f"dense FLOP/s of {g.flops_dtype}{converted}",))


def _reading(r: SpeedResult) -> Bar:
    d = r.decode
    share = percent(d.kv_read_fraction, 0)
    legend = (
        Span("read per step  "),
        *keys(
            ("▒", "weights", f"weights {fixed(d.weight_bytes, GIB)}"),
            ("█", "kv", f"KV {fixed(d.kv_bytes, GIB)} GiB"),
        ),
        Span(f" ({share} of the reading)"),
    )
    return Bar(
        (BarPart("weights", d.weight_bytes, "▒", "weights"), BarPart("KV", d.kv_bytes, "█", "kv")),
        legend,
    )


def _further(r: SpeedResult) -> str:
    """What one more request costs, and whether more ever turn the bound."""
    ridge, d = r.ridge, r.decode
    reads = f"{seconds(ridge.read_seconds_per_request)} of reading"
    adds = f"Each further request of {d.context_tokens:,} tokens reads its own "
    adds += f"{format_bytes(d.kv_bytes_per_request)}: it adds {reads} and "
    adds += f"{seconds(ridge.compute_seconds_per_request)} of arithmetic"
    if ridge.requests is None:
        return f"{adds}; at this context more requests never make decode compute-bound."
    return f"{adds}; from {ridge.requests:,} requests on decode is bound by arithmetic."
