"""How big a cache is: per token, per request, per batch, per GPU; shapes and variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvcalc.core import shard
from kvcalc.core.cache import Cache, Compressed, Cross, Full, Latent, State, bend_of
from kvcalc.core.dtypes import Dtype, Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import CacheGroup, Model, pattern_of, short_name
from kvcalc.core.results.base import EngineInfo, KvDtype, ModelInfo, Warn, WeightInfo
from kvcalc.core.results.size import (
    AttentionVariants,
    Batch,
    BatchRequest,
    ContextSize,
    CurvePoint,
    Defaulted,
    Formula,
    Gpus,
    ImageTokens,
    LayerGroup,
    Shape,
    SizeResult,
    Stored,
)
from kvcalc.core.sharing import held, shared_bytes
from kvcalc.core.units import cdiv, pad


class Profile(NamedTuple):
    """All of a size that does not depend on the contexts asked for."""

    info: ModelInfo
    kv_dtype: KvDtype
    token_bytes: int
    fixed_bytes: int
    formula: Formula
    defaulted: tuple[Defaulted, ...]
    layers: tuple[LayerGroup, ...]
    variants: AttentionVariants | None
    bends: tuple[BatchRequest, ...]
    pattern: str
    ranks: tuple[Model, ...]


def size(
    model: Model,
    storage: Storage,
    contexts: Sequence[int],
    *,
    weights: WeightInfo,
    requests: int = 1,
    batch: Sequence[int] = (),
    parallel: shard.Parallel | None = None,
    block_size: int = 16,
    shared_prefix: int | None = None,
    prefix_copies: int = 1,
    images: tuple[ImageTokens, ...] = (),
    engine: EngineInfo | None = None,
    store: Callable[[int, int], Stored] | None = None,
    warnings: tuple[Warn, ...] = (),
) -> SizeResult:
    """The textbook size of `model`'s cache at each of `contexts` tokens, in bytes.

    `store` gives what an engine allocates for so many requests of so many tokens.

    Raises:
        KvcalcError: "not_divisible" if tp, pp, dcp or a block format does not divide.
    """
    parallel = parallel or shard.Parallel()
    p = profile(model, storage, parallel)
    return SizeResult(
        model=p.info,
        kv_dtype=p.kv_dtype,
        bytes_per_token=p.token_bytes,
        state_bytes_per_request=p.fixed_bytes,
        formula=p.formula,
        defaulted=p.defaulted,
        layers=p.layers,
        contexts=tuple(
            _with_engine(
                _context(
                    model,
                    storage,
                    n,
                    requests,
                    p,
                    parallel,
                    _prefix(shared_prefix, n, block_size),
                    prefix_copies,
                ),
                store,
            )
            for n in contexts
        ),
        batch=_batch(model, storage, batch),
        attention_variants=p.variants,
        shapes=_shapes(model, requests, contexts[0], block_size),
        weights=weights,
        engine=engine or EngineInfo("none"),
        block_size=block_size,
        shared_prefix_tokens=shared_prefix,
        prefix_copies=prefix_copies,
        images=images,
        parallel=Gpus(parallel.tp * parallel.pp, parallel.tp, parallel.pp, parallel.dcp),
        bends=p.bends,
        curve=_curve(model, storage, contexts) if p.bends else (),
        pattern=p.pattern,
        warnings=warnings,
    )


_PROFILES: dict[tuple[int, Storage, shard.Parallel], tuple[Model, Profile]] = {}


def profile(model: Model, storage: Storage, parallel: shard.Parallel) -> Profile:
    """The part of a size that does not depend on contexts; kept for the model objects in use.

    Keyed by identity (hashing a hundred layers for each of ten thousand queries would cost more
    than the query); the entry holds the model, so its id stays its own.
    """
    key = (id(model), storage, parallel)
    kept = _PROFILES.get(key)
    if kept is None:
        if len(_PROFILES) > 1024:
            _PROFILES.clear()
        kept = _PROFILES[key] = (model, _profile(model, storage, parallel))
    return kept[1]


def _profile(model: Model, storage: Storage, parallel: shard.Parallel) -> Profile:
    return Profile(
        info=model_info(model),
        kv_dtype=KvDtype(storage.k.key, storage.v.key),
        token_bytes=model.token_bytes(storage),
        fixed_bytes=model.fixed_bytes(storage),
        formula=formula(model, storage),
        defaulted=tuple(Defaulted(*d) for d in model.defaulted),
        layers=tuple(_layer_group(g, storage) for g in model.groups),
        variants=variants(model, storage),
        bends=tuple(BatchRequest(n, model.bytes_at(n, storage)) for n in model.bends),
        pattern=layer_pattern(model),
        ranks=tuple(shard.stage_ranks(model, parallel)),
    )


def _prefix(tokens: int | None, context: int, block_size: int) -> int:
    """Only whole blocks are shared: 1,000 tokens in blocks of 16 share 992."""
    return min(tokens or 0, context) // block_size * block_size


def _context(
    model: Model, s: Storage, tokens: int, requests: int, p: Profile, parallel: shard.Parallel,
    prefix: int, copies: int,
) -> ContextSize:  # fmt: skip
    one = model.bytes_at(tokens, s)
    if not prefix and parallel == shard.Parallel():
        size = ContextSize(tokens, one, requests, requests * one, requests * one)
        return _split(size, model, s) if p.bends else size
    per_gpu = max(
        held(
            requests,
            shard.rank_bytes(rank, tokens, s, parallel.dcp),
            shared_bytes(rank, s, tokens, prefix, parallel.dcp),
            copies,
        )
        for rank in p.ranks
    )
    total = held(requests, one, shared_bytes(model, s, tokens, prefix), copies)
    size = ContextSize(tokens, one, requests, total, per_gpu)
    return _split(size, model, s) if p.bends else size


def _split(size: ContextSize, model: Model, s: Storage) -> ContextSize:
    """The size with each group's bytes, and what a model that never forgets would hold."""
    each = tuple(len(g.layers) * g.cache.bytes_at(size.tokens, s) for g in model.groups)
    return size._replace(layer_bytes=each, unwindowed_bytes=unwindowed_bytes(model, s, size.tokens))


def unwindowed_bytes(model: Model, s: Storage, tokens: int) -> int:
    """Bytes of one request if windows and chunks kept every token."""
    return sum(
        len(g.layers)
        * (
            g.cache.bytes_at(tokens, s)
            if bend_of(g.cache) is None
            else tokens * g.cache.entry_bytes(s)
        )
        for g in model.groups
    )


def _curve(model: Model, s: Storage, contexts: Sequence[int]) -> tuple[CurvePoint, ...]:
    """Corners up to four times the last bend, or to the largest context if that is less."""
    end = max(min(max(contexts), 4 * model.bends[-1]), 1)
    corners = sorted({0, end, *(b for b in model.bends if b < end)})
    return tuple(
        CurvePoint(n, model.bytes_at(n, s), unwindowed_bytes(model, s, n)) for n in corners
    )


def _with_engine(c: ContextSize, store: Callable[[int, int], Stored] | None) -> ContextSize:
    if store is None:
        return c
    made = store(c.tokens, c.requests)
    return c._replace(engine_bytes=made.bytes, engine_blocks=made.blocks, engine_items=made.items)


def _batch(model: Model, s: Storage, batch: Sequence[int]) -> Batch | None:
    if not batch:
        return None
    rows = tuple(BatchRequest(n, model.bytes_at(n, s)) for n in batch)
    return Batch(rows, sum(row.bytes for row in rows))


def model_info(model: Model) -> ModelInfo:
    """The model as answers name it."""
    heads = {g.cache.kv_heads for g in model.groups if isinstance(g.cache, Full)}
    dims = {(g.cache.key_dim, g.cache.value_dim) for g in model.groups if isinstance(g.cache, Full)}
    (key, value) = next(iter(dims)) if len(dims) == 1 else (None, None)
    return ModelInfo(
        id=model.id,
        name=model.name,
        source=model.source,
        layers=len(model.layers),
        query_heads=model.query_heads,
        kv_heads=next(iter(heads)) if len(heads) == 1 else None,
        head_dim=key if key == value else None,
        max_context_tokens=model.max_context_tokens,
        parameters=model.parameters,
        active_parameters=model.active_parameters,
        experts=model.experts,
        attention=attention_of(model),
        file=model.file,
    )


def attention_of(model: Model) -> str:
    """mha, gqa, mqa or mla where all layers agree, else mixed; none without, full if not known."""
    words = set()
    for group in model.attention:
        if isinstance(group.cache, Latent):
            words.add("mla")
        elif isinstance(group.cache, Full):
            heads = group.cache.kv_heads
            many = "full" if model.query_heads is None else "gqa"
            words.add("mha" if heads == model.query_heads else "mqa" if heads == 1 else many)
    if not words:
        return "none"
    return words.pop() if len(words) == 1 else "mixed"


def _layer_group(group: CacheGroup, s: Storage) -> LayerGroup:
    cache = group.cache
    headed = cache if isinstance(cache, (Full, Cross)) else None
    return LayerGroup(
        kind=cache.kind,
        count=len(group.layers),
        indices=group.layers,
        kv_heads=headed.kv_heads if headed else None,
        key_dim=_key_dim(cache),
        value_dim=headed.value_dim if headed else None,
        window_tokens=bend_of(cache),
        bytes_per_token=cache.token_bytes(s),
        state_bytes=cache.fixed_bytes(s),
        variant=cache.variant if isinstance(cache, State) else None,
        entries_per_token=1 / cache.ratio if isinstance(cache, Compressed) else None,
    )


def _key_dim(cache: Cache) -> int | None:
    if isinstance(cache, (Full, Cross)):
        return cache.key_dim
    if isinstance(cache, Latent):
        return cache.rank + cache.rope_dim
    return cache.dim if isinstance(cache, Compressed) else None


def formula(model: Model, s: Storage) -> Formula:
    """Bytes per token as one product a group: symbols of the sources, then this model's numbers."""
    symbols, numbers = [], []
    for group in model.groups:
        cache, count = group.cache, len(group.layers)
        if isinstance(cache, Full):
            same = cache.key_dim == cache.value_dim and _plain(s.k) and s.k.key == s.v.key
            if same:
                symbols.append("2 · L · H_kv · d_h · s")
                numbers.append(f"2 × {count} × {cache.kv_heads} × {cache.key_dim} × {_bytes(s.k)}")
            else:
                symbols.append("L · H_kv · (d_k · s_k + d_v · s_v)")
                numbers.append(
                    f"{count} × {cache.kv_heads} × "
                    f"({cache.key_dim} × {_bytes(s.k)} + {cache.value_dim} × {_bytes(s.v)})"
                )
        elif isinstance(cache, Latent):
            symbols.append("L · (r_kv + d_rope) · s")
            numbers.append(f"{count} × ({cache.rank} + {cache.rope_dim}) × {_bytes(s.k)}")
        elif isinstance(cache, Compressed):
            symbols.append("L · d · s / r" if cache.ratio > 1 else "L · d · s")
            over = f" / {cache.ratio}" if cache.ratio > 1 else ""
            numbers.append(f"{count} × {cache.dim} × {_bytes(s.k)}{over}")
    total = model.token_bytes(s)
    return Formula(
        "bytes per token = " + (" + ".join(dict.fromkeys(symbols)) or "0"),
        (" + ".join(numbers) or "0") + f" = {total}",
    )


def _plain(d: Dtype) -> bool:
    return d.block_elements == 1 and not d.head_bytes and d.pair is None


def _bytes(d: Dtype) -> str:
    """Bytes of one element as a factor: 2, 34/32, or (1 + 4/d)."""
    if d.pair is not None:
        return f"{d.key}"
    base = str(d.block_bytes) if d.block_elements == 1 else f"{d.block_bytes}/{d.block_elements}"
    return f"({base} + {d.head_bytes}/d)" if d.head_bytes else base


def variants(model: Model, s: Storage) -> AttentionVariants | None:
    """MHA and MQA beside the model's own, where all attention is full.

    None too where a single head is no whole number of blocks (q8_0 with heads of 80).
    """
    from dataclasses import replace  # noqa: PLC0415 - loaded already

    heads = model.query_heads
    groups = [g for g in model.groups if not isinstance(g.cache, State)]
    if heads is None or any(type(g.cache) is not Full for g in groups) or not groups:
        return None
    total = {1: 0, heads: 0}
    try:
        for group in groups:
            for h in total:
                assert isinstance(group.cache, Full)  # noqa: S101 - narrowed above, for the checker
                total[h] += len(group.layers) * replace(group.cache, kv_heads=h).token_bytes(s)
    except KvcalcError:
        return None
    actual = model.token_bytes(s)
    return AttentionVariants(total[heads], actual, total[1], total[heads] / actual)


def _shapes(model: Model, requests: int, tokens: int, block_size: int) -> tuple[Shape, ...]:
    """[L, 2, B, H_kv, S, d_h] and, per layer, [num_blocks, 2, block_size, H_kv, d_h].

    Where K and V differ in width, and for one vector a token (MLA, indexer), there is no axis of 2:
    [L, B, S, d] and [num_blocks, block_size, d].
    """
    shapes = []
    for group in model.groups:
        cache, layers = group.cache, len(group.layers)
        held = cache.resident(tokens)
        blocks = requests * cdiv(held, block_size)
        if isinstance(cache, (Full, Cross)):
            h, k, v = cache.kv_heads, cache.key_dim, cache.value_dim
            if k == v:
                shapes.append(Shape(
                    cache.kind,
                    (layers, 2, requests, h, held, k), (blocks, 2, block_size, h, k),
                ))  # fmt: skip
            else:
                shapes.append(Shape(
                    cache.kind,
                    (layers, requests, h, held, k + v), (blocks, block_size, h, k + v),
                ))  # fmt: skip
        elif (width := _key_dim(cache)) is not None:
            shapes.append(Shape(
                cache.kind, (layers, requests, held, width), (blocks, block_size, width),
            ))  # fmt: skip
    return tuple(shapes)


def layer_pattern(model: Model) -> str:
    """Layers in order, folded: "10 × (5 window(1,024) + 1 full) + 2 window(1,024)"."""
    return pattern_of(" & ".join(short_name(c) for c in layer) or "none" for layer in model.layers)


def block_bytes(model: Model, s: Storage, tokens: int, block_size: int, dcp: int = 1) -> int:
    """Bytes of one request in whole pages: every layer's resident tokens padded to a block."""
    return sum(
        len(g.layers)
        * (
            pad(g.cache.resident(shard.rank_tokens(g.cache, tokens, dcp)), block_size)
            * g.cache.entry_bytes(s)
            + (g.cache.fixed_bytes(s) if isinstance(g.cache, State) else 0)
        )
        for g in model.groups
    )
