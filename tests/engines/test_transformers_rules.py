"""transformers: everything free is the cache's; prompts at once, static caches, refusals.

MEASURED are two inference runs on an RTX A6000 (vramcalc 0.1.2, torch 2.14): one forward pass of
2,048 tokens that returns all logits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvcalc import resolve
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.fit import fit, rank_plans
from kvcalc.core.plan import Memory, Plan
from kvcalc.core.results.fit import FitResult, GpuInfo
from kvcalc.core.shard import Parallel
from kvcalc.core.units import GIB
from kvcalc.engines.transformers_rules import TRANSFORMERS

#: Model, weights, peak beyond them (cache included), the device's own; bytes.
MEASURED = [
    ("llama-3.2-1b", 2_472_677_888, 610_418_688, 736_296_960),
    ("qwen2.5-1.5b", 3_088_346_624, 696_401_920, 736_296_960),
]


def plan(model: str = "llama-3.1-8b", total: float = 79.18, **changes: Any) -> Plan:
    found = resolve.model_of(model)
    return Plan(
        model=found, storage=storage(changes.pop("kv", "bf16"), model="bf16"),
        parallel=changes.pop("parallel", Parallel()), weights=resolve.weights_of(found, None, None),
        memory=Memory(int(total * GIB)), context=changes.pop("context", 4096), rules=TRANSFORMERS,
        **changes,
    )  # fmt: skip


def answer(made: Plan) -> FitResult:
    return fit(made, GpuInfo(None, "GPU", made.parallel.gpus, None, "exact"))


@pytest.mark.parametrize(("model", "weights", "peak", "device"), MEASURED)
def test_measured_runs_are_met_within_half_a_percent(
    model: str, weights: int, peak: int, device: int
) -> None:
    made = answer(plan(model, 47.43, context=2048, settings={"all_logits": True}))
    lines = {x.item: -x.bytes for x in made.budget}

    assert lines["weights"] == pytest.approx(weights, rel=5e-4)
    assert lines["activations"] + made.bytes_per_request == pytest.approx(peak, rel=5e-3)
    assert lines["other"] == pytest.approx(device, rel=5e-3)


def test_generate_keeps_the_last_logits_only() -> None:
    """4,096 tokens · (2 · 4,096 + 3 · 14,336) · 2 bytes lead, not 128,256 logits of each."""
    one = answer(plan())
    every = answer(plan(settings={"all_logits": True}))

    assert -one.budget[3].bytes == pytest.approx(4096 * (2 * 4096 + 3 * 14_336) * 2, rel=1e-3)
    assert -every.budget[3].bytes == 4096 * (128_256 + 2 * 4096) * 2
    assert TRANSFORMERS.changes(plan(settings={"all_logits": True}))[0].argument == (
        "--set all_logits=false"
    )


def test_longer_prompts_take_more_than_their_cache() -> None:
    made = plan()
    rank = rank_plans(made)[0]

    kept = 8192 * 131_072
    assert TRANSFORMERS.request_bytes(made, rank, 8192) == kept
    assert TRANSFORMERS.needed(made, rank, 8192, 1) > kept
    most = TRANSFORMERS.requests(made, rank, rank.pool.best, 8192)
    assert TRANSFORMERS.needed(made, rank, 8192, most) <= rank.pool.best
    assert TRANSFORMERS.needed(made, rank, 8192, most + 1) > rank.pool.best


def test_a_static_cache_is_the_pool() -> None:
    """2 sequences of 8,192 tokens: 2 GiB, and none longer."""
    static = {"cache_implementation": "static", "max_cache_len": 8192}
    made = answer(plan(requests=2, settings=static))

    assert made.kv_pool_bytes == 2 * GIB
    assert (made.max_requests, made.max_context_tokens) == (2, 8192)
    assert made.limits[0].message == "a static cache ends at 8,192 tokens"
    longer = answer(plan(requests=2, context=16_384, settings=static))
    assert longer.shortfall_bytes == 2 * GIB


def test_heads_are_split_and_windows_keep_one_token_less() -> None:
    made = plan("gemma-3-4b", parallel=Parallel(tp=2), kv_pool=GIB, context=4096)
    rank = rank_plans(made)[0]

    # Of 34 layers 5 keep all; 2 of 4 heads of 256 a rank; 29 windows keep 1,023 tokens.
    assert TRANSFORMERS.request_bytes(made, rank, 4096) == 2 * 256 * 2 * 2 * (5 * 4096 + 29 * 1023)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kv": "fp8"}, "unknown_dtype"),
    ({"parallel": Parallel(tp=3)}, "not_divisible"),
    ({"model": "deepseek-v4-flash", "settings": {"cache_implementation": "static"}},
     "unsupported_architecture"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "code"), REFUSED)
def test_what_it_refuses_it_names(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        answer(plan(**changes))

    assert caught.value.code == code


def test_a_pool_in_tokens_and_the_share_of_memory() -> None:
    assert answer(plan(kv_pool_tokens=10_000)).kv_pool_tokens == 10_000
    half = answer(plan(utilization=Fraction(1, 2)))
    assert half.budget[1].item == "unused"
    assert half.kv_pool_bytes < answer(plan()).kv_pool_bytes // 2
