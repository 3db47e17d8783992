"""A buddy allocator over token slots, as systems that reserve memory in one piece use it.

The PagedAttention paper's Orca baselines allocate so (section 6.1): pieces are powers of two, split
and merged in halves. What a piece is larger than was asked for, and free pieces too small for the
next request, are external fragmentation.
"""

from __future__ import annotations


class Buddy:
    """Pieces of `size` slots in all; a size that is no power of two is several such."""

    def __init__(self, size: int) -> None:
        #: Free pieces by the exponent of their size: offsets, the last freed taken first.
        self._free: list[dict[int, None]] = [{} for _ in range(size.bit_length())]
        offset = 0
        for exponent in reversed(range(size.bit_length())):
            if size >> exponent & 1:
                self._free[exponent][offset] = None
                offset += 1 << exponent

    def take(self, slots: int) -> tuple[int, int] | None:
        """A piece of at least `slots`: (offset, exponent), or None."""
        wanted = max(slots - 1, 0).bit_length()
        for exponent in range(wanted, len(self._free)):
            if self._free[exponent]:
                offset, _ = self._free[exponent].popitem()
                for half in reversed(range(wanted, exponent)):
                    self._free[half][offset + (1 << half)] = None
                return offset, wanted
        return None

    def give(self, offset: int, exponent: int) -> None:
        """A piece comes back and joins its other half where that is free."""
        while exponent + 1 < len(self._free):
            other = offset ^ (1 << exponent)
            if other not in self._free[exponent]:
                break
            del self._free[exponent][other]
            offset = min(offset, other)
            exponent += 1
        self._free[exponent][offset] = None
