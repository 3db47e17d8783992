"""vLLM's V1 scheduler: continuous batching with chunked prefill, and preemption by recompute.

A step gives running requests first, in order of admission, what is left of their prompt or one
token, out of a budget of `max_num_batched_tokens`; a decoding request that finds no block takes
those of the request admitted last. Then, if nobody was preempted, the head of the waiting line is
admitted while budget, seats and blocks allow. Source: vLLM 0.33, `v1/core/sched/scheduler.py`,
compared with runs of the real scheduler (tests/oracles).

The state jumps: as long as requests only decode and the head of the line cannot enter, steps are
taken together, up to the next end of a request, arrival, lack of blocks or bend of the clock. Since
an admission stops only when the budget is spent, at most one request is in the middle of its
prompt, and it is the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from operator import attrgetter

from kvcalc.core.simulate.clock import Clock
from kvcalc.core.simulate.counted import Counted
from kvcalc.core.simulate.job import Job, Settings
from kvcalc.core.simulate.line import Line
from kvcalc.core.simulate.tally import Seen, StepRow, Tally

_ticket = attrgetter("ticket")


class Scheduler:
    """One run; `run` does it.

    Args:
        line: Who waits and who comes.
        pool: The blocks.
        clock: Time and traffic.
        settings: vLLM's.
        tally: Where everything is counted.
        watch: Called after every step, idle ones too; then no steps are taken together.
    """

    def __init__(
        self,
        line: Line,
        pool: Counted,
        clock: Clock,
        settings: Settings,
        tally: Tally,
        watch: Callable[[Seen], None] | None = None,
    ) -> None:
        self._line, self._pool, self._clock = line, pool, clock
        self._settings, self._tally, self._watch = settings, tally, watch
        #: By ticket, so in order of admission.
        self._running: dict[int, Job] = {}
        self._decoding = 0
        self._partial: Job | None = None
        #: (last step, ticket) of decoding jobs; of preempted ones too, whose tickets are gone.
        self._ends: list[tuple[int, int]] = []
        #: The head of the line cannot enter before someone leaves.
        self._stuck = False
        self._tickets = 0
        #: Finished, but with asynchronous scheduling their blocks are free a step later.
        self._ghosts: list[Job] = []
        self._preempted: list[Job] = []
        self._given: dict[str | int, int] = {}

    def run(self) -> None:
        """From the first arrival to the last token."""
        line, clock = self._line, self._clock
        while True:
            if len(self._running) == len(self._ghosts) and line.head(clock.now) is None:
                self._bury(self._ghosts)
                self._ghosts = []
                at = line.next_at
                if at is None:
                    return
                self._idle(at)
            elif not self._decode_on():
                self._step()

    def _idle(self, tick: int) -> None:
        """Nothing to do until `tick`; where ticks are steps, the idle ones count."""
        clock, tally = self._clock, self._tally
        self._given, self._preempted = {}, []
        if clock.ticks_per_second is None:
            while (step := tally.due if self._watch is None else clock.step) is not None:
                if step >= tick:
                    break
                clock.idle(step + 1)
                self._show(0, step, step)
        clock.idle(tick)

    def _decode_on(self) -> bool:
        """Steps in which requests only decode, if this is one; False if it is not."""
        if self._partial is not None or self._ghosts or self._watch is not None:
            return False
        line, clock, pool, tally = self._line, self._clock, self._pool, self._tally
        waits = line.head(clock.now) is not None
        if waits and not self._stuck:
            return False
        step = clock.step
        most = clock.horizon(self._next_end() - step + 1)
        if tally.due is not None:
            most = min(most, tally.due - step + 1)
        if not waits and (at := line.next_at) is not None:
            most = clock.steps_until(at, most)
        most = pool.horizon(step, most)
        if not most:
            return False
        summed = pool.used_sum
        pool.run(step, most)
        last = step + most - 1
        if tally.due == last:
            clock.skip(most - 1)
            start = clock.now
            clock.skip(1)
            self._show(self._decoding, last, start)
        else:
            clock.skip(most)
        denied = most * pool.usable - (pool.used_sum - summed) if pool.refused else 0
        tally.steps(most, len(self._running), most * self._decoding, denied)
        if self._ends[0][0] <= last:
            self._finish(last, [])
        return True

    def _next_end(self) -> int:
        """The step in which the next decoding request ends."""
        ends, running = self._ends, self._running
        while ends[0][1] not in running:
            heappop(ends)
        return ends[0][0]

    def _step(self) -> None:
        """One step with everything that can happen in it."""
        clock, pool, tally = self._clock, self._pool, self._tally
        step, start = clock.step, clock.now
        late, self._ghosts = self._ghosts, []
        self._preempted = []
        self._given = {}
        self._stuck = pool.refused = False
        room = whole = self._decode(step)
        filled: list[Job] = []
        if self._partial is not None:
            if room:
                room -= self._extend(self._partial, room, filled)
            else:
                pool.rest(self._partial)
        if not self._preempted:
            room = self._admit(room, whole, filled)
        pool.note()
        tokens = self._settings.max_num_batched_tokens - room
        running = len(self._running)
        tally.steps(1, running, tokens, pool.usable - pool.used if pool.refused else 0)
        clock.close()
        if self._watch is not None or tally.due == step:
            self._show(tokens, step, start)
        self._bury(late)
        self._finish(step, filled)

    def _bury(self, ghosts: list[Job]) -> None:
        for job in ghosts:
            if self._running.pop(job.ticket, None) is not None:
                self._pool.release(job, keep=False)
                self._stuck = False

    def _decode(self, step: int) -> int:
        """The decoding requests' tokens; the budget that is left."""
        pool = self._pool
        if self._decoding:
            if pool.enough(step):
                pool.advance(step)
            else:
                pool.squeeze(step, list(self._running.values()), self._preempt_last)
            if self._watch is not None:
                self._given = {j.id: 1 for j in self._running.values() if j.since >= 0}
        return self._settings.max_num_batched_tokens - self._decoding

    def _extend(self, job: Job, room: int, filled: list[Job]) -> int:
        """The next chunk of the request in the middle of its prompt; the tokens it took."""
        computed = job.computed
        chunk = min(job.tokens - computed, room)
        if not self._pool.extend(job, chunk):
            self._preempt_last()
            return 0
        self._clock.prefill(computed, chunk)
        self._given[job.id] = chunk
        if job.computed == job.tokens:
            self._partial = None
            filled.append(job)
        return chunk

    def _admit(self, room: int, whole: int, filled: list[Job]) -> int:
        """The head of the line, again and again; the budget that is left of `room`.

        `whole` is what the decoding requests leave: if even that is too little the head is stuck.
        """
        line, pool, clock, running = self._line, self._pool, self._clock, self._running
        now = clock.now
        while room and (job := line.head(now)) is not None:
            if len(running) >= self._settings.max_num_seqs:
                self._stuck = True
                break
            hits = pool.lookup(job)
            chunk = job.tokens - hits
            if chunk > room:
                if not self._settings.enable_chunked_prefill:
                    self._stuck = room == whole
                    break
                chunk = room
            if not pool.admit(job, chunk, bool(running)):
                self._stuck = True
                break
            line.leave()
            if job.hits < 0:
                self._tally.admitted(job, hits, now)
            job.ticket = self._tickets
            self._tickets += 1
            running[job.ticket] = job
            clock.prefill(hits, chunk)
            self._given[job.id] = chunk
            room -= chunk
            if job.computed == job.tokens:
                filled.append(job)
            else:
                self._partial = job
        if not whole:
            self._stuck = True
        return room

    def _preempt_last(self) -> Job:
        """The request admitted last gives its blocks back and starts again, first in line."""
        job = self._running.popitem()[1]
        pool, clock = self._pool, self._clock
        if job.since >= 0:
            clock.leave(job.ticket, job.computed_at(clock.step))
            pool.halt(job, clock.step)
            self._decoding -= 1
        if job is self._partial:
            self._partial = None
        ended = job.generated >= job.output
        pool.release(job, keep=not ended)
        self._preempted.append(job)
        if not ended:
            job.preemptions += 1
            job.tokens = job.prompt + job.generated
            job.computed = 0
            self._line.put_back(job)
        return job

    def _finish(self, step: int, filled: list[Job]) -> None:
        """What the step's tokens bring about: first tokens, and requests that are complete."""
        clock = self._clock
        ended: list[Job] = []
        for job in filled:
            job.generated += 1
            if job.first_step < 0:
                job.first_step, job.first_tick = step, clock.now
            if job.generated == job.output:
                ended.append(job)
                continue
            self._pool.decode(job, step + 1)
            clock.join(job.ticket, job.computed)
            self._decoding += 1
            job.end = step + job.output - job.generated
            heappush(self._ends, (job.end, job.ticket))
        ends, running = self._ends, self._running
        while ends and ends[0][0] <= step:
            ending = running.get(heappop(ends)[1])
            if ending is not None:
                self._decoding -= 1
                clock.leave(ending.ticket, ending.computed_at(step + 1))
                self._pool.halt(ending, step + 1)
                ended.append(ending)
        if not ended:
            return
        ended.sort(key=_ticket)
        for job in ended:
            self._tally.done(job, step, clock.now)
            if self._settings.async_scheduling:
                self._ghosts.append(job)
            else:
                del running[job.ticket]
                self._pool.release(job, keep=False)
        self._stuck = False

    def _show(self, tokens: int, step: int, start: int) -> None:
        """A row of the step that has just ended; whoever came after its `start` waits not yet."""
        clock, pool, tally = self._clock, self._pool, self._tally
        waiting = self._line.waiting(start)
        row = StepRow(step, clock.now, len(self._running), waiting, tokens, pool.used, pool.cached)
        if tally.due == step:
            tally.row(row)
        if self._watch is not None:
            ids = tuple(job.id for job in self._preempted)
            self._watch(Seen(row, self._given, ids))
