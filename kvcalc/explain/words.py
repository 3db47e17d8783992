"""Words and numbers that several pages share."""

from __future__ import annotations

from kvcalc.core.results.size import LayerGroup
from kvcalc.core.units import trimmed

_PREFIXES = (("E", 10**18), ("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6))


def scale_of(flops: int) -> str:
    """FLOPs with a prefix: ≈8.04 P."""
    for name, size in _PREFIXES:
        if flops >= size:
            return f"≈{trimmed(flops, size)}\u00a0{name}FLOP"
    return f"{flops:,}\u00a0FLOP"


def seconds_of(value: float) -> str:
    """A time in its largest unit of at least 1."""
    for name, factor in (("s", 1), ("ms", 1000), ("µs", 10**6)):
        if value * factor >= 1 or name == "µs":
            return f"{trimmed(value * factor)}\u00a0{name}"
    return ""


def kinds_of(g: LayerGroup) -> list[str]:
    """A kind of layer as a row: layers, kind, heads, elements, bytes, window, state."""
    kind = g.variant or {"sliding_window": "window", "latent": "MLA latent"}.get(g.kind, g.kind)
    width = g.key_dim or 0
    elements = "" if not width else str(width)
    if g.kv_heads and g.value_dim:
        elements = f"{g.kv_heads} × ({g.key_dim} + {g.value_dim})"
    return [
        str(g.count),
        kind.replace("_", " "),
        "" if g.kv_heads is None else str(g.kv_heads),
        elements,
        f"{g.count * g.bytes_per_token:,}" if g.bytes_per_token else "",
        "" if g.window_tokens is None else f"{g.window_tokens:,}",
        f"{g.count * g.state_bytes:,}" if g.state_bytes else "",
    ]
