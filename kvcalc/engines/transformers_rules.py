"""transformers behind `core.plan.Rules`: no pool, everything that is free is the cache's.

    free = memory − CUDA context − weights − activations of the prompts at once

`generate` prefills whole prompts and keeps the last token's logits; a forward pass of its own
(`all_logits`) keeps every token's. Sources: transformers 5.24 and 4.57 runs on an RTX A6000
(vramcalc 0.1.2 benchmarks: within 0.5 %), its cache classes.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc.core import shard
from kvcalc.core.fit import largest
from kvcalc.core.model import Model
from kvcalc.core.plan import LONGEST, Change, Plan, RankPlan, rank_plan, seats
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.textbook import exact, weight_lines, with_pool
from kvcalc.engines.paging import charge, left, memory_lines
from kvcalc.engines.transformers import VERSION, cache_bytes, plain

#: Sequences in a batch that are tried.
_BATCH = 65_536


class Transformers:
    """Rules of a model loaded by transformers, heads split over `tp` GPUs (`tp_plan="auto"`)."""

    def info(self, plan: Plan) -> EngineInfo:
        """The release and the cache."""
        kind = str(plan.settings.get("cache_implementation", "dynamic"))
        settings = {"cache_implementation": kind, "batch_size": plan.requests}
        if kind == "static":
            settings["max_cache_len"] = plan.context
        return EngineInfo("transformers", plan.version or VERSION, {**settings, **plan.settings})

    def ranks(self, plan: Plan) -> list[RankPlan]:
        """One GPU of each pipeline stage.

        Raises:
            KvcalcError: "unknown_dtype" for K and V in another dtype than a model's; "usage" for
                dcp; "unsupported_architecture"; "not_divisible".
        """
        plain(plan.storage.k)
        plain(plan.storage.v)
        ranks = []
        for stage, model in enumerate(shard.stage_ranks(plan.model, plan.parallel)):
            ranks += [
                rank_plan(model, seat, self._given(plan, model) or self._budget(seat.plan, model))
                for seat in seats(plan, stage)
            ]
        return ranks

    def _given(self, plan: Plan, model: Model) -> tuple[BudgetLine, ...]:
        if plan.kv_pool is not None:
            return (exact("kv_pool", plan.kv_pool, "given"),)
        if plan.kv_pool_tokens is None:
            return ()
        size = _kept(plan, model, plan.kv_pool_tokens, 1)
        return (exact("kv_pool", size, f"{plan.kv_pool_tokens:,} tokens, given"),)

    def _budget(self, plan: Plan, model: Model) -> tuple[BudgetLine, ...]:
        from fractions import Fraction  # noqa: PLC0415 - as the coefficients

        from kvcalc.engines.coefficients import coefficients  # noqa: PLC0415 - for budgets only

        c = coefficients("transformers")
        lines = memory_lines(plan)
        share = plan.utilization
        if share is not None and share < 1:
            rest = lines[0].bytes - int(lines[0].bytes * share)
            lines.append(exact("unused", -rest, f"utilization {float(share):g}"))
        lines.append(charge("other", c["context"].bytes(), "CUDA context, cuBLAS"))
        part = Fraction(len(model.layers), len(plan.model.layers) * plan.parallel.tp)
        lines += weight_lines(plan, part)
        peak = _peak(plan, model, plan.context, plan.requests)
        low, high = (int(peak * (100 + end) / 100) for end in (c["peak"].low, c["peak"].high))
        note = f"{plan.requests:,} prompts of {plan.context:,} tokens at once"
        lines.append(charge("activations", (peak, low, high), note))
        length = _length(plan)
        if length is not None:
            allocated = _kept(plan, model, length, plan.requests)
            best, least, most = (max(n - allocated, 0) for n in left(lines))
            lines.append(BudgetLine("spare", -best, "estimated", -least, -most,
                                    "free beside the static cache"))  # fmt: skip
        return with_pool(lines)

    def request_bytes(self, plan: Plan, rank: RankPlan, tokens: int) -> int:
        """One sequence's cache of `tokens`."""
        return _kept(plan, rank.model, tokens, 1)

    def requests(self, plan: Plan, rank: RankPlan, pool: int, tokens: int) -> int:
        """Sequences of `tokens` in one batch, their prompts prefilled together."""
        if self.needed(plan, rank, tokens, 1) > pool:
            return 0
        most = _BATCH if _length(plan) is None else plan.requests
        return largest(lambda n: self.needed(plan, rank, tokens, n) <= pool, most)

    def needed(self, plan: Plan, rank: RankPlan, tokens: int, requests: int) -> int:
        """The batch's cache, and what its prompts take more than the plan's."""
        length = _length(plan)
        if length is not None:  # allocated for the whole batch, however short its sequences
            return _kept(plan, rank.model, max(length, tokens), max(requests, plan.requests))
        size = _kept(plan, rank.model, tokens, requests)
        if plan.kv_pool is not None or plan.kv_pool_tokens is not None:
            return size
        asked = _peak(plan, rank.model, plan.context, plan.requests)
        return size + max(_peak(plan, rank.model, tokens, requests) - asked, 0)

    def block_tokens(self, plan: Plan) -> int | None:  # noqa: ARG002 - one interface
        """Tokens are counted exactly."""
        return None

    def shared_tokens(self, plan: Plan) -> int:  # noqa: ARG002 - one interface
        """Sequences of a batch share nothing."""
        return 0

    def block_bytes(self, plan: Plan, rank: RankPlan) -> int | None:  # noqa: ARG002 - one interface
        """Caches grow with their tokens."""
        return None

    def rank_tokens(self, plan: Plan, rank: RankPlan) -> int | None:
        """Tokens of one sequence that the free memory holds."""
        if not _kept(plan, rank.model, 4096, 1) - _kept(plan, rank.model, 1, 1):
            return None
        pool = rank.pool.best
        return largest(lambda n: _kept(plan, rank.model, max(n, 1), 1) <= pool, LONGEST)

    def startup_lines(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[str, ...]:  # noqa: ARG002
        """transformers logs none of it."""
        return ()

    def limits(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Limit, ...]:  # noqa: ARG002
        """A static cache's length; a dynamic one that is copied as it grows."""
        if plan.settings.get("cache_implementation") == "static":
            most = int(plan.settings.get("max_cache_len", plan.context))
            return (Limit("max_cache_len", f"a static cache ends at {most:,} tokens"),)
        return (Limit("copies", "a dynamic cache is copied layer by layer at each token: freed "
                                "pieces may not fit together near the limit"),)  # fmt: skip

    def command(self, plan: Plan) -> str | None:  # noqa: ARG002
        """A library has none."""
        return None

    def changes(self, plan: Plan) -> list[Change]:
        """No logits but the last token's."""
        if not plan.settings.get("all_logits"):
            return []
        settings = {**plan.settings, "all_logits": False}
        return [Change("setting", "--set all_logits=false", plan._replace(settings=settings))]


def _length(plan: Plan) -> int | None:
    """max_cache_len of a static cache; None where the context decides."""
    if plan.settings.get("cache_implementation") != "static":
        return None
    length = plan.settings.get("max_cache_len")
    return None if length is None else int(length)


def _kept(plan: Plan, model: Model, tokens: int, batch: int) -> int:
    """The cache of a batch on one rank; longer than a static one, as if that were longer."""
    length = _length(plan)
    return cache_bytes(
        model, tokens, batch=batch, kv_dtype=plan.storage.k.key,
        cache_implementation=str(plan.settings.get("cache_implementation", "dynamic")),
        max_cache_len=None if length is None else max(length, tokens),
    ).total_bytes  # fmt: skip


def _peak(plan: Plan, model: Model, tokens: int, batch: int) -> int:
    """T tokens of prompts: logits and 2 d, the MLP's 3 f and 2 d, or one layer's cache copied.

    Llama-3.2-1B, 2,048 tokens, all logits: 2,048 · (128,256 + 2 · 2,048) · 2 = 542,113,792.
    """
    from kvcalc.engines.llamacpp_compute import widths  # noqa: PLC0415 - for budgets only

    w, element = widths(plan), plain(plan.storage.model)
    total = tokens * batch
    rows = total if plan.settings.get("all_logits") else batch
    tp = plan.parallel.tp
    inner = max(w.mlp_width, w.attention_width) // tp
    if w.experts:
        inner += w.experts_per_token * (max(2 * w.expert_width // tp, w.hidden)
                                        + w.expert_width // tp)  # fmt: skip
    layers = max(len(model.layers), 1)
    copied = 0
    if plan.settings.get("cache_implementation", "dynamic") == "dynamic":
        copied = _kept(plan, model, tokens, batch) // layers
    logits = rows * w.vocabulary * element + total * 2 * w.hidden * element
    return max(logits, total * (2 * w.hidden + inner) * element, copied)


TRANSFORMERS = Transformers()
