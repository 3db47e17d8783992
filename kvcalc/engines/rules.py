"""Which rules judge a plan for an engine: one lazy entry an engine, so that none costs another."""

from __future__ import annotations

from importlib import import_module

from kvcalc.core.plan import Rules

#: engine: the module, and its instance of `Rules`.
_WHERE = {
    "vllm": ("kvcalc.engines.vllm.rules", "VLLM"),
    "sglang": ("kvcalc.engines.sglang", "SGLANG"),
    "llama.cpp": ("kvcalc.engines.llamacpp_rules", "LLAMA_CPP"),
    "ik_llama.cpp": ("kvcalc.engines.llamacpp_rules", "IK_LLAMA_CPP"),
    "ollama": ("kvcalc.engines.llamacpp_rules", "OLLAMA"),
    "tensorrt-llm": ("kvcalc.engines.tensorrt_llm", "TENSORRT_LLM"),
    "lmdeploy": ("kvcalc.engines.lmdeploy", "LMDEPLOY"),
    "transformers": ("kvcalc.engines.transformers_rules", "TRANSFORMERS"),
}


def rules_for(engine_id: str) -> Rules | None:
    """The engine's rules; None where there are none (the textbook judges)."""
    where = _WHERE.get(engine_id)
    if where is None:
        return None
    found: Rules = getattr(import_module(where[0]), where[1])
    return found
