"""`kvcalc compare` as a document."""

from __future__ import annotations

from fractions import Fraction

from kvcalc.core.results.compare import CompareResult, Technique
from kvcalc.core.units import fixed, format_bytes, unit_of
from kvcalc.report.document import Block, Column, Document, Paragraph, Row, Table, Verdict


def view(r: CompareResult) -> Document:
    """The sentence, the techniques, what was assumed, what has no row."""
    blocks: list[Block] = [_verdict(r), _techniques(r)]
    if r.assumed:
        options = ", ".join(f"{a.option} {a.value}" for a in r.assumed)
        blocks.append(Paragraph(f"assumed, not given: {options}"))
    if r.left_out:
        blocks.append(Paragraph(f"left out: {_left_out(r)}"))
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document(f"{r.model.name}: techniques", tuple(blocks))


def _verdict(r: CompareResult) -> Verdict:
    n = r.requests
    whose = "1 request" if n == 1 else f"{n:,} requests"
    start = (
        f"{whose} of {r.context_tokens:,} token{'' if r.context_tokens == 1 else 's'} "
        f"take{'s' if n == 1 else ''} {format_bytes(r.baseline_bytes)} of KV cache"
    )
    by_name = {t.technique: t for t in r.techniques}
    parts = []
    fp8 = by_name.get("kv_fp8")
    if fp8 is not None:
        halves = fp8.saved_bytes == fp8.bytes
        parts.append(f"fp8 {'halves it' if halves else f'saves {format_bytes(fp8.saved_bytes)}'}")
    free = _free(r, by_name)
    if free:
        parts.append(free)
    text = f"{start}; {', and '.join(parts)}." if parts else f"{start}."
    return Verdict(text, strong=start)


def _free(r: CompareResult, by_name: dict[str, Technique]) -> str:
    """What costs no quality: the shared prompt that was given, else pages."""
    prefix, paging = by_name.get("prefix_caching"), by_name.get("paging")
    if prefix is not None and not prefix.assumed and prefix.saved_bytes > 0:
        tokens, saved = r.shared_prefix_tokens, format_bytes(prefix.saved_bytes)
        return f"a shared prompt of {tokens:,} tokens saves {saved} at no loss"
    if paging is not None and paging.saved_bytes > 0:
        saved = format_bytes(paging.saved_bytes)
        return (
            f"pages of {r.block_size:,} instead of reserving {r.reserved_tokens:,} tokens "
            f"save {saved} at no loss"
        )
    return ""


def _techniques(r: CompareResult) -> Table:
    name, unit = unit_of(r.baseline_bytes)
    columns = (
        Column("one technique alone", "<"),
        Column(name),
        Column("saved", drop=3),
        Column("factor"),
        Column("quality", "<", drop=1),
    )
    rows = tuple(
        Row((
            t.label,
            fixed(t.bytes, unit),
            fixed(t.saved_bytes, unit),
            "–" if t.factor is None else f"{fixed(Fraction(t.factor))}×",
            t.quality,
        ))
        for t in r.techniques
    )  # fmt: skip
    notes = tuple(f"{t.label}: {t.note}" for t in r.techniques if t.saved_bytes <= 0 and t.note)
    return Table(columns, rows, notes=notes)


def _left_out(r: CompareResult) -> str:
    """Techniques without a row by their reason."""
    reasons: dict[str, list[str]] = {}
    for o in r.left_out:
        reasons.setdefault(o.reason, []).append(o.technique)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
