"""What a page is about: one model in one storage, its context, a GPU to put it on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kvcalc.api.compare import compare
from kvcalc.api.fit import fit
from kvcalc.api.size import size
from kvcalc.api.speed import speed
from kvcalc.api.tradeoff import tradeoff
from kvcalc.api.waste import waste
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.compare import CompareResult
from kvcalc.core.results.explain import Figure, Grid, Page, Product, Section
from kvcalc.core.results.fit import FitResult
from kvcalc.core.results.size import SizeResult
from kvcalc.core.results.speed import SpeedResult
from kvcalc.core.results.tradeoff import TradeoffResult
from kvcalc.core.results.waste import WasteResult
from kvcalc.core.units import format_bytes

#: Counts of a GPU that machines come in.
_COUNTS = (1, 2, 4, 8, 16)
#: Lengths of three requests under a limit of 4,096, and of three others: the KV-cache article's.
UNEQUAL, LIMIT = (500, 3800, 200), 4096
BATCH = (2048, 4096, 500)
BLOCK = 16


@dataclass(frozen=True)
class Subject:
    """The model of a page and what other commands answer about it."""

    model: Model
    storage: Storage
    context: int
    gpu: str
    #: Keywords of the Python functions: storage and weights, as asked.
    options: dict[str, Any] = field(default_factory=dict)

    def bytes_at(self, tokens: int) -> int:
        """One request of so many tokens, each stored once."""
        return self.model.bytes_at(tokens, self.storage)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def label(self) -> str:
        """How K and V are stored."""
        return self.storage.label

    @cached_property
    def maximum(self) -> int:
        """The longest context of the model; 131,072 where it names none."""
        return max(self.model.max_context_tokens or 131_072, self.context)

    @cached_property
    def token(self) -> int:
        """Growth per token."""
        return self.model.token_bytes(self.storage)

    @cached_property
    def size(self) -> SizeResult:
        """`kvcalc size` at the context and the maximum."""
        contexts = sorted({self.context, self.maximum})
        return size(self.model, context=contexts, allow_long_context=True, **self._all())

    @cached_property
    def weights(self) -> WeightInfo:
        """The weights as asked, or as stored."""
        return self.size.weights

    def _all(self) -> dict[str, Any]:
        return dict(self.options)

    def _kv(self) -> dict[str, Any]:
        """Options of commands that ask nothing of the weights."""
        return {k: v for k, v in self.options.items() if k not in {"weights", "weight_bytes"}}

    def tradeoff(self, tokens: int) -> TradeoffResult:
        """`kvcalc tradeoff`."""
        return tradeoff(self.model, tokens=tokens, allow_long_context=True, **self._kv())

    def waste(self, lengths: Sequence[int], limit: int) -> WasteResult:
        """`kvcalc waste` of all policies."""
        return waste(
            self.model,
            request=list(lengths),
            max_context=limit,
            block_size=BLOCK,
            allow_long_context=True,
            **self._kv(),
        )

    def compare(self, requests: int) -> CompareResult:
        """`kvcalc compare`."""
        return compare(self.model, context=self.context, requests=requests, **self._kv())

    def fit(self, count: int, context: int | None = None, **more: Any) -> FitResult | None:
        """The textbook's `kvcalc fit` on so many of the GPU; None where it cannot be."""
        try:
            found = fit(
                self.model,
                gpu=self.gpu,
                gpus=count,
                context=context or self.context,
                engine="none",
                allow_long_context=True,
                **{**self.options, **more},
            )
        except KvcalcError:
            return None
        return found if isinstance(found, FitResult) else None

    @cached_property
    def machine(self) -> FitResult | None:
        """The fewest of the GPU that hold the weights and one request; None if none do."""
        for count in _COUNTS:
            found = self.fit(count)
            if found is not None and found.max_requests > 0:
                return found
        return None

    def speed(self, requests: int) -> SpeedResult | None:
        """`kvcalc speed` on that machine; None where a figure of model or GPU is unknown."""
        count = self.machine.gpu.count if self.machine is not None else 1
        try:
            return speed(
                self.model,
                gpu=self.gpu,
                gpus=count,
                context=self.context,
                requests=requests,
                **self.options,
            )
        except KvcalcError:
            return None

    def scaled(self, lengths: Sequence[int], limit: int = LIMIT) -> tuple[list[int], int]:
        """The article's lengths, shortened in proportion where the model's maximum is shorter."""
        if self.maximum >= limit:
            return list(lengths), limit
        return [max(n * self.maximum // limit, 1) for n in lengths], self.maximum


def page(
    topic: str,
    title: str,
    sentence: str,
    figures: Sequence[tuple[str, int | float, str]],
    *sections: Section,
) -> Page:
    """A page, its figures as rows."""
    rows = tuple(Figure(*f) for f in figures)
    return Page(topic, title, sentence, rows, sections)


def part(
    heading: str,
    *text: str,
    product: Product | None = None,
    grid: Grid | None = None,
    drawing: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> Section:
    """A section, its sentences one after the other."""
    return Section(heading, text, product, grid, tuple(drawing), tuple(commands))


def grid(heads: str, rows: Sequence[Sequence[str]], note: str = "") -> Grid:
    """A table from its heads, separated by "|"; a head that begins with ">" is of numbers."""
    names = heads.split("|")
    return Grid(
        tuple(n.lstrip(">") for n in names),
        tuple(n.startswith(">") for n in names),
        tuple(tuple(row) for row in rows),
        note,
    )


def product(names: str, *rows: tuple[str, Sequence[object], str]) -> Product:
    """A formula from its factors' names, separated by "|"."""
    made = tuple((label, tuple(map(str, numbers)), result) for label, numbers, result in rows)
    return Product(tuple(names.split("|")), made)


def sized(value: int) -> str:
    """Bytes for people."""
    return format_bytes(value)
