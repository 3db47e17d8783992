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

#: Beyond this no context is searched for; a state-only model has no end.
LONGEST = 2**40
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
    shared_prefix: int = 0
    average_context: int | None = None
    allow_long: bool = False
    device: Device = Device()
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


class RankPlan(NamedTuple):
    """One GPU of a pipeline stage: what it holds and its pool."""

    model: Model
    weight_bytes: int
    pool: Interval
    budget: tuple[BudgetLine, ...]
    stage: int = 0


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
        """One GPU of each pipeline stage, with its budget (low ≤ bytes ≤ high) and KV pool.

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
