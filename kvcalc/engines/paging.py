"""What engines beside vLLM share: lines of a budget, releases, pools of whole pages."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from kvcalc.core import shard, sharing
from kvcalc.core.cache import Cache, Chunked, Cross, Full, SlidingWindow, State
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.plan import Interval, Plan, RankPlan, rank_plan, seats
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.textbook import exact
from kvcalc.core.units import shown

#: Totals of equal cards differ by this much between drivers, in 1/1000.
_DRIVER = 3
Release = tuple[int, ...]
Ends = tuple[int, int, int]


def release_of(version: str, engine: str) -> Release:
    """The numbers of a release: "0.5.2.post1" is (0, 5, 2), "b7500" (7500,).

    Raises:
        KvcalcError: "unknown_setting" if there are none.
    """
    match = re.match(r"[vb]?(\d+(?:\.\d+)*)", version.strip())
    if match is None:
        raise KvcalcError(
            "unknown_setting", f'--engine-version: "{shown(version)}" is no release of {engine}',
            f"kvcalc engines show {engine}",
        )  # fmt: skip
    return tuple(int(n) for n in match[1].split("."))


def charge(item: str, ends: Ends, note: str = "", basis: str = "estimated") -> BudgetLine:
    """A deduction of (best, low, high) bytes: its high end makes the pool low."""
    best, low, high = ends
    return BudgetLine(item, -best, basis, -high, -low, note)


def memory_lines(plan: Plan) -> list[BudgetLine]:
    """The memory that a program sees (equal cards differ by driver), and --reserve."""
    memory = plan.memory
    assert memory is not None  # noqa: S101 - the API asked for it; for the type checker
    low, high = memory.low or memory.bytes, memory.high or memory.bytes
    note = ""
    if memory.basis != "exact":
        low = min(low, memory.bytes - memory.bytes * _DRIVER // 1000)
        high = max(high, memory.bytes + memory.bytes * _DRIVER // 1000)
        note = "by driver"
    lines = [BudgetLine("memory", memory.bytes, memory.basis, low, high, note)]
    return lines + ([exact("reserve", -plan.reserve, "--reserve")] if plan.reserve else [])


def left(lines: Sequence[BudgetLine]) -> Interval:
    """What the lines leave: their sums."""
    sums = (
        sum(getattr(line, end) for line in lines) for end in ("bytes", "low_bytes", "high_bytes")
    )
    return Interval(*sums)


def loaded(plan: Plan, stage: int, *, experts_over_dp: bool = False) -> BudgetLine | None:
    """The weights on one GPU of a stage, split and padded as PyTorch's engines load them.

    `experts_over_dp`: data-parallel ranks share the routed experts instead of holding all of them.
    """
    from kvcalc.engines.coefficients import coefficients  # noqa: PLC0415 - a given pool needs none
    from kvcalc.engines.vllm.defaults import run_of  # noqa: PLC0415
    from kvcalc.engines.vllm.weights import BEFORE_WIDE, resident  # noqa: PLC0415
    from kvcalc.engines.vllm.widths import widths_of  # noqa: PLC0415

    # The loader's rules, without what only vLLM sets.
    bare = plan._replace(version=None, settings={}, utilization=None)
    if not experts_over_dp:
        bare = bare._replace(parallel=plan.parallel._replace(dp=1))
    w, run = widths_of(plan.model, plan.weights.bytes), run_of(bare)
    if plan.weights.format == "mxfp4" and plan.device.architecture == "Hopper":
        # Their Triton kernels pad the width to 64 and values alone, as vLLM's did to 0.16.
        run = run._replace(release=BEFORE_WIDE)
    found = resident(bare, run, w, coefficients("vllm"), stage)
    return None if found is None else charge("weights", found.bytes, found.note, found.basis)


_STORED: dict[tuple[int, bool], tuple[Model, Model]] = {}


def stored(model: Model, *, windows: bool = False) -> Model:
    """The model as a paged pool holds it: states aside, windows as full layers unless kept.

    Kept for the model objects in use (the entry holds the model, so its id stays its own): a
    search for the longest context asks dozens of times.

    Raises:
        KvcalcError: "unsupported_architecture" for an encoder's keys.
    """
    kept = _STORED.get((id(model), windows))
    if kept is None:
        if len(_STORED) > 1024:
            _STORED.clear()
        held = replace(model, layers=tuple(
            tuple(_held(c, model, windows=windows) for c in layer if not isinstance(c, State))
            for layer in model.layers
        ))  # fmt: skip
        kept = _STORED[id(model), windows] = (model, held)
    return kept[1]


def _held(cache: Cache, model: Model, *, windows: bool) -> Cache:
    if isinstance(cache, Cross):
        raise KvcalcError(
            "unsupported_architecture",
            f"{model.id} attends to an encoder, whose pool this engine's rules do not have",
            "take --engine none or vllm",
        )
    if isinstance(cache, (SlidingWindow, Chunked)) and not windows:
        return Full(kv_heads=cache.kv_heads, key_dim=cache.key_dim, value_dim=cache.value_dim)
    return cache


def states_of(model: Model) -> list[State]:
    """The recurrent states of a model, one a layer."""
    return [c for layer in model.layers for c in layer if isinstance(c, State)]


class Paged(ABC):
    """A pool of whole pages; a request takes pages of its own, a shared prefix is stored once."""

    #: What users call it.
    engine: str

    @abstractmethod
    def page(self, plan: Plan) -> int:
        """Tokens of a page."""

    @abstractmethod
    def slots(self, plan: Plan) -> int:
        """Requests at once, whatever the memory; of one replica."""

    @abstractmethod
    def caches_prefixes(self, plan: Plan) -> bool:
        """Whether requests that begin alike share pages."""

    @abstractmethod
    def lines(self, plan: Plan, model: Model, stage: int) -> tuple[BudgetLine, ...]:
        """The budget of one GPU of a stage; the last line is the pool."""

    def ranks(self, plan: Plan) -> list[RankPlan]:
        """One GPU of each pipeline stage, with its budget and KV pool.

        Raises:
            KvcalcError: "not_divisible" where heads or layers do not divide;
                "unsupported_architecture" for encoder-decoders.
        """
        stored(plan.model)  # refusals come before figures
        if plan.mixed:
            raise KvcalcError(
                "usage", f"what {self.engine} does on GPUs that differ is not known",
                "plan one kind, or --engine vllm, llama.cpp or none",
            )  # fmt: skip
        ranks = []
        for stage, model in enumerate(shard.stage_ranks(plan.model, plan.parallel)):
            ranks += [
                rank_plan(model, seat, self.lines(seat.plan, model, stage))
                for seat in seats(plan, stage)
            ]
        return ranks

    def token_bytes(self, plan: Plan, model: Model) -> int:
        """Bytes of a token in one rank's pool; whole pages hold so many of each."""
        return stored(model).token_bytes(plan.storage)

    def given(self, plan: Plan, model: Model) -> tuple[BudgetLine, ...]:
        """A pool that is known, in bytes or as tokens; else nothing."""
        if plan.kv_pool is not None:
            return (exact("kv_pool", plan.kv_pool, "given"),)
        if plan.kv_pool_tokens is not None:
            size = plan.kv_pool_tokens * self.token_bytes(plan, model)
            return (exact("kv_pool", size, f"{plan.kv_pool_tokens:,} tokens, given"),)
        return ()

    def pages(self, plan: Plan, tokens: int) -> int:
        """Pages of one request; decode-context ranks share its tokens."""
        return -(-tokens // (self.page(plan) * plan.parallel.dcp))

    def page_bytes(self, plan: Plan, rank: RankPlan) -> int:
        """Bytes of a page on one rank."""
        return self.page(plan) * self.token_bytes(plan, rank.model)

    def request_bytes(self, plan: Plan, rank: RankPlan, tokens: int) -> int:
        """Whole pages of one request of `tokens`."""
        return self.pages(plan, tokens) * self.page_bytes(plan, rank)

    def _shared_pages(self, plan: Plan, tokens: int) -> int:
        if not self.caches_prefixes(plan):
            return 0
        return min(plan.shared_prefix, tokens) // (self.page(plan) * plan.parallel.dcp)

    def requests(self, plan: Plan, rank: RankPlan, pool: int, tokens: int) -> int:
        """Requests of `tokens` in the pool's whole pages, at most the engine's slots."""
        size, one = self.page_bytes(plan, rank), self.pages(plan, tokens)
        if pool < 0:
            return 0
        if not size:
            return self.slots(plan)
        shared = self._shared_pages(plan, tokens)
        most = sharing.most(pool // size, one, shared, plan.prefix_copies)
        return min(most, self.slots(plan))

    def needed(self, plan: Plan, rank: RankPlan, tokens: int, requests: int) -> int:
        """Whole pages of `requests` requests of `tokens`."""
        one, shared = self.pages(plan, tokens), self._shared_pages(plan, tokens)
        pages = sharing.held(requests, one, shared, plan.prefix_copies)
        return pages * self.page_bytes(plan, rank)

    def block_tokens(self, plan: Plan) -> int | None:
        """Tokens of a page."""
        return self.page(plan)

    def shared_tokens(self, plan: Plan) -> int:
        """Whole pages of the prefix."""
        pages = self._shared_pages(plan, plan.context)
        return pages * self.page(plan) * plan.parallel.dcp

    def block_bytes(self, plan: Plan, rank: RankPlan) -> int | None:
        """Bytes of a page."""
        return self.page_bytes(plan, rank) or None

    def rank_tokens(self, plan: Plan, rank: RankPlan) -> int | None:
        """Tokens of the pool's whole pages."""
        size = self.page_bytes(plan, rank)
        if not size:
            return None
        return max(rank.pool.best, 0) // size * self.page(plan) * plan.parallel.dcp

    def slot_limit(self, plan: Plan, ranks: Sequence[RankPlan], setting: str) -> tuple[Limit, ...]:
        """A line where the pool would hold more requests than the engine runs at once."""
        slots = self.slots(plan)
        held = [
            max(r.pool.best, 0) // size // max(self.pages(plan, plan.context), 1)
            for r in ranks
            if (size := self.page_bytes(plan, r))
        ]
        if not held or min(held) <= slots:
            return ()
        return (Limit(
            setting,
            f"at most {slots:,} requests run at once in each replica; the pool would hold "
            f"{min(held):,}: --set {setting}",
        ),)  # fmt: skip
