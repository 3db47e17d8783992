"""Windows that are full and free a block every B steps: counted by class, laid in order.

A calm window's block goes when computed − lag − W + 1 is a multiple of B, so in the steps of one
class modulo B. It can be part of a hit, or not, in the steps of one class modulo the step at whose
multiples hits end. Nobody can hit it but its own request after a preemption, and only what left
last; so what goes in some steps is one stretch of a row, without names, and who left which of its
blocks is worked out only for a request that is preempted.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from math import lcm
from operator import sub
from typing import NamedTuple

from kvcalc.core.simulate.beats import Beats, totals
from kvcalc.core.simulate.blocks import Row
from kvcalc.core.simulate.job import CHUNKED, WINDOW, Job
from kvcalc.core.simulate.kinds import Kind
from kvcalc.core.simulate.strips import Groups, Left

#: Tickets of calm requests, in order of admission, by their class modulo the step.
Classes = list[tuple[int, ...]]


class Trail(NamedTuple):
    """What calm windows left in some steps, of requests whose tickets lie between two others.

    It stands in a row from `place` on, in the order in which it went.
    """

    row: Row
    place: int
    first: int
    steps: int
    above: int
    below: int
    classes: Classes


class Ring:
    """The windows of a kind: when blocks go, and when such that can be part of a hit."""

    __slots__ = ("freed", "kind", "moments", "shift")

    def __init__(self, kind: Kind, lag: int) -> None:
        self.kind = kind
        self.shift = kind.spec.span - 1 + lag
        self.freed = Beats(kind.size, kind.count)
        #: Stored tokens modulo the step at which such a block goes: it is kept, and is full.
        self.moments = [n for n in range(kind.step) if self._leaves(n)]

    def _leaves(self, moment: int) -> bool:
        computed = moment + self.kind.step * (self.shift + 1)
        gone, rest = divmod(computed - self.shift, self.kind.size)
        return not rest and self.kind.keeps(gone - 1) and gone <= self.kind.full(computed)

    def seat(self, job: Job) -> int:
        """The class of a decoding job by the steps in which its blocks go."""
        return (job.seat + self.shift) % self.kind.size


class Rings:
    """The rings of all windows of a model; `lag` is 1 where the last token is not settled."""

    def __init__(self, groups: Groups) -> None:
        self._groups, self._queue = groups, groups.queue
        self._rings = [Ring(k, groups.lag) for k in groups.kinds if k.spec.kind == WINDOW]
        self._classes: Classes = [()] * groups.step
        #: The trails that a preempted request may look into.
        self._trails: deque[Trail] = deque()
        #: Steps after which all has come round.
        self.longest = lcm(*(ring.kind.size for ring in self._rings)) if self._rings else 1 << 60
        #: All that ever goes can be part of a hit: nothing joins the front of the queue.
        self.steady = not any(
            kind.spec.kind == CHUNKED and kind.blocks > 1 for kind in groups.kinds
        ) and all(len(ring.moments) == ring.kind.blocks for ring in self._rings)
        #: Where that is not so, when those go that can be part of a hit, of all windows.
        self._kept = Beats(groups.step)
        self._moments = [
            (moment, ring.kind.count)
            for ring in self._rings
            for moment in (() if self.steady or not groups.caches else ring.moments)
        ]

    def join(self, job: Job) -> None:
        """A job is calm from the next step on."""
        job.memory.plain = True
        for ring in self._rings:
            ring.freed.join(ring.seat(job))
        if self._moments:
            self._kept.add((job.seat + moment, blocks) for moment, blocks in self._moments)
        tickets = list(self._classes[job.seat % len(self._classes)])
        insort(tickets, job.ticket)
        self._classes[job.seat % len(self._classes)] = tuple(tickets)

    def leave(self, job: Job) -> None:
        """It is not any more."""
        job.memory.plain = False
        for ring in self._rings:
            ring.freed.leave(ring.seat(job))
        if self._moments:
            self._kept.add((job.seat + moment, -blocks) for moment, blocks in self._moments)
        tickets = list(self._classes[job.seat % len(self._classes)])
        del tickets[bisect_left(tickets, job.ticket)]
        self._classes[job.seat % len(self._classes)] = tuple(tickets)

    def due(self, computed: int) -> bool:
        """Whether a calm job with `computed` stored tokens frees something."""
        return any(not (computed - ring.shift) % ring.kind.size for ring in self._rings)

    def at(self, step: int) -> int:
        """Blocks that go in one step."""
        blocks = 0
        for ring in self._rings:
            blocks += ring.freed.at(step)
        return blocks

    def freed(self, step: int, steps: int) -> list[int]:
        """Blocks that go in each of some steps."""
        return totals([ring.freed for ring in self._rings], step, steps)

    def fresh(self, step: int, steps: int) -> list[int]:
        """Those of them that nobody can ever hit."""
        return list(map(sub, self.freed(step, steps), self._kept.each(step, steps)))

    def ramp(self, step: int, steps: int) -> tuple[int, int]:
        """Blocks that go in some steps, and the sum over the steps of those gone up to each."""
        freed = area = 0
        for ring in self._rings:
            more, ramp = ring.freed.ramp(step, steps)
            freed += more
            area += ramp
        return freed, area

    def drop(self, step: int, steps: int, freed: int) -> int:
        """Of so many that go in some steps the queue's front gets those that nobody can ever hit.

        Returns the others, which join its tail.
        """
        if not self._groups.caches:
            return 0
        if self.steady or not freed:
            return freed
        kept = self._kept.begun(step, steps)
        self._queue.fresh += freed - kept
        return kept

    def lay(self, step: int, steps: int, kept: int, above: int = -1) -> None:
        """So many join the queue's tail, of jobs whose ticket is larger than one."""
        self._trail(kept, step, steps, above, 1 << 60)

    def lay_between(self, step: int, above: int, below: int) -> int:
        """The same in one step, of jobs whose tickets lie between two others; how many."""
        kinds = self._groups.kinds
        events = self._events(self._classes, step)
        kept = sum([kinds[number].count for ticket, number in events if above < ticket < below])
        if kept:
            self._trail(kept, step, 1, above, below)
        return kept

    def _trail(self, blocks: int, step: int, steps: int, above: int, below: int) -> None:
        trails = self._trails
        # What left last can matter, as far back as hits may end.
        while trails and trails[0].first + trails[0].steps < step - 2 * self._groups.step:
            trails.popleft()
        row, place = self._queue.lay(blocks)
        trails.append(Trail(row, place, step, steps, above, below, self._classes.copy()))

    def _events(self, classes: Classes, step: int) -> Iterator[tuple[int, int]]:
        """Who leaves something that can be part of a hit: tickets and numbers of kinds."""
        for ring in self._rings:
            for moment in ring.moments:
                for ticket in classes[(step - moment) % len(classes)]:
                    yield ticket, ring.kind.number

    def left(self, job: Job) -> Iterator[tuple[int, Left]]:
        """What a job left of late while it was calm, by number of its kind."""
        kinds = self._groups.kinds
        for row, first_place, first, steps, above, below, classes in self._trails:
            place = first_place
            for step in range(first, first + steps):
                for ticket, number in sorted(self._events(classes, step)):
                    if not above < ticket < below:
                        continue
                    kind = kinds[number]
                    if ticket == job.ticket:
                        gone = kind.spec.skipped(step - job.seat - self._groups.lag) // kind.size
                        yield number, Left(row, place, 1, kind.rank(gone - 1), kind.groups)
                    place += kind.count
