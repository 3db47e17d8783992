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

from kvcalc.core.simulate.grouped import Grouped
from kvcalc.core.simulate.job import STATE, WINDOW, GroupSpec, Job, Settings
from kvcalc.core.simulate.rings import Rings
from kvcalc.core.units import cdiv


class Windowed(Grouped):
    """Blocks of any groups. A job's `wake` is the step in which something of it changes next."""

    def __init__(self, groups: Sequence[GroupSpec], blocks: int, settings: Settings) -> None:
        super().__init__(groups, blocks, settings)
        self._wakes: dict[int, list[Job]] = {}
        self._wake_steps: list[int] = []
        self._rings = Rings(groups, self._queue, caches=self._caches, lag=self._lag)

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
        self._write_down(job, job.computed_at(step))
        super().halt(job, step)

    def _write_down(self, job: Job, computed: int) -> None:
        """Let the strips say what a decoding job held before its next token."""
        plain = job.memory.plain
        for spec, strip in zip(self._groups.specs, job.memory.strips, strict=True):
            if spec.kind == STATE:
                continue
            strip.length = cdiv(computed, spec.block_size)
            if plain and spec.kind == WINDOW:
                strip.gone = spec.skipped(computed - 1 - self._lag) // spec.block_size
        if plain:
            self._rings.leave(job)

    def release(self, job: Job, *, keep: bool) -> None:
        """All blocks of a job that computes no more, group by group."""
        if keep:
            self._groups.remember(job)
        for group, strip in enumerate(job.memory.strips):
            places = (strip.gone, strip.length)
            self.used -= self._groups.free(job, group, places, job.computed, own=keep)
        job.memory = None
        self._stored -= job.computed
        for i, (size, _, _) in enumerate(self.tables):
            self._held[i] -= cdiv(job.computed, size)

    def enough(self, step: int) -> bool:
        """Whether a step's new blocks are free already; unequal blocks are served in order."""
        return super().enough(step) and (self._groups.even or not self._caches)

    def horizon(self, step: int, most: int) -> int:
        """As `Counted.horizon`, up to the next wake, or until the refused job might enter.

        If some of its hits are free, they may go at any step, and it then needs another number.
        """
        if self._caches and (not self._groups.even or (self.refused and self._free_hits)):
            return 0
        steps = self._wake_steps
        while steps and steps[0] < step:
            heappop(steps)
        if steps:
            most = min(most, steps[0] - step)
        most = super().horizon(step, most) if most else 0
        if most and self.refused:
            missing = self._lack - (self.usable - self.used)
            for ahead, change in enumerate(self._changes(step, min(most, self._rings.longest))):
                if -change >= missing:
                    return ahead
            most = min(most, self._rings.longest)
        return most

    def _changes(self, step: int, steps: int) -> list[int]:
        """Blocks in use more, after each of the next steps."""
        tables, freed = self.tables, self._rings.freed
        each = (
            sum(m * beats.at(s) for _, m, beats in tables) - freed(s)
            for s in range(step, step + steps)
        )
        return list(accumulate(each))

    def run(self, step: int, steps: int) -> None:
        """As `Counted.run`, without wakes."""
        area = steps * self.used
        taken = 0
        for (_, m, _), (begun, ramp) in zip(self.tables, self._fill(step, steps), strict=True):
            taken += m * begun
            area += m * ramp
        area -= self._rings.ramp(step, steps)
        high = self.used + taken > self.peak
        self._take(taken)
        self.used -= self._rings.slide_on(step, steps)
        self.used_sum += area
        if high:
            # What a round frees is no more than what it takes, so the last round is the fullest.
            last = min(steps, self._rings.longest)
            changes = self._changes(step + steps - last, last)
            self.peak = max(self.peak, self.used - changes[-1] + max(changes))

    def advance(self, step: int) -> None:
        """The decoding jobs' tokens of one step with enough blocks; `note` closes it."""
        taken = 0
        for i, (_, m, beats) in enumerate(self.tables):
            begun = beats.at(step)
            taken += m * begun
            self._held[i] += begun
        self._stored += self._running
        self._take(taken)
        # A job that was preempted may be noted twice for the same step.
        noted = dict.fromkeys(self._wakes.pop(step, ()))
        woken = [job for job in noted if job.since >= 0 and job.wake == step]
        woken.sort(key=_ticket)
        # Calm requests and woken ones free in order of admission: their blocks go in that order.
        above, calm = -1, []
        for job in woken:
            self.used -= self._rings.slide(step, above, job.ticket)
            above = job.ticket
            if self._serve(job, step):
                calm.append(job)
        self.used -= self._rings.slide(step, above)
        for job in calm:
            self._rings.join(job)

    def _serve(self, job: Job, step: int) -> bool:
        """What changes for a woken job in this step; True if it is calm from now on."""
        computed = job.computed_at(step)
        settled = computed
        if self._lag:
            settled = computed - 1 if computed > job.computed else job.memory.before
        # It has taken its new block by now, in the count if not in its strips.
        for spec, strip in zip(self._groups.specs, job.memory.strips, strict=True):
            if spec.kind != STATE:
                strip.length = cdiv(computed + 1, spec.block_size)
        self.used -= self._groups.trim(job, computed, settled)
        if job.memory.late:
            self._groups.enter(job, computed, computed + 1)
        if self._groups.calm(job, computed):
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
                self._write_down(job, computed)
                self._serve(job, step)
            elif not job.memory.plain and job.wake == step:
                joins = self._serve(job, step)
            begins = [not computed % size for size, _, _ in self.tables]
            need = sum(m for (_, m, _), new in zip(self.tables, begins, strict=True) if new)
            while need > self.usable - self.used:
                if preempt() is job:
                    return
            if joins:
                self._rings.join(job)
            self._take(need)
            for i, new in enumerate(begins):
                self._held[i] += new
            self._stored += 1


def _ticket(job: Job) -> int:
    return job.ticket
