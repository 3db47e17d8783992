"""Gemma 3n and 4: per-layer embeddings, shared keys and values, global heads, experts."""

from __future__ import annotations

from kvcalc.checkpoints.parameters.blocks import embeddings, gated_mlp, moe
from kvcalc.checkpoints.parameters.fields import Fields, Unusable
from kvcalc.checkpoints.parameters.moe import MW
from kvcalc.checkpoints.parameters.tally import ATTENTION, EMBEDDING, OTHER, ROUTER, Tally


def _per_layer_inputs(c: Fields, p: Tally) -> None:
    """A table of V'·L·e, its projection, and a gate, projection and norm in every layer."""
    d, n, e = c.hidden, c.layers, c.number("hidden_size_per_layer_input", 0)
    if not e and c.model_type == "gemma4_text":
        return
    p.matrix(EMBEDDING, "embed_tokens_per_layer", c["vocab_size_per_layer_input"], n * e)
    p.linear(OTHER, "per_layer_model_projection", n * e, d)
    p.norm(e, name="per_layer_projection_norm")
    p.linear(OTHER, "per_layer_input_gate", e, d, n)
    p.linear(OTHER, "per_layer_projection", d, e, n)
    p.norm(d, n, name="post_per_layer_input_norm")


def gemma3n(c: Fields, p: Tally) -> None:
    """AltUp streams, a low-rank LAuReL path beside attention; the last layers have no K and V."""
    d, n, dh = c.hidden, c.layers, c.head_dim
    streams, rank = c["altup_num_inputs"], c["laurel_rank"]
    owners = n - c.number("num_kv_shared_layers", 0)
    if owners < 0:
        raise Unusable
    embeddings(c, p)
    _per_layer_inputs(c, p)
    bias = c.flag("attention_bias")
    p.linear(ATTENTION, "q_proj", c.heads * dh, d, n, bias=bias)
    p.linear(ATTENTION, "k_proj", c.kv_heads * dh, d, owners, bias=bias)
    p.linear(ATTENTION, "v_proj", c.kv_heads * dh, d, owners, bias=bias)
    p.linear(ATTENTION, "o_proj", d, c.heads * dh, n, bias=bias)
    p.norm(dh, n + owners, name="qk_norm")
    for width in c.per_layer("intermediate_size", n):
        gated_mlp(p, d, width, 1)
    if c.flag("altup_correct_scale", default=True):
        p.plain(OTHER, "altup.correct_output_scale", d, n)
    p.matrix(OTHER, "altup.coefs", streams + streams * streams, streams, n)
    p.matrix(OTHER, "altup.modality_router", streams, d, n)
    p.norm(d, n, name="altup.router_norm")
    p.linear(OTHER, "altup_projections", d, d, 2 * (streams - 1))
    p.linear(OTHER, "laurel.linear", 2 * rank, d, n)
    p.norm(d, n, name="post_laurel_norm")
    p.norm(d, 4 * n + 1)


def gemma4(c: Fields, p: Tally) -> None:
    """Window and full layers of unequal heads; full ones may reuse K as V; experts beside MLPs."""
    d, n, equal = c.hidden, c.layers, c.flag("attention_k_eq_v")
    kinds = c.layer_types(
        n, ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(n)]
    )
    kinds[-1] = "full_attention"
    shared = c.number("num_kv_shared_layers", 0)
    bias = c.flag("attention_bias")
    if shared > n:
        raise Unusable
    overrides = _overrides(c)
    embeddings(c, p)
    _per_layer_inputs(c, p)
    for i, kind in enumerate(kinds):
        full = kind == "full_attention"
        dim, kv = c.head_dim, c.kv_heads
        if overrides is not None:
            own = overrides.get(i, {})
            dim, kv = own.get("head_dim", dim), own.get("num_key_value_heads", kv)
        elif full:
            dim = c.number("global_head_dim", 512)
            kv = c.number("num_global_key_value_heads", kv) if equal else kv
        owner = i < n - shared
        p.linear(ATTENTION, "q_proj", c.heads * dim, d, bias=bias)
        p.linear(ATTENTION, "o_proj", d, c.heads * dim, bias=bias)
        p.norm(dim, 1 + owner, name="qk_norm")
        if owner:
            p.linear(ATTENTION, "k_proj", kv * dim, d, bias=bias)
            p.linear(ATTENTION, "v_proj", kv * dim, d, 0 if full and equal else 1, bias=bias)
        wide = c.flag("use_double_wide_mlp") and not owner
        gated_mlp(p, d, c["intermediate_size"] * (2 if wide else 1), 1)
    if c.flag("enable_moe_block"):
        moe(c, p, n, f=c[MW])
        p.plain(ROUTER, "router.scale", d + c["num_experts"], n)
        p.norm(d, 3 * n)
    p.norm(d, 4 * n + 1)
    p.buffers += n  # one layer_scalar each


def _overrides(c: Fields) -> dict[int, dict[str, int]] | None:
    """`per_layer_config` of re-saved configs: {"05": {"head_dim": 512}, …} by layer."""
    written = c.raw("per_layer_config")
    if written is None:
        return None
    if not isinstance(written, dict) or len(written) > c.layers:
        raise Unusable
    found: dict[int, dict[str, int]] = {}
    for key, fields in written.items():
        if not str(key).isdigit() or not isinstance(fields, dict):
            raise Unusable
        own = Fields(fields, "", {})
        found[int(key)] = {
            name: own[name] for name in ("head_dim", "num_key_value_heads") if own.has(name)
        }
    return found


FAMILIES = {"gemma3n_text": gemma3n, "gemma4_text": gemma4}
