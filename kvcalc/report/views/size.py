"""`kvcalc size` as a document."""

from __future__ import annotations

from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.size import LayerGroup, SizeResult
from kvcalc.core.units import GIB, KIB, fixed, format_bytes
from kvcalc.report.document import (
    Block,
    Column,
    Document,
    Formula,
    Paragraph,
    Row,
    Table,
    Verdict,
)
from kvcalc.report.views import size_tables
from kvcalc.report.views.size_tables import NAMES


def view(r: SizeResult) -> Document:
    """The sentence, the formula, the table, the variants, the shapes, the weights."""
    blocks: list[Block] = [_verdict(r)]
    blocks += _formulas(r)
    blocks += size_tables.images(r)
    blocks.append(size_tables.contexts(r))
    if r.curve:
        blocks += [size_tables.windows(r), *size_tables.growth(r)]
    blocks += size_tables.engine(r)
    if r.batch is not None:
        blocks.append(size_tables.batch(r))
    if r.attention_variants is not None:
        blocks.append(size_tables.variants(r))
    if len(r.layers) > 1:
        blocks.append(Paragraph(f"layers  {r.pattern}"))
    blocks += size_tables.shapes(r)
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
    split = any(r.parallel.count > 1 for r in results)
    maxima = any(r.contexts[-1].tokens not in common for r in results)
    names = list(rows.rows[0].combination)
    columns = [Column(name.replace("_", " "), "<") for name in names]
    columns += [Column("layers", drop=3), Column("KV heads", drop=4), Column("head dim", drop=5)]
    columns += [Column("KiB/token"), Column("bytes/token", drop=6)]
    columns += [Column(f"GiB at {tokens:,}") for tokens in common]
    if split:
        columns.append(Column(f"per GPU at {common[0]:,}" if common else "per GPU"))
    if maxima:
        columns += [Column("longest", drop=1), Column("GiB there", drop=1)]
    body = [
        Row((*map(str, row.combination.values()), *_numbers(r, common, split=split, maxima=maxima)))
        for row, r in zip(rows.rows, results, strict=True)
    ]
    first, last = _least(results), _most(results)
    least, most = (format_bytes(r.bytes_per_token) for r in (first, last))
    text, over = f"Between {least} and {most}", f"over {len(body)} combinations"
    if least == most:
        text, over = least, f"in each of {len(body)} combinations"
    verdict = Verdict(f"{text} of KV cache per token, {over}.", strong=text)
    return Document("KV cache", (verdict, Table(tuple(columns), tuple(body))))


def _least(results: list[SizeResult]) -> SizeResult:
    return min(results, key=lambda r: r.bytes_per_token)


def _most(results: list[SizeResult]) -> SizeResult:
    return max(results, key=lambda r: r.bytes_per_token)


def _numbers(r: SizeResult, common: list[int], *, split: bool, maxima: bool) -> list[str]:
    at = {c.tokens: c.total_bytes for c in r.contexts}
    heads, dim = r.model.kv_heads, r.model.head_dim
    cells = [
        str(r.model.layers),
        "" if heads is None else str(heads),
        "" if dim is None else str(dim),
    ]
    cells += [fixed(r.bytes_per_token, KIB), f"{r.bytes_per_token:,}"]
    cells += [fixed(at[tokens], GIB) for tokens in common]
    if split:
        each = {c.tokens: c.bytes_per_gpu for c in r.contexts}
        cells.append(fixed(each[common[0]] if common else r.contexts[0].bytes_per_gpu, GIB))
    if maxima:
        last = r.contexts[-1]
        cells += [f"{last.tokens:,}", fixed(last.total_bytes, GIB)]
    return cells


def label(r: SizeResult) -> str:
    """K's and V's formats in words."""
    key, value = r.kv_dtype
    return key if key == value else f"K {key}, V {value}"


def _verdict(r: SizeResult) -> Verdict:
    if r.batch is not None:
        count, total = len(r.batch.requests), format_bytes(r.batch.total_bytes)
        lengths = ", ".join(f"{b.tokens:,}" for b in r.batch.requests[:8])
        text = f"{r.model.name} keeps {total} for {count} requests of {lengths}"
        return Verdict(f"{text}{' …' if count > 8 else ''} tokens.", strong=text)
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
    start = f"{r.model.name} grows by {format_bytes(r.bytes_per_token)} a token for {bend:,} tokens"
    then = f", then by {format_bytes(later)}" if later else " and then no more"
    what = "within a chunk of" if kept[0].kind == "chunked" else "only the last"
    who = f"all {count}" if count == r.model.layers else f"{count} of its {r.model.layers}"
    if any(g.kind == "compressed" for g in r.layers):
        more = sum(g.count for g in r.layers if g.kind == "compressed")
        kept_whole = (
            f"{who} layers keep the last {bend:,} tokens whole, {more} also a compressed copy"
        )
        return Verdict(f"{start}{then}: {kept_whole}. {_last(r)}", strong=start)
    return Verdict(
        f"{start}{then}: {who} layers keep {what} {bend:,} tokens. {_last(r)}", strong=start
    )


def _last(r: SizeResult) -> str:
    last = r.contexts[-1]
    return f"{format_bytes(last.bytes_per_request)} at {last.tokens:,} tokens."


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
            tuple(NAMES[g.kind] for g in groups),
        )
    return Formula(("K, V", *names), tuple(rows))


def _uneven(r: SizeResult, groups: list[LayerGroup]) -> Formula:
    """K and V apart: widths or formats differ."""
    stored = f"{r.kv_dtype.key}, {r.kv_dtype.value}"
    rows = tuple(
        ((str(g.count), str(g.kv_heads), f"{g.key_dim} + {g.value_dim}", stored), _result(g))
        for g in groups
    )  # fmt: skip
    labels = tuple(NAMES[g.kind] for g in groups) if len(groups) > 1 else ()
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


def _closing(r: SizeResult) -> list[Block]:
    blocks: list[Block] = []
    if r.model.source == "user preset":
        blocks.append(Paragraph(f"from your own preset {r.model.file}"))
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
