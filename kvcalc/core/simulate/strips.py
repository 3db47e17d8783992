"""What a request holds in each kind of groups, block by block: taken, named, freed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from kvcalc.core.simulate.blocks import Block, Queue, Row
from kvcalc.core.simulate.job import CHUNKED, STATE, WINDOW, GroupSpec, Job, Settings
from kvcalc.core.simulate.kinds import Kind, kinds_of
from kvcalc.core.units import cdiv


class Left(NamedTuple):
    """Blocks without a name that left sight in one step, as many in each of some groups.

    They stand in a row from `place` on, those of the first group first, in each the last one. In a
    group they are, by `Kind`, the `rank`th that can be part of a hit and those after it.
    """

    row: Row
    place: int
    blocks: int
    rank: int
    groups: Sequence[int]


class Strip:
    """A request's blocks in each group of a kind: as many as its tokens, less the first `gone`."""

    __slots__ = ("gone", "left", "named")

    def __init__(self) -> None:
        self.gone = 0
        #: Blocks with content that others share, one of each group, by place.
        self.named: dict[int, Sequence[Block]] = {}
        #: What left sight last and can matter again.
        self.left: tuple[Left, ...] = ()


class Holding:
    """What a request holds in all kinds."""

    __slots__ = ("before", "late", "plain", "strips")

    def __init__(self, strips: list[Strip]) -> None:
        self.strips = strips
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
        self.kinds = kinds_of(groups, settings)
        #: Of each group.
        self.kind_of = [kind for kind in self.kinds for _ in kind.groups]
        self.caches = settings.enable_prefix_caching
        self.lag = int(settings.async_scheduling)
        self.queue = queue
        self.step = max(kind.step for kind in self.kinds)
        #: Kinds whose blocks go while a request runs.
        self.moving = [kind for kind in self.kinds if kind.spec.kind in {WINDOW, CHUNKED}]

    def enter(self, job: Job, before: int, after: int) -> None:
        """Blocks that others may share, and that are full now, can be hit."""
        late = False
        register = self.queue.register
        for names, kind, strip in zip(job.keys, self.kinds, job.memory.strips, strict=True):
            if not names:
                continue
            first, full = kind.full(before), kind.full(after)
            late |= full < len(names)
            for place in range(max(first, strip.gone), min(full, len(names))):
                if place not in strip.named and kind.keeps(place):
                    strip.named[place] = [
                        register(name_of(job, kind, g, place)) for g in kind.groups
                    ]
        job.memory.late = late

    def trim(self, job: Job, computed: int, settled: int) -> int:
        """Free what `settled` of `computed` tokens have moved out of sight; the blocks that gives.

        A request that is preempted loses its last blocks, up to the end of the last step at which
        a hit may end, so its windows then begin up to a step earlier: what left last is remembered
        as far back. Of what left at once all of it: if the block that stands first is taken, those
        behind it may still end a shorter hit. All before stand in the queue before them, so they
        do not outlive them.
        """
        given = 0
        for kind in self.moving:
            strip = job.memory.strips[kind.number]
            gone = kind.spec.skipped(settled) // kind.size
            if gone > strip.gone:
                given += self._slide(job, kind, strip, gone, computed)
                strip.gone = gone
        return given

    def _slide(self, job: Job, kind: Kind, strip: Strip, gone: int, computed: int) -> int:
        if not self.caches or not kind.slides:
            return self.free(job, kind, strip, (strip.gone, gone), computed, own=True)
        full = kind.full(computed)
        named = [place for place in strip.named if place < gone] if strip.named else ()
        if not named:
            rank = kind.rank(strip.gone)
            kept = kind.rank(min(full, gone)) - rank
            return self._leave(kind, strip, gone - strip.gone, kept, rank, kind.groups)
        # Those with a name come first.
        bare, named = max(named) + 1, sorted(named, reverse=True)
        rank = kind.rank(bare)
        kept = kind.rank(min(gone, full)) - rank
        given = 0
        for i, group in enumerate(kind.groups):
            given += self._leave(kind, strip, gone - bare, kept, rank, (group,))
            self.queue.fresh += bare - strip.gone - len(named)
            given += bare - strip.gone - len(named)
            given += sum(self.queue.drop(strip.named[place][i]) for place in named)
        for place in named:
            del strip.named[place]
        return given

    def _leave(
        self, kind: Kind, strip: Strip, blocks: int, kept: int, rank: int, groups: Sequence[int]
    ) -> int:
        """Nameless blocks of some groups leave sight, and `kept` of them can be part of a hit."""
        count = len(groups)
        kept = max(kept, 0)
        if kept:
            left = Left(*self.queue.lay(count * kept), kept, rank, groups)
            # Hits end at steps, so what left before the last step's blocks matters no more.
            strip.left = (*strip.left[-kind.blocks :], left)
        self.queue.fresh += count * (blocks - kept)
        return count * blocks

    def free(
        self,
        job: Job,
        kind: Kind,
        strip: Strip,
        places: tuple[int, int],
        computed: int,
        *,
        own: bool,
    ) -> int:
        """Free the blocks of a kind, group by group, last to first; the blocks that gives.

        `own`: the job may look for its own ones again.
        """
        queue = self.queue
        first, end = places
        held = kind.count * (end - first)
        if not self.caches or kind.spec.kind == STATE:
            queue.fresh += held
            return held
        full = kind.full(computed)
        if not strip.named and not own:
            kept = kind.count * max(kind.rank(min(end, full)) - kind.rank(first), 0)
            queue.fresh += held - kept
            if kept:
                queue.lay(kept)
            return held
        given = 0
        for i, group in enumerate(kind.groups):
            for place in range(end - 1, first - 1, -1):
                row = strip.named.get(place)
                if row is not None:
                    given += queue.drop(row[i])
                    continue
                given += 1
                if place >= full or not kind.keeps(place):
                    queue.fresh += 1
                elif own:
                    queue.shelve(name_of(job, kind, group, place))
                else:
                    queue.lay(1)
        for place in [place for place in strip.named if first <= place < end]:
            del strip.named[place]
        return given

    def remember(self, job: Job, late: Iterable[tuple[int, Left]]) -> None:
        """A preempted job may find the blocks again that its windows have left last.

        `late`: by number of its kind, what left since the job is calm.
        """
        early = ((n, each) for n, strip in enumerate(job.memory.strips) for each in strip.left)
        for number, (row, place, blocks, rank, groups) in (*early, *late):
            kind = self.kinds[number]
            for i, group in enumerate(groups, 1):
                for j in range(blocks):
                    name = name_of(job, kind, group, kind.place(rank + j))
                    self.queue.spell(row, place + i * blocks - 1 - j, name)

    def next_change(self, job: Job, computed: int) -> int:
        """Stored tokens, `computed` or more, at which a block goes, or gets its name, or it calms.

        A window calms when it is full: from then on it frees a block every B tokens.
        """
        ahead = []
        for kind in self.moving:
            spec, gone = kind.spec, job.memory.strips[kind.number].gone
            if spec.kind == WINDOW:
                full = spec.span + self.lag
                goes = (gone + 1) * kind.size + full - 1
                ahead.append(full if computed < full < goes else goes)
            else:
                chunks = cdiv((gone + 1) * kind.size, spec.span)
                ahead.append(chunks * spec.span + self.lag)
        if job.memory.late:
            ahead.append(computed // self.step * self.step + self.step - 1)
        return max(min(ahead), computed) if ahead else -1

    def calm(self, job: Job, settled: int) -> bool:
        """Whether all its windows, just trimmed, are full and hold nothing with a name."""
        if job.memory.late:
            return False
        for kind in self.moving:
            spec = kind.spec
            if spec.kind == CHUNKED or settled < spec.span:
                return False
            if job.memory.strips[kind.number].named:
                return False
        return True


def name_of(job: Job, kind: Kind, group: int, place: int) -> Hashable:
    """The content of a block in a group; beyond what others share it is the request's own."""
    names = job.keys[kind.number]
    return (group, names[place]) if place < len(names) else (group, job.number, place)
