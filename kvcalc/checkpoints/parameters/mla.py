"""Families of multi-head latent attention, with and without a sparse-attention indexer."""

from __future__ import annotations

from kvcalc.checkpoints.parameters.blocks import embeddings, gated_mlp, indexer, mla, moe
from kvcalc.checkpoints.parameters.dense import AB, MB
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.moe import MW, SHARED, dense_layers
from kvcalc.checkpoints.parameters.tally import ATTENTION, OTHER, Tally

_INDEXED = {"deepseek_v32", "glm_moe_dsa"}
#: DeepSeek-V2 has no correction bias; the others store one value per expert and layer.
_UNCORRECTED = {"deepseek_v2", "mistral4"}


def deepseek(c: Fields, p: Tally) -> None:
    """DeepSeek V2, V3, R1, V3.2, Kimi K2, GLM-4.7-Flash and GLM-5, Mistral Large 3: section F.3.

    t·V·d + L·(MLA + 2·d) + dense·3·d·f + sparse·(E·3·d·f_m + d·E + n_shared·3·d·f_m) + d. MTP
    layers are not counted.
    """
    d, n = c.hidden, c.layers
    plain, width = dense_layers(c, "first"), c[MW]
    if c.number("moe_layer_freq", 1) != 1:
        raise Unusable
    embeddings(c, p)
    mla(c, p, n, bias=c.flag(AB))
    if c.model_type in _INDEXED:
        indexer(c, p, n if c.model_type == "deepseek_v32" else _indexers(c))
    # DeepSeek-V2's switch for MLP biases is dead from V3 on.
    bias = c.flag(MB) and c.model_type == "deepseek_v2"
    gated_mlp(p, d, c["intermediate_size"], plain, bias=bias)
    correction = "" if c.model_type in _UNCORRECTED else "buffer"
    moe(c, p, n - plain, f=width, shared=width * c.number(SHARED, 0), shared_bias=bias,
        correction=correction)  # fmt: skip
    p.norm(d, 2 * n + 1)


def _indexers(c: Fields) -> int:
    """Layers with an indexer of their own: GLM's "shared" ones read another's."""
    n, kinds = c.layers, c.items("indexer_types")
    if kinds is not None:
        return sum(kind == "full" for kind in kinds[:n])
    pattern = c.text("index_topk_pattern")
    if pattern is not None:
        return pattern[:n].count("F")
    every, offset = max(c.number("index_topk_freq", 1), 1), c.number("index_skip_topk_offset", 2)
    return sum(max(i - offset + 1, 0) % every == 0 for i in range(n))


def axk1(c: Fields, p: Tally) -> None:
    """DeepSeek-V3 with a norm after the experts."""
    deepseek(c, p)
    p.norm(c.hidden, c.layers - dense_layers(c, "first"), name="post_mlp_layernorm")


def minicpm3(c: Fields, p: Tally) -> None:
    """Latent attention and a dense MLP."""
    d, n = c.hidden, c.layers
    embeddings(c, p)
    mla(c, p, n, bias=c.flag(AB))
    gated_mlp(p, d, c["intermediate_size"], n, bias=c.flag(MB))
    p.norm(d, 2 * n + 1)


def longcat_flash(c: Fields, p: Tally) -> None:
    """Two attentions and two MLPs a layer beside the experts.

    The router knows `zero_expert_num` experts more, which do nothing; transformers allocates their
    gate and up projections all the same, so its count, which this is, exceeds the checkpoint's.
    """
    d, n, f = c.hidden, c.layers, c[MW]
    experts, idle = c["num_experts"], c.number("zero_expert_num", 0)
    embeddings(c, p)
    mla(c, p, 2 * n, bias=c.flag(AB))
    gated_mlp(p, d, c["intermediate_size"], 2 * n)
    moe(c, p, n, f=f, experts=experts, correction="buffer")
    p.matrix("router", "zero_experts", idle, d, n)
    p.linear("experts", "zero_experts.gate_up_proj", 2 * f, d, n * idle)
    p.idle(n * idle * 2 * f * d)
    p.norm(d, 4 * n + 1)


def deepseek_v4(c: Fields, p: Tally) -> None:
    """One KV head of dh, grouped low-rank output, compressors by layer kind, hyper-connections.

    m = hc_mult streams of d: each of two mixers a layer has (2 + m)·m rows of m·d.
    """
    d, n, h, dh, rq = c.hidden, c.layers, c.heads, c.head_dim, c["q_lora_rank"]
    groups, ol, m, width = c["o_groups"], c["o_lora_rank"], c["hc_mult"], c[MW]
    if not groups:
        raise Unusable
    embeddings(c, p)
    p.plain(ATTENTION, "sinks", h, n)
    p.linear(ATTENTION, "q_a_proj", rq, d, n)
    p.linear(ATTENTION, "q_b_proj", h * dh, rq, n)
    p.linear(ATTENTION, "kv_proj", dh, d, n)
    p.linear(ATTENTION, "o_a_proj", groups * ol, h * dh // groups, n)
    p.linear(ATTENTION, "o_b_proj", d, groups * ol, n)
    p.norm(rq, n)
    p.norm(dh, n)
    kinds = _v4_kinds(c)
    sparse, heavy = (
        kinds.count("compressed_sparse_attention"),
        kinds.count("heavily_compressed_attention"),
    )
    _compressor(c, p, "heavily_compressed_attention", dh, dh, heavy)
    _compressor(c, p, "compressed_sparse_attention", 2 * dh, dh, sparse)
    di, hi = c["index_head_dim"], c["index_n_heads"]
    _compressor(c, p, "compressed_sparse_attention", 2 * di, di, sparse)
    p.linear(ATTENTION, "indexer.q_b_proj", hi * di, rq, sparse)
    p.matrix(ATTENTION, "indexer.weights_proj", hi, d, sparse)
    moe(c, p, n, f=width, shared=width, shared_bias=c.flag(MB), correction="buffer")
    rows = (2 + m) * m
    p.matrix(OTHER, "hc.fn", rows, m * d, 2 * n)
    p.plain(OTHER, "hc.base", rows + 3, 2 * n)
    p.plain(OTHER, "hc_head", m * m * d + m + 1)
    p.norm(d, 2 * n + 1)


def _compressor(c: Fields, p: Tally, kind: str, width: int, out: int, n: int) -> None:
    """Projections and gates of d, a bias for every place in the ratio, a norm."""
    rates = c.raw("compress_rates")
    default = 4 if kind.startswith("compressed") else 128
    rate = Fields(rates, "", {}).number(kind, default) if isinstance(rates, dict) else default
    short = "compress_rate_csa" if default == 4 else "compress_rate_hca"
    p.plain(ATTENTION, "compressor.position_bias", c.number(short, rate) * width, n)
    p.linear(ATTENTION, "compressor.kv_proj", width, c.hidden, n)
    p.linear(ATTENTION, "compressor.gate_proj", width, c.hidden, n)
    p.norm(out, n)


def _v4_kinds(c: Fields) -> list[str]:
    """layer_types, else the original's compress_ratios, else heavy, heavy, then both in turn."""
    names = {4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    n = c.layers
    ratios = c.items("compress_ratios")
    if ratios is not None and c.items("layer_types") is None:
        if not all(r in (0, 1, 4, 128) for r in ratios):
            raise Unusable
        return [names.get(r, "sliding_attention") for r in ratios[:n]]
    turn = [names[4] if i % 2 else names[128] for i in range(max(n - 2, 0))]
    return c.layer_types(n, [names[128]] * min(n, 2) + turn)


FAMILIES = {
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite",
         "mistral4", "mistral_large_3", "sarvam_mla"),
        deepseek,
    ),
    "axk1": axk1,
    "minicpm3": minicpm3,
    "youtu": minicpm3,
    "longcat_flash": longcat_flash,
    "deepseek_v4": deepseek_v4,
}  # fmt: skip
