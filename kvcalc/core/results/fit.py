"""The answer of `kvcalc fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import EngineInfo, ModelInfo, Result, Warn, WeightInfo
from kvcalc.core.shard import Parallel


class GpuMember(NamedTuple):
    """One GPU of a machine that mixes them, in rank order."""

    id: str
    name: str
    memory_bytes: int
    memory_basis: str


class GpuInfo(NamedTuple):
    """The machine: `count` GPUs; memory is what a program sees of one, of the smallest if mixed."""

    id: str | None
    name: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a row
    memory_bytes: int | None
    memory_basis: str
    #: The GPUs of a mixed machine; of equal ones none.
    members: tuple[GpuMember, ...] = ()


class BudgetLine(NamedTuple):
    """A line of one GPU's memory, signed: all but the last add up to the last, the KV pool."""

    item: str
    bytes: int
    basis: str
    low_bytes: int
    high_bytes: int
    note: str = ""


class LadderStep(NamedTuple):
    """How many requests of a context fit."""

    context_tokens: int
    max_requests: int
    fits: bool
    bytes_per_request: int
    max_requests_low: int
    max_requests_high: int


class Ideal(NamedTuple):
    """The textbook's bound for the whole deployment: memory − weights, all of it KV cache."""

    kv_pool_bytes: int
    max_requests: int
    max_context_tokens: int | None


class Rank(NamedTuple):
    """One GPU of each pipeline stage, and of each kind where a stage mixes them."""

    rank: int
    stage: int
    layers: int
    weight_bytes: int
    kv_pool_bytes: int
    kv_bytes_per_token: int
    tokens: int
    gpu: str | None = None
    #: Of the engine's block pool, as it counts them (vLLM's null block included); null without one.
    block_bytes: int | None = None
    blocks: int | None = None


class SharedPrefix(NamedTuple):
    """Tokens that requests begin with, those of them stored once, and for how many beginnings."""

    tokens: int
    shared_tokens: int
    copies: int


class Limit(NamedTuple):
    """Something beside memory that bounds the answer."""

    code: str
    message: str


class Suggestion(NamedTuple):
    """One single change and what it makes of the plan."""

    change: str
    argument: str
    max_requests: int
    max_context_tokens: int | None
    fits: bool
    kv_pool_bytes: int


class Solved(NamedTuple):
    """The value of one option that makes the rest fit; null if none does.

    `option` is "setting NAME" for a setting of the engine's; `argument` is how it is typed.
    """

    option: str
    value: Any
    argument: str | None = None


class Typical(NamedTuple):
    """Requests of the average context, beside the worst case."""

    context_tokens: int
    max_requests: int


class Price(NamedTuple):
    """What the deployment costs, in the currency of the price that was given.

    A request's hour is the deployment's over the requests that fit (low: the most that may, high:
    the fewest); null where none does. A million output tokens are priced at the speed ceiling of
    these requests, so nothing real is cheaper; null where the GPU's or the model's figures for it
    are not known.
    """

    per_gpu_hour: float
    per_hour: float
    per_request_hour: float | None
    per_request_hour_low: float | None
    per_request_hour_high: float | None
    per_million_output_tokens: float | None
    ceiling_tokens_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult(Result):
    """Whether the wanted requests fit, and what would."""

    command: ClassVar[str] = "fit"
    main_list: ClassVar[str] = "ladder"

    model: ModelInfo
    gpu: GpuInfo
    engine: EngineInfo
    parallel: Parallel
    replicas: int
    fits: bool
    requests: int
    kv_dtype: str
    weights: WeightInfo
    budget: tuple[BudgetLine, ...]
    kv_pool_bytes: int
    bytes_per_request: int
    kv_pool_tokens: int | None
    block_tokens: int | None
    context_tokens: int
    max_requests: int
    max_requests_low: int
    max_requests_high: int
    max_context_tokens: int | None
    ladder: tuple[LadderStep, ...]
    ideal: Ideal
    ranks: tuple[Rank, ...]
    shortfall_bytes: int
    shortfall_low_bytes: int
    shortfall_high_bytes: int
    typical: Typical | None
    shared_prefix: SharedPrefix | None
    solved: Solved | None
    #: Null without --price.
    price: Price | None = None
    startup_lines: tuple[str, ...]
    limits: tuple[Limit, ...]
    suggestions: tuple[Suggestion, ...]
    #: The command that starts the engine so; of the textbook, the one that asks this again.
    line: str
    #: The kvcalc command that asks this again.
    ask_again: str
    warnings: tuple[Warn, ...] = ()

    @property
    def yes(self) -> bool:
        """The needed requests fit."""
        return self.fits

    def to_dict(self) -> dict[str, Any]:
        """`data`; the command line stands under `command` there, which here is the class's."""
        data = super(FitResult, self).to_dict()
        data["command"] = data.pop("line")
        return data


class Candidate(NamedTuple):
    """One machine for a model, or one model for a machine."""

    model: str
    gpu: str | None
    gpus: int
    fits: bool
    max_requests: int
    max_requests_low: int
    max_requests_high: int
    max_context_tokens: int | None
    kv_pool_bytes: int
    memory_bytes: int
    weight_bytes: int
    parameters: int | None
    at_maximum: bool
    context_tokens: int


class LeftOut(NamedTuple):
    """What was not tried, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitList(Result):
    """Which GPUs serve a model, or which models a GPU serves, best first."""

    command: ClassVar[str] = "fit"
    main_list: ClassVar[str] = "candidates"
    hidden: ClassVar[frozenset[str]] = frozenset({"warnings", "show_all", "show_why"})

    model: ModelInfo | None
    gpu: GpuInfo | None
    engine: EngineInfo
    context_tokens: int
    requests: int
    kv_dtype: str
    weights: str | None
    candidates: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]
    show_all: bool = False
    show_why: bool = False
    warnings: tuple[Warn, ...] = ()

    @property
    def yes(self) -> bool:
        """Something fits."""
        return any(c.fits for c in self.candidates)
