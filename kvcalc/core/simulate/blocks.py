"""Blocks with content to share, and the queue from which vLLM takes free ones.

vLLM 0.33 frees a request's blocks last to first. A block without a hash goes to the queue's front
and is taken next; one with a hash goes to the tail, so that the front of those is the least
recently used. Blocks without a hash are all alike: a number stands for them. So do blocks with a
hash that no other request can ask for, in runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence


class Block:
    """A full block that may get hit.

    `refs` requests hold it; at 0 it waits in the queue, at −1 it has been taken from there. Blocks
    of one name exist several times where requests computed them independently; a hit takes the
    oldest, which is the one in the table, and `twins` are the others. A name of None: nobody can
    ask for it yet.
    """

    __slots__ = ("home", "name", "refs", "twins")

    def __init__(self, name: Hashable | None) -> None:
        self.name = name
        self.refs = 1
        #: The run in whose place in the queue it waits, if not in its own.
        self.home: Run | None = None
        self.twins: list[Block] | None = None


class Run:
    """Consecutive full blocks of one request that only itself could hit; the last goes first."""

    __slots__ = ("blocks", "count")

    def __init__(self, count: int) -> None:
        self.count = count
        #: All of them, once they have names.
        self.blocks: list[Block] = []


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

    def lay(self) -> Block:
        """A full block to the tail that may get a name while it is there."""
        block = Block(None)
        block.refs = 0
        self._order[block] = None
        self.idle += 1
        return block

    def name(self, block: Block, name: Hashable) -> None:
        """A block that was laid can be hit from now on, if it is still there."""
        if not block.refs and block.name is None:
            block.name = name
            self._enter(name, block)

    def spell(self, run: Run, names: Sequence[Hashable]) -> None:
        """The blocks that are left of a run can be hit from now on, one by one."""
        for name in names:
            block = Block(name)
            block.refs, block.home = 0, run
            run.blocks.append(block)
            self._enter(name, block)

    def hold(self, block: Block) -> None:
        """A request hits this block."""
        if not block.refs:
            home = block.home
            if home is None:
                del self._order[block]
            else:
                block.home = None
                home.blocks.remove(block)
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
        """`count` full blocks to the tail, where their request may find them again."""
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
        self.name(self.lay(), name)

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
                first.refs = -1
                if first.name is not None:
                    self._forget(first)
                count -= 1
                continue
            taken = min(first.count, count)
            first.count -= taken
            for block in first.blocks[first.count :]:
                block.refs = -1
                self._forget(block)
            del first.blocks[first.count :]
            count -= taken
            if not first.count:
                del order[first]

    def _forget(self, block: Block) -> None:
        assert block.name is not None  # noqa: S101 - the caller looked; for the type checker
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


class _Nobodys(Run):
    """Full blocks that no request can ever hit; neighbours in the queue are one."""

    __slots__ = ()
