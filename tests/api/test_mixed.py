"""Machines that mix GPUs, and pipelines whose stages hold unlike numbers of layers."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc import KvcalcError
from kvcalc.core import shard
from kvcalc.core.results.fit import FitResult
from kvcalc.launch.parse import parse_launch

GIB = 2**30
#: 48 layers · 2 · 4 heads · 128 · 2 bytes = 98,304 bytes a token: 2,048 a layer.
MODEL = "qwen3-30b-a3b"


def fit(gpu: str | None = "5070ti+5090", **options: Any) -> FitResult:
    made = {"engine": "none", "weights": "int4", "context": "32k", **options}
    result = kvcalc.fit(made.pop("model", MODEL), gpu=gpu, **made)
    assert isinstance(result, FitResult)
    return result


def test_tensor_parallel_ranks_hold_alike_so_the_smallest_decides() -> None:
    r, small, large = fit(), fit("2x5070ti"), fit("2x5090")

    assert r.gpu.id == "rtx5070ti+rtx5090"
    assert [m.id for m in r.gpu.members] == ["rtx5070ti", "rtx5090"]
    assert r.gpu.count == r.parallel.tp == 2
    assert r.max_requests == small.max_requests < large.max_requests
    assert [k.gpu for k in r.ranks] == ["rtx5070ti", "rtx5090"]
    assert [k.kv_bytes_per_token for k in r.ranks] == [49_152, 49_152]
    assert r.ranks[1].kv_pool_bytes == large.ranks[0].kv_pool_bytes
    assert r.gpu.memory_bytes == small.gpu.memory_bytes
    pools = [k.kv_pool_bytes for k in r.ranks]
    assert r.ideal.kv_pool_bytes == sum(pools), "what both have beside the weights"


def test_layers_of_each_stage() -> None:
    """16 · 2,048 and 32 · 2,048 bytes a token; the same pool holds half the tokens."""
    r = fit(None, gpu_memory=None, kv_pool="4GiB", pp_layers=[16, 32])

    assert r.parallel == shard.Parallel(pp=2, pp_layers=(16, 32))
    assert [(k.rank, k.stage, k.layers, k.kv_bytes_per_token) for k in r.ranks] == [
        (0, 0, 16, 32_768), (1, 1, 32, 65_536),
    ]  # fmt: skip
    assert [k.tokens for k in r.ranks] == [4 * GIB // 32_768, 4 * GIB // 65_536]
    assert r.max_requests == 65_536 // 32_768


def test_stages_by_memory_beat_even_ones() -> None:
    """The suggestion's split is the best of all 47."""
    r = fit()
    best = next(s for s in r.suggestions if s.change == "pp_layers")
    every = {n: fit(pp_layers=[n, 48 - n]).max_requests for n in range(1, 48)}

    assert best.max_requests == max(every.values()) > r.max_requests
    words = best.argument.removeprefix("--pp-layers ").split(",")
    assert every[int(words[0])] == best.max_requests


def test_gpus_that_are_alike_are_one_kind() -> None:
    assert fit("5090+5090").to_dict()["gpu"] == fit("2x5090").to_dict()["gpu"]
    three = fit("2x4090+5090", model="qwen3-8b", pp=3)
    assert three.gpu.id == "2xrtx4090+rtx5090"
    assert [k.gpu for k in three.ranks] == ["rtx4090", "rtx4090", "rtx5090"]


def test_ranks_of_a_stage_are_counted_in_order() -> None:
    """Two stages of two: the first has both kinds, the second only the larger."""
    r = fit("5070ti+3x5090", pp=2)

    assert r.parallel.tp == 2
    assert [(k.rank, k.stage, k.gpu) for k in r.ranks] == [
        (0, 0, "rtx5070ti"), (1, 0, "rtx5090"), (2, 1, "rtx5090"),
    ]  # fmt: skip


def test_vllm_gives_each_gpu_its_own_budget() -> None:
    r = fit(engine="vllm")
    alone = fit("2x5090", engine="vllm")

    assert r.ranks[1].kv_pool_bytes == alone.ranks[0].kv_pool_bytes
    assert r.ranks[1].blocks is not None
    assert r.ranks[0].blocks is not None
    assert r.ranks[1].blocks > r.ranks[0].blocks
    assert r.kv_pool_tokens == r.ranks[0].tokens
    assert "--tensor-parallel-size 2" in r.line
    staged = fit(engine="vllm", pp_layers=[16, 32])
    assert staged.line.startswith("VLLM_PP_LAYER_PARTITION=16,32 vllm serve")


def test_llama_cpp_shares_layers_by_memory() -> None:
    """Layer i of 49 goes to the second GPU from i / 49 ≥ 0.341, i = 17."""
    r = fit(engine="llama.cpp")

    assert [(k.gpu, k.layers) for k in r.ranks] == [("rtx5070ti", 17), ("rtx5090", 31)]
    given = fit(engine="llama.cpp", set={"tensor_split": "1,1"})
    assert [k.layers for k in given.ranks] == [25, 23]


def test_sglang_takes_the_least_memory_everywhere() -> None:
    with pytest.raises(KvcalcError, match="more than 10% apart"):
        fit(engine="sglang")
    r = fit(engine="sglang", pp=2)
    assert r.ranks[0].kv_pool_bytes == pytest.approx(r.ranks[1].kv_pool_bytes, rel=0.01)
    assert fit("h100+h100-nvl", engine="sglang", pp=2).gpu.count == 2
    r = fit(engine="sglang", pp_layers=[16, 32])
    assert r.line.startswith("SGLANG_PP_LAYER_PARTITION=16,32 ")


@pytest.mark.parametrize(
    ("gpu", "options", "said"),
    [
        ("5070ti+5090", {"dp": 2, "tp": 1}, "--dp 2"),
        ("5070ti+5090", {"gpus": 3}, "how many GPUs"),
        ("5070ti+5090", {"solve": "gpus"}, "--solve gpus"),
        ("5070ti+5090", {"engine": "tensorrt-llm"}, "TensorRT-LLM"),
        ("5070ti+5090", {"engine": "lmdeploy"}, "LMDeploy"),
        ("5070ti+mi300x", {"engine": "vllm"}, "NVIDIA and AMD"),
        ("5070ti+", {}, "names no GPU on one side"),
        ("auto+5070ti", {}, "auto is the whole machine"),
        ("5070ti+24GB", {}, "24GB is a size, not a name"),
        ("5070ti+nonsense", {}, 'no gpu "nonsense"'),
        ("2000x5070ti+5090", {}, "more than 1024"),
        ("5070ti+5090", {"pp_layers": [16, 33]}, "49 layers; the model has 48"),
        ("5070ti+5090", {"pp_layers": [16, 16, 16]}, "is 3 GPUs, not 2"),
        ("2x4090+5090", {"pp_layers": [16, 32], "pp": 3}, "is for 2 stages, not --pp 3"),
        ("5070ti+5090", {"pp_layers": [0, 48]}, "--pp-layers is 0"),
        ("5070ti+5090", {"pp_layers": [16, 32], "engine": "llama.cpp"}, "layers by shares"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(gpu: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(KvcalcError, match=said):
        fit(gpu, **options)


def test_only_fit_and_report_mix_gpus() -> None:
    with pytest.raises(KvcalcError, match="only fit and report"):
        kvcalc.speed("qwen3-8b", gpu="4090+5090")


def test_a_layer_partition_of_the_environment() -> None:

    line = "VLLM_PP_LAYER_PARTITION=16,20 vllm serve Qwen/Qwen3-8B -pp 2"
    assert parse_launch(line.split()).options["pp_layers"] == ["16", "20"]
    line = (
        "SGLANG_PP_LAYER_PARTITION=16,20 python -m sglang.launch_server --model-path m --pp-size 2"
    )
    assert parse_launch(line.split()).options["pp_layers"] == ["16", "20"]


def test_draft_layers_run_on_the_last_stage() -> None:
    """DeepSeek-V3's 61 layers over 2 stages are 30 and 31, its MTP layer behind them."""
    made = fit(
        None, model="deepseek-v3", engine="vllm", kv_pool="10GiB", pp=2, weights=None,
        set={"num_speculative_tokens": 1},
    )  # fmt: skip
    plain = fit(None, model="deepseek-v3", engine="vllm", kv_pool="10GiB", pp=2, weights=None)

    # 61 over 2 are 31 and 30 (the remainder counts back from the second to last).
    assert [k.layers for k in plain.ranks] == [31, 30]
    # Pages of 64 tokens · 576 · 2 bytes: 31 layers a stage, then 31 and 31.
    assert [k.block_bytes for k in plain.ranks] == [31 * 73_728, 30 * 73_728]
    assert [k.block_bytes for k in made.ranks] == [31 * 73_728, 31 * 73_728]


def test_layers_of_stages_are_asked_for_in_one_word() -> None:
    """A list, or as it is typed."""
    plans = [
        kvcalc.fit("llama-3.1-8b", gpu="4090+3090", pp_layers=layers)
        for layers in ([12, 20], "12,20", ("12", "20"))
    ]

    for plan in plans:
        assert isinstance(plan, FitResult)
        assert [rank.layers for rank in plan.ranks] == [12, 20]
        assert "--pp-layers 12,20" in plan.ask_again
