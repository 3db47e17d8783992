"""A trace in a report: each plan's requests through its block pool, as `simulate` answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvcalc.api.report_plans import Deployment
from kvcalc.core.errors import KvcalcError
from kvcalc.core.fit import rank_plans
from kvcalc.core.model import Model
from kvcalc.core.results.report import Simulation
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.simulate import SimulateResult

#: Options that only a simulation has.
TRACE_OPTIONS = (
    "trace", "policy", "requests_per_second", "limit", "skip_bad", "seed", "scheduler",
    "max_batched_tokens", "max_requests", "prefix_caching", "no_prefix_caching", "clock",
    "step_seconds",
)  # fmt: skip
#: Options of a plan that say the same to `simulate`.
_SHARED = (
    "gpu", "gpus", "tp", "kv_dtype", "k_dtype", "v_dtype", "dtype", "weights", "weight_bytes",
    "utilization", "reserve", "block_size", "engine", "engine_version", "set", "allow_long_context",
)  # fmt: skip
_SPLIT = ("pp", "pp_layers", "dp", "dcp", "ep")


def simulations(
    model: Model, given: Mapping[str, Any], deployments: Sequence[Deployment]
) -> tuple[tuple[Simulation, ...], tuple[SimulateResult | Rows | None, ...]]:
    """The trace under every plan: as data, and the answers themselves for the views.

    Args:
        model: Of all plans.
        given: The report's options, `trace` among them.
        deployments: The plans; the first one must be one that can be simulated.

    Raises:
        KvcalcError: "usage" for options of a simulation without `trace`; what `simulate` raises
            of the first plan.
    """
    own = {key: given[key] for key in (*TRACE_OPTIONS, "max_context") if key in given}
    if "trace" not in own:
        return (), ()
    from kvcalc.api.simulate import simulate  # noqa: PLC0415 - only a trace needs it

    made: list[Simulation] = []
    answers: list[SimulateResult | Rows | None] = []
    for d in deployments:
        found, reason = None, None
        try:
            found = simulate(model, **{**own, **_options(d)})
        except KvcalcError as error:
            if not made:
                raise
            reason = error.message
        answers.append(found)
        data = tuple(r.to_dict() for r in simulated(found))
        made.append(Simulation(d.machine, d.plan.storage.label, data, reason))
    return tuple(made), tuple(answers)


def simulated(found: SimulateResult | Rows | None) -> list[SimulateResult]:
    """One result a policy."""
    if isinstance(found, Rows):
        return [row.result for row in found.rows if isinstance(row.result, SimulateResult)]
    return [] if found is None else [found]


def _options(d: Deployment) -> dict[str, Any]:
    """A plan's options as `simulate` takes them; a pool that no named GPU has as its size.

    Raises:
        KvcalcError: "usage" for what a simulation does not have.
    """
    asked = d.asked
    for key in _SPLIT:
        if str(asked.get(key, 1)) != "1":
            raise KvcalcError(
                "usage", f"--trace with --{key} {asked[key]}: only tensor parallel is simulated",
                f"leave --{key} or --trace out",
            )  # fmt: skip
    options = {key: asked[key] for key in _SHARED if key in asked}
    if "gpu" in asked:
        if "kv_pool" in asked or "kv_pool_tokens" in asked:
            options["pool"] = f"{_pool(d)}"
        return options
    if d.gpu is None:
        raise KvcalcError(
            "usage", "--trace needs a machine: how much memory is there?", "give --gpu or --kv-pool"
        )
    without = {key: value for key, value in options.items() if key not in _BUDGET}
    return {**without, "pool": f"{_pool(d)}"}


def _pool(d: Deployment) -> int:
    """Bytes of one GPU's KV pool."""
    (rank,) = rank_plans(d.plan)
    return rank.pool.best


#: Options of a budget, which a pool of known size does not have.
_BUDGET = frozenset({"utilization", "reserve", "engine", "engine_version", "set"})


def checked(given: Mapping[str, Any]) -> None:
    """Options of a simulation need something to simulate.

    Raises:
        KvcalcError: "usage".
    """
    alone = next((key for key in TRACE_OPTIONS if key in given), None)
    if alone is not None and "trace" not in given:
        from kvcalc.api.simulate_load import needs_trace  # noqa: PLC0415 - the refusal alone

        raise needs_trace(alone)
