"""Settings that follow from what a log prints, where no line of it states them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvcalc.core.dtypes import GGML_ENGINES
from kvcalc.logs.facts import Fact

#: Settings of the number of ranks, by engine.
_RANKS = {"vllm": "tensor_parallel_size", "sglang": "tp_size", "tensorrt-llm": "tp_size"}
_OTHER_RANKS = ("pipeline_parallel_size", "data_parallel_size")


def workers(facts: Sequence[Fact]) -> int:
    """Processes that hold a part of the model: those that print their weights or their pool."""
    items = ("weights", "weights_rounded", "kv_pool", "kv_tokens")
    return max((len({f.rank for f in facts if f.item == item}) for item in items), default=1) or 1


def inferred(
    engine: str, facts: Sequence[Fact], settings: Mapping[str, Any]
) -> dict[str, tuple[Any, str]]:
    """name → (value, what it follows from)."""
    found: dict[str, tuple[Any, str]] = {}
    size = _RANKS.get(engine)
    if size is not None and not any(n in settings for n in (size, *_OTHER_RANKS)):
        world, ranks = settings.get("world_size"), workers(facts)
        if isinstance(world, int) and world > 1:
            found[size] = (world, f"{world} MPI ranks")
        elif ranks > 1:
            found[size] = (_tp(facts) or ranks, f"{ranks} processes printed their figures")
    if engine in GGML_ENGINES and "n_ctx" not in settings:
        found.update(_context(facts, settings))
    return found


def _tp(facts: Sequence[Fact]) -> int:
    """The tensor-parallel ranks that the tags count, 0 if they count none."""
    numbers = (re.findall(r"\bTP([0-9]{1,5})\b", f.rank) for f in facts)
    return max((int(n) + 1 for found in numbers for n in found), default=0)


def _context(facts: Sequence[Fact], settings: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """n_ctx: the cells of a cache that has no window, or a slot's context, of all slots."""
    slots = settings.get("n_seq_max", 1)
    copies = 1 if settings.get("kv_unified") is True else slots
    cells = [
        int(f.value) for f in facts
        if f.item == "kv_cells" and f.device != "SWA" and "draft" not in f.note
    ]  # fmt: skip
    if cells:
        # Cells without streams of their own are all slots' together.
        times = slots if settings.get("kv_unified") is False else 1
        return {"n_ctx": (max(cells) * times, "the cells of its cache")}
    one = settings.get("n_ctx_seq")
    if isinstance(one, int) and isinstance(copies, int):
        return {"n_ctx": (one * copies, f"{copies:,} × n_ctx_seq" if copies > 1 else "n_ctx_seq")}
    return {}
