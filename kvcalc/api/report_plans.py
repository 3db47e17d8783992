"""One plan of a report: what the engine says at every context and number of requests it holds.

Nothing here is computed that `core.fit` does not: a plan is asked at each point. Where the answers
of one request, of the asked number and of the most agree on budget and texts, they stand once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvcalc.api.fit_plan import gpus_of, machine_of, parallel_of, plan_of, plan_on, sizes_of
from kvcalc.api.fit_suggest import suggestions_for
from kvcalc.core import fit as core
from kvcalc.core.model import Model
from kvcalc.core.plan import LONGEST
from kvcalc.core.results.fit import BudgetLine, GpuInfo, Suggestion
from kvcalc.core.results.report import Growth, Plan, Side, Start, Step
from kvcalc.core.units import cdiv


class Deployment(NamedTuple):
    """One combination of the options: a plan of the engine, and the GPU it is for."""

    plan: core.Plan
    gpu: GpuInfo | None
    asked: dict[str, Any]

    @property
    def machine(self) -> str:
        """The machine in few words: "2 × h100-sxm"."""
        if self.gpu is None:
            return "no machine given"
        return f"{self.gpu.count} × {self.gpu.id or self.gpu.name}"


class Points(NamedTuple):
    """The points that all plans of a report share."""

    contexts: tuple[int, ...]
    requests: tuple[int, ...]
    growth: tuple[int, ...]


def deployment(model: Model, asked: dict[str, Any]) -> Deployment:
    """The options as `fit` reads them; without a machine, as a pool that nothing bounds.

    Raises:
        KvcalcError: What `fit` raises for the same options.
    """
    known = asked.keys() & {"gpu", "gpu_memory", "kv_pool", "kv_pool_tokens"}
    if not known:
        parallel = parallel_of(gpus_of(None, asked.get("gpus")), sizes_of(asked))
        endless = {**asked, "kv_pool": LONGEST}
        return Deployment(plan_of(model, None, parallel, endless), None, asked)
    machine = machine_of(asked.get("gpu"), asked.get("gpu_memory"))
    plan = plan_on(machine, model, asked)
    return Deployment(plan, machine.info._replace(count=plan.parallel.gpus), asked)


def ladder(found: Deployment, contexts: Sequence[int]) -> list[int]:
    """The most requests of each context that fit."""
    if found.gpu is None:
        return []
    most = []
    for tokens in contexts:
        plan = found.plan._replace(context=tokens)
        most.append(core.most_requests(plan, core.rank_plans(plan), tokens).best)
    return most


def plan_table(found: Deployment, points: Points, ask: str) -> Plan:
    """The plan at every point."""
    made = _Table(found, points)
    steps = tuple(made.step(tokens) for tokens in points.contexts)
    full = [made.full_at(tokens) for tokens in points.contexts]
    rules = core.rules_of(found.plan)
    return Plan(
        machine=found.machine,
        kv_dtype=found.plan.storage.label,
        gpu=found.gpu,
        engine=rules.info(found.plan),
        parallel=found.plan.parallel,
        replicas=found.plan.parallel.dp,
        budgets=tuple(made.budgets),
        steps=steps,
        full_at_tokens=tuple(full[:1] if len(set(full)) == 1 else full),
        growth=made.growth(),
        texts=tuple(made.texts),
        ask=ask,
    )


class _Table:
    """Collects what differs between the points of one plan."""

    def __init__(self, found: Deployment, points: Points) -> None:
        self.found, self.points = found, points
        self.budgets: list[tuple[BudgetLine, ...]] = []
        self.texts: list[Start] = []
        n = points.requests
        self.probes = sorted({n[0], found.plan.requests, n[-1]})

    def step(self, tokens: int) -> Step:
        """All about one context."""
        base = self.found.plan._replace(context=tokens)
        ranks = core.rank_plans(base)
        steady = all(core.rank_plans(base._replace(requests=n)) == ranks for n in self.probes)
        texts = [self._text(base._replace(requests=n)) for n in self.probes]
        sides: list[Side] = []
        chosen, said = [], []
        for n in self.points.requests:
            plan = base._replace(requests=n)
            chosen.append(self._side(plan, ranks if steady else core.rank_plans(plan), sides))
            if len(set(texts)) > 1:
                said.append(self._text(plan))
        most = core.most_requests(base, ranks, tokens)
        none = self.found.gpu is None
        return Step(
            context_tokens=tokens,
            max_requests=None if none else most.best,
            max_requests_low=None if none else most.low,
            max_requests_high=None if none else most.high,
            max_context_tokens=None if none else core.longest_context(base, ranks),
            sides=tuple(sides),
            side_of=tuple(chosen[:1] if len(set(chosen)) == 1 else chosen),
            text_of=tuple(said or texts[:1]),
            suggestions=() if none else self._suggestions(base),
        )

    def _suggestions(self, plan: core.Plan) -> tuple[Suggestion, ...]:
        """Single changes; a shorter context is on the slider already."""
        asked = {**self.found.asked, "context": plan.context}
        return tuple(s for s in suggestions_for(plan, asked) if s.change != "context")

    def _text(self, plan: core.Plan) -> int:
        """The index of what the engine says of a state."""
        rules = core.rules_of(plan)
        ranks = core.rank_plans(plan)
        start = Start(
            rules.command(plan), rules.startup_lines(plan, ranks), rules.limits(plan, ranks)
        ) if self.found.gpu is not None else Start(None, (), ())  # fmt: skip
        if start not in self.texts:
            self.texts.append(start)
        return self.texts.index(start)

    def _side(self, plan: core.Plan, ranks: list[core.RankPlan], sides: list[Side]) -> int:
        """The index of the side that decides, found as `core.fit` finds it."""
        rules, i = core.rules_of(plan), core.tightest(plan, ranks)
        budget = None
        if self.found.gpu is not None:
            if ranks[i].budget not in self.budgets:
                self.budgets.append(ranks[i].budget)
            budget = self.budgets.index(ranks[i].budget)
        known = next((k for k, s in enumerate(sides) if (s.rank, s.budget) == (i, budget)), None)
        if known is not None:
            return known
        counts = [cdiv(m, plan.parallel.dp) for m in self.points.requests]
        needed = [rules.needed(plan, ranks[i], plan.context, m) for m in counts]
        first, fixed, each, exact = _affine(counts, needed)
        one = rules.request_bytes(plan, ranks[i], plan.context)
        sides.append(Side(i, budget, one, first, fixed, each, None if exact else tuple(needed)))
        return len(sides) - 1

    def full_at(self, tokens: int) -> tuple[int | None, ...]:
        """Tokens each of so many requests may reach, by the budget of this context."""
        if self.found.gpu is None:
            return (None,) * len(self.points.requests)
        base = self.found.plan._replace(context=tokens)
        ranks = core.rank_plans(base)
        bound = base.model.max_context_tokens
        reached = (core.longest_context(base, ranks, n) for n in self.points.requests)
        return tuple(None if n == bound else n for n in reached)

    def growth(self) -> tuple[Growth, ...]:
        """What requests take of each rank as they grow."""
        plan = self.found.plan
        rules, ranks = core.rules_of(plan), core.rank_plans(plan)
        counts = [cdiv(m, plan.parallel.dp) for m in self.points.requests]
        made = []
        for rank in ranks:
            rows = [
                [rules.needed(plan, rank, t, n) if t else 0 for n in counts]
                for t in self.points.growth
            ]
            lines = [_affine(counts, row) for row in rows]
            exact = all(line[3] for line in lines)
            table = tuple(tuple(row[j] for row in rows) for j in range(len(counts)))
            made.append(Growth(
                tuple(line[0] for line in lines), tuple(line[1] for line in lines),
                tuple(line[2] for line in lines), None if exact else table,
            ))  # fmt: skip
        return tuple(made)


def _affine(counts: Sequence[int], needed: Sequence[int]) -> tuple[int, int, int, bool]:
    """(first, fixed, each, whether all others lie on fixed + n · each); counts ascend from 1."""
    first = needed[counts.index(1)]
    points = [(n, b) for n, b in zip(counts, needed, strict=True) if n > 1]
    if len(points) < 2 or points[0][0] == points[-1][0]:
        return first, 0, first, all(b == n * first for n, b in points)
    (n0, b0), (n1, b1) = points[0], points[-1]
    each = (b1 - b0) // (n1 - n0)
    fixed = b0 - n0 * each
    return first, fixed, each, all(b == fixed + n * each for n, b in points)
