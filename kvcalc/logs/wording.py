"""One wording of one figure: the words to look for, their pattern, and what its groups say.

An engine's file lists its wordings; the reader looks for the words in the raw log, and applies the
patterns to the lines found. A group's meaning is a short text:

    "weights GiB"   a figure, in that unit of memory (see `facts.UNITS`)
    "weights size"  a figure with its unit beside it ("4.7 GiB")
    "kv_tokens tokens"  a count; "max_concurrency ×" a ratio
    "=n_ctx"        a setting by that name
    "@"             the device that the match's figures are about
    "version", "model", "gpu"  what they say
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from kvcalc.logs.clean import Tag
from kvcalc.logs.facts import UNITS, Fact, Printed, Refusal, printed, ratio, size
from kvcalc.logs.pairs import typed

Match = re.Match[str]


class Wording(NamedTuple):
    """`anchor` stands in every such line, literally."""

    anchor: str
    pattern: str
    says: tuple[str, ...] = ()
    #: What the groups cannot say alone.
    read: Callable[[Match, Sink], None] | None = None
    #: Begins a start of the engine if this kind of line was seen in the one before it.
    opens: str = ""
    #: A measured figure or a refusal: something to check.
    figure: bool = True
    #: The next line that would open a start by this kind belongs to the one under way.
    keeps: str = ""
    #: May come long after the start, from a server that is serving.
    late: bool = False
    #: A dump in brackets, which a paste may have broken: read on until they close.
    spans: bool = False


class Family(NamedTuple):
    """An engine's wordings; their anchors are looked for together."""

    name: str
    wordings: tuple[Wording, ...]


class Sink:
    """Collects what the lines of one start say."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.refusals: list[Refusal] = []
        self.settings: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.version: str | None = None
        self.model: str | None = None
        self.devices: list[str] = []
        self.marks: set[str] = set()
        #: Matches of each family: most figures decide which engine it is.
        self.hits: dict[str, int] = {}
        #: What an engine's lines say of those after them.
        self.memo: dict[str, str] = {}
        self.ready = False
        self.line = 0
        self.tag = Tag()
        self.text = ""

    def take(self, family: str, wording: Wording, match: Match) -> None:
        """What one match says."""
        self.hits[family] = self.hits.get(family, 0) + (1 if wording.figure else 0)
        device = ""
        for says, text in zip(wording.says, match.groups(), strict=False):
            if text is None or not says:
                continue
            if says == "@":
                device = text
            elif says[0] == "=":
                self.setting(says[1:], text)
            elif " " in says:
                item, _, unit = says.partition(" ")
                self.figure(item, text, unit, device)
            else:
                self._named(says, text)
        if wording.read is not None:
            wording.read(match, self)

    def _named(self, says: str, text: str) -> None:
        if says == "version":
            self.version = text
        elif says == "model":
            self.model = text
        elif says == "gpu" and text not in self.devices:
            self.devices.append(text)
        elif says == "ready":
            self.ready = True

    def setting(self, name: str, text: str) -> None:
        """A setting, of its kind; what is dumped as None is not one."""
        value = typed(text.replace(",", "") if re.fullmatch(r"[0-9,]+", text) else text)
        if value is not None:
            self.settings[name] = value

    def figure(
        self, item: str, text: str, unit: str, device: str = "", note: str = ""
    ) -> Fact | None:
        """A figure as printed; one that is no number is left out."""
        found = measured(text, unit)
        if found is None:
            return None
        kind = "bytes" if unit == "size" or unit.upper() in UNITS else unit
        return self.add(item, found, kind, device, note)

    def add(
        self, item: str, value: Printed | int, unit: str, device: str = "", note: str = ""
    ) -> Fact:
        """A figure with its bounds, at the line that is being read."""
        low, high = (value, value) if isinstance(value, int) else (value.low, value.high)
        best = value if isinstance(value, int) else value.value
        fact = Fact(item, best, unit, low, high, self.line, self.tag.label, device, note)
        self.facts.append(fact)
        return fact

    def refuse(self, code: str, message: str, **figures: Any) -> None:
        """A refusal, unless the same was told already (a traceback repeats it).

        A cause takes the place of a mere failure told before it.
        """
        made = Refusal(code, " ".join(message.split())[:300], self.line, self.tag.label, **figures)
        if code != "failed":
            self.refusals = [r for r in self.refusals if r.code != "failed"]
        same = (made.code, made.max_model_len, made.longest)
        if all((r.code, r.max_model_len, r.longest) != same for r in self.refusals):
            self.refusals.append(made)


def measured(text: str, unit: str) -> Printed | None:
    """A printed figure in its unit; None if it is no number."""
    if unit == "size":
        return size(text)
    if not re.fullmatch(r"[-−]?[0-9][0-9,]{0,24}(\.[0-9]{1,12})?", text):
        return None
    if unit == "×":
        return ratio(text)
    factor = UNITS.get(unit.upper())
    if factor is None:
        return printed(text)
    return printed(text, factor, 0 if unit in {"B", "MB"} or "." not in text else 2)


def number(text: str | None) -> int | None:
    """A whole number with or without thousands separators; None if there is none."""
    word = (text or "").replace(",", "")
    return int(word) if word.isdecimal() and len(word) < 20 else None
