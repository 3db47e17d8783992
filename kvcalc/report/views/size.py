"""`kvcalc size` as a document."""

from __future__ import annotations

from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.size import ContextSize, LayerGroup, SizeResult
from kvcalc.core.units import GIB, KIB, MIB, fixed, format_bytes, trimmed, unit_of
from kvcalc.report.document import (
    Block,
    Column,
    Document,
    Formula,
    Line,
    Paragraph,
    Row,
    Share,
    Span,
    Table,
    Verdict,
)

_NAMES = {
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


def view(r: SizeResult) -> Document:
    """The sentence, the formula, the table, the variants, the shapes, the weights."""
    blocks: list[Block] = [_verdict(r)]
    blocks += _formulas(r)
    blocks.append(_contexts(r))
    blocks += _engine(r)
    if r.batch is not None:
        blocks.append(_batch(r))
    if r.attention_variants is not None:
        blocks.append(_variants(r))
    if len(r.layers) > 1:
        blocks.append(Paragraph(f"layers  {r.pattern}"))
    blocks += _shapes(r)
    blocks += _closing(r)
    return Document(f"{r.model.name}: KV cache", tuple(blocks))


def rows_view(rows: Rows) -> Document:
    """The article's table: a row a combination, its shape, bytes per token, bytes at contexts."""
    results = [row.result for row in rows.rows if isinstance(row.result, SizeResult)]
    common = [
        c.tokens
        for c in results[0].contexts
        if all(c.tokens in {x.tokens for x in r.contexts} for r in results)
    ]
    maxima = any(r.contexts[-1].tokens not in common for r in results)
    names = list(rows.rows[0].combination)
    columns = [Column(name.replace("_", " "), "<") for name in names]
    columns += [Column("layers", drop=3), Column("KV heads", drop=4), Column("head dim", drop=5)]
    columns += [Column("KiB/token"), Column("bytes/token", drop=6)]
    columns += [Column(f"GiB at {tokens:,}") for tokens in common]
    if maxima:
        columns += [Column("longest", drop=1), Column("GiB there", drop=1)]
    body = [
        Row((*map(str, row.combination.values()), *_numbers(r, common, maxima=maxima)))
        for row, r in zip(rows.rows, results, strict=True)
    ]
    first, last = _least(results), _most(results)
    text = f"Between {format_bytes(first.bytes_per_token)} and {format_bytes(last.bytes_per_token)}"
    verdict = Verdict(f"{text} of KV cache per token, over {len(body)} combinations.", strong=text)
    return Document("KV cache", (verdict, Table(tuple(columns), tuple(body))))


def _least(results: list[SizeResult]) -> SizeResult:
    return min(results, key=lambda r: r.bytes_per_token)


def _most(results: list[SizeResult]) -> SizeResult:
    return max(results, key=lambda r: r.bytes_per_token)


def _numbers(r: SizeResult, common: list[int], *, maxima: bool) -> list[str]:
    at = {c.tokens: c.total_bytes for c in r.contexts}
    heads, dim = r.model.kv_heads, r.model.head_dim
    cells = [
        str(r.model.layers),
        "" if heads is None else str(heads),
        "" if dim is None else str(dim),
    ]
    cells += [fixed(r.bytes_per_token, KIB), f"{r.bytes_per_token:,}"]
    cells += [fixed(at[tokens], GIB) for tokens in common]
    if maxima:
        last = r.contexts[-1]
        cells += [f"{last.tokens:,}", fixed(last.total_bytes, GIB)]
    return cells


def label(r: SizeResult) -> str:
    """K's and V's formats in words."""
    key, value = r.kv_dtype
    return key if key == value else f"K {key}, V {value}"


def _verdict(r: SizeResult) -> Verdict:
    name, first = r.model.name, r.contexts[0]
    growing = [g for g in r.layers if g.bytes_per_token]
    if not growing:
        text = f"{name} keeps {format_bytes(r.state_bytes_per_request)} per request"
        return Verdict(f"{text}, whatever its length.", strong=text)
    if len(r.bends) == 1 and r.bytes_per_token:
        return _bent(r)
    start = f"{name} keeps {format_bytes(r.bytes_per_token)} of KV cache per token"
    why = ""
    if all(g.kind == "latent" for g in growing):
        heads = f"{r.model.query_heads} heads" if r.model.query_heads else "each head"
        why = f": one latent vector a layer instead of keys and values for {heads}."
    sizes = _at(r)
    text = f"{start}{why} {_sentence(sizes)}" if why else f"{start}: {sizes}"
    if r.state_bytes_per_request and first.tokens:
        text = f"{text[:-1]}, {format_bytes(r.state_bytes_per_request)} of it at any length."
    return Verdict(text, strong=start)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _at(r: SizeResult) -> str:
    """Sizes at the first and the last context."""
    first, last = r.contexts[0], r.contexts[-1]
    text = f"{format_bytes(first.bytes_per_request)} at {first.tokens:,} tokens"
    if last.tokens == first.tokens:
        return text + "."
    if last.tokens == r.model.max_context_tokens:
        return f"{text}, {format_bytes(last.bytes_per_request)} at its maximum of {last.tokens:,}."
    return f"{text}, {format_bytes(last.bytes_per_request)} at {last.tokens:,}."


def _bent(r: SizeResult) -> Verdict:
    bend = r.bends[0].tokens
    kept = [g for g in r.layers if g.window_tokens == bend]
    later = sum(g.count * g.bytes_per_token for g in r.layers if g.window_tokens != bend)
    count = sum(g.count for g in kept)
    name, last = r.model.name, r.contexts[-1]
    start = f"{name} grows by {format_bytes(r.bytes_per_token)} a token for {bend:,} tokens"
    then = f", then by {format_bytes(later)}" if later else " and then no more"
    what = "within a chunk of" if kept[0].kind == "chunked" else "only the last"
    who = f"all {count}" if count == r.model.layers else f"{count} of its {r.model.layers}"
    size = f"{format_bytes(last.bytes_per_request)} at {last.tokens:,} tokens."
    return Verdict(f"{start}{then}: {who} layers keep {what} {bend:,} tokens. {size}", strong=start)


def _formulas(r: SizeResult) -> list[Block]:
    """Products with names over numbers: attention, latents, compressed keys."""
    blocks: list[Block] = []
    headed = [g for g in r.layers if g.kind in {"full", "sliding_window", "chunked"}]
    even = [g for g in headed if g.key_dim == g.value_dim]
    same = r.kv_dtype.key == r.kv_dtype.value
    if even and len(even) == len(headed) and same:
        blocks.append(_product(r, headed))
    elif headed:
        blocks.append(_uneven(r, headed))
    latents = [g for g in r.layers if g.kind == "latent"]
    if latents:
        blocks.append(
            Formula(
                ("layers", "latent + rope key", f"bytes ({r.kv_dtype.key})"),
                tuple(
                    (
                        (str(g.count), str(g.key_dim), _per_element(g.bytes_per_token, g.key_dim)),
                        _result(g),
                    )
                    for g in latents
                ),
            )
        )
    return blocks


def _product(r: SizeResult, groups: list[LayerGroup]) -> Formula:
    names = ("layers", "KV heads", "head dim", f"bytes ({label(r)})")
    several = len(r.layers) > 1
    rows = []
    for g in groups:
        elements = (g.kv_heads or 0) * (g.key_dim or 0) * 2
        each = (str(g.kv_heads), str(g.key_dim), _per_element(g.bytes_per_token, elements))
        if several:
            rows.append(((str(g.count), "2", *each), _result(g, several=True)))
        else:
            rows.append((("2", str(g.count), *each), _result(g)))
    if several:
        return Formula(
            (names[0], "K, V", *names[1:]),
            tuple(rows),
            tuple(_NAMES[g.kind] for g in groups),
        )
    return Formula(("K, V", *names), tuple(rows))


def _uneven(r: SizeResult, groups: list[LayerGroup]) -> Formula:
    """K and V apart: widths or formats differ."""
    stored = f"{r.kv_dtype.key}, {r.kv_dtype.value}"
    rows = tuple(
        ((str(g.count), str(g.kv_heads), f"{g.key_dim} + {g.value_dim}", stored), _result(g))
        for g in groups
    )  # fmt: skip
    labels = tuple(_NAMES[g.kind] for g in groups) if len(groups) > 1 else ()
    return Formula(("layers", "KV heads", "K dim + V dim", "stored as"), rows, labels)


def _result(g: LayerGroup, *, several: bool = False) -> str:
    total = f"{g.count * g.bytes_per_token:,} B"
    if g.window_tokens:
        return f"{total} to {g.window_tokens:,}"
    return f"{total} {'a token' if several else 'per token'}"


def _per_element(token_bytes: int, elements: int | None) -> str:
    """Bytes of an element: 2, 1.0625 (34 bytes for 32)."""
    if not elements:
        return "0"
    return f"{token_bytes / elements:.6g}"


def _contexts(r: SizeResult) -> Table:
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
    if r.shared_prefix_tokens and n > 1:
        kept = r.shared_prefix_tokens // r.block_size * r.block_size
        once = f"the first {kept:,} tokens are stored once for all {n:,} requests"
        notes = (f"{once} (whole blocks of {r.block_size} of {r.shared_prefix_tokens:,})",)
    return Table(tuple(columns), tuple(table), notes=notes)


def _engine(r: SizeResult) -> list[Block]:
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
            f"{item.bytes:,}",
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
    return r.bytes_per_token > 0 and not r.state_bytes_per_request and r.contexts[0].tokens > 1


def _one(r: SizeResult) -> ContextSize:
    return ContextSize(1, r.bytes_per_token, 1, r.bytes_per_token, r.bytes_per_token)


def _column_unit(rows: list[ContextSize]) -> tuple[str, int]:
    most = max(c.bytes_per_request for c in rows)
    return ("GiB", GIB) if most >= GIB // 2 else ("MiB", MIB) if most >= MIB else ("KiB", KIB)


def _batch(r: SizeResult) -> Table:
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


def _variants(r: SizeResult) -> Table:
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
        table.append(
            Row((f"{name}  {count:>3} {plural}", f"{trimmed(value, unit)} {unit_name}", bar))
        )
    return Table(
        (
            Column("if every attention layer used" if hybrid else "if every layer used", "<"),
            Column("per token"),
            Column("", "<", screen=True),
        ),
        tuple(table),
    )  # fmt: skip


def _shapes(r: SizeResult) -> list[Block]:
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


def _closing(r: SizeResult) -> list[Block]:
    blocks: list[Block] = []
    if r.weights.bytes is not None:
        blocks.append(Paragraph(weights_line(r.weights, r.model.parameters)))
    blocks += [
        Paragraph(f"{d.field} is not in the file: {d.value} is its class's default")
        for d in r.defaulted
    ]
    blocks += [Paragraph(w.message) for w in r.warnings]
    return blocks


def weights_line(w: WeightInfo, parameters: int | None) -> str:
    """The weights beside the cache, in one line."""
    about = "≈" if w.basis == "estimated" else ""
    name = w.format or (w.types[0].type if w.types else "")
    text = f"weights  {about}{format_bytes(w.bytes or 0)} {name}"
    if parameters is not None:
        text += f", {parameters:,} parameters"
    if w.low_bytes is not None and w.high_bytes is not None and w.low_bytes != w.high_bytes:
        text += f" ({format_bytes(w.low_bytes)}–{format_bytes(w.high_bytes)})"
    return text
