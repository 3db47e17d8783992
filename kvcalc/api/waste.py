"""kvcalc.waste: what allocation wastes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.api.machine import gpu_count
from kvcalc.core import waste as core
from kvcalc.core.alloc import POLICIES
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.model import Model
from kvcalc.core.results.base import Warn, WeightInfo
from kvcalc.core.results.waste import PoolSource, TraceUse, WasteResult
from kvcalc.core.units import parse_bytes, parse_count, parse_share, shown
from kvcalc.shape import Count, Shape


@takes_auto
def waste(
    model: str | Model | None = None,
    *,
    request: Count | Sequence[Count] = (),
    trace: str | None = None,
    limit: Count | None = None,
    skip_bad: bool = False,
    seed: Count | None = None,
    max_context: Count | None = None,
    policy: str | Sequence[str] = (),
    block_size: Count = 16,
    pool: Count | None = None,
    gpu: str | None = None,
    gpus: Count | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    slots: Count | None = None,
    waste_fraction: str | float | None = None,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
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
) -> WasteResult:
    """Bytes reserved, used and wasted under each allocation policy.

    Args:
        model: A preset's id or alias, a hub name, a path, or None with a shape by numbers.
        request: Tokens that each request really used. Engines never store the last sampled
            token: a prompt of 2,000 with 50 generated is 2,049.
        trace: Requests of a file or a workload spec, as in `kvcalc.simulate`, each with
            prompt + output − 1 stored tokens; `limit`, `skip_bad` and `seed` are its options.
        max_context: Tokens that naive reserves for every request; a static cache's length. Of a
            trace by default the model's maximum.
        policy: Of naive, pow2, exact and paged; default all.
        pool: Memory for KV cache; or `gpu`, whose memory less the weights it is.
        slots: With `waste_fraction`, and without a model: only `effective_requests`.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    lengths = [request] if isinstance(request, (int, str)) else list(request)
    if slots is not None or waste_fraction is not None:
        if model is not None or shape.given() or lengths or trace:
            raise KvcalcError(
                "usage", "--slots and --waste-fraction answer without MODEL and lengths",
                "leave out MODEL, --request and --trace, or those two",
            )  # fmt: skip
        return _of_slots(slots, waste_fraction)
    found = resolve.model_of(model, shape, encoder_tokens)
    if bool(lengths) == bool(trace):
        raise KvcalcError(
            "usage",
            "--request and --trace both give the requests" if trace
            else "--request is missing: what did each request use",
            "like --request 500 --request 3800, --trace FILE, or --slots N --waste-fraction F",
        )  # fmt: skip
    if not trace:
        _check_no_trace({"limit": limit, "seed": seed, "skip_bad": skip_bad or None})
    if gpu is None and gpus is not None:
        raise KvcalcError("usage", "--gpus needs --gpu", "how many of which GPU?")
    known = resolve.weights_of(found, weights, weight_bytes)
    if pool is not None and gpu is not None:
        raise KvcalcError("usage", "--pool and --gpu both give the pool", "give one of them")
    memory: PoolSource | None = None
    warnings: tuple[Warn, ...] = ()
    if pool is not None:
        memory = PoolSource(parse_bytes(pool, "--pool"))
    elif gpu is not None:
        memory = _beside_weights(gpu, gpus, known)
        warnings = _doubts(found, memory)
    maximum = (
        None
        if max_context is None
        else resolve.context_of(
            found, max_context, allow_long=allow_long_context, option="--max-context"
        )
    )
    requests: Sequence[int] | Counter[int] = [
        resolve.context_of(found, n, allow_long=allow_long_context, option="--request")
        for n in lengths
    ]
    use = None
    if trace:
        maximum = found.max_context_tokens if maximum is None else maximum
        requests, use, told = _of_trace(trace, limit, seed, maximum, skip_bad=skip_bad)
        warnings = (*warnings, *told)
    return core.waste(
        found,
        resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype),
        requests,
        trace=use,
        maximum=maximum,
        policies=_policies(policy),
        block_size=parse_count(block_size, "--block-size"),
        pool=memory,
        warnings=warnings,
    )


def _check_no_trace(given: Mapping[str, object]) -> None:
    """Refuse a trace's options without one.

    Raises:
        KvcalcError: "usage".
    """
    alone = next((key for key, value in given.items() if value is not None), None)
    if alone is not None:
        from kvcalc.api.simulate_load import needs_trace  # noqa: PLC0415 - as below

        raise needs_trace(alone)


def _of_trace(
    trace: str, limit: Count | None, seed: Count | None, maximum: int | None, *, skip_bad: bool
) -> tuple[Counter[int], TraceUse, tuple[Warn, ...]]:
    """How many requests store so many tokens: prompt + output − 1, the last one is never stored.

    With them, what of the trace was left out.

    Raises:
        KvcalcError: What reading the trace raises; "invalid_trace" if no request is left.
    """
    from kvcalc.api.simulate_load import Load  # noqa: PLC0415 - traces alone need it
    from kvcalc.workloads.statistics import skipped_warning  # noqa: PLC0415

    load = Load(trace, {"limit": limit, "skip_bad": skip_bad, "seed": seed})
    found: Counter[int] = Counter()
    rejected = 0
    for request in load:
        tokens = request.prompt + max(request.output - 1, 0)
        if maximum is not None and tokens > maximum:
            rejected += 1
        else:
            found[tokens] += 1
    workload, count = load.workload, found.total()
    if not count:
        raise KvcalcError(
            "invalid_trace", f"{workload.name} has no request of at most {maximum:,} tokens"
            if rejected else f"{workload.name} has no requests",
            "--max-context TOKENS says what a request may reach" if rejected else None,
        )  # fmt: skip
    mean = sum(n * times for n, times in found.items()) / count
    use = TraceUse(workload.name, workload.format, rejected, workload.skipped, mean, max(found))
    told = skipped_warning(workload)
    if rejected:
        many = f"{rejected:,} request{'' if rejected == 1 else 's'}"
        text = f"{many} of more than {maximum:,} tokens left out"
        told = (Warn("requests_rejected", text), *told)
    return found, use, told


def _of_slots(slots: Count | None, fraction: str | float | None) -> WasteResult:
    if slots is None or fraction is None:
        raise KvcalcError(
            "usage",
            f"{'--slots' if slots is None else '--waste-fraction'} is missing",
            "both together, as --slots 36 --waste-fraction 0.62",
        )
    return core.of_slots(parse_count(slots, "--slots"), parse_share(fraction, "--waste-fraction"))


def _policies(policy: str | Sequence[str]) -> list[str]:
    """The named policies once each, in that order; all if none is named."""
    names = [policy] if isinstance(policy, str) else list(policy)
    for name in names:
        if name not in POLICIES:
            close = nearest(str(name), list(POLICIES))
            near = f"nearest: {', '.join(close)}; " if close else ""
            raise KvcalcError(
                "usage", f'--policy: no policy "{shown(name)}"', f"{near}all: {', '.join(POLICIES)}"
            )
    return list(dict.fromkeys(names)) or list(POLICIES)


def _beside_weights(name: str, gpus: Count | None, weights: WeightInfo) -> PoolSource:
    """All GPUs' memory less one copy of the weights; the doubts of both in low and high."""
    gpu, in_name = resolve.gpu_of(name)
    count = gpu_count(in_name, gpus, None)
    taken = weights.bytes or 0
    most, least = weights.high_bytes or taken, weights.low_bytes or taken
    estimated = "estimated" in {weights.basis, gpu.basis}
    return PoolSource(
        bytes=max(count * gpu.memory_bytes - taken, 0),
        basis="estimated" if estimated else gpu.basis,
        low_bytes=max(count * gpu.low_bytes - most, 0),
        high_bytes=max(count * gpu.high_bytes - least, 0),
        gpu=gpu.id,
        gpus=count,
        memory_bytes=count * gpu.memory_bytes,
        weight_bytes=weights.bytes,
        weight_format=weights.format,
    )


def _doubts(model: Model, pool: PoolSource) -> tuple[Warn, ...]:
    if pool.weight_bytes is None:
        text = f"the weights of {model.id} are unknown: the whole memory counts as pool"
        return (Warn("weights_unknown", text),)
    return ()
