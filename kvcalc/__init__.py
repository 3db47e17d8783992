"""Exact KV-cache memory for language models: per token, over time, wasted, and what fits.

`import kvcalc; kvcalc.size("llama-3.1-8b", context=8192).bytes_per_token`. Every command has its
function here; importing the package costs nothing until a name is used.
"""

from __future__ import annotations

# A name that type checkers know; importing typing would double the cost of `import kvcalc`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from kvcalc.api.catalog import dtypes as dtypes
    from kvcalc.api.catalog import gpus as gpus
    from kvcalc.api.catalog import models as models
    from kvcalc.api.check import check as check
    from kvcalc.api.compare import compare as compare
    from kvcalc.api.explain import explain as explain
    from kvcalc.api.fit import fit as fit
    from kvcalc.api.offload import offload as offload
    from kvcalc.api.report import report as report
    from kvcalc.api.simulate import simulate as simulate
    from kvcalc.api.size import size as size
    from kvcalc.api.speed import speed as speed
    from kvcalc.api.timeline import timeline as timeline
    from kvcalc.api.tradeoff import tradeoff as tradeoff
    from kvcalc.api.waste import waste as waste
    from kvcalc.api.workload import workload as workload
    from kvcalc.core.errors import KvcalcError as KvcalcError
    from kvcalc.core.model import Model as Model

__version__ = "0.1.0"

#: Public name → its module, loaded when the name is first used.
HOMES = {
    "KvcalcError": "kvcalc.core.errors",
    "Model": "kvcalc.core.model",
    "size": "kvcalc.api.size",
    "fit": "kvcalc.api.fit",
    "timeline": "kvcalc.api.timeline",
    "waste": "kvcalc.api.waste",
    "tradeoff": "kvcalc.api.tradeoff",
    "speed": "kvcalc.api.speed",
    "offload": "kvcalc.api.offload",
    "compare": "kvcalc.api.compare",
    "models": "kvcalc.api.catalog",
    "gpus": "kvcalc.api.catalog",
    "dtypes": "kvcalc.api.catalog",
    "check": "kvcalc.api.check",
    "explain": "kvcalc.api.explain",
    "simulate": "kvcalc.api.simulate",
    "workload": "kvcalc.api.workload",
    "report": "kvcalc.api.report",
}
__all__ = ["__version__", *HOMES]


def __getattr__(name: str) -> object:
    """The public name, its module loaded at first use."""
    home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - `import kvcalc` must cost nothing

    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
