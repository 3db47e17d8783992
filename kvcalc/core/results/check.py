"""The answer of `kvcalc check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import ModelInfo, Result, Warn

OK, OFF, UNKNOWN = "ok", "off", "not comparable"


class CheckRow(NamedTuple):
    """One figure of the log beside kvcalc's.

    `unit` is bytes, tokens, blocks, requests, layers, slots, % or × (a ratio). `low` and `high`
    bound what kvcalc expects, `tolerance` says where they come from; the verdict is ok where the
    printed figure, as rounded, lies within them. `error_fraction` is predicted / measured − 1.
    """

    item: str
    measured: float
    predicted: float | None
    error_fraction: float | None
    verdict: str
    explanation: str
    unit: str
    low: float | None
    high: float | None
    tolerance: str
    #: What the figure is about, where the log tells several apart: "CUDA0", "SWA", "draft".
    device: str
    #: The process that decides, by its tag, and the line that it printed.
    rank: str
    line: int


class Refused(NamedTuple):
    """Why the engine did not start, in its own figures; null where it names none."""

    code: str
    message: str
    line: int
    needed_bytes: int | None
    available_bytes: int | None
    max_model_len_tokens: int | None
    longest_tokens: int | None


class Assumed(NamedTuple):
    """What the log does not say and kvcalc took for granted."""

    name: str
    value: str
    why: str


class LogInfo(NamedTuple):
    """The log that was read; of several starts the last one with figures."""

    name: str
    lines: int
    starts: int
    ranks: int
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(Result):
    """What an engine measured when it started, beside what kvcalc expects."""

    command: ClassVar[str] = "check"
    main_list: ClassVar[str] = "rows"
    hidden: ClassVar[frozenset[str]] = frozenset({"warnings", "profile"})

    engine: str
    version: str | None
    settings: dict[str, Any]
    rows: tuple[CheckRow, ...]
    model: ModelInfo | None
    #: The model as the log writes it.
    model_name: str | None
    weights: str | None
    gpu: str | None
    gpus: int
    refusals: tuple[Refused, ...]
    assumed: tuple[Assumed, ...]
    log: LogInfo
    #: An engine profile of what was measured (TOML), empty if there is nothing for one.
    profile: str = ""
    warnings: tuple[Warn, ...] = ()

    @property
    def yes(self) -> bool:
        """No figure is outside its tolerance."""
        return all(row.verdict != OFF for row in self.rows)
