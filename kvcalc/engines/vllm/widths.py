"""A model's widths as vLLM's buffers see them: what attention, experts and MLP hold and span.

A preset knows the number of parameters and the caches, not every matrix. Attention follows from
the heads, routed experts from all and active parameters, and the MLP is what is left: of a gated
dense model that gives its width exactly (Llama-3.1-8B: 14,336).
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.cache import Cache, Cross, Full, Indexer, Latent, State
from kvcalc.core.model import Model

#: Architectures whose checkpoint stores a vision or audio tower beside the text model; in others
#: what is stored beyond the text model is a prediction layer (or a copy) that vLLM does not load.
TOWERS = frozenset({
    "gemma3", "gemma4", "llama4", "mistral3", "ministral3", "mistral4", "mllama", "qwen2_vl",
    "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "kimi_k25",
})  # fmt: skip
#: Of these, the checkpoint holds one prediction layer too.
_WITH_MTP = ("qwen3_5",)
#: Models of many heads compress queries as well; DeepSeek-V2, V3 and Kimi-K2 to 1,536.
_QUERY_RANK, _QUERY_RANK_HEADS = 1536, 64
#: Key dimension of recurrent heads where a preset gives the state's elements only.
_STATE_DIM = 128
#: Where nothing tells: 128,256 logits and a hidden size of 4 KV widths, as Llama-3 has.
_VOCABULARY, _HIDDEN_PER_KV = 128_256, 4


class Widths(NamedTuple):
    """Elements of the whole text model by part, and the widths of a layer.

    `exact` is False where hidden size, vocabulary or parameters were not known.
    """

    layers: int
    hidden: int
    vocabulary: int
    #: Embedding and output head as stored, whether they are one, and all else.
    embedding: int
    tied: bool
    body: int
    #: Projections of attention or of a recurrent mixer; K and V projections; MLA's replicated ones.
    attention: int
    kv: int
    replicated: int
    #: Routed experts; the rest of the body: MLP, shared experts, routers, norms.
    routed: int
    dense: int
    experts: int
    experts_per_token: int
    #: Of one expert.
    expert_width: int
    #: Elements per token alive in an attention layer at most.
    attention_width: int
    exact: bool

    @property
    def mlp_width(self) -> int:
        """Gate, up and activated half of a dense layer: 3 f (with two matrices as many)."""
        return self.dense // (self.layers * self.hidden)


def widths_of(model: Model, weight_bytes: int | None) -> Widths:
    """The widths; parameters that are not known are taken from 2-byte weights."""
    layers = max(len(model.layers), 1)
    hidden = model.hidden_size or _hidden(model)
    vocabulary = model.vocab_size or _VOCABULARY
    weights = model.weights
    embedding = (weights.embedding_elements if weights else None) or hidden * vocabulary
    parameters = model.parameters or (weight_bytes or 0) // 2
    body = max(parameters - embedding, 0)
    attention = kv = replicated = widest = 0
    for group in model.groups:
        count = len(group.layers)
        held, of_kv, copied, span = _mixer(group.cache, model, hidden)
        attention, kv = attention + count * held, kv + count * of_kv
        replicated, widest = replicated + count * copied, max(widest, span)
    attention = min(attention, body)
    norms = min(2 * layers * hidden, body - attention)
    rest = body - attention - norms
    experts, chosen = model.experts or 0, model.experts_per_token or 1
    routed = width = 0
    if experts > chosen:
        active = model.active_parameters
        routed = rest
        if active is not None:
            routed = min(rest, (parameters - active) * experts // (experts - chosen))
        width = _rounded(routed // (experts * layers * 3 * hidden))
        if routed == rest:  # experts in every layer and nothing shared: routers, biases are left
            routed = min(rest, experts * layers * 3 * hidden * width)
    return Widths(
        layers, hidden, vocabulary, embedding, embedding < 2 * hidden * vocabulary, body,
        attention, kv, replicated, routed, rest - routed, experts, chosen, width, widest,
        exact=None not in (model.hidden_size, model.vocab_size, model.parameters),
    )  # fmt: skip


def _mixer(cache: Cache, model: Model, d: int) -> tuple[int, int, int, int]:
    """Of one layer's mixer: elements, of K and V, replicated over ranks, width at its peak.

    Attention: q, k, v side by side, rotated or contiguous copies of q and k, and the output:
    2 (H + 2 H_kv) + H heads. Recurrent: both halves of the input projection, convolved channels,
    and q, k, v, w, u and o of every chunk.
    """
    if isinstance(cache, Latent):
        heads = cache.heads or model.query_heads or 1
        qk, value = (cache.nope_dim or 128) + cache.rope_dim, cache.value_dim or 128
        queries, down = d * heads * qk, d * (cache.rank + cache.rope_dim)
        if heads >= _QUERY_RANK_HEADS:
            queries, down = _QUERY_RANK * heads * qk, down + d * _QUERY_RANK
        up = cache.rank * heads * ((cache.nope_dim or 128) + value)
        return queries + down + up + heads * value * d, 0, down, heads * (3 * qk + 2 * value)
    if isinstance(cache, (Full, Cross)):
        heads = model.query_heads or cache.kv_heads
        query, own = heads * cache.key_dim, cache.kv_heads * (cache.key_dim + cache.value_dim)
        out = heads * cache.value_dim
        return d * (query + own + out), d * own, 0, 2 * (query + own) + out
    if isinstance(cache, State):
        inner = min(cache.conv_channels, cache.recurrent_elements // _STATE_DIM)
        inner = inner or cache.conv_channels
        return d * (cache.conv_channels + 2 * inner), 0, 0, 2 * cache.conv_channels + 6 * inner
    if isinstance(cache, Indexer):
        return d * cache.dim, 0, d * cache.dim, cache.dim
    return 0, 0, 0, 0


def _hidden(model: Model) -> int:
    """From the heads: query heads · dimension, or four times the KV heads'."""
    for group in model.attention:
        cache = group.cache
        if isinstance(cache, Full):
            return (model.query_heads or _HIDDEN_PER_KV * cache.kv_heads) * cache.key_dim
    return 4096


def _rounded(width: int) -> int:
    """Expert widths are multiples of 64; biases and rounded card figures blur them."""
    return max(64, (width + 32) // 64 * 64)


def stored_beside(model: Model, widths: Widths) -> tuple[int, int]:
    """Elements stored beside the text model: a tower that is loaded, and what is not."""
    beside = (model.stored_parameters or 0) - (model.parameters or 0)
    if model.parameters is None or beside <= 0:
        return 0, 0
    architecture = model.architecture or ""
    if architecture not in TOWERS:
        return 0, beside
    prediction = 0
    if architecture.startswith(_WITH_MTP):
        prediction = min(beside, widths.body // widths.layers + 2 * widths.hidden**2)
    return beside - prediction, prediction
