"""What fits: a budget to a KV pool, a pool to requests at a context and to the longest context.

An engine's `Rules` answer what is its own; here the tightest rank decides, whatever the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from kvcalc.core.errors import KvcalcError
from kvcalc.core.plan import (
    LONGEST,
    Change,
    Device,
    Interval,
    Memory,
    Plan,
    RankPlan,
    Rules,
    kinds,
)
from kvcalc.core.results.base import Warn
from kvcalc.core.results.fit import (
    FitResult,
    GpuInfo,
    Ideal,
    LadderStep,
    Limit,
    Rank,
    SharedPrefix,
    Solved,
    Suggestion,
    Typical,
)
from kvcalc.core.size import model_info
from kvcalc.core.textbook import TEXTBOOK
from kvcalc.core.units import cdiv

__all__ = [
    "Change", "Device", "Interval", "Memory", "Plan", "RankPlan", "Rules", "fit", "fits", "kinds",
    "largest", "longest_context", "most_requests", "rank_plans", "rules_of", "tightest",
]  # fmt: skip


def rank_plans(plan: Plan) -> list[RankPlan]:
    """The GPUs that differ: one of each pipeline stage, with budget and pool in bytes.

    Raises:
        KvcalcError: "not_divisible" where heads or layers do not divide.
    """
    return rules_of(plan).ranks(plan)


def most_requests(plan: Plan, ranks: Sequence[RankPlan], tokens: int) -> Interval:
    """Requests of `tokens` over all replicas: the tightest rank decides."""
    replicas = plan.parallel.dp
    low, best, high = (
        replicas * min(rules_of(plan).requests(plan, r, pick(r.pool), tokens) for r in ranks)
        for pick in (_low, _best, _high)
    )
    return Interval(best, low, high)


def rules_of(plan: Plan) -> Rules:
    """The engine's rules that judge the plan."""
    return plan.rules or TEXTBOOK


def fits(plan: Plan) -> bool:
    """Whether the wanted requests fit; a plan that the engine refuses does not."""
    try:
        return most_requests(plan, rank_plans(plan), plan.context).best >= plan.requests
    except KvcalcError:  # a number of GPUs that heads do not divide by, blocks that do not fit
        return False


def tightest(plan: Plan, ranks: Sequence[RankPlan]) -> int:
    """The index of the rank that decides: that lacks most, or else holds the fewest requests."""
    rules, n = rules_of(plan), cdiv(plan.requests, plan.parallel.dp)
    missing = [rules.needed(plan, r, plan.context, n) - r.pool.best for r in ranks]
    worst = max(range(len(ranks)), key=missing.__getitem__)
    if missing[worst] > 0:
        return worst
    held = [rules.requests(plan, r, r.pool.best, plan.context) for r in ranks]
    return held.index(min(held))


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
        return all(
            rules_of(plan).needed(plan, r, tokens, per_replica) <= r.pool.best for r in ranks
        )

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
    rules = rules_of(plan)
    ranks = rules.ranks(plan)
    per_replica = cdiv(plan.requests, plan.parallel.dp)
    tight = ranks[tightest(plan, ranks)]
    needed = [rules.needed(plan, r, plan.context, per_replica) for r in ranks]
    missing = max(
        (Interval(n - r.pool.best, n - r.pool.high, n - r.pool.low)
         for n, r in zip(needed, ranks, strict=True)),
        key=lambda m: m.best,
    )  # fmt: skip
    most = most_requests(plan, ranks, plan.context)
    longest = longest_context(plan, ranks)
    return FitResult(
        model=model_info(plan.model),
        gpu=gpu,
        engine=rules.info(plan),
        parallel=plan.parallel,
        replicas=plan.parallel.dp,
        fits=most.best >= plan.requests,
        requests=plan.requests,
        kv_dtype=plan.storage.label,
        weights=plan.weights,
        budget=tight.budget,
        kv_pool_bytes=tight.pool.best,
        bytes_per_request=rules.request_bytes(plan, tight, plan.context),
        kv_pool_tokens=_pool_tokens(plan, ranks),
        block_tokens=rules.block_tokens(plan),
        context_tokens=plan.context,
        max_requests=most.best,
        max_requests_low=most.low,
        max_requests_high=most.high,
        max_context_tokens=longest,
        ladder=_ladder(plan, ranks),
        ideal=_ideal(plan),
        ranks=_ranks(plan, ranks),
        shortfall_bytes=max(missing.best, 0),
        shortfall_low_bytes=max(missing.low, 0),
        shortfall_high_bytes=max(missing.high, 0),
        typical=_typical(plan, ranks),
        shared_prefix=_prefix(plan),
        solved=solved,
        startup_lines=rules.startup_lines(plan, ranks),
        limits=(*rules.limits(plan, ranks), *_unshared(plan), *_limits(plan, longest)),
        suggestions=tuple(suggestions),
        line=rules.command(plan) or line,
        ask_again=line,
        warnings=warnings,
    )


def _prefix(plan: Plan) -> SharedPrefix | None:
    if not plan.shared_prefix:
        return None
    shared = rules_of(plan).shared_tokens(plan)
    return SharedPrefix(plan.shared_prefix, shared, plan.prefix_copies)


def _unshared(plan: Plan) -> tuple[Limit, ...]:
    """Why a prefix is stored again for every request."""
    prefix = _prefix(plan)
    if prefix is None or prefix.shared_tokens:
        return ()
    rules = rules_of(plan)
    block, engine = rules.block_tokens(plan), rules.info(plan).id
    text = (
        f"{engine} shares no prefix between requests so: each stores its {prefix.tokens:,} tokens"
    )
    if block is not None and prefix.tokens < block:
        text = (
            f"a prefix of {prefix.tokens:,} tokens is shorter than a block of {block:,}: "
            "nothing of it is shared"
        )
    return (Limit("shared_prefix", text),)


def _typical(plan: Plan, ranks: Sequence[RankPlan]) -> Typical | None:
    average = plan.average_context
    if average is None:
        return None
    return Typical(average, most_requests(plan, ranks, average).best)


def _pool_tokens(plan: Plan, ranks: Sequence[RankPlan]) -> int | None:
    """Tokens that all replicas hold: those of the tightest rank of each."""
    counts = [n for r in ranks if (n := rules_of(plan).rank_tokens(plan, r)) is not None]
    return plan.parallel.dp * min(counts) if counts else None


def _ladder(plan: Plan, ranks: Sequence[RankPlan]) -> tuple[LadderStep, ...]:
    bound = plan.model.max_context_tokens or max(131_072, plan.context)
    contexts = {plan.context} | {2**k for k in range(11, 41) if 2**k <= bound}
    if plan.model.max_context_tokens is not None:
        contexts.add(plan.model.max_context_tokens)
    steps = []
    for tokens in sorted(n for n in contexts if n > plan.shared_prefix):
        most = most_requests(plan, ranks, tokens)
        each = max(rules_of(plan).request_bytes(plan, r, tokens) for r in ranks)
        steps.append(LadderStep(
            tokens, most.best, most.best >= plan.requests, each, most.low, most.high
        ))  # fmt: skip
    return tuple(steps)


def _ideal(plan: Plan) -> Ideal:
    """M_total = M_weights + M_KV × B: nothing left unused, no pages."""
    bare = plan._replace(rules=None, utilization=Fraction(1), reserve=0, block_size=None)
    ranks = rank_plans(bare)
    pool = sum(max(r.pool.best, 0) * r.gpus for r in ranks) * plan.parallel.dp
    most = most_requests(bare, ranks, plan.context).best
    return Ideal(pool, most, longest_context(bare, ranks))


def _ranks(plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Rank, ...]:
    rules, rows = rules_of(plan), []
    for r in ranks:
        block = rules.block_bytes(plan, r)
        blocks = None if block is None else max(r.pool.best, 0) // block
        rows.append(Rank(
            r.rank, r.stage, len(r.model.layers), r.weight_bytes, r.pool.best,
            r.model.token_bytes(plan.storage), rules.rank_tokens(plan, r) or 0, r.device.id,
            block, blocks,
        ))  # fmt: skip
    return tuple(rows)


def _limits(plan: Plan, longest: int | None) -> tuple[Limit, ...]:
    most = plan.model.max_context_tokens
    if most is not None and longest == most and not plan.allow_long:
        return (Limit("model_maximum", f"the context ends at the model's {most:,} tokens"),)
    return ()
