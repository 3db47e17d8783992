"""--price: what a plan costs, its tokens at the speed ceiling where the GPU's figures are known."""

from __future__ import annotations

from dataclasses import replace

from kvcalc import resolve
from kvcalc.core import fit as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.price import price
from kvcalc.core.rates import parse_number
from kvcalc.core.results.base import Warn
from kvcalc.core.results.fit import FitResult


def with_price(result: FitResult, plan: core.Plan, text: str | float, gpu: str | None) -> FitResult:
    """The answer with its price.

    Raises:
        KvcalcError: "usage" for what is no number above 0.
    """
    each = parse_number(text, "--price")
    ceiling: float | None = None
    doubts: tuple[Warn, ...] = ()
    if gpu is not None and result.max_requests:
        try:
            ceiling = _tokens_per_second(result, plan, gpu)
        except KvcalcError as error:
            doubts = (Warn("token_price_unknown", f"no price of tokens: {error.message}"),)
    return replace(result, price=price(each, result, ceiling), warnings=(*result.warnings, *doubts))


def _tokens_per_second(result: FitResult, plan: core.Plan, gpu: str) -> float:
    """What all replicas decode at most, full of requests of the plan's context."""
    from kvcalc.api.speed import speed_gpu  # noqa: PLC0415 - only a price asks for speed
    from kvcalc.core.speed import decode_ceiling  # noqa: PLC0415

    if plan.mixed:
        raise KvcalcError("usage", "the speed of GPUs that differ is not known", None)
    device, _ = resolve.gpu_of(gpu)
    own, replicas = plan.storage.model.key, plan.parallel.dp
    used = speed_gpu(device, plan.parallel.tp * plan.parallel.pp, plan.weights, own)
    return replicas * decode_ceiling(
        plan.model,
        plan.storage,
        weights=plan.weights,
        gpu=used,
        context=plan.context,
        requests=result.max_requests // replicas,
        parallel=plan.parallel,
    )
