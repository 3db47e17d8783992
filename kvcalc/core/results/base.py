"""What all results share: a status, a main list, and one way to become JSON."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple


class Warn(NamedTuple):
    """Something the asker should know, though the question was answered."""

    code: str
    message: str


class Result:
    """A command's answer. Subclasses are frozen dataclasses whose fields are the JSON contract."""

    __slots__ = ()
    #: The command that gives it, and the field that csv and jsonl list.
    command: ClassVar[str]
    main_list: ClassVar[str]
    #: Fields that are not part of `data`.
    hidden: ClassVar[frozenset[str]] = frozenset({"warnings"})

    @property
    def yes(self) -> bool:
        """False where the question was answered with no (exit code 1)."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """`data` of the envelope: plain dicts, lists, strings and whole numbers."""
        names: tuple[str, ...] = type(self).__slots__
        return {n: plain(getattr(self, n)) for n in names if n not in self.hidden}

    def main_rows(self) -> list[dict[str, Any]]:
        """The main list, one dict a row."""
        rows: list[dict[str, Any]] = plain(getattr(self, self.main_list))
        return rows


def plain(value: Any) -> Any:
    """NamedTuples as dicts, tuples as lists, all the way down."""
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        if fields is not None:
            return {name: plain(item) for name, item in zip(fields, value, strict=True)}
        if value and type(value[0]) is int:
            return list(value)
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


class ModelInfo(NamedTuple):
    """The model an answer is about. kv_heads and head_dim are null where layers differ."""

    id: str
    name: str
    source: str
    layers: int
    query_heads: int | None
    kv_heads: int | None
    head_dim: int | None
    max_context_tokens: int | None
    parameters: int | None
    active_parameters: int | None
    experts: int | None
    attention: str
    file: str | None = None


class KvDtype(NamedTuple):
    """Storage formats of keys and of values."""

    key: str
    value: str


class EngineInfo(NamedTuple):
    """The engine whose rules were used, and the settings that shaped the answer."""

    id: str
    version: str | None = None
    settings: dict[str, Any] = {}  # noqa: RUF012 - never mutated; a NamedTuple default


class WeightType(NamedTuple):
    """Bytes of the weights stored in one format."""

    type: str
    bytes: int


class WeightInfo(NamedTuple):
    """The weights of the whole model."""

    bytes: int | None
    bits_per_weight: float | None
    types: tuple[WeightType, ...]
    basis: str
    low_bytes: int | None = None
    high_bytes: int | None = None
    format: str | None = None
