"""When decoding requests begin new blocks, counted instead of visited.

A request with c stored tokens begins a block in the step in which c is a multiple of the block
size B, and again every B steps. So requests fall into B classes by the step, modulo B, and k steps
of any number of requests cost one look at the classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate


class Beats:
    """Decoding requests by the step, modulo B, in which they begin a block."""

    __slots__ = ("_moment", "counts", "running", "size", "weight")

    def __init__(self, size: int, weight: int = 1) -> None:
        self.size = size
        #: Blocks that a request begins at once, one in each group of this block size.
        self.weight = weight
        #: Blocks begun, by class of steps and in a round of all classes.
        self.counts = [0] * size
        self.running = 0
        #: Σ class · its blocks.
        self._moment = 0

    def seat(self, step: int, computed: int) -> int:
        """The class of a request with `computed` stored tokens when `step` begins."""
        return (step - computed) % self.size

    def join(self, seat: int) -> None:
        """One more request of this class."""
        self.counts[seat] += self.weight
        self.running += self.weight
        self._moment += seat * self.weight

    def leave(self, seat: int) -> None:
        """One fewer."""
        self.counts[seat] -= self.weight
        self.running -= self.weight
        self._moment -= seat * self.weight

    def add(self, blocks: Iterable[tuple[int, int]]) -> None:
        """Blocks more, or fewer, in the classes of some steps."""
        size, counts = self.size, self.counts
        for step, count in blocks:
            seat = step % size
            counts[seat] += count
            self.running += count
            self._moment += seat * count

    def at(self, step: int) -> int:
        """Blocks begun in `step`."""
        return self.counts[step % self.size]

    def begun(self, step: int, steps: int) -> int:
        """Blocks begun in `steps` steps from `step` on."""
        rounds, rest = divmod(steps, self.size)
        return rounds * self.running + sum(self._slice(step, rest))

    def ramp(self, step: int, steps: int) -> tuple[int, int]:
        """Blocks begun, and the sum over the steps of those begun up to and in each.

        Blocks of 16, one request that begins one in the first of 20 steps: 2 begun (steps 0 and
        16), and 16 · 1 + 4 · 2 = 24.
        """
        size, running = self.size, self.running
        rounds, rest = divmod(steps, size)
        begun = list(accumulate(self._slice(step, rest)))
        area = sum(begun)
        last = begun[-1] if begun else 0
        if not rounds:
            return last, area
        # Class j waits (j − step) mod B steps of the first round: all classes together so many.
        start = step % size
        waits = self._moment - start * running + size * sum(self.counts[:start])
        # Round r starts with r · running blocks begun; so does the rest after all rounds.
        area += rounds * (size * running - waits) + size * running * (rounds * (rounds - 1) // 2)
        return rounds * running + last, area + rest * rounds * running

    def each(self, step: int, steps: int) -> list[int]:
        """Blocks begun in each of `steps` steps."""
        rounds, rest = divmod(steps, self.size)
        each = self._slice(step, rest)
        return self._slice(step, self.size) * rounds + each if rounds else each

    def _slice(self, step: int, steps: int) -> list[int]:
        """Blocks begun in each of `steps` ≤ B steps."""
        start = step % self.size
        end = start + steps
        counts = self.counts
        if end <= self.size:
            return counts[start:end]
        return counts[start:] + counts[: end - self.size]

    def enough(self, step: int, most: int, free: int) -> int:
        """The most steps, up to `most`, that begin at most `free` blocks."""
        # In a round each request begins its blocks once.
        if (most // self.size + 1) * self.running <= free or self.begun(step, most) <= free:
            return most
        if not self.running:
            return most
        rounds = free // self.running
        left = free - rounds * self.running
        steps = rounds * self.size
        for begun in self._slice(step, self.size):
            left -= begun
            if left < 0:
                break
            steps += 1
        return min(steps, most)


def totals(beats: Sequence[Beats], step: int, steps: int) -> list[int]:
    """Blocks begun in each of `steps` steps, by requests of all block sizes."""
    rows = [each.each(step, steps) for each in beats]
    return [sum(row) for row in zip(*rows, strict=True)] if rows else [0] * steps
