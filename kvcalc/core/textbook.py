"""The textbook engine: M_total = M_weights + M_KV × B, with nothing kept for anything else."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvcalc.core import shard, sharing
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.plan import BASIS, Change, Plan, RankPlan, rank_plan, seats
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.sharing import shared_bytes
from kvcalc.core.size import block_bytes
from kvcalc.core.units import cdiv, pad

#: Pages in which a prefix is shared; tokens alone are counted exactly.
_PAGE = 16


class Textbook:
    """Memory − weights is KV cache; tokens are counted exactly, or in whole pages if asked."""

    def info(self, plan: Plan) -> EngineInfo:  # noqa: ARG002 - the engines share one interface
        """The engine "none"."""
        return EngineInfo("none")

    def ranks(self, plan: Plan) -> list[RankPlan]:
        """One GPU of each pipeline stage; weights are shared out by layers.

        Raises:
            KvcalcError: "not_divisible" where heads or layers do not divide.
        """
        ranks = []
        for stage, model in enumerate(shard.stage_ranks(plan.model, plan.parallel)):
            share = Fraction(len(model.layers), len(plan.model.layers)) * _split(plan)
            ranks += [
                rank_plan(model, seat, self._budget(seat.plan, share, model))
                for seat in seats(plan, stage)
            ]
        return ranks

    def _budget(self, plan: Plan, share: Fraction, rank: Model) -> tuple[BudgetLine, ...]:
        """Memory − unused − reserve − weights = KV pool."""
        if plan.kv_pool is not None:
            return (exact("kv_pool", plan.kv_pool, "given"),)
        if plan.kv_pool_tokens is not None:
            one = _one(plan, rank, plan.context)
            pool = cdiv(plan.kv_pool_tokens * one, _held(plan))
            return (exact("kv_pool", pool, f"{plan.kv_pool_tokens:,} tokens, given"),)
        return with_pool([*memory_lines(plan, Fraction(1)), *weight_lines(plan, share)])

    def request_bytes(self, plan: Plan, rank: RankPlan, tokens: int) -> int:
        """Bytes of one request of `tokens` on one rank."""
        return _one(plan, rank.model, tokens)

    def requests(self, plan: Plan, rank: RankPlan, pool: int, tokens: int) -> int:
        """Requests of `tokens` that one rank's pool holds; a shared prefix is stored once."""
        one, shared = _one(plan, rank.model, tokens), _shared(plan, rank.model, tokens)
        return sharing.most(pool, one, shared, plan.prefix_copies)

    def needed(self, plan: Plan, rank: RankPlan, tokens: int, requests: int) -> int:
        """Bytes of `requests` requests of `tokens` on one rank."""
        one, shared = _one(plan, rank.model, tokens), _shared(plan, rank.model, tokens)
        return sharing.held(requests, one, shared, plan.prefix_copies)

    def block_tokens(self, plan: Plan) -> int | None:
        """The page of --block-size, if one was given."""
        return plan.block_size

    def shared_tokens(self, plan: Plan) -> int:
        """Whole pages of the prefix."""
        return _prefix(plan, plan.context)

    def block_bytes(self, plan: Plan, rank: RankPlan) -> int | None:  # noqa: ARG002 - one interface
        """Layers have pages of their own."""
        return None

    def rank_tokens(self, plan: Plan, rank: RankPlan) -> int | None:
        """pool · context / request; in pages whole ones: 16 GiB at 57,344 B are 18,724 of 16."""
        one = _one(plan, rank.model, plan.context)
        if one == 0:
            return None
        tokens = max(rank.pool.best, 0) * _held(plan) // one
        page = plan.parallel.dcp * (plan.block_size or 1)
        return tokens if plan.block_size is None else tokens // page * page

    def startup_lines(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[str, ...]:  # noqa: ARG002
        """A textbook logs nothing."""
        return ()

    def limits(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Limit, ...]:  # noqa: ARG002
        """None of its own."""
        return ()

    def command(self, plan: Plan) -> str | None:  # noqa: ARG002
        """Nothing to start."""
        return None

    def changes(self, plan: Plan) -> list[Change]:  # noqa: ARG002
        """No settings of its own."""
        return []


TEXTBOOK = Textbook()


def exact(item: str, value: int, note: str) -> BudgetLine:
    """A line without doubt."""
    return BudgetLine(item, value, "exact", value, value, note)


def memory_lines(plan: Plan, default: Fraction) -> list[BudgetLine]:
    """The memory a program sees, what utilization leaves unused, and --reserve."""
    memory = plan.memory
    assert memory is not None  # noqa: S101 - the API asked for it; for the type checker
    share = default if plan.utilization is None else plan.utilization
    low, high = memory.low or memory.bytes, memory.high or memory.bytes
    lines = [BudgetLine("memory", memory.bytes, memory.basis, low, high, "")]
    if share != 1:
        rest = [n - int(n * share) for n in (memory.bytes, low, high)]
        note = f"utilization {float(share):g}"
        lines.append(BudgetLine("unused", -rest[0], "exact", -rest[1], -rest[2], note))
    if plan.reserve:
        lines.append(exact("reserve", -plan.reserve, "--reserve"))
    return lines


def weight_lines(plan: Plan, share: Fraction) -> list[BudgetLine]:
    """One rank's share of the weights, rounded up; between uneven stages it is an estimate."""
    w = plan.weights
    if w.bytes is None:
        return []
    low, high = w.low_bytes or w.bytes, w.high_bytes or w.bytes
    best, most, least = (cdiv(n * share.numerator, share.denominator) for n in (w.bytes, high, low))
    uneven = plan.parallel.pp > 1 and w.basis == "exact"
    basis = "estimated" if uneven else w.basis
    return [BudgetLine("weights", -best, basis, -most, -least, w.format or "")]


def _split(plan: Plan) -> Fraction:
    """One rank's share of a stage's weights: 1 / tp, but routed experts over the ep ranks.

    Of a mixture's total P and active A parameters the routed experts are (P − A) / (1 − k / E):
    all but k of E experts idle for a token.

    Raises:
        KvcalcError: "usage" for a dense model or where A, k or E is not known; "not_divisible".
    """
    p, model = plan.parallel, plan.model
    if p.ep == 1:
        return Fraction(1, p.tp)
    total, active = model.parameters, model.active_parameters
    count, used = model.experts, model.experts_per_token
    if not count:
        raise KvcalcError("usage", f"--ep {p.ep}: {model.id} has no experts", "leave it out")
    if (p.tp * p.dp) % p.ep or count % p.ep:
        raise KvcalcError(
            "not_divisible",
            f"--ep {p.ep} divides --tp × --dp = {p.tp * p.dp} or the {count} experts unevenly",
            "use --ep equal to tp × dp, or a divisor of both",
        )
    if not total or not active or not used or used >= count:
        raise KvcalcError(
            "usage", f"--ep {p.ep}: the experts' share of {model.id} is not known",
            "leave it out, or give the pool itself as --kv-pool",
        )  # fmt: skip
    routed = Fraction(total - active) / (1 - Fraction(used, count)) / total
    return (1 - routed) / p.tp + routed / p.ep


def with_pool(lines: Sequence[BudgetLine]) -> tuple[BudgetLine, ...]:
    """The lines and what they leave: the KV pool, as sure as the least sure of them."""
    basis = max((line.basis for line in lines), key=BASIS.index)
    best = sum(line.bytes for line in lines)
    low, high = sum(line.low_bytes for line in lines), sum(line.high_bytes for line in lines)
    return (*lines, BudgetLine("kv_pool", best, basis, low, high))


def _held(plan: Plan) -> int:
    """Tokens that one request's bytes have room for: its context, in whole pages."""
    dcp = plan.parallel.dcp
    return dcp * pad(cdiv(plan.context, dcp), plan.block_size or 1)


def _one(plan: Plan, rank: Model, tokens: int) -> int:
    if plan.block_size is not None:
        return block_bytes(rank, plan.storage, tokens, plan.block_size, plan.parallel.dcp)
    return shard.rank_bytes(rank, tokens, plan.storage, plan.parallel.dcp)


def _prefix(plan: Plan, tokens: int) -> int:
    """What requests of `tokens` share: whole pages, of 16 tokens where none are given."""
    page = plan.block_size or _PAGE
    return min(plan.shared_prefix, tokens) // page * page


def _shared(plan: Plan, rank: Model, tokens: int) -> int:
    prefix = _prefix(plan, tokens)
    return shared_bytes(rank, plan.storage, tokens, prefix, plan.parallel.dcp) if prefix else 0
