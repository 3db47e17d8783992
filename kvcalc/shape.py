"""A model given by its numbers: --layers --kv-heads --head-dim, or --group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.core.cache import Cache, Chunked, Full, SlidingWindow
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.units import parse_count, shown

Count = int | str


class Shape(NamedTuple):
    """A model given by its numbers: --layers --kv-heads --head-dim, or --group."""

    layers: Count | None = None
    kv_heads: Count | None = None
    head_dim: Count | None = None
    query_heads: Count | None = None
    value_dim: Count | None = None
    parameters: Count | None = None
    max_context_length: Count | None = None
    group: Sequence[str] = ()

    def given(self) -> list[str]:
        """The options that are set."""
        pairs = zip(self._fields, self, strict=True)
        return [f"--{n.replace('_', '-')}" for n, v in pairs if v is not None and v not in ((), [])]


def custom_model(shape: Shape) -> Model:
    """The model of --layers --kv-heads --head-dim, or of --group COUNT*KIND:HEADSxDIM[:WINDOW].

    Raises:
        KvcalcError: "usage" naming what is missing or wrong.
    """
    common = {
        "query_heads": _given_count(shape.query_heads, "--query-heads"),
        "parameters": _given_count(shape.parameters, "--parameters"),
        "max_context_tokens": _given_count(shape.max_context_length, "--max-context-length"),
    }
    if shape.group:
        if any(n is not None for n in (*shape[:3], shape.value_dim)):
            raise KvcalcError(
                "usage", "--group and --layers are two models",
                "give --layers --kv-heads --head-dim, or --group alone",
            )  # fmt: skip
        layers = tuple(layer for text in shape.group for layer in _group(text))
    else:
        missing = [
            f"--{n}"
            for n, v in (
                ("layers", shape.layers),
                ("kv-heads", shape.kv_heads),
                ("head-dim", shape.head_dim),
            )
            if v is None
        ]
        if len(missing) == 3:
            raise KvcalcError(
                "usage", "MODEL is missing",
                "name one (kvcalc models), or give --layers --kv-heads --head-dim",
            )  # fmt: skip
        if missing:
            raise KvcalcError(
                "usage", f"{', '.join(missing)} missing",
                "a model by its numbers takes --layers --kv-heads --head-dim",
            )  # fmt: skip
        dim = _bounded(shape.head_dim, "--head-dim", 65_536)
        cache = Full(
            kv_heads=_bounded(shape.kv_heads, "--kv-heads", 65_536),
            key_dim=dim,
            value_dim=dim
            if shape.value_dim is None
            else _bounded(shape.value_dim, "--value-dim", 65_536),
        )
        layers = ((cache,),) * _bounded(shape.layers, "--layers", 10_000)
    return Model(id="custom", name="Custom model", source="options", layers=layers, **common)  # type: ignore[arg-type]


def _given_count(text: Count | None, option: str) -> int | None:
    return None if text is None else parse_count(text, option)


def _bounded(text: Count | None, option: str, most: int) -> int:
    value = parse_count(text if text is not None else "", option)
    if value > most:
        raise KvcalcError("usage", f"{option} is {value:,}", f"the most is {most:,}")
    return value


_GROUP = r"([0-9_]+)\*([A-Za-z_-]+):([0-9_]+)x([0-9_]+)(?::([0-9_]+[kKmM]?))?"


def _group(text: str) -> list[tuple[Cache, ...]]:
    match = re.fullmatch(_GROUP, str(text).replace(" ", ""))
    if match is None:
        raise KvcalcError(
            "usage", f"--group {shown(text)} is not COUNT*KIND:HEADSxDIM[:WINDOW]",
            "write it like 52*sliding_window:8x128:1024 or 10*full:8x128",
        )  # fmt: skip
    count = _bounded(match[1], "--group COUNT", 10_000)
    kind = match[2].lower().replace("-", "_")
    dims = {
        "kv_heads": _bounded(match[3], "--group HEADS", 65_536),
        "key_dim": _bounded(match[4], "--group DIM", 65_536),
        "value_dim": _bounded(match[4], "--group DIM", 65_536),
    }
    if kind == "full" and match[5] is None:
        return [(Full(**dims),)] * count
    if kind in {"sliding_window", "window", "chunked"} and match[5] is not None:
        bend = parse_count(match[5], "--group WINDOW")
        made = (
            Chunked(**dims, chunk=bend) if kind == "chunked" else SlidingWindow(**dims, window=bend)
        )
        return [(made,)] * count
    if kind in {"full", "sliding_window", "window", "chunked"}:
        needs = "takes no window" if kind == "full" else "needs a window"
        raise KvcalcError(
            "usage", f"--group {shown(text)}: {kind} {needs}",
            "write 10*full:8x128 or 52*sliding_window:8x128:1024",
        )  # fmt: skip
    raise KvcalcError(
        "usage", f'--group {shown(text)}: no kind "{shown(kind)}"',
        "kinds by numbers are full, sliding_window and chunked",
    )  # fmt: skip
