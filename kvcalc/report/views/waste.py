"""`kvcalc waste` as a document."""

from __future__ import annotations

from fractions import Fraction

from kvcalc.core.results.waste import PolicyWaste, PoolSource, WasteResult
from kvcalc.core.units import fixed, format_bytes, percent, trimmed, unit_of
from kvcalc.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Paragraph,
    Row,
    Share,
    Table,
    Verdict,
)

_USED = "█ used  ░ wasted"


def view(r: WasteResult) -> Document:
    """The sentence, the policies, where the pool comes from."""
    if r.model is None:
        return Document("Effective requests", (_of_slots(r),))
    blocks: list[Block] = [_verdict(r)]
    if r.pool_bytes == 0:
        blocks.append(Paragraph(_doings(r)))
    blocks += [_policies(r), _bars(r)]
    if r.pool is not None and r.pool.gpu is not None:
        blocks.append(Paragraph(_source(r.pool)))
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document(f"{r.model.name}: allocation", tuple(blocks))


def _of_slots(r: WasteResult) -> Verdict:
    share = trimmed(Fraction(str(r.waste_fraction)) * 100)
    work = trimmed(Fraction(str(r.effective_requests)))
    many = r.slots != 1
    text = (
        f"{r.slots:,} slot{'s' if many else ''} that waste{'' if many else 's'} {share}% "
        f"do{'' if many else 'es'} the work of {work}."
    )
    return Verdict(text, strong=text)


def _verdict(r: WasteResult) -> Verdict:
    text, pool = _doings(r), r.pool
    strong = text.split(";")[0].rstrip(".")
    if pool is None:
        return Verdict(text, strong=strong)
    if not pool.bytes:
        plan = f"{r.model.name if r.model else ''}, {_machine(pool)}"
        weights = f"weights of {format_bytes(pool.weight_bytes or 0)} {pool.weight_format or ''}"
        return Verdict(f"no room for KV cache beside {weights.rstrip()}", plan, fits=False)
    naive = next((p for p in r.policies if p.policy == "naive"), None)
    if naive is not None and naive.requests_per_pool is not None:
        size, slots = _pool(pool), naive.requests_per_pool
        work = trimmed(Fraction(naive.effective_requests or 0), 1, 1)
        has = f"{_article(size)} {size} pool has"
        if slots:
            many = f"{slots:,} such slot{'' if slots == 1 else 's'}"
            text += f" {has} {many} and does the work of {work}."
        else:
            text += f" {has} no such slot."
    return Verdict(text, strong=strong)


def _doings(r: WasteResult) -> str:
    """What reserving the maximum wastes, and what pages waste; of other policies the first."""
    by_name = {p.policy: p for p in r.policies}
    shown = [by_name[name] for name in ("naive", "paged") if name in by_name] or [r.policies[0]]
    text = f"{_doing(r, shown[0])} wastes {_share(shown[0])}"
    if len(shown) > 1:
        text += f"; pages of {r.block_size:,} tokens waste {_share(shown[1])}"
    return f"{text}."


def _doing(r: WasteResult, p: PolicyWaste) -> str:
    n = r.requests or 0
    whom = "1 request" if n == 1 else f"each of {n:,} requests"
    if p.policy == "naive":
        return f"Reserving {r.max_context_tokens:,} tokens for {whom}"
    if p.policy == "paged":
        return f"Allocating {whom} in pages of {r.block_size:,} tokens"
    what = "a power of two" if p.policy == "pow2" else "exactly what it uses"
    return f"Reserving {what} for {whom}"


def _share(p: PolicyWaste) -> str:
    return percent(p.waste_fraction) if p.wasted_bytes else "nothing"


def _policies(r: WasteResult) -> Table:
    most = max((p.allocated_bytes for p in r.policies), default=0)
    name, unit = unit_of(most)
    columns = [
        Column("policy", "<"),
        Column("reserves", "<", drop=3),
        Column(_USED, "<", drop=2, screen=True),
        Column(name),
        Column("wasted", drop=1),
        Column("share"),
    ]
    notes: tuple[str, ...] = (f"used {format_bytes(r.policies[0].used_bytes)}",)
    if r.pool is not None and r.pool.bytes:
        size = _pool(r.pool)
        columns.append(Column(f"in {size}"))
        notes = (f"{notes[0]}; last column: requests like these that {size} hold",)
    rows = []
    for p in r.policies:
        cells: list[Cell] = [
            p.policy,
            _reserves(p.policy, r.block_size or 0),
            _bar(p, most),
            fixed(p.allocated_bytes, unit),
            fixed(p.wasted_bytes, unit),
            percent(p.waste_fraction),
        ]
        if r.pool is not None and r.pool.bytes:
            cells.append("–" if p.requests_per_pool is None else f"{p.requests_per_pool:,}")
        rows.append(Row(tuple(cells)))
    return Table(tuple(columns), tuple(rows), notes=notes)


def _bars(r: WasteResult) -> Table:
    """The bars alone, where the terminal is too narrow for them beside the figures."""
    most = max((p.allocated_bytes for p in r.policies), default=0)
    columns = (
        Column("policy", "<", screen=True, narrow=True),
        Column(_USED, "<", screen=True, narrow=True),
    )
    return Table(columns, tuple(Row((p.policy, _bar(p, most))) for p in r.policies))


def _reserves(policy: str, block_size: int) -> str:
    return {
        "naive": "the maximum",
        "pow2": "a power of two",
        "exact": "known length",
        "paged": f"blocks of {block_size:,}",
    }[policy]


def _bar(p: PolicyWaste, most: int) -> Cell:
    """Used and wasted, to the scale of the largest reservation."""
    return Share(p.used_bytes / most, beyond=p.wasted_bytes / most) if most else ""


def _pool(pool: PoolSource) -> str:
    about = "≈" if pool.basis == "estimated" else ""
    return f"{about}{format_bytes(pool.bytes)}"


def _article(size: str) -> str:
    """An before eight, eleven and eighteen."""
    whole = size.lstrip("≈").split("\u00a0")[0].split(".")[0]
    return "An" if whole[0] == "8" or whole in {"11", "18"} else "A"


def _machine(pool: PoolSource) -> str:
    return f"{pool.gpus} × {pool.gpu}"


def _source(pool: PoolSource) -> str:
    text = f"pool  {_machine(pool)} {format_bytes(pool.memory_bytes or 0)}"
    if pool.weight_bytes is not None:
        text += f" − weights {format_bytes(pool.weight_bytes)} {pool.weight_format or ''}".rstrip()
    text += f" = {_pool(pool)}"
    if pool.low_bytes is not None and pool.low_bytes != pool.high_bytes:
        name, unit = unit_of(pool.high_bytes or 0)
        text += f", {fixed(pool.low_bytes, unit)}–{fixed(pool.high_bytes or 0, unit)}\u00a0{name}"
    return text
