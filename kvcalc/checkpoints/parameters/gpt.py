"""GPT-2's descendants and other families of LayerNorms, learned positions and fused projections."""

from __future__ import annotations

from kvcalc.checkpoints.parameters.blocks import attention, embeddings, gated_mlp, plain_mlp
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.tally import ATTENTION, EMBEDDING, OTHER, Tally


def _wide(c: Fields) -> int:
    """f; 4·d where the field is missing or null."""
    return c.number("intermediate_size", 4 * c.hidden)


def _biased(c: Fields, p: Tally, f: int, *, kv_heads: int | None = None) -> None:
    """L layers of attention and a plain MLP, biases and two LayerNorms everywhere."""
    d, n = c.hidden, c.layers
    attention(c, p, n, qkv_bias=True, o_bias=True, kv_heads=kv_heads or c.heads, dim=d // c.heads)
    plain_mlp(p, d, f, n, bias=True)
    p.norm(d, 2 * n + 1, bias=True)


def gpt2(c: Fields, p: Tally) -> None:
    """V·d + positions·d + L·(12·d² + 13·d) + 2·d, the head tied."""
    if c.flag("add_cross_attention"):
        raise Unusable
    embeddings(c, p, positions=c["max_position_embeddings"])
    _biased(c, p, _wide(c))


def gpt_bigcode(c: Fields, p: Tally) -> None:
    """GPT-2 with one KV head for all, unless `multi_query` is off."""
    if c.flag("add_cross_attention"):
        raise Unusable
    embeddings(c, p, positions=c["max_position_embeddings"])
    _biased(c, p, _wide(c), kv_heads=1 if c.flag("multi_query") else c.heads)


def gpt_neo(c: Fields, p: Tally) -> None:
    """GPT-2 without biases on queries, keys and values."""
    d, n = c.hidden, c.layers
    embeddings(c, p, positions=c["max_position_embeddings"])
    attention(c, p, n, o_bias=True, kv_heads=c.heads, dim=d // c.heads)
    plain_mlp(p, d, _wide(c), n, bias=True)
    p.norm(d, 2 * n + 1, bias=True)


def gptj(c: Fields, p: Tally) -> None:
    """One LayerNorm before attention and MLP side by side; a head with biases."""
    d, n = c.hidden, c.layers
    embeddings(c, p, head_bias=True)
    attention(c, p, n, kv_heads=c.heads, dim=d // c.heads)
    plain_mlp(p, d, _wide(c), n, bias=True)
    p.norm(d, n + 1, bias=True)


def gpt_neox_japanese(c: Fields, p: Tally) -> None:
    """No biases but one vector on the last layer's attention output."""
    d, n = c.hidden, c.layers
    embeddings(c, p)
    attention(c, p, n, kv_heads=c.heads)
    plain_mlp(p, d, d * c.number("intermediate_multiple_size", 4), n)
    p.norm(d, 2 * n + 1, bias=True)
    p.plain(ATTENTION, "dense_bias", d)


def bloom(c: Fields, p: Tally) -> None:
    """GPT-2's layers, a LayerNorm on the embedding, no learned positions."""
    embeddings(c, p)
    p.norm(c.hidden, bias=True, name="word_embeddings_layernorm")
    _biased(c, p, 4 * c.hidden)


def mpt(c: Fields, p: Tally) -> None:
    """No biases at all; KV heads by attn_config.kv_n_heads in the original's config."""
    d, n, kv = c.hidden, c.layers, c.heads
    nested = c.raw("attn_config")
    learned = False
    if isinstance(nested, dict):
        kv = c.inner("attn_config").number("kv_n_heads", c.heads)
        learned = nested.get("alibi", True) is False
    if learned or c.raw("no_bias") is False:
        raise Unusable
    embeddings(c, p)
    attention(c, p, n, kv_heads=kv, dim=d // c.heads)
    plain_mlp(p, d, 4 * d, n)  # whatever expansion_ratio says
    p.norm(d, 2 * n + 1)


def opt(c: Fields, p: Tally) -> None:
    """GPT-2's layers; two positions more than it says; projections from a narrow embedding."""
    d, n = c.hidden, c.layers
    narrow = c.number("word_embed_proj_dim", d)
    bias = c.flag("enable_bias", default=True)
    affine = c.flag("layer_norm_elementwise_affine", default=True)
    embeddings(c, p, dim=narrow)
    p.matrix(EMBEDDING, "embed_positions", c["max_position_embeddings"] + 2, d)
    if narrow != d:
        p.linear(OTHER, "project_in", d, narrow)
        p.linear(OTHER, "project_out", narrow, d)
    attention(c, p, n, qkv_bias=bias, o_bias=bias, kv_heads=c.heads, dim=d // c.heads)
    plain_mlp(p, d, c["intermediate_size"], n, bias=bias)
    final = c.flag("do_layer_norm_before", default=True) and not c.flag("_remove_final_layer_norm")
    p.norm(d, (2 * n + final) if affine else 0, bias=True)


def ctrl(c: Fields, p: Tally) -> None:
    """GPT-2's layers without learned positions; the tied head has a bias."""
    embeddings(c, p, head_bias=True)
    _biased(c, p, c["intermediate_size"])


def xglm(c: Fields, p: Tally) -> None:
    """GPT-2's layers with sinusoidal positions, which are no parameters."""
    embeddings(c, p)
    _biased(c, p, c["intermediate_size"])


def biogpt(c: Fields, p: Tally) -> None:
    """GPT-2's layers; two positions more than it says."""
    embeddings(c, p, positions=c["max_position_embeddings"] + 2)
    _biased(c, p, c["intermediate_size"])


def openai_gpt(c: Fields, p: Tally) -> None:
    """GPT-1: GPT-2 without the final norm."""
    d, n = c.hidden, c.layers
    embeddings(c, p, positions=c["max_position_embeddings"])
    attention(c, p, n, qkv_bias=True, o_bias=True, kv_heads=c.heads, dim=d // c.heads)
    plain_mlp(p, d, 4 * d, n, bias=True)
    p.norm(d, 2 * n, bias=True)


def falcon(c: Fields, p: Tally) -> None:
    """7B: one norm, one KV head. New decoder (40B, 180B): two norms side by side, Hk KV heads."""
    d, n, new = c.hidden, c.layers, c.flag("new_decoder_architecture")
    kv = c.kv_heads if new else (1 if c.flag("multi_query") else c.heads)
    bias = c.flag("bias")
    norms = 2 if new else (1 if c.flag("parallel_attn") else 2)
    if new and c.number("num_ln_in_parallel_attn", 2) == 1:
        norms = 1 if c.flag("parallel_attn") else 2
    embeddings(c, p)
    attention(c, p, n, qkv_bias=bias, o_bias=bias, kv_heads=kv, dim=d // c.heads)
    plain_mlp(p, d, _wide(c), n, bias=bias)
    p.norm(d, norms * n + 1, bias=True)


def qwen(c: Fields, p: Tally) -> None:
    """Qwen v1: biased q, k, v; its `intermediate_size` is gate and up together."""
    d, n = c.hidden, c.layers
    dim = c.number("kv_channels", d // c.heads)
    embeddings(c, p)
    attention(c, p, n, qkv_bias=True, kv_heads=c.heads, dim=dim)
    gated_mlp(p, d, c["intermediate_size"] // 2, n)
    p.norm(d, 2 * n + 1)


def chatglm(c: Fields, p: Tally) -> None:
    """ChatGLM 2 and 3, GLM-4 of 2024: biased q, k, v; KV heads are query groups."""
    d, n = c.hidden, c.layers
    kv = c["multi_query_group_num"] if c.flag("multi_query_attention", default=True) else c.heads
    bias = c.flag("add_qkv_bias", default=True) or c.flag("add_bias_linear")
    embeddings(c, p)
    attention(c, p, n, qkv_bias=bias, kv_heads=kv, dim=c["kv_channels"],
              o_bias=c.flag("add_bias_linear"))  # fmt: skip
    gated_mlp(p, d, c["intermediate_size"], n, bias=c.flag("add_bias_linear"))
    p.norm(d, 2 * n + 1)


def modernbert_decoder(c: Fields, p: Tally) -> None:
    """No first attention norm; norms of the embedding and of a dense layer before the head."""
    d, n, bias = c.hidden, c.layers, c.flag("norm_bias")
    embeddings(c, p, head_bias=c.flag("decoder_bias", default=True))
    attention(c, p, n, qkv_bias=c.flag("attention_bias"), o_bias=c.flag("attention_bias"),
              kv_heads=c.heads)  # fmt: skip
    gated_mlp(p, d, c["intermediate_size"], n)
    if c.flag("mlp_bias"):
        p.plain("mlp", "mlp.bias", 2 * c["intermediate_size"] + d, n)
    p.linear(OTHER, "head.dense", d, d, bias=c.flag("classifier_bias"))
    p.norm(d, 2 * n + 2, bias=bias)


def phi_msft(c: Fields, p: Tally) -> None:
    """Phi-2 of the remote code: GPT-2's layers with one LayerNorm, a biased head of its own."""
    d, n = c.hidden, c.layers
    embeddings(c, p, head_bias=True)
    attention(c, p, n, qkv_bias=True, o_bias=True, kv_heads=c.heads, dim=d // c.heads)
    plain_mlp(p, d, _wide(c), n, bias=True)
    p.norm(d, n + 1, bias=True)


FAMILIES = {
    "gpt2": gpt2,
    "gpt3": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "gpt_neo": gpt_neo,
    "gptj": gptj,
    "codegen": gptj,
    "gpt_neox_japanese": gpt_neox_japanese,
    "bloom": bloom,
    "mpt": mpt,
    "opt": opt,
    "ctrl": ctrl,
    "xglm": xglm,
    "biogpt": biogpt,
    "openai-gpt": openai_gpt,
    "falcon": falcon,
    "qwen": qwen,
    "chatglm": chatglm,
    "modernbert-decoder": modernbert_decoder,
    "phi-msft": phi_msft,
}
