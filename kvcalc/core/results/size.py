"""The answer of `kvcalc size`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import (
    EngineInfo,
    KvDtype,
    ModelInfo,
    Result,
    Warn,
    WeightInfo,
    plain,
)


class Formula(NamedTuple):
    """Bytes per token in symbols and with this model's numbers."""

    symbols: str
    numbers: str


class Defaulted(NamedTuple):
    """A field the source left out, and the value its class gives it."""

    field: str
    value: str


class LayerGroup(NamedTuple):
    """One distinct cache and the layers that hold it; per layer, unsharded."""

    kind: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a row
    indices: tuple[int, ...]
    kv_heads: int | None
    key_dim: int | None
    value_dim: int | None
    window_tokens: int | None
    bytes_per_token: int
    state_bytes: int
    variant: str | None = None
    entries_per_token: float | None = None


class EngineItem(NamedTuple):
    """One allocation of an engine for all requests of a context."""

    item: str
    layers: int
    cells: int | None
    streams: int | None
    key_bytes: int
    value_bytes: int
    bytes: int


class Stored(NamedTuple):
    """What an engine allocates for given requests: bytes over all GPUs, blocks, items."""

    bytes: int
    blocks: int | None
    items: tuple[EngineItem, ...]


class ContextSize(NamedTuple):
    """The cache at one context; `bytes_per_gpu` is the fullest GPU's share of `total_bytes`."""

    tokens: int
    bytes_per_request: int
    requests: int
    total_bytes: int
    bytes_per_gpu: int
    engine_bytes: int | None = None
    engine_blocks: int | None = None
    engine_items: tuple[EngineItem, ...] = ()
    #: One request's bytes in each entry of `layers`, and all of it if no layer ever forgot.
    layer_bytes: tuple[int, ...] = ()
    unwindowed_bytes: int | None = None


class BatchRequest(NamedTuple):
    """One request of an unequal batch."""

    tokens: int
    bytes: int


class CurvePoint(NamedTuple):
    """A corner of the growth curve: the model's bytes, and those if no layer ever forgot."""

    tokens: int
    bytes: int
    unwindowed_bytes: int


class Batch(NamedTuple):
    """Requests of unequal lengths; each keeps its own cache."""

    requests: tuple[BatchRequest, ...]
    total_bytes: int


class AttentionVariants(NamedTuple):
    """Bytes per token if all query heads, the model's own, or one head kept keys and values."""

    mha_bytes_per_token: int
    actual_bytes_per_token: int
    mqa_bytes_per_token: int
    reduction: float


class Shape(NamedTuple):
    """Tensor shapes; paged is per layer, [num_blocks, …] for the given requests."""

    kind: str
    contiguous: tuple[int, ...]
    paged: tuple[int, ...]


class Gpus(NamedTuple):
    """Parallelism the per-GPU figures are for."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a row
    tp: int
    pp: int
    dcp: int


class ImageTokens(NamedTuple):
    """One image and what it takes; rows and columns of the patches that become tokens."""

    width: int
    height: int
    rows: int | None
    columns: int | None
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeResult(Result):
    """How big the KV cache of one model is."""

    command: ClassVar[str] = "size"
    main_list: ClassVar[str] = "contexts"

    model: ModelInfo
    kv_dtype: KvDtype
    bytes_per_token: int
    state_bytes_per_request: int
    formula: Formula
    defaulted: tuple[Defaulted, ...]
    layers: tuple[LayerGroup, ...]
    contexts: tuple[ContextSize, ...]
    batch: Batch | None
    attention_variants: AttentionVariants | None
    shapes: tuple[Shape, ...]
    weights: WeightInfo
    engine: EngineInfo
    block_size: int
    shared_prefix_tokens: int | None
    prefix_copies: int
    #: What images take of each context.
    images: tuple[ImageTokens, ...]
    parallel: Gpus
    #: Token counts at which layers stop growing, with the bytes there: the curve's bends.
    bends: tuple[BatchRequest, ...]
    #: Corners of the growth curve of one request, straight between; empty where nothing bends.
    curve: tuple[CurvePoint, ...]
    pattern: str
    warnings: tuple[Warn, ...] = ()

    def main_rows(self) -> list[dict[str, Any]]:
        """The contexts, or the requests of a batch where one was asked for."""
        rows: list[dict[str, Any]] = plain(self.batch.requests if self.batch else self.contexts)
        return rows
