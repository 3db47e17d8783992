"""The coefficients of an engine's budget that a log measured, for a profile of this machine."""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc.api.check_predict import Predicted
from kvcalc.core import fit as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import GIB
from kvcalc.engines.coefficients import Coefficient, coefficients
from kvcalc.logs.facts import Fact, Log
from kvcalc.logs.profile import Measured

#: Readings of one host differ by about so much from start to start.
_APART = GIB // 20
#: The coefficient that what is left over belongs to, and the share of it that reaches the pool.
_REST = {"tensorrt-llm": ("base", "free_gpu_memory_fraction", 0.9),
         "lmdeploy": ("context", "cache_max_entry_count", 0.8)}  # fmt: skip


def measured_of(
    log: Log, plan: core.Plan | None, figures: Sequence[Predicted]
) -> tuple[Measured, ...]:
    """What the log says of coefficients: printed figures, and what the pool leaves over.

    The pool that came out differs from kvcalc's by what this machine keeps beside it: that goes
    into the coefficient of memory outside PyTorch, so that a later fit gives the log's pool.
    """
    pool = log.smallest("kv_pool")
    expected = {f.item: f for f in figures}
    if plan is None or pool is None or "kv_pool" not in expected:
        return ()
    try:
        shipped = coefficients(log.engine)
    except KvcalcError:
        return ()
    found = []
    graphs = log.last("graphs_estimated")
    apart = expected["kv_pool"].best - pool.value
    if graphs is not None and "graphs_estimated" in expected and "graph" in shipped:
        found.append(_graph(shipped["graph"], graphs, expected["graphs_estimated"]))
        apart += expected["graphs_estimated"].best - graphs.value
    rest = _rest(log, plan)
    if rest is not None and rest[0] in shipped:
        name, share = rest
        value = shipped[name].bytes()[0] + apart / share
        found.append(Measured(
            name, "GiB", value, value - _APART, value + _APART,
            f"line {pool.line:,}: what the pool of {pool.value / GIB:.2f} GiB leaves over",
        ))  # fmt: skip
    return tuple(found)


def _graph(shipped: Coefficient, fact: Fact, figure: Predicted) -> Measured:
    """The shipped figure of a layer and graph, scaled to what the log printed for all of them."""
    best = shipped.bytes()[0] * fact.value / figure.best
    low, high = (shipped.bytes()[0] * end / figure.best for end in (fact.low, fact.high))
    return Measured("graph", "MiB", best, low, high, f"line {fact.line:,}: estimated CUDA graphs")


def _rest(log: Log, plan: core.Plan) -> tuple[str, float] | None:
    """The coefficient that takes what is left over, and how much of it the pool feels."""
    if log.engine == "vllm":
        from kvcalc.engines.vllm.defaults import run_of  # noqa: PLC0415 - one engine, one import

        run = run_of(plan)
        if run.v0:
            return "non_torch_v0", 1.0
        if run.platform == "rocm":
            several = plan.parallel.gpus > plan.parallel.dp
            return ("non_torch_rocm_ranks" if several else "non_torch_rocm"), 1.0
        return "non_torch", 1.0
    known = _REST.get(log.engine)
    if known is None:
        return None
    name, setting, default = known
    return name, float(plan.settings.get(setting, default))
