"""vLLM's grouping of layers: which share a block table, and what one block of the pool costs.

Every group draws block ids from one pool, so a block is as large as the largest group needs.
Source: vLLM 0.33 `v1/core/kv_cache_planning.py`, compared with its own output (tests/oracles).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvcalc.core.units import cdiv
from kvcalc.engines.vllm.merge import (
    PlanError,
    full_allocation,
    mergeable,
    promoted_by_sharding,
    uniform_type,
)
from kvcalc.engines.vllm.specs import FULL, MAMBA, MLA, WINDOW_MLA, Load, Spec
from kvcalc.engines.vllm.versions import Rules, rules_of

#: Physical order of layers, blocks, heads, states and content in memory.
LAYOUTS = ("LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC")
UNIFORM = "UniformTypeKVCacheSpecs"


@dataclass(frozen=True, slots=True)
class Group:
    """Layers of one block table. `uniform`: of one kind but with pages of several sizes."""

    layers: tuple[int, ...]
    specs: tuple[Spec, ...]
    uniform: bool = False
    #: What the group is elsewhere, for a pipeline stage that holds none of its layers.
    elsewhere: tuple[Spec, ...] = ()
    #: Bytes that a block takes at least, where layers are padded to tuples (DeepSeek-V4 to 0.28).
    least_bytes: int = 0

    @property
    def spec_type(self) -> str:
        """The name of vLLM's spec class for the group."""
        return UNIFORM if self.uniform else self.specs[0].type

    @property
    def block_size(self) -> int:
        """Tokens that one block of the group covers."""
        return self.specs[0].block_size

    @property
    def page_bytes(self) -> int:
        """Bytes of one block: of all layers if their pages differ, else of one layer."""
        pages = [spec.page_bytes for spec in self.specs]
        return sum(pages) if self.uniform else pages[0]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block over all layers of the group."""
        return max(sum(spec.page_bytes for spec in self.specs), self.least_bytes)

    def blocks(self, load: Load) -> int:
        """Blocks that one request takes of the pool for this group."""
        specs = self.specs or self.elsewhere
        return max(spec.blocks(load) for spec in (specs if self.uniform else specs[:1]))

    def only(self, layers: range) -> Group:
        """The part of the group that one pipeline stage holds."""
        kept = [(i, s) for i, s in zip(self.layers, self.specs, strict=True) if i in layers]
        indices, specs = tuple(i for i, _ in kept), tuple(s for _, s in kept)
        return replace(self, layers=indices, specs=specs, elsewhere=self.specs)


def groups_of(
    specs: Sequence[Spec], *, layout: str, disable_hybrid: bool, rules: Rules | None = None
) -> list[Group]:
    """The groups of a model's layers, in vLLM's order.

    One group if all layers agree (or only their sizes differ); else pages are made equal and the
    layers of each kind cut into groups of one size. `rules` are a release's, default the newest.

    Raises:
        PlanError: What vLLM says when the layers cannot be grouped.
    """
    rules = rules or rules_of(None)
    if disable_hybrid or not rules.hybrid_groups:
        specs = promoted_by_sharding(specs)
    if not specs:
        return []
    everything = tuple(range(len(specs)))
    if mergeable(specs):
        return [Group(everything, tuple(specs))]
    if uniform_type(specs):
        return [Group(everything, tuple(specs), uniform=True)]
    if len({s.page_bytes for s in specs}) > 1:
        if not rules.packs_pages and any(s.type == WINDOW_MLA for s in specs):
            from kvcalc.engines.vllm.packed import tuple_groups  # noqa: PLC0415 - DeepSeek-V4 only

            return tuple_groups(specs, rules)
        if rules.packs_pages and layout.startswith("B"):
            from kvcalc.engines.vllm.packed import packed_groups  # noqa: PLC0415 - as above

            return packed_groups(specs)
    try:
        same_page = _same_page(specs, pads=rules.pads_pages)
    except _UnequalPagesError as unequal:
        fallback = full_allocation(specs)
        if fallback is None:
            raise PlanError(f"NotImplementedError: {unequal}") from None
        return [Group(everything, fallback, uniform=True)]
    return _equal_page_groups(same_page, rules.group_ratio)


def block_bytes(groups: Sequence[Group], layout: str) -> int:
    """Bytes of one block of the pool: the largest group's.

    Raises:
        PlanError: If the layout cannot hold pages of several sizes.
    """
    if any(group.least_bytes for group in groups):
        return max(group.block_bytes for group in groups)
    pages = sorted({spec.page_bytes for group in groups for spec in group.specs})
    compact = set(layout[:2]) == {"L", "B"}
    if len(pages) > 1 and (not compact or (len(groups) > 1 and layout.startswith("L"))):
        raise PlanError(
            f"ValueError: KV cache layout {layout} cannot express this model's mixed page sizes "
            f"({pages}); a backend should declare block-outermost supported layouts (e.g. BLHNC), "
            "or set VLLM_KV_CACHE_LAYOUT=BLHNC."
        )
    return max(group.block_bytes for group in groups)


class _UnequalPagesError(Exception):
    """Pages that neither larger blocks nor padding make equal."""


def _same_page(specs: Sequence[Spec], *, pads: bool) -> list[Spec]:
    """The layers with pages of one size: larger blocks where they divide it, else padding.

    MLA pages are not padded: sparse kernels index whole token rows.
    """
    largest = max(s.page_bytes for s in specs)
    result = []
    for index, spec in enumerate(specs):
        if spec.page_bytes == largest:
            result.append(spec)
        elif spec.type == MAMBA:
            result.append(spec.with_page(largest))
        elif largest % spec.page_bytes == 0:
            grown = spec.with_block_size(spec.block_size * (largest // spec.page_bytes))
            if grown.page_bytes != largest:
                raise PlanError("AssertionError: ")
            result.append(grown)
        elif pads and spec.type != MLA:
            result.append(spec.with_page(largest))
        else:
            raise _UnequalPagesError(
                f"Layer {index}: page size is not divisible by the maximum page size and cannot "
                "be padded. Padding is only supported for non-MLA attention layers."
            )
    return result


def _equal_page_groups(specs: Sequence[Spec], ratio: float) -> list[Group]:
    """Groups of one size, strided over the layers so that pipeline stages stay balanced.

    The size is that of the smallest kind, or of the largest if that is below `ratio` times it:
    12 sliding + 13 full layers become groups of 13, not of 12 (which would take a third group).
    """
    buckets: list[list[int]] = []
    for spec in dict.fromkeys(specs):
        alike = [i for i, s in enumerate(specs) if s == spec]
        for bucket in buckets:
            members = [specs[i] for i in bucket]
            if _same_class(members[0], spec) and mergeable([*members, spec], strict=False):
                bucket.extend(alike)
                break
        else:
            buckets.append(alike)
    counts = [len(b) for b in buckets]
    size = max(counts) if max(counts) < min(counts) * ratio else min(counts)
    groups = []
    for bucket in buckets:
        count = cdiv(len(bucket), size)
        groups += [
            Group(tuple(part), tuple(specs[i] for i in part))
            for part in (bucket[i::count] for i in range(count))
        ]
    return groups


def _same_class(first: Spec, other: Spec) -> bool:
    """Whether vLLM tries to merge the two: a full class takes its subclasses, the rest equals."""
    return other.is_full if first.type == FULL else other.type == first.type
