"""What an engine's rules expect of a log: its budget, and what its pool holds.

The rules say what the engine itself would print; these lines are read as a log is read, so that
one wording says what a figure means on both sides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvcalc.api.check_pools import pool_bytes
from kvcalc.api.check_setup import Setup
from kvcalc.core import fit as core
from kvcalc.core.cache import State
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.check import Assumed
from kvcalc.core.units import GIB, TIB, fixed, format_bytes
from kvcalc.logs.facts import Fact, Refusal
from kvcalc.logs.reader import facts_of


class Predicted(NamedTuple):
    """What kvcalc expects of one figure: the best guess, its bounds, where they come from."""

    item: str
    best: float
    low: float
    high: float
    tolerance: str
    why: str = ""
    device: str = ""


class Expected(NamedTuple):
    """All that is expected of a log; `reasons` say why something is not."""

    figures: tuple[Predicted, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    reasons: tuple[str, ...] = ()
    #: The plan with what was assumed filled in.
    plan: core.Plan | None = None


#: Lines of a budget → the figure of the log that they are.
_LINES = {
    "weights": "weights", "activations": "activation", "other": "non_torch",
    "graphs": "graphs_estimated", "kv_pool": "kv_pool",
}  # fmt: skip
_NO_WEIGHTS = "how the weights are stored is not known: --weights or --weight-bytes says it"
#: What a line's note is about.
_SAID = {
    "weights": "stored as ", "activation": "the profiling run's peak, ",
    "non_torch": "not PyTorch's own: ", "graphs_estimated": "charged before they are captured: ",
}  # fmt: skip
#: Figures that follow from the pool that the log prints.
_OF_POOL = ("kv_tokens", "kv_blocks", "max_concurrency", "needed", "kv_key", "kv_value",
            "max_total_num_tokens")  # fmt: skip
#: Settings that vLLM logs of some releases do not print, and what they may be.
_BATCHES = (8192, 2048, 16_384)
_FITS = "the first that fits"


def budget_of(setup: Setup, plan: core.Plan | None) -> Expected:
    """The engine's budget of one GPU, where its memory and its weights are known."""
    if plan is None or plan.rules is None:
        return Expected()
    reasons: tuple[str, ...] = ()
    items = set(_LINES.values())
    if plan.memory is None:
        # Whatever the memory, the weights are the same.
        plan, items = plan._replace(memory=core.Memory(TIB)), {"weights"}
        reasons = ("the log does not name the GPU's memory: --gpu or --gpu-memory says it",)
    logged = setup.log.smallest("weights")
    if plan.weights.bytes is None:
        if logged is None or items == {"weights"}:
            return Expected(reasons=(*reasons, _NO_WEIGHTS))
        items.discard("weights")
        share = int(logged.value) * plan.parallel.tp * plan.parallel.pp
        plan = plan._replace(weights=plan.weights._replace(bytes=share))
    assert plan.rules is not None  # noqa: S101 - asked above; for the type checker
    try:
        ranks = plan.rules.ranks(plan)
    except KvcalcError as error:
        return Expected(reasons=(error.message,))
    tight = min(ranks, key=lambda r: r.pool.best)
    figures, added = [], {line.item: line for line in tight.budget}
    for line in tight.budget:
        item = _LINES.get(line.item, "")
        if item not in items:
            continue
        best, low, high = line.bytes, line.low_bytes, line.high_bytes
        if item != "kv_pool":
            best, low, high = -best, -high, -low
        tolerance = BUDGET
        if item == "weights":
            # Loads differ from the rule by up to 0.9 %, on CUDA and in plain formats.
            low, high = min(low, best * 99 // 100), max(high, best * 101 // 100)
            tolerance = f"{BUDGET}, at least ± 1 %"
        if item == "weights" and (load := added.get("load")) is not None:
            # SGLang prints them with what the load brings beside the tensors.
            best, low, high = best - load.bytes, low - load.high_bytes, high - load.low_bytes
        why = _sum(tight) if item == "kv_pool" else _SAID[item] + line.note if line.note else ""
        figures.append(Predicted(item, best, low, high, tolerance, why))
    figures += _peak_and_graphs(figures)
    return Expected(tuple(figures), reasons=reasons)


def _peak_and_graphs(figures: Sequence[Predicted]) -> list[Predicted]:
    """The peak as vLLM prints it from 0.28 on: with what it charges for CUDA graphs."""
    parts = [f for f in figures if f.item in {"activation", "graphs_estimated"}]
    if not parts or parts[0].item != "activation":
        return []
    best, low, high = (sum(getattr(f, end) for f in parts) for end in ("best", "low", "high"))
    why = "; ".join(f.why for f in parts if f.why)
    return [parts[0]._replace(item="activation_and_graphs", best=best, low=low, high=high, why=why)]


def _sum(rank: core.RankPlan) -> str:
    """The pool as a sum: 22.40 budget − 14.99 weights − 0.40 activations − 0.06 other."""
    lines = {line.item: line.bytes for line in rank.budget}
    total = lines.pop("memory", 0) + lines.pop("unused", 0)
    lines.pop("kv_pool", None)
    parts = [f"{fixed(total, GIB)} budget"]
    parts += [f"{fixed(-size, GIB)} {name}" for name, size in lines.items() if size]
    return " − ".join(parts) + " GiB"


def of_pool(setup: Setup) -> Expected:
    """What the logged pool holds, by the rules of the release: its rounding gives the bounds.

    Where the log does not print the release or the batch, the first that fits is taken, and named.
    """
    plan = setup.plan
    pool = pool_bytes(setup)
    if plan is None or plan.rules is None or pool is None:
        return Expected(plan=plan)
    first = Expected(plan=plan)
    for number, (assumed, tried) in enumerate(_variants(setup, plan)):
        found = _one(tried, pool, assumed, several=setup.log.engine == "sglang")
        if setup.log.engine == "sglang":
            found = _spare_page(setup, found)
        if _fits(setup, found):
            return found
        first = found if number == 0 else first
    return first


def of_budget(plan: core.Plan | None, budget: Expected) -> Expected:
    """As `of_pool`, of a log that prints no pool: for the one that the budget expects."""
    pool = next((f for f in budget.figures if f.item == "kv_pool"), None)
    if plan is None or pool is None or pool.low < 0:
        return Expected()
    fact = Fact("kv_pool", pool.best, "bytes", pool.low, pool.high, 0)
    made = _one(plan, fact, ())
    return made._replace(figures=tuple(f._replace(tolerance=BUDGET) for f in made.figures))


def _variants(setup: Setup, plan: core.Plan) -> Iterator[tuple[tuple[Assumed, ...], core.Plan]]:
    """The plan with what the log leaves open filled in, the likeliest first."""
    if setup.log.engine != "vllm":
        yield (), plan
        return
    versions: Sequence[str | None] = [plan.version]
    if plan.version is None:
        versions = _releases(setup)
    windowed = bool(plan.model.bends) and "max_num_batched_tokens" not in plan.settings
    batches: Sequence[int | None] = _BATCHES if windowed else [None]
    states = any(isinstance(g.cache, State) for g in plan.model.groups)
    open_ = states and "enable_prefix_caching" not in plan.settings
    prefixes: Sequence[bool | None] = [None, True, False] if open_ else [None]
    for version, batch, prefix in itertools.product(versions, batches, prefixes):
        assumed = []
        settings = dict(plan.settings)
        if prefix is not None:
            settings["enable_prefix_caching"] = prefix
            assumed.append(Assumed("enable_prefix_caching", "on" if prefix else "off", _FITS))
        if plan.version is None and version is not None:
            assumed.append(Assumed("version", version, "the newest release that fits"))
        if batch is not None:
            settings["max_num_batched_tokens"] = batch
            assumed.append(Assumed("max_num_batched_tokens", f"{batch:,}", _FITS))
        yield tuple(assumed), plan._replace(version=version, settings=settings)


def _releases(setup: Setup) -> list[str]:
    """Releases whose rules differ, newest first; V0's wordings leave only V0."""
    from kvcalc.engines.vllm.versions import TABLE  # noqa: PLC0415 - one engine, one import

    if setup.log.last("cpu_blocks") is not None or setup.log.last("weights_rounded") is not None:
        return ["0.6.6"]
    return [".".join(map(str, first)) for first, _ in reversed(TABLE[1:])]


def _spare_page(setup: Setup, expected: Expected) -> Expected:
    """SGLang's buffers hold a page beside the tokens; of a log that does not tell it, up to 256."""
    given = setup.settings.get("page_size")
    page = 256 if given is None else int(given)
    figures = [
        f._replace(low=f.low - page, best=f.best - (0 if given is None else page),
                   tolerance=f"{f.tolerance}, a page less")
        if f.item in {"kv_tokens", "max_total_num_tokens"} else f
        for f in expected.figures
    ]  # fmt: skip
    return expected._replace(figures=tuple(figures))


def _one(
    plan: core.Plan, pool: Fact, assumed: tuple[Assumed, ...], *, several: bool = False
) -> Expected:
    """The engine's own lines for the pool as printed, and for the ends of its rounding.

    `several`: an item that is printed again is another pool's, and not the same one's anew.
    """
    assert plan.rules is not None  # noqa: S101 - asked before; for the type checker
    ends: list[tuple[list[Fact], list[Refusal]]] = []
    try:
        for size in (pool.value, pool.low, pool.high):
            given = plan._replace(kv_pool=int(size))
            ranks = plan.rules.ranks(given)
            ends.append(facts_of(plan.rules.startup_lines(given, ranks)))
    except KvcalcError as error:
        return Expected(assumed=assumed, reasons=(error.message,), plan=plan)
    block = _block(plan)
    figures = []
    for item in _OF_POOL:
        why = block if item in {"kv_tokens", "kv_blocks"} else ""
        told = [[f for f in facts if f.item == item] for facts, _ in ends]
        for best, low, high in zip(*(t if several else t[-1:] for t in told), strict=False):
            figures.append(Predicted(item, best.value, min(low.low, high.low),
                                     max(low.high, high.high), _ROUNDING, why))  # fmt: skip
    longest = [next((r.longest for r in refused if r.longest), None) for _, refused in ends]
    if all(n is not None for n in longest):
        best_, low_, high_ = (float(n or 0) for n in longest)
        figures.append(Predicted("longest", best_, low_, high_, _ROUNDING, block))
    return Expected(tuple(figures), assumed, _refused(ends[0][1]), plan)


def _refused(refusals: list[Refusal]) -> tuple[str, ...]:
    """The engine would not have started, by our count."""
    return tuple(
        f"by kvcalc's count the engine refuses this pool: {r.message}" for r in refusals[:1]
    )


_ROUNDING = "the logged pool ± half its last digit"
BUDGET = "kvcalc's interval"


def _block(plan: core.Plan) -> str:
    """Blocks of 16 tokens, 2 MiB each; of several kinds of layers what a first token takes."""
    assert plan.rules is not None  # noqa: S101 - as above
    tokens = plan.rules.block_tokens(plan)
    if tokens is None or tokens == 1:
        return ""
    ranks = plan.rules.ranks(plan._replace(kv_pool=GIB))
    size = max(plan.rules.request_bytes(plan, rank, 1) for rank in ranks)
    text = f"blocks of {tokens:,} tokens"
    if not size:
        return text
    if len(plan.model.groups) == 1:
        return f"{text}, {format_bytes(size)} each"
    return f"{text}; the first of all kinds of layers take {format_bytes(size)}"


def _fits(setup: Setup, expected: Expected) -> bool:
    """Whether every figure that both sides have agrees."""
    both = False
    for figure in expected.figures:
        fact = setup.log.smallest(figure.item)
        if fact is not None:
            both = True
            if not (fact.high >= figure.low and fact.low <= figure.high):
                return False
    return both
