"""Tables of `kvcalc size`: contexts, windows, an engine's items, a batch, variants, shapes."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from kvcalc.core.results.size import ContextSize, SizeResult
from kvcalc.core.units import GIB, KIB, MIB, fixed, trimmed, unit_of
from kvcalc.report.document import (
    Block,
    Chart,
    Column,
    Line,
    Paragraph,
    Row,
    Share,
    Span,
    Table,
    keys,
)

#: Kinds as tables and formulas name them.
NAMES = {
    "sliding_window": "window",
    "latent": "MLA",
    "chunked": "chunked",
    "compressed": "compressed",
    "indexer": "indexer",
    "state": "state",
    "cross": "cross",
    "shared": "shared",
    "full": "full",
}


def contexts(r: SizeResult) -> Table:
    """A row a context; the first shows one token."""
    n = r.contexts[0].requests
    gpus = r.parallel.count
    ladder = len({unit_of(c.bytes_per_request) for c in r.contexts}) > 1 or _one_token(r)
    rows = ([_one(r)] if _one_token(r) else []) + list(r.contexts)
    unit_name, unit = _column_unit(rows)
    head = "one request" if ladder else f"one request {unit_name}"

    def size(value: int) -> str:
        if not ladder:
            return fixed(value, unit)
        name, step = unit_of(value)
        return f"{fixed(value, step)} {name}"

    columns = [Column("tokens"), Column(head), Column("bytes", drop=3)]
    if n > 1:
        columns.append(Column(f"{n:,} requests"))
    if gpus > 1:
        columns += [Column("per GPU", drop=1), Column(f"{gpus} GPUs", drop=2)]
    columns.append(Column("", align="<", drop=9))
    table = []
    for c in rows:
        cells: list[Line] = [f"{c.tokens:,}", size(c.bytes_per_request), f"{c.bytes_per_request:,}"]
        if n > 1:
            cells.append(_sized(c.total_bytes) if c in r.contexts else "")
        if gpus > 1:
            each, total = _sized(c.bytes_per_gpu), _sized(gpus * c.bytes_per_gpu)
            cells += [each, total] if c in r.contexts else ["", ""]
        cells.append("the model's maximum" if c.tokens == r.model.max_context_tokens else "")
        table.append(Row(tuple(cells)))
    notes: tuple[str, ...] = ()
    if r.shared_prefix_tokens and n > 1 and r.engine.id == "none":
        kept = r.shared_prefix_tokens // r.block_size * r.block_size
        times = "once" if r.prefix_copies == 1 else f"{min(r.prefix_copies, n):,} times"
        once = f"the first {kept:,} tokens are stored {times} for all {n:,} requests"
        notes = (f"{once} (whole blocks of {r.block_size} of {r.shared_prefix_tokens:,})",)
    return Table(tuple(columns), tuple(table), notes=notes)


def images(r: SizeResult) -> list[Block]:
    """What each size of image takes, in one line."""
    if not r.images:
        return []
    parts = []
    for image, n in Counter(r.images).items():
        times = f"{n} × " if n > 1 else ""
        grid = f" ({image.rows} rows of {image.columns})" if image.rows else ""
        parts.append(f"{times}{image.width}×{image.height} {image.tokens:,} tokens{grid}")
    total = sum(i.tokens for i in r.images)
    more = f"; {total:,} in all" if len(r.images) > 1 else ""
    return [Paragraph(f"images  {', '.join(parts)}{more}")]


def windows(r: SizeResult) -> Table:
    """What each kind of layer holds of one request, beside a model that never forgets."""
    shown = [(i, g) for i, g in enumerate(r.layers) if g.bytes_per_token or g.state_bytes]
    columns = [Column("tokens")]
    columns += [Column(f"{g.count} {NAMES[g.kind]} GiB", drop=2) for _, g in shown]
    columns += [Column("one request GiB"), Column("if all were full", drop=1), Column("saved")]
    rows = []
    for c in r.contexts:
        full = c.unwindowed_bytes or c.bytes_per_request
        parts = [fixed(c.layer_bytes[i], GIB) for i, _ in shown]
        saved = f"{fixed(Fraction(full, c.bytes_per_request), 1, 1)}×"
        rows.append(Row((
            f"{c.tokens:,}", *parts, fixed(c.bytes_per_request, GIB), fixed(full, GIB), saved,
        )))  # fmt: skip
    return Table(tuple(columns), tuple(rows))


def growth(r: SizeResult) -> list[Block]:
    """The curve with its bends; the dotted line is the model without windows."""
    last = r.curve[-1]
    name, unit = unit_of(max(last.unwindowed_bytes, 1))
    legend = keys(("█", "kv", "this model"), ("·", "waste", "if all were full"))
    knots = tuple((p.tokens, p.bytes, p.unwindowed_bytes) for p in r.curve)
    return [Chart(knots=knots, x_name="tokens", unit_name=name, unit_bytes=unit, legend=legend)]


def engine(r: SizeResult) -> list[Block]:
    """What the engine allocates, item by item at the last context."""
    last = r.contexts[-1]
    if last.engine_bytes is None:
        return []
    name = f"{r.engine.id} {r.engine.version}" if r.engine.version else r.engine.id
    rows = tuple(
        Row((
            item.item, str(item.layers), "" if item.cells is None else f"{item.cells:,}",
            "" if item.streams is None else str(item.streams),
            _sized(item.key_bytes) if item.key_bytes else "",
            _sized(item.value_bytes) if item.value_bytes else "", _sized(item.bytes),
            f"{item.bytes:,}".replace("-", "−"),
        ))
        for item in last.engine_items
    )  # fmt: skip
    total = (f"{name} at {last.tokens:,} tokens", "", "", "", "", "", _sized(last.engine_bytes),
             f"{last.engine_bytes:,}")  # fmt: skip
    columns = (
        Column(f"{name} allocates", "<"), Column("layers", drop=2), Column("cells"),
        Column("streams", drop=3), Column("K", drop=4), Column("V", drop=5), Column("in all"),
        Column("bytes", drop=6),
    )  # fmt: skip
    notes = [f"{last.requests:,} requests" if last.requests > 1 else "1 request"]
    if last.engine_blocks is not None:
        notes.append(f"{last.engine_blocks:,} blocks")
    notes += [f"{key}={value}" for key, value in r.engine.settings.items()]
    table = Table(columns, (*rows, Row(total, style="bold", rule=True)), notes=("; ".join(notes),))
    blocks: list[Block] = [table]
    if len(r.contexts) > 1:
        each = tuple(
            Row((f"{c.tokens:,}", _sized(c.total_bytes), _sized(c.engine_bytes or 0)))
            for c in r.contexts
        )
        blocks.append(Table((Column("tokens"), Column("textbook"), Column(name)), each))
    return blocks


def _sized(value: int) -> str:
    name, step = unit_of(value)
    return f"{fixed(value, step)} {name}"


def _one_token(r: SizeResult) -> bool:
    """Whether a first row for one token says something: no fixed part, whole bytes."""
    whole = all(g.entries_per_token is None for g in r.layers)
    return (
        whole
        and r.bytes_per_token > 0
        and not r.state_bytes_per_request
        and r.contexts[0].tokens > 1
    )


def _one(r: SizeResult) -> ContextSize:
    return ContextSize(1, r.bytes_per_token, 1, r.bytes_per_token, r.bytes_per_token)


def _column_unit(rows: list[ContextSize]) -> tuple[str, int]:
    most = max(c.bytes_per_request for c in rows)
    return ("GiB", GIB) if most >= GIB // 2 else ("MiB", MIB) if most >= MIB else ("KiB", KIB)


def batch(r: SizeResult) -> Table:
    """Requests of unequal lengths and their sum."""
    assert r.batch is not None  # noqa: S101 - the caller checked; for the type checker
    rows = [
        Row((f"{i}", f"{b.tokens:,}", _sized(b.bytes), f"{b.bytes:,}"))
        for i, b in enumerate(r.batch.requests, 1)
    ]
    total = sum(b.tokens for b in r.batch.requests)
    rows.append(
        Row(
            ("all", f"{total:,}", _sized(r.batch.total_bytes), f"{r.batch.total_bytes:,}"),
            style="bold",
            rule=True,
        )
    )
    heads = (Column("request", "<"), Column("tokens"), Column("KV cache"))
    columns = (*heads, Column("bytes", drop=1))
    return Table(columns, tuple(rows))


def variants(r: SizeResult) -> Table:
    """MHA, the model's own and MQA beside each other."""
    v = r.attention_variants
    assert v is not None  # noqa: S101 - the caller checked; for the type checker
    unit_name, unit = unit_of(max(v.actual_bytes_per_token, 1))
    heads, own = r.model.query_heads, r.model.kv_heads
    hybrid = any(g.kind == "state" for g in r.layers)
    rows = [("MHA", heads, v.mha_bytes_per_token)]
    if own not in {heads, 1}:
        rows.append(("GQA", own, v.actual_bytes_per_token))
    rows.append(("MQA", 1, v.mqa_bytes_per_token))
    table = []
    for name, count, value in rows:
        mine = value == v.actual_bytes_per_token
        plural = "KV head" if count == 1 else "KV heads"
        after = (Span("  this model" if mine else "", "bold"),)
        bar = Share(value / v.mha_bytes_per_token, "kv", after)
        size = f"{trimmed(value, unit)} {unit_name}"
        table.append(Row((f"{name}  {count:>3} {plural}", name, size, bar)))
    columns = (
        Column("if every attention layer used" if hybrid else "if every layer used", "<", drop=1),
        Column("", "<", screen=True, narrow=True), Column("per token"),
        Column("", "<", screen=True),
    )  # fmt: skip
    return Table(columns, tuple(table))


def shapes(r: SizeResult) -> list[Block]:
    """Contiguous and paged tensors, axes named, where all layers are alike."""
    if len(r.shapes) != 1 or len(r.shapes[0].contiguous) != 6:
        return []
    shape = r.shapes[0]
    flat = ("layers", "K, V", "requests", "KV heads", "tokens", "head dim")
    paged = ("blocks", "K, V", "tokens", "KV heads", "head dim")
    return [
        Table(
            (Column("", "<"), *(Column(name) for name in flat)),
            (Row(("contiguous", *map(str, shape.contiguous))),),
            optional=True,
        ),
        Table(
            (Column("", "<"), *(Column(name) for name in paged), Column("", "<")),
            (Row(("paged", *map(str, shape.paged), f"in each of {shape.contiguous[0]} layers")),),
            optional=True,
        ),
    ]
