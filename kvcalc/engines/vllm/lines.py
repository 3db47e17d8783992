"""What a release of vLLM logs of its memory when it starts, or how it refuses to.

Wordings: vLLM 0.10.2 to 0.33.0 `v1/worker/gpu_worker.py` and `v1/core/kv_cache_utils.py`; older
ones from public logs. Seconds and process tags are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc.core.plan import LONGEST, Plan, RankPlan
from kvcalc.core.units import GIB
from kvcalc.engines.vllm.defaults import Release, Run
from kvcalc.engines.vllm.layout import Layout

#: The V0 engine's swap space, from which its count of CPU blocks comes.
_SWAP = 4 * GIB
_TRY = "Try increasing `gpu_memory_utilization`"
_DOCS = (
    " See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
)  # fmt: skip


def startup_lines(
    plan: Plan, run: Run, layout: Layout, ranks: Sequence[RankPlan]
) -> tuple[str, ...]:
    """The lines in the order of the log; figures are of the tightest rank, as in the log."""
    tight = min(ranks, key=lambda r: _blocks(r, layout))
    parts = {line.item: line for line in tight.budget}
    lines = []
    if "weights" in parts:
        lines.append(_loaded(-parts["weights"].bytes, run.release))
    if run.v0 and "memory" in parts:
        lines += _profiled(run, {item: line.bytes for item, line in parts.items()})
    if "graphs" in parts and not run.v2_runner:
        size = -parts["graphs"].bytes
        lines.append(f"Estimated CUDA graph memory: {size / GIB:.2f} GiB total")
    if not run.v0:
        lines.append(f"Available KV cache memory: {_gib(tight.pool.best, run.release)} GiB")
    lines += _aligned(layout, run)
    refusal = _refusal(plan, run, layout, tight)
    if refusal is not None and not run.v0:
        return (*lines, refusal)
    lines += _capacity(plan, run, layout, tight)
    return (*lines, refusal) if refusal is not None else tuple(lines)


def _blocks(rank: RankPlan, layout: Layout) -> int:
    block = layout.blocks[rank.stage]
    return rank.pool.best // block if block else LONGEST


def _gib(size: int, release: Release) -> str:
    """Two decimals; from 0.13 on without zeros at the end: 5.0."""
    return f"{size / GIB:.2f}" if release < (0, 13) else str(round(size / GIB, 2))


def _loaded(size: int, release: Release) -> str:
    """The load; what is called GB to 0.8.2 is GiB too; four decimals to 0.14."""
    text = f"{size / GIB:.4f}" if release < (0, 15) else str(round(size / GIB, 2))
    if release < (0, 8):
        return f"Loading model weights took {text} GB"
    if release < (0, 11):
        return f"Model loading took {text} {'GB' if release < (0, 8, 3) else 'GiB'}"
    return f"Model loading took {text} GiB memory"


def _profiled(run: Run, parts: dict[str, int]) -> list[str]:
    """The V0 engine's profiling lines, from 0.6.5 on."""
    if run.release < (0, 6, 5):
        return []
    share = float(run.utilization)
    total = parts["memory"]
    names = ("weights", "other", "activations")
    weights, other, peak = (-parts.get(name, 0) / GIB for name in names)
    requested = (
        f"the current vLLM instance can use total_gpu_memory ({total / GIB:.2f}GiB) x "
        f"gpu_memory_utilization ({share:.2f}) = {total * share / GIB:.2f}GiB"
    )
    spent = (
        f"model weights take {weights:.2f}GiB; non_torch_memory takes {other:.2f}GiB; PyTorch "
        f"activation peak memory takes {peak:.2f}GiB; the rest of the memory reserved for KV "
        f"Cache is {parts['kv_pool'] / GIB:.2f}GiB."
    )
    return [requested, spent]


def _aligned(layout: Layout, run: Run) -> list[str]:
    """Blocks grown to hold a state, and layers that pad the groups of a hybrid."""
    lines = []
    if layout.state_layers and len(layout.groups) > 1 and run.release >= (0, 11):
        lines.append(
            f"Setting attention block size to {layout.block_tokens} tokens to ensure that "
            "attention page size is >= mamba page size."
        )
    size = max((len(g.layers) for g in layout.groups), default=0)
    kinds: dict[object, int] = {}
    for group in layout.groups:
        if group.uniform or group.least_bytes:
            return lines
        kinds[group.specs[0]] = kinds.get(group.specs[0], 0) + len(group.layers)
    for layers in kinds.values():
        padding = -layers % size
        if padding and len(layout.groups) > 1:
            lines.append(
                f"Add {padding} padding layers, may waste at most {padding / layers * 100:.2f}% "
                "KV cache memory"
            )
    return lines


def _capacity(plan: Plan, run: Run, layout: Layout, rank: RankPlan) -> list[str]:
    """Blocks in V0; tokens and concurrency in V1, in one line from 0.28 on."""
    block = layout.blocks[rank.stage]
    per_request = layout.per_request(plan.context)
    if not block or not per_request:
        return []
    blocks = max(rank.pool.best, 0) // block
    many = blocks / per_request
    length = f"{plan.context:,}" if run.release >= (0, 9) else str(plan.context)
    concurrency = f"Maximum concurrency for {length} tokens per request: {many:.2f}x"
    if run.v0:
        device = "GPU" if run.release < (0, 7, 1) else "CUDA" if run.release < (0, 8) else "cuda"
        lines = [f"# {device} blocks: {blocks}, # CPU blocks: {_SWAP // block}"]
        return [*lines, concurrency] if run.release >= (0, 6, 4) else lines
    size = f"GPU KV cache size: {layout.tokens(blocks, plan.context):,} tokens"
    return [f"{size}, {concurrency}"] if run.release >= (0, 28) else [size, concurrency]


def _refusal(plan: Plan, run: Run, layout: Layout, rank: RankPlan) -> str | None:
    """Why the engine does not start: no pool at all, or one request of the length too large."""
    held = layout.blocks[rank.stage] * layout.rules.null_block
    usable, release = rank.pool.best - held, run.release
    more = _DOCS if release >= (0, 12) else ""
    if usable <= 0:
        also = (
            " (this flag also controls CPU memory reservation on the CPU backend, despite its name)"
            if release >= (0, 22)
            else ""
        )
        return (
            f"ValueError: No available memory for the cache blocks. {_TRY} when initializing the "
            f"engine{also}.{more}"
        )
    needed = layout.needed(rank.stage, plan.context) - held
    if needed <= usable:
        return None
    if run.v0:
        tokens = layout.tokens(rank.pool.best // layout.blocks[rank.stage], plan.context)
        return (
            f"ValueError: The model's max seq len ({plan.context}) is larger than the maximum "
            f"number of tokens that can be stored in KV cache ({tokens}). {_TRY} or decreasing "
            "`max_model_len` when initializing the engine."
        )
    longest = longest_length(layout, rank, plan.context)
    estimate = (
        f"Based on the available memory, the estimated maximum model length is {longest}. "
        if longest and release >= (0, 9)
        else ""
    )
    model = "the models's" if release < (0, 22) else "the model's"
    cpu = " (which also controls CPU memory on the CPU backend)" if release >= (0, 22) else ""
    return (
        f"ValueError: To serve at least one request with {model} max seq len ({plan.context}), "
        f"({_gib(needed, release)} GiB KV cache is needed, which is larger than the available KV "
        f"cache memory ({_gib(usable, release)} GiB). {estimate}{_TRY}{cpu} or decreasing "
        f"`max_model_len` when initializing the engine.{more}"
    )


def longest_length(layout: Layout, rank: RankPlan, most: int) -> int:
    """The engine's own estimate: the longest length of which one request fits the rank."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if layout.needed(rank.stage, middle) <= rank.pool.best:
            low = middle
        else:
            high = middle - 1
    return low
