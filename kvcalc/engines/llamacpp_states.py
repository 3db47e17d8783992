"""llama.cpp's recurrent states and DeepSeek-V4's compressed caches: all fp32 but the latents."""

from __future__ import annotations

from kvcalc.core.cache import State
from kvcalc.core.dtypes import Dtype, row_bytes
from kvcalc.core.results.size import EngineItem
from kvcalc.core.units import cdiv, pad
from kvcalc.engines.llamacpp_layers import Layout

_FP32 = 4
#: DeepSeek-V4's light compression, whose layers have an indexer.
CSA_RATIO = 4


def state_item(states: list[State], n_seq_max: int, n_rs_seq: int) -> EngineItem:
    """One cell a sequence (and one for each rollback copy); R is the conv part, S the matrix.

    R = (K − 1) · channels and S = the recurrent elements, both fp32 whatever the model's dtype.
    """
    rows = max(1, n_seq_max) * (1 + n_rs_seq)
    r = sum((s.conv_kernel - 1) * s.conv_channels for s in states) * _FP32 * rows
    s = sum(s.recurrent_elements for s in states) * _FP32 * rows
    return EngineItem("state", len(states), max(1, n_seq_max), 1, r, s, r + s)


def compressed_items(
    layout: Layout, n_ctx_seq: int, n_seq_max: int, key: Dtype, n_rs_seq: int
) -> list[EngineItem]:
    """DeepSeek-V4: entries of every ratio, indexer keys, and the compressors' own states.

    Cells are ceil(context / ratio) padded to 256, one stream a sequence even if unified. A
    compressor keeps 2 · ratio rows of 2 · dim (light) or ratio rows of dim (heavy), for keys and
    for scores.
    """
    items = []
    for ratio in sorted({r for r, _ in layout.compressed}):
        rows = [row for r, row in layout.compressed if r == ratio]
        name = f"kv_compressed_{ratio}"
        items.append(_cells(name, [r.key_dim for r in rows], n_ctx_seq, ratio, n_seq_max, key))
    dims = [row.key_dim for row in layout.indexed]
    if dims:
        items.append(_cells("indexer", dims, n_ctx_seq, CSA_RATIO, n_seq_max, key))
    planes = n_seq_max * (1 + n_rs_seq)
    states: list[tuple[str, int, list[int]]] = []
    for ratio in sorted({r for r, _ in layout.compressed}):
        rows_dims = [row.key_dim for r, row in layout.compressed if r == ratio]
        states.append((f"compressor_state_{ratio}", ratio, rows_dims))
    if dims:
        states.append(("compressor_state_indexer", CSA_RATIO, dims))
    for name, ratio, widths in states:
        twice = 2 if ratio == CSA_RATIO else 1
        side = sum(twice * ratio * twice * width for width in widths) * _FP32 * planes
        items.append(EngineItem(name, len(widths), twice * ratio, n_seq_max, side, side, 2 * side))
    return items


def _cells(
    name: str, dims: list[int], n_ctx_seq: int, ratio: int, streams: int, key: Dtype
) -> EngineItem:
    cells = pad(cdiv(n_ctx_seq, ratio), 256)
    size = sum(row_bytes(key, 1, dim) for dim in dims) * cells * streams
    return EngineItem(name, len(dims), cells, streams, size, 0, size)
