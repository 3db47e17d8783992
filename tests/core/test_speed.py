"""`speed`: ceilings by hand, the ridge, experts, copies, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.api.speed import speed as ask
from kvcalc.core.cache import Cross, Full, Indexer, Latent
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.speed import SpeedGpu, SpeedResult
from kvcalc.core.speed import compute_dtype, speed

BF16 = storage("bf16")
LLAMA = Model(
    id="l", name="L", query_heads=64, parameters=70_553_706_496,
    layers=((Full(kv_heads=8, key_dim=128, value_dim=128),),) * 80,
)  # fmt: skip
#: 2,039 GB/s and 312 TFLOP/s of bf16.
A100 = {"bandwidth": 2_039 * 10**9, "dense": 312 * 10**12}


def gpu(bandwidth: int, dense: int, count: int = 1, memory: int = 2**60) -> SpeedGpu:
    return SpeedGpu("g", "G", count, memory, bandwidth, dense, "bf16")


def weighing(size: int) -> WeightInfo:
    return WeightInfo(size, None, (), "exact")


def llama(weights: int, count: int = 1, **options: Any) -> SpeedResult:
    asked = {"context": 4096, "prompt": 4096, "requests": 26, **options}
    return speed(LLAMA, BF16, weights=weighing(weights), gpu=gpu(**A100, count=count), **asked)


def test_a_prompt_of_4096_tokens() -> None:
    """2 · 70,553,706,496 · 4,096, and 80 · 2 · 64 · 256 for each of the 4,096 · 4,097 / 2 seen."""
    prefill = llama(40 * 10**9).prefill
    assert prefill.flops == 141_107_412_992 * 4096 + 2_621_440 * 8_390_656 == 599_971_564_879_872
    assert prefill.bound == "compute"
    assert prefill.seconds == pytest.approx(1.92298578487)  # ÷ 312 · 10¹²
    assert prefill.tokens_per_second == pytest.approx(2130.02094)


def test_a_step_of_26_requests() -> None:
    """Reads 40 GB of weights once and 26 · 4,096 · 327,680 B of KV cache, each request its own."""
    decode = llama(40 * 10**9).decode
    assert decode.kv_bytes == 26 * 1_342_177_280 == 34_896_609_280
    assert decode.flops == 26 * (141_107_412_992 + 2_621_440 * 4096)
    assert decode.bound == "memory"
    assert decode.seconds_per_step == pytest.approx(74_896_609_280 / 2_039_000_000_000)
    assert decode.tokens_per_second == pytest.approx(26 * decode.tokens_per_second_per_request)
    assert decode.kv_read_fraction == pytest.approx(0.46593)


def test_two_gpus_halve_the_time() -> None:
    one, two = llama(40 * 10**9), llama(40 * 10**9, 2)
    assert two.decode.kv_bytes == one.decode.kv_bytes
    assert two.decode.seconds_per_step == pytest.approx(one.decode.seconds_per_step / 2)
    assert two.prefill.seconds == pytest.approx(one.prefill.seconds / 2)


def test_copied_heads_are_read_by_every_gpu() -> None:
    """16 GPUs, 8 KV heads: two hold each head, so twice the bytes are read in all."""
    result = llama(40 * 10**9, 16)
    assert result.decode.kv_bytes_per_request == 2 * 1_342_177_280
    assert [w.code for w in result.warnings] == ["copied_cache"]


def test_a_latent_is_whole_on_every_gpu() -> None:
    model = Model(
        id="m", name="M", query_heads=4, parameters=10, layers=((Latent(rank=16, rope_dim=2),),)
    )
    made = speed(model, BF16, weights=weighing(8), gpu=gpu(1, 1, 4), context=1, prompt=1)
    assert made.decode.kv_bytes == 4 * 18 * 2


# A made-up GPU of 1 B/s and 10 FLOP/s; one head of 1 + 1: 4 B a token, 4 FLOPs a token seen.


def tiny(parameters: int, weights: int, context: int, requests: int = 1) -> SpeedResult:
    model = Model(
        id="m", name="M", query_heads=1, parameters=parameters,
        layers=((Full(kv_heads=1, key_dim=1, value_dim=1),),),
    )  # fmt: skip
    return speed(
        model, BF16, weights=weighing(weights), gpu=gpu(1, 10), context=context, prompt=1,
        requests=requests,
    )  # fmt: skip


def test_the_ridge_by_hand() -> None:
    """A request adds (2 · 100 + 4 · 3) / 10 = 21.2 s of computing and 4 · 3 = 12 s of reading.

    With 90 B of weights: 21.2 n ≥ 90 + 12 n from n = 9.78: 10 requests.
    """
    result = tiny(100, 90, 3)
    assert result.ridge.requests == 10
    assert result.ridge.flops_per_byte == 10
    assert result.ridge.compute_seconds_per_request == pytest.approx(21.2)
    assert result.ridge.read_seconds_per_request == 12
    assert tiny(100, 90, 3, 9).decode.bound == "memory"
    assert tiny(100, 90, 3, 10).decode.bound == "compute"


def test_a_long_context_never_binds_on_computing() -> None:
    """(200 + 4 · 100) / 10 = 60 s of computing against 400 s of reading."""
    assert tiny(100, 90, 100).ridge.requests is None


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 60))
def test_decode_turns_at_the_ridge(parameters: int, weights: int, context: int) -> None:
    turn = tiny(parameters, weights, context).ridge.requests
    if turn is None:
        assert tiny(parameters, weights, context, 10**9).decode.bound == "memory"
        return
    assert tiny(parameters, weights, context, turn).decode.bound == "compute"
    if turn > 1:
        assert tiny(parameters, weights, context, turn - 1).decode.bound == "memory"


def test_experts_compute_the_active_and_read_all() -> None:
    """10 of 100 parameters active; 1,000 B of weights read, at least 100 B."""
    model = Model(
        id="m", name="M", query_heads=1, parameters=100, active_parameters=10, experts=8,
        layers=((Full(kv_heads=1, key_dim=1, value_dim=1),),),
    )  # fmt: skip
    made = speed(model, BF16, weights=weighing(1000), gpu=gpu(1, 10**6), context=1, prompt=1)
    assert made.decode.flops == 2 * 10 + 4
    assert (made.decode.weight_bytes, made.decode.least_weight_bytes) == (1000, 100)
    assert made.decode.seconds_per_step == 1004
    assert made.decode.most_tokens_per_second == pytest.approx(1 / 104)
    assert [w.code for w in made.warnings] == ["all_experts_read"]


def test_an_encoder_is_named() -> None:
    cross = Cross(kv_heads=1, key_dim=1, value_dim=1, encoder_tokens=5)
    model = Model(id="m", name="M", query_heads=1, parameters=10, layers=((cross,),))
    made = speed(model, BF16, weights=weighing(1), gpu=gpu(1, 1), context=1, prompt=1)
    assert made.decode.flops == 2 * 10 + 4 * 5  # each token attends to all of the encoder's
    assert [w.code for w in made.warnings] == ["encoder_counted"]


def test_a_model_that_does_not_fit_is_named() -> None:
    small = gpu(1, 1, memory=10**9)
    made = speed(LLAMA, BF16, weights=weighing(10**9), gpu=small, context=1, prompt=1)
    assert [w.code for w in made.warnings] == ["does_not_fit"]


@pytest.mark.parametrize(
    ("weights", "own", "dense", "expected"),
    [
        ("bf16", "bf16", {"bf16": 1, "fp16": 1, "fp8": 2}, "bf16"),
        ("fp16", "fp16", {"bf16": 1, "fp16": 1}, "fp16"),
        ("bf16", "bf16", {"fp16": 1}, "fp16"),  # T4
        ("awq", "bf16", {"bf16": 1, "int8": 2}, "bf16"),  # widened before it is multiplied
        ("q4_k_m", "bf16", {"bf16": 1, "int8": 2}, "bf16"),
        ("fp8_block", "bf16", {"bf16": 1, "fp8": 2}, "fp8"),
        ("fp8", "bf16", {"bf16": 1}, "bf16"),  # A100
        ("int8", "bf16", {"bf16": 1, "int8": 2}, "int8"),
        ("nvfp4", "bf16", {"bf16": 1, "fp4": 4}, "fp4"),
        (None, "bf16", {"bf16": 1}, "bf16"),
        ("bf16", "bf16", {"int8": 1}, None),
    ],
)
def test_the_dtype_of_the_products(
    weights: str | None, own: str, dense: dict[str, int], expected: str | None
) -> None:
    assert compute_dtype(weights, own, dense) == expected


NUMBERS = {"layers": 2, "kv_heads": 2, "head_dim": 8}
KNOWN = {**NUMBERS, "query_heads": 4, "parameters": 10**9}


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({**KNOWN}, "usage", "needs --gpu"),
        ({**NUMBERS, "gpu": "h100", "query_heads": 4}, "usage", "parameters of custom"),
        ({**NUMBERS, "gpu": "h100", "parameters": 10**9}, "usage", "query heads of custom"),
        ({**KNOWN, "gpu": "no-such-gpu"}, "unknown_gpu", "no-such-gpu"),
        ({**KNOWN, "gpu": "b100"}, "usage", "b100: bandwidth_bytes_per_second"),
        ({**KNOWN, "gpu": "apple-m3-ultra"}, "usage", "apple-m3-ultra: dense_flops"),
        ({**KNOWN, "gpu": "3xh100"}, "not_divisible", "neither divides the 2 KV heads"),
        ({**KNOWN, "gpu": "2xh100", "tp": 4}, "usage", "how many GPUs"),
    ],
)
def test_what_is_refused(options: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(KvcalcError, match=words) as caught:
        ask(**options)
    assert caught.value.code == code


def test_sparse_attention_is_refused_by_name() -> None:
    model = Model(id="sparse", name="S", query_heads=4, parameters=10, layers=((Indexer(dim=8),),))
    with pytest.raises(KvcalcError, match="sparse") as caught:
        speed(model, BF16, weights=weighing(1), gpu=gpu(1, 1), context=1, prompt=1)
    assert caught.value.code == "unsupported_architecture"
