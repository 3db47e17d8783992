"""How a request's cache grows and how several overlap: a prefill at once, then a token a step.

`core.load` says what is held in which step; this module chooses the steps worth listing. The
textbook stores prompt + output tokens of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from kvcalc.core import shard
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.load import Load, Size, bisect, end_of, spread
from kvcalc.core.model import Model
from kvcalc.core.results.base import EngineInfo, KvDtype, Warn, WeightInfo
from kvcalc.core.results.timeline import (
    Curve,
    Knot,
    Machine,
    MemoryEnd,
    Milestone,
    Peak,
    Point,
    Pool,
    Request,
    TimelineResult,
)
from kvcalc.core.size import block_bytes, model_info
from kvcalc.core.units import cdiv

#: Steps listed unless asked otherwise, and the most that can be asked for.
DEFAULT_POINTS, MAX_POINTS = 24, 100_000
#: More requests than one writes by hand are a trace.
MAX_REQUESTS = 256


def timeline(
    model: Model,
    storage: Storage,
    requests: Sequence[Request],
    *,
    weights: WeightInfo,
    at: Sequence[int] | None = None,
    points: int = DEFAULT_POINTS,
    block_size: int = 16,
    max_context: int | None = None,
    machine: Machine | None = None,
    chart: bool = True,
    warnings: tuple[Warn, ...] = (),
) -> TimelineResult:
    """KV bytes of `requests` in steps worth listing; where they outgrow the weights and memory.

    Args:
        at: Decoded tokens, counted from the first prefill, after which a step is named; None
            names 1,000 and 4,096 of a single request.
        points: How many steps are listed; the marked ones are, however few are asked for.
        max_context: Tokens that naive allocation reserves for each admitted request.
        machine: GPUs whose memory, less the weights, is the limit.

    Raises:
        KvcalcError: "usage" for a milestone beyond the end or a machine without known weights;
            "context_too_long" for a request beyond `max_context`; "not_divisible" if the GPUs
            cannot split the KV heads.
    """
    load = Load(requests)
    _check(load, at, max_context)
    kv: Size = lru_cache(maxsize=None)(lambda n: model.bytes_at(n, storage))
    paged: Size = lru_cache(maxsize=None)(lambda n: block_bytes(model, storage, n, block_size))
    reserved = None if max_context is None else model.bytes_at(max_context, storage)
    used, pages = kv, paged
    if machine is not None and machine.count > 1:
        (rank,) = shard.stage_ranks(model, shard.Parallel(tp=machine.count))
        used = lru_cache(maxsize=None)(lambda n: rank.bytes_at(n, storage))
        pages = lru_cache(maxsize=None)(lambda n: block_bytes(rank, storage, n, block_size))
    pool = None if machine is None else _pool(machine, weights, load.total(load.peak(used), used))
    end = None if pool is None else _memory_end(load, pool, used)
    crossed = None if weights.bytes is None else load.first_above(weights.bytes, kv)
    milestones = _milestones(load, model, kv, at, end, crossed)
    steps = spread(_marked(load, model, milestones), points)
    peak = load.peak(kv)
    return TimelineResult(
        model=model_info(model),
        kv_dtype=KvDtype(storage.k.key, storage.v.key),
        requests=load.requests,
        points=tuple(
            Point(
                step=step,
                phase=load.phase(step),
                tokens=sum(load.lengths(step)),
                kv_bytes=load.total(step, kv),
                paged_bytes=load.total(step, paged),
                naive_bytes=None if reserved is None else reserved * len(load.lengths(step)),
            )
            for step in steps
        ),
        milestones=milestones,
        peak=Peak(peak, load.total(peak, kv), sum(load.lengths(peak))),
        crosses_weights_at_tokens=None if crossed is None else sum(load.lengths(crossed)),
        out_of_memory_at_step=None if end is None else end.step,
        memory_end=end,
        gpu=machine,
        pool=pool,
        weights=weights,
        block_size=block_size,
        max_context_tokens=max_context,
        engine=EngineInfo("none"),
        curve=_curve(load, model, (used, pages), max_context, machine, weights, pool),
        chart=chart,
        warnings=warnings,
    )


def _check(load: Load, at: Sequence[int] | None, max_context: int | None) -> None:
    if len(load.requests) > MAX_REQUESTS:
        raise KvcalcError(
            "usage", f"{len(load.requests):,} requests", f"a timeline takes {MAX_REQUESTS} at most"
        )
    decoded = load.last - load.first
    for n in at or ():
        if n > decoded:
            raise KvcalcError(
                "usage", f"--at {n:,} is beyond the end: {decoded:,} tokens are decoded",
                f"--at 0 is the prefill, --at {decoded} the end",
            )  # fmt: skip
    longest = max(r.prompt_tokens + r.output_tokens for r in load.requests)
    if max_context is not None and longest > max_context:
        raise KvcalcError(
            "context_too_long",
            f"a request of {longest:,} tokens is longer than --max-context {max_context:,}",
            f"--max-context {longest} or more; a request cannot outgrow what was reserved",
        )


def _pool(machine: Machine, weights: WeightInfo, peak: int) -> Pool:
    """One GPU's memory less its share of the weights: the textbook's room for KV cache."""
    if weights.bytes is None:
        raise KvcalcError(
            "usage", "the weights' size is not known, so neither is the memory they leave",
            "give --weight-bytes, or --parameters with --weights",
        )  # fmt: skip
    n = machine.count
    high = weights.bytes if weights.high_bytes is None else weights.high_bytes
    low = weights.bytes if weights.low_bytes is None else weights.low_bytes
    best = machine.memory_bytes - cdiv(weights.bytes, n)
    order = ("exact", "measured", "estimated")
    return Pool(
        bytes=best,
        basis=max(machine.memory_basis, weights.basis, key=order.index),
        low_bytes=machine.low_bytes - cdiv(high, n),
        high_bytes=machine.high_bytes - cdiv(low, n),
        peak_bytes=peak,
        room_bytes=best - peak,
    )


def _memory_end(load: Load, pool: Pool, used: Size) -> MemoryEnd:
    """Where the best, the lowest and the highest pool overflow."""
    found: list[int | None] = []
    for limit in (pool.bytes, pool.low_bytes, pool.high_bytes):
        step = load.first_above(limit, used)
        found += [step, None if step is None else sum(load.lengths(step))]
    return MemoryEnd(*found)


def _milestones(
    load: Load,
    model: Model,
    kv: Size,
    at: Sequence[int] | None,
    end: MemoryEnd | None,
    crossed: int | None,
) -> tuple[Milestone, ...]:
    """Named steps in order; at one step: who comes, what was reached, who ends."""
    single = len(load.requests) == 1
    if at is None:
        at = [n for n in (1000, 4096) if single and n < load.requests[0].output_tokens]
    start = load.total(load.first, kv)
    rows: list[tuple[int, str, str, int | None]] = [(0, "start", "start", None)]
    rows += _comings(load, "prefill", lambda r: r.start_step + 1)
    for n in dict.fromkeys(at):
        added = load.total(load.first + n, kv) - start if single else None
        rows.append((load.first + n, "decoded", f"{n:,} tokens decoded", added))
    if single:
        rows += [
            (s, "window", f"window of {w:,} tokens full", None) for w, s in _bends(load, model)
        ]
    if end is not None and end.step is not None:
        rows.append((end.step, "out_of_memory", "out of memory", None))
    if crossed is not None:
        rows.append((crossed, "outgrows_weights", "KV cache outgrows the weights", None))
    peak = load.peak(kv)
    if not single or peak != load.last:
        rows.append((peak, "peak", "peak", None))
    rows += _comings(load, "end", end_of)
    rows.sort(key=lambda row: row[0])
    return tuple(
        Milestone(label, step, sum(load.lengths(step)), load.total(step, kv), kind, added)
        for step, kind, label, added in rows
    )


def _comings(
    load: Load, what: str, step_of: Callable[[Request], int]
) -> list[tuple[int, str, str, int | None]]:
    """Prefills or ends, one row a step: "prefill of requests 1, 3"."""
    if len(load.requests) == 1:
        return [(step_of(load.requests[0]), what, what, None)]
    steps: dict[int, list[int]] = {}
    for i, request in enumerate(load.requests, 1):
        steps.setdefault(step_of(request), []).append(i)
    rows: list[tuple[int, str, str, int | None]] = []
    for step, who in steps.items():
        names = ", ".join(map(str, who)) if len(who) <= 4 else f"{who[0]} … {who[-1]}"
        one = f"request {names}" if len(who) == 1 else f"requests {names}"
        rows.append((step, what, f"{what} of {one}", None))
    return rows


def _bends(load: Load, model: Model) -> list[tuple[int, int]]:
    """(tokens, step) at which a request's layers stop growing while it decodes."""
    return [
        (bend, r.start_step + 1 + bend - r.prompt_tokens)
        for r in load.requests
        for bend in model.bends
        if r.prompt_tokens < bend < r.prompt_tokens + r.output_tokens
    ]


def _marked(load: Load, model: Model, milestones: Iterable[Milestone]) -> list[int]:
    """Steps that must be listed: both sides of every coming and going, bends, milestones."""
    steps = {m.step for m in milestones} | {step for _, step in _bends(load, model)}
    for low, high in load.stretches:
        steps |= {low, high}
    return sorted(steps)


def _curve(
    load: Load,
    model: Model,
    sizes: tuple[Size, Size],
    max_context: int | None,
    machine: Machine | None,
    weights: WeightInfo,
    pool: Pool | None,
) -> Curve:
    """Corners of one GPU's KV bytes, as used and in whole blocks.

    Over tokens for one request, over steps for several.
    """
    used, pages = sizes
    reserved = None if max_context is None else used(max_context)
    end = None
    if len(load.requests) == 1:
        (r,) = load.requests
        total = r.prompt_tokens + r.output_tokens
        corners = {0, *(b for b in model.bends if b < total), r.prompt_tokens, total}
        knots = tuple(Knot(n, used(n), reserved, pages(n)) for n in sorted(corners))
        if pool is not None and used(total) > pool.bytes:
            end = bisect(0, total, lambda n: used(n) > pool.bytes)
    else:
        knots = tuple(
            Knot(
                step,
                load.total(step, used),
                None if reserved is None else reserved * len(load.lengths(step)),
                load.total(step, pages),
            )
            for step in _marked(load, model, ())
        )
        end = None if pool is None else load.first_above(pool.bytes, used)
    count = 1 if machine is None else machine.count
    return Curve(
        "tokens" if len(load.requests) == 1 else "steps",
        knots,
        None if weights.bytes is None else cdiv(weights.bytes, count),
        None if machine is None else machine.memory_bytes,
        end,
    )
