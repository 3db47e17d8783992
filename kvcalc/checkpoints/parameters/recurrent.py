"""Recurrent mixers, each the tensors of n equal layers. K is the convolution's kernel."""

from __future__ import annotations

from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.tally import RECURRENT, Tally


def rank_of(c: Fields, name: str) -> int:
    """The rank of Mamba's time step; "auto" is d / 16 rounded up."""
    return -(-c.hidden // 16) if c.raw(name) in (None, "auto") else c[name]


def mamba1(
    p: Tally,
    n: int,
    *,
    d: int,
    inner: int,
    state: int,
    rank: int,
    kernel: int,
    conv_bias: bool = True,
    proj_bias: bool = False,
) -> None:
    """2·I·d + I·(r + 2·N) + r·I + I + d·I, a convolution of I·K, A of I·N and D of I."""
    p.plain(RECURRENT, "A_log", inner * state + inner, n)
    p.plain(RECURRENT, "conv1d", inner * (kernel + conv_bias), n)
    p.linear(RECURRENT, "in_proj", 2 * inner, d, n, bias=proj_bias)
    p.linear(RECURRENT, "x_proj", rank + 2 * state, inner, n)
    p.linear(RECURRENT, "dt_proj", inner, rank, n, bias=True)
    p.linear(RECURRENT, "out_proj", d, inner, n, bias=proj_bias)


def mamba2(
    p: Tally,
    n: int,
    *,
    d: int,
    inner: int,
    heads: int,
    groups: int,
    state: int,
    kernel: int,
    conv_bias: bool = True,
    proj_bias: bool = False,
    out_bias: bool = False,
    norm: bool = True,
) -> None:
    """(2·I + 2·G·N + H)·d + d·I, a convolution over I + 2·G·N, A, D and a time bias per head."""
    channels = inner + 2 * groups * state
    p.plain(RECURRENT, "A_log", 3 * heads, n)
    p.plain(RECURRENT, "conv1d", channels * (kernel + conv_bias), n)
    p.linear(RECURRENT, "in_proj", inner + channels + heads, d, n, bias=proj_bias)
    p.linear(RECURRENT, "out_proj", d, inner, n, bias=out_bias)
    if norm:
        p.norm(inner, n, name="mamba.norm")


def gated_delta(c: Fields, p: Tally, n: int) -> None:
    """d·(2·kd + 2·vd) + 2·d·Hv + (2·kd + vd)·K + 2·Hv + dv + vd·d: section F.3."""
    d, hv, dv = c.hidden, c["linear_num_value_heads"], c["linear_value_head_dim"]
    kd, vd = c["linear_num_key_heads"] * c["linear_key_head_dim"], hv * dv
    p.linear(RECURRENT, "in_proj_qkvz", 2 * kd + 2 * vd, d, n)
    p.linear(RECURRENT, "in_proj_ba", 2 * hv, d, n)
    p.plain(RECURRENT, "conv1d", (2 * kd + vd) * c["linear_conv_kernel_dim"], n)
    p.plain(RECURRENT, "A_log", 2 * hv, n)
    p.norm(dv, n, name="linear_attn.norm")
    p.linear(RECURRENT, "out_proj", d, vd, n)


def kimi_delta(
    p: Tally, n: int, *, d: int, heads: int, dim: int, kernel: int, low_rank: bool = True
) -> None:
    """q, k, v of H·dh, their convolutions, gates through a rank of dh, a time bias per channel."""
    wide = heads * dim
    p.linear(RECURRENT, "qkv_proj", 3 * wide, d, n)
    p.plain(RECURRENT, "conv1d", 3 * wide * kernel, n)
    p.plain(RECURRENT, "A_log", wide + heads, n)
    p.linear(RECURRENT, "b_proj", heads, d, n)
    for name in ("f", "g"):
        if low_rank:
            p.linear(RECURRENT, name + "_a_proj", dim, d, n)
            p.linear(RECURRENT, name + "_b_proj", wide, dim, n)
        else:
            p.linear(RECURRENT, name + "_proj", wide, d, n)
    p.norm(dim, n, name="o_norm")
    p.linear(RECURRENT, "o_proj", d, wide, n)


def lightning(c: Fields, p: Tally, n: int) -> None:
    """MiniMax: q, k, v and a gate of H·dh, a norm of H·dh, the output."""
    d, wide = c.hidden, c.heads * c.head_dim
    p.linear(RECURRENT, "qkv_proj", 3 * wide, d, n)
    p.linear(RECURRENT, "output_gate", wide, d, n)
    p.linear(RECURRENT, "out_proj", d, wide, n)
    p.norm(wide, n, name="linear_attn.norm")


def short_conv(c: Fields, p: Tally, n: int) -> None:
    """LFM2: 3·d·d + d·K + d·d."""
    d, bias = c.hidden, c.flag("conv_bias")
    p.linear(RECURRENT, "conv.in_proj", 3 * d, d, n, bias=bias)
    p.plain(RECURRENT, "conv.conv", d * (c["conv_L_cache"] + bias), n)
    p.linear(RECURRENT, "conv.out_proj", d, d, n, bias=bias)


def rg_lru(c: Fields, p: Tally, n: int) -> None:
    """RecurrentGemma: two inputs and an output of w, a convolution, gates in blocks by head."""
    d, w, heads = c.hidden, c.number("lru_width", c.hidden), c.heads
    if not heads or w % heads:
        raise Unusable
    p.linear(RECURRENT, "linear_x", w, d, n, bias=True)
    p.linear(RECURRENT, "linear_y", w, d, n, bias=True)
    p.linear(RECURRENT, "linear_out", d, w, n, bias=True)
    p.plain(RECURRENT, "conv_1d", w * (c["conv1d_width"] + 1), n)
    p.plain(RECURRENT, "rg_lru.gates", 2 * (w * (w // heads) + w) + w, n)
