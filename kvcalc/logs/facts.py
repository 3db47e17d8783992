"""What a start-up log states: figures with their line, rank and rounding, settings, refusals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvcalc.core.units import GIB, KIB, MIB, TIB

#: Engines print binary units, whatever they call them (GB of vLLM and SGLang is GiB).
UNITS = {"B": 1, "KIB": KIB, "KB": KIB, "MIB": MIB, "MB": MIB, "GIB": GIB, "GB": GIB, "TIB": TIB}


class Printed(NamedTuple):
    """A printed figure, and the least and the most that rounds to it."""

    value: float
    low: float
    high: float


class Fact(NamedTuple):
    """One figure of a log. `unit`: bytes, tokens, blocks, requests, layers, slots or × (ratio).

    `low` and `high` bound what rounds to the printed digits. `rank` is the tag of the process that
    printed it ("TP0", "pid 535"; "" without one), `device` the one it is about ("CUDA0").
    """

    item: str
    value: float
    unit: str
    low: float
    high: float
    line: int
    rank: str = ""
    device: str = ""
    note: str = ""


class Refusal(NamedTuple):
    """Why an engine did not start: its own figures; None where it names none.

    `code`: too_long (one request of the maximum does not fit), no_pool (nothing is left for KV),
    memory_taken (others hold the memory), out_of_memory, shortened (starts, but with a shorter
    context), failed (a start that died without a figure).
    """

    code: str
    message: str
    line: int
    rank: str = ""
    needed_bytes: Fact | None = None
    available_bytes: Fact | None = None
    max_model_len: int | None = None
    longest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One start of one engine, as its log tells it; of a log with several starts the last."""

    name: str
    engine: str
    version: str | None = None
    #: As the log writes it: a hub name, a path, or a GGUF file's general.name.
    model: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    #: GGUF keys and values that llama.cpp dumped.
    metadata: dict[str, Any] = field(default_factory=dict)
    #: Names of the GPUs, as far as the log tells.
    devices: tuple[str, ...] = ()
    #: Worker processes told apart by their tags.
    ranks: int = 1
    #: Settings that follow from the log without standing in it, and from what.
    inferred: dict[str, str] = field(default_factory=dict)
    #: Words that only a fork or an era of the engine writes ("V0", "MLA").
    marks: frozenset[str] = frozenset()
    starts: int = 1
    lines: int = 0
    bytes: int = 0
    #: The server said that it is ready.
    ready: bool = False
    #: The last start holds no figures, so the one before it is told.
    earlier: bool = False

    def all(self, item: str) -> list[Fact]:
        """Every figure of that item, in the log's order."""
        return [f for f in self.facts if f.item == item]

    def last(self, item: str) -> Fact | None:
        """The last figure of that item: what counts where an engine prints it again."""
        return next((f for f in reversed(self.facts) if f.item == item), None)

    def by_rank(self, item: str) -> dict[str, Fact]:
        """The last figure of each rank."""
        return {f.rank: f for f in self.facts if f.item == item}

    def smallest(self, item: str) -> Fact | None:
        """The last figure of the rank that has least: it decides for all."""
        return min(self.by_rank(item).values(), key=lambda f: f.value, default=None)


def printed(text: str, unit: int = 1, decimals: int = 0) -> Printed:
    """Digits in a unit, as whole bytes: "14.82" GiB is what lies from 14.815 to 14.825.

    `decimals` is how many the engine rounds to where it leaves trailing zeros out (5.0 for 5.00).
    """
    sign, digits = (-1, text[1:]) if text[:1] in {"-", "−"} else (1, text)
    whole, _, rest = digits.replace(",", "").partition(".")
    scale = 10 ** len(rest)
    value = sign * int(whole + rest) * unit
    # Half of the last digit, or of the digit that trailing zeros hide.
    half = unit * scale // 10 ** max(len(rest), decimals)
    low, high = 2 * value - half, 2 * value + half
    return Printed((2 * value + scale) // (2 * scale), -(-low // (2 * scale)), high // (2 * scale))


def ratio(text: str) -> Printed:
    """A printed ratio such as 35.18, within half of its last digit."""
    half = 0.5 / 10 ** len(text.partition(".")[2])
    value = float(text.replace(",", ""))
    return Printed(value, value - half, value + half)


def size(text: str) -> Printed | None:
    """A size with its unit, as Ollama writes them ("4.7 GiB", "512.0 MiB", "0 B"); else None."""
    number, _, unit = text.strip().partition(" ")
    factor = UNITS.get(unit.upper())
    if factor is None or not number.replace(".", "", 1).isdecimal():
        return None
    return printed(number, factor, 1)
