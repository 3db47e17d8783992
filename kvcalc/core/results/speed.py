"""The answer of `kvcalc speed`: ceilings from bandwidth and FLOP/s, not forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import KvDtype, ModelInfo, Result, Warn, WeightInfo


class SpeedGpu(NamedTuple):
    """`count` equal GPUs; bandwidth in bytes/s and dense FLOP/s of one, in `flops_dtype`."""

    id: str
    name: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a row
    memory_bytes: int
    bandwidth_bytes_per_second: int
    dense_flops_per_second: int
    flops_dtype: str


class Prefill(NamedTuple):
    """One prompt in one pass. `seconds` is the larger of computing and reading."""

    tokens: int
    flops: int
    read_bytes: int
    compute_seconds: float
    read_seconds: float
    seconds: float
    bound: str
    tokens_per_second: float


class Decode(NamedTuple):
    """One step of all requests: each reads its own cache, all read the weights once.

    Bytes are those that all GPUs read, copies of KV heads and latents included.
    `least_weight_bytes` is what a mixture of experts reads at least (its active parameters), with
    the ceiling that follows; null for a dense model.
    """

    context_tokens: int
    requests: int
    weight_bytes: int
    kv_bytes: int
    kv_bytes_per_request: int
    kv_read_fraction: float
    flops: int
    compute_seconds: float
    read_seconds: float
    seconds_per_step: float
    bound: str
    tokens_per_second_per_request: float
    tokens_per_second: float
    least_weight_bytes: int | None
    most_tokens_per_second: float | None


class Ridge(NamedTuple):
    """From how many requests decode is bound by computing; null: at no number, at this context.

    `flops_per_byte` is the GPU's; the seconds are what one more request adds to a step.
    """

    requests: int | None
    flops_per_byte: float
    read_seconds_per_request: float
    compute_seconds_per_request: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedResult(Result):
    """How fast a model can be at most on a machine."""

    command: ClassVar[str] = "speed"
    main_list: ClassVar[str] = "decode"

    model: ModelInfo
    kv_dtype: KvDtype
    weights: WeightInfo
    gpu: SpeedGpu
    prefill: Prefill
    decode: Decode
    ridge: Ridge
    warnings: tuple[Warn, ...] = ()

    def main_rows(self) -> list[dict[str, Any]]:
        """One row: prefill, decode and ridge."""
        data = self.to_dict()
        return [{key: data[key] for key in ("prefill", "decode", "ridge")}]
