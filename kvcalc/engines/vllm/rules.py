"""vLLM behind the interface of `core.plan.Rules`: budget to pool, blocks, requests and lengths.

Figures are of one GPU. The smallest stage decides over a pipeline, as in the engine; data-parallel
replicas have pools of their own and share routed experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvcalc.core import shard, sharing
from kvcalc.core.plan import LONGEST, Change, Plan, RankPlan, kinds, rank_plan, seats
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.units import cdiv
from kvcalc.engines.coefficients import coefficients
from kvcalc.engines.vllm.budget import budget
from kvcalc.engines.vllm.checks import check, limits_of
from kvcalc.engines.vllm.defaults import Run, run_of
from kvcalc.engines.vllm.layout import Layout, layout_of
from kvcalc.engines.vllm.versions import NEWEST
from kvcalc.engines.vllm.widths import widths_of


class Vllm:
    """Rules of vLLM's releases from 0.2 to the newest known."""

    def __init__(self) -> None:
        #: The plan asked last: one plan is asked a hundred times for lengths and pools.
        self._last: tuple[Plan, Run, Layout] | None = None

    def _of(self, plan: Plan) -> tuple[Run, Layout]:
        """The settings in force and the layout, kept for the plan asked last."""
        if self._last is None or self._last[0] is not plan:
            run = run_of(plan)
            self._last = (plan, run, layout_of(plan, run))
        return self._last[1:]

    def info(self, plan: Plan) -> EngineInfo:
        """The release and the settings in force, defaults among them."""
        run = run_of(plan)
        settings: dict[str, Any] = {
            "max_model_len": plan.context,
            "max_num_batched_tokens": run.batched_tokens,
            "max_num_seqs": run.max_seqs,
        }
        if plan.kv_pool is None and plan.kv_pool_tokens is None:
            settings["gpu_memory_utilization"] = float(run.utilization)
            settings["enforce_eager"] = run.eager
        return EngineInfo("vllm", plan.version or NEWEST, {**settings, **plan.settings})

    def ranks(self, plan: Plan) -> list[RankPlan]:
        """One GPU of each pipeline stage, with its budget and KV pool.

        Raises:
            KvcalcError: "not_divisible"; "usage" for what vLLM refuses to start.
        """
        for each in kinds(plan):
            check(each)
        run, layout = self._of(plan)
        w = widths_of(plan.model, plan.weights.bytes)
        ranks = []
        for stage, model in enumerate(shard.stage_ranks(plan.model, plan.parallel)):
            for seat in seats(plan, stage):
                lines = _given(plan, layout, stage)
                if not lines:
                    layers = len(model.layers)
                    lines = budget(seat.plan, run, w, coefficients("vllm"), stage, layers)
                ranks.append(rank_plan(model, seat, lines))
        return ranks

    def request_bytes(self, plan: Plan, rank: RankPlan, tokens: int) -> int:
        """Whole blocks of every group that one request of `tokens` holds at most."""
        _, layout = self._of(plan)
        return layout.per_request(tokens) * layout.blocks[rank.stage]

    def requests(self, plan: Plan, rank: RankPlan, pool: int, tokens: int) -> int:
        """Requests of `tokens` in the pool's whole blocks, the null block aside."""
        _, layout = self._of(plan)
        block = layout.blocks[rank.stage]
        one = layout.per_request(tokens)
        if not block or not one:
            return LONGEST if pool >= 0 else 0
        usable = pool // block - layout.rules.null_block
        shared = layout.shared(min(self._prefix(plan), tokens), tokens)
        return sharing.most(usable, one, shared, plan.prefix_copies)

    def needed(self, plan: Plan, rank: RankPlan, tokens: int, requests: int) -> int:
        """Bytes of `requests` requests; of one as the release checks it when it starts."""
        _, layout = self._of(plan)
        check_of_one = layout.needed(rank.stage, tokens)
        if requests <= 1:
            return check_of_one
        one = layout.per_request(tokens)
        shared = layout.shared(min(self._prefix(plan), tokens), tokens)
        count = sharing.held(requests, one, shared, plan.prefix_copies) + layout.rules.null_block
        return max(check_of_one, count * layout.blocks[rank.stage])

    def block_tokens(self, plan: Plan) -> int | None:
        """Tokens of a block of attention, grown to hold a state where the model has both."""
        return self._of(plan)[1].block_tokens

    def _prefix(self, plan: Plan) -> int:
        """The prefix, where its blocks are cached: by default in V1, with states since 0.26."""
        run, layout = self._of(plan)
        given = plan.settings.get("enable_prefix_caching")
        cached = not run.v0 if given is None else bool(given)
        if layout.state_layers and layout.load.mamba_cache_mode == "none":
            cached = False
        return plan.shared_prefix if cached else 0

    def shared_tokens(self, plan: Plan) -> int:
        """Whole blocks of full attention: 240 tokens under blocks of 784 share none."""
        return self._of(plan)[1].shared_tokens(min(self._prefix(plan), plan.context))

    def block_bytes(self, plan: Plan, rank: RankPlan) -> int | None:
        """Bytes of a block of the pool: of every layer of its group."""
        return self._of(plan)[1].blocks[rank.stage] or None

    def rank_tokens(self, plan: Plan, rank: RankPlan) -> int | None:
        """The pool in tokens as that release prints it for `plan.context`."""
        _, layout = self._of(plan)
        block = layout.blocks[rank.stage]
        if not block:
            return None
        return layout.tokens(max(rank.pool.best, 0) // block, plan.context)

    def startup_lines(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[str, ...]:
        """What that release logs, or how it refuses."""
        from kvcalc.engines.vllm.lines import startup_lines  # noqa: PLC0415 - lists ask for none

        run, layout = self._of(plan)
        return startup_lines(plan, run, layout, ranks)

    def limits(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Limit, ...]:
        """What beside memory bounds the answer."""
        run, layout = self._of(plan)
        most = min(self.requests(plan, r, r.pool.best, plan.context) for r in ranks)
        return limits_of(plan, run, layout, ranks, most)

    def command(self, plan: Plan) -> str | None:
        """The command that starts vLLM so."""
        from kvcalc.engines.vllm.command import command_of  # noqa: PLC0415 - as above

        return command_of(plan, run_of(plan))

    def changes(self, plan: Plan) -> list[Change]:
        """Single changes of vLLM's settings that may help."""
        from kvcalc.engines.vllm.command import changes_of  # noqa: PLC0415 - as above

        return changes_of(plan, run_of(plan))


def _given(plan: Plan, layout: Layout, stage: int) -> tuple[BudgetLine, ...]:
    """A pool that is known: in bytes, or as the tokens that the engine printed."""
    pool, note = plan.kv_pool, "given"
    if pool is None:
        pool, note = plan.settings.get("kv_cache_memory_bytes"), "kv_cache_memory_bytes"
    if pool is None and plan.kv_pool_tokens is not None:
        blocks = _blocks_of_tokens(layout, plan.kv_pool_tokens, plan.context)
        pool, note = blocks * layout.blocks[stage], f"{plan.kv_pool_tokens:,} tokens, given"
    if pool is None:
        return ()
    return (BudgetLine("kv_pool", pool, "exact", pool, pool, note),)


def _blocks_of_tokens(layout: Layout, tokens: int, length: int) -> int:
    """The blocks for which the engine prints so many tokens; the fewest."""
    if layout.rules.tokens_by_blocks and layout.groups:
        size = min(g.block_size for g in layout.groups) * layout.load.dcp
        return cdiv(tokens, size) * len(layout.groups)
    return cdiv(tokens * layout.per_request(length), length)


VLLM = Vllm()
