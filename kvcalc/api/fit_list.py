"""fit without a GPU (all of them for one model) or without a model (all of them on one GPU)."""

from __future__ import annotations

from typing import Any

from kvcalc import resolve
from kvcalc.api.fit_plan import (
    device_of,
    engine_of,
    gpus_of,
    machine_of,
    memory_of,
    parallel_of,
    plan_of,
    plan_on,
    sizes_of,
)
from kvcalc.core import fit as core
from kvcalc.core.cache import Full
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import Candidate, FitList, GpuInfo, LeftOut
from kvcalc.core.shard import Parallel
from kvcalc.core.size import model_info
from kvcalc.core.units import GIB, parse_count
from kvcalc.shape import Shape

#: Counts tried of each GPU; machines come in these.
COUNTS = (1, 2, 4, 8)


#: Takes every format and length: what it refuses, every model would.
_ANY = Model(
    id="any", name="any", parameters=10**9,
    layers=((Full(kv_heads=32, key_dim=128, value_dim=128),),),
)  # fmt: skip


def list_fits(asked: dict[str, Any], shape: Shape, *, no_model: bool) -> FitList:
    """Every GPU for the model, or every model for the GPU, best first.

    Raises:
        KvcalcError: "usage" for an option that is wrong whatever the candidate.
    """
    if "solve" in asked:
        hint = "without them fit lists all candidates"
        raise KvcalcError("usage", "--solve needs a MODEL and a --gpu", hint)
    return _models(asked) if no_model else _gpus(asked, shape)


def _gpus(asked: dict[str, Any], shape: Shape) -> FitList:
    from kvcalc.catalog.gpus import load_all_gpus  # noqa: PLC0415 - only lists load them all

    model = resolve.model_of(asked.get("model"), shape, asked.get("encoder_tokens"))
    base = plan_of(model, core.Memory(1), Parallel(), asked)
    choice = engine_of(asked)
    shapes = [Parallel(tp=count) for count in COUNTS]
    sizes = sizes_of(asked)
    given = asked.keys() & {"gpus", "tp"} or sizes["pp_layers"]
    if given or any(sizes[k] not in {1, "1"} for k in ("pp", "dp", "dcp", "ep")):
        shapes = [parallel_of(gpus_of(None, asked.get("gpus")), sizes)]
    found, left_out = [], []
    for gpu in load_all_gpus((resolve.app_dir(),)):
        memory, device = memory_of(gpu), device_of(gpu)
        best = None
        for shape_of_one in shapes:
            plan = base._replace(memory=memory, device=device, parallel=choice.shared(shape_of_one))
            try:
                best = _candidate(plan, model, gpu.id, shape_of_one.gpus)
            except KvcalcError as error:
                left_out.append(LeftOut(f"{shape_of_one.gpus} × {gpu.id}", error.message))
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

    if asked.get("pp_layers"):
        raise KvcalcError("usage", "--pp-layers needs a MODEL", "models have other layers each")
    machine = machine_of(asked.get("gpu"), asked.get("gpu_memory"))
    every = plan_on(machine, _ANY, asked)  # refuses what is wrong for every model
    info = machine.info._replace(count=every.parallel.gpus)
    found: list[Candidate] = []
    left_out: list[LeftOut] = []
    base: core.Plan | None = None
    for model in load_all_models((resolve.app_dir(),)):
        try:
            plan = plan_on(machine, model, asked)
            found.append(_candidate(plan, model, info.id, info.count))
        except KvcalcError as error:
            left_out.append(LeftOut(model.id, error.message))
            continue
        base = base or plan
    # The largest model that serves the load first.
    found.sort(key=lambda c: (not c.fits, -(c.parameters or 0), -c.max_requests, c.model))
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
        kv_pool_bytes=ranks[core.tightest(plan, ranks)].pool.best,
        memory_bytes=sum(m.bytes for m, _ in plan.mixed)
        or count * (plan.memory.bytes if plan.memory else 0),
        weight_bytes=max(r.weight_bytes for r in ranks),
        parameters=model.parameters or model.stored_parameters,
        at_maximum=longest is None or longest == model.max_context_tokens,
        context_tokens=plan.context,
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
        engine=EngineInfo("none") if plan is None else core.rules_of(plan).info(plan),
        context_tokens=plan.context if plan is not None else resolve.DEFAULT_CONTEXT,
        requests=parse_count(asked.get("requests", 1), "-n"),
        kv_dtype=asked.get("kv_dtype", "auto") if plan is None else plan.storage.label,
        weights=weights,
        candidates=tuple(found),
        left_out=tuple(left_out),
        show_all=bool(asked.get("all")),
        show_why=bool(asked.get("why")),
    )
