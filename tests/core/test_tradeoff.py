"""`tradeoff`: passes, FLOPs by hand, and closed sums against adding one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.api.tradeoff import tradeoff
from kvcalc.core import flops
from kvcalc.core.cache import Cache, Chunked, Cross, Full, Indexer, Latent, SlidingWindow, State
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model

NUMBERS = {"layers": 3, "kv_heads": 2, "head_dim": 5}
KNOWN = {**NUMBERS, "query_heads": 4, "parameters": 1000}


def ask(tokens: int, **numbers: Any) -> Any:
    return tradeoff(tokens=tokens, **(numbers or KNOWN))


def test_the_articles_thousand_tokens() -> None:
    """1 + 2 + … + 1,000 = 1,000 · 1,001 / 2 = 500,500; with a cache one pass a token."""
    result = ask(1000)
    assert result.uncached_token_passes == 500_500
    assert result.cached_token_passes == 1000
    assert result.ratio == 500.5


def test_flops_of_three_tokens_by_hand() -> None:
    """Weights: 2 · 1,000 a pass. Attention: 3 layers · 4 heads · 2 · (5 + 5) = 240 a token seen.

    with:    3 passes, tokens seeing 1, 2, 3: 6,000 + 240 · 6
    without: passes over 1, 2, 3 tokens see 1, 1 + 2, 1 + 2 + 3: 2,000 · 6 + 240 · (1 + 3 + 6)
    """
    result = ask(3)
    assert result.cached == (6000, 240 * 6)
    assert result.uncached == (12_000, 240 * 10)
    assert (result.cached_flops, result.uncached_flops) == (7440, 14_400)
    assert result.kv_bytes == 3 * (3 * 2 * (5 + 5) * 2)
    assert [tuple(step) for step in result.per_step] == [
        (1, 1, 1, 2000, 240, 2000, 240),
        (2, 2, 1, 2000, 480, 4000, 720),
        (3, 3, 1, 2000, 720, 6000, 1440),
    ]


def test_totals_are_the_sum_of_the_steps() -> None:
    result = ask(64)
    assert len(result.per_step) == 64
    assert result.cached_flops == sum(
        s.projection_flops + s.attention_flops for s in result.per_step
    )
    assert result.uncached_flops == sum(
        s.uncached_projection_flops + s.uncached_attention_flops for s in result.per_step
    )


def test_many_tokens_list_some_steps() -> None:
    steps = [s.token for s in ask(65).per_step]
    assert (len(steps), steps[0], steps[-1]) == (32, 1, 65)
    assert len(ask(10**9).per_step) == 32


def test_what_is_not_known_is_null() -> None:
    result = ask(10, **NUMBERS)
    assert result.uncached == result.cached == (None, None)
    assert (result.uncached_flops, result.per_step[0].projection_flops) == (None, None)
    assert ask(10, **NUMBERS, parameters=5).cached == (100, None)


def test_experts_pass_their_active_parameters_only() -> None:
    model = Model(id="m", name="M", layers=((),), parameters=100, active_parameters=10, experts=8)
    assert tradeoff(model, tokens=7).cached.projection_flops == 2 * 10 * 7


def test_tokens_are_needed() -> None:
    with pytest.raises(KvcalcError, match="--tokens is missing"):
        tradeoff(**NUMBERS)  # type: ignore[arg-type]


# What a token sees, added one by one.


def seen_by(kind: str, size: int, n: int) -> int:
    """Tokens that token n attends to, counted."""
    if kind == "encoder":
        return size
    if kind == "chunk":
        return len([i for i in range(1, n + 1) if (i - 1) // size == (n - 1) // size])
    return len([i for i in range(1, n + 1) if kind == "full" or i > n - size])


@settings(deadline=None)
@given(
    st.sampled_from(["full", "window", "chunk", "encoder"]), st.integers(1, 12), st.integers(0, 40)
)
def test_closed_sums_equal_counting(kind: str, size: int, n: int) -> None:
    attention = flops.Attention(1, 1, **({} if kind == "full" else {kind: size}))
    by_token = [seen_by(kind, size, i) for i in range(1, n + 1)]
    by_pass = [sum(by_token[:t]) for t in range(1, n + 1)]
    if n:
        assert attention.seen(n) == by_token[-1]
    assert attention.seen_in_pass(n) == sum(by_token)
    assert attention.seen_in_passes(n) == sum(by_pass)


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        # 2 · 4 query heads · (d_k + d_v), for two layers.
        (Full(kv_heads=2, key_dim=3, value_dim=5), flops.Attention(128, 128)),
        (
            SlidingWindow(kv_heads=2, key_dim=3, value_dim=5, window=9),
            flops.Attention(128, 128, window=9),
        ),
        (
            Chunked(kv_heads=2, key_dim=3, value_dim=5, chunk=9),
            flops.Attention(128, 128, chunk=9),
        ),
        (
            Cross(kv_heads=2, key_dim=3, value_dim=5, encoder_tokens=9),
            flops.Attention(128, 128, encoder=9),
        ),
        # MLA: a prompt on expanded heads, 2 · 4 · (3 + 2 + 5); decoding on the latent,
        # 2 · 4 · (16 + 2 + 16).
        (
            Latent(rank=16, rope_dim=2, heads=4, nope_dim=3, value_dim=5),
            flops.Attention(160, 544),
        ),
        (Latent(rank=16, rope_dim=2), flops.Attention(544, 544)),
    ],
)
def test_attention_of_each_kind(cache: Cache, expected: flops.Attention) -> None:
    model = Model(id="m", name="M", layers=((cache,),) * 2, query_heads=4)
    assert flops.attention_of(model) == (expected,)


def test_states_add_no_attention_and_sparse_layers_are_not_known() -> None:
    state = Model(id="m", name="M", layers=((State(variant="s"),),))
    sparse = Model(id="m", name="M", layers=((Indexer(dim=8),),), query_heads=4)
    assert flops.attention_of(state) == ()
    assert flops.attention_of(sparse) is None
