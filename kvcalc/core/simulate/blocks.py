"""Blocks with content to share, and the queue from which vLLM takes free ones.

vLLM 0.33 frees a request's blocks last to first. A block without a hash goes to the queue's front
and is taken next; one with a hash goes to the tail, so that the front of those is the least
recently used. Blocks without a hash are all alike: a number stands for them. So do blocks with a
hash that no other request can ask for, in rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from heapq import heappop, heappush


class Block:
    """A full block that may get hit.

    `refs` requests hold it; at 0 it waits in the queue, at −1 it has been taken from there. Blocks
    of one name exist several times where requests computed them independently; a hit takes the
    oldest, which is the one in the table, and `twins` are the others.
    """

    __slots__ = ("home", "name", "place", "refs", "twins")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.refs = 1
        #: The row in whose place in the queue it waits, if not in its own, and where in it.
        self.home: Row | None = None
        self.place = 0
        self.twins: list[Block] | None = None


class Run:
    """Full blocks of one request that only itself could hit, all of those that are left."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count


class Row:
    """Full blocks of any requests, one after the other, that nobody asks for yet.

    Places in it count from 0 on; the first goes first.
    """

    __slots__ = ("blocks", "count", "end", "first", "marks")

    def __init__(self) -> None:
        #: Those that wait, from `first` up to `end`; hits may have left holes.
        self.count = self.first = self.end = 0
        #: Those that have got a name, by place; None is a hole. Their places, the least first.
        self.blocks: dict[int, Block | None] = {}
        self.marks: list[int] = []


class Queue:
    """Free blocks: `fresh` without content in front, then those with content, oldest first."""

    __slots__ = ("_order", "_table", "_tail", "fresh", "idle")

    def __init__(self, fresh: int) -> None:
        self.fresh = fresh
        #: Free blocks with content.
        self.idle = 0
        self._order: OrderedDict[Block | Run | Row, None] = OrderedDict()
        #: The last of them, if it is a row.
        self._tail: Row | None = None
        self._table: dict[Hashable, Block] = {}

    def find(self, name: Hashable) -> Block | None:
        """The oldest block of this name, held or free."""
        return self._table.get(name)

    def register(self, name: Hashable) -> Block:
        """A held block has become full and can be hit from now on."""
        block = Block(name)
        self._enter(name, block)
        return block

    def _enter(self, name: Hashable, block: Block) -> None:
        first = self._table.setdefault(name, block)
        if first is not block:
            if first.twins is None:
                first.twins = []
            first.twins.append(block)

    def spell(self, row: Row, place: int, name: Hashable) -> None:
        """A block of a row can be hit from now on, if it is still there."""
        if place >= row.first:
            block = Block(name)
            block.refs, block.home, block.place = 0, row, place
            row.blocks[place] = block
            heappush(row.marks, place)
            self._enter(name, block)

    def hold(self, block: Block) -> None:
        """A request hits this block."""
        if not block.refs:
            home = block.home
            if home is None:
                del self._order[block]
            else:
                block.home = None
                home.blocks[block.place] = None
                home.count -= 1
                if not home.count:
                    self._remove(home)
            self.idle -= 1
        block.refs += 1

    def drop(self, block: Block) -> bool:
        """A request frees this block; True if it was the last one."""
        block.refs -= 1
        if block.refs:
            return False
        self._append(block)
        self.idle += 1
        return True

    def _append(self, block: Block | Run) -> None:
        self._order[block] = None
        self._tail = None

    def _remove(self, row: Row) -> None:
        del self._order[row]
        if row is self._tail:
            self._tail = None

    def stow(self, count: int) -> Run:
        """`count` full blocks to the tail, where their request may find all that are left."""
        run = Run(count)
        self._append(run)
        self.idle += count
        return run

    def lay(self, count: int) -> tuple[Row, int]:
        """`count` full blocks to the tail that may get names there; where they begin."""
        self.idle += count
        row = self._tail
        if row is None:
            row = self._tail = Row()
            self._order[row] = None
        place = row.end
        row.end += count
        row.count += count
        return row, place

    def shelve(self, name: Hashable) -> None:
        """A full block of nobody else to the tail, where its request may find it again."""
        block = self.register(name)
        block.refs = 0
        self._append(block)
        self.idle += 1

    def recall(self, run: Run) -> None:
        """A preempted request hits what is left of its own run."""
        if run.count:
            self.idle -= run.count
            run.count = 0
            del self._order[run]

    def take(self, count: int) -> None:
        """The first `count` free blocks; what they held is gone."""
        if count <= self.fresh:
            self.fresh -= count
            return
        count -= self.fresh
        self.fresh = 0
        self.idle -= count
        while count:
            first = next(iter(self._order))
            if isinstance(first, Row):
                count -= self._cut(first, count)
            elif isinstance(first, Run):
                taken = min(first.count, count)
                first.count -= taken
                count -= taken
                if not first.count:
                    del self._order[first]
            else:
                del self._order[first]
                self._forget(first)
                count -= 1

    def _cut(self, row: Row, most: int) -> int:
        """Take up to so many blocks of the first row; how many they were."""
        taken = min(row.count, most)
        left = taken
        while row.marks and row.marks[0] < row.first + left:
            place = heappop(row.marks)
            left -= place - row.first
            row.first = place + 1
            block = row.blocks.pop(place)
            if block is not None:
                self._forget(block)
                left -= 1
        row.first += left
        row.count -= taken
        if not row.count:
            self._remove(row)
        return taken

    def _forget(self, block: Block) -> None:
        block.refs = -1
        first = self._table[block.name]
        if first is not block:
            assert first.twins is not None  # noqa: S101 - a block that is not the first is a twin
            first.twins.remove(block)
        elif block.twins:
            heir = block.twins.pop(0)
            heir.twins = block.twins
            self._table[block.name] = heir
        else:
            del self._table[block.name]
