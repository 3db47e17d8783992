"""Weights as vLLM loads them: shares, copies, tables and the allocator's rounding, by hand."""

from __future__ import annotations

import pytest

from kvcalc import resolve
from kvcalc.core.plan import Plan
from kvcalc.core.shard import Parallel
from kvcalc.engines.coefficients import coefficients
from kvcalc.engines.vllm.defaults import run_of
from kvcalc.engines.vllm.weights import resident, rope_bytes, tail
from kvcalc.engines.vllm.widths import stored_beside, widths_of
from tests.engines.test_vllm_budget import plan, widths

GIB, MIB = 2**30, 2**20
KNOWN = coefficients("vllm", ())


def load(p: Plan, stage: int = 0) -> int:
    found = resident(p, run_of(p), widths(p), KNOWN, stage)
    assert found is not None
    return found.bytes.best


def test_llama_8b_loads_14_9888_gib() -> None:
    """16,060,522,496 B of tensors and a rotary table of 131,072 · 128 · 2 B."""
    size = load(plan("llama-3.1-8b"))
    assert size == 16_060_522_496 + 131_072 * 128 * 2
    assert round(size / GIB, 4) == 14.9888


def test_rotary_tables() -> None:
    """Scout 10,485,760 positions: 2.5 GiB. Gemma-3-27B: 8 · 131,072 and 131,072, 128 wide."""
    assert rope_bytes(resolve.model_of("llama-4-scout-17b-16e"), 4096) == 5 * GIB // 2
    gemma = rope_bytes(resolve.model_of("gemma-3-27b"), 4096)
    assert gemma == (8 + 1) * 131_072 * 128 * 2


def test_the_allocator_rounds_large_tensors() -> None:
    """35 MiB take a segment of 36 and keep the rest; 34.5 give 1.5 back; small ones share."""
    assert tail(35 * MIB) == MIB
    assert tail(69 * MIB // 2) == 0
    assert tail(69 * MIB // 2, every=True) == 3 * MIB // 2
    assert tail(9 * MIB) == 0


def test_qwen3_14b_in_fp8() -> None:
    """Its 35, 25 and 85 MiB matrices leave 3 MiB a layer: 15.34 GiB, 15.3388 logged."""
    assert load(plan("qwen3-14b", weights="fp8_channel")) / GIB == pytest.approx(15.3388, abs=0.01)


def test_mxfp4_experts_grow_for_their_kernel() -> None:
    """gpt-oss-20b: 2880 × 2880 stored; Marlin 3072 × 2944, Triton on Hopper 3072 × 2880.

    Marlin: 32 · 24 · 3 · (3072 · 2944 − 2880²) · 4.25 / 8 = 918 MB more. Triton to 0.16 pads the
    values alone, (3072 · 2880 − 2880²) · 4 / 8 each: 13.47 GiB printed on H100, 64.38 of the 120b.
    """
    marlin, triton = (
        load(plan("gpt-oss-20b", gpu, version="0.12.0")) for gpu in ("a100-40-sxm", "h100-sxm")
    )
    experts = 32 * 24 * 3
    grown = experts * (3072 * 2944 - 2880 * 2880) * 17 // 32
    padded = experts * (3072 * 2880 - 2880 * 2880) // 2
    assert marlin - triton == pytest.approx(grown - padded, rel=0.05)
    assert marlin / GIB == pytest.approx(13.7025, abs=0.005)
    assert triton / GIB == pytest.approx(13.47, abs=0.03)
    large = load(plan("gpt-oss-120b", "h100-sxm", version="0.12.0"))
    assert large / GIB == pytest.approx(64.38, abs=0.05)


def test_a_tower_is_loaded_and_a_prediction_layer_is_not() -> None:
    gemma, deepseek = resolve.model_of("gemma-3-12b"), resolve.model_of("deepseek-v3")
    assert stored_beside(gemma, widths_of(gemma, None)) == (12_187_325_040 - 11_766_034_176, 0)
    tower, unloaded = stored_beside(deepseek, widths_of(deepseek, None))
    assert tower == 0
    assert unloaded == (deepseek.stored_parameters or 0) - (deepseek.parameters or 0)


def test_tensor_parallel_shares_and_copies() -> None:
    """Llama-3.1-8B over 16 ranks copies its 8 KV heads: twice 1/16 of K and V each."""
    one, eight, sixteen = (load(plan("llama-3.1-8b", parallel=Parallel(tp=n))) for n in (1, 8, 16))
    table, norms = 131_072 * 128 * 2, 4 * 32 * 4096
    assert eight == pytest.approx((one - table - norms) / 8 + table + norms, abs=MIB)
    kv = 32 * 2 * 4096 * 1024 * 2
    assert sixteen == pytest.approx((one - table - norms + kv) / 16 + table + norms, abs=MIB)


def test_stages_hold_their_ends() -> None:
    """Llama-3.1-8B, 2 stages: 16 layers and one of embedding and head each."""
    stages = [load(plan("llama-3.1-8b", parallel=Parallel(pp=2)), s) for s in (0, 1)]
    assert stages[0] == stages[1]
    tied = [load(plan("qwen2.5-0.5b", parallel=Parallel(pp=2)), s) for s in (0, 1)]
    assert sum(tied) - load(plan("qwen2.5-0.5b")) > 151_936 * 896 * 2


def test_experts_over_data_parallel_ranks() -> None:
    """Routed experts are cut over tp · dp, or whole ones dealt out with --ep; the rest stays."""
    split = load(plan("qwen3-30b-a3b", parallel=Parallel(tp=1, dp=2)))
    dealt = load(plan("qwen3-30b-a3b", parallel=Parallel(tp=1, dp=2, ep=2)))
    whole = load(plan("qwen3-30b-a3b"))
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert split == dealt
    assert whole - split == pytest.approx(experts / 2, rel=0.001)


def test_sixteen_bit_weights_of_one_gpu_are_exact() -> None:
    p = plan("llama-3.1-8b")
    found = resident(p, run_of(p), widths(p), KNOWN, 0)
    assert found is not None
    assert (found.basis, found.bytes.low) == ("exact", found.bytes.high)
    quantised = plan("llama-3.1-8b", weights="awq")
    found = resident(quantised, run_of(quantised), widths(quantised), KNOWN, 0)
    assert found is not None
    assert found.bytes.low < found.bytes.best < found.bytes.high
