"""A budget to a pool, a pool to requests and to the longest context, by the textbook's rules."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvcalc.core import fit as core
from kvcalc.core.cache import Full, Latent, SlidingWindow, State
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Layer, Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.fit import FitResult, GpuInfo
from kvcalc.core.shard import Parallel
from kvcalc.core.units import GIB

BF16 = storage("bf16")
FULL = Full(kv_heads=8, key_dim=128, value_dim=128)  # 4,096 bytes a token
MLA = Latent(rank=512, rope_dim=64)  # 1,152 bytes a token
STATE = State(variant="mamba2", recurrent_elements=2**19)  # 1 MiB in bf16


def model(*layers: Layer, maximum: int | None = 131_072) -> Model:
    return Model(id="test", name="Test", layers=layers, max_context_tokens=maximum)


LLAMA = model(*[(FULL,)] * 80)  # Llama-3.1-70B's shape: 327,680 bytes a token


def weights(size: int, low: int | None = None, high: int | None = None) -> WeightInfo:
    basis = "exact" if low is None else "estimated"
    return WeightInfo(size, None, (), basis, low, high)


def plan(m: Model = LLAMA, **fields: Any) -> core.Plan:
    """35 GiB of weights on 80 GiB unless said otherwise."""
    base = core.Plan(m, BF16, Parallel(), weights(35 * GIB), core.Memory(80 * GIB), 4096)
    return base._replace(**fields)


def fit(p: core.Plan) -> FitResult:
    memory = p.memory.bytes if p.memory else None
    return core.fit(p, GpuInfo(None, "test", p.parallel.gpus, memory, "exact"))


def test_the_articles_example() -> None:
    """(80 − 35) / 1.25 = 36 requests of 4,096 tokens; 45 / 40 → 1 of 131,072."""
    r = fit(plan())

    assert r.fits
    assert (r.max_requests, r.max_requests_low, r.max_requests_high) == (36, 36, 36)
    assert r.kv_pool_bytes == 45 * GIB
    assert r.bytes_per_request == 5 * GIB // 4
    assert fit(plan(context=131_072)).max_requests == 1


def test_the_budget_adds_up_line_by_line() -> None:
    """80 GiB − 8 unused at 0.9 − 2 reserved − 35 = 35 GiB."""
    r = fit(plan(utilization=Fraction(9, 10), reserve=2 * GIB))

    assert [(line.item, line.bytes) for line in r.budget] == [
        ("memory", 80 * GIB),
        ("unused", -8 * GIB),
        ("reserve", -2 * GIB),
        ("weights", -35 * GIB),
        ("kv_pool", 35 * GIB),
    ]
    assert r.max_requests == 28


def test_what_is_used_of_the_memory_is_rounded_down() -> None:
    """0.92 of 85,018,877,624 is 78,217,367,414.08: the rest, 6,801,510,210, stays unused."""
    r = fit(plan(memory=core.Memory(85_018_877_624), utilization=Fraction(92, 100)))

    assert r.budget[1].bytes == -6_801_510_210


def test_intervals_pass_from_the_lines_to_the_requests() -> None:
    """Memory 79–81, weights 34–36 GiB: pool 43–47; 34 to 37 requests of 1.25 GiB, best 36."""
    r = fit(plan(
        memory=core.Memory(80 * GIB, "measured", 79 * GIB, 81 * GIB),
        weights=weights(35 * GIB, 34 * GIB, 36 * GIB),
    ))  # fmt: skip
    pool = r.budget[-1]

    assert (pool.bytes, pool.low_bytes, pool.high_bytes) == (45 * GIB, 43 * GIB, 47 * GIB)
    assert pool.basis == "estimated"
    assert (r.max_requests, r.max_requests_low, r.max_requests_high) == (36, 34, 37)


def test_what_is_missing_has_an_interval_too() -> None:
    """37 requests need 46.25 GiB; pools of 45, 43 to 47: 1.25 short, from 0 to 3.25."""
    r = fit(plan(
        requests=37,
        memory=core.Memory(80 * GIB, "measured", 79 * GIB, 81 * GIB),
        weights=weights(35 * GIB, 34 * GIB, 36 * GIB),
    ))  # fmt: skip

    assert not r.fits
    assert r.shortfall_bytes == GIB * 5 // 4
    assert (r.shortfall_low_bytes, r.shortfall_high_bytes) == (0, 13 * GIB // 4)


def test_weights_larger_than_the_gpu_leave_less_than_nothing() -> None:
    """80 − 140 = −60 GiB; one request of 1.25 GiB is 61.25 GiB short."""
    r = fit(plan(weights=weights(140 * GIB)))

    assert not r.fits
    assert -60 * GIB == r.kv_pool_bytes == sum(line.bytes for line in r.budget[:-1])
    assert (r.max_requests, r.max_context_tokens) == (0, 0)
    assert r.shortfall_bytes == 245 * GIB // 4
    assert all(step.max_requests == 0 for step in r.ladder)


def test_the_longest_context_is_to_the_token() -> None:
    """45 GiB / 327,680 = 147,456 tokens; the model ends at 131,072."""
    free = plan(model(*[(FULL,)] * 80, maximum=None))

    assert fit(free).max_context_tokens == 147_456
    assert fit(free._replace(kv_pool=45 * GIB - 1)).max_context_tokens == 147_455
    assert fit(plan()).max_context_tokens == 131_072
    assert fit(plan(allow_long=True)).max_context_tokens == 147_456


def test_a_model_that_stops_growing_has_no_longest_context() -> None:
    window = SlidingWindow(kv_heads=8, key_dim=128, value_dim=128, window=1024)

    assert fit(plan(model((window,), (STATE,), maximum=None))).max_context_tokens is None


def test_heads_beyond_the_ranks_are_copied() -> None:
    """tp 2: 0.625 GiB each of 80 − 17.5; 100 requests. tp 16 holds no less a rank than tp 8."""
    two = fit(plan(parallel=Parallel(tp=2)))
    eight, sixteen = (fit(plan(parallel=Parallel(tp=n))) for n in (8, 16))

    assert (
        two.kv_pool_bytes, two.bytes_per_request, two.max_requests,
    ) == (125 * GIB // 2, 5 * GIB // 8, 100)  # fmt: skip
    assert eight.bytes_per_request == sixteen.bytes_per_request == 5 * GIB // 32


def test_a_latent_is_whole_on_every_rank_but_split_by_dcp() -> None:
    """1,152 × 4,096 = 4,718,592 on each; dcp 8 keeps 512 of the tokens: 589,824."""
    one = plan(model((MLA,)), parallel=Parallel(tp=8))
    split = one._replace(parallel=Parallel(tp=8, dcp=8))

    assert fit(one).bytes_per_request == 4_718_592
    assert fit(split).bytes_per_request == 589_824


def test_the_fullest_stage_decides() -> None:
    """61 layers over 4: 15, 15, 16, 15. The third holds 16/61 of the weights and of the cache.

    61 GiB of weights: 15, 15, 16, 15 GiB; pools of 80 less that; 16 × 4,096 × 4,096 a request.
    """
    r = fit(plan(model(*[(FULL,)] * 61), parallel=Parallel(pp=4), weights=weights(61 * GIB)))

    assert [rank.layers for rank in r.ranks] == [15, 15, 16, 15]
    assert [n * GIB for n in (15, 15, 16, 15)] == [rank.weight_bytes for rank in r.ranks]
    assert [n * GIB for n in (65, 65, 64, 65)] == [rank.kv_pool_bytes for rank in r.ranks]
    assert r.kv_pool_bytes == 64 * GIB
    assert r.max_requests == 256  # 64 GiB / 256 MiB
    assert r.kv_pool_tokens == 256 * 4096


def test_replicas_add_requests_not_length() -> None:
    """3 replicas of 36: 108; one request still lives on one."""
    one, three = fit(plan()), fit(plan(parallel=Parallel(dp=3)))

    assert (three.replicas, three.max_requests) == (3, 108)
    assert 3 * (one.kv_pool_tokens or 0) == three.kv_pool_tokens
    assert one.max_context_tokens == three.max_context_tokens
    assert one.bytes_per_request == three.bytes_per_request


@pytest.mark.parametrize(("requests", "fits"), [(108, True), (109, False)])
def test_replicas_share_the_load(requests: int, fits: bool) -> None:
    assert fits is fit(plan(parallel=Parallel(dp=3), requests=requests)).fits


def test_a_known_pool_skips_the_budget() -> None:
    r = fit(plan(memory=None, kv_pool=10 * GIB))

    assert [line.item for line in r.budget] == ["kv_pool"]
    assert (r.kv_pool_bytes, r.max_requests) == (10 * GIB, 8)


def test_a_known_number_of_tokens_is_a_pool() -> None:
    """79,392 tokens × 516,096 / 8 = 5,121,736,704 bytes a GPU (Llama-3.1-405B, tp 8)."""
    m = model(*[(FULL,)] * 126)
    r = fit(plan(m, memory=None, kv_pool_tokens=79_392, parallel=Parallel(tp=8)))

    assert (r.kv_pool_bytes, r.kv_pool_tokens) == (5_121_736_704, 79_392)
    assert (r.ranks[0].kv_bytes_per_token, r.max_context_tokens) == (64_512, 79_392)


def test_pages_round_each_request_up_and_the_pool_down() -> None:
    """28 layers × 4 heads × 512 = 57,344 a token; 16 GiB hold 18,724 blocks of 16 whole.

    5,999 tokens are 375 blocks: 49 requests. Exactly, 17,179,869,184 / (5,999 × 57,344) = 49.9.
    """
    m = model(*[(Full(kv_heads=4, key_dim=128, value_dim=128),)] * 28)
    r = fit(plan(m, memory=None, kv_pool=16 * GIB, context=5999, block_size=16))

    assert r.bytes_per_request == 375 * 16 * 57_344
    assert r.max_requests == 49
    assert r.kv_pool_tokens == 18_724 * 16
    assert r.block_tokens == 16


def test_a_shared_prefix_is_stored_once() -> None:
    """3,072 of 4,096 tokens shared: 45 GiB = 147,456 tokens; 3,072 + n · 1,024 → n = 141."""
    r = fit(plan(shared_prefix=3072))

    assert r.max_requests == 141
    assert r.bytes_per_request == 5 * GIB // 4


def test_context_ranks_share_the_prefix_too() -> None:
    """tp 8, dcp 2: half the tokens of 2 of 8 heads, 80 × 1,024 bytes each on a rank.

    75.625 GiB / 81,920 = 991,232 tokens; 1,536 once, 512 for each request: 1,933.
    """
    r = fit(plan(shared_prefix=3072, parallel=Parallel(tp=8, dcp=2)))

    assert r.kv_pool_bytes == 605 * GIB // 8
    assert r.max_requests == 1933


def test_a_window_is_not_split_by_context_ranks() -> None:
    """tp 2, dcp 2: all 8 heads, 4,096 bytes a token; 1,000 tokens keep 500 full, 640 windowed.

    Shared 800: 400 of the full layer, 440 of the window's 640 (360 … 999).
    """
    window = SlidingWindow(kv_heads=8, key_dim=128, value_dim=128, window=640)
    p = plan(model((FULL,), (window,)), parallel=Parallel(tp=2, dcp=2), context=1000)
    shared = p._replace(shared_prefix=800, kv_pool=10**9)

    assert fit(p).bytes_per_request == (500 + 640) * 4096
    assert fit(p._replace(block_size=1)).bytes_per_request == (500 + 640) * 4096
    assert fit(p._replace(block_size=64)).bytes_per_request == (512 + 640) * 4096
    # 10⁹ / 4,096 = 244,140 tokens: 840 once, 300 for each request
    assert fit(shared).max_requests == 811


def test_the_average_beside_the_worst_case() -> None:
    """45 GiB / (1,024 × 320 KiB) = 144 typical requests, 36 of the asked length."""
    r = fit(plan(average_context=1024))

    assert r.typical is not None
    assert r.typical[:2] == (1024, 144)
    assert r.max_requests == 36


def test_a_ladder_of_doublings_holds_the_asked_context_and_the_maximum() -> None:
    """147,456 tokens hold 147,456 / context requests, rounded down."""
    r = fit(plan(model(*[(FULL,)] * 80, maximum=40_960), context=5000, requests=20))

    assert [s.context_tokens for s in r.ladder] == [2048, 4096, 5000, 8192, 16_384, 32_768, 40_960]
    assert [s.max_requests for s in r.ladder] == [72, 36, 29, 18, 9, 4, 3]
    assert [s.fits for s in r.ladder] == [True, True, True, False, False, False, False]
    assert r.ladder[2].bytes_per_request == 5000 * 327_680


def test_the_ideal_is_the_textbooks_whatever_the_settings() -> None:
    """Two GPUs: 2 × (80 − 17.5) = 125 GiB, 100 requests, though half the memory is left alone."""
    r = fit(plan(
        model(*[(FULL,)] * 80, maximum=None), parallel=Parallel(tp=2),
        utilization=Fraction(1, 2), reserve=GIB, block_size=4096, context=4095,
    ))  # fmt: skip

    assert r.ideal == (125 * GIB, 100, 409_600)
    assert r.max_requests == 34  # 21.5 GiB of 0.625


def test_the_models_maximum_is_named_as_the_limit() -> None:
    assert [limit.code for limit in fit(plan()).limits] == ["model_maximum"]
    assert fit(plan(weights=weights(60 * GIB))).limits == ()


def test_stages_beyond_the_layers_are_refused() -> None:
    with pytest.raises(KvcalcError, match="--pp 81 needs at least 81 layers") as refused:
        fit(plan(parallel=Parallel(pp=81)))

    assert refused.value.code == "not_divisible"
