"""kvcalc.simulate: a stream of requests through a block pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.api.simulate_load import Load
from kvcalc.api.simulate_setup import Setup
from kvcalc.api.simulate_solve import solve_for
from kvcalc.core.alloc import POLICIES
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.model import Model
from kvcalc.core.results.rows import Rows, WhatIfRow
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.core.simulate.run import SCHEDULERS
from kvcalc.core.units import shown
from kvcalc.shape import Count, Shape


@takes_auto
def simulate(
    model: str | Model | None = None,
    *,
    trace: str | None = None,
    policy: str | Sequence[str] = "paged",
    scheduler: str = "vllm",
    pool: Count | None = None,
    blocks: Count | None = None,
    block_size: Count | None = None,
    gpu: str | None = None,
    gpus: Count | None = None,
    tp: Count | None = None,
    max_batched_tokens: Count | None = None,
    max_requests: Count | None = None,
    prefix_caching: bool = False,
    no_prefix_caching: bool = False,
    max_context: Count | None = None,
    clock: str | None = None,
    step_seconds: str | float | None = None,
    requests_per_second: str | float | None = None,
    limit: Count | None = None,
    skip_bad: bool = False,
    seed: Count | None = None,
    per_request: bool = False,
    series: Count | None = None,
    solve: str | None = None,
    max_wait: str | float | None = None,
    chart: bool = False,
    no_chart: bool = False,
    set: Mapping[str, object] | None = None,
    engine: str | None = None,
    engine_version: str | None = None,
    utilization: str | float | None = None,
    reserve: Count | None = None,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    encoder_tokens: Count | None = None,
    allow_long_context: bool = False,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> SimulateResult | Rows:
    """What becomes of a stream of requests: waiting, preemptions, memory used and wasted.

    Args:
        model: As in `kvcalc.size`; None simulates blocks alone, then the pool is `blocks`.
        trace: A file, "-", or a spec like "poisson:rate=5,prompt=1000,output=lognormal(200,0.8)".
        policy: naive, pow2, exact or paged; several give rows.
        scheduler: vllm, or static: batch after batch.
        pool: Memory for KV cache of one GPU; or `blocks`, as the engine counts them; or `gpu`,
            whose budget it is.
        gpu: Also the clock's bandwidth and FLOP/s.
        clock: "seconds" by the roofline, or "steps"; default: seconds where there is a GPU.
        step_seconds: What a step lasts with clock "steps", to place arrivals in seconds: 0.02.
        requests_per_second: Scale the trace's times to this rate.
        series: How many steps to list, "all" or a number. Default: 60.
        solve: "rate": the highest at which 99% wait at most `max_wait` seconds; "gpus": the fewest.
        set: vLLM's scheduler settings by name.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    asked = {k: v for k, v in locals().items() if v is not None and v is not False and v != ()}
    several = isinstance(policy, (list, tuple))
    names: list[str] = list(dict.fromkeys(policy if several else (str(policy),)))
    for name in names:
        _one_of(name, POLICIES, "--policy", "policy")
    _one_of(scheduler, SCHEDULERS, "--scheduler", "scheduler")
    if prefix_caching and no_prefix_caching:
        raise KvcalcError("usage", "--prefix-caching and --no-prefix-caching", "give one of them")
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = None
    if model is not None or shape.given():
        found = resolve.model_of(model, shape, encoder_tokens)
    load = Load(trace, asked)
    if len(names) == 1:
        return _simulated(found, load, {**asked, "policy": names[0]})
    rows = tuple(
        WhatIfRow({"policy": name}, _simulated(found, load, {**asked, "policy": name}))
        for name in names
    )
    return Rows(name="simulate", rows=rows)


def _simulated(model: Model | None, load: Load, asked: dict[str, object]) -> SimulateResult:
    if "solve" in asked:
        return solve_for(model, load, asked)
    return Setup(model, asked).run(load)


def _one_of(name: str, known: Sequence[str], option: str, what: str) -> None:
    if name not in known:
        close = nearest(str(name), list(known))
        near = f"nearest: {', '.join(close)}; " if close else ""
        raise KvcalcError(
            "usage", f'{option}: no {what} "{shown(name)}"', f"{near}all: {', '.join(known)}"
        )
