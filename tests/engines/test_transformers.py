"""What transformers keeps, with the arithmetic beside each figure."""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc.checkpoints.config import model_from_config
from kvcalc.core.cache import (
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
)
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Layer, Model
from kvcalc.engines.transformers import Item, cache_bytes


def model(*layers: Layer, **fields: Any) -> Model:
    return Model(id="m", name="m", layers=layers, dtype="bf16", **fields)


FULL = Full(kv_heads=2, key_dim=16, value_dim=16)
WINDOW = SlidingWindow(kv_heads=2, key_dim=16, value_dim=16, window=8)


def total(m: Model, tokens: int, **settings: Any) -> int:
    return cache_bytes(m, tokens, **settings).total_bytes


def test_full_layers_keep_every_token() -> None:
    """40 tokens · 2 heads · (16 + 16) · 2 bytes = 5,120; twice for two sequences."""
    assert total(model((FULL,)), 40) == 5120
    assert total(model((FULL,)), 40, batch=2) == 10240
    assert total(model((FULL,)), 40, kv_dtype="fp32") == 10240


@pytest.mark.parametrize(("tokens", "kept"), [(0, 0), (7, 7), (8, 7), (9, 7), (1000, 7)])
def test_windows_keep_one_token_less(tokens: int, kept: int) -> None:
    """A window of 8 keeps 7: the token at hand is the eighth."""
    assert total(model((WINDOW,)), tokens) == kept * 2 * 32 * 2
    chunk = Chunked(kv_heads=2, key_dim=16, value_dim=16, chunk=8)
    assert total(model((chunk,)), tokens) == kept * 2 * 32 * 2


def test_a_window_of_one_keeps_everything() -> None:
    """Its slice starts at -1 + 1 = 0."""
    one = SlidingWindow(kv_heads=1, key_dim=1, value_dim=1, window=1)
    assert total(model((one,)), 40) == 40 * 2 * 2


def test_static_caches_have_their_length_at_once() -> None:
    """32 tokens in full layers, the window of 8 in sliding ones, whatever was seen."""
    static: dict[str, Any] = {"cache_implementation": "static", "max_cache_len": 32}
    assert total(model((FULL,)), 5, **static) == 32 * 2 * 32 * 2
    assert total(model((WINDOW,)), 5, **static) == 8 * 2 * 32 * 2
    assert total(model((WINDOW,)), 5, **{**static, "max_cache_len": 6}) == 6 * 2 * 32 * 2
    assert total(model((FULL,)), 5, cache_implementation="static") == 5 * 2 * 32 * 2


def test_latents_and_indexers() -> None:
    """40 · (32 + 8) · 2 = 3,200 and 40 · 16 · 2 = 1,280."""
    layer = (Latent(rank=32, rope_dim=8), Indexer(dim=16))
    assert total(model(layer), 40) == 3200 + 1280
    assert total(model((Latent(rank=32, rope_dim=8, window=8),)), 40) == 7 * 40 * 2


def test_indexer_keys_that_stay_float32() -> None:
    layer = (Indexer(dim=16),)
    assert total(model(layer, architecture="dots3_note_text"), 40) == 40 * 16 * 4


def test_states_keep_k_columns_and_float32() -> None:
    """4 columns of 192 in bf16 and 8 · 16 · 16 elements in float32: 1,536 + 8,192."""
    mamba = State(variant="mamba2", conv_kernel=4, conv_channels=192, recurrent_elements=2048)
    assert total(model((mamba,)), 5) == 4 * 192 * 2 + 2048 * 4
    conv = State(variant="short_conv", conv_kernel=3, conv_channels=64)
    assert total(model((conv,)), 5) == 3 * 64 * 2


def test_states_that_differ() -> None:
    """Lightning in the model's dtype; RG-LRU 3 columns; RWKV-4 2 vectors in bf16, 3 in float32."""
    lightning = State(variant="lightning", recurrent_elements=1024)
    assert total(model((lightning,)), 5) == 1024 * 2
    rg_lru = State(variant="rg_lru", conv_kernel=4, conv_channels=64, recurrent_elements=64)
    assert total(model((rg_lru,)), 5) == 3 * 64 * 2 + 64 * 4
    rwkv = model_from_config(
        {"model_type": "rwkv", "hidden_size": 64, "num_hidden_layers": 1}, name="m", where="c"
    )
    assert total(rwkv, 5, kv_dtype="bf16") == 2 * 64 * 2 + 3 * 64 * 4


def test_falcon_stores_every_query_head() -> None:
    base = {"model_type": "falcon", "num_attention_heads": 8, "hidden_size": 64,
            "num_hidden_layers": 1}  # fmt: skip
    new = {**base, "new_decoder_architecture": True, "num_kv_heads": 2}
    m = model_from_config(new, name="m", where="c")
    assert total(m, 10, kv_dtype="bf16") == 10 * 8 * 16 * 2
    m = model_from_config(base, name="m", where="c")
    assert total(m, 10, kv_dtype="bf16") == 10 * 1 * 16 * 2


@pytest.mark.parametrize("tokens", [3, 4, 17, 43])
def test_deepseek_v4_keeps_what_is_not_compressed_yet(tokens: int) -> None:
    """Ratio 16: floor(n / 16) entries of 32, and key and gate of n mod 16 tokens."""
    window = Latent(rank=28, rope_dim=4, window=8)
    m = model((window, Compressed(dim=32, ratio=16)))
    kept = min(tokens, 7) * 32
    assert total(m, tokens) == 2 * (kept + tokens // 16 * 32 + 2 * (tokens % 16) * 32)
    sparse = (window, Compressed(dim=32, ratio=4), Indexer(dim=16, ratio=4))
    entries, waiting = tokens // 4, tokens % 4
    overlap = 4 if entries else 0
    own = entries * 48 + 2 * (2 * waiting + overlap) * 48
    assert total(model(sparse), tokens) == 2 * (kept + own)


def test_cross_attention_holds_the_encoder() -> None:
    cross = Cross(kv_heads=4, key_dim=16, value_dim=16, encoder_tokens=11)
    assert total(model((cross,)), 5) == total(model((cross,)), 500) == 11 * 4 * 32 * 2


def test_items_add_up_and_count_the_batch() -> None:
    m = model((FULL,), (WINDOW,), (FULL,), (Shared(),))
    found = cache_bytes(m, 40, batch=2)
    assert found.items[0] == Item("full", 2, 40, 10240, 10240, 20480)
    assert found.items[1] == Item("sliding_window", 1, 7, 896, 896, 1792)
    assert found.items[2] == Item("shared", 1, 0, 0, 0, 0)
    assert found.total_bytes == sum(item.bytes for item in found.items)


@pytest.mark.parametrize("name", ["fp8", "q8_0", "int8"])
def test_block_formats_are_refused(name: str) -> None:
    with pytest.raises(KvcalcError, match="in the model's dtype"):
        cache_bytes(model((FULL,)), 40, kv_dtype=name)


def test_other_caches_are_refused() -> None:
    with pytest.raises(KvcalcError, match="cache_implementation=quantized"):
        cache_bytes(model((FULL,)), 40, cache_implementation="quantized")
    with pytest.raises(KvcalcError, match="do not fit max_cache_len=32"):
        cache_bytes(model((FULL,)), 40, cache_implementation="static", max_cache_len=32)


@pytest.mark.parametrize(
    "layer",
    [
        (State(variant="lightning", recurrent_elements=4),),
        (Compressed(dim=32, ratio=4),),
        (Latent(rank=28, rope_dim=4, window=8),),
    ],
)
def test_models_without_a_static_cache(layer: Layer) -> None:
    m = model(layer, architecture="deepseek_v4")
    with pytest.raises(KvcalcError, match="no static cache for deepseek_v4"):
        cache_bytes(m, 5, cache_implementation="static", max_cache_len=8)


def test_a_model_that_takes_no_cache() -> None:
    with pytest.raises(KvcalcError, match="keeps no cache for openai-gpt"):
        cache_bytes(model((FULL,), architecture="openai-gpt"), 5)
