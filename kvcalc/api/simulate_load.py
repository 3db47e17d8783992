"""The load of a simulation: a workload, its rate and its times, read as often as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.simulate.job import Arrival
from kvcalc.core.units import parse_count, shown
from kvcalc.workloads import open_workload

#: Requests between two calls of a progress bar.
_EVERY = 256

#: Called with the number of requests read so far; the command line shows it.
watchers: list[Callable[[int], None]] = []


def needs_trace(key: str) -> KvcalcError:
    """What to raise for an option that says nothing without a trace."""
    option = f"--{key.replace('_', '-')}"
    return KvcalcError("usage", f"{option} needs --trace", "a file, or poisson:rate=5,prompt=1K")


class Times(NamedTuple):
    """What a trace's times are: "seconds", "steps" or None; how many requests in how long."""

    unit: str | None
    requests: int
    duration: float

    @property
    def rate(self) -> float | None:
        """Requests per second over the span of the trace."""
        return self.requests / self.duration if self.duration > 0 else None


class Load:
    """A workload and how it was asked for.

    Args:
        trace: The source; None is refused.
        asked: The options `limit`, `skip_bad`, `seed` and `requests_per_second`.

    Raises:
        KvcalcError: "usage".
    """

    def __init__(self, trace: str | None, asked: Mapping[str, Any]) -> None:
        if not trace:
            raise KvcalcError(
                "usage", "--trace is missing: which requests?",
                "a file, - for stdin, or poisson:rate=5,prompt=1K,output=200",
            )  # fmt: skip
        limit, seed = asked.get("limit"), asked.get("seed")
        self.workload = open_workload(
            trace,
            limit=None if limit is None else parse_count(limit, "--limit"),
            skip_bad=bool(asked.get("skip_bad")),
            seed=None if seed is None else parse_count(seed, "--seed", minimum=0),
        )
        self._times: Times | None = None
        self._unit: str | None = None
        self._begun = False

    @property
    def unit(self) -> str | None:
        """What the trace's times count; its first request is read for it."""
        if not self._begun:
            next(iter(self.workload), None)
            self._unit = self.workload.unit
            self._begun = True
        return self._unit

    def times(self) -> Times:
        """Rate and duration; the whole trace is read for it, once."""
        if self._times is None:
            first = last = 0.0
            count = 0
            for request in self.workload:
                first = request.at if not count else first
                last = request.at
                count += 1
            self._times = Times(self.workload.unit, count, last - first)
        return self._times

    def factor(self, rate: float) -> float:
        """By how much times are divided so that requests come at `rate` a second.

        Raises:
            KvcalcError: "usage" if the trace has no seconds to scale.
        """
        times = self.times()
        if times.unit != "seconds" or times.rate is None:
            raise KvcalcError(
                "usage", f"{self.workload.name} has no arrivals in seconds to scale",
                "leave --requests-per-second and --solve rate out",
            )  # fmt: skip
        return rate / times.rate

    def __iter__(self) -> Iterator[Arrival]:
        """The requests in order of arrival."""
        if not watchers:
            return iter(self.workload)
        return self._watched()

    def _watched(self) -> Iterator[Arrival]:
        for number, request in enumerate(self.workload):
            if not number % _EVERY:
                for watcher in watchers:
                    watcher(number)
            yield request


def positive(text: object, option: str) -> float:
    """A number above 0.

    Raises:
        KvcalcError: "usage".
    """
    try:
        value = float(str(text))
    except ValueError:
        value = 0.0
    if not 0 < value < 1e12:
        raise KvcalcError("usage", f"{option} is {shown(text)}", "expected a number above 0")
    return value
