"""Contexts of the real llama.cpp: cells, layers, streams and MiB of every cache.

The sample in tests/data is part of the records; all of them are read where ../shared is there.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc.checkpoints.gguf_model import model_from_metadata
from kvcalc.core.model import Model
from kvcalc.engines.llamacpp import Context, context

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "data" / "llamacpp_context.jsonl"
ALL = ROOT.parent / "shared" / "oracles" / "llamacpp_context.jsonl"
SOURCES = [
    pytest.param(SAMPLE, id="sample"),
    pytest.param(ALL, id="all", marks=pytest.mark.skipif(not ALL.exists(), reason="no ../shared")),
]
MIB = 2**20


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def found(record: dict[str, Any], model: Model) -> Context:
    settings = dict(record["ctx_params"])
    if "flash_attn" in settings:
        settings["flash_attn"] = bool(settings["flash_attn"])
    return context(model, **settings)


def seen(result: Context) -> list[Any]:
    """What the log prints: MiB to two decimals; a state's layers are all layers there."""
    caches = [
        (i.cells, i.layers, i.streams, *mib(i.key_bytes, i.value_bytes, i.bytes))
        for i in result.items
        if i.item != "state"
    ]
    states = [
        (i.cells, *mib(i.key_bytes, i.value_bytes, i.bytes))
        for i in result.items
        if i.item == "state"
    ]
    return [result.n_ctx, result.n_ctx_seq, caches, states]


def mib(*sizes: int) -> tuple[str, ...]:
    return tuple(f"{size / MIB:.2f}" for size in sizes)


def printed(record: dict[str, Any]) -> list[Any]:
    def two(*values: float) -> tuple[str, ...]:
        return tuple(f"{v:.2f}" for v in values)

    caches = [
        (c["cells"], c["layers"], c["streams"], *two(c["k_mib"], c["v_mib"], c["total_mib"]))
        for c in record["kv"]
    ]
    states = [(s["cells"], *two(s["r_mib"], s["s_mib"], s["total_mib"])) for s in record["rs"]]
    return [record["n_ctx"], record["n_ctx_seq"], caches, states]


@pytest.mark.parametrize("path", SOURCES)
def test_every_context_from_its_gguf_metadata(path: Path) -> None:
    different = []
    for record in records(path):
        model = model_from_metadata(record["gguf_meta"], name=record["name"], where="m.gguf")
        got = seen(found(record, model))
        if got != printed(record):
            different.append((record["id"], record["name"], record["ctx_params"], got))
    assert not different


CONFIG_READER = importlib.util.find_spec("kvcalc.checkpoints.config")


@pytest.mark.skipif(CONFIG_READER is None, reason="no config reader yet")
@pytest.mark.parametrize("path", SOURCES)
def test_every_context_from_its_config(path: Path) -> None:
    config = importlib.import_module("kvcalc.checkpoints.config")
    different = []
    for record in records(path):
        model = config.model_from_config(record["config_min"], name=record["name"], where="c.json")
        got = seen(found(record, model))
        if got != printed(record):
            different.append((record["id"], record["name"], record["ctx_params"], got))
    assert not different
