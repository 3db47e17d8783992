"""Real blocks with real content in a real queue: the slow memory under the slow scheduler.

A block's content is the tuple of all tokens up to its end, the free queue a list. Rules: vLLM 0.33.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

from kvcalc.core.simulate.job import GroupSpec, Settings

Token = tuple[Any, ...]


@dataclass
class Physical:
    """One block of the pool."""

    number: int
    refs: int = 0
    content: tuple[int, tuple[Token, ...]] | None = None


#: A group's table of a request; None is a freed block, or one that was never needed.
Table = list[Physical | None]


class SlowPool:
    """Blocks, queue, cache; asked with the tokens of a request and its tables, group by group."""

    def __init__(self, groups: Sequence[GroupSpec], blocks: int, settings: Settings) -> None:
        self.groups, self.settings = groups, settings
        self.all = [Physical(i) for i in range(1, blocks)]
        self.queue = list(self.all)
        #: Content in a group → its blocks, oldest first.
        self.table: dict[tuple[int, tuple[Token, ...]], list[Physical]] = {}
        self.align = lcm(*(g.block_size for g in groups))

    @property
    def used(self) -> int:
        """Blocks that are not in the queue."""
        return len(self.all) - len(self.queue)

    @property
    def content(self) -> int:
        """Free blocks with content."""
        return sum(block.content is not None for block in self.queue)

    def skipped(self, g: GroupSpec, computed: int) -> int:
        """Whole blocks in front that the next token does not see."""
        if g.kind == "window":
            return max(0, computed - (g.span - 1)) // g.block_size
        return (computed // g.span * g.span) // g.block_size if g.kind == "chunked" else 0

    def capped(self, blocks: int, g: GroupSpec) -> int:
        """What a request of so many blocks is counted with when it asks to enter."""
        if g.kind == "full":
            return blocks
        length = self.settings.max_model_len or 10**9
        flying = self.settings.max_num_batched_tokens * (1 + self.settings.async_scheduling)
        if g.kind == "window":
            kept = min(g.span - 1 + flying, length)
            return min(blocks, -(-kept // g.block_size) + 1)
        kept = min(g.span + flying, length)
        return min(blocks, -(-kept // g.block_size))

    def slide(self, tables: Sequence[Table], settled: int) -> None:
        """Free what is out of sight, last to first."""
        for g, table in zip(self.groups, tables, strict=True):
            gone = []
            for place in reversed(range(min(self.skipped(g, settled), len(table)))):
                block = table[place]
                if block is None:
                    break
                gone.append(block)
                table[place] = None
            self.free(gone)

    def lengthen(self, tables: Sequence[Table], tokens: int) -> bool:
        """New blocks for `tokens` in all, or nothing if they lack."""
        need = [
            max(0, -(-tokens // g.block_size) - len(table))
            for g, table in zip(self.groups, tables, strict=True)
        ]
        if sum(need) > len(self.queue):
            return False
        for table, n in zip(tables, need, strict=True):
            table += [self.pop() for _ in range(n)]
        return True

    def needed(self, hits: Sequence[Table], length: int, tokens: int, *, cap: bool) -> int:
        """Blocks to take for `tokens` of which `length` are hit; free hits count."""
        total = 0
        for g, hit in zip(self.groups, hits, strict=True):
            blocks = -(-tokens // g.block_size)
            blocks = self.capped(blocks, g) if cap else blocks
            skipped = self.skipped(g, length)
            total += max(0, blocks - max(skipped, len(hit)))
            total += sum(1 for b in hit[skipped:] if b is not None and b.refs == 0)
        return total

    def hold(self, hits: Sequence[Table], length: int) -> list[Table]:
        """The tables of a request that hits these blocks."""
        tables = []
        for g, hit in zip(self.groups, hits, strict=True):
            skipped = self.skipped(g, length)
            table: Table = [None] * skipped
            for block in hit[skipped:]:
                if block is not None:
                    if block.refs == 0:
                        self.queue.remove(block)
                    block.refs += 1
                table.append(block)
            tables.append(table)
        return tables

    def pop(self) -> Physical:
        """The first free block; its content is gone."""
        block = self.queue.pop(0)
        if block.content is not None:
            self.table[block.content].remove(block)
            if not self.table[block.content]:
                del self.table[block.content]
            block.content = None
        assert block.refs == 0
        block.refs = 1
        return block

    def free(self, blocks: Sequence[Physical]) -> None:
        """Without content to the front, with content to the tail, in this order."""
        plain: list[Physical] = []
        named: list[Physical] = []
        for block in blocks:
            block.refs -= 1
            if block.refs == 0:
                (plain if block.content is None else named).append(block)
        self.queue[:0] = plain
        self.queue += named

    def free_all(self, tables: Sequence[Table]) -> None:
        """All of a request, group by group."""
        for table in tables:
            self.free([b for b in reversed(table) if b is not None])

    def remember(self, known: Sequence[Token], tables: Sequence[Table], cached: list[int],
                 tokens: int) -> None:  # fmt: skip
        """Blocks that are full by now can be found by their content."""
        if not self.settings.enable_prefix_caching:
            return
        for i, (g, table) in enumerate(zip(self.groups, tables, strict=True)):
            full = tokens // self.align * self.align // g.block_size
            for place in range(cached[i], full):
                block = table[place]
                if block is not None and self._reachable(g, place):
                    block.content = (i, tuple(known[: (place + 1) * g.block_size]))
                    self.table.setdefault(block.content, []).append(block)
            cached[i] = max(cached[i], full)

    def _reachable(self, g: GroupSpec, place: int) -> bool:
        if g.kind != "window" or g.block_size == self.align:
            return True
        per_segment = self.align // g.block_size
        tail = -(-(g.span - 1) // g.block_size)
        return place % per_segment >= per_segment - tail

    def lookup(self, known: Sequence[Token]) -> tuple[int, list[Table]]:
        """Tokens cached in all groups, at most all but one, and the blocks."""
        if not self.settings.enable_prefix_caching:
            return 0, [[] for _ in self.groups]
        kinds = sorted(set(self.groups), key=self.groups.index)
        kinds.sort(key=lambda g: g.kind != "full")
        simple = len(kinds) == 1 or (len(kinds) == 2 and kinds[0].kind == "full")
        length = len(known) - 1
        found: dict[GroupSpec, list[int]] = {}
        while True:
            now = length
            for g in kinds:
                if g.kind == "full" and g in found:
                    now = min(now, len(found[g]) * g.block_size)
                    continue
                found[g] = self._find(known, g, now)
                now = len(found[g]) * g.block_size
            if now >= length:
                break
            length = now
            if simple:
                break
        hits: list[Table] = [
            [None if p < 0 else self._content(known, i, g, p)
             for p in found[g][: -(-length // g.block_size)]]
            for i, g in enumerate(self.groups)
        ]  # fmt: skip
        return (length if any(hits) else 0), hits

    def _content(
        self, known: Sequence[Token], group: int, g: GroupSpec, place: int
    ) -> Physical | None:
        blocks = self.table.get((group, tuple(known[: (place + 1) * g.block_size])))
        return blocks[0] if blocks else None

    def _find(self, known: Sequence[Token], g: GroupSpec, most: int) -> list[int]:
        """Places of the hit, -1 where no block is needed."""
        ids = [i for i, other in enumerate(self.groups) if other == g]

        def there(place: int) -> bool:
            return all(self._content(known, i, g, place) is not None for i in ids)

        places = most // g.block_size
        if g.kind == "window":
            need = -(-(g.span - 1) // g.block_size)
            for end in range(places, 0, -1):
                if end * g.block_size % self.align:
                    continue
                start = max(end - need, 0)
                if all(there(p) for p in range(start, end)):
                    return [-1] * start + list(range(start, end))
            return []
        row = [-1] * (most // g.span * g.span // g.block_size if g.kind == "chunked" else 0)
        while len(row) < places and there(len(row)):
            row.append(len(row))
        while len(row) * g.block_size % self.align:
            row.pop()
        return row

    def check(self, held: Sequence[Table]) -> None:
        """Blocks are conserved: each is in the queue or held, by as many as it counts."""
        holders = Counter(b.number for table in held for b in table if b is not None)
        free = [block.number for block in self.queue]
        assert len(set(free)) == len(free)
        assert not set(free) & set(holders)
        assert len(free) + len(holders) == len(self.all)
        assert all(block.refs == holders.get(block.number, 0) for block in self.all)
        for table in held:
            own = [b.number for b in table if b is not None]
            assert len(set(own)) == len(own)
