"""fit without a GPU (all of them for one model) or without a model (all of them on one GPU)."""

from __future__ import annotations

from typing import Any

from kvcalc import resolve
from kvcalc.api.fit_plan import machine_of, parallel_of, plan_of
from kvcalc.core import fit as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import Candidate, FitList, GpuInfo, LeftOut
from kvcalc.core.shard import Parallel
from kvcalc.core.size import model_info
from kvcalc.core.units import GIB, parse_count

#: Counts tried of each GPU; machines come in these.
COUNTS = (1, 2, 4, 8)


def list_fits(asked: dict[str, Any], shape: resolve.Shape, *, no_model: bool) -> FitList:
    """Every GPU for the model, or every model for the GPU, best first."""
    return _models(asked) if no_model else _gpus(asked, shape)


def _gpus(asked: dict[str, Any], shape: resolve.Shape) -> FitList:
    from kvcalc.catalog.gpus import load_all_gpus  # noqa: PLC0415 - only lists load them all

    if "solve" in asked:
        raise KvcalcError("usage", "--solve needs a --gpu", "without one, fit lists all GPUs")
    model = resolve.model_of(asked.get("model"), shape, asked.get("encoder_tokens"))
    counts = (parse_count(asked["gpus"], "--gpus"),) if "gpus" in asked else COUNTS
    base = plan_of(model, core.Memory(1), Parallel(), asked)
    found, left_out = [], []
    for gpu in load_all_gpus((resolve.app_dir(),)):
        memory = core.Memory(gpu.memory_bytes, gpu.basis, gpu.low_bytes, gpu.high_bytes)
        best = None
        for count in counts:
            plan = base._replace(memory=memory, parallel=Parallel(tp=count))
            try:
                best = _candidate(plan, model, gpu.id, count)
            except KvcalcError as error:
                left_out.append(LeftOut(f"{count} × {gpu.id}", error.message))
                continue
            if best.fits:
                break
        if best is not None:
            found.append(best)
    # Least memory first, to 4 GiB: a machine of 79.15 GiB and one of 79.18 are the same size.
    found.sort(key=lambda c: (
        not c.fits, c.memory_bytes // (4 * GIB), c.gpus, -c.max_requests, c.gpu or ""
    ))  # fmt: skip
    return _list(asked, base, model, None, found, left_out)


def _models(asked: dict[str, Any]) -> FitList:
    from kvcalc.catalog.models import load_all_models  # noqa: PLC0415 - only lists load them all

    machine = machine_of(asked.get("gpu"), asked.get("gpu_memory"))
    gpus = machine.count or (parse_count(asked["gpus"], "--gpus") if "gpus" in asked else None)
    sizes = {k: asked.get(k, None if k == "tp" else 1) for k in ("tp", "pp", "dp", "dcp", "ep")}
    parallel = parallel_of(gpus, sizes)
    found: list[Candidate] = []
    left_out: list[LeftOut] = []
    base: core.Plan | None = None
    for model in load_all_models((resolve.app_dir(),)):
        try:
            plan = plan_of(model, machine.memory, parallel, asked)
            found.append(_candidate(plan, model, machine.info.id, parallel.gpus))
        except KvcalcError as error:
            left_out.append(LeftOut(model.id, error.message))
            continue
        base = base or plan
    # The largest model that serves the load first.
    found.sort(key=lambda c: (not c.fits, -(c.parameters or 0), -c.max_requests, c.model))
    info = machine.info._replace(count=parallel.gpus)
    return _list(asked, base, None, info, found, left_out)


def _candidate(plan: core.Plan, model: Model, gpu: str | None, count: int) -> Candidate:
    ranks = core.rank_plans(plan)
    most = core.most_requests(plan, ranks, plan.context)
    longest = core.longest_context(plan, ranks)
    return Candidate(
        model=model.id,
        gpu=gpu,
        gpus=count,
        fits=most.best >= plan.requests,
        max_requests=most.best,
        max_requests_low=most.low,
        max_requests_high=most.high,
        max_context_tokens=longest,
        kv_pool_bytes=min(r.pool.best for r in ranks),
        memory_bytes=count * (plan.memory.bytes if plan.memory else 0),
        weight_bytes=max(r.weight_bytes for r in ranks),
        parameters=model.parameters or model.stored_parameters,
        at_maximum=longest is None or longest == model.max_context_tokens,
    )


def _list(
    asked: dict[str, Any],
    plan: core.Plan | None,
    model: Model | None,
    gpu: GpuInfo | None,
    found: list[Candidate],
    left_out: list[LeftOut],
) -> FitList:
    weights = asked.get("weights")
    if weights is None and plan is not None and model is not None:
        weights = plan.weights.format
    return FitList(
        model=None if model is None else model_info(model),
        gpu=gpu,
        engine=EngineInfo("none"),
        context_tokens=plan.context if plan is not None else resolve.DEFAULT_CONTEXT,
        requests=parse_count(asked.get("requests", 1), "-n"),
        kv_dtype=asked.get("kv_dtype", "auto") if plan is None else plan.storage.label,
        weights=weights,
        candidates=tuple(found),
        left_out=tuple(left_out),
        show_all=bool(asked.get("all")),
        show_why=bool(asked.get("why")),
    )
