"""The answer of `kvcalc simulate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import ModelInfo, Result, Warn


class RequestCounts(NamedTuple):
    """Requests of the trace. `preempted` were so at least once, `cut` at the maximum length."""

    total: int
    finished: int
    rejected: int
    preempted: int
    cut: int
    #: Lines of the trace that were left out.
    skipped: int


class Peak(NamedTuple):
    """The most at once, after scheduling."""

    used_blocks: int
    running: int


class Mean(NamedTuple):
    """Averages over steps, idle ones included."""

    used_blocks: float
    running: float


class Shares(NamedTuple):
    """How memory that was taken, or free but of no use to who waited, was spent, over all steps.

    Tokens; slots reserved for tokens to come; slots that were never going to be used; pieces too
    large and free memory in which the next request had no place. They add up to 1.
    """

    used_fraction: float
    reserved_fraction: float
    internal_fraction: float
    external_fraction: float


class PrefixHits(NamedTuple):
    """Prompt tokens found in the cache at a request's first admission; bytes they save."""

    hit_tokens: int
    hit_fraction: float
    saved_bytes: int | None


class Percentiles(NamedTuple):
    """Of requests; null where there are none, or where the clock has no seconds."""

    p50: float | None
    p90: float | None
    p99: float | None
    mean: float | None
    max: float | None


class Latency(NamedTuple):
    """From arrival to the first computation, the first token and the last; and between tokens.

    Seconds where the clock has any, and steps where it counts steps.
    """

    queue_seconds: Percentiles
    first_token_seconds: Percentiles
    total_seconds: Percentiles
    per_token_seconds: Percentiles
    queue_steps: Percentiles
    first_token_steps: Percentiles
    total_steps: Percentiles


class Throughput(NamedTuple):
    """Per second from the first step to the last; null without seconds."""

    requests_per_second: float | None
    prompt_tokens_per_second: float | None
    output_tokens_per_second: float | None


class Lifecycle(NamedTuple):
    """Allocate, fill, use, release: totals of all requests.

    `recomputed_tokens` were filled again after a preemption. `read_bytes` are those that attention
    reads, null without a model.
    """

    allocated_blocks: int
    filled_tokens: int
    recomputed_tokens: int
    read_bytes: int | None
    released_blocks: int


class Pool(NamedTuple):
    """What there is to allocate: blocks as the engine counts them, vLLM's null block included.

    `groups` share it: a request takes blocks for each.
    """

    blocks: int
    block_tokens: int
    block_bytes: int | None
    bytes: int | None
    tokens: int
    groups: tuple[str, ...]
    basis: str


class SeriesRow(NamedTuple):
    """One step, after scheduling. `seconds` is when it ends."""

    step: int
    seconds: float | None
    running: int
    waiting: int
    scheduled_tokens: int
    used_blocks: int
    cached_blocks: int


class RequestRow(NamedTuple):
    """One finished request, in the trace's order. Hits are those of its first admission."""

    id: str | int
    first_token_step: int
    finish_step: int
    preemptions: int
    hit_tokens: int
    queue_seconds: float | None
    queue_steps: int | None


class Solved(NamedTuple):
    """The value of one option at the capacity knee; null if no value is enough."""

    option: str
    value: float | None
    max_wait_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateResult(Result):
    """What became of a stream of requests."""

    command: ClassVar[str] = "simulate"
    main_list: ClassVar[str] = "series"
    hidden: ClassVar[frozenset[str]] = frozenset({"warnings", "chart"})

    trace: str
    model: ModelInfo | None
    gpu: str | None
    gpus: int
    policy: str
    scheduler: str
    clock: str
    settings: dict[str, Any]
    pool: Pool
    requests: RequestCounts
    preemptions: int
    steps: int
    seconds: float | None
    #: With --clock steps and a trace in seconds: how long a step was taken to last.
    step_seconds: float | None
    requests_per_second: float | None
    peak: Peak
    mean: Mean
    shares: Shares
    waste_fraction: float
    #: Requests that the memory would hold if none of it were wasted: peak running · used.
    effective_requests: float
    prefix: PrefixHits
    latency: Latency
    throughput: Throughput
    lifecycle: Lifecycle
    series: tuple[SeriesRow, ...]
    per_request: tuple[RequestRow, ...]
    solved: Solved | None = None
    #: Whether a terminal draws the series.
    chart: bool = True
    warnings: tuple[Warn, ...] = ()

    @property
    def yes(self) -> bool:
        """A value was found where one was asked for."""
        return self.solved is None or self.solved.value is not None
