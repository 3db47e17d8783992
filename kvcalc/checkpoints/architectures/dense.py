"""Decoders whose layers keep plain keys and values: all tokens, a window, or a chunk."""

from __future__ import annotations

from kvcalc.checkpoints.architectures import dense_rows, window_rows
from kvcalc.checkpoints.architectures.layers import build, chunked, full, nothing, sliding
from kvcalc.checkpoints.architectures.patterns import layer_kinds
from kvcalc.checkpoints.architectures.shape import Built, Family, Shape
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: What a layer type holds.
MAKERS = {
    "full_attention": full,
    "sliding_attention": sliding,
    "chunked_attention": chunked,
    "mlp": nothing,
    "moe": nothing,
}


def dense(s: Shape) -> Built:
    """Every layer one attention with H_kv heads; types as listed or by the class's rule."""
    return Built(build(s, layer_kinds(s), MAKERS), s, full)


def encoder(s: Shape) -> Built:
    """BERT and its kin: with `is_decoder` a decoder, otherwise nothing is cached.

    Raises:
        KvcalcError: "unsupported_architecture" for an encoder.
    """
    if not s.f.flag("is_decoder", default=False):
        raise KvcalcError(
            "unsupported_architecture",
            f"{shown(s.f.where)}: {shown(s.f.get('model_type'))} without is_decoder is an "
            "encoder, which keeps no KV cache",
            "nothing to size: an encoder computes every token at once",
        )
    return dense(s)


FAMILIES: dict[str, tuple[Family, str]] = {
    **{name: (dense, row) for name, row in dense_rows.ROWS.items()},
    **{name: (dense, row) for name, row in window_rows.ROWS.items()},
    **{name: (encoder, row) for name, row in dense_rows.ENCODERS.items()},
}
