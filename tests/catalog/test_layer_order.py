"""Layers in order, written out by hand for the models whose layers differ."""

from __future__ import annotations

import pytest

from kvcalc.catalog.models import load_model
from kvcalc.core.cache import Chunked, Full, Latent, SlidingWindow, State
from kvcalc.core.dtypes import storage

BF16 = storage("bf16")


def kinds(name: str) -> list[str]:
    """The kinds of each layer's caches, joined by &; "-" for none."""
    return ["&".join(c.kind for c in layer) or "-" for layer in load_model(name).layers]


def expected(layers: int, at: dict[str, set[int]], rest: str) -> list[str]:
    """`rest` everywhere but at the given indices."""
    return [next((k for k, where in at.items() if i in where), rest) for i in range(layers)]


#: (model, layers, indices that differ, the rest): indices as the models' own code counts them.
ORDERS = [
    ("gemma-2-9b", 42, {"full": set(range(1, 42, 2))}, "sliding_window"),
    ("gemma-3-27b", 62, {"full": {5, 11, 17, 23, 29, 35, 41, 47, 53, 59}}, "sliding_window"),
    ("gemma-3n-e4b", 35, {"full": {4, 9, 14, 19}, "shared": set(range(20, 35))}, "sliding_window"),
    ("gemma-4-e2b", 35, {"full": {4, 9, 14}, "shared": set(range(15, 35))}, "sliding_window"),
    ("gemma-4-31b", 60, {"full": set(range(5, 60, 6))}, "sliding_window"),
    ("gpt-oss-20b", 24, {"full": set(range(1, 24, 2))}, "sliding_window"),
    ("command-a-03-2025", 64, {"full": set(range(3, 64, 4))}, "sliding_window"),
    ("llama-4-scout-17b-16e", 48, {"full": set(range(3, 48, 4))}, "chunked"),
    ("llama-3.2-11b-vision", 40, {"cross": {3, 8, 13, 18, 23, 28, 33, 38}}, "full"),
    ("jamba-v0.1", 32, {"full": {4, 12, 20, 28}}, "state"),
    ("granite-4.0-h-small", 40, {"full": {5, 15, 25, 35}}, "state"),
    ("qwen3-next-80b-a3b", 48, {"full": {3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47}}, "state"),
    ("qwen3.5-27b", 64, {"full": set(range(3, 64, 4))}, "state"),
    ("kimi-linear-48b-a3b", 27, {"latent": {3, 7, 11, 15, 19, 23, 26}}, "state"),
    ("minimax-text-01", 80, {"full": {7, 15, 23, 31, 39, 47, 55, 63, 71, 79}}, "state"),
    ("lfm2-1.2b", 16, {"full": {2, 5, 8, 10, 12, 14}}, "state"),
    ("mimo-v2-flash", 48, {"full": {0, 5, 11, 17, 23, 29, 35, 41, 47}}, "sliding_window"),
    ("step-3.7-flash", 45, {"full": set(range(0, 45, 4))}, "sliding_window"),
    ("falcon-h1-7b", 44, {}, "full&state"),
    ("whisper-large-v3", 32, {}, "full&cross"),
    ("t5-small", 6, {}, "full&cross"),
    ("deepseek-v3", 61, {}, "latent"),
    ("deepseek-v3.2", 61, {}, "latent&indexer"),
    ("minimax-m3", 60, {"full": {0, 1, 2}}, "full&indexer"),
    ("glm-5.2", 78, {"latent&indexer": {0, 1, *range(2, 78, 4)}}, "latent"),
    (
        "deepseek-v4-flash",
        43,
        {"latent": {0, 1}, "latent&compressed&indexer": set(range(2, 43, 2))},
        "latent&compressed",
    ),
    (
        "nemotron-h-8b-8k",
        52,
        {"full": {7, 18, 29, 40}, "-": {1, 3, 5, 8, 10, 12, 14, 16, 19, 21, 23, 25, 27, 30, 32, 34,
                                       36, 38, 41, 43, 45, 47, 49, 51}},
        "state",
    ),
    (
        "llama-3.3-nemotron-super-49b-v1",
        80,
        {"-": {6, 7, 11, *range(42, 52), *range(53, 71)}},
        "full",
    ),
    ("mamba-2.8b", 64, {}, "state"),
    ("llama-3.1-70b", 80, {}, "full"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "layers", "at", "rest"), ORDERS, ids=[o[0] for o in ORDERS])
def test_layers_stand_in_order(name: str, layers: int, at: dict[str, set[int]], rest: str) -> None:
    assert kinds(name) == expected(layers, at, rest)


def test_unequal_heads_are_where_they_belong() -> None:
    mimo, gemma = load_model("mimo-v2-flash").layers, load_model("gemma-4-e2b").layers

    assert mimo[0] == (Full(kv_heads=4, key_dim=192, value_dim=128),)
    assert mimo[1] == (SlidingWindow(kv_heads=8, key_dim=192, value_dim=128, window=128),)
    assert gemma[4] == (Full(kv_heads=1, key_dim=512, value_dim=512),)
    assert gemma[0] == (SlidingWindow(kv_heads=1, key_dim=256, value_dim=256, window=512),)


def test_reaches_and_ranks() -> None:
    assert load_model("llama-4-maverick-17b-128e").layers[0] == (
        Chunked(kv_heads=8, key_dim=128, value_dim=128, chunk=8192),
    )
    assert load_model("deepseek-v4-pro").layers[0][0] == Latent(rank=448, rope_dim=64, window=128)


def test_a_recurrent_dtype_stands_only_where_it_is_stated() -> None:
    def dtype(name: str) -> str | None:
        state = next(c for layer in load_model(name).layers for c in layer if isinstance(c, State))
        return state.recurrent_dtype

    assert dtype("qwen3.5-27b") == dtype("nemotron-3-nano-30b-a3b") == "fp32"
    # The file is silent, and its class takes float32.
    assert dtype("nemotron-h-8b-8k") == "fp32"
    assert dtype("qwen3-next-80b-a3b") is dtype("jamba-v0.1") is None


def test_bytes_by_hand() -> None:
    """Bytes of known models, each multiplied out.

    Llama-3.1-70B: 80 · 8 · (128 + 128) · 2 a token.
    Gemma-3-27B at 131,072: 10 · 131072 · 16 · 256 · 2 + 52 · 1024 · 16 · 256 · 2.
    DeepSeek-V3: 61 · (512 + 64) · 2; V3.2 adds an indexer key of 128 a layer.
    Whisper: 32 layers, 1500 encoder tokens · 20 heads · 128 · 2.
    Falcon-H1-7B state: 44 · (3 · (3072 + 2 · 256) + 24 · 128 · 256) · 2.
    """
    assert load_model("llama-3.1-70b").token_bytes(BF16) == 327_680
    assert load_model("gemma-3-27b").bytes_at(131_072, BF16) == 10_737_418_240 + 436_207_616
    assert load_model("deepseek-v3").token_bytes(BF16) == 70_272
    assert load_model("deepseek-v3.2").token_bytes(BF16) == 70_272 + 61 * 256
    assert load_model("whisper-large-v3").fixed_bytes(BF16) == 32 * 1500 * 20 * 128 * 2
    assert load_model("falcon-h1-7b").fixed_bytes(BF16) == 44 * (3 * 3584 + 786_432) * 2
