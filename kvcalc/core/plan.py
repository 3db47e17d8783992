"""A deployment to be judged, and what an engine must answer about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from kvcalc.core import shard
from kvcalc.core.dtypes import Storage
from kvcalc.core.model import Model
from kvcalc.core.results.base import EngineInfo, WeightInfo
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.units import LONGEST

__all__ = [
    "BASIS", "LONGEST", "Change", "Device", "Interval", "Memory", "Plan", "RankPlan", "Rules",
    "Seat", "kinds", "rank_plan", "seats",
]  # fmt: skip

#: From surest to least sure; a sum is as sure as its least sure part.
BASIS = ("exact", "measured", "estimated")


class Memory(NamedTuple):
    """Memory of one GPU that a program sees, bytes."""

    bytes: int
    basis: str = "exact"
    low: int | None = None
    high: int | None = None


class Device(NamedTuple):
    """What engines ask of a GPU beside its memory; empty for one given by its memory alone."""

    id: str | None = None
    name: str = ""
    vendor: str = ""
    architecture: str = ""
    #: Dtypes it computes in.
    dtypes: frozenset[str] = frozenset()
    unified_memory: bool = False


class Plan(NamedTuple):
    """One deployment to be judged."""

    model: Model
    storage: Storage
    parallel: shard.Parallel
    weights: WeightInfo
    #: Of one GPU, and of a mixed machine the first's: engines take their defaults from it.
    memory: Memory | None
    context: int
    requests: int = 1
    #: Share of the memory to use; None is the engine's default (the textbook: all of it).
    utilization: Fraction | None = None
    reserve: int = 0
    #: Per GPU and known: the budget is skipped.
    kv_pool: int | None = None
    kv_pool_tokens: int | None = None
    #: Whole pages of so many tokens; None is the engine's default (the textbook: exact tokens).
    block_size: int | None = None
    #: Tokens that requests begin with, and how many such beginnings there are among them.
    shared_prefix: int = 0
    prefix_copies: int = 1
    average_context: int | None = None
    allow_long: bool = False
    device: Device = Device()
    #: GPUs that are not alike, in rank order: tp of the first pipeline stage, of the second, …
    mixed: tuple[tuple[Memory, Device], ...] = ()
    #: Release of the engine; None is the newest known.
    version: str | None = None
    #: The engine's own settings, checked and of their kinds.
    settings: Mapping[str, Any] = {}
    #: The engine's rules; None is the textbook.
    rules: Rules | None = None


class Interval(NamedTuple):
    """A best estimate between two bounds."""

    best: int
    low: int
    high: int


class Seat(NamedTuple):
    """GPUs of one pipeline stage that are alike: the first's rank, how many, the plan on one."""

    stage: int
    rank: int
    gpus: int
    plan: Plan


def seats(plan: Plan, stage: int) -> list[Seat]:
    """The GPUs of a stage, each kind once; without a mixed machine there is one kind."""
    tp = plan.parallel.tp
    first = stage * tp
    if not plan.mixed:
        return [Seat(stage, first, tp, plan)]
    held = plan.mixed[first : first + tp]
    return [
        Seat(stage, first + held.index(kind), held.count(kind),
             plan._replace(memory=kind[0], device=kind[1]))
        for kind in dict.fromkeys(held)
    ]  # fmt: skip


def kinds(plan: Plan) -> list[Plan]:
    """The plan on each kind of its GPUs."""
    if not plan.mixed:
        return [plan]
    return [plan._replace(memory=m, device=d) for m, d in dict.fromkeys(plan.mixed)]


class RankPlan(NamedTuple):
    """One GPU of a pipeline stage: what it holds and its pool; `gpus` of the stage are like it."""

    model: Model
    weight_bytes: int
    pool: Interval
    budget: tuple[BudgetLine, ...]
    stage: int = 0
    rank: int = 0
    gpus: int = 1
    device: Device = Device()


def rank_plan(model: Model, seat: Seat, lines: tuple[BudgetLine, ...]) -> RankPlan:
    """A seat with its share of the model and its budget, whose last line is the pool."""
    pool = lines[-1]
    weight = next((-line.bytes for line in lines if line.item == "weights"), 0)
    ends = Interval(pool.bytes, pool.low_bytes, pool.high_bytes)
    return RankPlan(
        model, weight, ends, lines, seat.stage, seat.rank, seat.gpus, seat.plan.device
    )  # fmt: skip


class Change(NamedTuple):
    """One single change of a plan: its kind, how it is typed, and the plan with it."""

    change: str
    argument: str
    plan: Plan


class Rules(Protocol):
    """An engine's rules: memory to budget, pool to requests. Bytes are of one GPU."""

    def info(self, plan: Plan) -> EngineInfo:
        """The engine, its release, and the settings that shape the answer."""

    def ranks(self, plan: Plan) -> list[RankPlan]:
        """One GPU of each kind and pipeline stage, with its budget (low ≤ bytes ≤ high) and pool.

        Raises:
            KvcalcError: "not_divisible" where heads or layers do not divide.
        """

    def request_bytes(self, plan: Plan, rank: RankPlan, tokens: int) -> int:
        """What one request of `tokens` takes of this rank's pool."""

    def needed(self, plan: Plan, rank: RankPlan, tokens: int, requests: int) -> int:
        """What `requests` requests of `tokens` take of this rank's pool."""

    def requests(self, plan: Plan, rank: RankPlan, pool: int, tokens: int) -> int:
        """Requests of `tokens` that `pool` bytes of this rank hold at once."""

    def block_tokens(self, plan: Plan) -> int | None:
        """Tokens of a page; None where tokens are counted exactly."""

    def shared_tokens(self, plan: Plan) -> int:
        """Tokens of the shared prefix that are stored once: whole blocks, if it caches any."""

    def block_bytes(self, plan: Plan, rank: RankPlan) -> int | None:
        """Bytes of one block of this rank's pool; None where the pool is no row of equal blocks."""

    def rank_tokens(self, plan: Plan, rank: RankPlan) -> int | None:
        """Tokens that this rank's pool holds, as the engine counts them; None if it counts none."""

    def startup_lines(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[str, ...]:
        """What the engine itself will log of these figures."""

    def limits(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Limit, ...]:
        """What beside memory bounds the answer."""

    def command(self, plan: Plan) -> str | None:
        """The command that starts the engine so; None if there is none."""

    def changes(self, plan: Plan) -> list[Change]:
        """Single changes of this engine's own settings that may help."""
