"""Families with one attention and one dense MLP in every layer, as rows of what differs."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from kvcalc.checkpoints.parameters.blocks import (
    EACH_HEAD,
    NONE,
    PER_HEAD,
    ROW,
    attention,
    embeddings,
    gated_mlp,
    plain_mlp,
)
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.tally import ATTENTION, MLP, OTHER, Tally

#: A switch: always on or off, or the config's field of that name.
Switch = bool | str


class Row(NamedTuple):
    """What a family's layers hold: norms of d each, biases, query and key norms, the MLP's form."""

    norms: int = 2
    norm_bias: bool = False
    final: bool = True
    qkv_bias: Switch = False
    o_bias: Switch = False
    qk_norm: str = NONE
    gated: bool = True
    mlp_bias: Switch = False
    head_bias: bool = False


def on(c: Fields, switch: Switch) -> bool:
    """Whether a switch is on in this config."""
    return c.flag(switch) if isinstance(switch, str) else switch


def dense(row: Row, c: Fields, p: Tally) -> None:
    """t·V·d + L·(A + MLP + norms·d) + d."""
    d, n = c.hidden, c.layers
    embeddings(c, p, head_bias=row.head_bias)
    attention(c, p, n, qkv_bias=on(c, row.qkv_bias), o_bias=on(c, row.o_bias), qk_norm=row.qk_norm)
    mlp = gated_mlp if row.gated else plain_mlp
    mlp(p, d, c["intermediate_size"], n, bias=on(c, row.mlp_bias))
    p.norm(d, row.norms * n + row.final, bias=row.norm_bias)


AB, MB = "attention_bias", "mlp_bias"
_LLAMA = Row(qkv_bias=AB, o_bias=AB, mlp_bias=MB)
_ROWS: dict[str, Row] = {
    **dict.fromkeys(("llama", "granite", "smollm3", "exaone", "iquestcoder"), _LLAMA),
    "internlm2": Row(qkv_bias="bias", o_bias="bias"),
    "baichuan": Row(),
    "arcee": Row(qkv_bias=AB, o_bias=AB, mlp_bias=MB, gated=False),
    "seed_oss": Row(qkv_bias=AB, o_bias="attention_out_bias", mlp_bias=MB),
    "ernie4_5": Row(qkv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
    "hunyuan_v1_dense": Row(qkv_bias=AB, o_bias=AB, qk_norm=PER_HEAD),
    **dict.fromkeys(("mistral", "ministral", "ministral3", "phi3"), Row()),
    "cwm": Row(mlp_bias=MB),
    **dict.fromkeys(("qwen2", "qwen2_vl_text", "qwen2_5_vl_text"), Row(qkv_bias=True)),
    **dict.fromkeys(("qwen3", "qwen3_vl_text"), Row(qkv_bias=AB, o_bias=AB, qk_norm=PER_HEAD)),
    "gemma": Row(qkv_bias=AB, o_bias=AB),
    "vaultgemma": Row(qkv_bias=AB, o_bias=AB),
    "gemma2": Row(norms=4, qkv_bias=AB, o_bias=AB),
    "gemma3_text": Row(norms=4, qkv_bias=AB, o_bias=AB, qk_norm=PER_HEAD),
    "cohere2": Row(norms=1, qkv_bias=AB, o_bias=AB),
    "olmo": Row(norms=0, final=False, qkv_bias=AB, o_bias=AB),
    "olmo2": Row(qkv_bias=AB, o_bias=AB, qk_norm=ROW),
    "olmo3": Row(qkv_bias=AB, o_bias=AB, qk_norm=ROW),
    "exaone4": Row(qk_norm=PER_HEAD),
    "glm": Row(qkv_bias=AB),
    "glm4": Row(norms=4, qkv_bias=AB),
    "glm4v_text": Row(norms=4, qkv_bias=True),
    "nemotron": Row(norm_bias=True, qkv_bias=AB, o_bias=AB, gated=False, mlp_bias=MB),
    "jais2": Row(norm_bias=True, qkv_bias=AB, o_bias=AB, gated=False, mlp_bias=MB),
    "starcoder2": Row(
        norm_bias=True, qkv_bias="use_bias", o_bias="use_bias", gated=False, mlp_bias="use_bias"
    ),
    "nanochat": Row(norms=0, final=False, qkv_bias=AB, o_bias=AB, gated=False),
    "gpt_neox": Row(norm_bias=True, qkv_bias=AB, o_bias=AB, gated=False, mlp_bias=True),
}


def internlm(c: Fields, p: Tally) -> None:
    """InternLM 1 biases its attention; 3 keeps two old switches beside Llama's."""
    if c.model_type == "internlm":
        bias = c.flag("bias", default=True)
        dense(Row(qkv_bias=bias, o_bias=bias), c, p)
        return
    bias = c.flag(AB) or c.flag("qkv_bias")
    dense(Row(qkv_bias=bias, o_bias=bias, mlp_bias=c.flag(MB) or c.flag("bias")), c, p)


def helium(c: Fields, p: Tally) -> None:
    """Llama whose output projection is d·d whatever the head dim."""
    d, n = c.hidden, c.layers
    embeddings(c, p)
    for name, heads in (("q_proj", c.heads), ("k_proj", c.kv_heads), ("v_proj", c.kv_heads)):
        p.linear(ATTENTION, name, heads * c.head_dim, d, n, bias=c.flag(AB))
    p.linear(ATTENTION, "o_proj", d, d, n)
    gated_mlp(p, d, c["intermediate_size"], n, bias=c.flag(MB))
    p.norm(d, 2 * n + 1)


def cohere(c: Fields, p: Tally) -> None:
    """One norm a layer; Command R+ normalises the queries and keys of every head for itself."""
    dense(Row(norms=1, qkv_bias=AB, o_bias=AB, qk_norm=_norm(c, "use_qk_norm", EACH_HEAD)), c, p)


def persimmon(c: Fields, p: Tally) -> None:
    """Biases everywhere; LayerNorms, on queries and keys too."""
    dense(Row(norm_bias=True, qkv_bias=True, o_bias=True, gated=False, mlp_bias=True), c, p)
    if c.flag("qk_layernorm"):
        p.norm(c.head_dim, 2 * c.layers, bias=True, name="qk_norm")


def phi(c: Fields, p: Tally) -> None:
    """One LayerNorm before attention and MLP side by side; a biased head."""
    dense(
        Row(norms=1, norm_bias=True, qkv_bias=True, o_bias=True, gated=False, mlp_bias=True,
            head_bias=True),
        c, p,
    )  # fmt: skip
    if c.flag("qk_layernorm"):
        p.norm(c.head_dim, 2 * c.layers, bias=True, name="qk_norm")


def stablelm(c: Fields, p: Tally) -> None:
    """LayerNorms, one a layer with parallel residuals; each head's queries and keys on request."""
    norms = 1 if c.flag("use_parallel_residual") else 2
    qk = _norm(c, "qk_layernorm", EACH_HEAD)
    dense(Row(norms=norms, norm_bias=False, qkv_bias="use_qkv_bias", qk_norm=qk), c, p)
    p.plain("norms", "norm.bias", c.hidden, norms * c.layers + 1)


def diffllama(c: Fields, p: Tally) -> None:
    """Llama with four λ vectors of dh a layer."""
    dense(Row(qkv_bias=AB, o_bias=AB), c, p)
    p.plain(ATTENTION, "lambda", c.head_dim, 4 * c.layers)


def apertus(c: Fields, p: Tally) -> None:
    """Query and key norms, an ungated MLP with two scalars of its activation."""
    dense(Row(qkv_bias=AB, o_bias=AB, qk_norm=PER_HEAD, gated=False), c, p)
    p.plain(MLP, "act_fn.alpha", 1, 2 * c.layers)


def bitnet(c: Fields, p: Tally) -> None:
    """Llama with a norm before each output projection: of d and of f."""
    dense(Row(qkv_bias=AB, o_bias=AB), c, p)
    p.norm(c.hidden, c.layers, name="attn_sub_norm")
    p.norm(c["intermediate_size"], c.layers, name="ffn_sub_norm")


def hyperclovax(c: Fields, p: Tally) -> None:
    """Llama with two norms more a layer."""
    dense(_LLAMA._replace(norms=4 if c.flag("use_post_norm") else 2), c, p)


def granite_swa(c: Fields, p: Tally) -> None:
    """Granite with a sink per query head."""
    dense(_LLAMA, c, p)
    p.plain(ATTENTION, "sinks", c.heads, c.layers)


def doge(c: Fields, p: Tally) -> None:
    """Llama with per-head gates and residual weights; its mixture of experts is not counted."""
    if c.flag("is_moe"):
        raise Unusable
    d, n = c.hidden, c.layers
    dense(_LLAMA._replace(qk_norm=PER_HEAD), c, p)
    p.plain(ATTENTION, "A", c.kv_heads, n)
    p.linear(ATTENTION, "dt_proj", c.kv_heads, c.kv_heads * c.head_dim, n, bias=c.flag(AB))
    p.plain(OTHER, "residual", d, 2 * n)


def _norm(c: Fields, switch: str, kind: str) -> str:
    return kind if c.flag(switch) else NONE


FAMILIES = {
    **{name: partial(dense, row) for name, row in _ROWS.items()},
    "internlm": internlm,
    "internlm3": internlm,
    "helium": helium,
    "cohere": cohere,
    "persimmon": persimmon,
    "phi": phi,
    "stablelm": stablelm,
    "diffllama": diffllama,
    "apertus": apertus,
    "bitnet": bitnet,
    "hyperclovax": hyperclovax,
    "granite_swa": granite_swa,
    "doge": doge,
}
