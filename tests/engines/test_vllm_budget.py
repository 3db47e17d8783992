"""vLLM's budget: every line by hand, from figures that its sources or logs state."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvcalc import resolve
from kvcalc.catalog.gpus import load_gpu
from kvcalc.core.errors import KvcalcError
from kvcalc.core.plan import Device, Memory, Plan
from kvcalc.core.shard import Parallel
from kvcalc.engines.coefficients import coefficients
from kvcalc.engines.rules import rules_for
from kvcalc.engines.vllm.activation import (
    expert_bytes,
    forward_bytes,
    multiprocessors,
    penalty_bytes,
    sampler_bytes,
)
from kvcalc.engines.vllm.budget import budget
from kvcalc.engines.vllm.defaults import capture_sizes, run_of
from kvcalc.engines.vllm.weights import resident
from kvcalc.engines.vllm.widths import Widths, widths_of
from kvcalc.shape import Shape, custom_model

GIB, MIB = 2**30, 2**20
KNOWN = coefficients("vllm")


def plan(model: str, gpu: str = "h100-sxm", weights: str | None = None, **more: Any) -> Plan:
    found, device = resolve.model_of(model), load_gpu(gpu)
    base = Plan(
        model=found,
        storage=resolve.storage_of(found, "auto", None, None, None),
        parallel=Parallel(),
        weights=resolve.weights_of(found, weights, None),
        memory=Memory(device.memory_bytes, device.basis, device.low_bytes, device.high_bytes),
        context=4096,
        device=Device(
            device.id,
            device.name,
            device.vendor,
            device.entry["architecture"],
            unified_memory=device.entry["unified_memory"],
        ),
        rules=rules_for("vllm"),
    )
    return base._replace(**more)


def widths(p: Plan) -> Widths:
    return widths_of(p.model, p.weights.bytes)


def lines(p: Plan) -> dict[str, int]:
    found = budget(p, run_of(p), widths(p), KNOWN, 0, len(p.model.layers) // p.parallel.pp)
    return {line.item: line.bytes for line in found}


def load(p: Plan, stage: int = 0) -> int:
    found = resident(p, run_of(p), widths(p), KNOWN, stage)
    assert found is not None
    return found.bytes.best


# Activations


def test_widths_follow_from_parameters() -> None:
    llama, qwen = widths(plan("llama-3.1-8b")), widths(plan("qwen3-30b-a3b"))
    assert (llama.mlp_width, llama.hidden, llama.tied) == (3 * 14_336, 4096, False)
    assert (qwen.expert_width, qwen.experts_per_token) == (768, 8)
    assert widths(plan("gpt-oss-20b")).expert_width == 2880


def test_forward_pass_of_a_whole_prompt() -> None:
    """Log of 0.6.4, 20,000 tokens: 2 · 20,000 · (3 · 4,096 + 3 · 14,336) = 2.060 GiB; 2.07 there.

    Compiled (0.8 on), the third state is the input of the running piece; eagerly there is none.
    """
    p = plan("llama-3.1-8b", "rtx3090", version="0.6.4", context=20_000)
    assert forward_bytes(p, run_of(p), widths(p)) == 2 * 20_000 * (3 * 4096 + 3 * 14_336)
    p = p._replace(version="0.12.0", settings={"max_num_batched_tokens": 2048})
    assert forward_bytes(p, run_of(p), widths(p)) == 2 * 2048 * (3 * 4096 + 3 * 14_336)
    p = p._replace(settings={"max_num_batched_tokens": 2048, "enforce_eager": True})
    assert forward_bytes(p, run_of(p), widths(p)) == 2 * 2048 * (2 * 4096 + 3 * 14_336)


def test_a_later_stage_receives_both_streams() -> None:
    """8,192 tokens: 2 · 4,096 elements each of hidden state and residual; 0.19 prints 1.05 GiB."""
    one = plan("llama-3.1-8b", version="0.19.0")
    two = one._replace(parallel=Parallel(pp=2))
    sizes = [forward_bytes(p, run_of(p), widths(p)) for p in (one, two)]
    assert sizes[1] - sizes[0] == 8192 * 2 * 4096 * 2
    assert -lines(two)["activations"] / GIB == pytest.approx(1.05, abs=0.03)


def test_forward_pass_of_experts() -> None:
    """Qwen3-30B-A3B, 8,192 tokens: 8 · (max(1,536, 2,048) + 768) + 2,048 beside 3 · 2,048."""
    p = plan("qwen3-30b-a3b", version="0.12.0")
    w = widths(p)
    inner = 8 * (2048 + 768) + 2048 + w.mlp_width
    assert forward_bytes(p, run_of(p), w) == 2 * 8192 * (3 * 2048 + inner)


@pytest.mark.parametrize(
    ("model", "tp", "kept"),
    [
        # T · topk · (max(f, d) + max(2 f, d)) · 2 bytes
        ("qwen3-30b-a3b", 1, 8192 * 8 * (2048 + 2048) * 2),
        ("deepseek-v2-lite", 1, 8192 * 6 * (2048 + 2816) * 2),
        ("mixtral-8x7b", 2, 8192 * 2 * (7168 + 14_336) * 2),
    ],
)
def test_workspaces_of_modular_experts_stay(model: str, tp: int, kept: int) -> None:
    """From 0.14 on they stand beside the sampler: peaks of 2.68, 1.93, 1.21 GiB on H100 in 0.19."""
    p = plan(model, version="0.19.0", parallel=Parallel(tp=tp))
    assert expert_bytes(p, run_of(p), widths(p)) == kept
    printed = {"qwen3-30b-a3b": 2.68, "deepseek-v2-lite": 1.93, "mixtral-8x7b": 1.21}[model]
    assert -lines(p)["activations"] / GIB == pytest.approx(printed, abs=0.02)
    for other in (p._replace(version="0.13.0"), plan(model, "h100-sxm", "gptq", version="0.19.0")):
        assert expert_bytes(other, run_of(other), widths(other)) == 0


@pytest.mark.parametrize(
    ("version", "rows", "each", "programs"),
    [
        ("0.6.5", 256, 38, 0),
        ("0.12.0", 1024, 38, 0),
        ("0.12.0", 64, 50, 0),
        ("0.18.0", 1024, 14, 132),
        ("0.21.0", 1024, 14, 0),
        ("0.26.0", 1024, 2, 0),
        ("0.30.0", 1024, 2, 0),
        ("0.33.0", 1024, 14, 0),
    ],
)
def test_sampler(version: str, rows: int, each: int, programs: int) -> None:
    """c bytes a logit of R · 128,256, hidden states of T + 2 R tokens, a row a multiprocessor."""
    settings = {"max_num_seqs": rows, "max_num_batched_tokens": 2048}
    p = plan("llama-3.1-8b", version=version, settings=settings)
    states = 2048 + (0 if version == "0.6.5" else 2 * rows)
    want = each * rows * 128_256 + states * 4096 * 2 + programs * 128_256 * 4
    assert sampler_bytes(p, run_of(p), widths(p), KNOWN) == want


def test_sampler_on_rocm() -> None:
    p = plan("llama-3.1-8b", "radeon-ai-pro-r9700", version="0.13.0", settings={"max_num_seqs": 64})
    size = sampler_bytes(p, run_of(p), widths(p), KNOWN)
    assert size == 70 * 64 * 128_256 + (2048 + 2 * 64) * 4096 * 2


def test_penalties_stay_resident_in_the_v2_runner() -> None:
    """256 slots · (4 · 128,256 + 4 · 4,008) B; none in V1."""
    p = plan("llama-3.1-8b", "a100-80-sxm")
    assert penalty_bytes(run_of(p), widths(p)) == 256 * 4 * (128_256 + 4008)
    assert "sampler" in lines(p)
    assert "sampler" in lines(p._replace(version="0.27.1"))
    # 0.26 charges parts, and the counts are neither weights nor the profiling run's.
    assert "sampler" not in lines(p._replace(version="0.26.0"))
    assert "sampler" not in lines(plan("qwen3-30b-a3b", version="0.28.0"))


def test_the_sampler_runs_on_the_last_stage_only() -> None:
    p = plan("llama-3.1-8b", version="0.12.0", parallel=Parallel(pp=2))
    ranks = p.rules.ranks(p) if p.rules else []
    peaks = [-line.bytes for r in ranks for line in r.budget if line.item == "activations"]
    assert peaks[0] < peaks[1]


def test_multiprocessors_by_the_longest_name() -> None:
    assert multiprocessors(plan("llama-3.1-8b", "h100-pcie")) == 114
    assert multiprocessors(plan("llama-3.1-8b", "h100-sxm")) == 132


# Defaults and graphs


@pytest.mark.parametrize(
    ("gpu", "version", "tokens", "seqs"),
    [
        ("rtx4090", "0.33.0", 2048, 256),
        ("a100-80-sxm", "0.33.0", 2048, 256),
        ("h100-sxm", "0.12.0", 8192, 1024),
        ("h200-sxm", "0.33.0", 8192, 1024),
        ("b200", "0.24.0", 8192, 1024),
        ("b200", "0.28.0", 16_384, 1024),
        ("mi300x", "0.33.0", 16_384, 1024),
        ("dgx-spark-gb10", "0.32.0", 8192, 1024),
        ("dgx-spark-gb10", "0.33.0", 2048, 256),
        ("h100-sxm", "0.6.5", 4096, 256),
    ],
)
def test_defaults_by_gpu_and_release(gpu: str, version: str, tokens: int, seqs: int) -> None:
    run = run_of(plan("llama-3.1-8b", gpu, version=version))
    assert (run.batched_tokens, run.max_seqs) == (tokens, seqs)


def test_the_v0_engine_takes_whole_prompts() -> None:
    """Its context, 2,048 at least; beyond 32,768 in chunks of 2,048."""
    for context, tokens in ((1024, 2048), (20_000, 20_000), (131_072, 2048)):
        run = run_of(plan("llama-3.1-8b", version="0.6.5", context=context))
        assert run.batched_tokens == tokens
    assert run_of(plan("llama-3.1-8b", version="0.9.2", settings={"use_v1": False})).v0


def test_utilization_by_release() -> None:
    shares = [run_of(plan("llama-3.1-8b", version=v)).utilization for v in ("0.19.0", "0.20.0")]
    assert shares == [Fraction(9, 10), Fraction(92, 100)]


@pytest.mark.parametrize(("seqs", "sizes", "full"), [(256, 51, 35), (64, 19, 11), (1024, 51, 51)])
def test_captured_graphs(seqs: int, sizes: int, full: int) -> None:
    p = plan("llama-3.1-8b", settings={"max_num_seqs": seqs})
    run = run_of(p)
    assert (run.piecewise_graphs, run.full_graphs) == (sizes, full)


def test_capture_sizes_that_are_given() -> None:
    p = plan("llama-3.1-8b", settings={"cudagraph_capture_sizes": "1,2,16"})
    assert capture_sizes(p, (0, 33), 256, 8192) == [1, 2, 16]
    p = plan("llama-3.1-8b", settings={"max_cudagraph_capture_size": 8})
    assert capture_sizes(p, (0, 33), 256, 8192) == [1, 2, 4, 8]
    assert len(capture_sizes(plan("llama-3.1-8b", "b200"), (0, 33), 1024, 8192)) == 83


def test_graphs_are_charged_from_0_20_on() -> None:
    """0.25 MiB · 80 layers · (51 + 35), and nothing with enforce_eager.

    The V2 runner estimates nothing before 0.29; from 0.25 on it runs all models without experts
    and states, before that those on a list.
    """
    p = plan("llama-3.1-70b", "a100-80-sxm", "awq", version="0.23.0")
    assert -lines(p)["graphs"] == round(0.25 * MIB * 80 * 86)
    late = p._replace(version="0.28.0")
    found = budget(late, run_of(late), widths(late), KNOWN, 0, 80)
    doubt = next(x for x in found if x.item == "graphs")
    assert (doubt.bytes, doubt.high_bytes) == (0, 0)
    assert -doubt.low_bytes == round(0.25 * MIB * 80 * 86), "what two measured starts of V1 charged"
    asked = p._replace(version="0.28.0", settings={"use_v2_model_runner": False})
    assert -lines(asked)["graphs"] == round(0.25 * MIB * 80 * 86)
    for model in ("qwen3-30b-a3b", "qwen3.5-9b"):
        assert "graphs" in lines(plan(model, "a100-80-sxm", version="0.28.0"))
    assert "graphs" not in lines(p._replace(version="0.19.0"))
    assert "graphs" not in lines(p._replace(settings={"enforce_eager": True}))
    second = plan("qwen3-8b", "a100-80-sxm", version="0.22.0")
    assert "graphs" not in lines(second)
    assert -lines(second._replace(version="0.31.0"))["graphs"] == round(0.40 * MIB * 36 * 86)


# The V0 engine


@pytest.mark.parametrize(
    ("model", "version", "context", "settings", "tokens"),
    [
        ("llama-3.1-8b", "0.6.4", 20_000, {}, 20_000),
        ("llama-3.1-8b", "0.6.4", 35_000, {}, 512),
        ("llama-3.1-8b", "0.6.5", 35_000, {}, 2048),
        ("llama-3.1-8b", "0.6.5", 35_000, {"max_loras": 1}, 35_000),
        ("llama-3.1-8b", "0.6.5", 1024, {}, 2048),
        ("mistral-7b-v0.1", "0.6.5", 32_768, {"enable_chunked_prefill": True}, 2048),
        ("qwen2.5-vl-7b", "0.7.3", 65_536, {}, 65_536),
        ("qwen2.5-vl-7b", "0.7.3", 2048, {}, 5120),
    ],
)
def test_v0_takes_whole_prompts_or_chunks(
    model: str, version: str, context: int, settings: dict[str, object], tokens: int
) -> None:
    """In chunks by itself beyond 32,768 tokens: of 512, from 0.6.5 on of 2,048."""
    p = plan(model, version=version, context=context, settings=settings)
    assert run_of(p).batched_tokens == tokens


def test_v0_without_flash_attention_holds_a_state_more() -> None:
    """Qwen2.5-7B, 32,768 tokens: (4 · 3,584 + 3 · 18,944) · 2 B, printed 4.35 GiB on a V100."""
    settings = {"use_v1": False}
    p = plan("qwen2.5-7b", "v100-sxm2-32", version="0.8.5", context=32_768, settings=settings)
    want = 32_768 * 2 * (4 * 3584 + 3 * 18_944)
    assert -lines(p)["activations"] == pytest.approx(want, rel=1e-4)
    assert want / GIB == pytest.approx(4.35, abs=0.015)
    newer = plan("qwen2.5-7b", "a100-80-sxm", version="0.8.5", context=32_768, settings=settings)
    assert -lines(newer)["activations"] == pytest.approx(want - 32_768 * 2 * 3584, rel=1e-4)


def test_a_chunked_v0_peak_may_be_the_forward_pass_alone() -> None:
    """512 tokens of Llama-3.1-8B are 0.05 GiB, 256 rows of logits 1.17: both were logged."""
    p = plan("llama-3.1-8b", "rtx3090", version="0.6.4", context=35_000)
    line = next(x for x in budget(p, run_of(p), widths(p), KNOWN, 0, 32) if x.item == "activations")
    assert -line.high_bytes / GIB == pytest.approx(0.94 * 0.0527, abs=0.001)
    assert -line.bytes / GIB == pytest.approx(1.17, abs=0.01)


def test_the_trial_of_v1_is_refused_by_name() -> None:
    p = plan("llama-3.1-8b", version="0.7.1", settings={"use_v1": True})
    assert p.rules is not None
    with pytest.raises(KvcalcError, match=r"V1 engine of vLLM 0\.7\.1 was a trial"):
        p.rules.ranks(p)
    assert p.rules.ranks(p._replace(kv_pool=GIB))


def test_memory_shared_with_the_host_is_less_sure() -> None:
    """Five starts on a GB10 are 4.8 GiB above to 5.5 below the other rules."""
    p = plan("qwen3-8b", "dgx-spark-gb10", version="0.22.1")
    shared = next(x for x in budget(p, run_of(p), widths(p), KNOWN, 0, 36) if x.item == "other")
    assert (shared.high_bytes - shared.low_bytes) / GIB > 10


# The whole


def test_lines_add_up_and_enclose_the_best() -> None:
    for gpu in ("rtx3090", "h200-sxm", "mi300x"):
        for version in ("0.6.5", "0.8.5", "0.12.0", "0.28.0", "0.33.0"):
            p = plan("gemma-3-12b", gpu, version=version)
            found = budget(p, run_of(p), widths(p), KNOWN, 0, 48)
            for end in ("bytes", "low_bytes", "high_bytes"):
                values = [getattr(line, end) for line in found]
                assert sum(values[:-1]) == values[-1]
            assert all(line.low_bytes <= line.bytes <= line.high_bytes for line in found)


def test_requested_memory_is_rounded_up() -> None:
    """ceil(total · 0.92): of 1,000,000,001 B 79,999,999 stay unused, of a byte more one more."""
    p = plan("llama-3.1-8b", memory=Memory(10**9 + 1))
    assert lines(p)["unused"] == -(10**9 + 1 - 920_000_001)


def test_what_stands_outside_pytorch() -> None:
    """0.06 GiB, and what sampling loads: 0.07 on Hopper, from 0.18 on 0.19 (elsewhere 0.07).

    From 0.27 on 0.19 everywhere. V0 charged the CUDA context too until 0.6.5, and before 0.2.5
    nothing that NCCL keeps.

    With two ranks NCCL: before 0.11 1.8 GiB over NVLink and 0.15 without; behind an NVSwitch 0.42
    from 0.11 and 1.85 from 0.17 on, elsewhere 0.06 a peer.
    """

    def other(gpu: str, version: str, tp: int = 1) -> float:
        p = plan("llama-3.1-8b", gpu, version=version, parallel=Parallel(tp=tp))
        return round(-lines(p)["other"] / GIB, 2)

    assert other("rtx4090", "0.12.0") == 0.06
    assert other("rtx4090", "0.18.0") == 0.13
    assert other("rtx4090", "0.12.0", 2) == 0.12
    assert other("h100-sxm", "0.12.0") == 0.13
    assert other("h100-sxm", "0.12.0", 2) == 0.55
    assert other("h100-sxm", "0.19.0") == 0.25
    assert other("h100-sxm", "0.19.0", 2) == 2.10
    assert other("h200-nvl", "0.19.0", 2) == 0.31
    assert other("h100-sxm", "0.10.2", 2) == 1.86
    assert other("l40s", "0.10.2", 2) == 0.21
    assert other("h100-sxm", "0.8.5") == 0.56
    assert other("h100-sxm", "0.6.5") == 0.30
    assert other("h100-sxm", "0.6.6") == other("h100-sxm", "0.7.3") == 0.06
    assert other("a100-80-sxm", "0.2.4", 4) == 0.06
    assert other("rtx4090", "0.27.1") == 0.25
    assert other("mi300x", "0.11.0") == 1.30
    assert other("radeon-ai-pro-r9700", "0.13.0") == 0.25
    assert other("radeon-ai-pro-r9700", "0.13.0", 2) == 0.25


def test_reserve_adapters_and_draft_have_lines() -> None:
    """Llama-3.1-8B, 2 slots of rank 16: 2 · 16 · 2 B · (7 d + 3 f + 2 q + 2 kv) a layer."""
    settings = {"max_loras": 2, "num_speculative_tokens": 3}
    found = lines(plan("llama-3.1-8b", settings=settings, reserve=GIB))
    assert found["reserve"] == -GIB
    widths_of_layer = 7 * 4096 + 3 * 14_336 + 2 * 4096 + 2 * 1024
    assert -found["lora"] == pytest.approx(2 * 16 * 2 * 32 * widths_of_layer, rel=0.001)
    assert -found["draft"] == pytest.approx(218_112_000 * 2, rel=0.01)


def test_a_model_without_sizes_is_estimated_widely() -> None:
    shape = Shape(layers=32, kv_heads=8, head_dim=128)
    found = custom_model(shape)
    p = plan("llama-3.1-8b")._replace(model=found, weights=resolve.weights_of(found, None, "16GB"))
    made = budget(p, run_of(p), widths(p), KNOWN, 0, 32)
    peak = next(line for line in made if line.item == "activations")
    assert peak.low_bytes < 1.5 * peak.bytes
    assert made[-1].bytes > 40 * GIB
