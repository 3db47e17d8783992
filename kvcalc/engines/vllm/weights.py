"""Weights as they lie on one GPU after vLLM has loaded them ("Model loading took …").

Linear layers and experts are split, KV heads beyond their number copied, norms, routers and MLA's
down-projections replicated, vocabularies padded to 64; beside the tensors stand the tables of the
rotary embedding and what the allocator rounds up. Sources: vLLM 0.33 `model_executor/layers`
(vocab_parallel_embedding, rotary_embedding, linear, fused_moe), PyTorch's CUDACachingAllocator;
28 loads of public logs (median error 0.05 % on CUDA with a plain format).
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.cache import Full, Latent
from kvcalc.core.model import Model
from kvcalc.core.plan import Interval, Plan
from kvcalc.core.shard import stage_layers
from kvcalc.core.units import MIB, cdiv, pad
from kvcalc.engines.coefficients import Coefficients
from kvcalc.engines.vllm.defaults import Run, is_datacentre_blackwell
from kvcalc.engines.vllm.widths import Widths, stored_beside

#: Vocabulary rows are padded to this (vLLM's DEFAULT_VOCAB_PADDING_SIZE).
VOCABULARY_PAD = 64
#: PyTorch: a tensor of 10 MiB or more gets a segment of whole 2 MiB; a rest up to 1 MiB stays
#: charged to it.
LARGE, SEGMENT, SPLIT = 10 * MIB, 2 * MIB, MIB
#: Where windowed and full layers have rotary tables of their own.
_TWO_TABLES = ("gemma3", "gemma4", "mimo_v2")
#: Linear rope scaling makes the table of full layers that much longer (Gemma-3 above 32k).
_SCALED_TABLE = {"gemma3": 8}
_SCALED_FROM = 131_072
#: MXFP4 kernels pad hidden size and width: Marlin (Ampere, Ada, RTX Blackwell), Triton on Hopper
#: (to 0.16 the hidden size alone, and the values but not their scales), FlashInfer on datacentre
#: Blackwell, ROCm.
_MARLIN_PAD, _TRITON_PAD, _WIDE_PAD = (256, 128), (256, 1), (256, 256)
_TRITON_VALUES, TRITON_WIDE_FROM, BEFORE_WIDE = 4 / 4.25, (0, 17), (0, 16)
SIXTEEN_BIT = frozenset({"bf16", "fp16"})
_INT4 = frozenset({"gptq", "awq", "w4a16", "gptq_g_idx", "int4"})


class Resident(NamedTuple):
    """Bytes on one GPU of a stage, and how sure."""

    bytes: Interval
    basis: str
    note: str


class _Parts(NamedTuple):
    """Bytes of the whole loaded model by how they are shared out."""

    embedding: float
    routed: float
    tower: float
    rest: float


def resident(
    plan: Plan, run: Run, widths: Widths, coefficients: Coefficients, stage: int
) -> Resident | None:
    """Weights of one GPU of a pipeline stage; None if the weights' size is not known."""
    total = plan.weights.bytes
    if total is None:
        return None
    best = _bytes(plan, run, widths, coefficients, stage, total)
    form = plan.weights.format or ""
    if form in SIXTEEN_BIT and plan.weights.basis == "exact" and plan.parallel.gpus == 1:
        return Resident(Interval(best, best, best), "exact", form)
    name = "weights_nvfp4" if form == "nvfp4" else "weights"
    span = coefficients[name]
    low_scale, high_scale = 1 + span.low / 100, 1 + span.high / 100
    low, high = plan.weights.low_bytes or total, plan.weights.high_bytes or total
    low_scale, high_scale = min(low_scale, low / total), max(high_scale, high / total)
    if not widths.exact and plan.parallel.tp > 1:
        high_scale += span.high / 100
    least = best
    if form == "mxfp4" and plan.device.architecture == "Hopper" and run.release >= TRITON_WIDE_FROM:
        # One start of two ranks shows the wider padding; without it:
        narrow = run._replace(release=BEFORE_WIDE)
        least = min(best, _bytes(plan, narrow, widths, coefficients, stage, total))
    ends = Interval(best, int(least * low_scale), int(best * high_scale))
    return Resident(ends, "estimated", form)


def _bytes(
    plan: Plan, run: Run, w: Widths, coefficients: Coefficients, stage: int, total: int
) -> int:
    model, p = plan.model, plan.parallel
    parts = _parts(plan, run, w, coefficients, total)
    counts = stage_layers(len(model.layers), p) if p.pp > 1 else [w.layers]
    share = counts[stage] / w.layers
    per_element = parts.rest / max(w.attention + w.dense, 1)
    copied = share * (w.replicated * per_element + 2 * w.layers * w.hidden * (2 + w.experts))
    size = (share * parts.rest - min(copied, share * parts.rest)) / p.tp + copied
    size += share * _copied_heads(model, w, p.tp) * per_element
    size += share * parts.routed * _expert_share(plan, w)
    rows = pad(w.vocabulary, VOCABULARY_PAD) / w.vocabulary
    size += parts.embedding * rows / p.tp * _ends(stage, p.pp, tied=w.tied)
    if stage == 0:
        size += parts.tower / p.tp
    size += rope_bytes(model, plan.context)
    every = run.platform == "rocm" and run.release < (0, 33)
    if every:
        size += coefficients["rocm_load"].bytes()[0]
    return int(size) + counts[stage] * _tails(plan, run, w, per_element, every=every)


def _parts(plan: Plan, run: Run, w: Widths, coefficients: Coefficients, total: int) -> _Parts:
    model, form = plan.model, plan.weights.format or ""
    tower, unloaded = stored_beside(model, w)
    known = model.weights.bytes if model.weights else None
    given = any(t.type == "as given" for t in plan.weights.types)
    size, tower_bytes = float(total), 0.0
    if known == total and model.stored_parameters:
        tower_bytes = tower * total / model.stored_parameters
        size -= unloaded * total / model.stored_parameters + tower_bytes
    elif not given:  # a format's size is that of the text model
        tower_bytes = 2.0 * tower
    if form == "fp32":  # loaded in 16 bits
        size, tower_bytes = size / 2, tower_bytes / 2
    elements = max(w.embedding + w.body, 1)
    embedding = min(max(2.0 * w.embedding, size * w.embedding / elements), size)
    if form == "int4":
        embedding = size * w.embedding / elements
    rest = size - embedding
    routed = rest * w.routed / max(w.body, 1)
    if form == "mxfp4" and w.routed:
        routed = min(rest, w.routed * 4.25 / 8)
        rest -= routed
        routed *= _padded(plan, run, w)
    else:
        rest -= routed
    if run.platform == "rocm" and form in _INT4:
        routed *= coefficients["rocm_int4_experts"].value
    return _Parts(embedding, routed, tower_bytes, rest)


def _padded(plan: Plan, run: Run, w: Widths) -> float:
    """By how much an MXFP4 expert grows for its kernel: gpt-oss 2880 × 2880 to 3072 × 2944."""
    (hidden, width), padded = _MARLIN_PAD, 1.0
    if run.platform == "rocm" or is_datacentre_blackwell(plan):
        hidden, width = _WIDE_PAD
    elif plan.device.architecture == "Hopper":
        hidden, width = _WIDE_PAD if run.release >= TRITON_WIDE_FROM else _TRITON_PAD
        padded = _TRITON_VALUES
    local = w.expert_width if plan.parallel.ep > 1 else w.expert_width // plan.parallel.tp
    grown = pad(w.hidden, hidden) / w.hidden * pad(local, width) / max(local, 1)
    return 1 + (grown - 1) * padded


def _copied_heads(model: Model, w: Widths, tp: int) -> float:
    """K and V elements that a rank holds beyond its 1 / tp, for tp above the KV heads."""
    extra = 0.0
    for group in model.groups:
        if isinstance(group.cache, Full):
            c = group.cache
            own = w.hidden * c.kv_heads * (c.key_dim + c.value_dim)
            share = max(1, c.kv_heads // tp) / c.kv_heads - 1 / tp
            extra += len(group.layers) * own * max(share, 0.0)
    return extra


def _expert_share(plan: Plan, w: Widths) -> float:
    """Of the routed experts: whole ones with expert parallelism, else cut over tp · dp ranks."""
    p = plan.parallel
    if p.ep > 1 and w.experts:
        return cdiv(w.experts, p.ep) / w.experts
    return 1 / (p.tp * p.dp)


def _ends(stage: int, pp: int, *, tied: bool) -> float:
    """Which share of embedding and head a stage holds: the first one, the last the other."""
    if pp == 1:
        return 1.0
    each = 1.0 if tied else 0.5
    return each * ((stage == 0) + (stage == pp - 1))


def rope_bytes(model: Model, context: int) -> int:
    """Tables of cosines and sines: positions · rotary dimension · 2 bytes, on every GPU whole.

    Llama-4-Scout: 10,485,760 · 128 · 2 = 2.5 GiB.
    """
    positions = model.max_context_tokens or context
    architecture = model.architecture or ""
    tables: dict[bool, int] = {}
    for group in model.attention:
        cache = group.cache
        dim = cache.rope_dim if isinstance(cache, Latent) else getattr(cache, "key_dim", 0)
        windowed = cache.kind == "sliding_window" and architecture.startswith(_TWO_TABLES)
        longer = 1 if windowed or positions < _SCALED_FROM else _SCALED_TABLE.get(architecture, 1)
        tables[windowed] = max(tables.get(windowed, 0), 2 * positions * longer * dim)
    return sum(tables.values())


def _tails(plan: Plan, run: Run, w: Widths, per_element: float, *, every: bool) -> int:
    """What the allocator charges a layer beyond its matrices; MXFP4's scales are tensors too."""
    tp, size = plan.parallel.tp, round(2 * per_element) / 2
    mlp = w.mlp_width * w.hidden
    mixer = (w.attention - w.kv) // w.layers
    split = [mixer // 2 + w.kv // w.layers, mixer // 2]
    tensors = [int(m * size / tp) for m in (*split, mlp * 2 // 3, mlp // 3)]
    if w.experts:
        expert = w.experts * w.expert_width * w.hidden * _expert_share(plan, w)
        sizes: tuple[float, ...] = (size,)
        if plan.weights.format == "mxfp4":
            expert, sizes = expert * _padded(plan, run, w), (1 / 2, 1 / 32)
        tensors[2:] = [int(n * expert * b) for n in (2, 1) for b in sizes]
    return sum(tail(t, every=every) for t in tensors)


def tail(size: int, *, every: bool = False) -> int:
    """Bytes that a tensor of `size` is charged beyond it: 35 MiB take a segment of 36.

    `every`: measured by the device's free memory, where the whole segment counts.
    """
    if size < LARGE:
        return 0
    rest = pad(size, SEGMENT) - size
    return rest if every or rest <= SPLIT else 0
