"""KV kept outside the GPUs and moved: bytes of a session on each rank, what a pool holds, seconds.

Every rank stores and moves what it holds on its GPU: its share of the heads and layers, and its own
copy of what tensor parallelism cannot split (KV heads beyond their number, MLA's latent). So a pool
of P bytes a rank holds P / (bytes of a token on the rank) tokens, whatever the number of ranks.
Stores with one copy for all ranks exist (LMCache keeps a latent on its first rank, recent vLLM once
in a region that its ranks share): `Pool.tokens_stored_once` is what one copy of all would come to.
A store of chunks keeps whole ones alone: floor(n / chunk) · chunk tokens of a session of n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from kvcalc.core import shard, sharing
from kvcalc.core.cache import Compressed, bend_of
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.offload_notes import notes_of
from kvcalc.core.results.base import KvDtype, Warn
from kvcalc.core.results.offload import (
    Link,
    OffloadContext,
    OffloadResult,
    Pool,
    PoolSetting,
    Stream,
)
from kvcalc.core.results.size import Gpus
from kvcalc.core.results.speed import SpeedGpu
from kvcalc.core.sharing import shared_bytes
from kvcalc.core.size import model_info

#: A rank's or all ranks' bytes: how a size or a bandwidth was meant.
RANK, TOTAL = "rank", "total"
#: Seconds that a prefill of so many tokens takes at least.
Recompute = Callable[[int], float]
#: (bytes of a rank, whether the pool was given) → what to pass to each engine.
Advise = Callable[[int, bool], tuple[PoolSetting, ...]]


class Ask(NamedTuple):
    """What is wanted of the store. `pool` is of one rank or of all, as `pool_per` says."""

    sessions: int = 1
    shared_prefix: int = 0
    chunk: int | None = None
    pool: int | None = None
    pool_per: str = TOTAL
    host_ram: int | None = None
    #: Bytes a second: of each rank's own link, or of one that they share.
    bandwidth: int | None = None
    bandwidth_per: str = TOTAL
    requests_per_second: Fraction | None = None


class Store(NamedTuple):
    """The model over its ranks, one rank of each pipeline stage."""

    model: Model
    storage: Storage
    parallel: shard.Parallel
    ranks: tuple[Model, ...]
    ask: Ask

    @property
    def rank_count(self) -> int:
        """Ranks of the whole deployment."""
        return self.parallel.tp * self.parallel.pp

    @property
    def pool_per_rank(self) -> int | None:
        """Bytes of the pool that one rank has."""
        pool = self.ask.pool
        return pool if pool is None or self.ask.pool_per == RANK else pool // self.rank_count

    def kept(self, tokens: int) -> int:
        """Tokens of a session that are stored: whole chunks."""
        chunk = self.ask.chunk or 1
        return tokens // chunk * chunk

    def each(self, tokens: int) -> list[int]:
        """Bytes of one session of `tokens` on one rank of each stage."""
        return [
            shard.rank_bytes(rank, tokens, self.storage, self.parallel.dcp) for rank in self.ranks
        ]

    def shared(self, tokens: int) -> list[int]:
        """Bytes of these that lie in the prefix which all sessions share."""
        prefix = self.kept(min(self.ask.shared_prefix, tokens))
        dcp = self.parallel.dcp
        return [shared_bytes(rank, self.storage, tokens, prefix, dcp) for rank in self.ranks]

    def tokens_in(self, pool: int, kept: int) -> int:
        """Tokens that every rank's pool holds: whole chunks, of the rank that holds the fewest."""
        dcp = self.parallel.dcp
        found = [
            _tokens(rank, self.storage, pool, kept, one, dcp)
            for rank, one in zip(self.ranks, self.each(kept), strict=True)
            if one
        ]
        return self.kept(min(found))

    def tokens_once(self, total: int, kept: int) -> int:
        """Tokens that all ranks' bytes would hold of one copy, in whole chunks."""
        one = self.model.bytes_at(kept, self.storage)
        return self.kept(_tokens(self.model, self.storage, total, kept, one))


def _tokens(model: Model, s: Storage, pool: int, kept: int, one: int, dcp: int = 1) -> int:
    """dcp · floor(pool / bytes of a token), or as many as sessions of `kept` tokens come to."""
    return dcp * (pool // model.token_bytes(s)) if even(model, s) else pool * kept // one


def even(model: Model, s: Storage) -> bool:
    """Whether each token adds the same bytes, at any length: no window, state or encoder."""
    caches = [g.cache for g in model.groups]
    return model.token_bytes(s) > 0 and all(
        bend_of(cache) is None
        and not cache.fixed_bytes(s)
        and not (isinstance(cache, Compressed) and cache.ratio > 1)
        for cache in caches
    )


def offload(
    model: Model,
    storage: Storage,
    contexts: Sequence[int],
    ask: Ask,
    *,
    parallel: shard.Parallel,
    advise: Advise = lambda _bytes, _given: (),
    recompute: Recompute | None = None,
    gpu: SpeedGpu | None = None,
    warnings: tuple[Warn, ...] = (),
) -> OffloadResult:
    """What sessions of each of `contexts` tokens take outside the GPUs.

    Raises:
        KvcalcError: "not_divisible"; "usage" for a chunk or a prefix that leaves nothing to keep,
            or a model without a cache.
    """
    store = Store(model, storage, parallel, tuple(shard.stage_ranks(model, parallel)), ask)
    _check(store, contexts)
    rows = tuple(_row(store, n, recompute) for n in contexts)
    pool, stream = _pool(store, rows[0]), _stream(store, rows[0])
    target = rows[0].total_bytes_per_rank if pool is None else pool.bytes_per_rank
    return OffloadResult(
        model=model_info(model),
        kv_dtype=KvDtype(storage.k.key, storage.v.key),
        parallel=Gpus(store.rank_count, parallel.tp, parallel.pp, parallel.dcp),
        sessions=ask.sessions,
        shared_prefix_tokens=ask.shared_prefix,
        chunk_tokens=ask.chunk,
        bytes_per_token=model.token_bytes(storage),
        bytes_per_token_per_rank=max(rank.token_bytes(storage) for rank in store.ranks),
        contexts=rows,
        pool=pool,
        bandwidth=_link(ask),
        stream=stream,
        gpu=gpu,
        settings=advise(target, pool is not None),
        fits=_fits(ask, pool, stream),
        notes=notes_of(store, rows[0], pool, recomputed=recompute is not None),
        warnings=warnings,
    )


def _check(store: Store, contexts: Sequence[int]) -> None:
    ask, shortest = store.ask, min(contexts)
    if not store.kept(shortest):
        raise KvcalcError(
            "usage", f"--chunk-tokens {ask.chunk:,} is more than -c {shortest:,}",
            "only whole chunks are kept, and this context fills none",
        )  # fmt: skip
    each = store.each(store.kept(shortest))
    if not any(each):
        raise KvcalcError("usage", f"{store.model.id} keeps no cache", "there is nothing to move")
    if ask.shared_prefix and any(
        one and one <= shared
        for one, shared in zip(each, store.shared(store.kept(shortest)), strict=True)
    ):
        raise KvcalcError(
            "usage",
            f"--shared-prefix {ask.shared_prefix:,} leaves nothing of -c {shortest:,} to tell "
            "sessions apart", "give a shorter prefix or a longer context",
        )  # fmt: skip


def _row(store: Store, tokens: int, recompute: Recompute | None) -> OffloadContext:
    ask, tp, n = store.ask, store.parallel.tp, store.ask.sessions
    kept = store.kept(tokens)
    each, shared = store.each(kept), store.shared(kept)
    needed = [sharing.held(n, one, s) for one, s in zip(each, shared, strict=True)]
    stored, total = tp * sum(each), tp * sum(needed)
    parallel_links = ask.bandwidth_per == RANK
    moved = max(each) if parallel_links else stored
    pool = store.pool_per_rank
    again = None if recompute is None else recompute(kept)
    whole = tp * sum(store.each(tokens))
    return OffloadContext(
        tokens=tokens,
        kept_tokens=kept,
        bytes_per_session=store.model.bytes_at(kept, store.storage),
        bytes_per_rank=max(each),
        stored_bytes_per_session=stored,
        total_bytes=total,
        total_bytes_per_rank=max(needed),
        total_tokens=n * kept - (n - 1) * store.kept(min(ask.shared_prefix, kept)),
        pool_tokens=None if pool is None else store.tokens_in(pool, kept),
        pool_sessions=None if pool is None else _sessions(pool, each, shared),
        kept_fraction=None
        if pool is None
        else float(min(Fraction(1), Fraction(pool, max(needed)))),
        transfer_seconds=_seconds(moved, ask),
        total_transfer_seconds=_seconds(max(needed) if parallel_links else total, ask),
        recompute_seconds=again,
        break_even_bytes_per_second=None if not again else ceil(moved / again),
        stream_bytes_per_second=None
        if ask.requests_per_second is None
        else ceil(whole * ask.requests_per_second),
    )


def _sessions(pool: int, each: list[int], shared: list[int]) -> int:
    """Whole sessions that every rank's pool holds."""
    return min(sharing.most(pool, one, s) for one, s in zip(each, shared, strict=True) if one)


def _seconds(moved: int, ask: Ask) -> float | None:
    return None if ask.bandwidth is None else moved / ask.bandwidth


def _pool(store: Store, row: OffloadContext) -> Pool | None:
    ask, each = store.ask, store.pool_per_rank
    if each is None or ask.pool is None:
        return None
    total = ask.pool if ask.pool_per == TOTAL else each * store.rank_count
    return Pool(
        per=ask.pool_per,
        bytes_per_rank=each,
        total_bytes=total,
        tokens=row.pool_tokens or 0,
        tokens_stored_once=store.tokens_once(total, row.kept_tokens),
        sessions=row.pool_sessions or 0,
        kept_fraction=row.kept_fraction or 0.0,
        host_ram_bytes=ask.host_ram,
        host_ram_fraction=None if ask.host_ram is None else total / ask.host_ram,
    )


def _link(ask: Ask) -> Link | None:
    if ask.bandwidth is None:
        return None
    return Link(ask.bandwidth_per, ask.bandwidth, 8 * ask.bandwidth)


def _stream(store: Store, row: OffloadContext) -> Stream | None:
    """A request's every token moves, also those of a chunk that is not whole."""
    ask, rate = store.ask, store.ask.requests_per_second
    if rate is None:
        return None
    each = store.each(row.tokens)
    whole = store.parallel.tp * sum(each)
    one = max(each) if ask.bandwidth_per == RANK else whole
    share = None if ask.bandwidth is None else float(one * rate / ask.bandwidth)
    moved = row.stream_bytes_per_second or 0
    return Stream(float(rate), whole, moved, 8 * moved, share)


def _fits(ask: Ask, pool: Pool | None, stream: Stream | None) -> bool | None:
    said = []
    if pool is not None:
        said.append(pool.sessions >= ask.sessions)
        if pool.host_ram_fraction is not None:
            said.append(pool.host_ram_fraction <= 1)
    if stream is not None and stream.link_fraction is not None:
        said.append(stream.link_fraction <= 1)
    return all(said) if said else None
