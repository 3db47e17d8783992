"""Every published model's config against what the facts say its layers hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvcalc.checkpoints.config import model_from_config
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
from kvcalc.core.model import Model

if TYPE_CHECKING:
    from .conftest import Tally

FACTS = Path(__file__).parents[3] / "shared" / "facts" / "models"
Shape = tuple[Any, ...]
#: kind of the facts → the shape of its layers, as `shape_of` gives it.
SHAPES: dict[str, Callable[[dict[str, Any]], Shape]] = {
    "full": lambda k: ("full", k["kv_heads"], k["k_dim"], k["v_dim"]),
    "sliding": lambda k: ("window", k["window"], k["kv_heads"], k["k_dim"], k["v_dim"]),
    "chunked": lambda k: ("chunk", k["chunk"], k["kv_heads"], k["k_dim"], k["v_dim"]),
    "cross": lambda k: ("cross", k["kv_heads"], k["k_dim"], k["v_dim"]),
    "mla": lambda k: ("mla", k["latent_dim"], k["rope_dim"]),
    "shared": lambda _: ("shared",),
    "mamba1": lambda k: ("mamba1", k["ssm_state_elems"], k["conv_state_elems"]),
    "mamba2": lambda k: ("mamba2", k["ssm_state_elems"], k["conv_state_elems"]),
    "gated_delta_net": lambda k: (
        "gated_delta_net", k["recurrent_state_elems"], k["conv_state_elems"],
    ),
    "kda": lambda k: ("kda", k["recurrent_state_elems"], k["conv_state_elems"]),
    "lightning": lambda k: ("lightning", k["recurrent_state_elems"], 0),
    "short_conv": lambda k: ("short_conv", 0, k["conv_state_elems"]),
}  # fmt: skip


def expected(kv: list[dict[str, Any]]) -> Counter[Shape]:
    found: Counter[Shape] = Counter()
    for k in kv:
        if k["kind"] == "csa_hca_hybrid":
            found["mla", k["head_dim"] - 64, 64, k["window"]] += k["layers"]
            for ratio, layers in k["ratio_counts"].items():
                if ratio != "0":
                    found["compressed", k["head_dim"], int(ratio)] += layers
            found["indexer", k["index_head_dim"], 4] += k["ratio_counts"]["4"]
            continue
        found[SHAPES[k["kind"]](k)] += k["layers"]
        if "indexer_k_dim" in k:
            found["indexer", k["indexer_k_dim"], 1] += k["indexer_layers"]
    return found


def shape_of(cache: Cache, context: int | None) -> Shape:
    """What of a cache the facts name; a window that never closes counts as full there."""
    if isinstance(cache, SlidingWindow) and (context is None or cache.window < context):
        return ("window", cache.window, cache.kv_heads, cache.key_dim, cache.value_dim)
    if isinstance(cache, Chunked):
        return ("chunk", cache.chunk, cache.kv_heads, cache.key_dim, cache.value_dim)
    if isinstance(cache, (Full, Cross)):
        kind = "cross" if isinstance(cache, Cross) else "full"
        return (kind, cache.kv_heads, cache.key_dim, cache.value_dim)
    if isinstance(cache, Latent):
        window = () if cache.window is None else (cache.window,)
        return ("mla", cache.rank, cache.rope_dim, *window)
    if isinstance(cache, Compressed):
        kind = "indexer" if isinstance(cache, Indexer) else "compressed"
        return (kind, cache.dim, cache.ratio)
    if isinstance(cache, State):
        columns = (cache.conv_kernel - 1) * cache.conv_channels
        return (cache.variant, cache.recurrent_elements, columns)
    assert isinstance(cache, Shared)
    return ("shared",)


def shapes(model: Model) -> Counter[Shape]:
    context = model.max_context_tokens
    return Counter(shape_of(cache, context) for layer in model.layers for cache in layer)


def held(fact: dict[str, Any]) -> Counter[Shape]:
    return shapes(model_from_config(fact["config"], name=fact["id"], where="config.json"))


def test_published_configs_hold_what_the_facts_say(tally: Tally) -> None:
    if not FACTS.is_dir():
        pytest.skip("no facts beside this checkout")
    for path in sorted(FACTS.glob("*.json")):
        fact = json.loads(path.read_text(encoding="utf-8"))
        tally.check(
            fact["id"],
            partial(held, fact),
            expected(fact["kv"]),
        )
    tally.assert_equal()
