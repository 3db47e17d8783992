"""Attention caches from GGUF metadata: heads, dimensions, windows, latents and indexers of a layer.

Source: the loaders of llama.cpp 0c1e57098.
"""

from __future__ import annotations

from kvcalc.checkpoints import gguf_archs as archs
from kvcalc.checkpoints.gguf_keys import MAX_TOKENS, Keys
from kvcalc.core.cache import Cache, Chunked, Full, Indexer, Latent, SlidingWindow
from kvcalc.core.model import Layer


def query_heads(keys: Keys, blocks: int) -> list[int]:
    """Query heads of each layer; purely recurrent models have none."""
    none = archs.RECURRENT.get(keys.architecture, ("", ""))[1] == "all"
    value = keys.get("attention.head_count")
    if none and (value is None or value == 0):
        return [0] * blocks
    heads = keys.per_layer("attention.head_count", blocks)
    if not any(heads):
        raise keys.error("attention.head_count", "is 0 in every layer")
    return heads


def attention_layers(keys: Keys, blocks: int, count: int, heads: list[int]) -> list[Layer]:
    """The attention caches of each layer; recurrent layers have none here."""
    architecture = keys.architecture
    if not any(heads):
        return [()] * count
    kv_heads = keys.per_layer("attention.head_count_kv", blocks, heads)
    if not any(kv_heads[:count]):
        raise keys.error("attention.head_count_kv", "is 0 in every layer")
    mixed = architecture in archs.RECURRENT or architecture in {"deci", "openelm"}
    if not mixed and not all(kv_heads):
        raise keys.error("attention.head_count_kv", "is 0 in a layer that has attention")
    if max(kv_heads) > max(heads):
        raise keys.error(
            "attention.head_count_kv", f"is {max(kv_heads):,} for {max(heads):,} heads"
        )
    if "attention.key_length_mla" in keys or architecture in archs.LATENT_HYBRID:
        latent = _latent(keys, heads)
        wrong = next((h for h in kv_heads if h > 1), None)
        if wrong is not None:
            raise keys.error("attention.head_count_kv", f"is {wrong:,} with latent attention")
        return [(latent,) if h else () for h in kv_heads[:count]]
    windows = _windows(keys, count)
    return [
        (_cache(keys, h, window, heads),) if h else ()
        for h, window in zip(kv_heads[:count], windows, strict=True)
    ]


def _cache(keys: Keys, kv_heads: int, window: int, heads: list[int]) -> Cache:
    """Full, or of a window; sliding layers may have dimensions of their own."""
    derived = keys.whole("embedding_length") // next(h for h in heads if h)
    if not derived and "attention.key_length" not in keys:
        raise keys.error("embedding_length", "is smaller than the number of heads")
    key = keys.whole("attention.key_length", derived)
    value = keys.whole("attention.value_length", derived)
    if not window:
        return Full(kv_heads=kv_heads, key_dim=key, value_dim=value)
    key = keys.whole("attention.key_length_swa", key)
    value = keys.whole("attention.value_length_swa", value)
    if keys.architecture == "llama4":
        return Chunked(kv_heads=kv_heads, key_dim=key, value_dim=value, chunk=window)
    return SlidingWindow(kv_heads=kv_heads, key_dim=key, value_dim=value, window=window)


def _windows(keys: Keys, count: int) -> list[int]:
    """The window of each layer in tokens, 0 where all tokens stay."""
    rule = archs.WINDOWS.get(keys.architecture)
    if keys.architecture == "llama4":
        # The chunk is fixed in llama.cpp; a sliding_window of 0 turns it off.
        rule = archs.Window(4, default=8192)
    if rule is None:
        return [0] * count
    if rule.required:
        window = keys.whole("attention.sliding_window", most=MAX_TOKENS)
    else:
        window = keys.whole("attention.sliding_window", rule.default, least=0, most=MAX_TOKENS)
    if not window:
        return [0] * count
    if keys.architecture == "llama4":
        window = rule.default
    pattern = _pattern(keys, rule, count)
    return [window if slides else 0 for slides in pattern]


def _pattern(keys: Keys, rule: archs.Window, count: int) -> list[bool]:
    """True for each layer that slides: the file's pattern, or the architecture's."""
    key = "attention.sliding_window_pattern"
    value = keys.get(key)
    period = rule.period
    if isinstance(value, int) and not isinstance(value, bool) and rule.period > 1:
        period = keys.whole(key, least=0)
    elif value is not None:
        flags = keys.flags(key, count)
        if flags is not None:
            return flags[:count]
    elif rule.period == 0:
        raise keys.error(key, "is missing", "convert the model again")
    if period <= 1:
        # A period of 1 has no sliding layer in llama.cpp; ours means that all of them slide.
        return [period == 0 or rule.period == 1] * count
    if rule.dense_first:
        return [i % period != 0 for i in range(count)]
    return [i % period < period - 1 for i in range(count)]


def _latent(keys: Keys, heads: list[int]) -> Latent:
    rank = keys.whole("attention.kv_lora_rank")
    rope = keys.whole("attention.key_length") - rank
    key, value = (
        keys.whole("attention.key_length_mla"),
        keys.whole("attention.value_length_mla"),
    )
    if rope < 0 or key < rope:
        raise keys.error("attention.key_length", "is not kv_lora_rank plus the rope dimensions")
    return Latent(rank=rank, rope_dim=rope, heads=max(heads), nope_dim=key - rope, value_dim=value)


def with_indexers(keys: Keys, layers: list[Layer]) -> list[Layer]:
    """Layers that own a sparse-attention indexer hold its keys beside the latent."""
    count, rule = len(layers), archs.INDEXERS[keys.architecture]
    if rule == "types" and not keys.whole("attention.indexer.top_k", 0, least=0):
        return layers
    dim = keys.whole("attention.indexer.key_length")
    owns = [True] * count
    if rule == "sparse":
        dense = keys.whole("leading_dense_block_count", 0, least=0)
        owns = [i >= dense for i in range(count)]
    elif rule == "types":
        types = keys.flags("attention.indexer.types", count)
        if types is not None:
            owns = types[:count]
        elif keys.architecture == "glm-dsa" and keys.whole("context_length", 0, least=0) >= 2**20:
            first = archs.GLM_DSA_FIRST
            owns = [i < first or (i - first) % archs.GLM_DSA_PERIOD == 0 for i in range(count)]
    latent_only = keys.architecture == "glm5-next"
    return [
        (*layer, Indexer(dim=dim))
        if owns[i] and layer and not (latent_only and not isinstance(layer[0], Latent))
        else layer
        for i, layer in enumerate(layers)
    ]
