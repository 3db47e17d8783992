"""States of recurrent layers, and DeepSeek-V4's compressed caches, from GGUF metadata.

Source: llama.cpp 0c1e57098, `llama-hparams.cpp` (n_embd_r, n_embd_s) and
`llama-kv-cache-dsv4.cpp`. Elements, not bytes: llama.cpp stores states in fp32, others do not.
"""

from __future__ import annotations

from kvcalc.checkpoints.gguf_keys import MAX_TOKENS, Keys
from kvcalc.core.cache import Cache, Compressed, Indexer, Latent, State
from kvcalc.core.model import Layer


def state_of(keys: Keys, variant: str, heads: list[int]) -> State:
    """The state of one recurrent layer.

    Raises:
        KvcalcError: "invalid_config" for a missing or senseless size.
    """
    if variant == "rwkv":
        return _rwkv(keys)
    if variant == "short_conv":
        kernel = keys.whole("shortconv.l_cache", most=1024)
        channels = keys.whole("embedding_length")
        return State(variant=variant, conv_kernel=kernel, conv_channels=channels)
    if variant == "lightning":
        count = _heads(keys, heads)
        size = keys.whole("attention.key_length", keys.whole("embedding_length") // count)
        return State(variant=variant, recurrent_elements=count * size * size, heads=count)
    if variant == "kda":
        return _kda(keys, heads)
    return _mamba(keys, variant)


def _heads(keys: Keys, heads: list[int]) -> int:
    if not heads[0]:
        raise keys.error("attention.head_count", "is 0")
    return heads[0]


def _kda(keys: Keys, heads: list[int]) -> State:
    """(K − 1) columns of q, k and v, and a head_dim² matrix a head."""
    count, size = _heads(keys, heads), keys.whole("kda.head_dim")
    return State(
        variant="kda",
        conv_kernel=keys.whole("ssm.conv_kernel", most=1024),
        conv_channels=3 * count * size,
        recurrent_elements=count * size * size,
        recurrent_dtype="fp32",
        heads=count,
    )


def _mamba(keys: Keys, variant: str) -> State:
    """(K − 1) · (inner + 2 · groups · state) conv elements and state · inner recurrent ones.

    A gated delta net has the same keys: its groups are the key heads, its state the key dims.
    """
    inner, size = keys.whole("ssm.inner_size"), keys.whole("ssm.state_size")
    groups = 0 if variant == "mamba1" else keys.whole("ssm.group_count")
    rank = keys.whole("ssm.time_step_rank", 0, least=0)
    mamba2 = variant == "mamba2"
    return State(
        variant=variant,
        conv_kernel=keys.whole("ssm.conv_kernel", most=1024),
        conv_channels=inner + 2 * groups * size,
        recurrent_elements=inner * size,
        heads=(rank or None) if variant != "mamba1" else None,
        groups=groups if mamba2 else 0,
        group_channels=2 * size if mamba2 else 0,
    )


def _rwkv(keys: Keys) -> State:
    """The last token's shift vectors (2, or 1 in the Qwen hybrids) and a matrix a head."""
    hidden = keys.whole("embedding_length")
    shifts = keys.whole("token_shift_count", 2, most=16)
    size = keys.whole("wkv.head_size")
    return State(
        variant="rwkv",
        conv_kernel=2,
        conv_channels=shifts * hidden,
        recurrent_elements=hidden * size,
    )


#: DeepSeek-V4's two compressions: with an indexer (4 tokens an entry), and heavy (128).
CSA_RATIO, HCA_RATIO = 4, 128


def compressed_layer(keys: Keys, count: int, layer: int) -> Layer:
    """One layer of DeepSeek-V4: the window's latents, then the compressed ones by its ratio.

    Raises:
        KvcalcError: "invalid_config" for a ratio that DeepSeek-V4 does not have.
    """
    dim = keys.whole("attention.key_length")
    rope = keys.whole("rope.dimension_count", 0, least=0, most=dim)
    window = keys.whole("attention.sliding_window", most=MAX_TOKENS)
    ratio = keys.numbers("attention.compress_ratios", count)[layer]
    caches: list[Cache] = [Latent(rank=dim - rope, rope_dim=rope, window=window)]
    if ratio not in {0, 1, CSA_RATIO, HCA_RATIO}:
        raise keys.error("attention.compress_ratios", f"holds {ratio:,}", "known: 0, 4 and 128")
    if ratio > 1:
        caches.append(Compressed(dim=dim, ratio=ratio))
    if ratio == CSA_RATIO:
        index = keys.whole("attention.indexer.key_length")
        caches.append(Indexer(dim=index, ratio=ratio))
    return tuple(caches)
