"""The longest cached prefix where layers see unequally far: vLLM's search, group by group.

A full group needs every block from the first on. A window group needs as many blocks in a row as
its window spans, wherever they end; those before are not looked at. A chunked group needs the
blocks of the last chunk. Groups must agree on one length: each may only shorten what the ones
before it found, until nothing changes. Source: vLLM 0.33, `v1/core/kv_cache_coordinator.py` and
`single_type_kv_cache_manager.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

from kvcalc.core.simulate.blocks import Block
from kvcalc.core.simulate.job import CHUNKED, FULL, STATE, WINDOW, GroupSpec
from kvcalc.core.units import cdiv

#: The block at a place of a group's table, if it is cached in all groups of its kind.
Find = Callable[[int], "Block | None"]
#: Blocks of one group from the front; None where none is needed.
Hit = list["Block | None"]


def longest(
    groups: Sequence[GroupSpec], find: Callable[[int, int], Block | None], most: int
) -> tuple[int, list[Hit]]:
    """Tokens cached, at most `most`, and the blocks of each group.

    Args:
        groups: In the engine's order.
        find: (group, place) to the oldest cached block of that content, or None.
        most: All known tokens but one, which must be computed.
    """
    kinds: dict[GroupSpec, list[int]] = {}
    for i, spec in enumerate(groups):
        if spec.kind != STATE:
            kinds.setdefault(spec, []).append(i)
    order = sorted(kinds, key=lambda spec: spec.kind != FULL)
    step = lcm(*(spec.block_size for spec in order))
    simple = len(order) == 1 or (len(order) == 2 and order[0].kind == FULL)
    found: dict[GroupSpec, tuple[int, list[Hit]]] = {}
    length = most
    while True:
        now = length
        for spec in order:
            if spec.kind == FULL and spec in found:
                # Full attention's hits only get shorter with their length.
                now = min(now, found[spec][0])
                continue
            found[spec] = _of_kind(spec, kinds[spec], find, now, step)
            now = found[spec][0]
        if now >= length:
            break
        length = now
        if simple:
            break
    hits: list[Hit] = [[] for _ in groups]
    for spec, (_, blocks) in found.items():
        for i, group in enumerate(kinds[spec]):
            hits[group] = blocks[i][: cdiv(length, spec.block_size)]
    return length if any(hits) else 0, hits


def _of_kind(
    spec: GroupSpec, ids: list[int], find: Callable[[int, int], Block | None], most: int, step: int
) -> tuple[int, list[Hit]]:
    def at(place: int) -> list[Block] | None:
        blocks = [find(group, place) for group in ids]
        return None if None in blocks else blocks  # type: ignore[return-value]

    search = {FULL: _full, WINDOW: _window, CHUNKED: _chunked}[spec.kind]
    rows = search(spec, at, most // spec.block_size, most, step)
    tokens = len(rows) * spec.block_size
    while tokens % step:
        rows.pop()
        tokens -= spec.block_size
    return tokens, [[None if row is None else row[i] for row in rows] for i in range(len(ids))]


_At = Callable[[int], "list[Block] | None"]
_Rows = list["list[Block] | None"]


def _full(spec: GroupSpec, at: _At, places: int, most: int, step: int) -> _Rows:  # noqa: ARG001
    rows: _Rows = []
    for place in range(places):
        row = at(place)
        if row is None:
            break
        rows.append(row)
    return rows


def _window(spec: GroupSpec, at: _At, places: int, most: int, step: int) -> _Rows:  # noqa: ARG001
    """From the right, until as many in a row are cached as the window of the next token spans."""
    needed = cdiv(spec.span - 1, spec.block_size)
    rows: _Rows = [None] * places
    in_row = 0
    for place in range(places - 1, -1, -1):
        row = at(place)
        if row is None:
            in_row = 0
            continue
        if not in_row and (place + 1) * spec.block_size % step:
            continue
        rows[place] = row
        in_row += 1
        if in_row >= needed:
            return rows[: place + in_row]
    # Too few in a row to fill a window, but they begin with the first token.
    return rows[:in_row]


def _chunked(spec: GroupSpec, at: _At, places: int, most: int, step: int) -> _Rows:  # noqa: ARG001
    """Whole chunks need nothing; in the last one blocks count from its start."""
    first = most // spec.span * spec.span // spec.block_size
    rows: _Rows = [None] * first
    for place in range(first, places):
        row = at(place)
        if row is None:
            break
        rows.append(row)
    return rows
