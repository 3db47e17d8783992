"""The waiting line: preempted jobs in front, then requests in the order of their arrival."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

from kvcalc.core.simulate.job import Arrival, Job, Prefix

#: Arrivals that have been admitted are dropped from the arrays so many at a time.
_BATCH = 4096


class Line:
    """First come, first served.

    A trace is read no further than to the next request, so a line of a million takes no memory;
    only `waiting` reads ahead, and keeps three numbers a request.

    Args:
        arrivals: Requests in the order of arrival.
        gate: (prompt, output) to the output that it may generate, 0 if it is rejected.
        make: The job of the arrival with a number, at a tick.
        ticks: Ticks of the clock in a unit of the arrivals' times.
    """

    def __init__(
        self,
        arrivals: Iterable[Arrival],
        gate: Callable[[int, int], int],
        make: Callable[[int, Arrival, int], Job],
        ticks: float = 1,
    ) -> None:
        self._arrivals = enumerate(arrivals)
        self._gate, self._make, self._ticks = gate, make, ticks
        #: Preempted jobs, the next one last.
        self._back: list[Job] = []
        #: Read from the trace but not made yet, from `_first` on; the rest of a few in `_rest`.
        self._numbers, self._times = array("q"), array("d")
        self._prompts, self._outputs = array("q"), array("q")
        self._rest: dict[int, tuple[str | int, Prefix]] = {}
        self._first = 0
        self._next: Job | None = None
        self._more = True
        self._advance()

    def _read(self) -> bool:
        """One more request that is not rejected, into the arrays."""
        for number, (name, at, prompt, output, prefix) in self._arrivals:
            allowed = self._gate(prompt, output)
            if not allowed:
                continue
            self._numbers.append(number)
            self._times.append(at)
            self._prompts.append(prompt)
            self._outputs.append(allowed)
            if prefix is not None or name != number:
                self._rest[number] = (name, prefix)
            return True
        self._more = False
        return False

    def _advance(self) -> None:
        """The next job."""
        if self._first == len(self._numbers):
            self._next = self._fresh()
            return
        i = self._first
        number, at = self._numbers[i], self._times[i]
        name, prefix = self._rest.pop(number, (number, None))
        arrival = Arrival(name, at, self._prompts[i], self._outputs[i], prefix)
        self._next = self._make(number, arrival, self._tick(at))
        self._first += 1
        if self._first >= _BATCH or self._first == len(self._numbers):
            for column in (self._numbers, self._times, self._prompts, self._outputs):
                del column[: self._first]
            self._first = 0

    def _fresh(self) -> Job | None:
        """The next job straight from the trace, where nothing was read ahead."""
        for number, arrival in self._arrivals:
            name, at, prompt, output, prefix = arrival
            allowed = self._gate(prompt, output)
            if allowed:
                if allowed != output:
                    arrival = Arrival(name, at, prompt, allowed, prefix)  # noqa: PLW2901 - cut
                return self._make(number, arrival, int(at * self._ticks))
        self._more = False
        return None

    def _tick(self, at: float) -> int:
        return int(at * self._ticks)

    @property
    def next_at(self) -> int | None:
        """When the next new request arrives, or has arrived; None if no more come."""
        return None if self._next is None else self._next.queued

    def head(self, now: int) -> Job | None:
        """Who is next, of those that have arrived."""
        if self._back:
            return self._back[-1]
        job = self._next
        return job if job is not None and job.queued <= now else None

    def leave(self) -> None:
        """The head has been admitted."""
        if self._back:
            self._back.pop()
        else:
            self._advance()

    def put_back(self, job: Job) -> None:
        """A preempted job goes to the front."""
        self._back.append(job)

    def waiting(self, now: int) -> int:
        """How many wait."""
        if self._next is None or self._next.queued > now:
            return len(self._back)
        while self._more:
            if len(self._times) > self._first and self._tick(self._times[-1]) > now:
                break
            self._read()
        # All that were read have arrived, but perhaps the last one.
        ahead = len(self._times) - self._first
        late = bool(ahead) and self._tick(self._times[-1]) > now
        return len(self._back) + 1 + ahead - late
