"""`kvcalc fit -- vllm serve …`: a pasted launch line as options of fit."""

from __future__ import annotations

from typing import Any

from kvcalc.api.auto import is_auto
from kvcalc.cli import output, settings
from kvcalc.cli.spec import spec_of
from kvcalc.core.dtypes import GGML_ENGINES
from kvcalc.core.errors import KvcalcError


def launched(options: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Options of fit that the line says; those before `--` add what it lacks.

    Flags that say nothing of memory are named on stderr.

    Raises:
        KvcalcError: "usage" for a line of no known engine; "unknown_model".
    """
    from kvcalc.launch.parse import parse_launch  # noqa: PLC0415 - pasted lines alone

    launch = parse_launch(words)
    said: dict[str, Any] = {**launch.options, "engine": launch.engine}
    given = _pairs(options.pop("set", []))
    values = {**given, **{k: str(v) for k, v in launch.settings.items()}}
    if values:
        said["set"] = [f"{name}={value}" for name, value in values.items()]
    merged = {**options, **{k: v for k, v in said.items() if v is not None}}
    if launch.model is not None and "argument" not in options:
        merged["argument"] = launch.model
    if "argument" in merged:
        merged["argument"] = _known(str(merged["argument"]))
        if "context" not in merged and "solve" not in merged:
            tokens = launch.context(_maximum(merged["argument"]), None)
            if tokens is not None:
                merged["context"] = tokens
    if launch.engine not in GGML_ENGINES and _asks_this_machine(merged):
        merged["tp"] = 1  # the engine takes one GPU unless the line says more; llama.cpp all
    if launch.ignored:
        output.write_stderr(f"ignored: {' '.join(launch.ignored)}\n")
    return merged


def _asks_this_machine(options: dict[str, Any]) -> bool:
    """Whether --gpu is `auto`, with no word of how many of its GPUs."""
    filled = settings.fill(options, spec_of("fit"))
    gpu = filled.get("gpu")
    asked = any(map(is_auto, gpu if isinstance(gpu, list) else [gpu]))
    return asked and not filled.keys() & {"gpus", "tp", "pp", "dp"}


def _pairs(texts: list[str]) -> dict[str, str]:
    from kvcalc.answer import pairs  # noqa: PLC0415

    return pairs(texts)


def _known(name: str) -> str:
    """The first name that the line's model may go by and the catalog has.

    Raises:
        KvcalcError: What the name as typed raises, if none is known.
    """
    from kvcalc import resolve  # noqa: PLC0415
    from kvcalc.launch.names import candidates  # noqa: PLC0415

    first: KvcalcError | None = None
    for word in candidates(name):
        try:
            resolve.model_of(word)
        except KvcalcError as error:  # noqa: PERF203 - a handful of names
            first = first or error
        else:
            return word
    raise first or KvcalcError("unknown_model", "the line names no model", "name it before --")


def _maximum(name: str) -> int | None:
    from kvcalc import resolve  # noqa: PLC0415

    return resolve.model_of(name).max_context_tokens
