"""What fits: a budget to a KV pool, a pool to requests at a context and to the longest context.

The textbook engine: M_total = M_weights + M_KV × B, per GPU of the tightest rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvcalc.core import shard
from kvcalc.core.dtypes import Storage
from kvcalc.core.model import Model
from kvcalc.core.results.base import EngineInfo, Warn, WeightInfo
from kvcalc.core.results.fit import (
    BudgetLine,
    FitResult,
    GpuInfo,
    Ideal,
    LadderStep,
    Limit,
    Rank,
    Solved,
    Suggestion,
    Typical,
)
from kvcalc.core.size import block_bytes, model_info, shared_bytes
from kvcalc.core.units import cdiv, pad

#: Beyond this no context is searched for; a state-only model has no end.
LONGEST = 2**40
_BASIS = ("exact", "measured", "estimated")


class Memory(NamedTuple):
    """Memory of one GPU that a program sees, bytes."""

    bytes: int
    basis: str = "exact"
    low: int | None = None
    high: int | None = None


class Plan(NamedTuple):
    """One deployment to be judged."""

    model: Model
    storage: Storage
    parallel: shard.Parallel
    weights: WeightInfo
    memory: Memory | None
    context: int
    requests: int = 1
    utilization: Fraction = Fraction(1)
    reserve: int = 0
    #: Per GPU and known: the budget is skipped.
    kv_pool: int | None = None
    kv_pool_tokens: int | None = None
    #: Whole pages of so many tokens; None counts tokens exactly, as the textbook does.
    block_size: int | None = None
    shared_prefix: int = 0
    average_context: int | None = None
    allow_long: bool = False


class Interval(NamedTuple):
    """A best estimate between two bounds."""

    best: int
    low: int
    high: int


class RankPlan(NamedTuple):
    """One GPU of a pipeline stage: what it holds and its pool."""

    model: Model
    weight_bytes: int
    pool: Interval
    budget: tuple[BudgetLine, ...]


def rank_plans(plan: Plan) -> list[RankPlan]:
    """The GPUs that differ: one of each pipeline stage, with budget and pool in bytes.

    Raises:
        KvcalcError: "not_divisible" where heads or layers do not divide.
    """
    ranks = []
    for model in shard.stage_ranks(plan.model, plan.parallel):
        share = Fraction(len(model.layers), len(plan.model.layers) * plan.parallel.tp)
        budget = _budget(plan, share, model)
        last = budget[-1]
        weight = next((-line.bytes for line in budget if line.item == "weights"), 0)
        pool = Interval(last.bytes, last.low_bytes, last.high_bytes)
        ranks.append(RankPlan(model, weight, pool, budget))
    return ranks


def _budget(plan: Plan, share: Fraction, rank: Model) -> tuple[BudgetLine, ...]:
    """Memory − unused − reserve − weights = KV pool; each line signed, low ≤ bytes ≤ high."""
    if plan.kv_pool is not None:
        return (_exact("kv_pool", plan.kv_pool, "given"),)
    if plan.kv_pool_tokens is not None:
        one = _request_bytes(plan, rank, plan.context)
        pool = cdiv(plan.kv_pool_tokens * one, _held(plan))
        return (_exact("kv_pool", pool, f"{plan.kv_pool_tokens:,} tokens, given"),)
    memory = plan.memory
    assert memory is not None  # noqa: S101 - the API asked for it; for the type checker
    low, high = memory.low or memory.bytes, memory.high or memory.bytes
    lines = [BudgetLine("memory", memory.bytes, memory.basis, low, high, "what a program sees")]
    if plan.utilization != 1:
        rest = [n - int(n * plan.utilization) for n in (memory.bytes, low, high)]
        note = f"utilization {float(plan.utilization):g}"
        lines.append(BudgetLine("unused", -rest[0], memory.basis, -rest[1], -rest[2], note))
    if plan.reserve:
        lines.append(_exact("reserve", -plan.reserve, "--reserve"))
    w = plan.weights
    if w.bytes is not None:
        low_w, high_w = w.low_bytes or w.bytes, w.high_bytes or w.bytes
        best, most, least = (cdiv(n * share.numerator, share.denominator)
                             for n in (w.bytes, high_w, low_w))  # fmt: skip
        name = w.format or ""
        uneven = plan.parallel.pp > 1 and w.basis == "exact"
        basis = "estimated" if uneven else w.basis
        lines.append(BudgetLine("weights", -best, basis, -most, -least, name))
    basis = max((line.basis for line in lines), key=_BASIS.index)
    best = sum(line.bytes for line in lines)
    low, high = sum(line.low_bytes for line in lines), sum(line.high_bytes for line in lines)
    return (*lines, BudgetLine("kv_pool", best, basis, low, high))


def _exact(item: str, value: int, note: str) -> BudgetLine:
    return BudgetLine(item, value, "exact", value, value, note)


def _request_bytes(plan: Plan, rank: Model, tokens: int) -> int:
    """Bytes of one request of `tokens` on one rank."""
    if plan.block_size is not None:
        local = cdiv(tokens, plan.parallel.dcp)
        return block_bytes(rank, plan.storage, local, plan.block_size)
    return shard.rank_bytes(rank, tokens, plan.storage, plan.parallel.dcp)


def _shared(plan: Plan, rank: Model, tokens: int) -> int:
    dcp = plan.parallel.dcp
    prefix = min(plan.shared_prefix, tokens) // dcp
    return shared_bytes(rank, plan.storage, cdiv(tokens, dcp), prefix) if prefix else 0


def requests_in(plan: Plan, rank: Model, pool: int, tokens: int) -> int:
    """Requests of `tokens` that one rank's pool holds; a shared prefix is stored once."""
    one, shared = _request_bytes(plan, rank, tokens), _shared(plan, rank, tokens)
    if pool < one:
        return 0
    return LONGEST if one == shared else (pool - shared) // (one - shared)


def needed(plan: Plan, rank: Model, tokens: int, requests: int) -> int:
    """Bytes of `requests` requests of `tokens` on one rank."""
    one, shared = _request_bytes(plan, rank, tokens), _shared(plan, rank, tokens)
    return requests * one - (requests - 1) * shared


def most_requests(plan: Plan, ranks: Sequence[RankPlan], tokens: int) -> Interval:
    """Requests of `tokens` over all replicas: the tightest rank decides."""
    replicas = plan.parallel.dp
    low, best, high = (
        replicas * min(requests_in(plan, r.model, pick(r.pool), tokens) for r in ranks)
        for pick in (_low, _best, _high)
    )
    return Interval(best, low, high)


def _low(i: Interval) -> int:
    return i.low


def _best(i: Interval) -> int:
    return i.best


def _high(i: Interval) -> int:
    return i.high


def longest_context(plan: Plan, ranks: Sequence[RankPlan], requests: int = 1) -> int | None:
    """The longest context of `requests` requests; None if it never ends, 0 if none fits."""
    bound = LONGEST if plan.allow_long else plan.model.max_context_tokens or LONGEST
    per_replica = cdiv(requests, plan.parallel.dp)

    def fits(tokens: int) -> bool:
        return all(needed(plan, r.model, tokens, per_replica) <= r.pool.best for r in ranks)

    most = largest(fits, bound)
    return None if most == LONGEST else most


def largest(fits: Callable[[int], bool], bound: int) -> int:
    """The largest n within [0, bound] for which `fits` holds, given it holds up to some n."""
    if fits(bound):
        return bound
    low, high = 0, bound
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def fit(
    plan: Plan,
    gpu: GpuInfo,
    *,
    suggestions: Sequence[Suggestion] = (),
    solved: Solved | None = None,
    line: str = "",
    warnings: tuple[Warn, ...] = (),
) -> FitResult:
    """Whether `plan.requests` requests of `plan.context` tokens fit, and all around it.

    Raises:
        KvcalcError: "not_divisible" where heads or layers do not divide.
    """
    ranks = rank_plans(plan)
    per_replica = cdiv(plan.requests, plan.parallel.dp)
    missing = [
        Interval(*(needed(plan, r.model, plan.context, per_replica) - p for p in
                   (r.pool.best, r.pool.high, r.pool.low)))
        for r in ranks
    ]  # fmt: skip
    worst = max(range(len(ranks)), key=lambda i: missing[i].best)
    tight = min(ranks, key=lambda r: requests_in(plan, r.model, r.pool.best, plan.context))
    if missing[worst].best > 0:
        tight = ranks[worst]
    most = most_requests(plan, ranks, plan.context)
    one = _request_bytes(plan, tight.model, plan.context)
    longest = longest_context(plan, ranks)
    return FitResult(
        model=model_info(plan.model),
        gpu=gpu,
        engine=EngineInfo("none"),
        parallel=plan.parallel,
        replicas=plan.parallel.dp,
        fits=most.best >= plan.requests,
        requests=plan.requests,
        kv_dtype=plan.storage.label,
        weights=plan.weights,
        budget=tight.budget,
        kv_pool_bytes=tight.pool.best,
        bytes_per_request=one,
        kv_pool_tokens=_pool_tokens(plan, tight, one),
        block_tokens=plan.block_size,
        context_tokens=plan.context,
        max_requests=most.best,
        max_requests_low=most.low,
        max_requests_high=most.high,
        max_context_tokens=longest,
        ladder=_ladder(plan, ranks),
        ideal=_ideal(plan),
        ranks=_ranks(plan, ranks),
        shortfall_bytes=max(missing[worst].best, 0),
        shortfall_low_bytes=max(missing[worst].low, 0),
        shortfall_high_bytes=max(missing[worst].high, 0),
        typical=None
        if plan.average_context is None
        else Typical(plan.average_context, most_requests(plan, ranks, plan.average_context).best),
        solved=solved,
        startup_lines=(),
        limits=_limits(plan, longest),
        suggestions=tuple(suggestions),
        line=line,
        warnings=warnings,
    )


def _pool_tokens(plan: Plan, rank: RankPlan, one: int) -> int | None:
    """Tokens of requests at this context that all replicas hold."""
    return None if one == 0 else plan.parallel.dp * _tokens_in(plan, rank.pool.best, one)


def _tokens_in(plan: Plan, pool: int, one: int) -> int:
    """pool · context / request; in pages whole ones: 16 GiB of 57,344 B a token are 18,724 of 16."""
    tokens = max(pool, 0) * _held(plan) // one
    page = plan.parallel.dcp * (plan.block_size or 1)
    return tokens if plan.block_size is None else tokens // page * page


def _held(plan: Plan) -> int:
    """Tokens that one request's bytes have room for: its context, in whole pages."""
    if plan.block_size is None:
        return plan.context
    return plan.parallel.dcp * pad(cdiv(plan.context, plan.parallel.dcp), plan.block_size)


def _ladder(plan: Plan, ranks: Sequence[RankPlan]) -> tuple[LadderStep, ...]:
    bound = plan.model.max_context_tokens or max(131_072, plan.context)
    contexts = {plan.context} | {2**k for k in range(11, 41) if 2**k <= bound}
    if plan.model.max_context_tokens is not None:
        contexts.add(plan.model.max_context_tokens)
    steps = []
    for tokens in sorted(contexts):
        most = most_requests(plan, ranks, tokens)
        each = max(_request_bytes(plan, r.model, tokens) for r in ranks)
        steps.append(LadderStep(
            tokens, most.best, most.best >= plan.requests, each, most.low, most.high
        ))  # fmt: skip
    return tuple(steps)


def _ideal(plan: Plan) -> Ideal:
    """M_total = M_weights + M_KV × B: nothing left unused, no pages."""
    bare = plan._replace(utilization=Fraction(1), reserve=0, block_size=None)
    ranks = rank_plans(bare)
    pool = sum(max(r.pool.best, 0) for r in ranks) * plan.parallel.tp * plan.parallel.dp
    most = most_requests(bare, ranks, plan.context).best
    return Ideal(pool, most, longest_context(bare, ranks))


def _ranks(plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Rank, ...]:
    rows = []
    for stage, r in enumerate(ranks):
        one = _request_bytes(plan, r.model, plan.context)
        tokens = _tokens_in(plan, r.pool.best, one) if one else 0
        rows.append(Rank(
            stage * plan.parallel.tp, stage, len(r.model.layers), r.weight_bytes, r.pool.best,
            r.model.token_bytes(plan.storage), tokens,
        ))  # fmt: skip
    return tuple(rows)


def _limits(plan: Plan, longest: int | None) -> tuple[Limit, ...]:
    most = plan.model.max_context_tokens
    if most is not None and longest == most and not plan.allow_long:
        return (Limit("model_maximum", f"the context ends at the model's {most:,} tokens"),)
    return ()
