"""Single changes that would help a plan, each computed, best first."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kvcalc import resolve
from kvcalc.api.fit_plan import engine_of, gpu_options
from kvcalc.core import fit as core
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.fit import Suggestion
from kvcalc.core.units import fixed


def suggestions_for(plan: core.Plan, asked: dict[str, Any]) -> list[Suggestion]:
    """Changes of one option that let more requests or a longer context in, best first."""
    base_ranks = core.rank_plans(plan)
    base = core.most_requests(plan, base_ranks, plan.context).best
    longest = core.longest_context(plan, base_ranks)
    found = []
    for change, argument, changed in _changes(plan, asked):
        try:
            made = _suggestion(change, argument, changed)
        except KvcalcError:  # a count that heads do not divide by, blocks that do not fit
            continue
        gains = made.max_requests > base or (made.max_context_tokens or 0) > (longest or 0)
        if gains:
            found.append(made)
    shorter = _shorter(plan, longest, base)
    if shorter is not None:
        found.append(shorter)
    order = {"kv_dtype": 0, "utilization": 0, "gpus": 1, "weights": 2, "context": 3}
    return sorted(found, key=lambda s: (not s.fits, -s.max_requests, order.get(s.change, 0)))


def _suggestion(change: str, argument: str, plan: core.Plan) -> Suggestion:
    ranks = core.rank_plans(plan)
    most = core.most_requests(plan, ranks, plan.context).best
    pool = min(r.pool.best for r in ranks)
    longest = core.longest_context(plan, ranks)
    return Suggestion(change, argument, most, longest, most >= plan.requests, pool)


def _changes(plan: core.Plan, asked: dict[str, Any]) -> list[core.Change]:
    """What may be tried: with a known pool neither machine nor weights matter."""
    known = plan.kv_pool is not None or plan.kv_pool_tokens is not None
    gpu = asked.get("gpu")
    own = core.rules_of(plan).changes(plan)
    changes = [] if known else _more_gpus(plan, asked)
    if all(change.change != "kv_dtype" for change in own):
        changes += _smaller_kv(plan, asked, gpu)
    if not known:
        changes += _smaller_weights(plan, gpu)
        if plan.utilization is not None and plan.utilization < 1:
            half_way = fixed((1 + plan.utilization) / 2, 1, 2)
            fuller = plan._replace(utilization=Fraction(half_way))
            changes.append(core.Change("utilization", f"--utilization {half_way}", fuller))
    return [*changes, *own]


def _more_gpus(plan: core.Plan, asked: dict[str, Any]) -> list[core.Change]:
    """Twice the GPUs, and on until the load fits."""
    changes = []
    engine = engine_of(asked)
    p = plan.parallel
    for factor in (2, 4, 8, 16, 32, 64):
        whole = p._replace(pp=1) if engine.splits_layers else p
        bigger = whole._replace(tp=p.tp * factor * (p.pp if engine.splits_layers else 1))
        words = " ".join(f"--{k} {v}" for k, v in gpu_options(asked, bigger).items())
        changed = plan._replace(parallel=engine.shared(bigger))
        changes.append(core.Change("gpus", words, changed))
        if _fits(changed):
            break
    return changes


def _smaller_kv(plan: core.Plan, asked: dict[str, Any], gpu: str | None) -> list[core.Change]:
    """One byte an element instead of two, in a format that this GPU computes."""
    s = plan.storage
    if s.k.block_bytes != 2 * s.k.block_elements or s.k.key != s.v.key:
        return []
    name = "fp8" if _has(gpu, "fp8") else "int8_per_token_head"
    smaller = plan._replace(storage=storage(name, model=s.model.key))
    apart = asked.keys() & {"k_dtype", "v_dtype"}
    words = f"--k-dtype {name} --v-dtype {name}" if apart else f"--kv-dtype {name}"
    return [core.Change("kv_dtype", words, smaller)]


def _smaller_weights(plan: core.Plan, gpu: str | None) -> list[core.Change]:
    """Weights of 8 or 4 bits where they are stored in 16 or more."""
    changes = []
    if plan.weights.format in {"bf16", "fp16", "fp32"} and plan.weights.bytes is not None:
        for name in ("fp8", "int4") if _has(gpu, "fp8") else ("int8", "int4"):
            try:
                smaller = resolve.weights_of(plan.model, name, None)
            except KvcalcError:  # a model without a parameter count
                continue
            changed = plan._replace(weights=smaller)
            changes.append(core.Change("weights", f"--weights {name}", changed))
    return changes


def _fits(plan: core.Plan) -> bool:
    try:
        ranks = core.rank_plans(plan)
    except KvcalcError:  # a number of GPUs that the heads do not divide by
        return False
    return core.most_requests(plan, ranks, plan.context).best >= plan.requests


def _has(gpu: str | None, name: str) -> bool:
    """Whether the GPU computes in a dtype; a GPU given by its memory alone is taken to."""
    if gpu is None:
        return True
    found, _ = resolve.gpu_of(gpu)
    return name in found.dense_flops


def _shorter(plan: core.Plan, longest: int | None, base: int) -> Suggestion | None:
    """The longest context at which the wanted requests fit, where the asked one does not."""
    if base >= plan.requests:
        return None
    tokens = core.longest_context(plan, core.rank_plans(plan), plan.requests)
    if not tokens:
        return None
    shorter = plan._replace(context=tokens)
    made = _suggestion("context", f"-c {tokens}", shorter)
    return made._replace(max_context_tokens=longest)
