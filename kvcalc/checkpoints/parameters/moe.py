"""Mixtures of experts on ordinary attention, as rows of what differs."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kvcalc.checkpoints.parameters.blocks import (
    NONE,
    PER_HEAD,
    ROW,
    attention,
    embeddings,
    gated_mlp,
    moe,
)
from kvcalc.checkpoints.parameters.dense import AB, MB, Switch, on
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.tally import ATTENTION, Tally


class Row(NamedTuple):
    """What a family's layers hold beside its experts."""

    norms: int = 2
    norm_bias: bool = False
    qkv_bias: Switch = False
    o_bias: Switch = False
    qk_norm: str = NONE
    #: The field with an expert's width.
    width: str = "intermediate_size"
    #: How many shared experts, of an expert's width each; or the field with their whole width.
    shared: str = ""
    shared_gate: bool = False
    #: What marks the dense layers: see `dense_layers`.
    dense: str = ""
    correction: str = ""
    mlp_bias: Switch = False
    head_bias: Switch = False


def dense_layers(c: Fields, rule: str) -> int:
    """How many of the layers have a plain MLP: `mlp_layer_types` if it is there, else by rule.

    "first": the first `first_k_dense_replace`; "step": those of `mlp_only_layers` and those whose
    place, counted from 1, is no multiple of `decoder_sparse_step`; "leading": `num_dense_layers`.
    """
    n = c.layers
    kinds = c.items("mlp_layer_types")
    if kinds is not None:
        if len(kinds) < n:
            raise Unusable
        return sum(kind == "dense" for kind in kinds[:n])
    if rule == "first":
        return min(n, c.number("first_k_dense_replace", 0))
    if rule == "leading":
        return min(n, c.number("num_dense_layers", 0))
    if rule == "step":
        step, plain = (
            c.number("decoder_sparse_step", 1),
            {x for x in c.items("mlp_only_layers") or () if isinstance(x, int)},
        )
        return sum(step == 0 or i in plain or (i + 1) % step != 0 for i in range(n))
    return 0


def sparse(row: Row, c: Fields, p: Tally) -> None:
    """t·V·d + L·(A + norms·d) + dense·3·d·f + sparse·(E·3·d·f_m + d·E + shared) + d."""
    d, n = c.hidden, c.layers
    plain = dense_layers(c, row.dense)
    width = c[row.width]
    bias = on(c, row.mlp_bias)
    shared = width * c.number(row.shared, 0) if row.shared.startswith("num_") else 0
    if row.shared and not row.shared.startswith("num_"):
        shared = c.number(row.shared, 0)
    embeddings(c, p, head_bias=on(c, row.head_bias))
    attention(c, p, n, qkv_bias=on(c, row.qkv_bias), o_bias=on(c, row.o_bias), qk_norm=row.qk_norm)
    if plain:
        gated_mlp(p, d, c["intermediate_size"], plain, bias=bias)
    moe(c, p, n - plain, f=width, shared=shared, shared_gate=row.shared_gate, shared_bias=bias,
        correction=row.correction)  # fmt: skip
    p.norm(d, row.norms * n + 1, bias=row.norm_bias)


MW, SHARED = "moe_intermediate_size", "num_shared_experts"
_QWEN3 = Row(qkv_bias=AB, o_bias=AB, qk_norm=PER_HEAD, width=MW, dense="step")
_ROWS: dict[str, Row] = {
    "mixtral": Row(),
    "phimoe": Row(qkv_bias=AB, o_bias=AB, norm_bias=True, head_bias="lm_head_bias"),
    "olmoe": Row(qkv_bias=AB, o_bias=AB, qk_norm=ROW),
    "flex_olmo": Row(qkv_bias=AB, o_bias=AB, qk_norm=ROW),
    "granitemoe": Row(qkv_bias=AB, o_bias=AB),
    "granitemoeshared": Row(qkv_bias=AB, o_bias=AB, shared="shared_intermediate_size"),
    "qwen3_moe": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "mellum": Row(qkv_bias=AB, o_bias=AB, qk_norm=PER_HEAD, width=MW),
    "kolibri1": Row(norms=4, qk_norm=PER_HEAD, width=MW, shared="shared_expert_intermediate_size"),
    "minimax_m2": Row(qk_norm=ROW, correction="buffer"),
    "dots1": Row(qkv_bias=AB, o_bias=AB, qk_norm=PER_HEAD, width=MW, shared=SHARED, dense="first",
                 correction="buffer"),
    "exaone_moe": Row(qk_norm=PER_HEAD, width=MW, shared=SHARED, dense="first",
                      correction="buffer"),
    "solar_open": Row(qkv_bias=AB, width=MW, shared=SHARED, dense="first",
                      correction="buffer"),
    "hy_v3": Row(qkv_bias=AB, o_bias=AB, qk_norm=PER_HEAD, width=MW, shared=SHARED,
                 dense="first", correction="buffer", mlp_bias=MB),
    "aria_text": Row(qkv_bias=AB, o_bias=AB, shared=SHARED, mlp_bias=MB),
}  # fmt: skip


def qwen2_moe(c: Fields, p: Tally) -> None:
    """Qwen2's biases; a gated shared expert beside the routed ones."""
    bias = c.flag("qkv_bias", default=True)
    row = Row(qkv_bias=bias, width=MW, shared="shared_expert_intermediate_size", shared_gate=True,
              dense="step")  # fmt: skip
    sparse(row, c, p)


def glm4_moe(c: Fields, p: Tally) -> None:
    """GLM-4.5: biased q, k, v; query and key norms in the large one."""
    qk = PER_HEAD if c.flag("use_qk_norm") else NONE
    row = Row(qkv_bias=AB, qk_norm=qk, width=MW, shared=SHARED, dense="first", correction="buffer")
    sparse(row, c, p)


def hunyuan_v1_moe(c: Fields, p: Tally) -> None:
    """Query and key norms; one shared MLP unless told; lists of numbers per layer are refused."""
    d, n, f = c.hidden, c.layers, c["intermediate_size"]
    embeddings(c, p)
    attention(c, p, n, qkv_bias=c.flag(AB), o_bias=c.flag(AB), qk_norm=PER_HEAD)
    moe(c, p, n, f=f, shared=f * c.number(SHARED, 1))
    p.norm(d, 2 * n + 1)


def granitemoe_swa(c: Fields, p: Tally) -> None:
    """Granite's experts with a sink per query head."""
    sparse(Row(qkv_bias=AB, o_bias=AB, shared="shared_intermediate_size"), c, p)
    p.plain(ATTENTION, "sinks", c.heads, c.layers)


def ernie4_5_moe(c: Fields, p: Tally) -> None:
    """Experts from moe_layer_start_index to moe_layer_end_index, every moe_layer_interval."""
    d, n, bias = c.hidden, c.layers, c.flag("use_bias")
    first, step = c.number("moe_layer_start_index", 1), c.number("moe_layer_interval", 1)
    last = c.raw("moe_layer_end_index")
    last = n - 1 if last in (None, -1) else c["moe_layer_end_index"]
    if not step:
        raise Unusable
    routed = sum(first <= i <= last and (i + 1) % step == 0 for i in range(n))
    width = c[MW]
    embeddings(c, p, head_bias=bias)
    attention(c, p, n, qkv_bias=bias, o_bias=bias)
    gated_mlp(p, d, c["intermediate_size"], n - routed, bias=bias)
    moe(c, p, routed, f=width, shared=width * c.number(SHARED, 0), shared_bias=bias,
        correction="parameter")  # fmt: skip
    p.norm(d, 2 * n + 1)


def gpt_oss(c: Fields, p: Tally) -> None:
    """A + (H + 2·Hk)·dh + d + H sinks + d·E + E + E·(3·d·f + 2·f + d) + 2·d a layer."""
    d, n, f = c.hidden, c.layers, c["intermediate_size"]
    bias = c.flag(AB, default=True)
    embeddings(c, p)
    attention(c, p, n, qkv_bias=bias, o_bias=bias)
    p.plain(ATTENTION, "sinks", c.heads, n)
    moe(c, p, n, f=f, bias=True, router_bias=True)
    p.norm(d, 2 * n + 1)


def llama4(c: Fields, p: Tally) -> None:
    """Experts in `moe_layers`, or every `interleave_moe_layer_step`; a shared one beside them."""
    d, n, f, bias = c.hidden, c.layers, c["intermediate_size"], c.flag(AB)
    step = c.number("interleave_moe_layer_step", 1)
    listed = c.items("moe_layers")
    if listed is None and not step:
        raise Unusable
    routed = len(listed) if listed is not None else n // step
    embeddings(c, p)
    attention(c, p, n, qkv_bias=bias, o_bias=bias)
    gated_mlp(p, d, c["intermediate_size_mlp"], n - routed)
    moe(c, p, routed, f=f, shared=f)
    p.norm(d, 2 * n + 1)


def afmoe(c: Fields, p: Tally) -> None:
    """Gated attention, four norms a layer, `num_dense_layers` before the experts."""
    d, n, bias = c.hidden, c.layers, c.flag(AB)
    plain, width = dense_layers(c, "leading"), c[MW]
    embeddings(c, p)
    attention(c, p, n, qkv_bias=bias, o_bias=bias, qk_norm=PER_HEAD, gate=c.heads * c.head_dim)
    gated_mlp(p, d, c["intermediate_size"], plain)
    moe(c, p, n - plain, f=width, shared=width * c.number(SHARED, 0), correction="parameter")
    p.norm(d, 4 * n + 1)


FAMILIES = {
    **{name: partial(sparse, row) for name, row in _ROWS.items()},
    "qwen2_moe": qwen2_moe,
    "glm4_moe": glm4_moe,
    "sarvam_moe": glm4_moe,
    "glm4v_moe_text": glm4_moe,
    "hunyuan_v1_moe": hunyuan_v1_moe,
    "granitemoe_swa": granitemoe_swa,
    "ernie4_5_moe": ernie4_5_moe,
    "gpt_oss": gpt_oss,
    "llama4_text": llama4,
    "afmoe": afmoe,
}
