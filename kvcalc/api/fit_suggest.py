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
from kvcalc.core.shard import Parallel
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
    pool = ranks[core.tightest(plan, ranks)].pool.best
    longest = core.longest_context(plan, ranks)
    return Suggestion(change, argument, most, longest, most >= plan.requests, pool)


def _changes(plan: core.Plan, asked: dict[str, Any]) -> list[core.Change]:
    """What may be tried: with a known pool neither machine nor weights matter."""
    known = plan.kv_pool is not None or plan.kv_pool_tokens is not None
    own = core.rules_of(plan).changes(plan)
    changes = [] if known else [*_more_gpus(plan, asked), *_stages(plan, asked)]
    if all(change.change != "kv_dtype" for change in own):
        changes += _smaller_kv(plan, asked)
    if not known:
        changes += _smaller_weights(plan)
        if plan.utilization is not None and plan.utilization < 1:
            half_way = fixed((1 + plan.utilization) / 2, 1, 2)
            fuller = plan._replace(utilization=Fraction(half_way))
            changes.append(core.Change("utilization", f"--utilization {half_way}", fuller))
    return [*changes, *own]


def _more_gpus(plan: core.Plan, asked: dict[str, Any]) -> list[core.Change]:
    """Twice the GPUs, and on until the load fits."""
    changes: list[core.Change] = []
    if plan.mixed or plan.parallel.pp_layers:  # which GPU would come, and what would it hold?
        return changes
    engine = engine_of(asked)
    p = plan.parallel
    for factor in (2, 4, 8, 16, 32, 64):
        whole = p._replace(pp=1) if engine.splits_layers else p
        bigger = whole._replace(tp=p.tp * factor * (p.pp if engine.splits_layers else 1))
        words = " ".join(f"--{k} {v}" for k, v in gpu_options(asked, bigger).items())
        changed = plan._replace(parallel=engine.shared(bigger))
        changes.append(core.Change("gpus", words, changed))
        if core.fits(changed):
            break
    return changes


def _stages(plan: core.Plan, asked: dict[str, Any]) -> list[core.Change]:
    """On GPUs that differ: a pipeline whose stages have layers by their memory.

    Starts from shares of the memory and moves single layers from the tightest stage to the one
    with most room, as long as the tightest gains.
    """
    p, layers = plan.parallel, len(plan.model.layers)
    gpus = len(plan.mixed)
    if not gpus or engine_of(asked).splits_layers or p.dcp > 1 or p.ep > 1 or gpus > layers:
        return []
    total = sum(memory.bytes for memory, _ in plan.mixed)
    counts = [max(layers * memory.bytes // total, 1) for memory, _ in plan.mixed]
    counts[counts.index(max(counts))] += layers - sum(counts)
    best: tuple[float, core.Plan, list[int]] | None = None
    for _ in range(layers):
        made = plan._replace(parallel=Parallel(pp=gpus, pp_layers=tuple(counts)))
        try:
            ranks = core.rank_plans(made)
        except KvcalcError:  # what this engine does not split
            return []
        rules = core.rules_of(made)
        room = [r.pool.best / (rules.request_bytes(made, r, plan.context) or 1) for r in ranks]
        if best is not None and min(room) <= best[0]:
            break
        best = (min(room), made, list(counts))
        tight, loose = room.index(min(room)), room.index(max(room))
        if counts[tight] == 1:
            break
        counts[tight] -= 1
        counts[loose] += 1
    if best is None or best[1].parallel == p:
        return []
    words = ",".join(map(str, best[2]))
    argument = f"--pp-layers {words}" if "tp" not in asked else f"--tp 1 --pp-layers {words}"
    return [core.Change("pp_layers", argument, best[1])]


def _smaller_kv(plan: core.Plan, asked: dict[str, Any]) -> list[core.Change]:
    """One byte an element instead of two, in a format that this GPU computes."""
    s = plan.storage
    if s.k.block_bytes != 2 * s.k.block_elements or s.k.key != s.v.key:
        return []
    name = "fp8" if _computes(plan, "fp8") else "int8_per_token_head"
    smaller = plan._replace(storage=storage(name, model=s.model.key))
    apart = asked.keys() & {"k_dtype", "v_dtype"}
    words = f"--k-dtype {name} --v-dtype {name}" if apart else f"--kv-dtype {name}"
    return [core.Change("kv_dtype", words, smaller)]


def _smaller_weights(plan: core.Plan) -> list[core.Change]:
    """Weights of 8 or 4 bits where they are stored in 16 or more."""
    changes = []
    if plan.weights.format in {"bf16", "fp16", "fp32"} and plan.weights.bytes is not None:
        for name in ("fp8", "int4") if _computes(plan, "fp8") else ("int8", "int4"):
            try:
                smaller = resolve.weights_of(plan.model, name, None)
            except KvcalcError:  # a model without a parameter count
                continue
            changed = plan._replace(weights=smaller)
            changes.append(core.Change("weights", f"--weights {name}", changed))
    return changes


def _computes(plan: core.Plan, name: str) -> bool:
    """Whether every GPU computes in a dtype; one given by its memory alone is taken to."""
    devices = [each.device for each in core.kinds(plan)]
    return all(device.id is None or name in device.dtypes for device in devices)


def _shorter(plan: core.Plan, longest: int | None, base: int) -> Suggestion | None:
    """The longest context at which the wanted requests fit, where the asked one does not."""
    if base >= plan.requests:
        return None
    tokens = core.longest_context(plan, core.rank_plans(plan), plan.requests)
    if not tokens or tokens <= plan.shared_prefix:
        return None
    shorter = plan._replace(context=tokens)
    made = _suggestion("context", f"-c {tokens}", shorter)
    return made._replace(max_context_tokens=longest)
