"""Identities of a prompt's blocks: equal exactly where vLLM's chained hashes are equal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import count

from kvcalc.core.simulate.job import HashIds, Prefix, Segments

#: Prefixes whose identities are kept: agents send the same system prompt again and again.
_KEPT = 4096


class Keys:
    """Names blocks of `block_size` tokens so that equal names mean equal tokens up to their end.

    Only full blocks within the prefix have a name; a block with a token of its own has none, for
    nobody else can hold it.
    """

    def __init__(self, block_size: int) -> None:
        self._size = block_size
        self._next = count(1)
        #: (name of the tokens before, key, offset in its stream, tokens) → name.
        self._names: dict[tuple[int, str, int, int], int] = {}
        #: A prefix → the names of its first blocks, and the blocks that were asked for.
        self._prefixes: dict[Segments, tuple[list[Hashable], int]] = {}

    def of(self, prefix: Prefix, prompt: int) -> Sequence[Hashable]:
        """Names of the full blocks among the first `prompt` tokens."""
        if prefix is None:
            return ()
        if isinstance(prefix, HashIds):
            return self._of_ids(prefix, prompt)
        full = prompt // self._size
        names, asked = self._prefixes.get(prefix, ([], 0))
        if full > asked:  # a prefix may be endless: no more of it is named than prompts reach
            asked = max(full, 2 * asked)
            names = self._of_segments(prefix, asked)
            if len(self._prefixes) >= _KEPT:
                self._prefixes.clear()
            self._prefixes[prefix] = names, asked
        return names if full >= len(names) else names[:full]

    def _of_segments(self, prefix: Segments, most: int) -> list[Hashable]:
        """Names of the first `most` blocks.

        Each piece of a block is named after what is before it, its stream and its place there.
        [["G", 48]] and [["G", 96]] share three blocks of 16; [["S", 8], ["G", 8]] is a block of
        two pieces.
        """
        names: list[Hashable] = []
        parent, room = 0, self._size
        for key, tokens in prefix:
            offset = 0
            while offset < tokens:
                take = min(room, tokens - offset)
                parent = self._name(parent, key, offset, take)
                offset += take
                room -= take
                if not room:
                    # Not a plain number, which may be the id of a block in the trace.
                    names.append((parent,))
                    if len(names) == most:
                        return names
                    room = self._size
        return names

    def _name(self, parent: int, key: str, offset: int, tokens: int) -> int:
        piece = (parent, key, offset, tokens)
        name = self._names.get(piece)
        if name is None:
            name = self._names[piece] = next(self._next)
        return name

    def _of_ids(self, prefix: HashIds, prompt: int) -> Sequence[Hashable]:
        """A block ends in some block of the trace, whose id stands for all tokens up to there."""
        size, (ids, own) = self._size, prefix
        full = min(prompt, len(ids) * own) // size
        if size == own:
            return ids[:full]
        if size % own == 0:
            step = size // own
            return ids[step - 1 : full * step : step]
        names: list[Hashable] = []
        for end in range(size, full * size + 1, size):
            index, rest = divmod(end - 1, own)
            names.append((ids[index], rest))
        return names
