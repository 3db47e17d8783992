"""vLLM's budget of one GPU: total · utilization − weights − what its profiling run leaves.

    pool = ceil(total · utilization) − weights − activations − non-torch − CUDA graphs

each line by the rules of the release. Sources: vLLM `v1/worker/gpu_worker.py` and
`utils/mem_utils.py` of 0.8 to 0.33, the V0 engine's `worker.py` before.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc.core.cache import State
from kvcalc.core.plan import BASIS, Interval, Plan
from kvcalc.core.results.fit import BudgetLine
from kvcalc.core.units import cdiv
from kvcalc.engines.coefficients import Coefficients
from kvcalc.engines.vllm.activation import CONSUMED, ELEMENT, peak, penalty_bytes
from kvcalc.engines.vllm.defaults import V2_ALWAYS, V2_DENSE, Run, is_switched
from kvcalc.engines.vllm.weights import SIXTEEN_BIT, resident
from kvcalc.engines.vllm.widths import Widths, stored_beside

#: Totals of equal cards differ by at least this much between drivers, in 1/1000. Readings that
#: differ by more than the others, of measured and of estimated totals, are of another setting (ECC
#: moves 6 %): the preset says which, and --gpu-memory takes the other.
_DRIVER, _MEASURED, _ESTIMATED = 3, 20, 10
#: NCCL connects after the baseline from here on (PyTorch 2.10); sampling loads more kernels.
_NCCL_LATE, _KERNELS_GREW = (0, 17), (0, 18)
#: The V0 engine charged PyTorch's peak alone, then with the CUDA context what stood beside it, and
#: last only what came after a baseline.
_V0_DEVICE, _V0_BASELINE = (0, 2, 5), (0, 6, 6)
#: GPUs whose ranks talk over their own links, for which NCCL keeps most.
_LINKED = ("h100", "h200", "h20", "h800", "gh200", "a100", "v100-sxm", "b100", "b200", "b300",
           "gb200", "gb300", "mi210", "mi250", "mi3")  # fmt: skip


def budget(
    plan: Plan, run: Run, w: Widths, coefficients: Coefficients, stage: int, layers: int
) -> tuple[BudgetLine, ...]:
    """The lines of one GPU of a pipeline stage of so many layers; the last is the KV pool."""
    lines = _memory(plan, run)
    weights = resident(plan, run, w, coefficients, stage)
    if weights is not None:
        lines.append(_line("weights", weights.bytes, weights.basis, weights.note))
        if run.draft_layers and stage == plan.parallel.pp - 1:
            lines.append(_draft(run, w, weights.bytes.best, layers))
    lines += _lora(plan, w, layers)
    lines += _activations(plan, run, w, coefficients, last=stage == plan.parallel.pp - 1)
    count = run.piecewise_graphs + run.full_graphs
    if run.charges_graphs and run.piecewise_graphs:
        name = "graph_v2" if run.v2_runner else "graph"
        low_best_high = coefficients[name].bytes(layers * count)
        lines.append(_measured("graphs", low_best_high, f"{count} × {layers} layers"))
    elif _runner_in_doubt(plan, run) and run.piecewise_graphs:
        most = coefficients["graph"].bytes(layers * count)[0]
        lines.append(_measured("graphs", (0, 0, most), "none by the V2 runner, if it runs"))
    lines.append(_other(plan, run, coefficients, last=stage == plan.parallel.pp - 1))
    return _with_pool(lines)


def _runner_in_doubt(plan: Plan, run: Run) -> bool:
    """Releases whose code takes the V2 runner for dense models, which charges no graphs.

    Two starts of 0.26 and 0.27 agree; two measured of 0.28 (ridgepoint) charged them as V1 does.
    """
    dense = run.v2_runner and not run.eager and V2_DENSE <= run.release < V2_ALWAYS
    return dense and plan.settings.get("use_v2_model_runner") is None


def _memory(plan: Plan, run: Run) -> list[BudgetLine]:
    """The total that a program sees, what utilization leaves unused, and --reserve."""
    memory = plan.memory
    assert memory is not None  # noqa: S101 - the API asked for it; for the type checker
    total = memory.bytes
    low, high, note = memory.low or total, memory.high or total, ""
    if memory.basis != "exact":
        spread = _MEASURED if memory.basis == "measured" else _ESTIMATED
        least, most = total * _DRIVER // 1000, total * spread // 1000
        low = total - min(max(total - low, least), most)
        high = total + min(max(high - total, least), most)
        note = "by driver"
    lines = [BudgetLine("memory", total, memory.basis, low, high, note)]
    share = run.utilization
    if share != 1:
        rest = total - cdiv(total * share.numerator, share.denominator)
        lines.append(BudgetLine("unused", *_exact(-rest), f"utilization {float(share):g}"))
    if plan.reserve:
        lines.append(BudgetLine("reserve", *_exact(-plan.reserve), "--reserve"))
    return lines


def _exact(value: int) -> tuple[int, str, int, int]:
    return value, "exact", value, value


def _draft(run: Run, w: Widths, weights: int, layers: int) -> BudgetLine:
    """Draft or prediction layers: at most like the model's own, an EAGLE head much smaller."""
    body = weights * w.body // max(w.body + w.embedding, 1)
    best = body * run.draft_layers // layers
    ends = Interval(best, best // 4, best * 5 // 4)
    word = "layer" if run.draft_layers == 1 else "layers"
    return _line("draft", ends, "estimated", f"{run.draft_layers} draft {word}")


def _lora(plan: Plan, w: Widths, layers: int) -> list[BudgetLine]:
    """Slots of adapters: max_loras · rank · (in + out) of every projection, 2 bytes each.

    One half of an adapter is split over tensor-parallel ranks.
    """
    loras = int(plan.settings.get("max_loras", 0))
    if not loras:
        return []
    rank = int(plan.settings.get("max_lora_rank", 16))
    inner = w.dense // (3 * w.layers * w.hidden) or w.expert_width
    mixer = w.attention // (w.layers * w.hidden)
    widths = 4 * w.hidden + 2 * (w.hidden + inner) + (inner + w.hidden) + mixer
    size = loras * rank * widths * layers * 2
    best = (size + cdiv(size, plan.parallel.tp)) // 2
    ends = Interval(best, best * 8 // 10, best * 13 // 10)
    return [_line("lora", ends, "estimated", f"{loras} slots of rank {rank}")]


def _activations(
    plan: Plan, run: Run, w: Widths, coefficients: Coefficients, *, last: bool
) -> list[BudgetLine]:
    found = peak(plan, run, w, coefficients, last=last)
    span = coefficients["activation"]
    best = found.bytes
    low, high = int(found.least * (100 + span.low) / 100), int(best * (100 + span.high) / 100)
    if not w.exact:
        low, high = low // 2, high * 2
    sees = _sees(plan, run, w)
    if sees:  # its output stays while the text model runs
        output = run.batched_tokens * w.hidden * ELEMENT
        best, low, high = best + output, low + output // 2, high + output
    for name, applies in (("encoder", sees), ("recurrent", _recurs(plan))):
        if applies:
            ends = coefficients[name].bytes()
            best, low, high = best + ends[0], low + ends[1], high + ends[2]
    lines = [_line("activations", Interval(best, low, high), "estimated", found.note)]
    counts = penalty_bytes(run, w) if last else 0
    if counts:
        note = f"penalties of {run.max_seqs:,} slots"
        lines.append(_line("sampler", Interval(counts, counts, counts), "estimated", note))
    return lines


def _sees(plan: Plan, run: Run, w: Widths) -> bool:
    """Whether an image or audio encoder is profiled too."""
    tower, _ = stored_beside(plan.model, w)
    return bool(tower) and run.release >= (0, 17) and not run.text_only


def _recurs(plan: Plan) -> bool:
    return any(isinstance(group.cache, State) for group in plan.model.groups)


def _other(plan: Plan, run: Run, coefficients: Coefficients, *, last: bool) -> BudgetLine:
    """Memory outside PyTorch: runtime, kernels, communication as far as the baseline lacks it."""
    peers = plan.parallel.tp - 1 + (plan.parallel.pp > 1)
    rocm = run.platform == "rocm" and not run.v0
    own = coefficients["non_torch_v0" if run.v0 else "non_torch"]
    if own.basis == "measured":  # the user's own log counts all of it
        return _line("other", Interval(*own.bytes()), own.basis, own.evidence)
    parts = [coefficients[_own_name(plan, run)].bytes()]
    if run.release < _V0_DEVICE:
        peers = 0  # what NCCL holds was not charged yet
    if peers and (run.v0 or run.release < (0, 11)):
        linked = (plan.device.id or _LINKED[0]).startswith(_LINKED)
        parts.append(coefficients["nccl" if linked else "nccl_pcie"].bytes())
    elif plan.parallel.tp > 1 and is_switched(plan):
        recent = run.release >= _NCCL_LATE
        parts.append(coefficients["nccl_late" if recent else "nccl_early"].bytes())
    elif plan.parallel.tp > 1 and not rocm:
        parts.append(coefficients["communication"].bytes(peers))
    kernels = _kernels(plan, run)
    if kernels and last:
        parts.append(coefficients[kernels].bytes())
    if not run.v0 and run.release < (0, 9):
        parts.append(coefficients["cuda_context"].bytes())
    if run.release >= CONSUMED and (plan.weights.format or "bf16") not in SIXTEEN_BIT:
        parts.append(coefficients["repacked"].bytes())
    if plan.device.unified_memory:
        parts.append(coefficients["unified"].bytes())
    best, low, high = (sum(part[i] for part in parts) for i in range(3))
    note = "cuBLAS, runtime, communication" if peers else "cuBLAS, runtime"
    return _measured("other", (best, low, high), note)


def _own_name(plan: Plan, run: Run) -> str:
    """The coefficient of what one GPU holds outside PyTorch."""
    if run.v0:
        return "non_torch_v0" if _V0_DEVICE <= run.release < _V0_BASELINE else "non_torch"
    if run.platform != "rocm":
        return "non_torch"
    if plan.device.architecture.startswith("CDNA") and run.release >= (0, 11):
        return "non_torch_cdna"
    return "non_torch_rocm"


def _kernels(plan: Plan, run: Run) -> str:
    """The coefficient of what sampling loads, on the last stage; none where none was seen."""
    if run.platform != "cuda" or run.v0:
        return ""
    newer = plan.device.architecture in {"Hopper", "Blackwell"} or run.release >= CONSUMED
    if run.release >= _KERNELS_GREW:
        return "sampling_kernels_recent" if newer else "sampling_kernels"
    hopper = plan.device.architecture == "Hopper" and run.release >= (0, 11)
    return "sampling_kernels" if hopper else ""


def _measured(item: str, ends: tuple[int, int, int], note: str) -> BudgetLine:
    return _line(item, Interval(*ends), "estimated", note)


def _line(item: str, size: Interval, basis: str, note: str) -> BudgetLine:
    """A deduction: its high end makes the pool low."""
    return BudgetLine(item, -size.best, basis, -size.high, -size.low, note)


def _with_pool(lines: Sequence[BudgetLine]) -> tuple[BudgetLine, ...]:
    """The lines and what they leave: they add up, ends too."""
    basis = max((line.basis for line in lines), key=BASIS.index)
    best, low, high = (
        sum(getattr(line, end) for line in lines) for end in ("bytes", "low_bytes", "high_bytes")
    )
    return (*lines, BudgetLine("kv_pool", best, basis, low, high))
