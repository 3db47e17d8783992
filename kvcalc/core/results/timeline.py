"""The answer of `kvcalc timeline`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kvcalc.core.results.base import EngineInfo, KvDtype, ModelInfo, Result, Warn, WeightInfo


class Request(NamedTuple):
    """One request: it prefills in step `start_step` + 1, then decodes a token a step."""

    prompt_tokens: int
    output_tokens: int
    start_step: int = 0


class Point(NamedTuple):
    """All requests in one step. `naive_bytes` is null without a maximum context to reserve."""

    step: int
    phase: str
    tokens: int
    kv_bytes: int
    paged_bytes: int
    naive_bytes: int | None


class Milestone(NamedTuple):
    """A step worth naming.

    `kind` is start, prefill, decoded, window, out_of_memory, outgrows_weights, peak or end;
    `added_bytes` is the growth since the prefill, of a single request.
    """

    label: str
    step: int
    tokens: int
    kv_bytes: int
    kind: str
    added_bytes: int | None = None


class Peak(NamedTuple):
    """The first step with the most KV bytes."""

    step: int
    kv_bytes: int
    tokens: int


class Machine(NamedTuple):
    """`count` equal GPUs that split the model; memory is what a program sees of one."""

    id: str | None
    name: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a row
    memory_bytes: int
    memory_basis: str
    low_bytes: int
    high_bytes: int


class Pool(NamedTuple):
    """One GPU's memory less its share of the weights, and what the peak leaves of it.

    `room_bytes` is negative where the peak does not fit.
    """

    bytes: int
    basis: str
    low_bytes: int
    high_bytes: int
    peak_bytes: int
    room_bytes: int


class MemoryEnd(NamedTuple):
    """The first step that does not fit, by the best, the least and the most memory; null: none."""

    step: int | None
    tokens: int | None
    low_step: int | None
    low_tokens: int | None
    high_step: int | None
    high_tokens: int | None


class Knot(NamedTuple):
    """A corner of the curve that the chart draws: bytes of one GPU at `x`; paged: whole blocks."""

    x: int
    kv_bytes: int
    naive_bytes: int | None
    paged_bytes: int


class Curve(NamedTuple):
    """KV bytes of one GPU over tokens (one request) or steps (several), straight between knots."""

    unit: str
    knots: tuple[Knot, ...]
    weight_bytes: int | None
    limit_bytes: int | None
    #: From here on nothing fits.
    end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineResult(Result):
    """How the KV cache grows and where memory ends."""

    command: ClassVar[str] = "timeline"
    main_list: ClassVar[str] = "points"
    hidden: ClassVar[frozenset[str]] = frozenset({"warnings", "curve", "chart"})

    model: ModelInfo
    kv_dtype: KvDtype
    requests: tuple[Request, ...]
    points: tuple[Point, ...]
    milestones: tuple[Milestone, ...]
    peak: Peak
    crosses_weights_at_tokens: int | None
    out_of_memory_at_step: int | None
    memory_end: MemoryEnd | None
    gpu: Machine | None
    pool: Pool | None
    weights: WeightInfo
    block_size: int
    max_context_tokens: int | None
    engine: EngineInfo
    curve: Curve
    #: Whether a terminal may draw the curve.
    chart: bool = True
    warnings: tuple[Warn, ...] = ()

    @property
    def yes(self) -> bool:
        """Memory does not run out."""
        return self.out_of_memory_at_step is None
