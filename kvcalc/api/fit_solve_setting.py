"""--solve of an engine's own setting: the least or most of it that makes the rest fit.

A setting helps (a larger share of the memory) or costs (a longer prefill step), and some do both:
too few slots serve too few requests, too many take the memory. So values are tried from end to
end; where more of it makes the pool larger the least that fits is the answer, else the most. The
edge between the last that fits and the next is found by halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core import fit as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import MIB

if TYPE_CHECKING:
    from kvcalc.engines.registry import Setting, Value

#: The largest count that is tried.
_MOST = 2**24
#: Layers on GPUs, by their engines' names: the model has no more, with the output layer.
_LAYERS = frozenset({"n_gpu_layers", "num_gpu"})
#: Fractions are tried in steps of 1 / 10,000, other numbers of 1 / 1,000.
_SHARES, _NUMBERS = 10_000, 1_000


class Steps(NamedTuple):
    """The values of a setting in ascending order: `value(n)` for n in [first, last]."""

    first: int
    last: int
    value: Callable[[int], Value]


class Asked(NamedTuple):
    """A setting of a plan, asked by steps."""

    setting: Setting
    plan: core.Plan
    steps: Steps

    def at(self, n: int) -> core.Plan:
        """The plan with step n of the setting."""
        return _with(self.plan, self.setting, self.steps.value(n))

    def fits(self, n: int) -> bool:
        """Whether the load fits with it; what the engine refuses does not."""
        return core.fits(self.at(n))

    def pool(self, n: int) -> int:
        """Bytes of the smallest rank's pool with it."""
        return min(r.pool.best for r in core.rank_plans(self.at(n)))


def solved_setting(setting: Setting, plan: core.Plan) -> tuple[Value | None, core.Plan]:
    """The value with which the plan fits, and the plan with it; None and the same if none does.

    Of words and switches it is the first that fits, the one in force before all others.

    Raises:
        KvcalcError: "usage" for a list, and for a setting that changes nothing here.
    """
    found: Value | None
    if setting.kind == "bool" or isinstance(setting.kind, tuple):
        words = _words(setting, plan)
        found = next((word for word in words if core.fits(_with(plan, setting, word))), None)
        return found, plan if found is None else _with(plan, setting, found)
    asked = Asked(setting, plan, _steps(setting, plan))
    tried = _tried(asked.steps, shares=setting.kind == "share")
    good = [n for n in tried if asked.fits(n)]
    if not good:
        return None, plan
    n = _edge_of(asked, tried, good)
    return asked.steps.value(n), asked.at(n)


def _edge_of(asked: Asked, tried: Sequence[int], good: Sequence[int]) -> int:
    least, most = good[0], good[-1]
    below, above = asked.pool(least), asked.pool(most)
    if below < above:
        before = tried.index(least) - 1
        return least if before < 0 else _edge(least, tried[before], asked.fits)
    if most != tried[-1]:
        return _edge(most, tried[tried.index(most) + 1], asked.fits)
    if least != tried[0]:  # too few, and no number is too many
        return _edge(least, tried[tried.index(least) - 1], asked.fits)
    if below == above:
        raise KvcalcError(
            "usage",
            f"--solve {asked.setting.name}: every value fits and leaves the same pool",
            "leave it as it is",
        )
    # Any number fits: the last that has an effect.
    return _edge(most, least, lambda n: asked.pool(n) == above)


def _with(plan: core.Plan, setting: Setting, value: Value) -> core.Plan:
    return plan._replace(settings={**plan.settings, setting.name: value})


def _words(setting: Setting, plan: core.Plan) -> list[Value]:
    """The values of a switch or a choice, the one in force first."""
    words: list[Value] = [False, True] if isinstance(setting.kind, str) else list(setting.kind)
    named = {str(word).lower(): word for word in words}
    first = plan.settings.get(setting.name, named.get(setting.default))
    return sorted(words, key=lambda word: word != first)


def _steps(setting: Setting, plan: core.Plan) -> Steps:
    kind = setting.kind
    if kind in {"int", "count"}:
        last = len(plan.model.layers) + 1 if setting.name in _LAYERS else setting.most or _MOST
        return Steps(int(kind == "int"), last, lambda n: n)
    if kind == "power":
        return Steps(0, _MOST.bit_length() - 1, lambda n: 2**n)
    if kind == "share":
        return Steps(1, _SHARES, lambda n: n / _SHARES)
    if kind == "number":
        return Steps(1, 10**6 * _NUMBERS, lambda n: n / _NUMBERS)
    if kind == "bytes":
        return Steps(1, _MOST, lambda n: n * MIB)
    raise KvcalcError(
        "usage", f"--solve {setting.name}: a list is nothing to solve for", setting.note
    )


def _tried(steps: Steps, *, shares: bool) -> list[int]:
    first, last = steps.first, steps.last
    inner = range(last // 50, last, last // 50) if shares else (2**k for k in range(1, 40))
    return sorted({first, last, *(n for n in inner if first < n < last)})


def _edge(good: int, bad: int, holds: Callable[[int], bool]) -> int:
    """The last step from `good` towards `bad` that holds."""
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good
