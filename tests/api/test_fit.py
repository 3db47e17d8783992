"""kvcalc.fit: option texts to a plan, by the textbook's rules."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

import kvcalc
from kvcalc import KvcalcError
from kvcalc.cli.main import parse, prepared
from kvcalc.cli.spec import spec_of
from kvcalc.core.results.fit import FitList, FitResult

GIB = 2**30


def fit(model: str | None = "llama-3.1-70b", **options: Any) -> FitResult:
    result = kvcalc.fit(model, **{"engine": "none", **options})
    assert isinstance(result, FitResult)
    return result


@pytest.mark.parametrize(
    ("context", "requests"),
    [("4k", 36), ("8k", 18), ("128k", 1), (4097, 35)],
)
def test_the_articles_example(context: str | int, requests: int) -> None:
    """45 GiB over 327,680 × context bytes; 4,097 tokens: 147,456 / 4,097 = 35.99."""
    r = fit(weight_bytes="35GiB", gpu_memory="80GiB", context=context)

    assert r.fits
    assert r.yes
    assert requests == r.max_requests


def test_the_other_conventions_of_the_article() -> None:
    """35e9 bytes of weights on 80 GiB: 37; all decimal, 45e9 / 1,342,177,280: 33."""
    assert fit(weight_bytes="35GB", gpu_memory="80GiB").max_requests == 37
    assert fit(weight_bytes="35GB", gpu_memory="80GB").max_requests == 33


def test_weights_larger_than_the_gpu_are_an_answer() -> None:
    """80 − 141,107,412,992 bytes: no."""
    r = fit(gpu_memory="80GiB")

    assert not r.yes
    assert r.kv_pool_bytes == 80 * GIB - 141_107_412_992
    assert r.max_requests == 0
    assert 1_342_177_280 - r.kv_pool_bytes == r.shortfall_bytes


def test_a_gpu_brings_its_memory_with_basis_and_bounds() -> None:
    """H100 SXM: 79.18 GiB that a program sees, not the 80 on its box."""
    r = fit(gpu="h100", weight_bytes="35GiB")
    memory = r.budget[0]

    assert (r.gpu.id, r.gpu.count) == ("h100-sxm", 1)
    assert memory.low_bytes <= memory.bytes <= memory.high_bytes
    assert f"{memory.bytes / GIB:.2f}" == "79.18"
    assert r.gpu.memory_bytes == memory.bytes


@pytest.mark.parametrize(
    ("options", "parallel"),
    [
        ({"gpus": 8}, (8, 1, 1)),
        ({"gpu": "8xh100"}, (8, 1, 1)),
        ({"gpu": "8xh100", "gpus": 8}, (8, 1, 1)),
        ({"tp": 4}, (4, 1, 1)),
        ({"gpus": 8, "pp": 2}, (4, 2, 1)),
        ({"gpus": "8", "pp": "2", "dp": "2"}, (2, 2, 2)),
        ({"tp": 2, "pp": 2, "dp": 2, "gpus": 8}, (2, 2, 2)),
        ({"gpus": 1}, (1, 1, 1)),
    ],
)
def test_gpus_and_their_ranks(options: dict[str, Any], parallel: tuple[int, int, int]) -> None:
    r = fit(**{"gpu": "h100", **options})

    assert parallel == r.parallel[:3]
    assert parallel[0] * parallel[1] * parallel[2] == r.gpu.count


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"gpus": 8, "tp": 4}, "usage"),
        ({"gpus": 4, "tp": 4, "dp": 2}, "usage"),
        ({"gpus": 3, "pp": 2}, "usage"),
        ({"gpu": "8xh100", "gpus": 4}, "usage"),
        ({"gpu": "0xh100"}, "usage"),
        ({"gpu": "h100+"}, "usage"),
        ({"gpu": ""}, "usage"),
        ({"gpu": "h1000"}, "unknown_gpu"),
        ({"gpu_memory": "80GiB"}, "usage"),
        ({"gpus": 0}, "usage"),
        ({"gpus": 3}, "not_divisible"),
        ({"requests": 0}, "usage"),
        ({"context": 0}, "usage"),
        ({"context": "256k"}, "context_too_long"),
        ({"average_context": "256k"}, "context_too_long"),
        ({"average_context": 0}, "usage"),
        ({"utilization": 0}, "usage"),
        ({"utilization": 1.01}, "usage"),
        ({"utilization": "nan"}, "usage"),
        ({"reserve": "2G"}, "usage"),
        ({"kv_pool": "1GiB", "kv_pool_tokens": 5}, "usage"),
        ({"kv_pool_tokens": 0}, "usage"),
        ({"block_size": 0}, "usage"),
        ({"shared_prefix": 0}, "usage"),
        ({"weights": "bf15"}, "unknown_dtype"),
        ({"solve": "memory"}, "usage"),
        ({"solve": 5}, "usage"),
        ({"solve": "utilization", "kv_pool": "10GiB"}, "usage"),
        ({"engine": "vlm"}, "unknown_engine"),
        ({"engine": 5}, "unknown_engine"),
        ({"set": {"max_num_seqs": 4}}, "unknown_setting"),
        ({"engine_version": "1"}, "usage"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any], code: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        fit(**{"gpu": "h100", **options})

    assert code == refused.value.code
    assert "\n" not in refused.value.message


def test_neither_model_nor_gpu_is_no_question() -> None:
    with pytest.raises(KvcalcError, match="needs a MODEL, a --gpu, or both"):
        kvcalc.fit(engine="none")
    with pytest.raises(KvcalcError, match="--kv-pool needs a MODEL"):
        kvcalc.fit(kv_pool="1GiB", engine="none")


def test_weights_of_unknown_size_are_asked_for() -> None:
    with pytest.raises(KvcalcError, match="weights' size of custom is not known") as refused:
        fit(None, layers=2, kv_heads=2, head_dim=64, gpu="h100")

    assert "--weight-bytes" in (refused.value.hint or "")


def test_settings_take_from_the_memory() -> None:
    """80 GiB × 0.9 − 2 − 35 = 35 GiB: 28 requests of 1.25."""
    r = fit(gpu_memory="80GiB", weight_bytes="35GiB", utilization=0.9, reserve="2GiB")

    assert (r.kv_pool_bytes, r.max_requests) == (35 * GIB, 28)
    assert (
        r.kv_pool_bytes
        == fit(
            gpu_memory="80GiB", weight_bytes="35GiB", utilization="90%", reserve="2GiB"
        ).kv_pool_bytes
    )


def test_a_pool_by_its_tokens() -> None:
    """395,776 × 12,288 = 4,863,295,488 bytes; 96 requests of 4,096 with 2,560 tokens to spare."""
    r = fit("qwen2.5-0.5b", kv_pool_tokens=395_776, context=4096)

    assert (r.kv_pool_bytes, r.kv_pool_tokens, r.max_requests) == (4_863_295_488, 395_776, 96)
    assert r.suggestions == ()


def test_pages_of_tokens() -> None:
    """16 GiB / (16 × 57,344) = 18,724 blocks; 5,999 tokens take 375: 49 requests."""
    r = fit("qwen2.5-7b", kv_pool="16GiB", context=5999, block_size=16, average_context=3500)

    assert (r.max_requests, r.kv_pool_tokens) == (49, 299_584)
    assert (r.typical and r.typical[:2]) == (3500, 85)  # 219 blocks each


@pytest.mark.parametrize(("prefix", "requests"), [(3072, 141), (3087, 141), (3088, 143)])
def test_a_shared_prefix_counts_in_whole_blocks(prefix: int, requests: int) -> None:
    """147,456 tokens: (147,456 − 3,072) / 1,024 = 141; with 3,088 shared, / 1,008 → 143."""
    r = fit(gpu_memory="80GiB", weight_bytes="35GiB", shared_prefix=prefix)

    assert requests == r.max_requests


def test_weights_in_another_format_make_room() -> None:
    """70,553,706,496 parameters: as int4 with 16-bit embeddings about a quarter of bf16."""
    bf16 = fit(gpu="h200")
    int4 = fit(gpu="h200", weights="int4")

    assert bf16.weights.bytes == 141_107_412_992
    assert 35_276_853_248 <= (int4.weights.bytes or 0) < 45_000_000_000
    assert int4.max_requests > bf16.max_requests


def test_the_longest_context_is_the_models_or_the_memorys() -> None:
    assert fit(gpu_memory="80GiB", weight_bytes="35GiB").max_context_tokens == 131_072
    longer = fit(gpu_memory="80GiB", weight_bytes="35GiB", allow_long_context=True)
    assert longer.max_context_tokens == 147_456


def test_everything_may_be_given_as_text() -> None:
    """Batch and the command line hand over texts; numbers give the same."""
    texts = fit(gpu="h100", gpus="2", context="8k", requests="3", utilization="0.9", tp="2")
    numbers = fit(gpu="h100", gpus=2, context=8192, requests=3, utilization=0.9, tp=2)

    assert {**texts.to_dict(), "command": ""} == {**numbers.to_dict(), "command": ""}


@pytest.mark.parametrize(
    "options",
    [
        {"gpu": "h100", "weights": "int4"},
        {"gpu": "2xh100", "context": "32k", "requests": 5},
        {"gpu_memory": "80GiB", "weight_bytes": "35GiB", "utilization": 0.9, "reserve": "1 GiB"},
        {"kv_pool": "16GiB", "block_size": 16, "shared_prefix": 512, "k_dtype": "q8_0"},
        {"gpu": "h100", "tp": 2, "pp": 2, "dp": 2, "allow_long_context": True, "context": "1M"},
        {"gpu": "h100", "requests": 30, "solve": "gpus"},
        {"gpu": "2xh100", "requests": 30, "solve": "gpus"},
        {"gpu": "h100", "tp": 2, "requests": 30, "solve": "gpus"},
        {"gpu": "2xh100", "requests": 3, "solve": "utilization"},
        {"gpu": "2xh100", "requests": 7, "solve": "context"},
        {"gpu": "2xh100", "solve": "requests"},
        {"gpu": "2xh100", "requests": 20, "k_dtype": "fp16", "solve": "kv-dtype"},
    ],
)
def test_the_command_asks_the_same_again(options: dict[str, Any]) -> None:
    """What was solved for stands in it with its value."""
    first = fit(**options)
    words = shlex.split(first.line)
    assert words[:2] == ["kvcalc", "fit"]

    parsed = prepared(parse(spec_of("fit"), words[2:]) or {})
    again = fit(**{k: v[0] if isinstance(v, list) and k != "group" else v
                   for k, v in parsed.items() if k != "engine"})  # fmt: skip
    ours, theirs = first.to_dict(), again.to_dict()
    assert "solve" not in again.line
    same = {"command": "", "ask_again": ""}
    assert {**ours, "solved": None, **same} == {**theirs, **same}


def test_a_custom_model_fits_too() -> None:
    """67 layers × 4 heads × 512 over 4 GPUs: 34,304 a token and GPU; 12 GiB hold 375,609."""
    r = fit(
        None, layers=67, kv_heads=4, head_dim=128, gpus=4, kv_pool=12_884_901_888, engine="none"
    )

    assert (r.ranks[0].kv_bytes_per_token, r.kv_pool_tokens) == (34_304, 375_609)
    assert r.line.startswith("kvcalc fit --gpus 4 --engine none --kv-pool 12884901888 --layers 67")


def test_lists_are_lists() -> None:
    assert isinstance(kvcalc.fit("llama-3.1-8b", engine="none"), FitList)
    assert isinstance(kvcalc.fit(gpu="h100", engine="none"), FitList)
