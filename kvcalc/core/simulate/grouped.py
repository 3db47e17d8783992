"""Blocks of groups that see unequally far: who enters, what is cached, how prompts take blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvcalc.core.simulate.blocks import Block, Queue
from kvcalc.core.simulate.counted import Counted
from kvcalc.core.simulate.hits import longest
from kvcalc.core.simulate.job import CHUNKED, STATE, GroupSpec, Job, Prefix, Settings
from kvcalc.core.simulate.keys import Keys
from kvcalc.core.simulate.kinds import Kind
from kvcalc.core.simulate.strips import Groups, Holding, Strip, name_of

#: From the front, the blocks that a request hits in a kind's groups, one of each; None where it
#: needs none.
Rows = Sequence["Sequence[Block] | None"]


class Grouped(Counted):
    """What `Windowed` does while a request waits or prefills. A job's `keys` are names by kind."""

    def __init__(self, groups: Sequence[GroupSpec], blocks: int, settings: Settings) -> None:
        super().__init__(groups, blocks, settings)
        self._queue = Queue(self.usable)
        self._groups = Groups(groups, settings, self._queue)
        self._caches = settings.enable_prefix_caching
        self._lag = int(settings.async_scheduling)
        self._names = {g.block_size: Keys(g.block_size) for g in groups if g.kind != STATE}
        #: Whole chunks count as cached though nobody computed them: no later token sees them.
        self._unseen = all(g.kind in {CHUNKED, STATE} for g in groups)
        self._nothing: Sequence[Any] = ((),) * len(self._groups.kinds)
        #: Tokens that the last lookup found, and their blocks by kind.
        self._hit = 0
        self._hits: Sequence[Rows] = self._nothing
        #: Blocks that the refused job needs, and whether hits of it are free.
        self._lack = 0
        self._free_hits = False

    @property
    def cached(self) -> int:
        """Free blocks with reusable content."""
        return self._queue.idle

    def most_blocks(self, tokens: int) -> int:
        """The most blocks of a request on the way to `tokens` stored tokens."""
        blocks = 0
        for kind in self._groups.kinds:
            blocks += kind.count * kind.most_for(tokens)
        return blocks

    def keys(self, prefix: Prefix, prompt: int) -> Sequence[Any]:
        """Names by kind of the blocks of a prompt that others may share."""
        if not self._caches or prefix is None:
            return self._nothing
        by_size = {size: names.of(prefix, prompt) for size, names in self._names.items()}
        return [() if k.spec.kind == STATE else by_size[k.size] for k in self._groups.kinds]

    def lookup(self, job: Job) -> int:
        """Tokens of the job that are cached in all groups."""
        self._hit, self._hits = 0, self._nothing
        if self._caches and (job.preemptions or self._unseen or any(job.keys)):
            groups, find = self._groups, self._queue.find
            self._hit, hits = longest(
                groups.specs,
                lambda group, place: find(name_of(job, groups.kind_of[group], group, place)),
                job.tokens - 1,
            )
            self._hits = [
                [
                    None if None in row else row
                    for row in zip(*(hits[g] for g in k.groups), strict=True)
                ]
                for k in groups.kinds
            ]
        return self._hit

    def admit(self, job: Job, chunk: int, others: bool) -> bool:
        """As `Counted.admit`, after `lookup`; window groups are asked for their most at once."""
        if self._hit:
            need = self._lacking(self._hit + chunk, Kind.blocks_for)
            whole = self._lacking(job.tokens, Kind.most_for) if self._whole else need
        else:
            need = self.blocks_for(chunk)
            whole = self.most_blocks(job.tokens) if self._whole else need
        if not self._fits(max(need, whole), others):
            self._lack = max(need, whole) + (self._watermark if others else 0)
            self._free_hits = any(_idle(rows) for rows in self._hits)
            return False
        strips = [Strip() for _ in self._hits]
        job.memory = Holding(strips)
        if self._hit:
            for kind, rows, strip in zip(self._groups.kinds, self._hits, strips, strict=True):
                self._hold(kind, rows, strip)
            job.computed = self._hit
            self._stored += self._hit
            self._take(self.states)
            self._held += self.blocks_for(self._hit) - self.states
        self._grow(job, chunk)
        return True

    def _lacking(self, tokens: int, blocks_of: Callable[[Kind, int], int]) -> int:
        """Blocks to take for `tokens` beyond what is hit; hits that are free are taken too."""
        need = 0
        for kind, rows in zip(self._groups.kinds, self._hits, strict=True):
            skipped = kind.spec.skipped(self._hit) // kind.size
            need += kind.count * max(blocks_of(kind, tokens) - max(skipped, len(rows)), 0)
            need += _idle(rows[skipped:])
        return need

    def _hold(self, kind: Kind, rows: Rows, strip: Strip) -> None:
        """What is hit, and not out of sight already, is the job's too."""
        strip.gone = kind.spec.skipped(self._hit) // kind.size
        for place in range(strip.gone, len(rows)):
            row = rows[place]
            if row is None:
                strip.gone = place + 1
                continue
            for block in row:
                if not block.refs:
                    self.used += 1
                self._queue.hold(block)
            strip.named[place] = row

    def extend(self, job: Job, chunk: int) -> bool:
        """As `Counted.extend`; blocks that left the window are freed first, in any case."""
        settled = job.memory.before if self._lag else job.computed
        self.used -= self._groups.trim(job, job.computed, settled)
        need = self.blocks_for(job.computed + chunk) - self.blocks_for(job.computed)
        if need > self.usable - self.used:
            return False
        self._grow(job, chunk)
        return True

    def rest(self, job: Job) -> None:
        """The job gets no token in this step, so nothing of it is in flight in the next."""
        job.memory.before = job.computed

    def _grow(self, job: Job, chunk: int) -> None:
        """Take the blocks of `chunk` more tokens; what they fill can be hit at once."""
        before, after = job.computed, job.computed + chunk
        need = self.blocks_for(after) - (self.blocks_for(before) if before else 0)
        self._take(need)
        if job.keys is not self._nothing:
            self._groups.enter(job, before, after)
        job.memory.before = before
        job.computed = after
        self._stored += chunk
        self._held += need if before else need - self.states

    def _take(self, blocks: int) -> None:
        if self._caches:
            self._queue.take(blocks)
        super()._take(blocks)


def _idle(rows: Rows) -> int:
    """Blocks that nobody holds."""
    return sum(not block.refs for row in rows if row is not None for block in row)
