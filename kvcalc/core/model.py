"""A model: its layers in order, each with the caches it holds; parameters; limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kvcalc.core.cache import Cache, Chunked, Cross, Full, Latent, SlidingWindow, bend_of
from kvcalc.core.dtypes import Storage

#: One layer: the caches it holds, in order; a pure MLP layer holds none.
Layer = tuple[Cache, ...]


class CacheGroup(NamedTuple):
    """Equal caches and the layers that hold them, in order of first appearance."""

    cache: Cache
    layers: tuple[int, ...]


class StoredType(NamedTuple):
    """Bytes of all tensors in one storage format."""

    type: str
    bytes: int


class Weights(NamedTuple):
    """Weights as the checkpoint stores them."""

    dtype: str
    bytes: int | None
    #: Elements that no common format quantises: embeddings and the output head.
    embedding_elements: int | None = None
    #: What `bytes` consists of, the largest share first; empty where not known.
    types: tuple[StoredType, ...] = ()
    #: Where `bytes` are an estimate, the least and the most that they may be.
    low_bytes: int | None = None
    high_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Model:
    """What kvcalc knows of one model; every size follows from `layers`.

    Without slots: the groups are computed once and kept.
    """

    id: str
    name: str
    layers: tuple[Layer, ...]
    source: str = ""
    file: str | None = None
    query_heads: int | None = None
    max_context_tokens: int | None = None
    dtype: str = "bf16"
    hidden_size: int | None = None
    vocab_size: int | None = None
    #: Of the text model; what the checkpoint stores beside it is in `stored_parameters`.
    parameters: int | None = None
    active_parameters: int | None = None
    stored_parameters: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    weights: Weights | None = None
    hub: tuple[str, ...] = ()
    architecture: str | None = None
    confidence: str | None = None
    #: (field, value) that the source left out and its class fills in.
    defaulted: tuple[tuple[str, str], ...] = ()

    @cached_property
    def groups(self) -> tuple[CacheGroup, ...]:
        """Distinct caches with their layers, in order of first appearance."""
        where: dict[Cache, list[int]] = {}
        for index, layer in enumerate(self.layers):
            for cache in layer:
                where.setdefault(cache, []).append(index)
        return tuple(CacheGroup(cache, tuple(at)) for cache, at in where.items())

    @property
    def attention(self) -> tuple[CacheGroup, ...]:
        """The groups of layers that keep keys and values of decoded tokens."""
        return tuple(g for g in self.groups if isinstance(g.cache, (Full, Latent)))

    def token_bytes(self, s: Storage) -> int:
        """Growth per token of the whole model below any window."""
        return sum(len(g.layers) * g.cache.token_bytes(s) for g in self.groups)

    def fixed_bytes(self, s: Storage) -> int:
        """Bytes that one request holds whatever its length (states, encoder keys and values)."""
        return sum(len(g.layers) * g.cache.fixed_bytes(s) for g in self.groups)

    def bytes_at(self, tokens: int, s: Storage) -> int:
        """Bytes of one request of `tokens`, all layers."""
        return sum(len(g.layers) * g.cache.bytes_at(tokens, s) for g in self.groups)

    @property
    def bends(self) -> tuple[int, ...]:
        """Token counts at which some layer stops growing, ascending."""
        return tuple(sorted({b for g in self.groups if (b := bend_of(g.cache)) is not None}))


def pattern_of(layers: Iterable[str]) -> str:
    """Layer names in order, folded: "10 × (5 window + 1 full) + 2 window"."""
    names = list(layers)
    start, period, repeats = _fold(names)
    if repeats < 2:
        return _text(names)
    end = start + period * repeats
    parts = [_text(names[:start]), f"{repeats} × ({_text(names[start : start + period])})"]
    return " + ".join(part for part in (*parts, _text(names[end:])) if part)


def _text(names: list[str]) -> str:
    return " + ".join(f"{n} {name}" for name, n in _runs(names))


def _fold(names: list[str]) -> tuple[int, int, int]:
    """(start, period, repeats) of the repetition that makes the shortest text; repeats 1 for none.

    Patterns of real models start within a few layers and repeat within a dozen or two.
    """
    best, shortest = (0, len(names), 1), len(_runs(names))
    for start in range(min(8, len(names))):
        for period in range(2, min(32, (len(names) - start) // 2) + 1):
            unit = names[start : start + period]
            repeats, at = 1, start + period
            while names[at : at + period] == unit:
                repeats, at = repeats + 1, at + period
            if repeats < 2:
                continue
            cost = 1 + len(_runs(names[:start])) + len(_runs(unit)) + len(_runs(names[at:]))
            if cost < shortest:
                best, shortest = (start, period, repeats), cost
    return best


def _runs(names: list[str]) -> list[tuple[str, int]]:
    runs: list[tuple[str, int]] = []
    for name in names:
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + 1)
        else:
            runs.append((name, 1))
    return runs


def short_name(cache: Cache) -> str:
    """A kind's name in a layer pattern: full, window(1,024), state."""
    bend = bend_of(cache)
    word = {"sliding_window": "window", "latent": "MLA"}.get(cache.kind, cache.kind)
    if isinstance(cache, (SlidingWindow, Chunked)) or (isinstance(cache, Latent) and bend):
        return f"{word}({bend:,})"
    return word


def with_encoder_tokens(model: Model, tokens: int) -> Model:
    """The model with its cross-attention caches holding `tokens` of the encoder."""
    from dataclasses import replace  # noqa: PLC0415 - already loaded; kept beside its use

    layers = tuple(
        tuple(replace(c, encoder_tokens=tokens) if isinstance(c, Cross) else c for c in layer)
        for layer in model.layers
    )
    return replace(model, layers=layers)
