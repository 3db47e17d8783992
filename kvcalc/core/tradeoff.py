"""What a cache saves: S tokens cost S(S + 1)/2 token passes without one, S with it.

Without a cache every step runs the whole forward pass over all tokens so far (the article, section
1); with it, over the one new token, which attends to all before it. Memory is the price.
"""

from __future__ import annotations

from kvcalc.core import flops
from kvcalc.core.dtypes import Storage
from kvcalc.core.model import Model
from kvcalc.core.results.base import KvDtype, Warn
from kvcalc.core.results.tradeoff import Step, TradeoffResult, Work
from kvcalc.core.size import model_info

#: Up to so many tokens every step is listed; beyond, so many evenly chosen ones.
ALL_STEPS, SOME_STEPS = 64, 32


def tradeoff(
    model: Model, storage: Storage, tokens: int, *, warnings: tuple[Warn, ...] = ()
) -> TradeoffResult:
    """Token passes and FLOPs of generating `tokens` without and with a cache, and its bytes."""
    parameters, attention = flops.pass_parameters(model), flops.attention_of(model)
    passes = tokens * (tokens + 1) // 2
    uncached = Work(
        None if parameters is None else 2 * parameters * passes,
        None if attention is None else sum(a.prefill * a.seen_in_passes(tokens) for a in attention),
    )
    cached = Work(
        None if parameters is None else 2 * parameters * tokens,
        None if attention is None else sum(a.decode * a.seen_in_pass(tokens) for a in attention),
    )
    return TradeoffResult(
        model=model_info(model),
        kv_dtype=KvDtype(storage.k.key, storage.v.key),
        tokens=tokens,
        uncached_token_passes=passes,
        cached_token_passes=tokens,
        ratio=passes / tokens,
        per_step=tuple(_step(t, parameters, attention) for t in _listed(tokens)),
        uncached=uncached,
        cached=cached,
        uncached_flops=_sum(uncached),
        cached_flops=_sum(cached),
        kv_bytes=model.bytes_at(tokens, storage),
        pass_parameters=parameters,
        warnings=warnings,
    )


def _sum(work: Work) -> int | None:
    projection, attention = work
    return None if projection is None or attention is None else projection + attention


def _listed(tokens: int) -> list[int]:
    """Every step up to 64; else 32 evenly chosen ones, the first and the last among them."""
    if tokens <= ALL_STEPS:
        return list(range(1, tokens + 1))
    return [1 + i * (tokens - 1) // (SOME_STEPS - 1) for i in range(SOME_STEPS)]


def _step(t: int, parameters: int | None, attention: tuple[flops.Attention, ...] | None) -> Step:
    """Step t: t passes without a cache, one with it."""
    return Step(
        token=t,
        uncached_passes=t,
        cached_passes=1,
        projection_flops=None if parameters is None else 2 * parameters,
        attention_flops=None if attention is None else sum(a.decode * a.seen(t) for a in attention),
        uncached_projection_flops=None if parameters is None else 2 * parameters * t,
        uncached_attention_flops=None
        if attention is None
        else sum(a.prefill * a.seen_in_pass(t) for a in attention),
    )
