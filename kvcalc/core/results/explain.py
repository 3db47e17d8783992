"""The answer of `kvcalc explain`: a short page on one topic, with one model's numbers in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kvcalc.core.results.base import KvDtype, ModelInfo, Result, Warn


class Figure(NamedTuple):
    """A number that was computed for the page; every one of them depends on the model."""

    name: str
    value: int | float
    unit: str


class Product(NamedTuple):
    """A formula: names of factors over their numbers; each row is a label, numbers, a result."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...], str], ...]


class Grid(NamedTuple):
    """A table of texts; `right` says which columns are numbers."""

    heads: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str


class Section(NamedTuple):
    """A part of a page, in this order: heading, sentences, formula, table, drawing, commands."""

    heading: str
    text: tuple[str, ...] = ()
    product: Product | None = None
    grid: Grid | None = None
    drawing: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class Page(NamedTuple):
    """One topic: the sentence to remember, then sections."""

    topic: str
    title: str
    sentence: str
    figures: tuple[Figure, ...]
    sections: tuple[Section, ...]


class Topic(NamedTuple):
    """A topic in the list: the question it answers, and the model's number in one line."""

    topic: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainResult(Result):
    """Pages on the asked topic, or the list of topics."""

    command: ClassVar[str] = "explain"
    main_list: ClassVar[str] = "topics"

    #: None for the list of topics.
    topic: str | None
    model: ModelInfo
    kv_dtype: KvDtype
    context_tokens: int
    topics: tuple[Topic, ...]
    #: One page; all of them for the topic "all".
    pages: tuple[Page, ...]
    warnings: tuple[Warn, ...] = ()

    def main_rows(self) -> list[dict[str, Any]]:
        """The figures of the pages, or the topics."""
        if not self.pages:
            return super(ExplainResult, self).main_rows()
        return [{"topic": p.topic, **f._asdict()} for p in self.pages for f in p.figures]
