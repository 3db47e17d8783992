"""The answer of `kvcalc report`: one deployment in full, as a page carries it.

Every figure is the engine's at one of the listed contexts and numbers of requests. A page may
multiply requests by bytes (`fixed_bytes` + requests of a replica × `each_bytes`) and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import EngineInfo, ModelInfo, Result, Warn, WeightInfo
from kvcalc.core.results.compare import CompareResult
from kvcalc.core.results.fit import BudgetLine, FitList, FitResult, GpuInfo, Limit, Suggestion
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.core.results.size import SizeResult
from kvcalc.core.results.timeline import Milestone, TimelineResult
from kvcalc.core.results.waste import PolicyWaste, WasteResult
from kvcalc.core.shard import Parallel


class Side(NamedTuple):
    """The GPU that decides at one context, and what requests take of it.

    `rank` indexes `growth`, `budget` the plan's `budgets` (null without a machine). One request of
    a replica needs `first_bytes`, n > 1 of them `fixed_bytes` + n × `each_bytes`; or, where an
    engine counts otherwise, `needed_bytes` at each of the page's `requests`.
    """

    rank: int
    budget: int | None
    bytes_per_request: int
    first_bytes: int
    fixed_bytes: int
    each_bytes: int
    needed_bytes: tuple[int, ...] | None


class Step(NamedTuple):
    """One context: what fits, and for each of the page's `requests` which side and text hold.

    `side_of` and `text_of` have one entry where it is the same for all.
    """

    context_tokens: int
    max_requests: int | None
    max_requests_low: int | None
    max_requests_high: int | None
    max_context_tokens: int | None
    sides: tuple[Side, ...]
    side_of: tuple[int, ...]
    text_of: tuple[int, ...]
    suggestions: tuple[Suggestion, ...]


class Growth(NamedTuple):
    """n requests of a replica on one GPU, at each of the page's `growth_tokens`.

    As in `Side`: `first_bytes`, then `fixed_bytes` + n × `each_bytes`; or `needed_bytes`, one row
    for each of `requests`.
    """

    first_bytes: tuple[int, ...]
    fixed_bytes: tuple[int, ...]
    each_bytes: tuple[int, ...]
    needed_bytes: tuple[tuple[int, ...], ...] | None


class Start(NamedTuple):
    """The command that starts the engine (null: the textbook has none), its log, its limits."""

    command: str | None
    startup_lines: tuple[str, ...]
    limits: tuple[Limit, ...]


class Plan(NamedTuple):
    """One machine with one storage of the cache. `budgets` is empty where no memory is given.

    `full_at_tokens` has a row for each context (one where all agree): tokens at which memory is
    full, for each of the page's `requests`; null where it never is.
    """

    machine: str
    kv_dtype: str
    gpu: GpuInfo | None
    engine: EngineInfo
    parallel: Parallel
    replicas: int
    budgets: tuple[tuple[BudgetLine, ...], ...]
    steps: tuple[Step, ...]
    full_at_tokens: tuple[tuple[int | None, ...], ...]
    growth: tuple[Growth, ...]
    texts: tuple[Start, ...]
    #: `kvcalc fit` with the plan's options, to which a state adds its -c and -n.
    ask: str


class Saving(NamedTuple):
    """A technique at one context; n requests take fixed + n × each, before it and with it."""

    technique: str
    label: str
    quality: str
    note: str
    fixed_bytes: int
    each_bytes: int
    before_fixed_bytes: int
    before_each_bytes: int


class Savings(NamedTuple):
    """All techniques at one context of one storage."""

    kv_dtype: str
    context_tokens: int
    techniques: tuple[Saving, ...]


class Allocation(NamedTuple):
    """What policies waste on requests of these lengths, where each may have `context_tokens`."""

    kv_dtype: str
    context_tokens: int
    lengths: tuple[int, ...]
    policies: tuple[PolicyWaste, ...]


class Steps(NamedTuple):
    """One request step by step in one storage: bytes on all GPUs, each token stored once."""

    kv_dtype: str
    prompt_tokens: int
    output_tokens: int
    milestones: tuple[Milestone, ...]


class Simulation(NamedTuple):
    """A trace under one plan: `data` of kvcalc simulate, one for each policy; or why there is none.

    One entry for each of `plans`, in their order.
    """

    machine: str
    kv_dtype: str
    policies: tuple[dict[str, Any], ...]
    reason: str | None


class LeftOutPlan(NamedTuple):
    """A combination of options that cannot be, and why."""

    machine: str
    kv_dtype: str
    reason: str


class Assumption(NamedTuple):
    """What an option that was not given is taken to be."""

    option: str
    value: str


class Parts(NamedTuple):
    """The answers of other commands to the question as asked, which the views show."""

    size: SizeResult
    sizes: tuple[SizeResult, ...]
    fit: FitResult | None
    machines: FitList | None
    timeline: TimelineResult
    waste: WasteResult | None
    compare: CompareResult
    #: The trace under each plan; rows where there are several policies. None: it cannot be.
    simulated: tuple[SimulateResult | Rows | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult(Result):
    """One deployment: its size, what fits, how it grows, what is wasted, what would save."""

    command: ClassVar[str] = "report"
    main_list: ClassVar[str] = "plans"
    hidden: ClassVar[frozenset[str]] = frozenset({"warnings", "parts"})

    model: ModelInfo
    weights: WeightInfo
    context_tokens: int
    requests_asked: int
    #: The points that the page holds: contexts, numbers of requests, tokens of the growth curve.
    contexts: tuple[int, ...]
    requests: tuple[int, ...]
    growth_tokens: tuple[int, ...]
    plans: tuple[Plan, ...]
    left_out: tuple[LeftOutPlan, ...]
    #: `data` of kvcalc size, one for each storage of the cache, at `contexts`.
    sizes: tuple[dict[str, Any], ...]
    savings: tuple[Savings, ...]
    allocations: tuple[Allocation, ...]
    steps: tuple[Steps, ...]
    #: Empty without a trace.
    simulations: tuple[Simulation, ...]
    assumptions: tuple[Assumption, ...]
    #: The command that makes this report again.
    line: str
    parts: Parts
    warnings: tuple[Warn, ...] = ()

    @property
    def yes(self) -> bool:
        """The requests fit as asked, or nothing was asked of a machine."""
        return self.parts.fit is None or self.parts.fit.fits

    def to_dict(self) -> dict[str, Any]:
        """`data`; the command line stands under `command` there, which here is the class's."""
        data = super(ReportResult, self).to_dict()
        data["command"] = data.pop("line")
        return data

    def main_rows(self) -> list[dict[str, Any]]:
        """A row for each plan and context: what fits."""
        return [
            {
                "machine": p.machine, "kv_dtype": p.kv_dtype, "context_tokens": s.context_tokens,
                "max_requests": s.max_requests, "max_requests_low": s.max_requests_low,
                "max_requests_high": s.max_requests_high,
                "max_context_tokens": s.max_context_tokens,
                "kv_pool_bytes": p.budgets[s.sides[0].budget or 0][-1].bytes if p.budgets else None,
                "bytes_per_request": s.sides[0].bytes_per_request,
            }
            for p in self.plans for s in p.steps
        ]  # fmt: skip
