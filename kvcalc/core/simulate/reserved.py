"""Pools that reserve all of a request's memory when it starts: naive, pow2, exact.

naive gives everyone a slot of the maximum length, as a static cache does; pow2 rounds the output up
to a power of two, at most to that maximum; exact knows the length beforehand, as no engine does.
Both take pieces of a buddy allocator (the PagedAttention paper's Orca baselines: Max, Pow2,
Oracle). paged reserves whole blocks here, for schedulers that cannot take them on demand. Nobody is
preempted: what is reserved is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvcalc.core.simulate.buddy import Buddy
from kvcalc.core.simulate.counted import Counted
from kvcalc.core.simulate.job import GroupSpec, Job, Prefix, Settings
from kvcalc.core.units import cdiv, pad


class Reserved(Counted):
    """Memory by reservation. Inside it counts token slots; `used` and the sums are in blocks.

    Args:
        policy: "naive", "pow2", "exact" or "paged".
        blocks: As the engine counts them; the slots are those of all but the null block.
        block_size: Tokens of one.
        maximum: Tokens that a request may reach: the slot of naive.
        settings: Only whether a request enters is decided here, so few matter.
    """

    def __init__(
        self, policy: str, blocks: int, block_size: int, maximum: int | None, settings: Settings
    ) -> None:
        super().__init__([GroupSpec(block_size=block_size)], blocks, settings)
        self._policy, self._size = policy, block_size
        self._maximum = maximum or 0
        self.slots = self.usable * block_size
        self._buddy = Buddy(self.slots) if policy in {"pow2", "exact"} else None
        #: Slots taken from the pool, asked for, and needed at the requests' ends.
        self._taken = self._asked = self._final = 0
        self._taken_sum = self._asked_sum = self._final_sum = 0

    def reserve(self, prompt: int, output: int) -> int:
        """Slots that a request of these lengths asks for."""
        if self._policy == "naive":
            return self._maximum
        if self._policy == "pow2":
            return prompt + min(1 << (output - 1).bit_length(), self._maximum - prompt)
        used = prompt + output - 1
        return pad(used, self._size) if self._policy == "paged" else used

    def fits_alone(self, prompt: int, output: int) -> bool:
        """Whether an empty pool has room for such a request."""
        asked = self.reserve(prompt, output)
        if self._buddy is None:
            return asked <= self.slots
        return 1 << (asked - 1).bit_length() <= 1 << (self.slots.bit_length() - 1)

    def keys(self, prefix: Prefix, prompt: int) -> Sequence[Any]:  # noqa: ARG002
        """Nobody shares."""
        return ()

    def admit(self, job: Job, chunk: int, others: bool) -> bool:  # noqa: ARG002 - no watermark
        """A piece for the whole request, if there is one."""
        asked = self.reserve(job.prompt, job.output)
        if self._buddy is None:
            self.refused = self._taken + asked > self.slots
            if self.refused:
                return False
            taken = asked
        else:
            job.memory = self._buddy.take(asked)
            self.refused = job.memory is None
            if self.refused:
                return False
            taken = 1 << job.memory[1]
        self._taken += taken
        self._asked += asked
        self._final += job.prompt + job.output - 1
        self.used = cdiv(self._taken, self._size)
        self.allocated += cdiv(taken, self._size)
        job.held = taken
        job.computed = chunk
        self._stored += chunk
        return True

    def extend(self, job: Job, chunk: int) -> bool:
        """Its piece has room for more of the prompt."""
        job.computed += chunk
        self._stored += chunk
        return True

    def release(self, job: Job, *, keep: bool) -> None:  # noqa: ARG002 - nothing is kept here
        """The piece of a request that has ended."""
        self._taken -= job.held
        self._asked -= self.reserve(job.prompt, job.output)
        self._final -= job.prompt + job.output - 1
        self._stored -= job.computed
        if self._buddy is not None:
            self._buddy.give(*job.memory)
        self.used = cdiv(self._taken, self._size)

    def decode(self, job: Job, step: int) -> None:
        """The job computes one token a step from `step` on."""
        job.since = step
        self._running += 1

    def halt(self, job: Job, step: int) -> None:
        """The job, before `step`, computes no more."""
        job.settle(step)
        self._running -= 1

    def horizon(self, step: int, most: int) -> int:  # noqa: ARG002 - as `Counted`
        """No step lacks memory."""
        return most

    def enough(self, step: int) -> bool:  # noqa: ARG002 - as `Counted`
        """No step lacks memory."""
        return True

    def run(self, step: int, steps: int) -> None:  # noqa: ARG002 - as `Counted`
        """Decode steps in which nothing else happens."""
        tokens = steps * self._stored + self._running * (steps * (steps + 1) // 2)
        self._stored += steps * self._running
        self._sum(steps, tokens)

    def advance(self, step: int) -> None:  # noqa: ARG002 - as `Counted`
        """The decoding jobs' tokens of one step; `note` closes it."""
        self._stored += self._running

    def note(self) -> None:
        """The end of a step that `advance` began."""
        self._sum(1, self._stored)

    def _sum(self, steps: int, stored: int) -> None:
        self.used_sum += steps * self.used
        self.peak = max(self.peak, self.used)
        self._taken_sum += steps * self._taken
        self._asked_sum += steps * self._asked
        self._final_sum += steps * self._final
        self._stored_sum += stored

    def shares(self) -> tuple[float, float, float, float]:
        """Blocks' worth of tokens, future tokens, never used and lost to pieces, over steps."""
        return (
            self._stored_sum / self._size,
            (self._final_sum - self._stored_sum) / self._size,
            (self._asked_sum - self._final_sum) / self._size,
            (self._taken_sum - self._asked_sum) / self._size,
        )
