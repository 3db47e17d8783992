"""The words of all wordings, each once: what the scanner looks for in the raw bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvcalc.logs.wording import Family


class Anchor(NamedTuple):
    """Words that stand in every line of some wordings, and what finding them means."""

    word: bytes
    families: frozenset[int]
    #: Kinds of first lines that hold the word, and the pattern that such a line has.
    opens: tuple[tuple[str, str], ...]
    keeps: str
    figure: bool
    #: Looked for even where a server has long been running.
    late: bool


def anchors_of(families: Sequence[Family]) -> list[Anchor]:
    """Every word once, with what its wordings do."""
    made: dict[bytes, Anchor] = {}
    for number, family in enumerate(families):
        for w in family.wordings:
            word = w.anchor.encode()
            old = made.get(word, Anchor(word, frozenset(), (), "", figure=False, late=False))
            made[word] = Anchor(
                word,
                old.families | {number},
                (*old.opens, *(((w.opens, w.pattern),) if w.opens else ())),
                old.keeps or w.keeps,
                old.figure or w.figure,
                old.late or w.late or bool(w.opens or w.keeps),
            )
    assert len(made) <= 256  # noqa: S101 - a position and an anchor share one number
    return list(made.values())


def found(data: bytes, anchors: Sequence[tuple[int, Anchor]]) -> list[int]:
    """Where anchors stand, at most once a line each, in order: position · 256 + anchor."""
    places = []
    for index, anchor in anchors:
        word, at = anchor.word, data.find(anchor.word)
        while at >= 0:
            places.append(at << 8 | index)
            end = data.find(b"\n", at)
            at = data.find(word, end) if end >= 0 else -1
    places.sort()
    return places


def found_last(data: bytes, anchors: Sequence[tuple[int, Anchor]], most: int) -> list[int]:
    """As `found`, but only the last `most` lines of each anchor."""
    places = []
    for index, anchor in anchors:
        word, end = anchor.word, len(data)
        for _ in range(most):
            at = data.rfind(word, 0, end)
            if at < 0:
                break
            places.append(at << 8 | index)
            end = data.rfind(b"\n", 0, at)
            if end < 0:
                break
    places.sort()
    return places


def broken(data: bytes, anchors: Sequence[Anchor]) -> Iterator[tuple[int, int]]:
    """(anchor, line end) wherever a line break cuts an anchor's words in two.

    A terminal that breaks a line in the middle of a word adds the break; at a blank it may take
    the blank's place.
    """
    ends, at = [], data.find(b"\n")
    while at >= 0:
        ends.append(at)
        at = data.find(b"\n", at + 1)
    for gap in (b"", b" "):
        flat = data.replace(b"\n", gap)
        places = [end - i * (1 - len(gap)) for i, end in enumerate(ends)]
        for index, anchor in enumerate(anchors):
            at = flat.find(anchor.word)
            while at >= 0:
                number = bisect_right(places, at)
                if number < len(places) and places[number] < at + len(anchor.word):
                    yield index, ends[number]
                at = flat.find(anchor.word, at + 1)
