"""kvcalc.engines: whose rules kvcalc knows, with their settings, defaults and evidence."""

from __future__ import annotations

import os

from kvcalc import resolve
from kvcalc.catalog.files import read_toml
from kvcalc.catalog.locate import data_dir
from kvcalc.core.results.engines import CoefficientItem, EngineItem, EnginesResult, SettingItem
from kvcalc.engines.coefficients import coefficients
from kvcalc.engines.registry import ENGINES, Engine, engine_of

#: Names as the projects write them.
_NAMES = {
    "none": "the textbook", "transformers": "transformers", "vllm": "vLLM", "sglang": "SGLang",
    "llama.cpp": "llama.cpp", "ik_llama.cpp": "ik_llama.cpp", "ollama": "Ollama",
    "tensorrt-llm": "TensorRT-LLM", "lmdeploy": "LMDeploy",
}  # fmt: skip


def engines(name: str | None = None) -> EnginesResult:
    """Every engine, or one in full.

    Raises:
        KvcalcError: "unknown_engine" with the nearest; "invalid_preset" for a user's file.
    """
    if name is not None:
        return EnginesResult(items=(_item(engine_of(name)),), shown=True)
    return EnginesResult(items=tuple(_item(engine) for engine in ENGINES.values()))


def _item(engine: Engine) -> EngineItem:
    path = os.path.join(data_dir("presets"), "engines", f"{engine.id}.toml")
    entry = read_toml(path) if os.path.isfile(path) else {}
    found = coefficients(engine.id, (resolve.app_dir(),)) if entry else {}
    return EngineItem(
        id=engine.id,
        name=_NAMES.get(engine.id, engine.id),
        newest=engine.newest,
        versions=tuple(map(str, entry.get("versions", ()))),
        versions_note=str(entry.get("versions_note", "")),
        versioned=engine.versioned,
        settings=tuple(
            SettingItem(
                s.name, s.kind if isinstance(s.kind, str) else " | ".join(s.kind), s.default, s.note
            )
            for s in engine.settings
        ),
        coefficients=tuple(
            CoefficientItem(
                c.name, c.value, c.low, c.high, c.unit, c.evidence, c.sources, c.basis
            )
            for c in found.values()
        ),
    )  # fmt: skip
