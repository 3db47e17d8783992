"""The answer of `kvcalc tradeoff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kvcalc.core.results.base import KvDtype, ModelInfo, Result, Warn


class Step(NamedTuple):
    """The step that generates one token. FLOPs with a cache; `uncached_…` those without.

    A pass is one token through the whole model. FLOPs are null where parameters or query heads are
    not known.
    """

    token: int
    uncached_passes: int
    cached_passes: int
    projection_flops: int | None
    attention_flops: int | None
    uncached_projection_flops: int | None
    uncached_attention_flops: int | None


class Work(NamedTuple):
    """FLOPs of all steps: of the weights, and of attention, which comes on top."""

    projection_flops: int | None
    attention_flops: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeoffResult(Result):
    """What the cache saves in work, and costs in memory."""

    command: ClassVar[str] = "tradeoff"
    main_list: ClassVar[str] = "per_step"

    model: ModelInfo
    kv_dtype: KvDtype
    tokens: int
    uncached_token_passes: int
    cached_token_passes: int
    ratio: float
    per_step: tuple[Step, ...]
    uncached: Work
    cached: Work
    uncached_flops: int | None
    cached_flops: int | None
    kv_bytes: int
    #: What one pass multiplies by, twice; the active ones of a mixture of experts.
    pass_parameters: int | None
    warnings: tuple[Warn, ...] = ()
