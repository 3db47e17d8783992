"""Groups that stand side by side and see equally far: what holds for one holds for all of them.

Gemma 3 27B has one full group and six of the same window; a request's blocks are counted for two
kinds, not for seven groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import lcm

from kvcalc.core.simulate.job import CHUNKED, STATE, WINDOW, GroupSpec, Settings
from kvcalc.core.units import cdiv


class Kind:
    """Neighbouring groups alike.

    Attributes:
        number: Its place among the kinds.
        spec: Of each of them.
        groups: Their places in the engine's order, one after the other.
        count: How many they are.
        step: Hits end at multiples of this, the least that all groups' block sizes divide.
        cap: The most blocks of a request in one group, where it frees some on the way.
        blocks: Blocks in a step, and `kept`, the last ones of them, those that can be part of a
            hit: as many as the window of the token after the step reaches.
    """

    __slots__ = ("blocks", "cap", "count", "groups", "kept", "number", "size", "spec", "step")

    def __init__(
        self, number: int, groups: Sequence[tuple[int, GroupSpec]], step: int, settings: Settings
    ) -> None:
        spec = groups[0][1]
        self.number, self.spec = number, spec
        self.groups, self.count = tuple(i for i, _ in groups), len(groups)
        #: A state is one block, however many tokens there are.
        self.size = 1 << 62 if spec.kind == STATE else spec.block_size
        self.step = step
        self.cap = cap_of(spec, settings)
        self.blocks = self.kept = max(step // spec.block_size, 1)
        if spec.kind == WINDOW and self.blocks > 1:
            self.kept = min(self.blocks, cdiv(spec.span - 1, spec.block_size))

    def blocks_for(self, tokens: int) -> int:
        """Blocks of one group for `tokens` stored tokens."""
        return cdiv(tokens, self.size)

    def most_for(self, tokens: int) -> int:
        """The most blocks of one group on the way there."""
        blocks = cdiv(tokens, self.size)
        return blocks if self.cap is None or blocks < self.cap else self.cap

    def keeps(self, place: int) -> bool:
        """Whether a full block can ever be part of a hit."""
        return place % self.blocks >= self.blocks - self.kept

    def rank(self, place: int) -> int:
        """How many blocks before this one can be part of a hit.

        Of 4 blocks in a step the last 2 are kept: 0 1 [2 3] 4 5 [6 7]. Before 3 there is 1, before
        7 there are 3.
        """
        if self.kept == self.blocks:
            return place
        steps, rest = divmod(place, self.blocks)
        return steps * self.kept + max(0, rest - (self.blocks - self.kept))

    def place(self, rank: int) -> int:
        """The block before which so many can be part of a hit, and which itself can be."""
        steps, rest = divmod(rank, self.kept)
        return (steps + 1) * self.blocks - self.kept + rest

    def full(self, tokens: int) -> int:
        """Blocks that are full, and end at or before a multiple of the step."""
        return tokens // self.step * self.step // self.size

    @property
    def slides(self) -> bool:
        """Whether what leaves sight leaves from the front, whole blocks that nobody looks for.

        Not where a chunk ends within a block, or between the ends of hits.
        """
        if self.spec.kind != CHUNKED:
            return True
        return self.blocks == 1 and not self.spec.span % self.size


def kinds_of(groups: Sequence[GroupSpec], settings: Settings) -> tuple[Kind, ...]:
    """Groups by kind, in the engine's order."""
    step = lcm(*(g.block_size for g in groups if g.kind != STATE))
    same = groupby(enumerate(groups), key=lambda group: group[1])
    return tuple(Kind(n, list(each), step, settings) for n, (_, each) in enumerate(same))


def cap_of(spec: GroupSpec, settings: Settings) -> int | None:
    """The most blocks of a request in a group that frees some on the way, as vLLM counts them.

    Window: ceil(min(W − 1 + in flight, max_model_len) / B) + 1; chunked: ceil(min(C + in flight,
    max_model_len) / B).
    """
    if spec.kind not in {WINDOW, CHUNKED}:
        return None
    held = spec.span + settings.in_flight_tokens - (spec.kind == WINDOW)
    if settings.max_model_len is not None:
        held = min(held, settings.max_model_len)
    return cdiv(held, spec.block_size) + (spec.kind == WINDOW)
