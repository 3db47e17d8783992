"""A report's data in one state of its sliders, looked up; and how a page writes numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvcalc.core.units import GIB, MIB, cdiv, fixed, unit_of

Data = dict[str, Any]
Figures = dict[str, str]
#: Budget lines that leave memory alone, and with these those that are not an engine's own.
UNUSED = frozenset({"unused", "reserve", "margin"})
COMMON = UNUSED | {"memory", "weights", "kv_pool"}


class State(NamedTuple):
    """Indices of plan, context and number of requests; whether weights and cache are drawn."""

    plan: int
    context: int
    requests: int
    weights: bool = True
    cache: bool = True


class View:
    """The data of one state, looked up."""

    def __init__(self, data: Data, state: State) -> None:
        self.data, self.state = data, state
        self.plan: Data = data["plans"][state.plan]
        self.step: Data = self.plan["steps"][state.context]
        self.tokens: int = data["contexts"][state.context]
        self.n: int = data["requests"][state.requests]
        self.per_replica = cdiv(self.n, self.plan["replicas"])
        self.side: Data = self.step["sides"][_pick(self.step["side_of"], state.requests)]
        self.text: Data = self.plan["texts"][_pick(self.step["text_of"], state.requests)]
        budget = self.side["budget"]
        self.budget: list[Data] = [] if budget is None else self.plan["budgets"][budget]
        self.lines = {line["item"]: line for line in self.budget}
        self.pool: Data | None = self.lines.get("kv_pool")
        self.full: int | None = _pick(self.plan["full_at_tokens"], state.context)[state.requests]
        labels = [s["kv_dtype"] for s in data["steps"]]
        self.kind = labels.index(self.plan["kv_dtype"])
        self.size: Data = data["sizes"][self.kind]
        self.gpus: int = self.plan["gpu"]["count"] if self.plan["gpu"] else 1
        self.need = self.needed(self.side, self.state.requests)
        most = self.step["max_requests"]
        self.fits = most is None or most >= self.n
        low, high = self.step["max_requests_low"], self.step["max_requests_high"]
        self.about = "" if low == high else "≈"

    def needed(self, held: Data, j: int, k: int | None = None) -> int:
        """What requests take: of a side, or of a growth curve at its k-th point."""
        if held["needed_bytes"] is not None:
            row = held["needed_bytes"][j]
            return int(row if k is None else row[k])
        first, base, each = (
            held[name] if k is None else held[name][k]
            for name in ("first_bytes", "fixed_bytes", "each_bytes")
        )
        return int(first if self.per_replica == 1 else base + self.per_replica * each)

    @property
    def weights(self) -> int:
        """Weights of one GPU."""
        return -int(self.lines["weights"]["bytes"]) if "weights" in self.lines else 0

    @property
    def engine(self) -> int:
        """What the engine itself keeps of one GPU."""
        return -sum(int(line["bytes"]) for line in self.budget if line["item"] not in COMMON)

    @property
    def unused(self) -> int:
        """What is left alone of one GPU."""
        lines = (line for line in self.budget if line["item"] in UNUSED)
        return -sum(int(line["bytes"]) for line in lines)

    @property
    def memory(self) -> int:
        """One GPU's memory; of a pool that is given, the pool."""
        if "memory" in self.lines:
            return int(self.lines["memory"]["bytes"])
        return max(self.pool["bytes"], 1) if self.pool is not None else 0

    @property
    def limit(self) -> int:
        """Where the memory ends that may be used."""
        return self.memory - self.unused


def _pick(values: list[Any], i: int) -> Any:
    """The i-th value, or the only one."""
    return values[0] if len(values) == 1 else values[i]


def share(part: int, whole: int) -> str:
    """A place as a percentage of a width, in whole thousandths."""
    q = max(part, 0) * 100_000 // max(whole, 1)
    return f"{q // 1000}.{q % 1000:03}%"


def rounded_up(value: int) -> str:
    """What is missing, rounded up to a hundredth of its unit."""
    name, unit = ("GiB", GIB) if value >= GIB // 10 else ("MiB", MIB)
    return f"{fixed(cdiv(value * 100, unit), 100)} {name}"


def ends(low: int, high: int, unit: int = GIB) -> str:
    """A low–high; empty where both agree."""
    return "" if low == high else f"{fixed(low, unit)}–{fixed(high, unit)}"


def unit_for(value: int) -> tuple[str, int]:
    """The unit of a table's column."""
    return unit_of(max(value, 1))
