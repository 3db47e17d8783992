"""Mamba families, and those that mix Mamba with attention, MLPs and experts."""

from __future__ import annotations

from kvcalc.checkpoints.parameters.blocks import (
    attention,
    embeddings,
    gated_mlp,
    moe,
    plain_mlp,
)
from kvcalc.checkpoints.parameters.dense import AB, MB
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.moe import MW
from kvcalc.checkpoints.parameters.recurrent import (
    mamba1,
    mamba2,
    rank_of,
)
from kvcalc.checkpoints.parameters.tally import (
    ATTENTION,
    EXPERTS,
    MLP,
    OTHER,
    RECURRENT,
    Tally,
)

_FULL = ("full_attention", "attention")


def _split(kinds: list[str]) -> tuple[int, int]:
    """Layers with attention, and the others."""
    full = sum(kind in _FULL for kind in kinds)
    return full, len(kinds) - full


def mamba(c: Fields, p: Tally) -> None:
    """Mamba 1 in every layer, one norm each."""
    d, n = c.hidden, c.layers
    inner = c.number("expand", 2) * d
    embeddings(c, p)
    mamba1(p, n, d=d, inner=inner, state=c["state_size"], rank=rank_of(c, "time_step_rank"),
           kernel=c["conv_kernel"], conv_bias=c.flag("use_conv_bias"),
           proj_bias=c.flag("use_bias"))  # fmt: skip
    p.norm(d, n + 1)


def mamba2_model(c: Fields, p: Tally) -> None:
    """Mamba 2 in every layer, one norm each."""
    d, n = c.hidden, c.layers
    embeddings(c, p)
    mamba2(p, n, d=d, inner=c.number("expand", 2) * d, heads=c.heads, groups=c["n_groups"],
           state=c["state_size"], kernel=c["conv_kernel"], conv_bias=c.flag("use_conv_bias"),
           proj_bias=c.flag("use_bias"), out_bias=c.flag("use_bias"))  # fmt: skip
    p.norm(d, n + 1)


def _mamba2_of(c: Fields, p: Tally, n: int, *, inner: int, norm: bool, bias: bool) -> None:
    """Mamba 2 under the field names of Bamba, Granite 4 and Falcon-H1."""
    mamba2(p, n, d=c.hidden, inner=inner, heads=c["mamba_n_heads"], groups=c["mamba_n_groups"],
           state=c["mamba_d_state"], kernel=c["mamba_d_conv"], norm=norm, proj_bias=bias,
           conv_bias=c.flag("mamba_conv_bias"), out_bias=bias)  # fmt: skip


def jamba(c: Fields, p: Tally) -> None:
    """Attention every attn_layer_period, experts every expert_layer_period, Mamba 1 with norms."""
    d, n, f = c.hidden, c.layers, c["intermediate_size"]
    period, offset = c["attn_layer_period"], c["attn_layer_offset"]
    every, first, experts = c["expert_layer_period"], c["expert_layer_offset"], c["num_experts"]
    if not period or not every:
        raise Unusable
    full = sum(i % period == offset for i in range(n))
    routed = sum(i % every == first for i in range(n)) if experts > 1 else 0
    state, rank = c["mamba_d_state"], rank_of(c, "mamba_dt_rank")
    embeddings(c, p)
    attention(c, p, full, dim=d // c.heads)
    mamba1(p, n - full, d=d, inner=c["mamba_expand"] * d, state=state, rank=rank,
           kernel=c["mamba_d_conv"], conv_bias=c.flag("mamba_conv_bias"),
           proj_bias=c.flag("mamba_proj_bias"))  # fmt: skip
    p.norm(rank + 2 * state, n - full, name="mamba.norms")
    gated_mlp(p, d, f, n - routed)
    moe(c, p, routed, f=f)
    p.norm(d, 2 * n + 1)


def bamba(c: Fields, p: Tally) -> None:
    """Attention in attn_layer_indices, Mamba 2 elsewhere, an MLP everywhere."""
    d, n, listed = c.hidden, c.layers, c.items("attn_layer_indices") or []
    full = sum(i in listed for i in range(n))
    embeddings(c, p)
    attention(c, p, full, qkv_bias=c.flag(AB), o_bias=c.flag(AB))
    _mamba2_of(c, p, n - full, inner=c["mamba_expand"] * d, norm=True,
               bias=c.flag("mamba_proj_bias"))  # fmt: skip
    gated_mlp(p, d, c["intermediate_size"], n, bias=c.flag(MB))
    p.norm(d, 2 * n + 1)


def granitemoehybrid(c: Fields, p: Tally) -> None:
    """Attention and Mamba 2 by layer_types, a shared MLP in every layer, experts if it has any."""
    d, n = c.hidden, c.layers
    full, rest = _split(c.layer_types(n, ["mamba"] * n))
    embeddings(c, p)
    attention(c, p, full, qkv_bias=c.flag(AB), o_bias=c.flag(AB))
    _mamba2_of(c, p, rest, inner=c["mamba_expand"] * d, norm=True, bias=c.flag("mamba_proj_bias"))
    gated_mlp(p, d, c["shared_intermediate_size"], n)
    if c.number("num_experts", 0):
        moe(c, p, n, f=c["intermediate_size"])
    p.norm(d, 2 * n + 1)


def falcon_h1(c: Fields, p: Tally) -> None:
    """Attention, Mamba 2 and an MLP in every layer."""
    d, n = c.hidden, c.layers
    inner = c.number("mamba_d_ssm", c.number("mamba_expand", 2) * d)
    embeddings(c, p)
    attention(c, p, n, qkv_bias=c.flag(AB), o_bias=c.flag(AB))
    mamba2(p, n, d=d, inner=inner, heads=c["mamba_n_heads"], groups=c["mamba_n_groups"],
           state=c["mamba_d_state"], kernel=c["mamba_d_conv"], norm=c.flag("mamba_rms_norm"),
           conv_bias=c.flag("mamba_conv_bias"), proj_bias=c.flag("mamba_proj_bias"),
           out_bias=c.flag("projectors_bias"))  # fmt: skip
    gated_mlp(p, d, c["intermediate_size"], n, bias=c.flag(MB))
    p.norm(d, 2 * n + 1)


def nemotron_h(c: Fields, p: Tally) -> None:
    """One block a layer: M Mamba 2, * attention, - MLP, E experts (on a latent in the large)."""
    letters = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
    pattern, listed = c.text("hybrid_override_pattern"), c.items("layers_block_type")
    kinds = listed or c.items("layer_types") or [letters.get(x) for x in pattern or "ME*-"]
    kinds = [{"mamba": "linear_attention", "attention": "full_attention"}.get(k, k) for k in kinds]
    if not kinds or not set(kinds) <= set(letters.values()):
        raise Unusable
    d, n, counts = c.hidden, len(kinds), {kind: kinds.count(kind) for kind in letters.values()}
    heads = c["mamba_num_heads"]
    embeddings(c, p, tied=False)
    attention(c, p, counts["full_attention"])
    mamba2(p, counts["linear_attention"], d=d, inner=heads * c["mamba_head_dim"], heads=heads,
           groups=c.number("n_groups", 8), state=c["ssm_state_size"],
           kernel=c.number("conv_kernel", 4), conv_bias=c.flag("use_conv_bias", default=True),
           proj_bias=c.flag("use_bias"), out_bias=c.flag("use_bias"))  # fmt: skip
    plain_mlp(p, d, c["intermediate_size"], counts["mlp"], bias=c.flag(MB))
    if counts["moe"]:
        _nemotron_experts(c, p, counts["moe"])
    p.norm(d, n + 1)


def _nemotron_experts(c: Fields, p: Tally, n: int) -> None:
    """Ungated experts on d, or on a latent that d is projected to and back from."""
    d, f, latent, bias = c.hidden, c[MW], c.number("moe_latent_size", 0), c.flag(MB)
    count, top, wide = c["num_experts"], c["num_experts_per_tok"], latent or d
    if not 0 < top <= count:
        raise Unusable
    plain_mlp(p, wide, f, n * count, part=EXPERTS, name="experts.")
    p.idle(n * (count - top) * 2 * wide * f)
    p.matrix("router", "router", count, d, n)
    p.buffers += n * count
    plain_mlp(p, d, c["moe_shared_expert_intermediate_size"], n, bias=bias, part="shared_experts")
    if latent:
        p.linear(EXPERTS, "fc1_latent_proj", latent, d, n, bias=bias)
        p.linear(EXPERTS, "fc2_latent_proj", d, latent, n, bias=bias)


def zamba(c: Fields, p: Tally) -> None:
    """Mamba 1 of several heads everywhere; one transformer on 2·d that the hybrid layers share."""
    d, n, f, heads = c.hidden, c.layers, c["intermediate_size"], c["n_mamba_heads"]
    period, offset = c["attn_layer_period"], c["attn_layer_offset"]
    if not period or not heads:
        raise Unusable
    turn = ["hybrid" if i % period == offset else "mamba" for i in range(max(n - 3, 0))]
    hybrid = c.layer_types(n, ["mamba", "mamba", "hybrid", *turn][:n]).count("hybrid")
    width, inner = c.number("attention_hidden_size", 2 * d), c["mamba_expand"] * d
    rank, state = rank_of(c, "mamba_dt_rank"), c["mamba_d_state"]
    if not c.tied:  # transformers then unshares the transformer too, as no checkpoint does
        raise Unusable
    embeddings(c, p)
    p.plain(RECURRENT, "A_log", inner * (state + 1), n)
    p.plain(RECURRENT, "conv1d", inner * (c["mamba_d_conv"] + c.flag("mamba_conv_bias")), n)
    p.linear(RECURRENT, "in_proj", 2 * inner, d, n, bias=c.flag("mamba_proj_bias"))
    p.plain(RECURRENT, "x_proj", (rank + 2 * state) * inner, n)
    p.plain(RECURRENT, "dt_proj", inner * (rank + 1), n)
    p.linear(RECURRENT, "out_proj", d, inner, n, bias=c.flag("mamba_proj_bias"))
    p.linear(OTHER, "linear", d, d, hybrid)
    if hybrid:
        dim = c.number("head_dim", 2 * d // c.heads)
        attention(c, p, 1, width=width, out=d, dim=dim)
        gated_mlp(p, d, f, 1)
        p.norm(width + d, name="shared_transf.norms")
    p.norm(d, n + 1)


def zamba2(c: Fields, p: Tally) -> None:
    """Mamba 2 everywhere; `num_mem_blocks` transformers on 2·d shared in turn, with adapters."""
    d, n, bias = c.hidden, c.layers, c.flag("add_bias_linear")
    f = c.number("intermediate_size", 4 * d)
    six = [*["mamba"] * 5, "hybrid"]
    usual = ["mamba", *six * 7, *six[1:], *six[2:], "mamba", "mamba"]
    hybrid = c.layer_types(n, usual).count("hybrid")
    blocks, rank = min(c["num_mem_blocks"], hybrid), c["adapter_rank"]
    inner = c["mamba_expand"] * d
    if not c.tied:
        raise Unusable
    embeddings(c, p)
    mamba2(p, n, d=d, inner=inner, heads=c["n_mamba_heads"], groups=c["mamba_ngroups"],
           state=c["mamba_d_state"], kernel=c["mamba_d_conv"], proj_bias=bias,
           out_bias=bias)  # fmt: skip
    p.linear(OTHER, "linear", d, d, hybrid)
    width, dim = 2 * d, c.number("head_dim", 2 * d // c.heads)
    attention(c, p, blocks, width=width, out=d, dim=dim)
    gated_mlp(p, d, f, blocks, bias=bias)
    p.linear(MLP, "adapter", rank, d + 2 * f, hybrid)
    if c.flag("use_shared_attention_adapter"):
        p.linear(ATTENTION, "adapter", rank, 2 * width, 3 * hybrid)
    p.norm(width + d, blocks)
    p.norm(d, n + 1)


FAMILIES = {
    "mamba": mamba,
    "falcon_mamba": mamba,
    "mamba2": mamba2_model,
    "jamba": jamba,
    "bamba": bamba,
    "granitemoehybrid": granitemoehybrid,
    "falcon_h1": falcon_h1,
    "nemotron_h": nemotron_h,
    "zamba": zamba,
    "zamba2": zamba2,
}
