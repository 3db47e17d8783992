"""Which specs vLLM takes for one kind, and windows allocated as full attention.

Source: vLLM 0.33 `v1/kv_cache_interface.py` (merge, is_uniform_type) and
`v1/core/kv_cache_planning.py` (promotion without the hybrid manager).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvcalc.engines.vllm.specs import (
    CHUNKED,
    CROSS,
    FULL,
    MAMBA,
    MLA,
    RING,
    WINDOW,
    WINDOW_MLA,
    Spec,
)


class PlanError(Exception):
    """vLLM refuses to start; the text begins with the exception's class, as vLLM prints it."""


def uniform_type(specs: Sequence[Spec]) -> bool:
    """Whether all layers need the same number of token slots, whatever the sizes of their pages."""
    first = specs[0]
    if any(s.block_size != first.block_size for s in specs):
        return False
    if any(s.dcp_sharded != first.dcp_sharded for s in specs):
        return False
    if first.is_full:
        return all(s.is_full for s in specs)
    if first.is_window:
        kinds = {WINDOW_MLA} if first.type == WINDOW_MLA else {WINDOW, WINDOW_MLA}
        return all(s.type in kinds and s.window == first.window for s in specs)
    if first.type == CHUNKED:
        return all(s.type == CHUNKED and s.chunk == first.chunk for s in specs)
    if first.type == MAMBA:
        return all(
            s.type == MAMBA
            and s.page_bytes == first.page_bytes
            and s.speculative_blocks == first.speculative_blocks
            and s.checkpoint_blocks == first.checkpoint_blocks
            for s in specs
        )
    return first.type in {CROSS, RING} and all(s.type == first.type for s in specs)


def mergeable(specs: Sequence[Spec], *, strict: bool = True) -> bool:
    """Whether the layers are one spec; full layers may differ in whether they carry a window.

    Raises:
        PlanError: If full layers carry two windows and `strict` (vLLM does not catch that).
    """
    first = specs[0]
    if first.type == WINDOW_MLA:
        # vLLM compares the window and the format here, not the sizes.
        return all(s.type == WINDOW_MLA and _window_key(s) == _window_key(first) for s in specs)
    if not first.is_full:
        return all(s == first for s in specs)
    if any(not s.is_full or (s.type == MLA) != (first.type == MLA) for s in specs):
        return False
    bare = replace(first, type=FULL, window=None, chunk=None)
    windows = {s.window for s in specs} - {None}
    chunks = {s.chunk for s in specs} - {None}
    if len(windows) > 1 or len(chunks) > 1:
        if strict:
            raise PlanError(
                "ValueError: All attention layers in the same KV cache group must have the same "
                "window size."
            )
        return False
    if windows and chunks:
        return False
    return all(replace(s, type=FULL, window=None, chunk=None) == bare for s in specs)


def _window_key(spec: Spec) -> tuple[object, ...]:
    return (
        spec.window, spec.extra_tokens, spec.tokens_per_state, spec.dcp_sharded, spec.label,
    )  # fmt: skip


def promoted_by_sharding(specs: Sequence[Spec]) -> list[Spec]:
    """Without the hybrid manager: windows allocated as full, apart for layers that DCP shards."""
    result = list(specs)
    for replicated in (False, True):
        at = [
            i for i, s in enumerate(specs) if (s.is_attention and not s.dcp_sharded) == replicated
        ]
        if at:
            for i, spec in zip(at, promoted([specs[i] for i in at]), strict=True):
                result[i] = spec
    return result


def promoted(specs: Sequence[Spec]) -> list[Spec]:
    """Sliding and chunked layers as full attention, if the model has full layers beside them.

    Raises:
        PlanError: If the layers are not of one kind even then (states, for instance).
    """
    result = list(specs)
    if mergeable(result) or uniform_type(result):
        return result
    full_sizes = {s.block_size for s in specs if s.is_full}
    if full_sizes:
        result = [
            _as_full(s, next(iter(full_sizes)) if len(full_sizes) == 1 else s.block_size)
            if s.is_window or s.type == CHUNKED
            else s
            for s in specs
        ]
    if not (mergeable(result) or uniform_type(result)):
        raise PlanError("ValueError: Failed to promote local KV cache specs to one unified type.")
    return result


def _as_full(spec: Spec, block_size: int) -> Spec:
    page = spec.unpadded_bytes(block_size)
    padded = spec.padded_bytes
    if padded is not None:
        grown = spec.unpadded_bytes(spec.block_size) * block_size // spec.block_size
        padded = max(padded, grown)
    return replace(
        spec,
        type=MLA if spec.type == WINDOW_MLA else FULL,
        block_size=block_size,
        page_bytes=page if padded is None else padded,
        padded_bytes=padded,
        extra_tokens=0,
    )


def full_allocation(specs: Sequence[Spec]) -> tuple[Spec, ...] | None:
    """MLA beside a sliding draft whose pages do not fit: the draft allocated as full attention."""
    kinds = {s.type for s in specs}
    if kinds & {WINDOW_MLA, CHUNKED} or not {MLA, WINDOW} <= kinds:
        return None
    try:
        full = promoted(specs)
    except PlanError:
        return None
    return tuple(full) if uniform_type(full) else None
