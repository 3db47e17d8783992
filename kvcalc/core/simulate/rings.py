"""Windows that are full and free a block every B steps: counted by class, laid in order.

A calm window's block goes when computed − lag − W + 1 is a multiple of B, so in the steps of one
class modulo B. Nobody can hit it but its own request after a preemption, and only the youngest of
each window; so each block that goes is laid in the queue without a name, and remembered.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import accumulate

from kvcalc.core.simulate.blocks import Queue
from kvcalc.core.simulate.job import WINDOW, GroupSpec, Job
from kvcalc.core.simulate.strips import Holding

#: A calm request: its ticket and what it holds.
Seat = tuple[int, Holding]


class Ring:
    """Calm requests by class, in order of admission, for the groups of one window."""

    __slots__ = ("classes", "groups", "size", "span")

    def __init__(self, spec: GroupSpec, groups: list[int]) -> None:
        self.size, self.span, self.groups = spec.block_size, spec.span, groups
        self.classes: list[list[Seat]] = [[] for _ in range(self.size)]

    def seats(self, job: Job, lag: int) -> list[Seat]:
        """The class of a decoding job."""
        return self.classes[(job.seat + lag + self.span - 1) % self.size]

    def ramp(self, step: int, steps: int) -> int:
        """The sum over steps of the blocks that went up to and in each, of one group."""
        classes, size = self.classes, self.size
        counts = [len(classes[(step + i) % size]) for i in range(min(steps, size))]
        rounds, rest = divmod(steps, size)
        whole = list(accumulate(counts))
        if not rounds:
            return sum(whole)
        each = whole[-1]
        area = rounds * sum(whole) + size * each * (rounds * (rounds - 1) // 2)
        return area + rest * rounds * each + sum(whole[:rest])


class Rings:
    """The rings of all windows of a model.

    Args:
        groups: In the engine's order.
        queue: Where blocks go.
        caches: Without prefix caching only their number counts.
        lag: 1 with asynchronous scheduling: the last token is not settled.
    """

    def __init__(
        self, groups: Sequence[GroupSpec], queue: Queue, *, caches: bool, lag: int
    ) -> None:
        self._queue, self._caches, self._lag = queue, caches, lag
        self._rings = [
            Ring(spec, [i for i, g in enumerate(groups) if g == spec])
            for spec in dict.fromkeys(groups)
            if spec.kind == WINDOW
        ]
        #: Steps after which all has come round.
        self.longest = max((ring.size for ring in self._rings), default=1 << 60)

    def join(self, job: Job) -> None:
        """A job is calm from the next step on."""
        job.memory.plain = True
        for ring in self._rings:
            insort(ring.seats(job, self._lag), (job.ticket, job.memory), key=_ticket)

    def leave(self, job: Job) -> None:
        """It is not any more."""
        job.memory.plain = False
        for ring in self._rings:
            seats = ring.seats(job, self._lag)
            del seats[bisect_left(seats, job.ticket, key=_ticket)]

    def due(self, computed: int) -> bool:
        """Whether a calm job with `computed` stored tokens frees something."""
        settled = computed - self._lag + 1
        return any(not (settled - ring.span) % ring.size for ring in self._rings)

    def freed(self, step: int) -> int:
        """Blocks that go in a step."""
        return sum(len(r.groups) * len(r.classes[step % r.size]) for r in self._rings)

    def ramp(self, step: int, steps: int) -> int:
        """The sum over steps of the blocks that went up to and in each."""
        return sum(len(ring.groups) * ring.ramp(step, steps) for ring in self._rings)

    def slide_on(self, step: int, steps: int) -> int:
        """The blocks that leave calm windows in steps in a row go to the queue; how many."""
        if len(self._rings) != 1:
            return sum(self.slide(at) for at in range(step, step + steps))
        (ring,) = self._rings
        if not self._caches:
            return self._count(sum(self.freed(at) for at in range(step, step + steps)))
        given, lay = 0, self._queue.lay
        for at in range(step, step + steps):
            for _, holding in ring.classes[at % ring.size]:
                for group in ring.groups:
                    holding.youngest[group] = lay()
                given += 1
        return given * len(ring.groups)

    def slide(self, step: int, above: int = -1, below: int = 1 << 60) -> int:
        """The same of one step, for jobs whose tickets lie between two others."""
        events = [
            (ticket, group, holding)
            for ring in self._rings
            for ticket, holding in ring.classes[step % ring.size]
            if above < ticket < below
            for group in ring.groups
        ]
        if not self._caches:
            return self._count(len(events))
        if len(self._rings) > 1:
            events.sort(key=_place)
        for _, group, holding in events:
            holding.youngest[group] = self._queue.lay()
        return len(events)

    def _count(self, blocks: int) -> int:
        self._queue.fresh += blocks
        return blocks


def _ticket(seat: Seat) -> int:
    return seat[0]


def _place(event: tuple[int, int, Holding]) -> tuple[int, int]:
    return event[:2]
