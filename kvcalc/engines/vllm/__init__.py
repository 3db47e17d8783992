"""vLLM: how it groups layers, what a block costs, how many tokens a pool holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvcalc.engines.vllm.from_model import LayerSpecs, specs_from_model
    from kvcalc.engines.vllm.planner import Plan, plan
    from kvcalc.engines.vllm.states import state_shape

__all__ = ["LayerSpecs", "Plan", "plan", "specs_from_model", "state_shape"]
_WHERE = {
    "LayerSpecs": "from_model",
    "specs_from_model": "from_model",
    "Plan": "planner",
    "plan": "planner",
    "state_shape": "states",
}


def __getattr__(name: str) -> object:
    """Load a part when it is first used: state shapes need no planner."""
    if name not in _WHERE:
        raise AttributeError(name)
    from importlib import import_module  # noqa: PLC0415 - only the first use needs it

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
