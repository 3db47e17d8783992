"""A pool for groups that see unequally far, with or without prefix caching.

A window group frees a block as soon as no further token attends to it, before it takes new ones for
the step. A decoding request whose windows are full, and hold nothing that others could hit, frees a
block every B steps: such are counted by beats, as new blocks are. All others wake in the steps in
which a block of theirs goes.

In steps with enough free blocks it makes no difference who takes and who frees first: takers take
from the front of the queue, and what is freed joins its tail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from operator import sub

from kvcalc.core.simulate.beats import totals
from kvcalc.core.simulate.grouped import Grouped
from kvcalc.core.simulate.job import GroupSpec, Job, Settings
from kvcalc.core.simulate.rings import Rings


class Windowed(Grouped):
    """Blocks of any groups. A job's `wake` is the step in which something of it changes next."""

    def __init__(self, groups: Sequence[GroupSpec], blocks: int, settings: Settings) -> None:
        super().__init__(groups, blocks, settings)
        self._wakes: dict[int, list[Job]] = {}
        self._wake_steps: list[int] = []
        self._rings = Rings(self._groups)
        #: Nothing joins the queue's front in the middle of a step.
        self._steady = not self._caches or self._rings.steady

    def decode(self, job: Job, step: int) -> None:
        """The job computes one token a step from `step` on."""
        super().decode(job, step)
        self._sleep(job, step)

    def _sleep(self, job: Job, step: int) -> None:
        """Note when the job wakes next, from `step` on."""
        computed = job.computed_at(step)
        ahead = self._groups.next_change(job, computed)
        if ahead < 0:
            return
        job.wake = step + ahead - computed
        sleepers = self._wakes.get(job.wake)
        if sleepers is None:
            self._wakes[job.wake] = sleepers = []
            heappush(self._wake_steps, job.wake)
        sleepers.append(job)

    def halt(self, job: Job, step: int) -> None:
        """The job, before `step`, computes no more; its strips say what it holds."""
        if job.memory.plain:
            self._wake_up(job, job.computed_at(step))
        super().halt(job, step)

    def _wake_up(self, job: Job, computed: int) -> None:
        """A calm job is counted no more: its strips say what it held before its next token."""
        for kind in self._groups.moving:
            gone = kind.spec.skipped(computed - 1 - self._lag) // kind.size
            job.memory.strips[kind.number].gone = gone
        self._rings.leave(job)

    def release(self, job: Job, *, keep: bool) -> None:
        """All blocks of a job that computes no more, group by group."""
        if keep and self._caches:
            self._groups.remember(job, self._rings.left(job))
        for kind, strip in zip(self._groups.kinds, job.memory.strips, strict=True):
            places = (strip.gone, kind.blocks_for(job.computed))
            self.used -= self._groups.free(job, kind, strip, places, job.computed, own=keep)
        job.memory = None
        self._stored -= job.computed
        self._held -= self.blocks_for(job.computed) - self.states

    def enough(self, step: int) -> bool:
        """Whether a step's new blocks are free already, and it does not matter who is served first.

        It does where what goes joins the queue's front, unless all can be taken from there anyway.
        """
        return super().enough(step) and (self._steady or self._begins(step) <= self._queue.fresh)

    def horizon(self, step: int, most: int) -> int:
        """As `Counted.horizon`, or until the refused job might enter.

        If some of its hits are free, they may go at any step, and it then needs another number.
        """
        if self._caches and self.refused and self._free_hits:
            return 0
        most = (super().horizon if self._steady else self._fronted)(step, most)
        if most and self.refused:
            if (wake := self._next_wake(step)) is not None:
                most = min(most, wake - step)
            most = min(most, self._rings.longest)
            missing = self._lack - (self.usable - self.used)
            for ahead, change in enumerate(self._changes(step, most)):
                if -change >= missing:
                    return ahead
        return most

    def _fronted(self, step: int, most: int) -> int:
        """How many steps, up to `most`, surely take no block from behind the queue's front."""
        free = self._queue.fresh
        if self._rounds(most) <= free or self._begun(step, most) <= free:
            return most
        most = min(most, self._groups.step)
        taken = totals(self.beats, step, most)
        for ahead, (take, give) in enumerate(
            zip(taken, self._rings.fresh(step, most), strict=True)
        ):
            if take > free:
                return ahead
            free += give - take
        return most

    def _next_wake(self, step: int) -> int | None:
        """The next step, from `step` on, in which somebody may wake."""
        steps = self._wake_steps
        while steps and steps[0] < step:
            heappop(steps)
        return steps[0] if steps else None

    def _changes(self, step: int, steps: int) -> list[int]:
        """Blocks in use more, after each of the next steps without wakes."""
        taken = totals(self.beats, step, steps)
        return list(accumulate(map(sub, taken, self._rings.freed(step, steps))))

    def run(self, step: int, steps: int) -> None:
        """As `Counted.run`; in between requests wake."""
        end = step + steps
        while step < end:
            step = self._glide(step, end)

    def _glide(self, step: int, end: int) -> int:
        """Steps, up to `end`, in which nobody wakes but in the first one; where they end."""
        rest = step
        if (woken := self._woken(step)) is not None:
            self._settle(step, woken)
            self.peak = max(self.peak, self.used + self._begins(step))
            rest += 1
        wake = self._next_wake(step + 1)
        if wake is not None and wake < end:
            end = wake
        begun, area = self._fill(step, end - step)
        high = self.used + begun > self.peak
        freed, fell = self._rings.ramp(rest, end - rest)
        self.used_sum += (end - step) * self.used + area - fell
        kept = self._rings.drop(rest, end - rest, freed)
        if kept:
            self._rings.lay(rest, end - rest, kept)
        self.used -= freed
        self._take(begun)
        if high and end > rest:
            # What a round frees is no more than what it takes, so the last round is the fullest.
            last = min(end - rest, self._rings.longest)
            changes = self._changes(end - last, last)
            self.peak = max(self.peak, self.used - changes[-1] + max(changes))
        return end

    def advance(self, step: int) -> None:
        """The decoding jobs' tokens of one step with enough blocks; `note` closes it."""
        begun = self._begins(step)
        self._held += begun
        self._stored += self._running
        self._settle(step, self._woken(step) or [])
        self._take(begun)

    def _woken(self, step: int) -> list[Job] | None:
        """Who wakes in this step, in order of admission; None if nobody was to."""
        noted = self._wakes.pop(step, None)
        if noted is None:
            return None
        # A job that was preempted may be noted twice for the same step.
        woken = [job for job in dict.fromkeys(noted) if job.since >= 0 and job.wake == step]
        woken.sort(key=_ticket)
        return woken

    def _settle(self, step: int, woken: list[Job]) -> None:
        """What goes in one step, of calm requests and of those that wake.

        They free in order of admission: their blocks go to the queue in that order. What the step
        takes was free before, so it may be taken afterwards.
        """
        freed = self._rings.at(step)
        kept = self._rings.drop(step, 1, freed) if freed else 0
        self.used -= freed
        above, calm = -1, []
        for job in woken:
            if kept:
                kept -= self._rings.lay_between(step, above, job.ticket)
                above = job.ticket
            if self._serve(job, step):
                calm.append(job)
        if kept:
            self._rings.lay(step, 1, kept, above)
        for job in calm:
            self._rings.join(job)

    def _serve(self, job: Job, step: int) -> bool:
        """What changes for a woken job in this step; True if it is calm from now on."""
        computed = job.computed_at(step)
        settled = computed
        if self._lag:
            settled = computed - 1 if computed > job.computed else job.memory.before
        self.used -= self._groups.trim(job, computed, settled)
        if job.memory.late:
            self._groups.enter(job, computed, computed + 1)
        if settled == computed - self._lag and self._groups.calm(job, settled):
            return True
        self._sleep(job, step + 1)
        return False

    def squeeze(self, step: int, jobs: Iterable[Job], preempt: Callable[[], Job]) -> None:
        """One step without enough blocks: in order of admission, the last one gives way."""
        self._wakes.pop(step, None)
        for job in jobs:
            if job.since < 0:
                continue
            computed = job.computed_at(step)
            joins = job.memory.plain and self._rings.due(computed)
            if joins:
                self._wake_up(job, computed)
                self._serve(job, step)
            elif not job.memory.plain and job.wake == step:
                joins = self._serve(job, step)
            need = self._next(computed)
            while need > self.usable - self.used:
                if preempt() is job:
                    return
            if joins:
                self._rings.join(job)
            self._take(need)
            self._held += need
            self._stored += 1


def _ticket(job: Job) -> int:
    return job.ticket
