"""One layer's cache of one request: each kind in whole bytes, the arithmetic beside it."""

from __future__ import annotations

import pytest

from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
    bend_of,
)
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError

BF16 = storage("bf16")
FULL = Full(kv_heads=8, key_dim=128, value_dim=128)
WINDOW = SlidingWindow(kv_heads=8, key_dim=128, value_dim=128, window=1024)
CHUNKED = Chunked(kv_heads=8, key_dim=128, value_dim=128, chunk=8192)
MLA = Latent(rank=512, rope_dim=64)


@pytest.mark.parametrize(
    ("tokens", "size"), [(0, 0), (1, 4096), (4096, 16_777_216), (131_072, 536_870_912)]
)
def test_full_attention_keeps_every_token(tokens: int, size: int) -> None:
    """8 heads × (128 + 128) × 2 bytes = 4,096 bytes a token."""
    assert size == FULL.bytes_at(tokens, BF16)
    assert FULL.token_bytes(BF16) == 4096
    assert FULL.fixed_bytes(BF16) == 0
    assert bend_of(FULL) is None


def test_one_key_value_head_is_mqa() -> None:
    """1 × (128 + 128) × 2 = 512 bytes a token."""
    assert Full(kv_heads=1, key_dim=128, value_dim=128).token_bytes(BF16) == 512


def test_keys_and_values_of_different_width() -> None:
    """4 heads × (192 + 128) × 2 = 2,560 bytes a token."""
    assert Full(kv_heads=4, key_dim=192, value_dim=128).token_bytes(BF16) == 2560


@pytest.mark.parametrize(
    ("tokens", "size"),
    [
        (1, 4096),
        (1023, 1023 * 4096),
        (1024, 4_194_304),
        (1025, 4_194_304),
        (131_072, 4_194_304),
    ],
)
def test_a_sliding_window_keeps_its_last_tokens(tokens: int, size: int) -> None:
    """min(n, 1,024) × 4,096; full from there on: 4,194,304."""
    assert size == WINDOW.bytes_at(tokens, BF16)
    assert WINDOW.token_bytes(BF16) == 4096
    assert bend_of(WINDOW) == 1024


@pytest.mark.parametrize(
    ("tokens", "size"), [(8191, 33_550_336), (8192, 33_554_432), (8193, 33_554_432)]
)
def test_chunks_keep_at_most_one(tokens: int, size: int) -> None:
    """Llama 4: min(n, 8,192) × 4,096."""
    assert size == CHUNKED.bytes_at(tokens, BF16)
    assert bend_of(CHUNKED) == 8192


def test_mla_keeps_one_latent_and_no_factor_of_two() -> None:
    """DeepSeek-V3: (512 + 64) × 2 = 1,152 bytes a token and layer, whatever the heads."""
    with_heads = Latent(rank=512, rope_dim=64, heads=128, nope_dim=128, value_dim=128)

    assert MLA.token_bytes(BF16) == 1152
    assert MLA.bytes_at(4096, BF16) == 4_718_592
    assert with_heads.token_bytes(BF16) == 1152


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("fp8", 576),
        ("q8_0", 612),  # 18 blocks of 34
        ("q4_0", 324),  # 18 blocks of 18
        ("int8_per_token_head", 584),  # 576 + a scale for K and one for V
        ("fp32", 2304),
    ],
)
def test_mla_in_other_formats(dtype: str, size: int) -> None:
    assert size == MLA.token_bytes(storage(dtype))


def test_mla_ignores_the_format_of_values() -> None:
    """There is no V: only K's format counts."""
    assert MLA.token_bytes(storage("auto", "q8_0", "f16")) == 612


def test_a_latent_may_slide() -> None:
    """DeepSeek-V4's window of 128: min(n, 128) × 512 × 2."""
    cache = Latent(rank=448, rope_dim=64, window=128)

    assert cache.bytes_at(100, BF16) == 100 * 1024
    assert cache.bytes_at(1_000_000, BF16) == 131_072
    assert bend_of(cache) == 128


@pytest.mark.parametrize(
    ("tokens", "entries"), [(0, 0), (3, 0), (4, 1), (7, 1), (8, 2), (4096, 1024)]
)
def test_compressed_caches_keep_whole_groups(tokens: int, entries: int) -> None:
    """One entry of 512 × 2 bytes for every 4 whole tokens: floor(n / 4)."""
    cache = Compressed(dim=512, ratio=4)

    assert entries * 1024 == cache.bytes_at(tokens, BF16)
    assert cache.token_bytes(BF16) == 256


def test_a_fraction_of_a_byte_a_token_rounds_up_but_totals_do_not() -> None:
    """128 × 1 byte over 3 tokens: 43 a token at most; 3 tokens are one entry of 128."""
    cache = Compressed(dim=128, ratio=3)

    assert cache.token_bytes(storage("fp8")) == 43
    assert cache.bytes_at(3, storage("fp8")) == 128
    assert cache.bytes_at(5, storage("fp8")) == 128


def test_an_indexer_keeps_one_key_a_token() -> None:
    """DeepSeek-V3.2: 128 elements: 256 bytes in bf16, 136 in q8_0, no value."""
    assert Indexer(dim=128).token_bytes(BF16) == 256
    assert Indexer(dim=128).token_bytes(storage("q8_0")) == 136
    assert Indexer(dim=128).kind == "indexer"


@pytest.mark.parametrize("tokens", [0, 1, 4096, 10**9])
def test_states_are_the_same_at_every_length(tokens: int) -> None:
    """Mamba-2 with a bf16 conv and an fp32 state.

    (4 − 1) columns × 10,240 channels × 2 + 128 heads × 64 × 128 × 4 = 61,440 + 4,194,304.
    """
    state = State(
        variant="mamba2",
        conv_kernel=4,
        conv_channels=10_240,
        recurrent_elements=128 * 64 * 128,
        recurrent_dtype="fp32",
    )

    assert state.bytes_at(tokens, BF16) == 4_255_744
    assert state.fixed_bytes(BF16) == 4_255_744
    assert state.token_bytes(BF16) == 0


def test_a_state_follows_the_models_dtype_not_the_caches() -> None:
    """(3 − 1) × 2,048 elements: 8,192 bytes in bf16, 16,384 in fp32, whatever K and V are."""
    conv = State(variant="short_conv", conv_kernel=3, conv_channels=2048)

    assert conv.fixed_bytes(storage("q8_0", model="bf16")) == 8192
    assert conv.fixed_bytes(storage("q8_0", model="fp32")) == 16_384


def test_cross_attention_keeps_the_encoder_once() -> None:
    """Whisper-large-v3: 1,500 positions × 20 heads × (64 + 64) × 2 = 7,680,000 a layer."""
    cross = Cross(kv_heads=20, key_dim=64, value_dim=64, encoder_tokens=1500)

    assert cross.bytes_at(0, BF16) == 7_680_000
    assert cross.bytes_at(448, BF16) == 7_680_000
    assert cross.fixed_bytes(BF16) == 7_680_000
    assert cross.token_bytes(BF16) == 0


def test_a_shared_cache_costs_nothing() -> None:
    shared = Shared(reads=FULL)

    assert shared.bytes_at(4096, BF16) == 0
    assert shared.token_bytes(BF16) == 0
    assert Shared(reads=WINDOW) == shared


@pytest.mark.parametrize(
    ("cache", "dtype"),
    [
        (Full(kv_heads=1, key_dim=80, value_dim=80), "q8_0"),  # 80 is no multiple of 32
        (Full(kv_heads=8, key_dim=72, value_dim=72), "nvfp4"),  # nor 72 of 16
        (Compressed(dim=100), "mxfp8"),
        (Latent(rank=250, rope_dim=1), "int4"),
    ],
)
def test_blocks_that_do_not_divide_are_refused(cache: Cache, dtype: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        cache.bytes_at(1, storage(dtype))

    assert refused.value.code == "not_divisible"
    assert dtype in refused.value.message


def test_kinds_are_the_contracts_words() -> None:
    kinds = {
        "full", "sliding_window", "chunked", "latent", "compressed", "indexer", "state", "cross",
        "shared",
    }  # fmt: skip
    classes = (Full, SlidingWindow, Chunked, Latent, Compressed, Indexer, State, Cross, Shared)

    assert kinds == {c.kind for c in classes}
