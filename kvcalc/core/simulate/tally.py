"""What a run adds up to: sums over steps, times of requests, rows of steps and of requests."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.core.simulate.job import Job


class StepRow(NamedTuple):
    """One step, after scheduling; `tick` is its end."""

    step: int
    tick: int
    running: int
    waiting: int
    scheduled_tokens: int
    used_blocks: int
    cached_blocks: int


class Seen(NamedTuple):
    """One step as an observer sees it: tokens by request, in the order of scheduling."""

    row: StepRow
    scheduled: dict[str | int, int]
    preempted: tuple[str | int, ...]


class JobRow(NamedTuple):
    """One finished request, in the trace's order. `hit_tokens` are those of its first admission."""

    number: int
    id: str | int
    first_token_step: int
    finish_step: int
    preemptions: int
    hit_tokens: int
    queue_ticks: int


class Tally:
    """Counts of one run.

    Args:
        rows: How many steps to keep as rows: None all, 0 none; otherwise every step is kept until
            twice as many are there, then every other one goes, and so on.
        jobs: Keep a row a request.
    """

    def __init__(self, rows: int | None = 0, *, jobs: bool = False) -> None:
        self.rejected = self.finished = self.preempted = self.preemptions = self.cut = 0
        self.scheduled_tokens = self.running_sum = self.peak_running = 0
        self.prompt_tokens = self.output_tokens = self.hit_tokens = 0
        #: Free blocks in steps in which the head of the line lacked blocks, summed.
        self.denied_sum = 0
        #: Ticks from arrival to the first computation, the first token and the last, by request;
        #: and from one token to the next, on average of each.
        self.queue, self.first, self.total, self.gaps = (array("d") for _ in range(4))
        self.rows: list[StepRow] = []
        self.jobs: list[JobRow] | None = [] if jobs else None
        self._limit = rows
        self._stride = 1
        #: The next step to keep; None if none is.
        self.due: int | None = None if rows == 0 else 0

    def admitted(self, job: Job, hits: int, tick: int) -> None:
        """A request computes for the first time."""
        job.hits = hits
        self.hit_tokens += hits
        self.prompt_tokens += job.prompt
        self.queue.append(tick - job.queued)
        if self.jobs is not None:
            job.start_tick = tick

    def done(self, job: Job, step: int, tick: int) -> None:
        """A request's last token came in `step`, which ends at `tick`."""
        self.finished += 1
        self.output_tokens += job.output
        self.first.append(job.first_tick - job.queued)
        self.total.append(tick - job.queued)
        if job.output > 1:
            self.gaps.append((tick - job.first_tick) / (job.output - 1))
        if job.preemptions:
            self.preempted += 1
            self.preemptions += job.preemptions
        if self.jobs is not None:
            self.jobs.append(JobRow(
                job.number, job.id, job.first_step, step, job.preemptions, job.hits,
                job.start_tick - job.queued,
            ))  # fmt: skip

    def steps(self, count: int, running: int, tokens: int, denied: int) -> None:
        """Steps alike: requests running, tokens scheduled in all, blocks denied in all."""
        self.running_sum += count * running
        self.scheduled_tokens += tokens
        self.denied_sum += denied
        self.peak_running = max(self.peak_running, running)

    def row(self, row: StepRow) -> None:
        """Keep a step that is due."""
        self.rows.append(row)
        limit = self._limit
        if limit is not None and len(self.rows) >= 2 * limit:
            del self.rows[1::2]
            self._stride *= 2
        self.due = row.step - row.step % self._stride + self._stride

    def series(self) -> Sequence[StepRow]:
        """The kept steps, evenly spread, at most as many as asked for; the last is always there."""
        limit = self._limit
        if limit is None or len(self.rows) <= limit:
            return self.rows
        if limit == 1:
            return self.rows[-1:]
        last = len(self.rows) - 1
        return [self.rows[round(i * last / (limit - 1))] for i in range(limit)]
