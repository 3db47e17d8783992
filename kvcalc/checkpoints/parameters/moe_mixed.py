"""Mixtures of experts whose attention layers differ among themselves."""

from __future__ import annotations

from kvcalc.checkpoints.parameters.blocks import PER_HEAD, attention, embeddings, gated_mlp, moe
from kvcalc.checkpoints.parameters.dense import AB
from kvcalc.checkpoints.parameters.fields import Fields
from kvcalc.checkpoints.parameters.moe import MW, SHARED, dense_layers
from kvcalc.checkpoints.parameters.tally import ATTENTION, Tally


def mimo_v2_flash(c: Fields, p: Tally) -> None:
    """K wider than V; window layers have KV heads and a sink per query head of their own."""
    d, n, bias = c.hidden, c.layers, c.flag(AB)
    pattern = c.items("hybrid_layer_pattern")
    fallback = ["full_attention" if i == 0 or (i + 1) % 6 == 0 else "sliding_attention"
                for i in range(n)]  # fmt: skip
    if pattern is not None and c.items("layer_types") is None:
        fallback = ["sliding_attention" if kind else "full_attention" for kind in pattern[:n]]
    kinds = c.layer_types(n, fallback)
    frequency = c.raw("moe_layer_freq")
    plain = (frequency[:n].count(0) if isinstance(frequency, list) and not c.has("mlp_layer_types")
             else dense_layers(c, "first") if c.has("mlp_layer_types") else 1)  # fmt: skip
    embeddings(c, p)
    for kind, count in (("full", kinds.count("full_attention")),
                        ("window", n - kinds.count("full_attention"))):  # fmt: skip
        window = kind == "window"
        heads = c.number("swa_num_attention_heads", c.heads) if window else c.heads
        kv = c.number("swa_num_key_value_heads", 2 * c.kv_heads) if window else c.kv_heads
        dim = c.number("swa_head_dim", c.head_dim) if window else c.head_dim
        v_dim = c.number("v_head_dim", dim)
        v_dim = c.number("swa_v_head_dim", v_dim) if window else v_dim
        attention(c, p, count, qkv_bias=bias, heads=heads, kv_heads=kv, dim=dim, v_dim=v_dim)
        if window:
            p.plain(ATTENTION, "sinks", heads, count)
    gated_mlp(p, d, c["intermediate_size"], plain)
    moe(c, p, n - plain, f=c[MW], correction="buffer")
    p.norm(d, 2 * n + 1)


def laguna(c: Fields, p: Tally) -> None:
    """Query heads by layer, gates by head or by element, a shared expert."""
    d, n, bias = c.hidden, c.layers, c.flag(AB)
    name = "num_attention_heads_per_layer"
    by_head = c.raw("gating") in (True, "per-head", None)
    plain = dense_layers(c, "first")
    embeddings(c, p)
    for heads in c.per_layer(name, n) if c.has(name) else [c.heads] * n:
        attention(c, p, 1, qkv_bias=bias, o_bias=bias, qk_norm=PER_HEAD, heads=heads,
                  gate=heads if by_head else heads * c.head_dim)  # fmt: skip
    gated_mlp(p, d, c["intermediate_size"], plain)
    moe(c, p, n - plain, f=c[MW], shared=c["shared_expert_intermediate_size"],
        correction="parameter")  # fmt: skip
    p.norm(d, 2 * n + 1)


def cohere2_moe(c: Fields, p: Tally) -> None:
    """One norm a layer; leading dense layers have a width of their own."""
    d, n, f, bias = c.hidden, c.layers, c["intermediate_size"], c.flag(AB)
    plain = dense_layers(c, "first")
    embeddings(c, p)
    attention(c, p, n, qkv_bias=bias, o_bias=bias)
    gated_mlp(p, d, c.number("prefix_dense_intermediate_size", f), plain)
    moe(c, p, n - plain, f=f, shared=f * c.number(SHARED, 0))
    p.norm(d, n + 1)


def minimax_m3(c: Fields, p: Tally) -> None:
    """Head norms, leading dense layers, a shared expert, an indexer in the sparse layers."""
    d, n = c.hidden, c.layers
    frequency, own = c.raw("moe_layer_freq"), c.raw("sparse_attention_config")
    plain = dense_layers(c, "none")
    if isinstance(frequency, list) and not c.has("mlp_layer_types"):
        plain = frequency[:n].count(0)
    sparse = (c.items("layer_types") or [])[:n].count("minimax_m3_sparse")
    hi, di = c.number("index_n_heads", 4), c.number("index_head_dim", 128)
    if isinstance(own, dict):
        nested = Fields(own, "", {})
        hi, di = nested.number("sparse_num_index_heads", hi), nested.number("sparse_index_dim", di)
        flags = nested.items("sparse_attention_freq")
        if flags is not None and not c.has("layer_types"):
            sparse = sum(bool(flag) for flag in flags[:n])
    embeddings(c, p)
    attention(c, p, n, qk_norm=PER_HEAD)
    p.linear(ATTENTION, "indexer.q_proj", hi * di, d, sparse)
    p.linear(ATTENTION, "indexer.k_proj", di, d, sparse)
    p.norm(di, 2 * sparse, name="indexer.norms")
    gated_mlp(p, d, c["dense_intermediate_size"], plain)
    moe(c, p, n - plain, f=c["intermediate_size"], shared=c["shared_intermediate_size"],
        correction="buffer")  # fmt: skip
    p.norm(d, 2 * n + 1)


FAMILIES = {
    "mimo_v2_flash": mimo_v2_flash,
    "laguna": laguna,
    "cohere2_moe": cohere2_moe,
    "minimax_m3_vl_text": minimax_m3,
}
