"""Groups of block-outermost layouts, where pages of several sizes lie side by side in a block.

DeepSeek-V4's caches need it: five kinds of pages in one pool. Source: vLLM 0.33
`v1/core/kv_cache_planning.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kvcalc.core.units import cdiv
from kvcalc.engines.vllm.groups import Group
from kvcalc.engines.vllm.merge import PlanError, uniform_type
from kvcalc.engines.vllm.specs import MAMBA, RING, Spec
from kvcalc.engines.vllm.versions import Rules


class _Bucket(NamedTuple):
    """Layers of one kind, and by page size those that have it, in order."""

    layers: list[int]
    specs: list[Spec]
    by_page: dict[int, list[int]]

    @property
    def balanced(self) -> bool:
        """As many layers of each page size: a pattern that repeats."""
        return len({len(at) for at in self.by_page.values()}) == 1

    @property
    def repeats(self) -> int:
        """Layers of the most frequent page size; of a balanced bucket, its repetitions."""
        return max(len(at) for at in self.by_page.values())

    def widest(self, count: int) -> int:
        """Bytes of the largest of `count` groups that the bucket is cut into."""
        return sum(cdiv(len(at), count) * page for page, at in self.by_page.items())


def packed_groups(specs: Sequence[Spec]) -> list[Group]:
    """Groups whose pages are packed into one block of the pool.

    Buckets of one kind; balanced ones are cut into groups of equal pattern repeats, the number
    that wastes least; states are cut so that they never widen a block.
    """
    buckets = [_bucket(specs, at) for at in _kinds(specs)]
    floor = max((b.repeats for b in buckets if b.balanced and len(b.by_page) > 1), default=0)
    repeats = _least_padding([b.repeats for b in buckets if b.balanced], floor) if floor else None

    def count_of(bucket: _Bucket) -> int:
        if bucket.balanced and repeats is not None:
            return cdiv(bucket.repeats, repeats)
        return 1

    def is_state(bucket: _Bucket) -> bool:
        first = bucket.specs[0]
        return first.type in {MAMBA, RING} or (repeats is None and first.is_window)

    anchor = max(b.widest(len(b.layers) if is_state(b) else count_of(b)) for b in buckets)
    groups = []
    for bucket in buckets:
        count = count_of(bucket)
        if is_state(bucket):
            fit = max(anchor // bucket.specs[0].page_bytes, 1)
            count = max(count, cdiv(len(bucket.layers), fit))
        groups += _cut(specs, bucket, count)
    return groups


def tuple_groups(specs: Sequence[Spec], rules: Rules) -> list[Group]:
    """DeepSeek-V4's groups before 0.29: tuples of one layer of each page size.

    The full latents come first; windows' pages are padded to the next of their sizes, and every
    group to the largest number of tuples.
    """
    full = [i for i, s in enumerate(specs) if s.is_full]
    sizes = sorted({specs[i].page_bytes for i in full})
    windows: dict[tuple[int, int | None], list[int]] = {}
    for index, spec in enumerate(specs):
        if spec.is_window:
            windows.setdefault((spec.block_size, spec.window), []).append(index)
    if not full or any(specs[i].page_bytes > sizes[-1] for at in windows.values() for i in at):
        raise PlanError("AssertionError: ")
    padded = [
        s.with_page(next(p for p in sizes if p >= s.page_bytes)) if s.is_window else s
        for s in specs
    ]
    buckets = [_bucket(padded, at) for at in (full, *windows.values())]
    tuples = _least_padding([b.repeats for b in buckets], buckets[0].repeats)
    groups = [
        group for bucket in buckets for group in _cut(padded, bucket, cdiv(bucket.repeats, tuples))
    ]
    if rules.pads_pages:
        # From 0.24 each page size has as many slots as the group with most layers of it.
        counts = [Counter(s.page_bytes for s in g.specs) for g in groups]
        least = sum(size * max(c[size] for c in counts) for size in sizes)
    else:
        least = _tuple_bytes(groups, sizes)
    return [replace(group, least_bytes=least) for group in groups]


def _tuple_bytes(groups: Sequence[Group], sizes: Sequence[int]) -> int:
    most = max(max(Counter(s.page_bytes for s in g.specs).values()) for g in groups)
    return sum(sizes) * most


def tuple_need(groups: Sequence[Group]) -> int:
    """Bytes of a block as the fit check before 0.29 counts it: all page sizes, most tuples."""
    return _tuple_bytes(groups, sorted({s.page_bytes for s in groups[0].specs}))


def _kinds(specs: Sequence[Spec]) -> list[list[int]]:
    """Layer numbers by kind: each layer joins the first kind that it is uniform with."""
    kinds: list[list[int]] = []
    for index, spec in enumerate(specs):
        for at in kinds:
            if uniform_type([*(specs[i] for i in at), spec]):
                at.append(index)
                break
        else:
            kinds.append([index])
    return kinds


def _bucket(specs: Sequence[Spec], at: list[int]) -> _Bucket:
    by_page: dict[int, list[int]] = {}
    for index in at:
        by_page.setdefault(specs[index].page_bytes, []).append(index)
    return _Bucket(at, [specs[i] for i in at], by_page)


def _cut(specs: Sequence[Spec], bucket: _Bucket, count: int) -> list[Group]:
    """`count` groups, taking every count-th repeat of the pattern."""
    if count == 1:
        return [Group(tuple(bucket.layers), tuple(bucket.specs), uniform=True)]
    rounds = list(zip(*bucket.by_page.values(), strict=False))
    parts = [[i for one in rounds[start::count] for i in one] for start in range(count)]
    return [Group(tuple(p), tuple(specs[i] for i in p), uniform=True) for p in parts]


def _least_padding(counts: list[int], floor: int) -> int:
    """The group size within [floor, max] that pads the counts least; of equals the largest.

    21 and 43 layers: 22 pads 1 + 1 and wins over 21, which pads 0 + 20.
    """
    sizes = range(max(1, floor), max(counts) + 1)
    return min(sizes, key=lambda d: (sum(-n % d for n in counts), -d), default=max(1, floor))
