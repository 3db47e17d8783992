"""What one layer holds, and all layers from their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvcalc.checkpoints.architectures.shape import Shape
from kvcalc.core.cache import Chunked, Full, SlidingWindow
from kvcalc.core.model import Layer


def full(s: Shape) -> Layer:
    """Keys and values of every token."""
    return (Full(kv_heads=s.kv_heads, key_dim=s.head_dim, value_dim=s.value_dim),)


def sliding(s: Shape) -> Layer:
    """Keys and values of the last W tokens; a window of 0 is off.

    Raises:
        KvcalcError: "invalid_config" if a layer slides and the config has no window.
    """
    window = s.window
    if window is None:
        name = s.spellings("W")[0]
        if s.f.get(name) == 0:
            return full(s)
        if s.f.get(name) is not None:
            raise s.f.bad("use_sliding_window", "true, since layers of this model slide")
        raise s.f.bad(name, "a window, since layers of this model slide")
    return (SlidingWindow(
        kv_heads=s.kv_heads, key_dim=s.head_dim, value_dim=s.value_dim, window=window
    ),)  # fmt: skip


def chunked(s: Shape) -> Layer:
    """Keys and values of the current chunk.

    Raises:
        KvcalcError: "invalid_config" if a layer is chunked and the config has no chunk.
    """
    if s.chunk is None:
        raise s.f.bad(s.spellings("A")[0], "a chunk size, since layers of this model are chunked")
    return (Chunked(
        kv_heads=s.kv_heads, key_dim=s.head_dim, value_dim=s.value_dim, chunk=s.chunk
    ),)  # fmt: skip


def nothing(s: Shape) -> Layer:  # noqa: ARG001
    """A layer without a cache: an MLP or experts alone."""
    return ()


def build(
    s: Shape,
    kinds: list[str],
    makers: Mapping[str, Callable[[Shape], Layer]],
    field: str = "layer_types",
) -> tuple[Layer, ...]:
    """One layer for each kind; equal layers are made once.

    Raises:
        KvcalcError: "unsupported_architecture" for a kind the family does not have.
    """
    own: dict[int, Shape] = s.overrides(len(kinds))
    made: dict[str, Layer] = {}
    layers = []
    for i, kind in enumerate(kinds):
        if kind not in makers:
            raise s.f.unknown(f"{field}[{i}]", kind, ", ".join(makers))
        if i in own:
            layers.append(() if skips_attention(own[i]) else makers[kind](own[i]))
            continue
        if kind not in made:
            made[kind] = makers[kind](s)
        layers.append(made[kind])
    return tuple(layers)


def skips_attention(s: Shape) -> bool:
    """Whether a layer's own values say that its attention is left out (`skip`).

    Raises:
        KvcalcError: "unsupported_architecture" for a part that is not understood.
    """
    parts = s.f.texts("skip") or []
    for part in parts:
        if not any(word in part for word in ("attn", "attention", "mlp", "ffn", "moe", "norm")):
            raise s.f.unknown("skip", part, "attention, mlp")
    return any("attn" in part or "attention" in part for part in parts)
