"""Every suggestion is computed: typed as it stands, it does what it says."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc.cli.main import parse, prepared
from kvcalc.cli.spec import spec_of
from kvcalc.core.results.fit import FitResult


def fit(**options: Any) -> FitResult:
    result = kvcalc.fit(engine="none", **options)
    assert isinstance(result, FitResult)
    return result


PLANS: list[dict[str, Any]] = [
    {"model": "llama-3.1-70b", "gpu": "h100"},
    {"model": "llama-3.1-70b", "gpu": "2xh100", "requests": 30},
    {"model": "llama-3.1-70b", "gpu": "a100-80", "gpus": 2, "requests": 30},
    {"model": "llama-3.1-70b", "gpu": "h100", "tp": 2, "requests": 30},
    {"model": "llama-3.1-70b", "gpu": "2xh100", "tp": 2, "gpus": 2, "requests": 30},
    {"model": "llama-3.1-70b", "gpu": "h100", "tp": 2, "pp": 2, "context": "128k"},
    {"model": "llama-3.1-8b", "gpu": "4090", "context": "128k", "utilization": 0.9},
    {"model": "llama-3.1-8b", "gpu": "4090", "context": "128k", "utilization": 0.91},
    {"model": "llama-3.1-8b", "gpu": "4090", "context": "64k", "k_dtype": "fp16", "v_dtype": "f16"},
    {"model": "deepseek-v3", "gpu": "8xh200", "requests": 100, "context": "128k"},
    {"model": "gemma-3-27b", "gpu": "h100", "requests": 50, "block_size": 16},
    {"model": "qwen3-30b-a3b", "gpu": "5070ti+5090", "weights": "int4", "context": "32k"},
    {"model": "qwen3-8b", "gpu": "2x4090+5090", "pp": 3, "context": "32k"},
    {"model": "qwen3-8b", "gpu": "4090+5090", "tp": 2, "context": "32k"},
    {"model": "qwen3-8b", "gpu": "4090+4090", "context": "32k", "requests": 20},
    {"model": "qwen2.5-7b", "gpu_memory": "16GiB", "requests": 8, "context": "32k"},
]


@pytest.mark.parametrize("plan", PLANS)
def test_each_suggestion_does_what_it_says(plan: dict[str, Any]) -> None:
    before = fit(**plan)

    assert before.suggestions
    for s in before.suggestions:
        typed = prepared(parse(spec_of("fit"), s.argument.split()) or {})
        changed = {
            k: v[0] if isinstance(v, list) and k != "pp_layers" else v
            for k, v in typed.items()
            if v is not None
        }
        after = fit(**{**plan, **changed})
        assert (s.max_requests, s.fits, s.kv_pool_bytes) == (
            after.max_requests, after.fits, after.kv_pool_bytes,
        ), s.argument  # fmt: skip
        if s.change == "context":
            assert after.context_tokens == int(s.argument.split()[1])
        else:
            assert s.max_context_tokens == after.max_context_tokens, s.argument


@pytest.mark.parametrize("plan", PLANS)
def test_a_suggestion_always_gains_something(plan: dict[str, Any]) -> None:
    before = fit(**plan)

    for s in before.suggestions:
        assert s.max_requests > before.max_requests or (s.max_context_tokens or 0) > (
            before.max_context_tokens or 0
        ), s.argument


def test_what_is_enough_alone_comes_first() -> None:
    r = fit(model="llama-3.1-70b", gpu="h100", requests=30)

    assert not r.fits
    enough = [s.fits for s in r.suggestions]
    assert sorted(enough, reverse=True) == enough
    assert {"gpus", "weights"} <= {s.change for s in r.suggestions if s.fits}


def test_a_shorter_context_is_the_longest_that_fits() -> None:
    """45 GiB hold 147,456 tokens: two requests of 131,072 do not fit, of 73,728 do."""
    r = fit(
        model="llama-3.1-70b", gpu_memory="80GiB", weight_bytes="35GiB", context="128k", requests=2
    )
    (shorter,) = [s for s in r.suggestions if s.change == "context"]

    assert (shorter.argument, shorter.max_requests, shorter.fits) == ("-c 73728", 2, True)


def test_a_gpu_without_fp8_is_not_told_to_use_it() -> None:
    """The A100 computes no fp8: int8 instead."""
    a100 = {s.argument for s in fit(model="llama-3.1-8b", gpu="a100-80").suggestions}
    h100 = {s.argument for s in fit(model="llama-3.1-8b", gpu="h100").suggestions}

    assert {"--kv-dtype int8_per_token_head", "--weights int8"} <= a100
    assert not any("fp8" in argument for argument in a100)
    assert {"--kv-dtype fp8", "--weights fp8"} <= h100


def test_a_quantised_model_is_not_quantised_again() -> None:
    changes = {s.change for s in fit(model="llama-3.1-8b", gpu="h100", weights="int4").suggestions}

    assert "weights" not in changes
