"""Families whose code lives beside their checkpoints, and DBRX with its nested configs."""

from __future__ import annotations

from typing import Any

from kvcalc.checkpoints.parameters.blocks import attention, embeddings, gated_mlp, moe
from kvcalc.checkpoints.parameters.dense import AB, MB
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.tally import ATTENTION, Tally


def _nested(c: Fields, name: str) -> Fields:
    value = c.raw(name)
    return Fields(value if isinstance(value, dict) else {}, "", {})


def dbrx(c: Fields, p: Tally) -> None:
    """Attention and experts in nested configs or, flattened, beside the rest; no biases."""
    d, n, ffn = c.hidden, c.layers, _nested(c, "ffn_config")
    experts = ffn.number("num_experts", c.number("num_experts", 4))
    used = ffn.number("num_experts_per_tok", c.number("num_experts_per_tok", 1))
    f = ffn.number("intermediate_size", c.number("intermediate_size", 3584))
    kv = _nested(c, "attn_config").number("kv_n_heads", c.number("num_key_value_heads", 1))
    embeddings(c, p)
    attention(c, p, n, kv_heads=kv, dim=d // c.heads)
    moe(c, p, n, f=f, experts=experts, used=used)
    p.norm(d, 2 * n + 1)


def grok(c: Fields, p: Tally) -> None:
    """Grok-1: Mixtral's layers with four norms."""
    embeddings(c, p)
    attention(c, p, c.layers)
    moe(c, p, c.layers, f=c["intermediate_size"])
    p.norm(c.hidden, 4 * c.layers + 1)


def nemotron_nas(c: Fields, p: Tally) -> None:
    """Llama whose blocks differ: `n_heads_in_group`, `ffn_mult`, or nothing at all."""
    d, blocks = c.hidden, c.items("block_configs")
    if blocks is None or len(blocks) < c.layers:
        raise Unusable
    embeddings(c, p)
    for block in blocks[: c.layers]:
        if not isinstance(block, dict):
            raise Unusable
        own, ffn = Fields(block, "", {}).inner("attention"), Fields(block, "", {}).inner("ffn")
        if own.flag("replace_with_linear") or ffn.flag("replace_with_linear"):
            raise Unusable
        if not own.flag("no_op"):
            group = own["n_heads_in_group"]
            if not group or c.heads % group:
                raise Unusable
            attention(c, p, 1, qkv_bias=c.flag(AB), o_bias=c.flag(AB), kv_heads=c.heads // group)
            p.norm(d)
        if not ffn.flag("no_op"):
            gated_mlp(p, d, _nas_width(d, ffn.raw("ffn_mult")), 1, bias=c.flag(MB))
            p.norm(d)
    p.norm(d)


def _nas_width(d: int, multiple: Any) -> int:
    """2/3 · ffn_mult · d rounded down, then up to a multiple of 256."""
    if isinstance(multiple, bool) or not isinstance(multiple, (int, float)):
        raise Unusable
    if not 0 < multiple < 1000:
        raise Unusable
    return -(-int(2 * multiple * d / 3) // 256) * 256


def step3(c: Fields, p: Tally) -> None:
    """Multi-matrix factorised attention: queries through share_q_dim, one KV head; experts."""
    d, n, dh, q = c.hidden, c.layers, c.head_dim, c["share_q_dim"]
    written = c.raw("moe_layers_enum")
    listed = list(range(4, n - 1)) if written is None else _numbers(written)
    routed = sum(i in listed for i in range(n))
    embeddings(c, p)
    p.linear(ATTENTION, "q_proj", q, d, n)
    p.linear(ATTENTION, "wq", c.heads * dh, q, n)
    p.linear(ATTENTION, "kv_proj", 2 * c.kv_heads * dh, d, n)
    p.linear(ATTENTION, "o_proj", d, c.heads * dh, n)
    p.norm(q, n, name="inter_norm")
    gated_mlp(p, d, c["intermediate_size"], n - routed)
    moe(c, p, routed, f=c["moe_intermediate_size"], shared=c["share_expert_dim"])
    p.norm(d, 2 * n + 1)


def _numbers(written: Any) -> list[int]:
    """The layers of a list or of a text like 4,5,6."""
    parts = written.split(",") if isinstance(written, str) else written
    if not isinstance(parts, (list, tuple)) or not all(str(x).strip().isdigit() for x in parts):
        raise Unusable
    return [int(x) for x in parts]


def openelm(c: Fields, p: Tally) -> None:
    """Query heads, KV heads and MLP width of every layer in lists; head norms."""
    d, n, dh = c.hidden, c.layers, c.head_dim
    queries, keys = c.per_layer("num_query_heads", n), c.per_layer("num_kv_heads", n)
    multiples, step = c.items("ffn_multipliers"), c.number("ffn_dim_divisor", 256)
    if multiples is None or len(multiples) < n or not step or not c.flag("ffn_with_glu"):
        raise Unusable
    p.matrix("embedding", "token_embeddings", c["vocab_size"], d)
    if not c.flag("share_input_output_layers"):
        p.matrix("output_head", "lm_head", c["vocab_size"], d)
    for heads, kv, multiple in zip(queries, keys, multiples, strict=False):
        p.linear(ATTENTION, "qkv_proj", (heads + 2 * kv) * dh, d)
        p.linear(ATTENTION, "out_proj", d, heads * dh)
        p.norm(dh, 2 if c.flag("normalize_qk_projections") else 0, name="qk_norm")
        gated_mlp(p, d, _divisible(multiple, d, step), 1)
    p.norm(d, 2 * n + 1)


def _divisible(multiple: Any, d: int, step: int) -> int:
    """multiple · d to the nearest multiple of step, never a tenth below."""
    if isinstance(multiple, bool) or not isinstance(multiple, (int, float)):
        raise Unusable
    if not 0 < multiple < 1000:
        raise Unusable
    size = max(step, int(multiple * d + step / 2) // step * step)
    return size + step if size < 0.9 * multiple * d else size


FAMILIES = {
    "dbrx": dbrx,
    "grok-1": grok,
    "openelm": openelm,
    "nemotron-nas": nemotron_nas,
    "deci": nemotron_nas,
    "step3_text": step3,
}
