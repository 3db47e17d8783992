"""--solve: the least or most of one option with which the rest fits."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc.core.results.fit import FitResult, Solved


def fit(model: str | None = "llama-3.1-70b", **options: Any) -> FitResult:
    result = kvcalc.fit(model, engine="none", **options)
    assert isinstance(result, FitResult)
    return result


def solved(what: str, **options: Any) -> tuple[Any, FitResult]:
    r = fit(solve=what, **options)
    assert r.solved is not None
    assert what == r.solved.option
    return r.solved.value, r


def test_the_fewest_gpus() -> None:
    """131.42 GiB of weights: one GPU of 80 GiB is too small, two leave 28.58 GiB."""
    value, r = solved("gpus", gpu_memory="80GiB")

    assert 2 == value == r.gpu.count == r.parallel.tp
    assert r.fits
    assert not fit(gpu_memory="80GiB").fits


def test_counts_that_do_not_divide_are_passed_over() -> None:
    """28.58 GiB are 22 requests; 100 want 125 GiB: not 3 (8 heads), but 4: 188.58."""
    value, r = solved("gpus", gpu_memory="80GiB", requests=100)

    assert value == 4
    assert r.max_requests == 150


def test_the_least_utilization_in_steps_of_a_ten_thousandth() -> None:
    """35 + 1.25 = 36.25 of 80 GiB is 0.453125: 0.4532 is enough, 0.4531 is not."""
    options = {"gpu_memory": "80GiB", "weight_bytes": "35GiB"}
    value, r = solved("utilization", **options)

    assert value == 0.4532
    assert r.fits
    assert not fit(utilization=0.4531, **options).fits


def test_the_longest_context_of_a_load() -> None:
    """147,456 tokens over 36 requests: 4,096 each; over 35: 4,213."""
    options = {"gpu_memory": "80GiB", "weight_bytes": "35GiB"}

    assert solved("context", requests=36, **options)[0] == 4096
    assert solved("context", requests=35, **options)[0] == 4213
    assert solved("context", requests=35, **options)[1].context_tokens == 4213


def test_a_shared_prefix_lengthens_every_context() -> None:
    """1,024 once and 36 × (n − 1,024) ≤ 147,456 − 1,024: n = 5,091."""
    value, r = solved(
        "context", requests=36, gpu_memory="80GiB", weight_bytes="35GiB", shared_prefix=1024
    )

    assert value == 5091
    assert r.fits


def test_the_most_requests() -> None:
    value, r = solved("requests", gpu_memory="80GiB", weight_bytes="35GiB")

    assert 36 == value == r.requests == r.max_requests


@pytest.mark.parametrize(
    ("requests", "dtype"),
    [(36, "bf16"), (37, "fp8"), (72, "fp8"), (73, "int4_per_token_head"),
     (135, "int4_per_token_head"), (136, None)],
)  # fmt: skip
def test_the_most_exact_format(requests: int, dtype: str | None) -> None:
    """45 GiB: 36 at 2 bytes, 72 at 1; int4 with scales keeps 136 bytes a head of K and V.

    80 × 8 × 136 = 87,040 a token: 135 requests of 4,096.
    """
    value, r = solved("kv-dtype", gpu_memory="80GiB", weight_bytes="35GiB", requests=requests)

    assert dtype == value
    assert r.fits is (dtype is not None)


@pytest.mark.parametrize("what", ["gpus", "utilization", "context", "requests", "kv-dtype"])
def test_nothing_helps_a_machine_that_is_too_small(what: str) -> None:
    """1 MiB of each GPU is left; weights alone are 131 GiB."""
    value, r = solved(what, gpu_memory="80GiB", reserve="79.999GiB")

    assert value is None
    assert not r.fits


def test_the_answer_is_the_changed_plans() -> None:
    value, r = solved("gpus", gpu="h100", requests=30, context="32k")
    again = fit(gpu="h100", gpus=value, requests=30, context="32k")

    assert again.max_requests == r.max_requests
    assert again.budget == r.budget


def test_underscores_and_case_do_not_matter() -> None:
    r = fit(gpu_memory="80GiB", weight_bytes="35GiB", solve="KV_dtype")

    assert r.solved == Solved("kv-dtype", "bf16", "--kv-dtype bf16")
