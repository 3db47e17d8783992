"""ik_llama.cpp's caches: n_ctx cells for all slots, full windows, latents as `-mla` says.

Source: its public logs of 2024-10 to 2025-07 (ikawrakow/ik_llama.cpp).
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.cache import Compressed, Cross, Full, Latent, State
from kvcalc.core.dtypes import Dtype, dtype
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.size import EngineItem
from kvcalc.core.units import pad

#: Cells are multiples of this, of 256 with flash attention.
_PAD, _FLASH_PAD = 32, 256
FORMATS = ("fp32", "fp16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")


class Kept(NamedTuple):
    """What a context allocates; its fields as in `engines.llamacpp.Context`."""

    n_ctx: int
    n_ctx_seq: int
    items: tuple[EngineItem, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all caches."""
        return sum(item.bytes for item in self.items)


def context(
    model: Model, n_ctx: int, n_seq: int, *, flash: bool, mla: int, type_k: str, type_v: str
) -> Kept:
    """The caches of one context.

    `mla` 0 expands latents to keys and values of every head; 1 keeps the latent and, without
    flash attention, a transposed copy of its values; 2 and 3 the latent alone.

    Raises:
        KvcalcError: "unknown_dtype"; "usage" for a quantised V without flash attention;
            "unsupported_architecture" for caches it has not.
    """
    k, v = _format(type_k, "type_k"), _format(type_v, "type_v")
    if v.row_blocks and not flash and not (mla and _latent(model)):
        raise KvcalcError(
            "usage", f"{v.key} V needs flash attention", "--set flash_attn=true, or f16"
        )
    cells = pad(n_ctx, _FLASH_PAD if flash else _PAD)
    keys, values, layers, latents, transposed, states = 0, 0, 0, 0, 0, 0
    for group in model.groups:
        count, c = len(group.layers), group.cache
        if isinstance(c, Full):
            layers += count
            keys += count * _row(k, c.kv_heads * c.key_dim)
            values += count * _row(v, c.kv_heads * c.value_dim)
        elif isinstance(c, Latent) and c.window is None:
            if mla:
                latents += count * _row(k, c.rank + c.rope_dim)
                transposed += count * _row(v, c.rank) if mla == 1 and not flash else 0
                layers += count
                continue
            if c.heads is None or c.nope_dim is None or c.value_dim is None:
                raise _unknown(model, "latent attention of unknown heads")
            layers += count
            keys += count * _row(k, c.heads * (c.nope_dim + c.rope_dim))
            values += count * _row(v, c.heads * c.value_dim)
        elif isinstance(c, State):
            size = (c.conv_kernel - 1) * c.conv_channels + c.recurrent_elements
            states += count * 4 * size * max(n_seq, 1)
        elif isinstance(c, (Compressed, Cross, Latent)):
            raise _unknown(model, f"{c.kind} caches")
    items = []
    if keys or values:
        items.append(_item("kv", layers, cells, keys, values))
    if latents:
        items.append(_item("kv_latent", layers, cells, latents, transposed))
    if states:
        items.append(EngineItem("state", 0, max(n_seq, 1), 1, 0, 0, states))
    return Kept(cells, cells // max(n_seq, 1), tuple(items))


def _item(name: str, layers: int, cells: int, keys: int, values: int) -> EngineItem:
    return EngineItem(name, layers, cells, 1, keys * cells, values * cells, (keys + values) * cells)


def _latent(model: Model) -> bool:
    return any(isinstance(g.cache, Latent) for g in model.groups)


def _row(kind: Dtype, elements: int) -> int:
    if elements % kind.block_elements:
        raise KvcalcError(
            "not_divisible",
            f"{kind.key} stores blocks of {kind.block_elements} elements; a row of {elements} is "
            "no multiple of it",
            "use f16",
        )
    return elements // kind.block_elements * kind.block_bytes


def _format(name: str, setting: str) -> Dtype:
    kind = dtype(name, setting)
    if kind.key not in FORMATS:
        raise KvcalcError(
            "unknown_dtype", f"{setting}: ik_llama.cpp does not store {kind.key}",
            f"one of {', '.join(FORMATS)}",
        )  # fmt: skip
    return kind


def _unknown(model: Model, what: str) -> KvcalcError:
    return KvcalcError(
        "unsupported_architecture", f"ik_llama.cpp: {what} ({model.id}) are not known",
        "take --engine llama.cpp",
    )  # fmt: skip
