"""A plan's caches as vLLM groups them, made once and asked for every length and pool.

Groups and blocks follow from the model, the parallelism and the block size; only what a request
takes of them depends on its length. `planner` answers single plans; here its groups are kept.
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.plan import Plan
from kvcalc.core.units import cdiv
from kvcalc.engines.vllm import versions
from kvcalc.engines.vllm.defaults import Run
from kvcalc.engines.vllm.from_model import specs_from_model
from kvcalc.engines.vllm.groups import Group, block_bytes, groups_of
from kvcalc.engines.vllm.merge import PlanError
from kvcalc.engines.vllm.specs import MAMBA, Load

#: Layouts kept; a list over all GPUs asks for four, one over all models for one each.
_KEPT = 64


class Layout(NamedTuple):
    """Groups of the whole model and of each pipeline stage; bytes of a block there."""

    #: Kept alive with the layout: its identity is part of the key.
    model: Model
    groups: tuple[Group, ...]
    stages: tuple[tuple[Group, ...], ...]
    blocks: tuple[int, ...]
    whole_block: int
    load: Load
    rules: versions.Rules
    block_tokens: int

    def per_request(self, tokens: int) -> int:
        """Blocks of the pool that one request of `tokens` takes."""
        load = self.load._replace(max_model_len=tokens)
        if self.groups and self.groups[0].least_bytes:
            # DeepSeek-V4 to 0.28: the bytes of all groups over a block of the first.
            total = sum(g.blocks(load) * g.page_bytes for g in self.groups)
            return cdiv(total, self.groups[0].page_bytes)
        return sum(g.blocks(load) for g in self.groups)

    def shared(self, prefix: int, tokens: int) -> int:
        """Of the blocks of a request of `tokens`, those of a common prefix that are still held.

        Windows share them too, until they have slid over them: a window of 1,024 at 4,005 tokens
        has left 2,981 behind and freed the 186 whole blocks of 16 in them. States are each
        request's own.
        """
        blocks = 0
        for g in self.groups:
            size, spec = g.block_size * self.load.dcp, g.specs[0]
            if spec.is_full:
                blocks += prefix // size
            elif spec.is_window:
                left_behind = max(tokens - (spec.window or 0), 0)
                blocks += max(prefix // size - left_behind // size, 0)
        return blocks

    def shared_tokens(self, prefix: int) -> int:
        """Tokens of a common prefix that whole blocks of full attention hold."""
        sizes = [g.block_size * self.load.dcp for g in self.groups if g.specs[0].is_full]
        return max((prefix // size * size for size in sizes), default=0)

    def needed(self, stage: int, tokens: int) -> int:
        """Bytes with which the release checks whether one request of `tokens` fits a rank."""
        load = self.load._replace(max_model_len=tokens)
        if self.rules.whole_model_check:
            groups, block = self.groups, self.whole_block
        else:
            groups, block = self.stages[stage], self.blocks[stage]
        held = self.blocks[stage] * self.rules.null_block
        if self.rules.needs == "layers":
            return held + sum(s.page_bytes * s.blocks(load) for g in groups for s in g.specs)
        if groups and groups[0].least_bytes:
            from kvcalc.engines.vllm.packed import tuple_need  # noqa: PLC0415 - DeepSeek-V4 only

            block = tuple_need(list(groups))
        counted = groups[:1] if self.rules.needs == "first_group" else groups
        return held + block * sum(g.blocks(load) for g in counted)

    def tokens(self, blocks: int, length: int) -> int | None:
        """The engine's "GPU KV cache size" for so many blocks."""
        per_request = self.per_request(length)
        if not per_request:
            return None
        if self.rules.tokens_by_blocks:
            size = min(g.block_size for g in self.groups)
            return blocks // len(self.groups) * size * self.load.dcp
        # In floating point, as vLLM computes it.
        return int(blocks / per_request * length)

    @property
    def state_layers(self) -> int:
        """Layers with a recurrent state."""
        return sum(len(g.layers) for g in self.groups if g.specs and g.specs[0].type == MAMBA)


_layouts: dict[tuple[object, ...], Layout] = {}


def layout_of(plan: Plan, run: Run) -> Layout:
    """The plan's layout.

    Raises:
        KvcalcError: "not_divisible"; "unsupported_architecture" where vLLM cannot group the layers.
    """
    p, s = plan.parallel, plan.settings
    key = (
        id(plan.model), plan.storage.k.key, plan.storage.v.key, plan.storage.model.key, p.tp, p.pp,
        p.pp_layers, p.dcp, plan.block_size, run.release, run.batched_tokens, run.async_scheduling,
        run.speculative_tokens, run.draft_layers, s.get("enable_prefix_caching"),
        s.get("disable_hybrid_kv_cache_manager"), s.get("mamba_ssm_cache_dtype"),
    )  # fmt: skip
    found = _layouts.get(key)
    if found is None:
        while len(_layouts) >= _KEPT:
            del _layouts[next(iter(_layouts))]
        found = _layouts[key] = _layout(plan, run)
    return found


def _layout(plan: Plan, run: Run) -> Layout:
    p, s, version = plan.parallel, plan.settings, plan.version
    rules = versions.rules_of(version)
    prefix = s.get("enable_prefix_caching")
    ssm = s.get("mamba_ssm_cache_dtype", "auto")
    made = specs_from_model(
        plan.model, plan.storage, max_model_len=plan.context, tp=p.tp, block_size=plan.block_size,
        prefix_caching=None if prefix is None else bool(prefix),
        disable_hybrid=bool(s.get("disable_hybrid_kv_cache_manager", False)),
        speculative_tokens=run.speculative_tokens, draft_layers=run.draft_layers,
        ssm_dtype=None if ssm == "auto" else str(ssm), version=version,
    )  # fmt: skip
    flight = versions.in_flight_tokens(
        run.batched_tokens, version, pp=p.pp, async_scheduling=run.async_scheduling
    )
    load = Load(plan.context, flight, made.mamba_cache_mode, p.dcp, made.encoder_tokens)
    # Layers of a draft stand behind the model's own: on the last stage.
    cut = made.stages(p) if p.pp > 1 else [made.specs]
    specs = [spec for stage in cut for spec in stage]
    if p.dcp > 1 and any(spec.is_window and spec.dcp_sharded for spec in specs):
        raise KvcalcError(
            "unsupported_architecture", "vLLM shards no sliding window over --dcp ranks",
            "leave --dcp out",
        )  # fmt: skip
    try:
        groups = groups_of(
            specs, layout=made.layout, disable_hybrid=made.disable_hybrid, rules=rules
        )
        ranks, start = [], 0
        for stage in cut:
            part = range(start, start + len(stage))
            ranks.append(tuple(g.only(part) for g in groups) if p.pp > 1 else tuple(groups))
            start += len(stage)
        blocks = tuple(block_bytes(rank, made.layout) for rank in ranks) if groups else (0,) * p.pp
        whole = block_bytes(groups, made.layout) if groups else 0
    except PlanError as refusal:
        raise KvcalcError(
            "unsupported_architecture", f"vLLM refuses {plan.model.id}: {refusal}",
            "--engine none gives the textbook's figures",
        ) from None  # fmt: skip
    return Layout(
        plan.model, tuple(groups), tuple(ranks), blocks, whole, load, rules, made.block_size
    )
