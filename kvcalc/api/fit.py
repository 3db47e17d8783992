"""kvcalc.fit: what fits on which GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.api.fit_list import list_fits
from kvcalc.api.fit_plan import DEFAULT_ENGINE, machine_of, plan_on
from kvcalc.api.fit_solve import solve as solve_for
from kvcalc.api.fit_solve import with_solved
from kvcalc.api.fit_suggest import suggestions_for
from kvcalc.core import fit as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.fit import FitList, FitResult
from kvcalc.shape import Count, Shape


@takes_auto
def fit(
    model: str | Model | None = None,
    *,
    gpu: str | None = None,
    gpu_memory: Count | None = None,
    gpus: Count | None = None,
    tp: Count | None = None,
    pp: Count = 1,
    dp: Count = 1,
    dcp: Count = 1,
    ep: Count = 1,
    pp_layers: Count | Sequence[Count] = (),
    context: Count | None = None,
    requests: Count = 1,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    engine: str | None = None,
    engine_version: str | None = None,
    set: Mapping[str, object] | None = None,
    utilization: str | float | None = None,
    reserve: Count | None = None,
    kv_pool: Count | None = None,
    kv_pool_tokens: Count | None = None,
    block_size: Count | None = None,
    shared_prefix: Count | None = None,
    prefix_copies: Count | None = None,
    average_context: Count | None = None,
    solve: str | None = None,
    price: str | float | None = None,
    encoder_tokens: Count | None = None,
    allow_long_context: bool = False,
    all: bool = False,
    why: bool = False,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> FitResult | FitList:
    """Whether the wanted requests fit; without a GPU or without a model, which ones would.

    Args:
        model: As in `kvcalc.size`; None lists every preset on the GPU.
        gpu: A preset's id or alias, "8xh100" for eight of one, "5070ti+5090" for a machine that
            mixes them (tp · pp GPUs, in rank order), "auto" for this machine's; None lists all.
        pp_layers: Layers of each pipeline stage where they are not dealt evenly.
        engine: Whose rules, vllm by default; `none` is the textbook.
        context: Tokens of one request. Default: 4,096, or the model's maximum if smaller.
        requests: The load that must fit.
        price: Of one GPU for an hour, in any currency.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    asked = {k: v for k, v in locals().items() if v is not None and v is not False and v != ()}
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    known_pool = kv_pool is not None or kv_pool_tokens is not None
    no_machine = gpu is None and gpu_memory is None and not known_pool
    no_model = model is None and not shape.given()
    if no_model and no_machine:
        raise KvcalcError(
            "usage", "fit needs a MODEL, a --gpu, or both",
            "kvcalc fit llama-3.1-70b lists GPUs; kvcalc fit --gpu h100 lists models",
        )  # fmt: skip
    if no_model and known_pool:
        raise KvcalcError("usage", "--kv-pool needs a MODEL", "name one: kvcalc models")
    if price is not None and (no_model or no_machine):
        raise KvcalcError(
            "usage", "--price needs a MODEL and a --gpu", "a price is of one plan, not of a list"
        )
    if no_model or no_machine:
        return list_fits(asked, shape, no_model=no_model)
    found = resolve.model_of(model, shape, encoder_tokens)
    machine = machine_of(gpu, gpu_memory)
    plan = plan_on(machine, found, asked)
    info = machine.info._replace(count=plan.parallel.gpus)
    if isinstance(gpu, str) and "+" in gpu and not machine.mixed:
        # 4090+4090 is 2x4090: a machine that can grow by one number.
        asked["gpu"] = f"{machine.count}x{info.id}"
    solved = None
    if solve is not None:
        solved, plan, info = solve_for(solve, plan, info)
        asked = with_solved(asked, solved, plan.parallel)
    result = core.fit(
        plan,
        info,
        suggestions=suggestions_for(plan, asked),
        solved=solved,
        line=command_line(asked, plan),
    )
    if price is None:
        return result
    from kvcalc.api.fit_price import with_price  # noqa: PLC0415 - only who gives one

    return with_price(result, plan, price, gpu)


_SHORT = {"context": "-c", "requests": "-n"}


def command_line(asked: dict[str, Any], plan: core.Plan) -> str:
    """The kvcalc command that asks this again, its context stated."""
    model = asked.get("model")
    words = ["kvcalc fit"]
    if model is not None:
        words.append(model.id if isinstance(model, Model) else _quoted(str(model)))
    values = {**asked, "context": plan.context}
    for key, value in values.items():
        flag = _SHORT.get(key, f"--{key.replace('_', '-')}")
        if key == "model" or (key in _DEFAULTS and str(value) == _DEFAULTS[key]):
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [f"{flag} {_quoted(f'{k}={v}')}" for k, v in value.items()]
        elif key == "pp_layers" and not isinstance(value, (int, str)):
            words.append(f"{flag} {_quoted(','.join(map(str, value)))}")
        elif isinstance(value, (list, tuple)):
            words += [f"{flag} {_quoted(str(v))}" for v in value]
        else:
            words.append(f"{flag} {_quoted(str(value))}")
    return " ".join(words)


_DEFAULTS = {
    "requests": "1", "kv_dtype": "auto", "engine": DEFAULT_ENGINE, "pp": "1", "dp": "1",
    "dcp": "1", "ep": "1",
}  # fmt: skip


def _quoted(word: str) -> str:
    import shlex  # noqa: PLC0415 - one answer in many needs it

    return shlex.quote(word)
