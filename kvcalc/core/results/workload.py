"""The answer of `kvcalc workload`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kvcalc.core.results.base import Result, Warn


class Lengths(NamedTuple):
    """Tokens of the prompts or of the outputs; percentiles between two are interpolated."""

    of: str
    total_tokens: int
    mean: float
    min: int
    p10: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: int


class Arrivals(NamedTuple):
    """When requests come. `interarrival_cv` is 1 for a Poisson process, above it for bursts."""

    first_seconds: float
    last_seconds: float
    duration_seconds: float
    requests_per_second: float | None
    interarrival_cv: float | None


class PrefixSharing(NamedTuple):
    """What of the prompts an LRU of `cache_blocks` (0: endless) holds from earlier ones.

    Blocks are the trace's own hash blocks, the last one of a prompt included though it may be
    partial; of traces with prefixes by name, blocks of `block_tokens`. Outputs are not cached. A
    request hits the blocks from its first one on that are all there.
    """

    block_tokens: int
    cache_blocks: int
    blocks: int
    unique_blocks: int
    hit_blocks: int
    hit_fraction: float
    hit_tokens: int
    token_hit_fraction: float
    #: Requests whose first block was seen before.
    sharing_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadResult(Result):
    """What a trace asks for: rates, lengths, shared prefixes."""

    command: ClassVar[str] = "workload"
    main_list: ClassVar[str] = "lengths"

    name: str
    format: str
    requests: int
    skipped: int
    #: Null where the trace has no times, or counts steps.
    arrivals: Arrivals | None
    first_step: int | None
    last_step: int | None
    lengths: tuple[Lengths, ...]
    #: Null where no request says what it shares.
    prefix: PrefixSharing | None
    warnings: tuple[Warn, ...] = ()
