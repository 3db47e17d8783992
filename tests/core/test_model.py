"""A model is its layers in order, each with any number of caches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvcalc.core.cache import Cross, Full, Latent, Shared, SlidingWindow, State
from kvcalc.core.dtypes import storage
from kvcalc.core.model import Layer, Model, pattern_of, short_name, with_encoder_tokens

BF16 = storage("bf16")
FULL = Full(kv_heads=16, key_dim=128, value_dim=128)  # 8,192 bytes a token
WINDOW = SlidingWindow(kv_heads=16, key_dim=128, value_dim=128, window=1024)
STATE = State(variant="mamba2", recurrent_elements=1000)  # 2,000 bytes in bf16
CROSS = Cross(kv_heads=1, key_dim=64, value_dim=64, encoder_tokens=10)  # 2,560 bytes


def model(*layers: Layer) -> Model:
    return Model(id="test", name="Test", layers=layers)


#: Gemma-3-27B's shape: five windows and one full layer, ten times, and two windows.
GEMMA = model(*[*[*[(WINDOW,)] * 5, (FULL,)] * 10, *[(WINDOW,)] * 2])


def test_bytes_of_one_request_over_mixed_layers() -> None:
    """10 × 131,072 × 8,192 + 52 × 1,024 × 8,192 = 10,737,418,240 + 436,207,616."""
    assert GEMMA.bytes_at(131_072, BF16) == 11_173_625_856


def test_growth_counts_every_layer_below_its_window() -> None:
    """62 × 8,192 = 507,904 bytes a token until 1,024 tokens."""
    assert GEMMA.token_bytes(BF16) == 507_904
    assert GEMMA.bends == (1024,)
    assert GEMMA.bytes_at(1024, BF16) == 1024 * 507_904
    assert GEMMA.bytes_at(1025, BF16) == 1024 * 507_904 + 10 * 8192


def test_groups_stand_in_order_of_first_appearance() -> None:
    first, second = GEMMA.groups

    assert (first.cache, len(first.layers)) == (WINDOW, 52)
    assert (second.cache, second.layers) == (FULL, (5, 11, 17, 23, 29, 35, 41, 47, 53, 59))


def test_a_layer_may_hold_several_caches_or_none() -> None:
    """Falcon-H1's attention and state, Whisper's self and cross, a pure MLP: no bytes.

    3 tokens × 8,192 + 2,000 + 2,560 = 29,136.
    """
    mixed = model((FULL, STATE), (), (CROSS,))

    assert mixed.bytes_at(3, BF16) == 29_136
    assert mixed.token_bytes(BF16) == 8192
    assert mixed.fixed_bytes(BF16) == 4560
    assert len(mixed.layers) == 3
    assert [g.layers for g in mixed.groups] == [(0,), (0,), (2,)]


def test_shared_layers_are_layers_without_bytes() -> None:
    """Gemma-3n: 20 layers of 35 hold a cache, the rest read one."""
    shared = model(*[(FULL,)] * 20, *[(Shared(reads=FULL),)] * 15)

    assert shared.bytes_at(100, BF16) == 20 * 8192 * 100
    assert [len(g.layers) for g in shared.groups] == [20, 15]


def test_the_attention_of_a_hybrid_is_what_grows() -> None:
    hybrid = model((STATE,), (FULL,), (Latent(rank=512, rope_dim=64),), (CROSS,))

    assert [g.cache.kind for g in hybrid.attention] == ["full", "latent"]


def test_encoder_tokens_can_be_set() -> None:
    """25 tokens × 1 head × (64 + 64) × 2 = 6,400."""
    changed = with_encoder_tokens(model((FULL, CROSS)), 25)

    assert changed.fixed_bytes(BF16) == 6400
    assert model((FULL, CROSS)).fixed_bytes(BF16) == 2560


def test_a_copy_has_groups_of_its_own() -> None:
    """Groups are computed once and kept: a copy with other layers must not keep them."""
    one = model((FULL,))
    assert one.token_bytes(BF16) == 8192

    assert replace(one, layers=((FULL,), (FULL,))).token_bytes(BF16) == 16_384


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        ("f", "1 f"),
        ("fff", "3 f"),
        ("wwwwwfwwwwwfww", "2 × (5 w + 1 f) + 2 w"),
        ("wfwfwf", "3 × (1 w + 1 f)"),
        ("ffwww", "2 f + 3 w"),
        ("", ""),
    ],
)
def test_patterns_fold_what_repeats(layers: str, text: str) -> None:
    assert text == pattern_of(layers)


def test_names_of_kinds_in_a_pattern() -> None:
    assert short_name(WINDOW) == "window(1,024)"
    assert short_name(FULL) == "full"
    assert short_name(Latent(rank=512, rope_dim=64)) == "MLA"
    assert short_name(Latent(rank=512, rope_dim=64, window=128)) == "MLA(128)"
