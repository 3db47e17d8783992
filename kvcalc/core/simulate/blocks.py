"""Blocks with content to share, and the queue from which vLLM takes free ones.

vLLM 0.33 frees a request's blocks last to first. A block without a hash goes to the queue's front
and is taken next; one with a hash goes to the tail, so that the front of those is the least
recently used. Blocks without a hash are all alike: a number stands for them. So do blocks with a
hash that no other request can ask for, in runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


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
        #: The run in whose place in the queue it waits, if not in its own, and where in it.
        self.home: Run | None = None
        self.place = 0
        self.twins: list[Block] | None = None


class Run:
    """Consecutive full blocks that only their own requests could hit; the last goes first."""

    __slots__ = ("blocks", "count", "top")

    def __init__(self, count: int) -> None:
        #: Those that wait.
        self.count = count
        #: Those from here on have been taken; of those before, hits may have left holes.
        self.top = count
        #: Those that have got a name, by place; None is a hole.
        self.blocks: dict[int, Block | None] = {}


class Queue:
    """Free blocks: `fresh` without content in front, then blocks and runs, oldest first."""

    __slots__ = ("_order", "_table", "fresh", "idle")

    def __init__(self, fresh: int) -> None:
        self.fresh = fresh
        #: Free blocks with content.
        self.idle = 0
        self._order: OrderedDict[Block | Run, None] = OrderedDict()
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

    def spell(self, run: Run, place: int, name: Hashable) -> None:
        """A block of a run can be hit from now on, if it is still there."""
        if place < run.top:
            block = Block(name)
            block.refs, block.home, block.place = 0, run, place
            run.blocks[place] = block
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
                    del self._order[home]
            self.idle -= 1
        block.refs += 1

    def drop(self, block: Block) -> bool:
        """A request frees this block; True if it was the last one."""
        block.refs -= 1
        if block.refs:
            return False
        self._order[block] = None
        self.idle += 1
        return True

    def stow(self, count: int) -> Run:
        """`count` full blocks to the tail, where their requests may find them again."""
        run = Run(count)
        self._order[run] = None
        self.idle += count
        return run

    def store(self, count: int) -> None:
        """`count` full blocks to the tail that nobody can hit."""
        self.idle += count
        last = next(reversed(self._order), None)
        if isinstance(last, _Nobodys):
            last.count += count
        else:
            self._order[_Nobodys(count)] = None

    def shelve(self, name: Hashable) -> None:
        """A full block of nobody else to the tail, where its request may find it again."""
        block = self.register(name)
        block.refs = 0
        self._order[block] = None
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
        order = self._order
        while count:
            first = next(iter(order))
            if isinstance(first, Block):
                del order[first]
                self._forget(first)
                count -= 1
                continue
            taken = min(first.count, count)
            if first.blocks:
                self._pick(first, taken)
            else:
                first.top -= taken
                first.count -= taken
            count -= taken
            if not first.count:
                del order[first]

    def _pick(self, run: Run, count: int) -> None:
        """The last blocks of a run some of which have names."""
        while count:
            run.top -= 1
            block = run.blocks.pop(run.top, _NAMELESS)
            if block is None:
                continue
            if block is not _NAMELESS:
                self._forget(block)
            run.count -= 1
            count -= 1

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


_NAMELESS = Block("")


class _Nobodys(Run):
    """Full blocks that no request can ever hit; neighbours in the queue are one."""

    __slots__ = ()
