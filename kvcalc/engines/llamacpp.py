"""llama.cpp's caches: cells, streams and bytes of each that a context allocates.

Source: llama.cpp 0c1e57098 (`llama-context.cpp`, `llama-kv-cache*.cpp`, `llama-memory-*.cpp`),
compared with contexts of that build (tests/oracles). Compute buffers are not caches.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvcalc.core.dtypes import Dtype, dtype
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.size import EngineItem
from kvcalc.core.units import pad, shown
from kvcalc.engines.llamacpp_archs import Rules, rules_of
from kvcalc.engines.llamacpp_layers import Layout, Row, layout_of
from kvcalc.engines.llamacpp_states import compressed_items, state_item

#: What --cache-type-k and --cache-type-v take.
FORMATS = ("fp32", "fp16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
#: Contexts and window caches are multiples of this many cells.
CELLS = 256
#: Sequences that a context can hold at most.
MAX_SEQUENCES = 256


@dataclass(frozen=True, slots=True)
class Context:
    """What a context allocates; `n_ctx` cells in all, `n_ctx_seq` of one sequence, as padded."""

    n_ctx: int
    n_ctx_seq: int
    n_seq_max: int
    n_ubatch: int
    #: In llama.cpp's order; caches of no layer are left out.
    items: tuple[EngineItem, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all caches."""
        return sum(item.bytes for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """The context's parameters, checked and padded."""

    n_ctx_seq: int
    n_seq_max: int
    n_ubatch: int
    unified: bool
    swa_full: bool
    flash: bool
    key: Dtype
    value: Dtype

    @property
    def streams(self) -> int:
        """Copies of the cells: one for all sequences if unified, else one each."""
        return 1 if self.unified else self.n_seq_max

    def window_cells(self, window: int) -> int:
        """Cells of a window cache: the window (of all sequences if unified) and one ubatch."""
        if self.swa_full:
            return self.n_ctx_seq
        held = window * (self.n_seq_max if self.unified else 1) + self.n_ubatch
        return pad(min(self.n_ctx_seq, held), CELLS)


def context(
    model: Model,
    *,
    n_ctx: int = 0,
    n_seq_max: int = 1,
    n_ubatch: int = 512,
    n_batch: int = 2048,
    kv_unified: bool = False,
    swa_full: bool = False,
    flash_attn: bool | None = None,
    type_k: str = "f16",
    type_v: str = "f16",
    n_rs_seq: int = 0,
) -> Context:
    """The caches of one llama.cpp context.

    Args:
        model: The model; its `architecture` chooses llama.cpp's rules.
        n_ctx: Tokens of all slots together (`-c`); 0 is the model's maximum.
        n_seq_max: Slots (`-np`).
        n_ubatch: Tokens of one physical batch, at most `n_batch` and the context.
        n_batch: Tokens of one logical batch.
        kv_unified: One stream of cells for all slots.
        swa_full: Window caches as large as the full ones.
        flash_attn: None is automatic, which counts as on when the caches are allocated.
        type_k: Format of K, one of `FORMATS` or f32, f16.
        type_v: Format of V; quantised ones need flash attention.
        n_rs_seq: Rollback copies of recurrent states (speculative decoding).

    Raises:
        KvcalcError: "unsupported_architecture" if llama.cpp has no such model; "unknown_dtype";
            "not_divisible" where quantised blocks do not fit; "usage" for other settings that
            llama.cpp refuses.
    """
    rules = rules_of(model.architecture, len(model.layers))
    layout = layout_of(model, rules)
    settings = _settings(
        model, rules, layout, n_ctx, n_seq_max, (n_ubatch, n_batch), kv_unified, swa_full,
        flash_attn, type_k, type_v,
    )  # fmt: skip
    if rules.compressed:
        items = [
            *_caches(layout, settings, streams=n_seq_max),
            *compressed_items(layout, settings.n_ctx_seq, n_seq_max, settings.key, n_rs_seq),
        ]
    else:
        items = _caches(layout, settings, streams=settings.streams)
    if layout.states:
        items.append(state_item(layout.states, n_seq_max, n_rs_seq if rules.rollback else 0))
    total = settings.n_ctx_seq * (1 if kv_unified else n_seq_max)
    return Context(total, settings.n_ctx_seq, n_seq_max, settings.n_ubatch, tuple(items))


def _caches(layout: Layout, settings: _Settings, *, streams: int) -> list[EngineItem]:
    """The caches of cells: all tokens, windows, latents, indexer keys."""
    # Without flash attention V is transposed, and every layer's as wide as the widest.
    wide = 0 if settings.flash else layout.widest_value
    cells = settings.n_ctx_seq
    window = settings.window_cells(layout.window)
    names = ("kv_full", "kv_window") if layout.windowed else ("kv", "kv_window")
    found = [
        _item(names[0], layout.full, cells, streams, settings, wide),
        _item(names[1], layout.windowed, window, streams, settings, wide),
        _item("kv_latent", layout.latent, cells, streams, settings, 0),
        _item("indexer", layout.indexer, cells, streams, settings, 0),
    ]
    return [item for item in found if item.layers]


def _item(
    name: str, rows: list[Row], cells: int, streams: int, settings: _Settings, wide: int
) -> EngineItem:
    """cells · streams rows of K and V a layer: rows of all heads, whole blocks."""
    keys = sum(_row_bytes(settings.key, row.heads * row.key_dim) for row in rows)
    values = sum(
        _row_bytes(settings.value, wide or row.heads * row.value_dim)
        for row in rows
        if row.value_dim
    )
    slots = cells * streams
    return EngineItem(
        name, len(rows), cells, streams, keys * slots, values * slots, (keys + values) * slots
    )


def _row_bytes(kind: Dtype, elements: int) -> int:
    """One token's row of a layer.

    Raises:
        KvcalcError: "not_divisible" if blocks do not divide the row.
    """
    if elements % kind.block_elements:
        raise KvcalcError(
            "not_divisible",
            f"{kind.key} stores blocks of {kind.block_elements} elements; "
            f"a row of {elements} is no multiple of it",
            "use f16",
        )
    return elements // kind.block_elements * kind.block_bytes


def _settings(
    model: Model,
    rules: Rules,
    layout: Layout,
    n_ctx: int,
    n_seq_max: int,
    batches: tuple[int, int],
    unified: bool,
    swa_full: bool,
    flash_attn: bool | None,
    type_k: str,
    type_v: str,
) -> _Settings:
    """Padding as llama.cpp does it: 4096 over 3 slots becomes 3 · 1536."""
    wanted = n_ctx or model.max_context_tokens or 0
    if wanted < 1:
        raise KvcalcError("usage", "n_ctx is 0 and the model names no maximum", "set n_ctx")
    if not 1 <= n_seq_max <= MAX_SEQUENCES:
        raise KvcalcError(
            "usage", f"{n_seq_max:,} slots: llama.cpp and Ollama have 1 to {MAX_SEQUENCES}",
            f"-n {MAX_SEQUENCES} is the most of one server",
        )  # fmt: skip
    ubatch, batch = batches
    if ubatch < 0 or batch < 0 or not (ubatch or batch):
        raise KvcalcError("usage", "n_batch and n_ubatch cannot both be 0", "leave one out")
    key, value = _format(type_k, "type_k"), _format(type_v, "type_v")
    flash = flash_attn is not False and not rules.no_flash
    _check_types(layout, rules, key, value, flash)
    cells = pad(wanted, CELLS)
    return _Settings(
        n_ctx_seq=cells if unified else pad(cells // n_seq_max, CELLS) or CELLS,
        n_seq_max=n_seq_max,
        n_ubatch=min(wanted, batch or wanted, ubatch or batch),
        unified=unified,
        swa_full=swa_full,
        flash=flash,
        key=key,
        value=value,
    )


def _format(name: str, setting: str) -> Dtype:
    kind = dtype(name, setting)
    if kind.key not in FORMATS:
        raise KvcalcError(
            "unknown_dtype",
            f"{setting}: llama.cpp does not store {shown(kind.key)}",
            f"one of {', '.join(FORMATS)}",
        )
    return kind


def _check_types(layout: Layout, rules: Rules, key: Dtype, value: Dtype, flash: bool) -> None:
    """What llama.cpp refuses of K and V formats."""
    if (layout.latent or rules.compressed) and key.key != value.key:
        raise KvcalcError(
            "usage",
            f"llama.cpp keeps latent attention in one format, not K {key.key} and V {value.key}",
            "set type_k and type_v to the same",
        )
    if value.row_blocks and not flash:
        raise KvcalcError(
            "usage", f"{value.key} V needs flash attention", "leave flash_attn on, or use f16"
        )
    if flash:
        for row in (*layout.full, *layout.windowed, *layout.latent):
            for kind, dim in ((key, row.key_dim), (value, row.value_dim)):
                if dim % kind.block_elements:
                    raise KvcalcError(
                        "not_divisible",
                        f"{kind.key} stores blocks of {kind.block_elements} elements; "
                        f"a head of {dim} is no multiple of it",
                        "use f16",
                    )
