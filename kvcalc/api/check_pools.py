"""Which of SGLang's pools a log's lines are: of all layers, of windows, of a draft model.

Each pool prints the same line; what it is of follows from the order in which they are made (window
layers, then full ones, then a draft's) and from the tokens told before.
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.api.check_setup import Setup
from kvcalc.core.cache import SlidingWindow
from kvcalc.logs.facts import Fact, Log


class Pool(NamedTuple):
    """A pool of the model's own."""

    tokens: Fact
    #: Of the window layers alone (True), of all others (False) or of every layer (None).
    windows: bool | None


def pools_of(setup: Setup) -> list[Pool]:
    """The pools of one rank, in the log's order; none where the log does not tell what they are."""
    log, plan = setup.log, setup.plan
    least = log.smallest("kv_tokens")
    if least is None or plan is None:
        return []
    own = [f for f in log.all("kv_tokens") if f.rank == least.rank]
    window, full = log.last("swa_tokens"), log.last("full_tokens")
    if window is not None and full is not None:
        return _told(own, window.value, full.value)
    windowed = any(isinstance(g.cache, SlidingWindow) for g in plan.model.groups)
    if not windowed or setup.settings.get("disable_hybrid_swa_memory") is True:
        return [Pool(own[0], None)]
    if len(own) > 1 and own[0].value != own[1].value:
        return [Pool(own[0], windows=True), Pool(own[1], windows=False)]
    return []


def _told(own: list[Fact], window: float, full: float) -> list[Pool]:
    """`full_layer_tokens=N, swa_layer_tokens=N` says which is which; a log that is cut has one."""
    found: list[Pool] = []
    for fact in own[:2]:
        windows = fact.value == window and (not found or full != window)
        if not windows and fact.value != full:
            return []
        found.append(Pool(fact, windows))
    return found


def pool_bytes(setup: Setup) -> Fact | None:
    """The pool of the rank that has least; of SGLang all pools of the model's own together."""
    log = setup.log
    pool = log.smallest("kv_pool")
    if pool is None or log.engine != "sglang":
        return pool
    own = [f for f in log.all("kv_pool") if f.rank == pool.rank]
    pools = pools_of(setup)
    if any(p.windows is not None for p in pools):
        if len(pools) < 2:  # the log is cut: one of two
            return None
        own = own[:2]
    elif pools:
        own = own[:1]
    value, low, high = (sum(getattr(f, end) for f in own) for end in ("value", "low", "high"))
    return pool._replace(value=value, low=low, high=high)


def first_rank(log: Log, item: str) -> list[Fact]:
    """The figures of that item that the rank of the first of them printed."""
    found = log.all(item)
    return [f for f in found if f.rank == found[0].rank]
