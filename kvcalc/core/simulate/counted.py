"""A pool whose blocks nobody shares: only their number matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kvcalc.core.simulate.beats import Beats
from kvcalc.core.simulate.job import STATE, GroupSpec, Job, Prefix, Settings
from kvcalc.core.units import cdiv


class Counted:
    """Blocks of full-attention groups, and of states (one a request), without prefix caching.

    `blocks` is as the engine counts, the null block included. The sums at the end run over steps:
    of blocks in use, and of slots in them that hold no token.
    """

    def __init__(self, groups: Sequence[GroupSpec], blocks: int, settings: Settings) -> None:
        sizes = [g.block_size for g in groups if g.kind != STATE]
        self.usable = blocks - 1
        self.used = 0
        self.peak = 0
        self.allocated = 0
        self.used_sum = 0
        #: The head of the line was refused for lack of blocks, and nothing has changed since.
        self.refused = False
        #: (block size, groups of it, their beats)
        self.tables = [(b, sizes.count(b), Beats(b)) for b in dict.fromkeys(sizes)]
        self.states = len(groups) - len(sizes)
        self._held = [0] * len(self.tables)
        self._slack = [0] * len(self.tables)
        self._stored = 0
        self._running = 0
        self._whole = settings.scheduler_reserve_full_isl
        self._watermark = int(settings.watermark * blocks)

    @property
    def cached(self) -> int:
        """Free blocks with reusable content: none without prefix caching."""
        return 0

    @property
    def waste_sum(self) -> float:
        """Blocks' worth of slots without a token, summed over steps."""
        rows = zip(self._slack, self.tables, strict=True)
        return sum(slack * groups / size for slack, (size, groups, _) in rows)

    def shares(self) -> tuple[float, float, float, float]:
        """Blocks' worth, summed over steps: tokens, future tokens, never used, lost to pieces.

        Pages reserve nothing, and lose only what a request's last block lacks.
        """
        return self.used_sum - self.waste_sum, 0.0, self.waste_sum, 0.0

    def fits_alone(self, prompt: int, output: int) -> bool:
        """Whether an empty pool has room for such a request to its end."""
        return self.most_blocks(prompt + output - 1) <= self.usable

    def blocks_for(self, tokens: int) -> int:
        """Blocks of a request with `tokens` stored tokens."""
        return self.states + sum(m * cdiv(tokens, b) for b, m, _ in self.tables)

    def most_blocks(self, tokens: int) -> int:
        """The most blocks of a request on the way to `tokens` stored tokens."""
        return self.blocks_for(tokens)

    def keys(self, prefix: Prefix, prompt: int) -> Sequence[Any]:  # noqa: ARG002 - as below
        """Names of the blocks of a prompt that others may share."""
        return ()

    def lookup(self, job: Job) -> int:  # noqa: ARG002 - every pool is asked
        """Tokens of the job that are cached."""
        return 0

    def admit(self, job: Job, chunk: int, others: bool) -> bool:
        """Blocks for a waiting job's first `chunk` tokens; False, and nothing done, if they lack.

        With `scheduler_reserve_full_isl` all its known tokens must fit now; with `others` running
        the watermark must stay free.
        """
        need = self.blocks_for(chunk)
        whole = self.blocks_for(job.tokens) if self._whole else need
        if not self._fits(max(need, whole), others):
            return False
        self._take(need)
        for i, (size, _, _) in enumerate(self.tables):
            self._held[i] += cdiv(chunk, size)
        job.computed = chunk
        self._stored += chunk
        return True

    def _fits(self, need: int, others: bool) -> bool:
        kept = self._watermark if others else 0
        self.refused = need + kept > self.usable - self.used
        return not self.refused

    def extend(self, job: Job, chunk: int) -> bool:
        """Blocks for `chunk` more tokens of a prefilling job, if there are."""
        before, after = job.computed, job.computed + chunk
        need = self.blocks_for(after) - self.blocks_for(before)
        if need > self.usable - self.used:
            return False
        self._take(need)
        for i, (size, _, _) in enumerate(self.tables):
            self._held[i] += cdiv(after, size) - cdiv(before, size)
        job.computed = after
        self._stored += chunk
        return True

    def decode(self, job: Job, step: int) -> None:
        """The job computes one token a step from `step` on."""
        job.since = step
        job.seat = step - job.computed
        self._running += 1
        for size, _, beats in self.tables:
            beats.join(job.seat % size)

    def halt(self, job: Job, step: int) -> None:
        """The job, before `step`, computes no more."""
        job.settle(step)
        self._running -= 1
        for size, _, beats in self.tables:
            beats.leave(job.seat % size)

    def release(self, job: Job, *, keep: bool) -> None:  # noqa: ARG002 - nothing is kept here
        """All blocks of a job that computes no more."""
        self.used -= self.blocks_for(job.computed)
        self._stored -= job.computed
        for i, (size, _, _) in enumerate(self.tables):
            self._held[i] -= cdiv(job.computed, size)

    def horizon(self, step: int, most: int) -> int:
        """How many decode steps, up to `most`, surely find their blocks."""
        free = self.usable - self.used
        if len(self.tables) == 1:
            groups, beats = self.tables[0][1], self.tables[0][2]
            return beats.enough(step, most, free // groups)
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if sum(m * beats.begun(step, middle) for _, m, beats in self.tables) <= free:
                low = middle
            else:
                high = middle - 1
        return low

    def enough(self, step: int) -> bool:
        """Whether the decoding jobs' new blocks of one step are free."""
        need = sum(m * beats.at(step) for _, m, beats in self.tables)
        return need <= self.usable - self.used

    def rest(self, job: Job) -> None:
        """The job gets no token in this step."""

    def run(self, step: int, steps: int) -> None:
        """Decode steps in which nothing else happens, within the horizon."""
        self.used_sum += steps * self.used
        for (_, groups, _), (begun, area) in zip(self.tables, self._fill(step, steps), strict=True):
            self._take(groups * begun)
            self.used_sum += groups * area
        self.peak = max(self.peak, self.used)

    def _fill(self, step: int, steps: int) -> list[tuple[int, int]]:
        """The sum of empty slots over decode steps; by block size what `Beats.ramp` says."""
        ramps = []
        tokens = steps * self._stored + self._running * (steps * (steps + 1) // 2)
        for i, (size, _, beats) in enumerate(self.tables):
            begun, area = beats.ramp(step, steps)
            self._slack[i] += size * (steps * self._held[i] + area) - tokens
            self._held[i] += begun
            ramps.append((begun, area))
        self._stored += steps * self._running
        return ramps

    def advance(self, step: int) -> None:
        """The decoding jobs' tokens of one step with enough blocks; `note` closes the step."""
        for i, (_, groups, beats) in enumerate(self.tables):
            begun = beats.at(step)
            self._take(groups * begun)
            self._held[i] += begun
        self._stored += self._running

    def squeeze(self, step: int, jobs: Iterable[Job], preempt: Callable[[], Job]) -> None:
        """One step without enough blocks: in order of admission, the last one gives way.

        `preempt` takes the job admitted last out of the step, releases its blocks and returns it.
        """
        for job in jobs:
            if job.since < 0:
                continue
            computed = job.computed_at(step)
            begins = [not computed % size for size, _, _ in self.tables]
            need = sum(m for (_, m, _), new in zip(self.tables, begins, strict=True) if new)
            while need > self.usable - self.used:
                if preempt() is job:
                    return
            self._take(need)
            for i, new in enumerate(begins):
                self._held[i] += new
            self._stored += 1

    def note(self) -> None:
        """The end of a step that `advance` or `squeeze` began, after all its allocations."""
        self.used_sum += self.used
        for i, (size, _, _) in enumerate(self.tables):
            self._slack[i] += size * self._held[i] - self._stored
        self.peak = max(self.peak, self.used)

    def _take(self, blocks: int) -> None:
        self.used += blocks
        self.allocated += blocks
