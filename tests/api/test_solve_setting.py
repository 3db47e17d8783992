"""--solve of an engine's own setting: the answer fits, and one step further does not."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc import KvcalcError
from kvcalc.cli.spellings import normalise
from kvcalc.core.results.fit import FitResult, Solved


def fit(**options: Any) -> FitResult:
    result = kvcalc.fit(**options)
    assert isinstance(result, FitResult)
    return result


LARGE = {
    "model": "llama-3.1-70b",
    "gpu": "h100",
    "weights": "int4",
    "context": "8k",
    "requests": 12,
}
SMALL = {"model": "llama-3.1-8b", "gpu": "a100-80", "requests": 20}
QUANT = {"model": "llama-3.1-70b", "gpu": "4090", "weights": "q4_k_m", "context": "8k"}


@pytest.mark.parametrize(
    ("plan", "engine", "name", "step"),
    [
        (LARGE, "vllm", "max_num_batched_tokens", 1),
        (LARGE, "vllm", "max_num_seqs", 1),
        (LARGE, "vllm", "kv_cache_memory_bytes", -(2**20)),
        (LARGE, "sglang", "mem_fraction_static", -0.0001),
        (SMALL, "tensorrt-llm", "free_gpu_memory_fraction", -0.0001),
        (SMALL, "tensorrt-llm", "max_batch_size", -1),
        (SMALL, "lmdeploy", "cache_max_entry_count", -0.0001),
        (QUANT, "llama.cpp", "n_gpu_layers", 1),
    ],
)
def test_the_edge_of_what_fits(plan: dict[str, Any], engine: str, name: str, step: float) -> None:
    r = fit(**plan, engine=engine, solve=name)
    assert r.solved is not None
    assert r.solved.option == f"setting {name}"
    value = r.solved.value

    assert r.solved.argument == f"--set {name}={value}"
    assert r.fits
    assert fit(**plan, engine=engine, set={name: str(value)}).max_requests == r.max_requests
    further = round(value + step, 4)
    assert not fit(**plan, engine=engine, set={name: str(further)}).fits
    assert f"--set {name}={value}" in r.ask_again


def test_a_pool_is_the_need() -> None:
    """12 requests of 512 blocks and the null block, 16 · 327,680 bytes each, in whole MiB."""
    r = fit(**LARGE, solve="kv_cache_memory_bytes")

    assert r.solved is not None
    assert r.solved.value == -(-6145 * 16 * 327_680 // 2**20) * 2**20


def test_switches_stay_as_they_are_where_both_fit() -> None:
    kept = [fit(**LARGE, solve=name).solved for name in ("enforce_eager", "async_scheduling")]
    assert [s and s.value for s in kept] == [False, True]
    tight = {**LARGE, "requests": fit(**LARGE, set={"enforce_eager": "true"}).max_requests}
    assert not fit(**tight).fits
    solved = fit(**tight, solve="enforce_eager").solved
    assert solved is not None
    assert solved.argument == "--set enforce_eager=true"


def test_the_last_value_that_has_an_effect() -> None:
    """llama.cpp's physical batch is at most the logical one of 2,048."""
    r = fit(model="llama-3.1-8b", gpu="4090", weights="q4_k_m", engine="llama.cpp",
            solve="n_ubatch")  # fmt: skip
    assert r.solved is not None
    assert r.solved.value == 2048


@pytest.mark.parametrize(
    ("engine", "name"),
    [("tensorrt-llm", "tokens_per_block"), ("vllm", "num_draft_layers"),
     ("ik_llama.cpp", "n_seq_max"), ("sglang", "chunked_prefill_size")],
)  # fmt: skip
def test_what_is_found_is_a_value_that_the_engine_takes(engine: str, name: str) -> None:
    r = fit(model="llama-3.1-8b", gpu="4090", requests=2, engine=engine, solve=name)

    assert r.solved is not None
    value = r.solved.value
    assert isinstance(value, int)
    if name == "tokens_per_block":
        assert value.bit_count() == 1
    if name == "n_seq_max":
        assert value <= 256


def test_no_value_is_enough() -> None:
    """70 · 10⁹ weights of 2 bytes on 24 GB: no number of slots helps."""
    r = fit(model="llama-3.1-70b", gpu="4090", solve="max_num_seqs")

    assert r.solved == Solved("setting max_num_seqs", None)
    assert not r.fits


@pytest.mark.parametrize(
    ("engine", "name", "said"),
    [
        ("vllm", "cudagraph_capture_sizes", "a list is nothing to solve for"),
        ("vllm", "nonsense", "nothing to solve for with vllm"),
        ("vllm", "mem_fraction_static", "nothing to solve for with vllm"),
        ("none", "max_num_seqs", "nothing to solve for with none"),
        ("vllm", "enable_chunked_prefil", "nothing to solve for with vllm"),
        ("vllm", "max_lora_rank", "leaves the same pool"),
    ],
)
def test_what_is_nothing_to_solve_for(engine: str, name: str, said: str) -> None:
    with pytest.raises(KvcalcError, match=said) as refused:
        fit(model="llama-3.1-8b", gpu="h100", engine=engine, solve=name)
    if name.startswith("enable_chunked"):
        assert (refused.value.hint or "").startswith("nearest: enable_chunked_prefill")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["--solve", "setting", "max_num_seqs"], "max_num_seqs"),
        (["--solve", "max-num-seqs"], "max_num_seqs"),
        (["--solve", "max-model-len"], "context"),
        (["--solve=gpu-memory-utilization"], "utilization"),
        (["--solve", "kv_cache_memory_bytes"], "kv_cache_memory_bytes"),
        (["--solve", "-ngl"], "-ngl"),
    ],
)
def test_spellings(typed: list[str], meant: str) -> None:
    assert normalise(typed, frozenset({"--solve"}), frozenset()) == ["--solve", meant]


def test_setting_as_one_word_too() -> None:
    r = fit(**LARGE, solve="setting max-num-seqs")
    assert r.solved is not None
    assert r.solved.option == "setting max_num_seqs"


@pytest.mark.parametrize(("engine", "name", "value"), [
    # Ollama cuts each request at num_ctx.
    ("ollama", "num_ctx", 4096),
    # llama.cpp pads 15,361 cells to 15,616, 3,904 for each of 4 slots, and those to 4,096.
    ("llama.cpp", "n_ctx", 15_361),
])  # fmt: skip
def test_the_least_context_that_holds_a_request(engine: str, name: str, value: int) -> None:
    r = fit(model="llama-3.1-8b", gpu="4090", requests=4, context=4096, engine=engine, solve=name)

    assert r.solved is not None
    assert r.solved.value == value
