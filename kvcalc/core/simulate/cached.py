"""A pool with prefix caching for one full-attention group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvcalc.core.simulate.blocks import Block, Queue
from kvcalc.core.simulate.counted import Counted
from kvcalc.core.simulate.job import GroupSpec, Job, Prefix, Settings
from kvcalc.core.simulate.keys import Keys
from kvcalc.core.units import cdiv


class Cached(Counted):
    """Full blocks stay findable by their content until their place is needed.

    Blocks that decoding fills get their names only when they are freed: nobody but the request
    itself could hit them, and they are not in the queue before.
    """

    def __init__(self, groups: Sequence[GroupSpec], blocks: int, settings: Settings) -> None:
        super().__init__(groups, blocks, settings)
        self._size = groups[0].block_size
        self._keys = Keys(self._size)
        self._queue = Queue(self.usable)
        #: What the last lookup found: named blocks, those of them that are free, all blocks.
        self._found: list[Block] = []
        self._free_hits = 0
        self._hits = 0

    @property
    def cached(self) -> int:
        """Free blocks with reusable content."""
        return self._queue.idle

    def keys(self, prefix: Prefix, prompt: int) -> Sequence[Any]:
        """Names of the blocks of a prompt that others may share."""
        return self._keys.of(prefix, prompt)

    def lookup(self, job: Job) -> int:
        """Tokens of the job that are cached: whole blocks, and one token is always computed."""
        most = (job.tokens - 1) // self._size
        keys = job.keys
        self._found = found = []
        free = 0
        find = self._queue.find
        for name in keys if len(keys) <= most else keys[:most]:
            block = find(name)
            if block is None:
                break
            found.append(block)
            if not block.refs:
                free += 1
        hits = len(found)
        if job.run is not None and hits == len(keys):
            # A preempted request computed at most `tokens - 1`, so its run is within `most`.
            free += job.run.count
            hits += job.run.count
        self._free_hits, self._hits = free, hits
        return hits * self._size

    def admit(self, job: Job, chunk: int, others: bool) -> bool:
        """As `Counted.admit`, after `lookup`: `chunk` tokens beyond the cached ones.

        Cached blocks that are free count as needed: they leave the queue.
        """
        size, hits = self._size, self._hits
        computed = hits * size + chunk
        need = cdiv(computed, size) - hits
        whole = cdiv(job.tokens, size) - hits if self._whole else need
        if not self._fits(max(need, whole) + self._free_hits, others):
            return False
        for block in self._found:
            self._queue.hold(block)
        job.shared = self._found
        if job.run is not None:
            if hits > len(job.shared):
                self._queue.recall(job.run)
            job.run = None
        self.used += self._free_hits
        self._take(need)
        self._held += hits + need
        job.computed = computed
        self._stored += computed
        self._name(job)
        return True

    def horizon(self, step: int, most: int) -> int:
        """As `Counted.horizon`; none where free hits of a refused job may go: it then needs less.

        With `scheduler_reserve_full_isl` it needs the same: what is not hit must be taken.
        """
        if self.refused and self._free_hits and not self._whole:
            return 0
        return super().horizon(step, most)

    def extend(self, job: Job, chunk: int) -> bool:
        """As `Counted.extend`; what becomes full can be hit at once."""
        if not super().extend(job, chunk):
            return False
        self._name(job)
        return True

    def release(self, job: Job, *, keep: bool) -> None:
        """All blocks of a job, last to first; `keep` its own ones findable, for it comes back."""
        size, queue = self._size, self._queue
        full, rest = divmod(job.computed, size)
        free = full - len(job.shared)
        if rest:
            queue.fresh += 1
        if free and keep:
            job.run = queue.stow(free)
        elif free:
            queue.lay(free)
        if rest:
            free += 1
        for block in reversed(job.shared):
            free += queue.drop(block)
        job.shared = []
        self.used -= free
        self._stored -= job.computed
        self._held -= full + (rest > 0)

    def _name(self, job: Job) -> None:
        """Blocks that computing has filled, and that others may share, can be hit from now on."""
        shared, keys = job.shared, job.keys
        full = min(job.computed // self._size, len(keys))
        if full > len(shared):
            register = self._queue.register
            shared.extend(register(name) for name in keys[len(shared) : full])

    def _take(self, blocks: int) -> None:
        self._queue.take(blocks)
        super()._take(blocks)
