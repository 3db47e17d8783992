"""The peak of vLLM's profiling run: a forward pass over T tokens, then a sampler over R rows.

The larger of the two is charged; the sampler leads at the defaults of an 80 GB card. Counts of
live buffers, read in vLLM's model code and samplers, in its expert kernels and in PyTorch's sort;
the printed peaks of public logs agree within 3 % (0.6.4: 2.07 GiB, 0.6.5: 0.94, 1.26) and of
0.10 to 0.19 on H100 within 0.1 GiB.
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.plan import Plan
from kvcalc.core.units import MIB
from kvcalc.engines.coefficients import Coefficients
from kvcalc.engines.vllm.defaults import Run, chunks_prompts, is_datacentre_blackwell
from kvcalc.engines.vllm.widths import Widths

#: Bytes of an activation; vLLM runs no model in 4 bytes by default.
ELEMENT = 2
#: PyTorch's sort changes its algorithm at so many rows.
SORT_ROWS = 128
#: Programs of the Triton top-k kernel: one a multiprocessor, each with a row of fp32 logits.
_MULTIPROCESSORS = {
    "t4": 40, "rtx3060": 28, "rtx3090": 82, "rtx-a5000": 64, "rtx-a6000": 84, "a40": 84,
    "a10": 72, "a30": 56, "a100": 108, "l4": 58, "l40": 142, "rtx4060": 34, "rtx4070": 46,
    "rtx4080": 76, "rtx4090": 128, "rtx5000-ada": 100, "rtx6000-ada": 142, "h20": 78,
    "h100-pcie": 114, "h100": 132, "h200": 132, "gh200": 132, "rtx5060": 36, "rtx5070": 70,
    "rtx5080": 84, "rtx5090": 170, "rtx-pro-6000": 188, "dgx-spark": 48, "b200": 148, "gb200": 148,
    "b300": 148, "gb300": 148, "mi210": 104, "mi250": 104, "mi300": 304, "mi325": 304,
    "mi350": 256, "mi355": 256, "radeon": 64,
}  # fmt: skip
_SOME_MULTIPROCESSORS = 132
#: PyTorch's workspaces of cuBLAS and, during the forward pass, of cuBLASLt: on Hopper and
#: datacentre Blackwell, elsewhere.
_CUBLAS_LARGE, _CUBLAS = (32 * MIB, 32 * MIB), (8 * MIB + 128 * 1024, MIB)
#: Experts of these formats run as modular kernels, whose workspaces stay from 0.14 on; a step is
#: cut into pieces of so many tokens.
_MODULAR = frozenset({"bf16", "fp16", "fp8", "fp8_block", "fp8_channel", "fp8_tensor"})
_MODULAR_FROM, _EXPERT_STEP = (0, 14), 16_384
#: All that the device lacks is charged from here on, not the sum of parts.
CONSUMED = (0, 27)


#: GPUs without FlashAttention: the V0 engine ran xFormers there, which holds one more state.
_XFORMERS = frozenset({"Volta", "Turing"})


class Peak(NamedTuple):
    """The charged peak, what leads it, and what it may be at least."""

    bytes: int
    note: str
    least: int


def peak(plan: Plan, run: Run, w: Widths, coefficients: Coefficients, *, last: bool) -> Peak:
    """Bytes alive at the most; the sampler runs on the last pipeline stage only."""
    forward = forward_bytes(plan, run, w)
    sampler = sampler_bytes(plan, run, w, coefficients) if last else 0
    cublas, cublas_lt = workspace_bytes(plan, run)
    if sampler > forward:
        best = sampler + cublas
        # Two of the V0 engine's starts in chunks show the forward pass alone, three the sampler.
        least = forward if run.v0 and chunks_prompts(plan) else best
        return Peak(best, f"{run.max_seqs:,} rows of {w.vocabulary:,} logits", least)
    best = forward + cublas + cublas_lt
    return Peak(best, f"{run.batched_tokens:,} tokens at once", best)


def forward_bytes(plan: Plan, run: Run, w: Widths) -> int:
    """T · (k · d + max(MLP, attention)) elements: the widest layer beside the residual stream.

    k: residual and hidden state; in V0 also the state before its norm; compiled (V1) also the
    input of the running piece of the graph, which its caller holds. MLP: gate, up and their
    product, 3 f / tp. Experts: every token `topk` times. Llama-3.1-8B, T 20,000, V0:
    20,000 · (3 · 4,096 + 3 · 14,336) · 2 = 2.06 GiB. The stages of a pipeline also hold the two
    streams that go from one to the next. Under xFormers (V0 on Volta and Turing) attention's
    output is a state more: Qwen2.5-7B, T 32,768: (4 · 3,584 + 3 · 18,944) · 65,536 B = 4.34 GiB.
    """
    tp = plan.parallel.tp
    inner, kept = w.mlp_width // tp, 0
    if w.experts:
        kept = expert_bytes(plan, run, w)
        wide = _expert_width(plan, w)
        held = 0 if kept else w.experts_per_token * (max(2 * wide, w.hidden) + wide)
        inner += held + w.hidden
    inner = max(inner, w.attention_width // tp)
    streams = 2 if run.eager and not run.v0 else 3
    streams += run.v0 and plan.device.architecture in _XFORMERS
    received = 2 if plan.parallel.pp > 1 else 0
    states = (streams + received) * w.hidden + inner
    return run.batched_tokens * ELEMENT * states + kept


def expert_bytes(plan: Plan, run: Run, w: Widths) -> int:
    """Workspaces of modular expert kernels, kept once the profiling run has grown them.

    T · topk · (max(f, d) + max(2 f, d)) elements of a rank's width f; up to 0.13, and in other
    formats, they are freed after each layer. Mixtral-8x7B, tp 2, T 8,192: 8,192 · 2 ·
    (7,168 + 14,336) · 2 = 0.66 GiB.
    """
    modular = (plan.weights.format or "bf16") in _MODULAR
    if not w.experts or not modular or run.v0 or run.release < _MODULAR_FROM:
        return 0
    wide = _expert_width(plan, w)
    tokens = min(run.batched_tokens, _EXPERT_STEP)
    each = max(wide, w.hidden) + max(2 * wide, w.hidden)
    return tokens * w.experts_per_token * each * ELEMENT


def _expert_width(plan: Plan, w: Widths) -> int:
    return w.expert_width // (1 if plan.parallel.ep > 1 else plan.parallel.tp)


def sampler_bytes(plan: Plan, run: Run, w: Widths, coefficients: Coefficients) -> int:
    """c · R · V, hidden states, what the run has kept, and where Triton masks logits a row each.

    Hidden states: all T, the R rows that are sampled, and a copy of those. Logits are gathered:
    tensor parallelism does not divide them.
    """
    each, buffer = logit_bytes(run, coefficients)
    states = run.batched_tokens if run.v0 else run.batched_tokens + 2 * run.max_seqs
    size = each * run.max_seqs * w.vocabulary + states * w.hidden * ELEMENT
    if buffer:
        size += min(multiprocessors(plan), run.max_seqs) * w.vocabulary * 4
    return size + expert_bytes(plan, run, w)


def workspace_bytes(plan: Plan, run: Run) -> tuple[int, int]:
    """PyTorch's workspaces of cuBLAS and cuBLASLt; V0's printed peaks leave no room for them."""
    if run.v0 or run.platform != "cuda":
        return 0, 0
    large = plan.device.architecture == "Hopper" or is_datacentre_blackwell(plan)
    return _CUBLAS_LARGE if large else _CUBLAS


def logit_bytes(run: Run, coefficients: Coefficients) -> tuple[int, bool]:
    """Bytes alive per logit while sampling, and whether Triton's buffer stands beside them.

    To 0.16 top-k and top-p sort: bf16 2 + fp32 4 + sorted values 4 + indices 8 + the segmented
    sort's 20 (38), below 128 rows one flat sort's 32 (50). From 0.17 Triton masks in place: 2 + 4
    + probabilities 4 + noise 4. From 0.21 FlashInfer: masked copy 4 + probabilities 4. The V2
    runner's first releases sample bf16 logits; 0.33 also runs the fp32 pipeline.
    """
    cuda = run.platform == "cuda"
    if run.v2_runner:
        if run.release < (0, 33):
            return 2, False
        return (14, False) if cuda else (6, True)
    if run.release < (0, 17):
        if run.max_seqs >= SORT_ROWS:
            return 38, False
        return (50 if cuda else round(coefficients["rocm_logit"].value)), False
    return 14, run.release < (0, 21) or not cuda


def penalty_bytes(run: Run, w: Widths) -> int:
    """The V2 runner's counts of every output token of every slot, and a bit for prompts.

    R · (4 V + 4 ceil(V / 32)), resident; `v1/worker/gpu/sample/penalties.py`. They stand before
    the profiling run and are no weights, so they are charged where all that was consumed is.
    """
    if not run.v2_runner or run.release < CONSUMED:
        return 0
    return run.max_seqs * 4 * (w.vocabulary + -(-w.vocabulary // 32))


def multiprocessors(plan: Plan) -> int:
    """Multiprocessors of the GPU, by the longest name that begins its id."""
    name = plan.device.id or ""
    known = [key for key in _MULTIPROCESSORS if name.startswith(key)]
    return _MULTIPROCESSORS[max(known, key=len)] if known else _SOME_MULTIPROCESSORS
