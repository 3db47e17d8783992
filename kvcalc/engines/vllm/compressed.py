"""DeepSeek-V4's caches in vLLM: five pages of their own sizes a layer, packed into one block.

Source: vLLM 0.33 `models/deepseek_v4/` (attention, compressor) and `mla/sparse_swa.py`. A latent is
584 bytes in fp8_ds_mla (448 fp8 + 64 bf16 + scales), pages are rounded up to 576 bytes; in other
formats 512 elements, rounded to 512 bytes.
"""

from __future__ import annotations

from fractions import Fraction

from kvcalc.core.cache import Cache, Compressed, Indexer, Latent
from kvcalc.core.dtypes import Storage, row_bytes
from kvcalc.core.units import pad
from kvcalc.engines.vllm.specs import MLA, WINDOW_MLA, Spec

LATENT_BYTES, ALIGNMENT, PLAIN_ALIGNMENT = 584, 576, 512
#: Tokens of a block of sliding latents, and of a compressor's state by its ratio.
WINDOW_BLOCK, STATE_BLOCK = 64, {4: 4, 128: 8}


def compressed_specs(layer: tuple[Cache, ...], storage: Storage, block: int) -> list[Spec]:
    """One layer's specs in vLLM's order: window, compressed, its state, indexer, its state."""
    packed = storage.k.key == "fp8"
    align = ALIGNMENT if packed else PLAIN_ALIGNMENT
    specs: list[Spec] = []
    ratio = 1
    for cache in layer:
        if isinstance(cache, Latent):
            size = LATENT_BYTES if packed else row_bytes(storage.k, 1, cache.rank + cache.rope_dim)
            specs.append(_latent(WINDOW_MLA, size, WINDOW_BLOCK, 1, align, cache.window))
        elif isinstance(cache, Indexer):
            size = cache.dim + cache.dim // 128 * 4
            specs.append(_latent(MLA, size, block, ratio, align, None))
            specs.append(_state(cache.dim, ratio, align))
        elif isinstance(cache, Compressed):
            ratio = cache.ratio
            size = LATENT_BYTES if packed else row_bytes(storage.k, 1, cache.dim)
            specs.append(_latent(MLA, size, block, ratio, align, None))
            specs.append(_state(cache.dim, ratio, align))
    return specs


def _latent(kind: str, size: int, block: int, ratio: int, align: int, window: int | None) -> Spec:
    page = block // ratio * size
    padded = pad(page, align)
    return Spec(
        type=kind,
        block_size=block,
        page_bytes=padded,
        kv_heads=1,
        content_bytes=size,
        dtype="uint8",
        tokens_per_state=Fraction(ratio),
        padded_bytes=padded if padded != page else None,
        alignment=align,
        window=window,
    )


def _state(dim: int, ratio: int, align: int) -> Spec:
    """A compressor's fp32 keys and scores: of two overlapping groups of 4 tokens, or of 128.

    2 · 2 · dim a token at ratio 4 (window 8), 2 · dim at 128 (window 128).
    """
    light = ratio == min(STATE_BLOCK)
    width = (4 if light else 2) * dim
    page = STATE_BLOCK[ratio] * width * 4
    padded = pad(page, align)
    return Spec(
        type=WINDOW_MLA,
        block_size=STATE_BLOCK[ratio],
        page_bytes=padded,
        kv_heads=1,
        head_size=width,
        dtype="float32",
        padded_bytes=padded if padded != page else None,
        alignment=align,
        window=2 * ratio if light else ratio,
    )
