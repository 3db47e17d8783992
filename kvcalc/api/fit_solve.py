"""--solve: the least or most of one option that makes the rest fit."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from kvcalc.api.fit_plan import gpu_options
from kvcalc.core import fit as core
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.results.fit import GpuInfo, Solved
from kvcalc.core.shard import Parallel
from kvcalc.core.units import shown

WHATS = ("gpus", "utilization", "context", "requests", "kv-dtype")
#: From the most exact to the smallest.
_DTYPES = ("bf16", "fp8", "int8_per_token_head", "int4_per_token_head")
_MOST_GPUS = 4096
_STEPS = 10_000


def solve(what: str, plan: core.Plan, gpu: GpuInfo) -> tuple[Solved, core.Plan, GpuInfo]:
    """The value of `what` that makes the plan fit, and the plan with it (unchanged if none does).

    Raises:
        KvcalcError: "usage" for an unknown `what`.
    """
    key = str(what).lower().replace("_", "-")
    value: float | None
    if key == "gpus":
        value, changed = _gpus(plan)
    elif key == "utilization":
        if plan.kv_pool is not None or plan.kv_pool_tokens is not None:
            raise KvcalcError(
                "usage", "--solve utilization: the pool is given", "leave --kv-pool out"
            )
        value, changed = _utilization(plan)
    elif key == "context":
        tokens = core.longest_context(plan, core.rank_plans(plan), plan.requests)
        if tokens is not None and tokens <= plan.shared_prefix:
            tokens = None  # the prefix alone is no request
        value, changed = tokens or None, plan._replace(context=tokens) if tokens else plan
    elif key == "requests":
        most = core.most_requests(plan, core.rank_plans(plan), plan.context).best
        value, changed = most or None, plan._replace(requests=most) if most else plan
    elif key == "kv-dtype":
        return _kv_dtype(plan, gpu)
    else:
        return (*_setting(str(what), plan), gpu)
    return _solved(key, value), changed, gpu._replace(count=changed.parallel.gpus)


def _solved(option: str, value: Any) -> Solved:
    return Solved(option, value, None if value is None else f"--{option} {value}")


def _setting(what: str, plan: core.Plan) -> tuple[Solved, core.Plan]:
    """One of the engine's own settings: `setting NAME`, or its name alone."""
    from kvcalc.api.fit_solve_setting import solved_setting  # noqa: PLC0415 - rarely asked
    from kvcalc.engines.registry import engine_of  # noqa: PLC0415

    name = re.sub(r"^setting[\s:=]+", "", what.strip(), flags=re.IGNORECASE).replace("-", "_")
    engine = engine_of(core.rules_of(plan).info(plan).id)
    setting = next((s for s in engine.settings if s.name == name.lower()), None)
    if setting is None:
        names = [*WHATS, *(s.name for s in engine.settings)]
        close = nearest(what, names, 1)
        near = f"nearest: {close[0]}; " if close else ""
        raise KvcalcError(
            "usage", f"--solve {shown(what)} is nothing to solve for with {engine.id}",
            f"{near}all: {', '.join(WHATS)}, and of kvcalc engines show {engine.id}",
        )  # fmt: skip
    value, changed = solved_setting(setting, plan)
    word = str(value).lower() if isinstance(value, bool) else value
    argument = None if value is None else f"--set {setting.name}={word}"
    return Solved(f"setting {setting.name}", value, argument), changed


def with_solved(asked: dict[str, Any], solved: Solved, parallel: Parallel) -> dict[str, Any]:
    """The options that ask for what was found; those that were given, if nothing was."""
    out = {k: v for k, v in asked.items() if k != "solve"}
    if solved.value is None:
        return out
    if solved.option == "gpus":
        return {**out, **gpu_options(out, parallel)}
    if solved.option.startswith("setting "):
        name = solved.option.removeprefix("setting ")
        return {**out, "set": {**out.get("set", {}), name: solved.value}}
    if solved.option == "kv-dtype":
        out = {k: v for k, v in out.items() if k not in {"k_dtype", "v_dtype"}}
    return {**out, solved.option.replace("-", "_"): solved.value}


def _gpus(plan: core.Plan) -> tuple[int | None, core.Plan]:
    if plan.mixed or plan.parallel.pp_layers:
        raise KvcalcError(
            "usage", "--solve gpus: the GPUs and their layers are given", "name one kind of GPU"
        )
    p = plan.parallel
    for tp in range(1, _MOST_GPUS // (p.pp * p.dp) + 1):
        changed = plan._replace(parallel=p._replace(tp=tp))
        if tp % p.dcp == 0 and core.fits(changed):
            return changed.parallel.gpus, changed
    return None, plan


def _utilization(plan: core.Plan) -> tuple[float | None, core.Plan]:
    """The least share in steps of 0.0001: the pool grows with it."""

    def at(step: int) -> core.Plan:
        return plan._replace(utilization=Fraction(step, _STEPS))

    if not core.fits(at(_STEPS)):
        return None, plan
    least = core.largest(lambda step: not core.fits(at(step)), _STEPS - 1) + 1
    return least / _STEPS, at(least)


def _kv_dtype(plan: core.Plan, gpu: GpuInfo) -> tuple[Solved, core.Plan, GpuInfo]:
    for name in _DTYPES:
        changed = plan._replace(storage=storage(name, model=plan.storage.model.key))
        if core.fits(changed):
            return _solved("kv-dtype", name), changed, gpu
    return _solved("kv-dtype", None), plan, gpu
