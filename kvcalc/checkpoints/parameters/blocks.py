"""The blocks that families are built of, each the tensors of n equal layers.

Legend: d hidden, V vocabulary, H query heads, Hk KV heads, dh head dim, f intermediate, E experts.
Sources: the modules of transformers 5.24, whose counts the tests compare.
"""

from __future__ import annotations

from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.tally import (
    ATTENTION,
    EMBEDDING,
    EXPERTS,
    HEAD,
    MLP,
    ROUTER,
    SHARED,
    Tally,
)

#: Normalised queries and keys: none, one norm for every head's vector, one for the whole row, or
#: one that every head has for itself.
NONE, PER_HEAD, ROW, EACH_HEAD = "", "per head", "row", "each head"


def embeddings(
    c: Fields,
    p: Tally,
    *,
    dim: int | None = None,
    positions: int = 0,
    head_bias: bool = False,
    tied: bool | None = None,
) -> None:
    """V·d, learned positions·d, and V·d again for an output head of its own."""
    width = dim or c.hidden
    p.matrix(EMBEDDING, "embed_tokens", c["vocab_size"], width)
    if positions:
        p.matrix(EMBEDDING, "embed_positions", positions, width)
    if not (c.tied if tied is None else tied):
        p.matrix(HEAD, "lm_head", c["vocab_size"], width)
    if head_bias:
        p.plain(HEAD, "lm_head.bias", c["vocab_size"])


def attention(
    c: Fields,
    p: Tally,
    n: int,
    *,
    qkv_bias: bool = False,
    o_bias: bool = False,
    qk_norm: str = NONE,
    norm_bias: bool = False,
    heads: int | None = None,
    kv_heads: int | None = None,
    dim: int | None = None,
    v_dim: int | None = None,
    width: int | None = None,
    out: int | None = None,
    gate: int = 0,
) -> None:
    """d·H·dh + d·Hk·(dk + dv) + H·dv·d, biases, query and key norms; `gate` rows more of d each."""
    d, q, kv = width or c.hidden, heads or c.heads, c.kv_heads if kv_heads is None else kv_heads
    dk = dim or c.head_dim
    dv = v_dim or dk
    p.linear(ATTENTION, "q_proj", q * dk, d, n, bias=qkv_bias)
    p.linear(ATTENTION, "k_proj", kv * dk, d, n, bias=qkv_bias)
    p.linear(ATTENTION, "v_proj", kv * dv, d, n, bias=qkv_bias)
    p.linear(ATTENTION, "o_proj", out or d, q * dv, n, bias=o_bias)
    p.linear(ATTENTION, "gate_proj", gate, d, n)
    for sizes in {PER_HEAD: (dk, dk), ROW: (q * dk, kv * dk), EACH_HEAD: (q * dk, kv * dk)}.get(
        qk_norm, ()
    ):
        p.norm(sizes, n, bias=norm_bias, name="qk_norm")


def gated_mlp(
    p: Tally, d: int, f: int, n: int, *, bias: bool = False, part: str = MLP, name: str = ""
) -> None:
    """3·d·f: gate, up and down."""
    p.linear(part, name + "gate_proj", f, d, n, bias=bias)
    p.linear(part, name + "up_proj", f, d, n, bias=bias)
    p.linear(part, name + "down_proj", d, f, n, bias=bias)


def plain_mlp(
    p: Tally, d: int, f: int, n: int, *, bias: bool = False, part: str = MLP, name: str = ""
) -> None:
    """2·d·f: up and down."""
    p.linear(part, name + "up_proj", f, d, n, bias=bias)
    p.linear(part, name + "down_proj", d, f, n, bias=bias)


def moe(
    c: Fields,
    p: Tally,
    n: int,
    *,
    f: int,
    shared: int = 0,
    shared_gate: bool = False,
    gated: bool = True,
    bias: bool = False,
    shared_bias: bool = False,
    router_bias: bool = False,
    correction: str = "",
    experts: int | None = None,
    used: int | None = None,
) -> None:
    """E·3·d·f + d·E, and a shared expert of width `shared` that every token passes.

    `correction` is the router's per-expert correction bias: a "parameter" of its class, or a
    "buffer" stored beside them.
    """
    d, count = c.hidden, c["num_experts"] if experts is None else experts
    top = c.number("num_experts_per_tok", 0) if used is None else used
    if n and not (count > 0 and top <= count):
        raise Unusable
    mlp = gated_mlp if gated else plain_mlp
    mlp(p, d, f, n * count, bias=bias, part=EXPERTS, name="experts.")
    one = (3 if gated else 2) * d * f + (((2 if gated else 1) * f + d) if bias else 0)
    p.idle(n * (count - top) * one, known=top > 0 or not n)
    p.matrix(ROUTER, "router", count, d, n)
    if router_bias:
        p.plain(ROUTER, "router.bias", count, n)
    if correction == "parameter":
        p.plain(ROUTER, "e_score_correction_bias", count, n)
    elif correction:
        p.buffers += n * count
    if shared:
        mlp(p, d, shared, n, bias=shared_bias, part=SHARED, name="shared_experts.")
    if shared_gate:
        p.matrix(SHARED, "shared_expert_gate", 1, d, n)


def mla(c: Fields, p: Tally, n: int, *, bias: bool = False) -> None:
    """Latent attention: d·r_q + r_q + r_q·H·(nope + rope), d·(r + rope) + r + r·H·(nope + v), o.

    With no r_q the queries come straight from d: d·H·(nope + rope).
    """
    d, heads, r = c.hidden, c.heads, c["kv_lora_rank"]
    nope, rope = c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    v = c.number("v_head_dim", d // heads)
    rq = c.number("q_lora_rank", 0)
    if rq:
        p.linear(ATTENTION, "q_a_proj", rq, d, n, bias=bias)
        p.norm(rq, n, name="q_a_layernorm")
        p.linear(ATTENTION, "q_b_proj", heads * (nope + rope), rq, n)
    else:
        p.linear(ATTENTION, "q_proj", heads * (nope + rope), d, n)
    p.linear(ATTENTION, "kv_a_proj_with_mqa", r + rope, d, n, bias=bias)
    p.norm(r, n, name="kv_a_layernorm")
    p.linear(ATTENTION, "kv_b_proj", heads * (nope + v), r, n)
    p.linear(ATTENTION, "o_proj", d, heads * v, n, bias=bias)


def indexer(c: Fields, p: Tally, n: int) -> None:
    """The sparse-attention indexer: r_q·Hi·di + d·di + 2·di + d·Hi."""
    d, di, hi = c.hidden, c["index_head_dim"], c["index_n_heads"]
    p.linear(ATTENTION, "indexer.wq_b", hi * di, c["q_lora_rank"], n)
    p.linear(ATTENTION, "indexer.wk", di, d, n)
    p.norm(di, n, bias=True, name="indexer.k_norm")
    p.matrix(ATTENTION, "indexer.weights_proj", hi, d, n)
