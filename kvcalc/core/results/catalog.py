"""The answers of `kvcalc models`, `gpus` and `dtypes`: lists and single entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import Result, Warn


class ModelItem(NamedTuple):
    """One model in the list; bytes with 2-byte K and V."""

    id: str
    name: str
    family: str | None
    parameters: int | None
    bytes_per_token: int
    state_bytes_per_request: int
    max_context_tokens: int | None
    bytes_at_max_context: int | None
    attention: str
    layers: str
    confidence: str | None
    source: str


class GpuItem(NamedTuple):
    """One GPU in the list: memory that a program sees, bytes/s, dense FLOP/s."""

    id: str
    name: str
    vendor: str
    memory_bytes: int
    memory_basis: str
    bandwidth_bytes_per_second: int | None
    bf16_flops: int | None
    fp8_flops: int | None
    confidence: str | None
    source: str


class DetectedGpu(NamedTuple):
    """One GPU of this machine: what its tool reads, in bytes, and the preset it is."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls here
    name: str
    #: A preset's id; null where none is this device, for the `reason`.
    preset: str | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    memory_free_bytes: int | None
    #: What a program sees of it, by the preset: less than the tool's total.
    memory_bytes: int | None
    source: str
    driver_version: str | None
    #: Whether CUDA_VISIBLE_DEVICES and its kin leave it; null where they do not say which.
    visible: bool | None
    reason: str | None


class DtypeItem(NamedTuple):
    """One storage format: `block_bytes` for `block_elements`, and scale bytes beside each head."""

    key: str
    aliases: tuple[str, ...]
    block_elements: int
    block_bytes: int
    head_bytes: int
    bits_per_element: float
    #: Bytes of K and V of one head of 128.
    head_128_bytes: int
    engines: tuple[str, ...]
    note: str
    holds: str = "kv"


class WeightItem(NamedTuple):
    """One storage format of weights; `keeps` is what it leaves at 16 bits."""

    key: str
    aliases: tuple[str, ...]
    bits_per_weight: float
    keeps: str
    engines: tuple[str, ...]
    note: str
    holds: str = "weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Result):
    """A list of catalog entries."""

    main_list: ClassVar[str] = "items"
    hidden: ClassVar[frozenset[str]] = frozenset({"warnings", "name"})

    name: str
    items: tuple[ModelItem | GpuItem | DetectedGpu | DtypeItem | WeightItem, ...]
    warnings: tuple[Warn, ...] = ()

    @property
    def command(self) -> str:  # type: ignore[override]
        """models, gpus or dtypes."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryResult(Result):
    """One catalog entry in full: `data` is the entry itself."""

    main_list: ClassVar[str] = "entry"

    name: str
    entry: dict[str, Any]
    warnings: tuple[Warn, ...] = ()

    @property
    def command(self) -> str:  # type: ignore[override]
        """models, gpus or dtypes."""
        return self.name

    def to_dict(self) -> dict[str, Any]:
        """The entry."""
        return self.entry

    def main_rows(self) -> list[dict[str, Any]]:
        """The entry as the one row."""
        return [self.entry]
