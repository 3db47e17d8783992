"""Layer patterns: "10*(5*window + full) + 2*window" to the layers' names in order, and back.

pattern = item { "+" item }
item    = [count "*"] ( "(" pattern ")" | layer )
layer   = name { "&" name }        a layer holding several caches, or "none" for no cache
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: Names of the caches one layer holds.
LayerNames = tuple[str, ...]
NONE = "none"
MAX_LAYERS = 10_000
MAX_LENGTH, MAX_DEPTH = 20_000, 20
_TOKEN = re.compile(r"\s*(?:([0-9]{1,9})(?![0-9A-Za-z_.-])|([A-Za-z][A-Za-z0-9_.-]*)|([*+&()]))")
_BLANK = re.compile(r"\s*")


def parse_pattern(text: str) -> list[LayerNames]:
    """The names of each layer's caches, in order; () for a layer without a cache.

    Raises:
        KvcalcError: "invalid_preset" with the position of what is wrong (counted from 1).
    """
    if len(text) > MAX_LENGTH:
        raise KvcalcError(
            "invalid_preset",
            f"pattern: longer than {MAX_LENGTH:,} characters",
            "repeat groups: 10*(5*window + full)",
        )
    reader = _Reader(text)
    layers = reader.pattern(0)
    if reader.word:
        raise reader.wrong("a + between items" if reader.word != ")" else "no ) without its (")
    return layers


class _Reader:
    """Recursive descent over one pattern; `word` is the token at hand, "" at the end."""

    def __init__(self, text: str) -> None:
        self.text, self.position, self.start, self.word = text, 0, 0, ""
        self.advance()

    def advance(self) -> None:
        """Take the next token."""
        blank = _BLANK.match(self.text, self.position)
        self.start = blank.end() if blank else self.position
        if self.start == len(self.text):
            self.word = ""
            return
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.word = self.text[self.start]
            raise self.wrong("a name, a count, or one of * + & ( )")
        self.word, self.position = match[0].strip(), match.end()

    def wrong(self, expected: str) -> KvcalcError:
        """The error at the token at hand."""
        what = shown(f'"{self.word}"') if self.word else "its end"
        return KvcalcError(
            "invalid_preset",
            f"pattern: {what} at position {self.start + 1}",
            f"expected {expected}, as in 10*(5*window + full) + 2*window",
        )

    def pattern(self, depth: int) -> list[LayerNames]:
        """Items joined by +."""
        layers = self.item(depth)
        while self.word == "+":
            self.advance()
            layers += self.item(depth)
            self.limit(len(layers))
        return layers

    def item(self, depth: int) -> list[LayerNames]:
        """A layer or a group, with its count."""
        count = 1
        if self.word.isdigit():
            count = int(self.word)
            if count < 1:
                raise self.wrong("a count of at least 1")
            self.limit(count)
            self.advance()
            if self.word != "*":
                raise self.wrong("a * after a count")
            self.advance()
        if self.word == "(":
            if depth == MAX_DEPTH:
                raise self.wrong(f"at most {MAX_DEPTH} nested groups")
            self.advance()
            layers = self.pattern(depth + 1)
            if self.word != ")":
                raise self.wrong("a )")
            self.advance()
        else:
            layers = [self.layer()]
        self.limit(count * len(layers))
        return layers * count

    def layer(self) -> LayerNames:
        """Names joined by &."""
        names: list[str] = []
        while True:
            if not self.word or not self.word[0].isalpha():
                raise self.wrong("a layer's name")
            if NONE in (self.word, *names) and names:
                raise self.wrong("none to stand alone")
            names.append(self.word)
            self.advance()
            if self.word != "&":
                return () if names == [NONE] else tuple(names)
            self.advance()

    def limit(self, layers: int) -> None:
        """Refuse before a list of that length exists."""
        if layers > MAX_LAYERS:
            raise KvcalcError(
                "invalid_preset",
                f"pattern: more than {MAX_LAYERS:,} layers at position {self.start + 1}",
                "no model is that deep: check the counts",
            )


def write_pattern(layers: Sequence[LayerNames]) -> str:
    """A short pattern that `parse_pattern` reads back to the same layers."""
    words = ["&".join(layer) or NONE for layer in layers]
    return " + ".join(_folded(words))


def _folded(words: Sequence[str]) -> list[str]:
    """Greedy: at each place the repetition that covers most, of the shortest period."""
    items: list[str] = []
    at = 0
    while at < len(words):
        period, times = _repetition(words, at)
        unit = words[at : at + period]
        body = unit[0] if period == 1 else f"({' + '.join(_folded(unit))})"
        items.append(body if times == 1 else f"{times}*{body}")
        at += period * times
    return items


def _repetition(words: Sequence[str], at: int) -> tuple[int, int]:
    """Period and count of the repetition from `at` that covers most; (1, 1) if none."""
    best, covered = (1, 1), 1
    # A longer period than 64 layers is no pattern that anyone reads, and costs time.
    for period in range(1, min(64, (len(words) - at) // 2) + 1):
        unit, end = words[at : at + period], at + period
        while words[end : end + period] == unit:
            end += period
        if end > at + period and end - at > covered:
            best, covered = (period, (end - at) // period), end - at
    return best
