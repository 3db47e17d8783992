"""Which of llama.cpp's caches each layer of a model goes to, and how wide its rows are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
)
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.engines.llamacpp_archs import (
    EXAONE4_PATTERN,
    EXAONE4_WINDOW,
    Rules,
)


class Row(NamedTuple):
    """One layer's keys and values of one token, in elements; no values in latent caches."""

    heads: int
    key_dim: int
    value_dim: int


@dataclass(slots=True)
class Layout:
    """Layers by the cache they go to, in order."""

    window: int = 0
    full: list[Row] = field(default_factory=list)
    windowed: list[Row] = field(default_factory=list)
    latent: list[Row] = field(default_factory=list)
    indexer: list[Row] = field(default_factory=list)
    #: DeepSeek-V4: (ratio, row) of compressed caches; indexer keys have theirs in `indexed`.
    compressed: list[tuple[int, Row]] = field(default_factory=list)
    indexed: list[Row] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    #: Elements of the widest layer's values, shared ones included.
    widest_value: int = 0


def layout_of(model: Model, rules: Rules) -> Layout:
    """The layers of a model as llama.cpp sorts them.

    Raises:
        KvcalcError: "unsupported_architecture" for caches that llama.cpp does not have.
    """
    layout = Layout()
    own = [_owned(model, rules, i) for i in range(len(model.layers))]
    layout.window = _window(own, rules)
    for index, layer in enumerate(own):
        slides = _slides(index, layer, rules, model, layout.window)
        for cache in layer:
            _place(cache, layout, rules, model, slides=slides)
    everything = (c.reads if isinstance(c, Shared) else c for layer in model.layers for c in layer)
    layout.widest_value = max(
        (c.kv_heads * c.value_dim for c in everything if isinstance(c, Full)), default=0
    )
    return layout


def _owned(model: Model, rules: Rules, index: int) -> tuple[Cache, ...]:
    """The caches that llama.cpp gives a layer: gemma3n's first 20 own one, whatever is shared."""
    layer = model.layers[index]
    if rules.owners is None:
        return tuple(c for c in layer if not isinstance(c, Shared))
    if index >= rules.owners:
        return ()
    found = tuple(c.reads if isinstance(c, Shared) else c for c in layer)
    kept = tuple(c for c in found if c is not None)
    if len(kept) < len(found):
        raise KvcalcError(
            "unsupported_architecture",
            f"llama.cpp gives layer {index} of {model.name} a cache of its own; "
            "the model does not say of which kind",
            "give the model by its config.json or .gguf",
        )
    return kept


def _window(layers: list[tuple[Cache, ...]], rules: Rules) -> int:
    """The window of the sliding layers in tokens; 0 if llama.cpp keeps all tokens."""
    if not rules.windows:
        return 0
    sizes = {w for layer in layers for c in layer if (w := _size(c)) is not None}
    if rules.gguf == "exaone4":
        return max(sizes, default=EXAONE4_WINDOW)
    if len(sizes) > 1:
        raise KvcalcError(
            "unsupported_architecture",
            f"llama.cpp has one window a model, not {', '.join(map(str, sorted(sizes)))}",
            "use --engine none",
        )
    return (rules.window or max(sizes)) if sizes else 0


def _size(cache: Cache) -> int | None:
    if isinstance(cache, SlidingWindow):
        return cache.window
    if isinstance(cache, Chunked):
        return cache.chunk
    return cache.window if isinstance(cache, Latent) else None


def _slides(index: int, layer: tuple[Cache, ...], rules: Rules, model: Model, window: int) -> bool:
    """Whether the layer's attention goes to the window cache."""
    if not window:
        return False
    pattern = rules.pattern
    said = any(_size(c) is not None for c in layer)
    if rules.gguf == "exaone4" and not any(_size(c) for ly in model.layers for c in ly):
        pattern = EXAONE4_PATTERN
    elif rules.gguf == "gemma3" and model.source == "gguf":
        pattern = None
    if pattern is None:
        return said
    period, full_first = pattern
    return index % period != 0 if full_first else index % period < period - 1


def _place(cache: Cache, layout: Layout, rules: Rules, model: Model, *, slides: bool) -> None:
    attention = layout.windowed if slides else layout.full
    if isinstance(cache, Full):
        attention.append(Row(cache.kv_heads, cache.key_dim, cache.value_dim))
    elif isinstance(cache, Latent):
        if rules.expands_latent:
            attention.append(_expanded(cache, model))
        else:
            kept = layout.windowed if cache.window else layout.latent
            kept.append(Row(1, cache.rank + cache.rope_dim, 0))
    elif isinstance(cache, Indexer):
        values = _value_dim(model) if rules.indexer_values else 0
        row = Row(1, cache.dim * rules.indexer_rows, values)
        (layout.indexed if rules.compressed else layout.indexer).append(row)
    elif isinstance(cache, Compressed) and rules.compressed:
        layout.compressed.append((cache.ratio, Row(1, cache.dim, 0)))
    elif isinstance(cache, State):
        # DeepSeek-V4's compressors have fp32 states of llama.cpp's own sizes.
        if not rules.compressed:
            layout.states.append(cache)
    elif not isinstance(cache, Cross):
        raise KvcalcError(
            "unsupported_architecture",
            f"llama.cpp has no {cache.kind} cache (model {model.name})",
            "use --engine none",
        )


def _expanded(cache: Latent, model: Model) -> Row:
    """MiniCPM3: keys of every head; values of hidden / heads, as the converter leaves them out."""
    if cache.heads is None or cache.nope_dim is None:
        raise KvcalcError(
            "unsupported_architecture",
            f"llama.cpp stores {model.name}'s keys of every head; the model does not name them",
            "give the model by its config.json or .gguf",
        )
    value = model.hidden_size // cache.heads if model.hidden_size else cache.value_dim
    return Row(cache.heads, cache.nope_dim + cache.rope_dim, value or 0)


def _value_dim(model: Model) -> int:
    """The value dim of the model's attention, which llama.cpp's indexer cache takes over."""
    return next((c.value_dim for ly in model.layers for c in ly if isinstance(c, Full)), 0)
