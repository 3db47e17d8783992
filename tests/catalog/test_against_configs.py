"""Each preset beside what the config reader makes of the same model's config."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvcalc.catalog.models import load_model
from kvcalc.checkpoints.config import model_from_config
from kvcalc.core.cache import Cache, Full, Latent, SlidingWindow, State
from kvcalc.core.model import Layer, Model

LINES = (Path(__file__).parent.parent / "data" / "model_configs.jsonl").read_text().splitlines()
CONFIGS = [json.loads(line) for line in LINES[1:]]
#: The facts name a state's dtype that the config does not.
STATED_ELSEWHERE = {"mamba-2.8b", "qwen3.5-4b", "qwen3.5-9b"}


def comparable(model: Model) -> list[Layer]:
    """Layers without what the two may tell differently.

    A window no shorter than the longest context never closes: the presets call it full, the reader
    keeps what the file says. Expanded MLA dims only serve engines that expand it.
    """

    def plain(cache: Cache) -> Cache:
        most = model.max_context_tokens
        if isinstance(cache, SlidingWindow) and most is not None and cache.window >= most:
            return Full(kv_heads=cache.kv_heads, key_dim=cache.key_dim, value_dim=cache.value_dim)
        if isinstance(cache, State) and model.id in STATED_ELSEWHERE:
            return replace(cache, recurrent_dtype=None)
        if isinstance(cache, Latent) and cache.window is not None:
            return replace(cache, heads=None)  # DeepSeek-V4's is never expanded
        return cache

    return [tuple(plain(cache) for cache in layer) for layer in model.layers]


@pytest.mark.parametrize("entry", CONFIGS, ids=lambda e: e["id"])
def test_the_reader_and_the_preset_agree(entry: dict[str, Any]) -> None:
    preset = load_model(entry["id"])
    read = model_from_config(entry["config"], name=entry["id"], where="config.json")
    read = replace(read, id=entry["id"], max_context_tokens=preset.max_context_tokens)

    assert comparable(read) == comparable(preset)
    assert read.query_heads == preset.query_heads


def test_every_preset_has_a_config_here() -> None:
    assert len({entry["id"] for entry in CONFIGS}) == 213
