"""From a config to its exact parameter count."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kvcalc.checkpoints.parameters.fields import Fields, Unusable, fields_of
from kvcalc.checkpoints.parameters.tally import EMBEDDING, ParameterCount, Tally
from kvcalc.checkpoints.parameters.vision import vision_parameters

_MODULES = (
    "dense", "moe", "mla", "linear", "mamba", "gemma", "moe_mixed", "gpt", "encdec", "remote",
)  # fmt: skip


def tally_of(config: dict[str, Any]) -> Tally | None:
    """The tensors of a config's text model, or None where its family is not known exactly."""
    try:
        fields = fields_of(config)
        family = _family(fields.model_type)
        if family is None:
            return None
        tally = Tally()
        family(fields, tally)
    except (Unusable, ZeroDivisionError):
        return None
    return tally


def count_parameters(config: dict[str, Any]) -> ParameterCount | None:
    """The parameters of a config's text model, as its class in transformers would allocate them.

    Exact or nothing: None where the family is not known, a field is damaged, or the config holds
    a variation that is not understood. Sources: section F.3's formulas, equal to the models
    instantiated by transformers 5.24.
    """
    tally = tally_of(config)
    if tally is None:
        return None
    width = next((t.cols for t in tally.tensors if t.part == EMBEDDING), 0)
    return tally.count(vision_parameters(config, width))


def _family(model_type: str) -> Callable[[Fields, Tally], None] | None:
    for name in _MODULES:
        families = import_module(f"kvcalc.checkpoints.parameters.{name}").FAMILIES
        if model_type in families:
            found: Callable[[Fields, Tally], None] = families[model_type]
            return found
    return None
