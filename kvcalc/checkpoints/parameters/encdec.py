"""Encoder–decoder families, both halves counted, and text models with cross-attention layers."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kvcalc.checkpoints.parameters.blocks import (
    NONE,
    PER_HEAD,
    attention,
    embeddings,
    gated_mlp,
    plain_mlp,
)
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.tally import ATTENTION, EMBEDDING, HEAD, OTHER, Tally


def t5(c: Fields, p: Tally) -> None:
    """T5: heads of d_kv, no biases, relative-position buckets once a side (UMT5: every layer)."""
    d, kv, heads, f = c.hidden, c["d_kv"], c.heads, c["intermediate_size"]
    encoder = c.layers
    decoder = c.number("num_decoder_layers", encoder)
    gated = (c.text("feed_forward_proj") or "").startswith("gated")
    embeddings(c, p)
    attention(c, p, encoder + 2 * decoder, kv_heads=heads, dim=kv)
    own = encoder + decoder if c.model_type == "umt5" else 2
    p.matrix(ATTENTION, "relative_attention_bias", c["relative_attention_num_buckets"], heads, own)
    (gated_mlp if gated else plain_mlp)(p, d, f, encoder + decoder)
    p.norm(d, 2 * encoder + 3 * decoder + 2)


#: A half, and the fields with its layers and its MLP's width.
_HALVES = (
    ("encoder", "encoder_layers", "encoder_ffn_dim"),
    ("decoder", "decoder_layers", "decoder_ffn_dim"),
)


class Row(NamedTuple):
    """How BART's relatives differ: position rows more, learned or kept as parameters, norms."""

    positions: int | None = 2
    embedding_norm: bool = True
    final_norm: bool = False


def bart(row: Row, c: Fields, p: Tally) -> None:
    """BART: biases and LayerNorms everywhere, cross attention in every decoder layer."""
    if not c.tied:  # transformers then keeps copies that no checkpoint holds
        raise Unusable
    d = c.hidden
    for side, layers, ffn in _HALVES:
        n, f = c[layers], c[ffn]
        cross = n if side == "decoder" else 0
        attention(c, p, n + cross, qkv_bias=True, o_bias=True, heads=1, kv_heads=1, dim=d)
        plain_mlp(p, d, f, n, bias=True)
        p.norm(d, 2 * n + cross + row.embedding_norm + row.final_norm, bias=True)
        if row.positions is not None:
            rows = c["max_position_embeddings"] + row.positions
            p.matrix(EMBEDDING, "embed_positions", rows, d)
    embeddings(c, p)


def whisper(c: Fields, p: Tally) -> None:
    """Two convolutions of 3 columns, keys without biases, positions of both halves."""
    d = c.hidden
    p.plain(OTHER, "conv1", 3 * c["num_mel_bins"] * d + d)
    p.plain(OTHER, "conv2", 3 * d * d + d)
    p.matrix(EMBEDDING, "encoder.embed_positions", c["max_source_positions"], d)
    p.matrix(EMBEDDING, "decoder.embed_positions", c["max_target_positions"], d)
    for side, layers, ffn in _HALVES:
        n = c[layers]
        cross = n if side == "decoder" else 0
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            p.linear(ATTENTION, name, d, d, n + cross, bias=name != "k_proj")
        plain_mlp(p, d, c[ffn], n, bias=True)
        p.norm(d, 2 * n + cross + 1, bias=True)
    embeddings(c, p)


def t5gemma(c: Fields, p: Tally) -> None:
    """Two Gemma 2 halves with embeddings of their own; cross attention and two norms more below."""
    for side in ("encoder", "decoder"):
        half = Fields(c.raw(side) or {}, "t5gemma_module", {})
        d, n, bias = half.hidden, half.layers, half.flag("attention_bias")
        cross = n if side == "decoder" else 0
        p.matrix(EMBEDDING, f"{side}.embed_tokens", half["vocab_size"], d)
        attention(half, p, n, qkv_bias=bias, o_bias=bias)
        attention(half, p, cross, qkv_bias=bias, o_bias=bias)
        gated_mlp(p, d, half["intermediate_size"], n)
        p.norm(d, 4 * n + 2 * cross + 1)
    if not c.tied:
        decoder = Fields(c.raw("decoder") or {}, "t5gemma_module", {})
        p.matrix(HEAD, "lm_head", decoder["vocab_size"], decoder.hidden)


def mllama(c: Fields, p: Tally) -> None:
    """Llama with gated cross attention instead of self attention in some layers; 8 tokens more."""
    d, n = c.hidden, c.layers
    listed = c.items("cross_attention_layers")
    listed = list(range(3, 40, 5)) if listed is None else listed
    cross = sum(i in listed for i in range(n))
    p.matrix(EMBEDDING, "embed_tokens", c["vocab_size"] + 8, d)
    if not c.tied:
        p.matrix(HEAD, "lm_head", c["vocab_size"], d)
    for layers, norm in ((n - cross, NONE), (cross, PER_HEAD)):
        attention(c, p, layers, qk_norm=norm, dim=d // c.heads)
    p.plain(OTHER, "gates", 2, cross)
    gated_mlp(p, d, c["intermediate_size"], n)
    p.norm(d, 2 * n + 1)


_ROWS = {
    "bart": Row(),
    "mbart": Row(final_norm=True),
    "plbart": Row(),
    "mvp": Row(),
    "marian": Row(positions=0, embedding_norm=False),
    "pegasus": Row(positions=0, embedding_norm=False, final_norm=True),
    "blenderbot": Row(positions=0, embedding_norm=False, final_norm=True),
    "blenderbot-small": Row(positions=0),
    "m2m_100": Row(positions=None, embedding_norm=False, final_norm=True),
}
FAMILIES = {
    **{name: partial(bart, row) for name, row in _ROWS.items()},
    **dict.fromkeys(("t5", "mt5", "umt5"), t5),
    "whisper": whisper,
    "t5gemma": t5gemma,
    "mllama_text_model": mllama,
}
