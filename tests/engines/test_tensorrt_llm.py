"""TensorRT-LLM: nine tenths of what is left, blocks, published capacities, refusals.

CAPACITIES are the 34 that aiconfigurator's tests publish (Apache-2.0): sequences of max_seq_len at
once. The budget's coefficients were fitted on them; `accuracy_engines` leaves each out in turn.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc import resolve
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.fit import fit, most_requests, rank_plans
from kvcalc.core.plan import Device, Memory, Plan
from kvcalc.core.results.fit import FitResult, GpuInfo
from kvcalc.core.shard import Parallel
from kvcalc.core.units import GIB
from kvcalc.engines.tensorrt_llm import TENSORRT_LLM

#: Totals that these capacities assume, GiB, and the GPUs.
TOTALS = {"h100-sxm": 79.18, "gb300": 276.62}
DEVICES = {
    "h100-sxm": Device("h100-sxm", "H100", "NVIDIA", "Hopper"),
    "gb300": Device("gb300", "GB300", "NVIDIA", "Blackwell Ultra"),
}
#: Model, GPU, tp, max_num_tokens, max_seq_len, fraction, sequences at once.
CAPACITIES: list[tuple[str, str, int, int, int, float, int]] = [
    ("qwen3-32b", "h100-sxm", 2, 4096, 7144, 0.8, 53),
    ("qwen3-32b", "h100-sxm", 1, 8192, 7144, 0.8, 19),
    ("qwen3-32b", "h100-sxm", 2, 8192, 7144, 0.8, 53),
    ("qwen3-32b", "gb300", 1, 8192, 7144, 0.8, 108),
    ("qwen3-32b", "gb300", 2, 4096, 5096, 0.8, 326),
    ("qwen3-32b", "gb300", 2, 4096, 7144, 0.8, 233),
    ("qwen3-32b", "gb300", 2, 8192, 9192, 0.8, 181),
    ("qwen3-32b", "gb300", 4, 8192, 9192, 0.8, 373),
    ("qwen3-32b", "gb300", 1, 4096, 7144, 0.9, 123),
    ("qwen3-32b", "gb300", 1, 8192, 7144, 0.9, 122),
    ("qwen3-32b", "gb300", 2, 4096, 7144, 0.9, 262),
    ("qwen3-32b", "gb300", 4, 4096, 5096, 0.9, 757),
    ("qwen3-32b", "gb300", 4, 8192, 7144, 0.9, 539),
    ("qwen3-32b", "gb300", 4, 8192, 9192, 0.9, 419),
    ("llama-3.1-8b", "h100-sxm", 1, 4096, 5096, 0.8, 78),
    ("llama-3.1-8b", "h100-sxm", 2, 4096, 5096, 0.8, 173),
    ("llama-3.1-8b", "h100-sxm", 4, 4096, 5096, 0.8, 363),
    ("llama-3.1-8b", "h100-sxm", 1, 4096, 7144, 0.8, 56),
    ("llama-3.1-8b", "h100-sxm", 2, 4096, 7144, 0.8, 124),
    ("llama-3.1-8b", "h100-sxm", 1, 8192, 7144, 0.8, 55),
    ("llama-3.1-8b", "h100-sxm", 4, 8192, 7144, 0.8, 258),
    ("llama-3.1-8b", "h100-sxm", 1, 8192, 9192, 0.8, 43),
    ("llama-3.1-8b", "h100-sxm", 4, 8192, 9192, 0.8, 201),
    ("llama-3.1-8b", "gb300", 1, 4096, 5096, 0.8, 330),
    ("llama-3.1-8b", "gb300", 1, 8192, 9192, 0.8, 183),
    ("llama-3.1-8b", "gb300", 2, 4096, 7144, 0.8, 484),
    ("llama-3.1-8b", "gb300", 4, 4096, 7144, 0.8, 979),
    ("llama-3.1-8b", "gb300", 4, 8192, 7144, 0.8, 978),
    ("llama-3.1-8b", "gb300", 4, 8192, 9192, 0.8, 761),
    ("llama-3.1-8b", "gb300", 1, 8192, 7144, 0.9, 265),
    ("llama-3.1-8b", "gb300", 2, 4096, 7144, 0.9, 544),
    ("llama-3.1-8b", "gb300", 2, 8192, 7144, 0.9, 544),
    ("llama-3.1-8b", "gb300", 4, 4096, 7144, 0.9, 1101),
    ("llama-3.1-8b", "gb300", 4, 8192, 9192, 0.9, 856),
]


def capacity_plan(model: str, gpu: str, tp: int, step: int, length: int, share: float) -> Plan:
    """The plan of one published capacity; Qwen3-32B is its block-FP8 checkpoint."""
    found = resolve.model_of(model)
    weights = resolve.weights_of(found, "fp8_block" if model == "qwen3-32b" else None, None)
    return Plan(
        model=found, storage=storage("bf16"), parallel=Parallel(tp=tp), weights=weights,
        memory=Memory(int(TOTALS[gpu] * GIB), "measured"), context=length, device=DEVICES[gpu],
        settings={"free_gpu_memory_fraction": share, "max_num_tokens": step}, rules=TENSORRT_LLM,
    )  # fmt: skip


def plan(model: str = "llama-3.1-8b", **changes: Any) -> Plan:
    found = resolve.model_of(model)
    return Plan(
        model=found, storage=storage(changes.pop("kv", "bf16")),
        parallel=changes.pop("parallel", Parallel()), weights=resolve.weights_of(found, None, None),
        memory=Memory(int(79.18 * GIB)), context=changes.pop("context", 8192), rules=TENSORRT_LLM,
        device=changes.pop("device", DEVICES["h100-sxm"]), **changes,
    )  # fmt: skip


def answer(made: Plan) -> FitResult:
    return fit(made, GpuInfo(None, "GPU", made.parallel.gpus, None, "exact"))


@pytest.mark.parametrize(("model", "gpu", "tp", "step", "length", "share", "count"), CAPACITIES)
def test_published_capacities_are_within_one_sequence(
    model: str, gpu: str, tp: int, step: int, length: int, share: float, count: int
) -> None:
    made = capacity_plan(model, gpu, tp, step, length, share)
    found = most_requests(made, rank_plans(made), length)

    assert abs(found.best - count) <= 1
    assert found.low <= count <= found.high


def test_the_share_is_of_what_is_left() -> None:
    made = answer(plan(settings={"free_gpu_memory_fraction": 0.8}))
    lines = {x.item: x.bytes for x in made.budget}

    rest = lines["memory"] + lines["weights"] + lines["other"]
    assert made.kv_pool_bytes == int(rest * 0.8)
    assert sum(x.bytes for x in made.budget[:-1]) == made.kv_pool_bytes


def test_blocks_have_32_tokens_and_64_before_1_0() -> None:
    """63.44 GiB of 262,144 bytes a token are 4,060 blocks of 64, as logged."""
    old = answer(plan("llama-7b", kv="fp8", context=2048, version="0.13",
                      kv_pool=int(63.44 * GIB)))  # fmt: skip

    assert (old.block_tokens, old.kv_pool_tokens) == (64, 4060 * 64)
    assert answer(plan()).block_tokens == 32
    assert answer(plan("deepseek-v3.2", parallel=Parallel(tp=8))).block_tokens == 64
    assert "primary blocks=4060" in old.startup_lines[-2]
    assert "(259840)" in old.startup_lines[-1]


def test_requests_take_whole_blocks_and_share_a_prefix() -> None:
    """100 blocks; 1,000 tokens take 32 of them, 3 at once; 640 shared ones are 20 blocks."""
    pool = 100 * 32 * 131_072
    made = plan(kv_pool=pool, context=1000)
    rank = rank_plans(made)[0]

    assert TENSORRT_LLM.requests(made, rank, pool, 1000) == 3
    shared = made._replace(shared_prefix=640)
    assert TENSORRT_LLM.requests(shared, rank, pool, 1000) == (100 - 20) // 12
    assert TENSORRT_LLM.needed(shared, rank, 1000, 6) == (20 + 6 * 12) * 32 * 131_072


def test_max_batch_size_bounds_the_requests() -> None:
    made = answer(plan(context=128, settings={"max_batch_size": 64}))

    assert made.max_requests == 64
    assert made.limits[0].code == "max_batch_size"


def test_max_tokens_bounds_the_pool() -> None:
    made = answer(plan(settings={"max_tokens": 65_536}))

    assert made.kv_pool_bytes == 65_536 * 131_072
    assert made.kv_pool_tokens == 65_536


def test_latents_are_copied_to_every_rank_and_states_are_aside() -> None:
    latent = rank_plans(plan("deepseek-v3", parallel=Parallel(tp=8), kv_pool=GIB))[0]
    hybrid = answer(plan("qwen3-next-80b-a3b", parallel=Parallel(tp=4),
                         settings={"max_batch_size": 16}))  # fmt: skip

    assert TENSORRT_LLM.token_bytes(plan("deepseek-v3"), latent.model) == 61 * 576 * 2
    states = next(x.bytes for x in hybrid.budget if x.item == "states")
    assert states == -16 * 36 * (3 * 8192 // 4 * 2 + 524_288 // 4 * 2)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kv": "int8"}, "unknown_dtype"),
    (
        {"kv": "fp8", "device": Device("a100", "A100", "NVIDIA", "Ampere", frozenset({"bf16"}))},
        "unknown_dtype",
    ),
    ({"parallel": Parallel(tp=2, dcp=2)}, "usage"),
    ({"device": Device("mi300x", "MI300X", "AMD", "CDNA3")}, "usage"),
    ({"model": "deepseek-v4-flash"}, "unsupported_architecture"),
    ({"model": "whisper-large-v3", "context": 448}, "unsupported_architecture"),
    ({"parallel": Parallel(tp=3)}, "not_divisible"),
]


@pytest.mark.parametrize(("changes", "code"), REFUSED)
def test_what_it_refuses_it_names(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        rank_plans(plan(**changes))

    assert caught.value.code == code


def test_the_command_and_the_refusal_are_its_own() -> None:
    made = plan("llama-3.1-8b", kv="fp8", parallel=Parallel(tp=2), context=131_072,
                kv_pool=GIB, settings={"max_batch_size": 8})  # fmt: skip

    assert TENSORRT_LLM.command(made) == (
        "trtllm-serve meta-llama/Llama-3.1-8B --max_seq_len 131072 --tp_size 2 "
        "--kv_cache_free_gpu_memory_fraction 0.9 --max_batch_size 8 --kv_cache_dtype fp8"
    )
    lines = answer(made).startup_lines
    assert lines[0].startswith("maxTokensInPagedKvCache (32768) must be large enough")


def test_changes_are_its_own_settings() -> None:
    found = TENSORRT_LLM.changes(plan())

    assert [c.argument for c in found] == [
        "--set free_gpu_memory_fraction=0.95", "--set max_num_tokens=2048", "--kv-dtype fp8",
    ]  # fmt: skip
    base = answer(plan()).kv_pool_bytes
    assert all(rank_plans(c.plan)[0].pool.best >= base for c in found)
