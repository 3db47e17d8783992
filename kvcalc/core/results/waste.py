"""The answer of `kvcalc waste`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import KvDtype, ModelInfo, Result, Warn


class PolicyWaste(NamedTuple):
    """What one policy reserves for all requests, and how much of it nobody used.

    `requests_per_pool` is how many requests like these the pool holds under the policy, null
    without a pool. `effective_requests` is a property of the pool, the same in every row: its naive
    slots × (1 − naive waste), null where the maximum or the pool is missing.
    """

    policy: str
    allocated_bytes: int
    used_bytes: int
    wasted_bytes: int
    waste_fraction: float
    requests_per_pool: int | None
    effective_requests: float | None
    #: In a layer that keeps every token.
    allocated_tokens: int


class RequestUse(NamedTuple):
    """One request: what it used, and what each policy reserved for it."""

    tokens: int
    used_bytes: int
    allocated_bytes: dict[str, int]


class TraceUse(NamedTuple):
    """The trace whose requests were laid out, and those that were not.

    Tokens are those that a request stores: prompt + output − 1. `rejected_requests` would grow
    beyond the maximum; `skipped_lines` are no requests.
    """

    name: str
    format: str
    rejected_requests: int
    skipped_lines: int
    mean_tokens: float
    longest_tokens: int


class PoolSource(NamedTuple):
    """Memory for KV cache, bytes: given, or what a machine has beside the weights.

    `memory_bytes` is of all GPUs; low and high come from the GPU's readings and the weights.
    """

    bytes: int
    basis: str = "exact"
    low_bytes: int | None = None
    high_bytes: int | None = None
    gpu: str | None = None
    gpus: int | None = None
    memory_bytes: int | None = None
    weight_bytes: int | None = None
    weight_format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WasteResult(Result):
    """What allocation wastes; with slots and a fraction alone, only `effective_requests`."""

    command: ClassVar[str] = "waste"
    main_list: ClassVar[str] = "policies"

    model: ModelInfo | None = None
    kv_dtype: KvDtype | None = None
    requests: int | None = None
    max_context_tokens: int | None = None
    block_size: int | None = None
    used_tokens: int | None = None
    pool_bytes: int | None = None
    pool: PoolSource | None = None
    policies: tuple[PolicyWaste, ...] = ()
    per_request: tuple[RequestUse, ...] = ()
    #: The pool's naive slots × (1 − naive waste), or `slots` × (1 − `waste_fraction`).
    effective_requests: float | None = None
    #: Null where each request was given; then `per_request` is empty.
    trace: TraceUse | None = None
    slots: int | None = None
    waste_fraction: float | None = None
    warnings: tuple[Warn, ...] = ()

    @property
    def yes(self) -> bool:
        """No only where the weights leave the machine no pool at all."""
        return self.pool_bytes != 0

    def main_rows(self) -> list[dict[str, Any]]:
        """The policies; without lengths the one figure that was asked for."""
        if self.policies:
            return super(WasteResult, self).main_rows()
        names = ("slots", "waste_fraction", "effective_requests")
        return [{name: getattr(self, name) for name in names}]
