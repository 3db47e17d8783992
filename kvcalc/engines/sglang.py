"""SGLang behind `core.plan.Rules`: free memory after the load less what it must leave free.

    pool = free after load − free before load · (1 − mem_fraction_static)

so weights are charged as they are, and only two things are estimated: what is free before the
load, and what the load takes beside the weights. The pool's bytes are those of keys and values;
recurrent states are a line of their own. Sources: SGLang 0.5.23, and its logs since 0.4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kvcalc.core import shard, sharing
from kvcalc.core.cache import Latent
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.plan import LONGEST, Change, Plan, RankPlan, rank_plan, seats
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.textbook import exact, with_pool
from kvcalc.core.units import cdiv, pad
from kvcalc.engines.paging import charge, left, loaded, memory_lines, release_of
from kvcalc.engines.sglang_memory import NEWEST, Start, ranks_of, start_of
from kvcalc.engines.sglang_pool import Pools, pools_of

#: Vendors on whose devices the rules were read.
_VENDORS = ("", "NVIDIA", "AMD")
#: FlashInfer, which reads them, begins at Ampere.
_NO_FP8 = frozenset({"Volta", "Turing"})
_NVLINK = ("v100", "a100", "h100", "h800", "h20", "b100", "b200", "b300", "gb200", "gb300", "mi")


class SgLang:
    """Rules of SGLang's releases from 0.4.3 to the newest known."""

    def info(self, plan: Plan) -> EngineInfo:
        """The release and the settings in force."""
        start = _start(plan)
        settings: dict[str, Any] = {
            "chunked_prefill_size": start.chunk,
            "page_size": pools_of(plan, plan.model, start.release).page,
            "context_length": plan.context,
        }
        if plan.memory is not None and plan.kv_pool is None and plan.kv_pool_tokens is None:
            settings["mem_fraction_static"] = round(float(start.fraction), 4)
        return EngineInfo("sglang", plan.version or NEWEST, {**settings, **plan.settings})

    def ranks(self, plan: Plan) -> list[RankPlan]:
        """One GPU of each pipeline stage, with its budget and KV pool.

        Raises:
            KvcalcError: "not_divisible"; "unknown_dtype"; "usage" and "unsupported_architecture"
                for what SGLang or these rules do not do.
        """
        _check(plan)
        plan = _as_the_smallest(plan)
        start = _start(plan)
        ranks = []
        for stage, model in enumerate(shard.stage_ranks(plan.model, plan.parallel)):
            pools = pools_of(plan, model, start.release)
            for seat in seats(plan, stage):
                lines = _given(plan, pools) or _budget(seat.plan, start, pools, stage)
                ranks.append(rank_plan(model, seat, lines))
        return ranks

    def request_bytes(self, plan: Plan, rank: RankPlan, tokens: int) -> int:
        """One request in the full, window and state pools."""
        return _pools(plan, rank.model).request(tokens)

    def requests(self, plan: Plan, rank: RankPlan, pool: int, tokens: int) -> int:
        """Requests of `tokens` at once: by full and window tokens, states, and slots."""
        pools = _pools(plan, rank.model)
        if pool < 0:
            return 0
        held = pools.tokens(pool)
        states = pools.states(pool)
        if not pools.cell:
            return pools.running(LONGEST, plan.context, states)
        most = pools.running(held, plan.context, states)
        if pools.full:
            one = pools.in_full(tokens)
            prefix = _prefix(plan, pools, tokens)
            most = min(most, sharing.most(held, one, prefix, plan.prefix_copies))
        if pools.windowed:
            window = pools.window_tokens(held)
            most = min(most, sharing.most(window, pools.in_window(tokens), 0))
        return max(most, 0)

    def needed(self, plan: Plan, rank: RankPlan, tokens: int, requests: int) -> int:
        """The smallest pool that holds `requests` requests of `tokens`.

        The pools keep their ratios: the one that runs out first decides.
        """
        pools = _pools(plan, rank.model)
        rows = 0
        if pools.full:
            prefix = _prefix(plan, pools, tokens)
            rows = sharing.held(requests, pools.in_full(tokens), prefix, plan.prefix_copies)
        if pools.windowed:
            window = requests * pools.in_window(tokens)
            if pools.full:
                window = cdiv(window * pools.ratio.denominator, max(pools.ratio.numerator, 1))
            rows = pad(max(rows, window), pools.page)
        cell = pools.cell
        size = cdiv(rows * cell.numerator, cell.denominator)
        return max(size, pools.for_states(requests))

    def block_tokens(self, plan: Plan) -> int | None:
        """page_size."""
        return pools_of(plan, plan.model, _start(plan).release).page

    def shared_tokens(self, plan: Plan) -> int:
        """Whole pages of the prefix, unless the radix cache is off."""
        pools = _pools(plan, plan.model)
        return _prefix(plan, pools, plan.context) * pools.dcp

    def block_bytes(self, plan: Plan, rank: RankPlan) -> int | None:  # noqa: ARG002 - one interface
        """Full layers, windows and states have pools of their own."""
        return None

    def rank_tokens(self, plan: Plan, rank: RankPlan) -> int | None:
        """max_total_num_tokens: of the full layers, times the decode-context ranks."""
        pools = _pools(plan, rank.model)
        return pools.tokens(rank.pool.best) * pools.dcp if pools.cell else None

    def startup_lines(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[str, ...]:
        """What SGLang logs when it starts."""
        from kvcalc.engines.sglang_lines import startup_lines  # noqa: PLC0415 - lists ask for none

        rank = min(ranks, key=lambda r: self.rank_tokens(plan, r) or LONGEST)
        return startup_lines(plan, _start(plan), _pools(plan, rank.model), rank)

    def limits(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Limit, ...]:
        """Slots, states, and what the host's cache would hold."""
        from kvcalc.engines.sglang_lines import limits_of  # noqa: PLC0415 - as above

        rank = min(ranks, key=lambda r: self.rank_tokens(plan, r) or LONGEST)
        return limits_of(plan, _pools(plan, rank.model), rank)

    def command(self, plan: Plan) -> str | None:
        """`python -m sglang.launch_server …`."""
        from kvcalc.engines.sglang_lines import command_of  # noqa: PLC0415 - as above

        return command_of(plan, _start(plan))

    def changes(self, plan: Plan) -> list[Change]:
        """Single changes of SGLang's settings that may help."""
        start, found = _start(plan), []
        known = plan.kv_pool is not None or plan.kv_pool_tokens is not None
        if not known and plan.memory is not None:
            more = round(float((1 + start.fraction) / 2), 3)
            found.append(_setting(plan, "mem_fraction_static", more))
            if start.chunk > 2048:
                found.append(_setting(plan, "chunked_prefill_size", 2048))
            if not plan.settings.get("disable_cuda_graph"):
                found.append(_setting(plan, "disable_cuda_graph", "true"))
        pools = pools_of(plan, plan.model, start.release)
        if pools.windowed and pools.full:
            found.append(_setting(plan, "swa_full_tokens_ratio", 0.2))
        if pools.state:
            found.append(_setting(plan, "mamba_full_memory_ratio", 0.3))
            found.append(_setting(plan, "mamba_full_memory_ratio", 2.7))
            found.append(_setting(plan, "mamba_ssm_dtype", "bfloat16"))
        if plan.storage.k.key in {"bf16", "fp16"}:
            smaller = storage("fp8", model=plan.storage.model.key)
            found.append(Change("kv_dtype", "--kv-dtype fp8", plan._replace(storage=smaller)))
        return found


def _setting(plan: Plan, name: str, value: float | str) -> Change:
    kept: object = True if value == "true" else value
    changed = plan._replace(settings={**plan.settings, name: kept})
    return Change("setting", f"--set {name}={value}", changed)


def _prefix(plan: Plan, pools: Pools, tokens: int) -> int:
    """Rows of the radix cache that a prefix takes on one decode-context rank: whole pages."""
    if plan.settings.get("disable_radix_cache"):
        return 0
    return min(plan.shared_prefix, tokens) // (pools.page * pools.dcp) * pools.page


def _pools(plan: Plan, model: Model) -> Pools:
    return pools_of(plan, model, release_of(plan.version or NEWEST, "sglang"))


def _tower(plan: Plan) -> int:
    """Elements of a vision or audio tower that is loaded beside the text model."""
    from kvcalc.engines.vllm.widths import stored_beside, widths_of  # noqa: PLC0415

    if (plan.model.stored_parameters or 0) <= (plan.model.parameters or 0):
        return 0
    tower, _ = stored_beside(plan.model, widths_of(plan.model, plan.weights.bytes))
    return tower


def _start(plan: Plan) -> Start:
    if plan.memory is None or plan.kv_pool is not None or plan.kv_pool_tokens is not None:
        return start_of(plan, 0, 0)
    from kvcalc.engines.coefficients import coefficients  # noqa: PLC0415 - a given pool needs none

    carveout = coefficients("sglang")["carveout"].bytes()[0]
    return start_of(plan, carveout, _tower(plan))


def _given(plan: Plan, pools: Pools) -> tuple[BudgetLine, ...]:
    """A pool of keys and values that is known, in bytes or as max_total_num_tokens."""
    if plan.kv_pool is not None:
        return (exact("kv_pool", plan.kv_pool, "given"),)
    if plan.kv_pool_tokens is None:
        return ()
    rows = cdiv(plan.kv_pool_tokens, pools.dcp)
    size = cdiv(rows * pools.cell.numerator, pools.cell.denominator)
    return (exact("kv_pool", size, f"{plan.kv_pool_tokens:,} tokens, given"),)


def _budget(plan: Plan, start: Start, pools: Pools, stage: int) -> tuple[BudgetLine, ...]:
    """Memory − context − communication − weights − what must stay free − states = pool."""
    from kvcalc.engines.coefficients import coefficients  # noqa: PLC0415

    c, p = coefficients("sglang"), plan.parallel
    lines = memory_lines(plan)
    parts = [c["context"].bytes()]
    ranks = ranks_of(plan) * p.pp
    if ranks > 1:
        linked = (plan.device.id or "").startswith(_NVLINK)
        # NCCL's buffers grow with the channels that it opens between linked GPUs.
        name = "communication" if linked else "communication_pcie"
        parts.append(c[name].bytes((ranks - 1).bit_length() if linked else 1))
    best, low, high = (sum(part[i] for part in parts) for i in range(3))
    note = "CUDA context" if len(parts) == 1 else "CUDA context, NCCL"
    lines.append(charge("other", (best, low, high), note))
    free = max(left(lines).best, 0)
    ends = [free - int(free * share) for share in (start.fraction, start.high, start.low)]
    note = f"1 − mem_fraction_static {float(start.fraction):.4g}"
    sure = "exact" if start.low == start.high else "estimated"
    lines.append(charge("unused", (ends[0], ends[1], ends[2]), note, sure))
    over = bool(plan.settings.get("enable_dp_attention")) or p.ep > 1
    weights = loaded(plan, stage, experts_over_dp=over)
    if weights is not None:
        lines.append(weights)
        lines.append(charge("load", c["load"].bytes(), "libraries that the load brings"))
    if pools.state:
        lines.append(_states(pools, left(lines).best))
    return with_pool(lines)


def _as_the_smallest(plan: Plan) -> Plan:
    """Every rank takes the least free memory of all; tp over GPUs more than 10% apart is refused.

    Source: SGLang `model_runner.py` (init_torch_distributed, get_available_gpu_memory).

    Raises:
        KvcalcError: "usage".
    """
    if not plan.mixed:
        return plan
    sizes = [memory.bytes for memory, _ in plan.mixed]
    if plan.parallel.tp > 1 and min(sizes) * 10 < max(sizes) * 9:
        raise KvcalcError(
            "usage",
            "SGLang refuses tensor parallelism over GPUs whose free memory is more than 10% apart",
            f"--pp {len(sizes)} splits the layers instead",
        )
    memory = min((memory for memory, _ in plan.mixed), key=lambda m: m.bytes)
    return plan._replace(memory=memory, mixed=tuple((memory, d) for _, d in plan.mixed))


def _states(pools: Pools, rest: int) -> BudgetLine:
    """The state pool beside the best estimate of the rest; the token pool takes the doubt."""
    size = pools.of_rest(rest)[0]
    count = max(size // pools.state - 1, 0)
    basis = "estimated" if pools.fixed_states is None else "exact"
    note = f"{count:,} states of {pools.state:,} B"
    return BudgetLine("states", -size, basis, -size, -size, note)


def _check(plan: Plan) -> None:
    p, device = plan.parallel, plan.device
    if device.vendor not in _VENDORS and plan.kv_pool is None and plan.kv_pool_tokens is None:
        raise KvcalcError(
            "usage", f"what SGLang keeps on {device.name or device.id} is not known",
            "give the pool it prints as --kv-pool, or take --engine none",
        )  # fmt: skip
    narrow = plan.storage.k.key not in {"bf16", "fp16"}
    if narrow and device.architecture in _NO_FP8:
        raise KvcalcError(
            "unknown_dtype",
            f"SGLang reads no {plan.storage.k.key} KV cache on {device.architecture} "
            f"({device.name or device.id})",
            "--kv-dtype auto, or a GPU from Ampere on",
        )
    heads = plan.model.query_heads
    if heads and heads % p.tp:
        raise KvcalcError(
            "not_divisible", f"SGLang: --tp {p.tp} does not divide the {heads} attention heads",
            "take a divisor",
        )  # fmt: skip
    if p.dcp > 1 and not any(isinstance(g.cache, Latent) for g in plan.model.groups):
        kv_heads = max((getattr(g.cache, "kv_heads", 1) for g in plan.model.groups), default=1)
        if p.tp // p.dcp < kv_heads and kv_heads % (p.tp // p.dcp):
            raise KvcalcError(
                "not_divisible", f"SGLang: --tp / --dcp does not divide the {kv_heads} KV heads",
                "take a smaller --dcp",
            )  # fmt: skip
    share = plan.settings.get("mem_fraction_static", plan.utilization)
    if share is not None and not 0 < Fraction(str(share)) < 1:
        raise KvcalcError("usage", f"mem_fraction_static is {share}", "a share between 0 and 1")


SGLANG = SgLang()
