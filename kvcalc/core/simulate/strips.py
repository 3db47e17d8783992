"""What a request holds in each group, block by block: taken, named, freed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import lcm

from kvcalc.core.simulate.blocks import Block, Queue, Run
from kvcalc.core.simulate.job import CHUNKED, STATE, WINDOW, GroupSpec, Job, Settings
from kvcalc.core.units import cdiv


class Strip:
    """A request's blocks in one group: the first `gone` are freed, `length` counts them too."""

    __slots__ = ("gone", "length", "named")

    def __init__(self, gone: int = 0, length: int = 0) -> None:
        self.gone = gone
        self.length = length
        #: Blocks with content that others share, by place.
        self.named: dict[int, Block] = {}


class Holding:
    """What a request holds in all groups."""

    __slots__ = ("before", "late", "plain", "strips", "youngest")

    def __init__(self, strips: list[Strip]) -> None:
        self.strips = strips
        #: By group, the blocks without a name that its window left last, in one step.
        #: Either one, or a run and its first place.
        self.youngest: list[Block | tuple[Run, int] | None] = [None] * len(strips)
        #: Stored tokens before its last step.
        self.before = 0
        #: Blocks of the prompt get their names only while it decodes: hits end at longer steps.
        self.late = False
        #: It decodes, and its windows free blocks at a steady beat that nobody else can hit.
        self.plain = False


class Groups:
    """The groups' rules, and where their freed blocks go.

    Args:
        groups: In the engine's order.
        settings: Caching, and what windows may hold in flight.
        queue: Free blocks; without caching only their number counts.
    """

    def __init__(self, groups: Sequence[GroupSpec], settings: Settings, queue: Queue) -> None:
        self.specs = tuple(groups)
        self.caches = settings.enable_prefix_caching
        self.lag = settings.async_scheduling
        self.queue = queue
        #: Hits end at multiples of this, so only up to there blocks are named.
        self.step = lcm(*(g.block_size for g in groups if g.kind != STATE))
        self.even = all(g.block_size == self.step for g in groups if g.kind != STATE)
        self.caps = [cap_of(g, settings) for g in groups]

    def grow(self, job: Job, tokens: int) -> int:
        """Lengthen a job's strips for `tokens` stored tokens in all; the blocks that takes."""
        taken = 0
        for spec, strip in zip(self.specs, job.memory.strips, strict=True):
            blocks = 1 if spec.kind == STATE else cdiv(tokens, spec.block_size)
            if blocks > strip.length:
                taken += blocks - strip.length
                strip.length = blocks
        return taken

    def more(self, job: Job, tokens: int) -> int:
        """The blocks that `grow` would take."""
        return sum(
            max((1 if spec.kind == STATE else cdiv(tokens, spec.block_size)) - strip.length, 0)
            for spec, strip in zip(self.specs, job.memory.strips, strict=True)
        )

    def enter(self, job: Job, before: int, after: int) -> None:
        """Blocks that others may share, and that are full now, can be hit."""
        late = False
        for group, (spec, strip) in enumerate(zip(self.specs, job.memory.strips, strict=True)):
            names = job.keys[group] if self.caches else ()
            if not names:
                continue
            first, full = (n // self.step * self.step // spec.block_size for n in (before, after))
            late |= full < len(names)
            for place in range(max(first, strip.gone), min(full, len(names))):
                if place not in strip.named and self._kept(spec, place):
                    strip.named[place] = self.queue.register(name_of(job, group, place))
        job.memory.late = late

    def _kept(self, spec: GroupSpec, place: int) -> bool:
        """Whether a full block can ever be part of a hit; only the tails of longer steps can."""
        if spec.kind != WINDOW or spec.block_size == self.step:
            return True
        blocks = self.step // spec.block_size
        tail = cdiv(spec.span - 1, spec.block_size)
        return place % blocks >= blocks - tail

    def trim(self, job: Job, computed: int, settled: int) -> int:
        """Free what `settled` of `computed` tokens have moved out of sight; the blocks that gives.

        Of the request's own blocks only those that go last, in one step, can matter again: a
        request that is preempted loses its last, partial block, so its window then begins up to a
        block earlier. If that block is taken, which stands first, those behind it may still end a
        shorter hit. All before stand in the queue before them, so they do not outlive them.
        """
        given = 0
        for group, (spec, strip) in enumerate(zip(self.specs, job.memory.strips, strict=True)):
            gone = min(spec.skipped(settled) // spec.block_size, strip.length)
            if gone > strip.gone:
                given += self._slide(job, group, gone, computed)
                strip.gone = gone
        return given

    def _slide(self, job: Job, group: int, gone: int, computed: int) -> int:
        spec, strip = self.specs[group], job.memory.strips[group]
        first = strip.gone
        if not self.caches:
            return self.free(job, group, (first, gone), computed, own=False)
        if not self.even or (spec.kind == CHUNKED and spec.span % spec.block_size):
            return self.free(job, group, (first, gone), computed, own=True)
        # All are full, as every later token is beyond them; those with a name come first.
        bare: int = first
        if strip.named:
            bare += sum(1 for place in range(first, gone) if place in strip.named)
        youngest = job.memory.youngest
        youngest[group] = None
        if gone - bare == 1:
            youngest[group] = self.queue.lay()
        elif gone > bare:
            youngest[group] = (self.queue.stow(gone - bare), bare)
        return gone - bare + self.free(job, group, (first, bare), computed, own=False)

    def free(
        self, job: Job, group: int, places: tuple[int, int], computed: int, *, own: bool
    ) -> int:
        """Free a group's blocks, last to first; the blocks that gives.

        `own`: the job may look for its own ones again.
        """
        spec, strip, queue = self.specs[group], job.memory.strips[group], self.queue
        first, end = places
        if not self.caches or spec.kind == STATE:
            queue.fresh += end - first
            return end - first
        full = computed // self.step * self.step // spec.block_size
        if not strip.named and not own and self.even:
            partial = end - max(min(full, end), first)
            queue.fresh += partial
            if end - first > partial:
                queue.store(end - first - partial)
            return end - first
        given = 0
        for place in range(end - 1, first - 1, -1):
            block = strip.named.pop(place, None)
            if block is not None:
                given += queue.drop(block)
                continue
            given += 1
            if place >= full or not self._kept(spec, place):
                queue.fresh += 1
            elif own:
                queue.shelve(name_of(job, group, place))
            else:
                queue.store(1)
        return given

    def remember(self, job: Job) -> None:
        """A preempted job may find the blocks again that its windows have just left."""
        memory = job.memory
        for group, (strip, young) in enumerate(zip(memory.strips, memory.youngest, strict=True)):
            if isinstance(young, Block):
                self.queue.name(young, name_of(job, group, strip.gone - 1))
            elif young is not None:
                run, first = young
                names = [name_of(job, group, first + i) for i in range(run.count)]
                self.queue.spell(run, names)

    def next_change(self, job: Job, computed: int) -> int:
        """Stored tokens, `computed` or more, at which a block goes, or gets its name, or it calms.

        A window calms when it is full: from then on it frees a block every B tokens.
        """
        ahead = []
        for spec, strip in zip(self.specs, job.memory.strips, strict=True):
            if spec.kind == WINDOW:
                full = spec.span + self.lag
                goes = (strip.gone + 1) * spec.block_size + spec.span - 1 + self.lag
                ahead.append(full if computed < full < goes else goes)
            elif spec.kind == CHUNKED:
                chunks = cdiv((strip.gone + 1) * spec.block_size, spec.span)
                ahead.append(chunks * spec.span + self.lag)
        if job.memory.late:
            ahead.append(computed // self.step * self.step + self.step - 1)
        return max(min(ahead), computed) if ahead else -1

    def calm(self, job: Job, computed: int) -> bool:
        """Whether all its windows are full and trimmed, and hold nothing with a name."""
        if job.memory.late or (self.caches and not self.even):
            return False
        for spec, strip in zip(self.specs, job.memory.strips, strict=True):
            if spec.kind == CHUNKED:
                return False
            if spec.kind != WINDOW:
                continue
            settled = computed - self.lag
            if strip.named or settled < spec.span:
                return False
            if strip.gone != spec.skipped(settled) // spec.block_size:
                return False
        return True


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


def least(blocks: int, cap: int | None) -> int:
    """Blocks, at most the cap."""
    return blocks if cap is None else min(blocks, cap)


def name_of(job: Job, group: int, place: int) -> Hashable:
    """The content of a block in a group; beyond what others share it is the request's own."""
    names = job.keys[group]
    return (group, names[place]) if place < len(names) else (group, job.number, place)
