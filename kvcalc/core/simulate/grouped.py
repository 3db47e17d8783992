"""Blocks of groups that see unequally far: who enters, what is cached, how prompts take blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvcalc.core.simulate.blocks import Block, Queue
from kvcalc.core.simulate.counted import Counted
from kvcalc.core.simulate.hits import Hit, longest
from kvcalc.core.simulate.job import CHUNKED, STATE, GroupSpec, Job, Prefix, Settings
from kvcalc.core.simulate.keys import Keys
from kvcalc.core.simulate.strips import Groups, Holding, Strip, least, name_of
from kvcalc.core.units import cdiv


class Grouped(Counted):
    """What `Windowed` does while a request waits or prefills. A job's `keys` are names by group."""

    def __init__(self, groups: Sequence[GroupSpec], blocks: int, settings: Settings) -> None:
        super().__init__(groups, blocks, settings)
        self._queue = Queue(self.usable)
        self._groups = Groups(groups, settings, self._queue)
        self._caches = settings.enable_prefix_caching
        self._lag = int(settings.async_scheduling)
        self._names = {g.block_size: Keys(g.block_size) for g in groups if g.kind != STATE}
        #: Whole chunks count as cached though nobody computed them: no later token sees them.
        self._unseen = all(g.kind in {CHUNKED, STATE} for g in groups)
        self._hit = 0
        self._hits: list[Hit] = []
        #: Blocks that the refused job needs, and whether hits of it are free.
        self._lack = 0
        self._free_hits = False

    @property
    def cached(self) -> int:
        """Free blocks with reusable content."""
        return self._queue.idle

    def most_blocks(self, tokens: int) -> int:
        """The most blocks of a request on the way to `tokens` stored tokens."""
        return sum(
            least(1 if g.kind == STATE else cdiv(tokens, g.block_size), cap)
            for g, cap in zip(self._groups.specs, self._groups.caps, strict=True)
        )

    def keys(self, prefix: Prefix, prompt: int) -> Sequence[Any]:
        """Names by group of the blocks of a prompt that others may share."""
        if not self._caches or prefix is None:
            return [()] * len(self._groups.specs)
        by_size = {size: names.of(prefix, prompt) for size, names in self._names.items()}
        return [() if g.kind == STATE else by_size[g.block_size] for g in self._groups.specs]

    def lookup(self, job: Job) -> int:
        """Tokens of the job that are cached in all groups."""
        self._hit, self._hits = 0, [[] for _ in self._groups.specs]
        if self._caches and (job.preemptions or self._unseen or any(job.keys)):
            self._hit, self._hits = longest(
                self._groups.specs,
                lambda group, place: self._queue.find(name_of(job, group, place)),
                job.tokens - 1,
            )
        return self._hit

    def admit(self, job: Job, chunk: int, others: bool) -> bool:
        """As `Counted.admit`, after `lookup`; window groups are asked for their most at once."""
        need = self._needed(self._hit + chunk, None)
        whole = self._needed(job.tokens, self._groups.caps) if self._whole else need
        if not self._fits(max(need, whole), others):
            self._lack = max(need, whole) + (self._watermark if others else 0)
            self._free_hits = any(b is not None and not b.refs for hit in self._hits for b in hit)
            return False
        strips = []
        for spec, hit in zip(self._groups.specs, self._hits, strict=True):
            skipped = spec.skipped(self._hit) // spec.block_size
            strip = Strip(skipped, max(skipped, len(hit)))
            for place in range(skipped, len(hit)):
                self._hold(strip, place, hit[place])
            strips.append(strip)
        job.memory = Holding(strips)
        job.computed = self._hit
        self._stored += self._hit
        for i, (size, _, _) in enumerate(self.tables):
            self._held[i] += cdiv(self._hit, size)
        self._grow(job, chunk)
        return True

    def _needed(self, tokens: int, caps: Sequence[int | None] | None) -> int:
        """Blocks to take for `tokens`, cached ones that are free included."""
        if not self._hit:
            if caps is None:
                return self.blocks_for(tokens)
            return self.most_blocks(tokens)
        need = 0
        for i, (spec, hit) in enumerate(zip(self._groups.specs, self._hits, strict=True)):
            blocks = 1 if spec.kind == STATE else cdiv(tokens, spec.block_size)
            if caps is not None:
                blocks = least(blocks, caps[i])
            skipped = spec.skipped(self._hit) // spec.block_size
            free = sum(1 for block in hit[skipped:] if block is not None and not block.refs)
            need += max(blocks - max(skipped, len(hit)), 0) + free
        return need

    def _hold(self, strip: Strip, place: int, block: Block | None) -> None:
        if block is None:
            strip.gone = place + 1
            return
        if not block.refs:
            self.used += 1
        self._queue.hold(block)
        strip.named[place] = block

    def extend(self, job: Job, chunk: int) -> bool:
        """As `Counted.extend`; blocks that left the window are freed first, in any case."""
        settled = job.memory.before if self._lag else job.computed
        self.used -= self._groups.trim(job, job.computed, settled)
        if self._groups.more(job, job.computed + chunk) > self.usable - self.used:
            return False
        self._grow(job, chunk)
        return True

    def rest(self, job: Job) -> None:
        """The job gets no token in this step, so nothing of it is in flight in the next."""
        job.memory.before = job.computed

    def _grow(self, job: Job, chunk: int) -> None:
        """Take the blocks of `chunk` more tokens; what they fill can be hit at once."""
        before, after = job.computed, job.computed + chunk
        self._take(self._groups.grow(job, after))
        self._groups.enter(job, before, after)
        job.memory.before = before
        job.computed = after
        self._stored += chunk
        for i, (size, _, _) in enumerate(self.tables):
            self._held[i] += cdiv(after, size) - cdiv(before, size)

    def _take(self, blocks: int) -> None:
        if self._caches:
            self._queue.take(blocks)
        super()._take(blocks)
