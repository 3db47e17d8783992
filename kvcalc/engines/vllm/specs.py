"""vLLM's cache specs: what one layer stores in one block, and how many blocks a request takes.

A spec is read from a dict in the form that vLLM 0.33's own spec objects print (`type`,
`block_size`, `page_size_bytes`, `num_kv_heads`, `head_size`, `sliding_window` …); every size is
bytes, every length tokens. Source: vLLM 0.33 `v1/kv_cache_interface.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import cdiv, pad, shown

FULL, MLA, SINK, RSWA = (
    "FullAttentionSpec", "MLAAttentionSpec", "SinkFullAttentionSpec", "RSWASpec",
)  # fmt: skip
WINDOW, WINDOW_MLA, CHUNKED = (
    "SlidingWindowSpec", "SlidingWindowMLASpec", "ChunkedLocalAttentionSpec",
)  # fmt: skip
MAMBA, CROSS, RING, ENCODER = (
    "MambaSpec", "CrossAttentionSpec", "CircularBufferSpec", "EncoderOnlyAttentionSpec",
)  # fmt: skip
#: Subclasses of vLLM's FullAttentionSpec, and of its SlidingWindowSpec.
FULL_KINDS = frozenset({FULL, MLA, SINK, RSWA})
WINDOW_KINDS = frozenset({WINDOW, WINDOW_MLA})
TYPES = (FULL, MLA, SINK, RSWA, WINDOW, WINDOW_MLA, CHUNKED, MAMBA, CROSS, RING, ENCODER)

#: Bytes of one element by torch's dtype names.
ELEMENT_BYTES = {
    "float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "half": 2, "float": 4,
    "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip


class Load(NamedTuple):
    """What a request's share of the blocks depends on, besides its layers."""

    max_model_len: int
    #: Tokens scheduled but not settled: max_num_batched_tokens × concurrent batches.
    in_flight_tokens: int
    mamba_cache_mode: str = "none"
    dcp: int = 1
    encoder_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One layer's cache in vLLM. `page_bytes` is one block of it, padding included."""

    type: str
    block_size: int
    page_bytes: int
    kv_heads: int = 0
    head_size: int = 0
    head_size_v: int = 0
    dtype: str = ""
    #: Tokens of one stored state; DeepSeek-V4 compresses several into one.
    tokens_per_state: Fraction = Fraction(1)
    #: Bytes of one state of one head where they do not follow from the dtype (fp8_ds_mla).
    content_bytes: int | None = None
    #: The page is this large whatever the block holds.
    padded_bytes: int | None = None
    #: Pages are rounded up to a multiple of this (DeepSeek-V4: 576).
    alignment: int | None = None
    window: int | None = None
    chunk: int | None = None
    #: Tokens kept beyond the window by multi-module MTP.
    extra_tokens: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    speculative_blocks: int = 0
    checkpoint_blocks: int = 0
    dcp_sharded: bool = True
    #: Fields that only distinguish specs from one another (quantisation name, role …).
    label: tuple[tuple[str, str], ...] = ()

    @property
    def is_full(self) -> bool:
        """Blocks for every token: plain, MLA, with sinks."""
        return self.type in FULL_KINDS

    @property
    def is_window(self) -> bool:
        """Blocks for a sliding window only."""
        return self.type in WINDOW_KINDS

    @property
    def is_attention(self) -> bool:
        """Its page follows from heads and tokens, not from a state."""
        return self.type != MAMBA

    def unpadded_bytes(self, block_size: int) -> int:
        """A block of `block_size` tokens without padding: heads · states · content."""
        if self.padded_bytes is None:
            return self.page_bytes * block_size // self.block_size
        if self.content_bytes is not None:
            content = self.content_bytes
        else:
            content = (self.head_size + self.head_size_v) * element_bytes(self.dtype)
        return self.kv_heads * int(block_size // self.tokens_per_state) * content

    def with_block_size(self, block_size: int) -> Spec:
        """The same layer in larger blocks; a padded page stays as it is, an aligned one grows."""
        page = self.unpadded_bytes(block_size)
        padded = self.padded_bytes
        if padded is not None and self.alignment is not None:
            padded = pad(page, self.alignment)
        return replace(
            self,
            block_size=block_size,
            page_bytes=page if padded is None else padded,
            padded_bytes=padded,
        )

    def with_page(self, page_bytes: int) -> Spec:
        """The same layer with its page padded to `page_bytes`."""
        return replace(self, page_bytes=page_bytes, padded_bytes=page_bytes)

    def blocks(self, load: Load) -> int:
        """Blocks that one request of max_model_len takes at most.

        Full: ceil(len / dcp / B). Window: ceil(min(W − 1 + extra + in flight, len) / B) + 1, as a
        window may begin in mid-block: [XXCD][EF]. Chunked: ceil(min(C + in flight, len) / B).
        State: 1 + speculative; with prefix caching ("align") one more for the last block.
        """
        length = load.max_model_len
        if self.is_full:
            return cdiv(cdiv(length, load.dcp if self.dcp_sharded else 1), self.block_size)
        if self.is_window:
            kept = (self.window or 0) - 1 + self.extra_tokens + load.in_flight_tokens
            return cdiv(min(kept, length), self.block_size) + 1
        if self.type == CHUNKED:
            held = min((self.chunk or 0) + load.in_flight_tokens, length)
            return cdiv(held, self.block_size)
        if self.type == MAMBA:
            align = load.mamba_cache_mode == "align"
            extra = 1 + self.checkpoint_blocks if align else 0
            return 1 + extra + self.speculative_blocks
        if self.type == CROSS:
            return cdiv(load.encoder_tokens, self.block_size)
        return 1 if self.type == RING else 0


def element_bytes(dtype: str) -> int:
    """Bytes of one element of a torch dtype: "torch.bfloat16" or "bfloat16".

    Raises:
        KvcalcError: "unknown_dtype".
    """
    name = dtype.rsplit(".", 1)[-1]
    found = ELEMENT_BYTES.get(name)
    if found is None:
        raise KvcalcError(
            "unknown_dtype",
            f'layer spec: no torch dtype "{shown(dtype)}"',
            f"known: {', '.join(ELEMENT_BYTES)}",
        )
    return found


#: Record key → field, for whole numbers that need no conversion.
_WHOLE = {
    "num_kv_heads": "kv_heads", "head_size": "head_size", "head_size_v": "head_size_v",
    "state_content_bytes": "content_bytes", "page_size_padded": "padded_bytes",
    "alignment": "alignment", "sliding_window": "window", "attention_chunk_size": "chunk",
    "extra_retained_tokens": "extra_tokens", "num_speculative_blocks": "speculative_blocks",
    "num_prefill_checkpoint_blocks": "checkpoint_blocks",
}  # fmt: skip
_READ = frozenset(_WHOLE) | {
    "type", "block_size", "page_size_bytes", "dtype", "dtypes", "shapes", "tokens_per_state",
    "dcp_sharded", "num_head_slots",
}  # fmt: skip


def spec_of(record: Mapping[str, object]) -> Spec:
    """A spec from its dict form.

    `type` and `block_size` are needed, and either `page_size_bytes` or what it follows from
    (`num_kv_heads`, `head_size`, `dtype`; for states `shapes` and `dtypes`).

    Raises:
        KvcalcError: "usage" naming the missing or wrong key.
    """
    kind = record.get("type")
    if kind not in TYPES:
        close = nearest(str(kind), list(TYPES))
        raise KvcalcError(
            "usage",
            f'layer spec: unknown type "{shown(kind)}"',
            f"nearest: {', '.join(close)}" if close else f"known: {', '.join(TYPES)}",
        )
    fields: dict[str, int | None] = {
        field: _whole(record, key) for key, field in _WHOLE.items() if record.get(key) is not None
    }
    if isinstance(slots := record.get("num_head_slots"), int):
        fields["kv_heads"] = slots
    known = {key: value for key, value in fields.items() if value is not None}
    per_state = record.get("tokens_per_state", 1)
    spec = Spec(
        type=str(kind),
        block_size=_whole(record, "block_size"),
        page_bytes=0,
        dtype=str(record.get("dtype", "")),
        tokens_per_state=Fraction(str(per_state)) if kind != MAMBA else Fraction(1),
        shapes=_shapes(record.get("shapes")),
        dtypes=_names(record.get("dtypes")),
        dcp_sharded=bool(record.get("dcp_sharded", kind != MAMBA)),
        label=tuple(sorted((k, str(v)) for k, v in record.items() if k not in _READ)),
        **known,
    )
    if spec.block_size < 1:
        raise KvcalcError("usage", "layer spec: block_size is 0, expected at least 1")
    page = record.get("page_size_bytes")
    size = _whole(record, "page_size_bytes") if page is not None else _derived_page(spec)
    return replace(spec, page_bytes=size)


def _derived_page(spec: Spec) -> int:
    if spec.padded_bytes is not None:
        return spec.padded_bytes
    if spec.type == MAMBA:
        return sum(
            prod(shape) * element_bytes(dtype)
            for shape, dtype in zip(spec.shapes, spec.dtypes, strict=True)
        )
    size_v = spec.head_size_v or (0 if spec.type in (MLA, WINDOW_MLA) else spec.head_size)
    content = spec.content_bytes
    if content is None:
        content = (spec.head_size + size_v) * element_bytes(spec.dtype)
    return spec.kv_heads * int(spec.block_size // spec.tokens_per_state) * content


def _whole(record: Mapping[str, object], key: str) -> int:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise KvcalcError(
            "usage",
            f"layer spec: {key} is {shown(value)}, expected a whole number",
            "give it as vLLM's spec prints it",
        )
    return value


def _shapes(value: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    return tuple(tuple(int(n) for n in shape) for shape in value)


def _names(value: object) -> tuple[str, ...]:
    """Dtype names from a list or from the printed tuple "(torch.bfloat16, torch.float32)"."""
    if isinstance(value, str):
        return tuple(n.strip() for n in value.strip("()").split(",") if n.strip())
    return tuple(str(n) for n in value) if isinstance(value, (list, tuple)) else ()
