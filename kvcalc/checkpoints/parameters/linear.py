"""Families of linear attention, gated delta nets, short convolutions and other recurrences."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kvcalc.checkpoints.parameters.blocks import (
    PER_HEAD,
    ROW,
    attention,
    embeddings,
    gated_mlp,
    mla,
    moe,
)
from kvcalc.checkpoints.parameters.dense import AB
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.moe import MW, SHARED, dense_layers
from kvcalc.checkpoints.parameters.recurrent import (
    gated_delta,
    kimi_delta,
    lightning,
    rg_lru,
    short_conv,
)
from kvcalc.checkpoints.parameters.tally import ATTENTION, MLP, RECURRENT, Tally

_FULL = ("full_attention", "attention")


def _split(kinds: list[str]) -> tuple[int, int]:
    """Layers with attention, and the others."""
    full = sum(kind in _FULL for kind in kinds)
    return full, len(kinds) - full


def qwen3_next(c: Fields, p: Tally) -> None:
    """Gated delta nets, gated attention every fourth layer, experts or (Qwen3.5) an MLP."""
    d, n, bias = c.hidden, c.layers, c.flag(AB)
    every = c.number("full_attention_interval", 4)
    if not every:
        raise Unusable
    usual = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(n)]
    full, rest = _split(c.layer_types(n, usual))
    routed = n if c.model_type.startswith("qwen3_5_moe") else 0
    if c.model_type == "qwen3_next":
        routed = n - dense_layers(c, "step") if c.number("num_experts", 0) else 0
    embeddings(c, p)
    gate = c.heads * c.head_dim
    attention(c, p, full, qkv_bias=bias, o_bias=bias, qk_norm=PER_HEAD, gate=gate)
    if bias:
        p.plain(ATTENTION, "gate.bias", gate, full)
    gated_delta(c, p, rest)
    if routed < n:
        gated_mlp(p, d, c["intermediate_size"], n - routed)
    if routed:
        shared = c["shared_expert_intermediate_size"]
        moe(c, p, routed, f=c[MW], shared=shared, shared_gate=True)
    p.norm(d, 2 * n + 1)


def olmo_hybrid(c: Fields, p: Tally) -> None:
    """Gated delta nets three layers in four, OLMo's attention with row norms in the fourth."""
    d, n, bias = c.hidden, c.layers, c.flag(AB)
    usual = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(n)]
    if "full_attention" not in usual:
        usual[-1] = "full_attention"
    full, rest = _split(c.layer_types(n, usual))
    hk, hv = (c.number(f"linear_num_{x}_heads", c.heads) for x in ("key", "value"))
    dk = c.number("linear_key_head_dim", 3 * d // (4 * hk))
    sized = {"hidden_size": d, "linear_num_key_heads": hk, "linear_num_value_heads": hv,
             "linear_key_head_dim": dk,
             "linear_value_head_dim": c.number("linear_value_head_dim", 2 * dk),
             "linear_conv_kernel_dim": c.number("linear_conv_kernel_dim", 4)}  # fmt: skip
    embeddings(c, p)
    attention(c, p, full, qkv_bias=bias, o_bias=bias, qk_norm=ROW)
    gated_delta(Fields(sized, "", {}), p, rest)
    gated_mlp(p, d, c["intermediate_size"], n)
    p.norm(d, 2 * n + 1)


def kimi_linear(c: Fields, p: Tally) -> None:
    """Kimi delta attention, latent attention where full_attn_layers says (counted from 1)."""
    if c.has("routed_expert_hidden_size"):  # Kimi K3: experts on a latent, not understood here
        raise Unusable
    d, n = c.hidden, c.layers
    nested = c.raw("linear_attn_config")
    own = Fields(nested, "", {}) if isinstance(nested, dict) else Fields({}, "", {})
    usual = ["full_attention" if i and i % 4 == 0 else "linear_attention" for i in range(n)]
    listed, others = own.items("full_attn_layers"), own.items("kda_layers")
    if listed is not None and others is not None:
        usual = ["full_attention" if i + 1 in listed else "linear_attention" for i in range(n)]
    full, rest = _split(c.layer_types(n, usual))
    embeddings(c, p, tied=False)
    mla(c, p, full, bias=c.flag(AB))
    kimi_delta(p, rest, d=d, heads=own.number("num_heads", c.number("linear_num_heads", 32)),
               dim=own.number("head_dim", c.number("linear_head_dim", 128)),
               kernel=own.number("short_conv_kernel_size", c.number("linear_conv_kernel_dim", 4)),
               )  # fmt: skip
    plain, width = dense_layers(c, "first"), c[MW]
    gated_mlp(p, d, c["intermediate_size"], plain)
    moe(c, p, n - plain, f=width, shared=width * c.number(SHARED, 0), correction="buffer")
    p.norm(d, 2 * n + 1)


def minimax(c: Fields, p: Tally) -> None:
    """Lightning attention, softmax attention by layer_types or attn_type_list, experts."""
    d, n = c.hidden, c.layers
    listed = c.items("attn_type_list")
    usual = ["linear_attention" if i % 2 else "full_attention" for i in range(n)]
    if listed is not None:
        usual = ["full_attention" if kind else "linear_attention" for kind in listed[:n]]
    full, rest = _split(c.layer_types(n, usual))
    if c.number("shared_intermediate_size", 0):
        raise Unusable
    embeddings(c, p)
    attention(c, p, full)
    lightning(c, p, rest)
    moe(c, p, n, f=c["intermediate_size"])
    p.norm(d, 2 * n + 1)


def lfm2(c: Fields, p: Tally) -> None:
    """Short convolutions and attention with head norms; Llama's rounding of 2/3 of f."""
    d, n = c.hidden, c.layers
    full, rest = _lfm2_kinds(c)
    f = c.number("block_ff_dim", c["intermediate_size"])
    if c.flag("block_auto_adjust_ff_dim"):
        f = 2 * f // 3
        if c.has("block_ffn_dim_multiplier"):
            f = _scaled(f, c.raw("block_ffn_dim_multiplier"), c["block_multiple_of"])
    embeddings(c, p)
    attention(c, p, full, qk_norm=PER_HEAD)
    short_conv(c, p, rest)
    gated_mlp(p, d, f, n)
    p.norm(d, 2 * n + 1)


def lfm2_moe(c: Fields, p: Tally) -> None:
    """LFM2 with experts after `num_dense_layers`."""
    d, n, plain = c.hidden, c.layers, dense_layers(c, "leading")
    full, rest = _lfm2_kinds(c)
    embeddings(c, p)
    attention(c, p, full, qk_norm=PER_HEAD)
    short_conv(c, p, rest)
    gated_mlp(p, d, c["intermediate_size"], plain)
    correction = "buffer" if c.flag("use_expert_bias", default=True) else ""
    moe(c, p, n - plain, f=c[MW], correction=correction)
    p.norm(d, 2 * n + 1)


def _lfm2_kinds(c: Fields) -> tuple[int, int]:
    n, listed = c.layers, c.items("full_attn_idxs")
    usual = ["full_attention" if listed is None or i in listed else "conv" for i in range(n)]
    return _split(c.layer_types(n, usual))


def recurrent_gemma(c: Fields, p: Tally) -> None:
    """RG-LRU and window attention in the cycle of block_types; f is gate and up together."""
    d, n, cycle = c.hidden, c.layers, c.items("block_types") or ["recurrent"] * 2 + ["attention"]
    full = sum(cycle[i % len(cycle)] == "attention" for i in range(n))
    embeddings(c, p)
    attention(c, p, full, qkv_bias=c.flag(AB), o_bias=True, dim=d // c.heads)
    rg_lru(c, p, n - full)
    gated_mlp(p, d, c["intermediate_size"] // 2, n, bias=True)
    p.norm(d, 2 * n + 1)


def rwkv(c: Fields, p: Tally) -> None:
    """RWKV 4: time mixing of five vectors and four matrices, channel mixing of two and three."""
    d, n = c.hidden, c.layers
    a, f = c.number("attention_hidden_size", d), c.number("intermediate_size", 4 * d)
    embeddings(c, p)
    p.plain(RECURRENT, "time_mix", 2 * a + 3 * d, n)
    p.linear(RECURRENT, "key_value_receptance", 3 * a, d, n)
    p.linear(RECURRENT, "output", d, a, n)
    p.plain(MLP, "time_mix", 2 * d, n)
    p.linear(MLP, "key_value", 2 * f, d, n)
    p.linear(MLP, "receptance", d, d, n)
    p.norm(d, 2 * n + 2, bias=True)


def lfm3(c: Fields, p: Tally) -> None:
    """LFM2's mixers, attention gated by head, norms before and after."""
    d, n, bias = c.hidden, c.layers, c.flag(AB)
    usual = ["full_attention" if i % 4 == 2 or (i % 4 == 0 and i) else "conv" for i in range(n)]
    kinds = c.layer_types(n, usual)
    convs = kinds.count("conv")
    gate = c.heads if c.flag("use_attention_gate", default=True) else 0
    embeddings(c, p)
    attention(c, p, n - convs, qkv_bias=bias, o_bias=bias, qk_norm=PER_HEAD, gate=gate)
    short_conv(c, p, convs)
    gated_mlp(p, d, c["intermediate_size"], n)
    p.norm(d, (4 if c.flag("use_sandwich_norm", default=True) else 2) * n + 1)


def bailing_hybrid(c: Fields, p: Tally) -> None:
    """Kimi's delta attention with full-rank gates, gated latent attention, experts."""
    d, n, every = c.hidden, c.layers, c["layer_group_size"]
    if not every:
        raise Unusable
    usual = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(n)]
    full, rest = _split(c.layer_types(n, usual))
    embeddings(c, p, tied=False)
    mla(c, p, full, bias=c.flag(AB))
    p.linear(ATTENTION, "g_proj", c.heads, d, full)
    kimi_delta(p, rest, d=d, heads=c.heads, dim=c.number("linear_head_dim", c.head_dim),
               kernel=c["short_conv_kernel_size"], low_rank=False)  # fmt: skip
    plain, width = dense_layers(c, "first"), c[MW]
    gated_mlp(p, d, c["intermediate_size"], plain)
    moe(c, p, n - plain, f=width, shared=width * c.number(SHARED, 0), correction="buffer")
    p.norm(d, 2 * n + 1)


def xlstm(c: Fields, p: Tally) -> None:
    """mLSTM: queries and keys of a fraction of d, three gates, a norm over heads, a gated MLP."""
    d = c.number("hidden_size", c.number("embedding_dim", 4096))
    n = c.number("num_hidden_layers", c.number("num_blocks", 32))
    heads, bias = c.heads, c.flag("use_bias")
    qk, v = (_scaled(d, c.raw(f"{x}_dim_factor"), 1) for x in ("qk", "v"))
    f = _scaled(d, c.raw("ffn_proj_factor"), c["ffn_round_up_to_multiple_of"])
    p.matrix("embedding", "embeddings", c["vocab_size"], d)
    p.matrix("output_head", "lm_head", c["vocab_size"], d)
    p.linear(RECURRENT, "qk", 2 * qk, d, n, bias=bias)
    p.linear(RECURRENT, "v_ogate", 2 * v, d, n, bias=bias)
    p.linear(RECURRENT, "if_gate", 2 * heads, d, n, bias=True)
    p.linear(RECURRENT, "out_proj", d, v, n, bias=bias)
    p.norm(v, n, bias=bias, name="multihead_norm")
    gated_mlp(p, d, f, n, bias=bias)
    p.norm(d, 2 * n, bias=bias)
    p.norm(d)  # whatever add_out_norm says


def _scaled(size: int, factor: Any, step: int) -> int:
    """size · factor rounded down, then up to a multiple of step."""
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < 1000:
        raise Unusable
    return -(-int(Fraction(factor) * size) // step) * step


FAMILIES = {
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_next,
    "qwen3_5_moe_text": qwen3_next,
    "olmo_hybrid": olmo_hybrid,
    "kimi_linear": kimi_linear,
    "bailing_hybrid": bailing_hybrid,
    "minimax": minimax,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
    "lfm3": lfm3,
    "recurrent_gemma": recurrent_gemma,
    "rwkv": rwkv,
    "xlstm": xlstm,
}
