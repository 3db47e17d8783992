"""A pool whose blocks nobody shares: only their number matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import lcm
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
        #: By block size, when the blocks of all its groups begin.
        self.beats = [Beats(b, sizes.count(b)) for b in dict.fromkeys(sizes)]
        self.states = len(groups) - len(sizes)
        #: Blocks that the stored tokens fill or begin, as if none were shared or out of sight.
        self._held = self._held_sum = 0
        self._stored = self._stored_sum = 0
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
        whole = lcm(*(beats.size for beats in self.beats))
        filled = sum(beats.weight * whole // beats.size for beats in self.beats)
        return (self._held_sum * whole - self._stored_sum * filled) / whole

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
        blocks = self.states
        for beats in self.beats:
            blocks += beats.weight * cdiv(tokens, beats.size)
        return blocks

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
        self._held += need - self.states
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
        self._held += need
        job.computed = after
        self._stored += chunk
        return True

    def decode(self, job: Job, step: int) -> None:
        """The job computes one token a step from `step` on."""
        job.since = step
        job.seat = step - job.computed
        self._running += 1
        for beats in self.beats:
            beats.join(job.seat % beats.size)

    def halt(self, job: Job, step: int) -> None:
        """The job, before `step`, computes no more."""
        job.settle(step)
        self._running -= 1
        for beats in self.beats:
            beats.leave(job.seat % beats.size)

    def release(self, job: Job, *, keep: bool) -> None:  # noqa: ARG002 - nothing is kept here
        """All blocks of a job that computes no more."""
        blocks = self.blocks_for(job.computed)
        self.used -= blocks
        self._held -= blocks - self.states
        self._stored -= job.computed

    def horizon(self, step: int, most: int) -> int:
        """How many decode steps, up to `most`, surely find their blocks."""
        free = self.usable - self.used
        if len(self.beats) == 1:
            return self.beats[0].enough(step, most, free)
        if self._rounds(most) <= free or self._begun(step, most) <= free:
            return most
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self._begun(step, middle) <= free:
                low = middle
            else:
                high = middle - 1
        return low

    def _rounds(self, steps: int) -> int:
        """No more blocks than these begin in so many steps: each request's once a round."""
        return sum([(steps // beats.size + 1) * beats.running for beats in self.beats])

    def _begun(self, step: int, steps: int) -> int:
        """Blocks that the decoding jobs begin in some steps."""
        return sum([beats.begun(step, steps) for beats in self.beats])

    def _begins(self, step: int) -> int:
        """Those of one step."""
        blocks = 0
        for beats in self.beats:
            blocks += beats.at(step)
        return blocks

    def enough(self, step: int) -> bool:
        """Whether the decoding jobs' new blocks of one step are free."""
        return self._begins(step) <= self.usable - self.used

    def rest(self, job: Job) -> None:
        """The job gets no token in this step."""

    def run(self, step: int, steps: int) -> None:
        """Decode steps in which nothing else happens, within the horizon."""
        begun, area = self._fill(step, steps)
        self.used_sum += steps * self.used + area
        self._take(begun)
        self.peak = max(self.peak, self.used)

    def _fill(self, step: int, steps: int) -> tuple[int, int]:
        """Decode steps fill the jobs' blocks, and begin new ones: as `Beats.ramp`."""
        begun = area = 0
        for beats in self.beats:
            more, ramp = beats.ramp(step, steps)
            begun += more
            area += ramp
        self._held_sum += steps * self._held + area
        self._held += begun
        self._stored_sum += steps * self._stored + self._running * (steps * (steps + 1) // 2)
        self._stored += steps * self._running
        return begun, area

    def advance(self, step: int) -> None:
        """The decoding jobs' tokens of one step with enough blocks; `note` closes the step."""
        begun = self._begins(step)
        self._take(begun)
        self._held += begun
        self._stored += self._running

    def squeeze(self, step: int, jobs: Iterable[Job], preempt: Callable[[], Job]) -> None:
        """One step without enough blocks: in order of admission, the last one gives way.

        `preempt` takes the job admitted last out of the step, releases its blocks and returns it.
        """
        for job in jobs:
            if job.since < 0:
                continue
            computed = job.computed_at(step)
            need = self._next(computed)
            while need > self.usable - self.used:
                if preempt() is job:
                    return
            self._take(need)
            self._held += need
            self._stored += 1

    def _next(self, computed: int) -> int:
        """Blocks that one more token begins."""
        return sum(beats.weight for beats in self.beats if not computed % beats.size)

    def note(self) -> None:
        """The end of a step that `advance` or `squeeze` began, after all its allocations."""
        self.used_sum += self.used
        self._held_sum += self._held
        self._stored_sum += self._stored
        self.peak = max(self.peak, self.used)

    def _take(self, blocks: int) -> None:
        self.used += blocks
        self.allocated += blocks
