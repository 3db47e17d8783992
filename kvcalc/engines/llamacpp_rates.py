"""Bytes of any context of one GPU's layers, from one context that was sized cell by cell.

A search for the longest context asks dozens of times; the layers are sorted once. The figures are
those of `engines.llamacpp.context` (a test compares them).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvcalc.core.model import Model
from kvcalc.core.results.size import EngineItem
from kvcalc.core.units import cdiv, pad
from kvcalc.engines.llamacpp import CELLS
from kvcalc.engines.llamacpp_archs import rules_of
from kvcalc.engines.llamacpp_layers import layout_of
from kvcalc.engines.llamacpp_place import only
from kvcalc.engines.llamacpp_setup import Setup

#: DeepSeek-V4's indexer has an entry for so many tokens.
_INDEXER_RATIO = 4


class Rates(NamedTuple):
    """Bytes of a cell by the cache it is in, and of a slot's states."""

    #: (ratio, bytes of an entry): one entry for `ratio` tokens.
    growing: tuple[tuple[int, int], ...]
    windowed: int
    window: int
    state: int
    unified: bool
    swa_full: bool
    #: Every sequence has a stream of its own, even in a unified context.
    apart: bool
    ubatch: int
    multiple: int

    def bytes(self, n_ctx: int, slots: int) -> int:
        """What a context of `n_ctx` cells for `slots` sequences allocates."""
        cells = pad(n_ctx, self.multiple)
        each = cells if self.unified else pad(cells // slots, CELLS) or CELLS
        streams = slots if self.apart or not self.unified else 1
        total = slots * self.state
        for ratio, rate in self.growing:
            entries = each if ratio == 1 else pad(cdiv(each, ratio), CELLS)
            total += entries * streams * rate
        if self.windowed:
            held = self.window * (slots if self.unified else 1) + min(self.ubatch, n_ctx)
            own = each if self.swa_full else pad(min(each, held), CELLS)
            total += own * streams * self.windowed
        return total


_KEPT: dict[tuple[int, tuple[int, ...], Setup], tuple[Model, Rates]] = {}


def rates_of(
    model: Model,
    layers: tuple[int, ...],
    s: Setup,
    probe: Callable[[Model, int, int], Sequence[EngineItem]],
) -> Rates:
    """The rates of some layers of a model; `probe` sizes a context of them.

    Kept for the model objects in use; the entry holds the model, so its id stays its own.
    """
    key = (id(model), layers, s._replace(n_ctx=None, n_seq_max=None))
    kept = _KEPT.get(key)
    if kept is None:
        if len(_KEPT) > 1024:
            _KEPT.clear()
        kept = _KEPT[key] = (model, _rates(only(model, layers), s, probe))
    return kept[1]


def _rates(
    model: Model, s: Setup, probe: Callable[[Model, int, int], Sequence[EngineItem]]
) -> Rates:
    ik = s.engine == "ik_llama.cpp"
    rules = rules_of(model.architecture, len(model.layers)) if not ik else None
    growing, windowed, state = [], 0, 0
    for item in probe(model, CELLS, 1):
        rate = item.bytes // ((item.cells or 1) * (item.streams or 1))
        if item.item == "kv_window":
            windowed += rate
        elif item.item == "state" or item.item.startswith("compressor_state"):
            state += item.bytes
        elif item.item.startswith("kv_compressed_"):
            growing.append((int(item.item.rpartition("_")[2]), rate))
        else:
            compressed = rules is not None and rules.compressed and item.item == "indexer"
            growing.append((_INDEXER_RATIO if compressed else 1, rate))
    return Rates(
        growing=tuple(growing),
        windowed=windowed,
        window=0 if rules is None or not windowed else layout_of(model, rules).window,
        state=state,
        unified=s.unified,
        swa_full=s.swa_full,
        apart=rules is not None and rules.compressed,
        ubatch=min(s.n_ubatch, s.n_batch),
        multiple=CELLS if not ik or s.flash is not False else 32,
    )
