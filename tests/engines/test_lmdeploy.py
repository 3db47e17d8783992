"""LMDeploy: four fifths of what is free, blocks of 64, scales beside quantised heads, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc import resolve
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.fit import fit, rank_plans
from kvcalc.core.plan import Device, Memory, Plan
from kvcalc.core.results.fit import FitResult, GpuInfo
from kvcalc.core.shard import Parallel
from kvcalc.core.units import GIB, MIB
from kvcalc.engines.lmdeploy import LMDEPLOY

ADA = Device("rtx4090", "RTX 4090", "NVIDIA", "Ada")


def plan(model: str = "qwen3-8b", total: float = 79.18, **changes: Any) -> Plan:
    found = resolve.model_of(model)
    return Plan(
        model=found, storage=storage(changes.pop("kv", "bf16")),
        parallel=changes.pop("parallel", Parallel()), weights=resolve.weights_of(found, None, None),
        memory=Memory(int(total * GIB)), context=changes.pop("context", 8192), rules=LMDEPLOY,
        device=changes.pop("device", ADA), **changes,
    )  # fmt: skip


def answer(made: Plan) -> FitResult:
    return fit(made, GpuInfo(None, "GPU", made.parallel.gpus, None, "exact"))


def test_a_logged_pool_holds_the_logged_blocks() -> None:
    """863 blocks of 9 MB: 36 layers · 8 · 256 · 2 bytes · 64 tokens; 55,232 tokens."""
    made = answer(plan(kv_pool=863 * 9 * MIB))

    assert made.kv_pool_tokens == 55_232
    assert made.startup_lines == (
        "[TM][INFO] [BlockManager] block_size = 9 MB",
        "[TM][INFO] [BlockManager] max_block_count = 863",
    )


def test_the_share_is_of_what_is_free() -> None:
    made = answer(plan())
    lines = {x.item: x.bytes for x in made.budget}

    rest = lines["memory"] + lines["weights"] + lines["other"]
    assert made.kv_pool_bytes == int(rest * 0.8)
    half = answer(plan(settings={"cache_max_entry_count": 0.5}))
    assert half.kv_pool_bytes == int(rest * 0.5)


@pytest.mark.parametrize(
    ("kv", "head"),
    # d_k + d_v and four 2-byte numbers; int4 half of the former; fp8 has one scale a tensor.
    [("bf16", 512), ("int8", 256 + 8), ("int4", 128 + 8)],
)
def test_quantised_heads_have_scales_and_zeros(kv: str, head: int) -> None:
    made = plan(kv=kv, kv_pool=GIB)

    assert LMDEPLOY.page_bytes(made, rank_plans(made)[0]) == 36 * 8 * head * 64


def test_the_pytorch_engine_aligns_payloads_and_keeps_logits() -> None:
    """(8,192 + 2 · 128) · 151,936 · 2 bytes of logits; payloads of 256 bytes are whole anyway."""
    made = answer(plan(settings={"backend": "pytorch"}))
    lines = {x.item: x.bytes for x in made.budget}

    assert lines["activations"] == -(8192 + 2 * 128) * 151_936 * 2
    assert made.startup_lines[0].startswith("CacheConfig(block_size=64, num_gpu_blocks=")
    odd = plan(kv="int4", settings={"backend": "pytorch", "cache_block_seq_len": 1}, kv_pool=GIB)
    # 8 heads of 64 bytes are 512, of 4 bytes 32 → 256; twice, in 36 layers.
    assert LMDEPLOY.page_bytes(odd, rank_plans(odd)[0]) == 36 * 2 * (512 + 256)


def test_the_prefill_step_is_halved_until_sixteen_blocks_fit() -> None:
    made = answer(plan(total=17.0, settings={"backend": "pytorch", "max_batch_size": 8}))
    note = next(x.note for x in made.budget if x.item == "activations")

    assert note == "logits of 2,048 tokens and 2 × 8"


def test_requests_at_once_go_by_the_gpu() -> None:
    for gpu, slots in (("h100-sxm", 1024), ("a100-80-sxm", 384), ("rtx4090", 128)):
        assert LMDEPLOY.slots(plan(device=Device(gpu, gpu, "NVIDIA"))) == slots


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kv": "q8_0"}, "unknown_dtype"),
    ({"kv": "fp8"}, "unknown_dtype"),
    ({"parallel": Parallel(pp=2)}, "usage"),
    ({"parallel": Parallel(tp=2, dcp=2)}, "usage"),
    ({"model": "deepseek-v4-flash"}, "unsupported_architecture"),
]


@pytest.mark.parametrize(("changes", "code"), REFUSED)
def test_what_it_refuses_it_names(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        rank_plans(plan(**changes))

    assert caught.value.code == code


def test_the_command_and_what_it_shortens_are_its_own() -> None:
    made = plan(kv="int8", context=40_960, kv_pool=GIB, settings={"max_batch_size": 16})

    assert LMDEPLOY.command(made) == (
        "lmdeploy serve api_server Qwen/Qwen3-8B --session-len 40960 --cache-max-entry-count 0.8 "
        "--max-batch-size 16 --quant-policy 8"
    )
    short = answer(made)
    assert short.startup_lines[-1].endswith("`session_len` truncated to 14080.")
    assert not short.fits


def test_changes_are_its_own_settings() -> None:
    found = LMDEPLOY.changes(plan())

    assert [c.argument for c in found] == ["--set cache_max_entry_count=0.9", "--kv-dtype int8"]
    assert all(rank_plans(c.plan) for c in found)
