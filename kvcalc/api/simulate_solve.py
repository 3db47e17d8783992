"""--solve: the highest rate, or the fewest GPUs, at which requests do not queue up."""

from __future__ import annotations

from typing import Any

from kvcalc.api.simulate_load import Load, positive
from kvcalc.api.simulate_setup import Setup
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.model import Model
from kvcalc.core.results.simulate import SimulateResult, Solved
from kvcalc.core.units import shown

WHATS = ("gpus", "rate")
#: 99% of the requests wait at most so long.
MAX_WAIT = 1.0
_GPUS = (1, 2, 4, 8, 16, 32, 64)
#: The rate is found to a hundredth of itself, within so many doublings or halvings.
_PRECISION, _DOUBLINGS = 1.01, 40


def solve_for(model: Model | None, load: Load, asked: dict[str, Any]) -> SimulateResult:
    """The run at the knee: at the rate, or with the GPUs, that are just enough.

    Raises:
        KvcalcError: "usage" for something else to solve for, or without seconds.
    """
    what = str(asked["solve"]).lower()
    if what not in WHATS:
        close = nearest(what, list(WHATS), 1)
        hint = f"nearest: {close[0]}; all: {', '.join(WHATS)}" if close else ", ".join(WHATS)
        raise KvcalcError("usage", f"--solve {shown(what)} is nothing to solve for", hint)
    text = asked.get("max_wait")
    wait = MAX_WAIT if text is None else positive(text, "--max-wait")
    rest = {k: v for k, v in asked.items() if k not in {"solve", "max_wait"}}
    return _gpus(model, load, rest, wait) if what == "gpus" else _rate(model, load, rest, wait)


def _keeps_up(result: SimulateResult, wait: float) -> bool:
    queue = result.latency.queue_seconds.p99
    if queue is None and result.requests.finished:
        raise KvcalcError(
            "usage", "--solve needs seconds: the trace's arrivals count steps",
            "a trace in seconds, or --step-seconds",
        )  # fmt: skip
    return queue is not None and queue <= wait and not result.requests.rejected


def _gpus(model: Model | None, load: Load, asked: dict[str, Any], wait: float) -> SimulateResult:
    if "gpu" not in asked:
        raise KvcalcError("usage", "--solve gpus needs --gpu", "which one?")
    if "tp" in asked or "gpus" in asked:
        raise KvcalcError("usage", "--solve gpus: their number is given", "leave --gpus, --tp out")
    last: SimulateResult | None = None
    refusal: KvcalcError | None = None
    for count in _GPUS:
        try:
            setup = Setup(model, {**asked, "gpus": count})
        except KvcalcError as error:
            # Too few for the weights, or more than the heads can be split over.
            if last is not None:
                break
            refusal = error
            continue
        solved = Solved("gpus", count, wait)
        last = setup.run(load, solved=solved)
        if _keeps_up(last, wait):
            return last
    if last is None:
        assert refusal is not None  # noqa: S101 - no count was tried in vain without one
        raise refusal
    return _unsolved(last, Solved("gpus", None, wait))


def _rate(model: Model | None, load: Load, asked: dict[str, Any], wait: float) -> SimulateResult:
    if "requests_per_second" in asked:
        raise KvcalcError(
            "usage", "--solve rate: the rate is given", "leave --requests-per-second out"
        )
    setup = Setup(model, {**asked, "series": 0, "per_request": False})
    start = load.times().rate
    if start is None:
        load.factor(1.0)
        raise AssertionError  # a trace without a rate was refused

    def good(rate: float) -> bool:
        return _keeps_up(setup.run(load, rate=rate), wait)

    low, high = None, None
    rate = start
    for _ in range(_DOUBLINGS):
        if good(rate):
            low = rate
            if high is not None:
                break
            rate *= 2
        else:
            high = rate
            if low is not None:
                break
            rate /= 2
    final = Setup(model, asked)
    if low is None or high is None:
        # Nothing is slow enough, or nothing is too fast: everybody waits too long, or nobody does.
        return final.run(load, rate=low or rate, solved=Solved("rate", low, wait))
    while high / low > _PRECISION:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if good(middle) else (low, middle)
    return final.run(load, rate=low, solved=Solved("rate", low, wait))


def _unsolved(result: SimulateResult, solved: Solved) -> SimulateResult:
    from dataclasses import replace  # noqa: PLC0415 - loaded already

    return replace(result, solved=solved)
