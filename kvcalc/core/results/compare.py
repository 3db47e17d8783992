"""The answer of `kvcalc compare`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kvcalc.core.results.base import KvDtype, ModelInfo, Result, Warn


class Technique(NamedTuple):
    """One technique alone: `saved_bytes` = `before_bytes` − `bytes`, `factor` = before / bytes.

    `before_bytes` is the baseline, except where the technique replaces something larger: MHA for
    GQA, MQA and MLA, the naive reservation for paging. `factor` is null where it is infinite.
    """

    technique: str
    bytes: int
    saved_bytes: int
    factor: float | None
    quality: str
    note: str
    before_bytes: int
    #: The technique with its numbers, for tables.
    label: str
    #: Its parameter was not given, and stands under `assumed`.
    assumed: bool = False


class Assumed(NamedTuple):
    """An option that was not given, and the value used for it."""

    option: str
    value: int


class LeftOut(NamedTuple):
    """A technique without a row, and why."""

    technique: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult(Result):
    """What each technique makes of the same load."""

    command: ClassVar[str] = "compare"
    main_list: ClassVar[str] = "techniques"

    model: ModelInfo
    kv_dtype: KvDtype
    context_tokens: int
    requests: int
    baseline_bytes: int
    block_size: int
    techniques: tuple[Technique, ...]
    assumed: tuple[Assumed, ...]
    left_out: tuple[LeftOut, ...]
    #: What paging is held against: tokens that naive allocation reserves for each request.
    reserved_tokens: int | None
    shared_prefix_tokens: int
    window_tokens: int
    keep_tokens: int
    warnings: tuple[Warn, ...] = ()
