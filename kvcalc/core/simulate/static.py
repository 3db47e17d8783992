"""Batch after batch, as before continuous batching.

Whoever waits when a batch starts, up to `max_num_seqs` and as many as memory holds, is prefilled in
one step; then all decode until the longest is done. Nobody joins and nobody leaves before, so
answers come, and memory is free, at the end of the batch.
"""

from __future__ import annotations

from kvcalc.core.simulate.clock import Clock
from kvcalc.core.simulate.job import Job, Settings
from kvcalc.core.simulate.line import Line
from kvcalc.core.simulate.reserved import Reserved
from kvcalc.core.simulate.tally import StepRow, Tally


class Static:
    """One run; `run` does it. The pool reserves each request's memory for the whole batch."""

    def __init__(
        self, line: Line, pool: Reserved, clock: Clock, settings: Settings, tally: Tally
    ) -> None:
        self._line, self._pool, self._clock = line, pool, clock
        self._seats, self._tally = settings.max_num_seqs, tally

    def run(self) -> None:
        """From the first arrival to the last token."""
        line = self._line
        while True:
            batch = self._gather()
            if batch:
                self._prefill(batch)
                self._decode(batch)
            elif line.next_at is None:
                return
            else:
                self._idle(line.next_at)

    def _idle(self, tick: int) -> None:
        clock, tally = self._clock, self._tally
        if clock.ticks_per_second is None:
            while tally.due is not None and tally.due < tick:
                step = tally.due
                clock.idle(step + 1)
                self._show(0, 0, step, step)
        clock.idle(tick)

    def _gather(self) -> list[Job]:
        line, pool, now = self._line, self._pool, self._clock.now
        batch: list[Job] = []
        pool.refused = False
        while len(batch) < self._seats and (job := line.head(now)) is not None:
            if not pool.admit(job, job.tokens, bool(batch)):
                break
            line.leave()
            self._tally.admitted(job, 0, now)
            job.ticket = len(batch)
            batch.append(job)
        return batch

    def _prefill(self, batch: list[Job]) -> None:
        clock, pool = self._clock, self._pool
        step, start = clock.step, clock.now
        for job in batch:
            clock.prefill(0, job.tokens)
        pool.note()
        clock.close()
        tokens = sum(job.tokens for job in batch)
        self._count(1, len(batch), tokens)
        if self._tally.due == step:
            self._show(tokens, len(batch), step, start)
        for job in batch:
            job.generated = 1
            job.first_step, job.first_tick = step, clock.now
            job.end = step + job.output - 1
            if job.output > 1:
                pool.decode(job, step + 1)
                clock.join(job.ticket, job.computed)

    def _decode(self, batch: list[Job]) -> None:
        clock, pool, tally = self._clock, self._pool, self._tally
        active = sorted((job for job in batch if job.output > 1), key=_end, reverse=True)
        while active:
            step = clock.step
            most = clock.horizon(active[-1].end - step + 1)
            if tally.due is not None:
                most = min(most, tally.due - step + 1)
            pool.run(step, most)
            clock.skip(most - 1)
            start = clock.now
            clock.skip(1)
            self._count(most, len(batch), most * len(active))
            if tally.due == step + most - 1:
                self._show(len(active), len(batch), tally.due, start)
            while active and active[-1].end < clock.step:
                job = active.pop()
                clock.leave(job.ticket, job.computed_at(clock.step))
                pool.halt(job, clock.step)
        for job in batch:
            tally.done(job, clock.step - 1, clock.now)
            pool.release(job, keep=False)

    def _count(self, steps: int, running: int, tokens: int) -> None:
        pool = self._pool
        denied = steps * (pool.usable - pool.used) if pool.refused else 0
        self._tally.steps(steps, running, tokens, denied)

    def _show(self, tokens: int, running: int, step: int, start: int) -> None:
        clock, pool = self._clock, self._pool
        waiting = self._line.waiting(start)
        self._tally.row(StepRow(step, clock.now, running, waiting, tokens, pool.used, 0))


def _end(job: Job) -> int:
    return job.end
