"""`--gpu auto`: the name of this machine in the place of `auto`, before a command reads it.

Light on purpose: commands load it at every start, and what reads the machine only for `auto`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from kvcalc.core.results.base import Warn

_AUTO = re.compile(r"\s*(?:([0-9]+)\s*[x×*]\s*)?auto\s*", re.IGNORECASE)
P = ParamSpec("P")
R = TypeVar("R")


def is_auto(gpu: object) -> bool:
    """Whether a --gpu asks for this machine: "auto" or "2xauto"."""
    return isinstance(gpu, str) and _AUTO.fullmatch(gpu) is not None


def auto_count(gpu: str) -> str | None:
    """The 2 of "2xauto"."""
    match = _AUTO.fullmatch(gpu)
    return match[1] if match else None


def concrete(
    function: Callable[..., Any], keywords: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Warn, ...]]:
    """The keywords with a preset's name where `auto` was, and what to tell about the machine.

    Args:
        function: The command's, whose options the warnings may name.
        keywords: As it is called.

    Raises:
        KvcalcError: "unknown_gpu" where the machine has no GPU, or one that no preset is;
            "usage" for more GPUs than there are.
    """
    gpu = keywords.get("gpu")
    texts = list(gpu) if isinstance(gpu, (list, tuple)) else [gpu]
    if not any(map(is_auto, texts)):
        return dict(keywords), ()
    from kvcalc.api.detect import machine_name  # noqa: PLC0415 - starts programs

    options = frozenset(getattr(function, "__wrapped__", function).__kwdefaults__ or ())
    warnings: list[Warn] = []
    named = []
    for text in texts:
        found = text
        if is_auto(text):
            found, told = machine_name(str(text), keywords, options)
            warnings += told
        named.append(found)
    several = isinstance(gpu, (list, tuple))
    return {**keywords, "gpu": named if several else named[0]}, tuple(dict.fromkeys(warnings))


def takes_auto(function: Callable[P, R]) -> Callable[P, R]:
    """Let a command's `gpu` be `auto`; its answer carries the warnings."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        named, warnings = concrete(function, kwargs)
        result = function(*args, **named)
        if not warnings:
            return result
        told = (*warnings, *result.warnings)  # type: ignore[attr-defined]
        return replace(result, warnings=told)  # type: ignore[type-var]

    return call
