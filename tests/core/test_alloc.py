"""The allocation policies: tokens by counting, bytes by hand, and what holds for any model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core import alloc
from kvcalc.core.cache import Chunked, Cross, Full, SlidingWindow, State
from kvcalc.core.dtypes import storage
from kvcalc.core.model import Layer, Model

BF16 = storage("bf16")
LLAMA_70B = Model(
    id="70b", name="70B", layers=((Full(kv_heads=8, key_dim=128, value_dim=128),),) * 80
)


def counted_blocks(used: int, block_size: int) -> int:
    """Blocks taken by appending token after token: a new one whenever the last is full."""
    blocks, free = 0, 0
    for _ in range(used):
        if not free:
            blocks, free = blocks + 1, block_size
        free -= 1
    return blocks


def doubled(used: int) -> int:
    """The first of 1, 2, 4, 8 … that holds `used`."""
    size = 1
    while size < used:
        size += size
    return size


@pytest.mark.parametrize(
    ("policy", "tokens"),
    [
        # 500, 3,800 and 200 of at most 4,096: the article's three requests
        ("naive", [4096, 4096, 4096]),
        ("pow2", [512, 4096, 256]),
        ("exact", [500, 3800, 200]),
        # 31.25, 237.5 and 12.5 blocks of 16: 32, 238 and 13
        ("paged", [512, 3808, 208]),
    ],
)
def test_the_articles_three_requests(policy: str, tokens: list[int]) -> None:
    reserved = [alloc.reserved_tokens(policy, n, 4096, 16) for n in (500, 3800, 200)]
    assert reserved == tokens


def test_pow2_is_capped_and_a_power_of_two_stays() -> None:
    assert [alloc.pow2(n, 3000) for n in (1, 2, 3, 1024, 1025, 2049, 3000)] == [
        1, 2, 4, 1024, 2048, 3000, 3000,
    ]  # fmt: skip


@given(st.integers(1, 3000), st.integers(1, 200))
def test_paged_counts_as_appending_does(used: int, block_size: int) -> None:
    assert alloc.paged(used, block_size) == counted_blocks(used, block_size) * block_size


@given(st.integers(1, 2**40), st.integers(0, 2**40))
def test_pow2_counts_as_doubling_does(used: int, spare: int) -> None:
    maximum = used + spare
    tokens = alloc.pow2(used, maximum)
    assert tokens in {doubled(used), maximum}
    assert used <= tokens <= maximum


def test_windowed_layers_reserve_their_window_and_states_the_same() -> None:
    window = SlidingWindow(kv_heads=1, key_dim=8, value_dim=8, window=1000)
    state = State(variant="mamba", recurrent_elements=50)
    model = Model(id="mixed", name="Mixed", layers=((window,), (state,)))
    state_bytes = 50 * 2
    token = 2 * 8 * 2  # K and V of one head of 8 in 2 bytes
    expected = {
        "naive": 1000 * token,  # the window, not 4,096
        "pow2": 1000 * token,  # 1,200 → 2,048, still the window
        "exact": 1000 * token,
        "paged": 63 * 16 * token,  # the window of 1,000 in 63 blocks of 16
    }
    for policy, windowed in expected.items():
        found = alloc.allocated_bytes(policy, model, BF16, 1200, 4096, 16)
        assert found == windowed + state_bytes, policy


def test_paged_pads_encoder_keys_too() -> None:
    """Whisper's 1,500 encoder positions take 94 blocks of 16 = 1,504."""
    cross = Cross(kv_heads=20, key_dim=64, value_dim=64, encoder_tokens=1500)
    model = Model(id="w", name="W", layers=((cross,),))
    position = 2 * 20 * 64 * 2
    assert alloc.allocated_bytes("exact", model, BF16, 10, None, 16) == 1500 * position
    assert alloc.allocated_bytes("paged", model, BF16, 10, None, 16) == 1504 * position


heads = st.fixed_dictionaries(
    {"kv_heads": st.integers(1, 16), "key_dim": st.integers(1, 64), "value_dim": st.integers(1, 64)}
)
caches = st.one_of(
    heads.map(lambda h: Full(**h)),
    st.tuples(heads, st.integers(1, 500)).map(lambda t: SlidingWindow(**t[0], window=t[1])),
    st.tuples(heads, st.integers(1, 500)).map(lambda t: Chunked(**t[0], chunk=t[1])),
    st.integers(0, 1000).map(lambda n: State(variant="mamba", recurrent_elements=n)),
)
layer: st.SearchStrategy[Layer] = st.lists(caches, max_size=2).map(tuple)
models = st.lists(layer, min_size=1, max_size=6).map(
    lambda layers: Model(id="any", name="Any", layers=tuple(layers))
)


@given(models, st.integers(1, 5000), st.integers(0, 5000), st.integers(1, 64))
def test_the_order_of_the_policies(model: Model, used: int, spare: int, block_size: int) -> None:
    """exact ≤ pow2 ≤ naive; paged is at least exact, by less than one block in each cache."""
    maximum = used + spare

    def of(policy: str) -> int:
        return alloc.allocated_bytes(policy, model, BF16, used, maximum, block_size)

    assert of("exact") <= of("pow2") <= of("naive")
    one_block = sum(
        block_size * cache.entry_bytes(BF16) for layer in model.layers for cache in layer
    )
    assert of("exact") <= of("paged") <= of("exact") + one_block
    if one_block:
        assert of("paged") < of("exact") + one_block


@given(models, st.integers(1, 5000), st.integers(1, 64))
def test_pages_never_exceed_a_maximum_of_whole_pages(
    model: Model, used: int, block_size: int
) -> None:
    """True of full layers where the maximum is whole blocks; a window may end within a page."""
    full = Model(
        id="full",
        name="Full",
        layers=tuple(tuple(c for c in layer if type(c) in {Full, State}) for layer in model.layers),
    )
    maximum = counted_blocks(used, block_size) * block_size
    naive = alloc.allocated_bytes("naive", full, BF16, used, maximum, block_size)
    assert alloc.allocated_bytes("paged", full, BF16, used, maximum, block_size) <= naive


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_more_tokens_never_take_less(a: int, b: int) -> None:
    small, large = sorted((a, b))
    for policy in alloc.POLICIES:
        less = alloc.allocated_bytes(policy, LLAMA_70B, BF16, small, 5000, 16)
        assert less <= alloc.allocated_bytes(policy, LLAMA_70B, BF16, large, 5000, 16)
