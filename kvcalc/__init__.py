"""Exact KV-cache memory for language models: per token, over time, wasted, and what fits.

`import kvcalc; kvcalc.size("llama-3.1-8b", context=8192).bytes_per_token`. Every command has its
function here; importing the package costs nothing until a name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvcalc.api.size import size as size
    from kvcalc.core.errors import KvcalcError as KvcalcError

__version__ = "0.1.0"

_HOMES = {
    "KvcalcError": "kvcalc.core.errors",
    "Model": "kvcalc.core.model",
    "size": "kvcalc.api.size",
    "fit": "kvcalc.api.fit",
    "timeline": "kvcalc.api.timeline",
    "waste": "kvcalc.api.waste",
    "tradeoff": "kvcalc.api.tradeoff",
    "speed": "kvcalc.api.speed",
    "compare": "kvcalc.api.compare",
    "models": "kvcalc.api.catalog",
    "gpus": "kvcalc.api.catalog",
    "dtypes": "kvcalc.api.catalog",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """The public name, its module loaded at first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - `import kvcalc` must cost nothing

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
