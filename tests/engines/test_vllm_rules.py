"""vLLM behind `Rules`: pools to tokens, requests, refusals, start-up lines and commands."""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc import resolve
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_all_models
from kvcalc.core import fit as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.plan import Device, Memory, Plan
from kvcalc.core.results.fit import GpuInfo
from kvcalc.core.shard import Parallel
from kvcalc.engines.rules import rules_for
from kvcalc.engines.vllm.rules import VLLM

GIB, MIB = 2**30, 2**20


def plan(model: str, gpu: str | None = "h100-sxm", weights: str | None = None, **more: Any) -> Plan:
    found = resolve.model_of(model)
    memory, device = None, Device()
    if gpu is not None:
        card = load_gpu(gpu)
        memory = Memory(card.memory_bytes, card.basis, card.low_bytes, card.high_bytes)
        device = Device(card.id, card.name, card.vendor, card.entry["architecture"])
    kv = more.pop("kv", "auto")
    base = Plan(
        model=found,
        storage=resolve.storage_of(found, kv, None, None, None),
        parallel=Parallel(),
        weights=resolve.weights_of(found, weights, None),
        memory=memory,
        context=4096,
        device=device,
        rules=VLLM,
    )
    return base._replace(**more)


def tokens(p: Plan) -> int:
    ranks = VLLM.ranks(p)
    return min(VLLM.rank_tokens(p, r) or 0 for r in ranks)


def most(p: Plan) -> int:
    return core.most_requests(p, VLLM.ranks(p), p.context).best


def longest(p: Plan) -> int | None:
    return core.longest_context(p, VLLM.ranks(p))


def text(p: Plan) -> str:
    return "\n".join(VLLM.startup_lines(p, VLLM.ranks(p)))


# Pools


def test_a_given_pool_is_whole_blocks() -> None:
    """Llama-3.1-8B, 16 tokens · 131,072 B: 10 GiB are 5,120 blocks, one of them the null block."""
    p = plan("llama-3.1-8b", None, kv_pool=10 * GIB + MIB)
    rank = VLLM.ranks(p)[0]
    assert [line.item for line in rank.budget] == ["kv_pool"]
    assert tokens(p) == 5120 * 16
    assert most(p) == 5119 // 256
    assert longest(p) == 5119 * 16
    assert VLLM.request_bytes(p, rank, 4097) == 257 * 2 * MIB
    assert VLLM.needed(p, rank, 4096, 3) == (3 * 256 + 1) * 2 * MIB
    assert VLLM.block_tokens(p) == 16


def test_older_releases_held_no_block_back() -> None:
    p = plan("llama-3.1-8b", None, kv_pool=10 * GIB, version="0.28.0")
    assert longest(p) == 5120 * 16
    assert most(p) == 20


def test_tokens_that_the_engine_printed_give_the_pool_back() -> None:
    for version in ("0.12.0", "0.33.0"):
        for model in ("llama-3.1-8b", "gpt-oss-20b", "qwen3-next-80b-a3b"):
            printed = plan(model, None, kv_pool_tokens=200_000, version=version, context=32_768)
            assert tokens(printed) >= 200_000
            pool = VLLM.ranks(printed)[0].pool.best
            one_less = plan(model, None, kv_pool=pool - 1, version=version, context=32_768)
            assert tokens(one_less) < 200_000


def test_kv_cache_memory_bytes_replaces_the_budget() -> None:
    p = plan("llama-3.1-8b", settings={"kv_cache_memory_bytes": 10 * GIB})
    assert tokens(p) == 81_920
    assert "--kv-cache-memory-bytes 10737418240" in (VLLM.command(p) or "")
    assert "utilization" not in (VLLM.command(p) or "")


def test_a_shared_prefix_is_stored_once() -> None:
    """5,119 blocks; 128 shared and 128 of each own: (5,119 − 128) // 128."""
    p = plan("llama-3.1-8b", None, kv_pool=10 * GIB, shared_prefix=2048)
    assert most(p) == (5119 - 128) // 128


def test_requests_and_needs_agree() -> None:
    """As many fit as are said to, and not one more; longest is the last length that fits."""
    for model in (
        "llama-3.1-8b",
        "gemma-3-12b",
        "gpt-oss-20b",
        "deepseek-v3",
        "qwen3-next-80b-a3b",
    ):
        p = plan(model, None, kv_pool=30 * GIB, context=8192, shared_prefix=512)
        rank, n = VLLM.ranks(p)[0], most(p)
        assert n > 0
        assert VLLM.needed(p, rank, 8192, n) <= 30 * GIB
        assert VLLM.needed(p, rank, 8192, n + 1) > 30 * GIB
        p = p._replace(allow_long=True, shared_prefix=0)
        end = longest(p) or 0
        assert VLLM.requests(p, rank, 30 * GIB, end) >= 1
        assert VLLM.requests(p, rank, 30 * GIB, end + 1) == 0


def test_states_alone_have_no_end() -> None:
    p = plan("mamba-2.8b", None, kv_pool=GIB, allow_long=True)
    assert longest(p) is None
    assert most(p) > 0


def test_a_negative_pool_holds_nothing() -> None:
    p = plan("llama-3.1-70b", "rtx4090")
    rank = VLLM.ranks(p)[0]
    assert rank.pool.best < 0
    assert (most(p), longest(p), tokens(p)) == (0, 0, 0)
    assert "No available memory for the cache blocks" in text(p)


# Parallelism


def test_the_smallest_stage_decides() -> None:
    """61 layers over 4 stages are 15, 15, 16, 15; the stage of 16 holds the fewest tokens."""
    p = plan("deepseek-v3", "h200-sxm", parallel=Parallel(tp=4, pp=4))
    ranks = VLLM.ranks(p)
    assert [len(r.model.layers) for r in ranks] == [15, 15, 16, 15]
    counts = [VLLM.rank_tokens(p, r) or 0 for r in ranks]
    assert min(counts) == counts[2]
    result = core.fit(p, GpuInfo("h200-sxm", "H200", 16, 1, "exact"))
    assert result.kv_pool_tokens == counts[2]


def test_replicas_have_pools_of_their_own() -> None:
    one = plan("llama-3.1-8b")
    two = one._replace(parallel=Parallel(dp=2))
    assert most(two) == 2 * most(one)


def test_context_parallel_latents() -> None:
    """MLA on every rank whole; dcp 8 lets a block cover 8 times the tokens."""
    p = plan("deepseek-v3", None, kv_pool=60 * GIB, parallel=Parallel(tp=8), context=131_072)
    dcp = p._replace(parallel=Parallel(tp=8, dcp=8))
    assert tokens(dcp) == pytest.approx(8 * tokens(p), rel=0.001)


# Changes


def test_changes_help_each_by_itself() -> None:
    p = plan("llama-3.1-70b", "a100-80-sxm", "awq")
    found = {c.argument: most(c.plan) for c in VLLM.changes(p)}
    assert list(found) == [
        "--set enforce_eager=true", "--set max_num_seqs=64", "--utilization 0.95",
        "--kv-dtype int8_per_token_head",
    ]  # fmt: skip
    assert all(n >= most(p) for n in found.values())
    hopper = {c.argument for c in VLLM.changes(plan("llama-3.1-8b"))}
    assert {"--set max_num_batched_tokens=2048", "--kv-dtype fp8"} <= hopper
    assert [c.change for c in VLLM.changes(p._replace(kv_pool=GIB))] == ["kv_dtype"]


def test_info_names_what_is_in_force() -> None:
    info = VLLM.info(plan("llama-3.1-8b", settings={"max_num_seqs": 8}))
    assert (info.id, info.version) == ("vllm", "0.33.0")
    assert info.settings["max_num_seqs"] == 8
    assert info.settings["max_num_batched_tokens"] == 8192
    assert info.settings["gpu_memory_utilization"] == 0.92


# Limits and refusals


def test_limits() -> None:
    """Qwen2.5-0.5B on an H200: more requests fit than 1,024; states need blocks of their own."""
    p = plan("qwen2.5-0.5b", "h200-sxm", context=1024)
    codes = [limit.code for limit in VLLM.limits(p, VLLM.ranks(p))]
    assert codes == ["max_num_seqs"]
    p = plan("qwen3-next-80b-a3b", None, kv_pool=GIB, settings={"max_num_seqs": 1024})
    codes = [limit.code for limit in VLLM.limits(p, VLLM.ranks(p))]
    assert codes == ["state_blocks"]
    p = plan("llama-3.1-8b", "t4")
    assert [limit.code for limit in VLLM.limits(p, VLLM.ranks(p))] == ["dtype"]


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"parallel": Parallel(tp=3)}, "not_divisible", "32 attention heads"),
        ({"parallel": Parallel(tp=2, ep=2)}, "usage", "no experts"),
        ({"parallel": Parallel(tp=8, dcp=2)}, "usage", "--dcp 2"),
        ({"parallel": Parallel(pp=33)}, "not_divisible", "33 layers"),
        ({"kv": "q8_0"}, "unknown_dtype", "no q8_0 KV cache"),
        ({"gpu": "t4", "kv": "fp8"}, "unknown_dtype", "Turing"),
        ({"gpu": "apple-m4-max"}, "usage", "plugin"),
    ],
)
def test_what_vllm_refuses(changed: dict[str, Any], code: str, words: str) -> None:
    p = plan("llama-3.1-8b", **changed)
    with pytest.raises(KvcalcError) as error:
        VLLM.ranks(p)
    assert error.value.code == code
    assert words in error.value.message
    assert error.value.hint


def test_expert_parallelism_is_tp_times_dp() -> None:
    p = plan("qwen3-30b-a3b", parallel=Parallel(tp=2, dp=2, ep=4))
    assert most(p) > 0
    with pytest.raises(KvcalcError):
        VLLM.ranks(p._replace(parallel=Parallel(tp=2, dp=2, ep=2)))


def test_k_and_v_have_one_format() -> None:
    mixed = resolve.storage_of(resolve.model_of("llama-3.1-8b"), "auto", "fp8", "bf16", None)
    with pytest.raises(KvcalcError) as error:
        VLLM.ranks(plan("llama-3.1-8b", storage=mixed))
    assert "one format" in error.value.message


def test_windows_are_not_sharded_over_context_ranks() -> None:
    p = plan("gpt-oss-20b", None, kv_pool=GIB, parallel=Parallel(tp=16, dcp=2))
    with pytest.raises(KvcalcError) as error:
        VLLM.ranks(p)
    assert error.value.code == "unsupported_architecture"


def test_every_preset_has_an_answer_or_a_refusal() -> None:
    """No preset ends in anything but a pool or one named error, on any of three releases."""
    for model in load_all_models():
        for version in ("0.6.5", "0.12.0", "0.33.0"):
            p = plan("llama-3.1-8b", None, kv_pool=16 * GIB, version=version)
            p = p._replace(model=model, context=resolve.default_context(model))
            try:
                ranks = VLLM.ranks(p)
            except KvcalcError as error:
                assert error.code in {"unsupported_architecture", "not_divisible"}  # noqa: PT017
                continue
            assert VLLM.requests(p, ranks[0], 16 * GIB, 256) >= 0
            assert VLLM.startup_lines(p, ranks)


def test_other_engines_have_no_rules_here() -> None:
    assert rules_for("none") is None
    assert rules_for("vllm") is VLLM
