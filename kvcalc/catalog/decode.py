"""A model preset's table to the core's Model.

The table is trusted: shipped ones are tested, the user's have passed the strict check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcalc.catalog.files import Entry
from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
)
from kvcalc.core.model import Layer, Model, StoredType, Weights

Table = dict[str, Any]


def _heads(t: Table) -> dict[str, int]:
    return {"kv_heads": t["kv_heads"], "key_dim": t["key_dim"], "value_dim": t["value_dim"]}


def _state(t: Table) -> State:
    return State(
        variant=t["variant"],
        conv_kernel=t.get("conv_kernel", 1),
        conv_channels=t.get("conv_channels", 0),
        recurrent_elements=t.get("recurrent_elements", 0),
        conv_dtype=t.get("conv_dtype"),
        recurrent_dtype=t.get("recurrent_dtype"),
        heads=t.get("heads"),
        groups=t.get("groups", 0),
        group_channels=t.get("group_channels", 0),
    )


def _latent(t: Table) -> Latent:
    return Latent(
        rank=t["rank"],
        rope_dim=t["rope_dim"],
        window=t.get("window_tokens"),
        heads=t.get("heads"),
        nope_dim=t.get("nope_dim"),
        value_dim=t.get("value_dim"),
    )


#: One row a kind: how its table becomes a cache.
CACHES: dict[str, Callable[[Table], Cache]] = {
    "full": lambda t: Full(**_heads(t)),
    "sliding_window": lambda t: SlidingWindow(window=t["window_tokens"], **_heads(t)),
    "chunked": lambda t: Chunked(chunk=t["chunk_tokens"], **_heads(t)),
    "latent": _latent,
    "indexer": lambda t: Indexer(dim=t["dim"], ratio=t.get("ratio", 1)),
    "compressed": lambda t: Compressed(dim=t["dim"], ratio=t.get("ratio", 1)),
    "state": _state,
    "cross": lambda t: Cross(encoder_tokens=t["encoder_tokens"], **_heads(t)),
    "shared": lambda t: Shared(),  # noqa: ARG005 - a shared layer has nothing to say
}


def layers_of(entry: Entry) -> tuple[Layer, ...]:
    """The layers in order, each with its caches.

    Raises:
        KvcalcError: "invalid_preset" for a malformed pattern.
    """
    tables: list[Table] = entry.get("layers", [])
    pattern = entry.get("pattern")
    if pattern is None:
        layer: Layer = (CACHES[tables[0]["kind"]](tables[0]),)
        count: int = tables[0]["count"]
        return (layer,) * count
    from kvcalc.catalog.pattern import parse_pattern  # noqa: PLC0415 - uniform models need none

    caches = {t["name"]: CACHES[t["kind"]](t) for t in tables}
    made: dict[tuple[str, ...], Layer] = {}
    layers = []
    for names in parse_pattern(pattern):
        if names not in made:
            made[names] = tuple(caches[name] for name in names)
        layers.append(made[names])
    return tuple(layers)


def model_of(entry: Entry, file: str | None, source: str) -> Model:
    """The model that a preset's table describes.

    Raises:
        KvcalcError: "invalid_preset" for a malformed pattern.
    """
    counts, weights = entry.get("parameters", {}), entry.get("weights")
    experts = entry.get("experts", {})
    return Model(
        id=entry["id"],
        name=entry.get("name") or entry["id"],
        layers=layers_of(entry),
        source=source,
        file=file,
        query_heads=entry.get("query_heads"),
        max_context_tokens=entry.get("max_context_tokens"),
        dtype=entry.get("dtype", "bf16"),
        hidden_size=entry.get("hidden_size"),
        vocab_size=entry.get("vocab_size"),
        parameters=counts.get("total"),
        active_parameters=counts.get("active"),
        stored_parameters=counts.get("stored"),
        experts=experts.get("count"),
        experts_per_token=experts.get("per_token"),
        weights=weights and _weights(weights),
        hub=tuple(entry.get("hub", ())),
        architecture=entry.get("architecture"),
        confidence=entry.get("source", {}).get("confidence"),
        defaulted=tuple((field, value) for field, value in entry.get("defaulted", ())),
    )


def _weights(t: Table) -> Weights:
    stored, low, high = t.get("bytes"), t.get("low_bytes"), t.get("high_bytes")
    listed = t.get("estimated_bytes")
    if stored is None and listed is not None:
        # A size that a catalog lists, rounded and perhaps with files beside the weights: ±3 %.
        stored, low, high = listed, listed * 97 // 100, listed * 103 // 100
    types = tuple(StoredType(*pair) for pair in t.get("types", {}).items())
    return Weights(t["dtype"], stored, t.get("embedding_elements"), types, low, high)
