"""What SGLang logs of its memory, what bounds its answers, and the command that starts it."""

from __future__ import annotations

from typing import Any

from kvcalc.core.cache import Full, Latent, SlidingWindow, State
from kvcalc.core.plan import LONGEST, Plan, RankPlan
from kvcalc.core.results.fit import Limit
from kvcalc.core.units import GIB, fixed
from kvcalc.engines.sglang_memory import Start
from kvcalc.engines.sglang_pool import Pools
from kvcalc.engines.vllm.command import checkpoint

_PREFILL = 16384
_SPELLED = {"fp8": "fp8_e4m3", "mxfp4": "fp4_mx_block16", "bf16": "bf16", "fp16": "auto"}
#: Settings that are no flags of the same name, or are spelled from elsewhere.
_OWN = frozenset({"mem_fraction_static", "hicache_size"})


def startup_lines(plan: Plan, start: Start, pools: Pools, rank: RankPlan) -> tuple[str, ...]:
    """The lines in the order of the log; GB there are GiB."""
    parts = {line.item: line.bytes for line in rank.budget}
    lines = []
    if "memory" in parts and "weights" in parts:
        free = parts["memory"] + parts["other"] + parts.get("reserve", 0)
        used = -parts["weights"] - parts.get("load", 0)
        after = f"avail mem={(free - used) / GIB:.2f} GB, mem usage={used / GIB:.2f} GB."
        lines = [
            f"Load weight begin. avail mem={free / GIB:.2f} GB",
            f"Load weight end. {after}",
        ]
    tokens = pools.tokens(rank.pool.best)
    states = pools.states(rank.pool.best)
    if pools.state and states < LONGEST:
        lines.append(_mamba(plan, rank, states))
    if pools.cell and tokens <= 0:
        refusal = (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: mem_fraction_static={float(start.fraction):g}"
        )
        return (*lines, refusal)
    if pools.windowed:
        window = pools.window_tokens(tokens)
        full = f"full_layer_tokens={tokens}, " if pools.full else ""
        all_ = "" if pools.full else " (all SWA)"
        lines.append(f"Use sliding window memory pool{all_}. {full}swa_layer_tokens={window}")
        sizes = _halves(rank, pools, windowed=True)
        lines.append(f"KV Cache is allocated. #tokens: {window}, {sizes}")
    if pools.full:
        lines.append(f"KV Cache is allocated. #tokens: {tokens}, {_halves(rank, pools)}")
    running = pools.running(tokens, plan.context, states)
    lines.append(
        f"max_total_num_tokens={tokens * pools.dcp}, chunked_prefill_size={start.chunk}, "
        f"max_prefill_tokens={_PREFILL}, max_running_requests={running}, "
        f"context_len={plan.context}"
    )
    return tuple(lines)


def _mamba(plan: Plan, rank: RankPlan, states: int) -> str:
    conv = recurrent = 0
    size = 2 if plan.settings.get("mamba_ssm_dtype") in {"bfloat16", "float16"} else 4
    for group in rank.model.groups:
        if isinstance(group.cache, State):
            c = group.cache
            conv += len(group.layers) * (c.conv_kernel - 1) * c.conv_channels * 2
            recurrent += len(group.layers) * c.recurrent_elements * size
    return (
        f"Mamba Cache is allocated. max_mamba_cache_size: {states}, "
        f"conv_state size: {(states + 1) * conv / GIB:.2f}GB, "
        f"ssm_state size: {(states + 1) * recurrent / GIB:.2f}GB "
    )


def _halves(rank: RankPlan, pools: Pools, *, windowed: bool = False) -> str:
    """K and V of a pool; one figure for latents."""
    tokens = pools.tokens(rank.pool.best)
    size = pools.window_tokens(tokens) * pools.windowed if windowed else tokens * pools.full
    if any(isinstance(g.cache, Latent) for g in rank.model.groups):
        return f"KV size: {size / GIB:.2f} GB"
    keys = values = 0
    for group in rank.model.groups:
        own = not pools.windowed or isinstance(group.cache, SlidingWindow) == windowed
        if own and isinstance(group.cache, Full):
            n = len(group.layers) * group.cache.kv_heads
            keys, values = keys + n * group.cache.key_dim, values + n * group.cache.value_dim
    share = keys / max(keys + values, 1)
    return f"K size: {size * share / GIB:.2f} GB, V size: {size * (1 - share) / GIB:.2f} GB"


def limits_of(plan: Plan, pools: Pools, rank: RankPlan) -> tuple[Limit, ...]:
    """Slots, states, windows that keep all tokens, and the host's cache in tokens."""
    found = []
    tokens, states = pools.tokens(rank.pool.best), pools.states(rank.pool.best)
    running = pools.running(tokens, plan.context, states)
    if pools.state and states < LONGEST and states // pools.state_slots <= running:
        found.append(Limit(
            "states",
            f"{states:,} states, {pools.state_slots} a request, bound the running requests to "
            f"{states // pools.state_slots:,}: --set mamba_full_memory_ratio",
        ))  # fmt: skip
    elif pools.full and tokens // max(pools.in_full(plan.context), 1) > running:
        found.append(Limit(
            "max_running_requests",
            f"at most {running:,} requests run at once in each replica, whatever the pool holds",
        ))  # fmt: skip
    if plan.model.bends and not pools.windowed:
        found.append(Limit(
            "full_windows", "SGLang keeps every token of this model's window layers"
        ))  # fmt: skip
    host = plan.settings.get("hicache_size")
    if host and pools.full:
        each = int(float(host) * 10**9)
        ranks = plan.parallel.tp * plan.parallel.pp * plan.parallel.dp
        found.append(Limit(
            "host_cache",
            f"hicache_size {host:g} GB a rank holds {each // pools.full:,} tokens and takes "
            f"{fixed(each * ranks, 10**9, 0)} GB ({fixed(each * ranks, GIB)} GiB) of host memory "
            f"over {ranks} ranks",
        ))  # fmt: skip
    return tuple(found)


def command_of(plan: Plan, start: Start) -> str:
    """`python -m sglang.launch_server …` for the plan."""
    p = plan.parallel
    words = [f"python -m sglang.launch_server --model-path {checkpoint(plan)}"]
    words.append(f"--context-length {plan.context}")
    shared = bool(plan.settings.get("enable_dp_attention"))
    # With DP attention, tp counts all GPUs.
    tp = p.tp * p.dp if shared else p.tp
    sizes = (("tp-size", tp), ("pp-size", p.pp), ("dp-size", p.dp), ("dcp-size", p.dcp),
             ("ep-size", p.ep))  # fmt: skip
    words += [f"--{name} {size}" for name, size in sizes if size > 1]
    if plan.kv_pool is None and plan.kv_pool_tokens is None:
        words.append(f"--mem-fraction-static {float(start.fraction):.4g}")
    if plan.storage.k.key not in {"bf16", "fp16"}:
        words.append(f"--kv-cache-dtype {_SPELLED.get(plan.storage.k.key, plan.storage.k.key)}")
    words += [_flag(name, value) for name, value in plan.settings.items() if name not in _OWN]
    host = plan.settings.get("hicache_size")
    if host:
        words.append(f"--enable-hierarchical-cache --hicache-size {host:g}")
    if p.pp_layers:
        words.insert(0, f"SGLANG_PP_LAYER_PARTITION={','.join(map(str, p.pp_layers))}")
    return " ".join(word for word in words if word)


def _flag(name: str, value: Any) -> str:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return flag if value else ""
    if name == "speculative_algorithm":
        return "" if value == "none" else f"{flag} {str(value).upper()}"
    return f"{flag} {value}"
