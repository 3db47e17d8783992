"""Which model a log is of, and how its weights are stored."""

from __future__ import annotations

import re
from typing import Any

from kvcalc import resolve
from kvcalc.core.cache import Latent
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.check import Assumed
from kvcalc.launch.names import candidates
from kvcalc.logs.facts import Log
from kvcalc.shape import Shape

#: Formats of the weights that a model's name tells, the first that fits.
_FORMATS = (
    ("fp8[-_]dynamic", "fp8_channel"), ("fp8[-_]block", "fp8_block"), ("nvfp4", "nvfp4"),
    ("mxfp4", "mxfp4"), ("awq", "awq"), ("gptq.*int8|int8.*gptq", "gptq_int8"), ("gptq", "gptq"),
    ("w4a16", "w4a16"), ("w8a16", "w8a16"), ("bnb|bitsandbytes", "nf4"), ("fp8", "fp8"),
)  # fmt: skip
_SIXTEEN_BITS = frozenset({"bf16", "fp16"})


def model_of(
    log: Log, name: str | Model | None, shape: Shape, assumed: list[Assumed]
) -> Model | None:
    """The model asked for, else the one in the log's own metadata, else the one it names."""
    if name is not None or shape.given():
        return resolve.model_of(name, shape)
    dumped = _dumped(log)
    if dumped is not None:
        return dumped
    return _named(log.model, assumed) if log.model else None


def _dumped(log: Log) -> Model | None:
    """The model in the GGUF keys that llama.cpp dumps; None where the dump is not enough."""
    architecture = log.metadata.get("general.architecture")
    if architecture is None:
        return None
    from kvcalc.checkpoints.gguf_model import model_from_metadata  # noqa: PLC0415

    keys = dict(log.metadata)
    heads, dim = (keys.get(f"{architecture}.attention.{k}") for k in ("head_count", "key_length"))
    if isinstance(heads, int) and isinstance(dim, int):
        # Needed where no head dim is stated; here one is.
        keys.setdefault(f"{architecture}.embedding_length", heads * dim)
    try:
        model = model_from_metadata(keys, name=log.model or "model", where=log.name)
    except KvcalcError:  # the dump is cut, or of a kind that kvcalc does not know
        return None
    # GGUF files of before May 2025 do not tell the latent that ik_llama.cpp stores.
    if "latent" in log.marks and not any(isinstance(g.cache, Latent) for g in model.groups):
        return None
    return model


def _named(name: str, assumed: list[Assumed]) -> Model | None:
    """The preset of a hub name or path; names of quantised copies by the model they are of."""
    from kvcalc.catalog.models import load_model  # noqa: PLC0415 - a log may name none

    for word in candidates(name):
        try:
            found = load_model(word, (resolve.app_dir(),))
        except KvcalcError:
            continue
        if word != name:
            assumed.append(Assumed("model", found.id, f"what {name} is a copy of"))
        return found
    return None


def weights_of(
    log: Log, model: Model, asked: dict[str, Any], settings: dict[str, Any]
) -> WeightInfo:
    """The weights' size where their format is sure: asked for, as stored, or told by the name."""
    unknown = WeightInfo(None, None, (), "exact")
    if asked.get("weights") is not None or asked.get("weight_bytes") is not None:
        return resolve.weights_of(model, asked.get("weights"), asked.get("weight_bytes"))
    stored = model.weights.dtype if model.weights is not None else "bf16"
    method = settings.get("quantization")
    name = (log.model or "").lower()
    told = next((fmt for words, fmt in _FORMATS if re.search(words, name)), None)
    if method is None and told is None:
        return resolve.weights_of(model, None, None) if stored in _SIXTEEN_BITS else unknown
    try:
        if told is not None:
            return resolve.weights_of(model, told, None)
        same = str(method).replace("modelopt_fp4", "nvfp4") in stored
        return resolve.weights_of(model, None, None) if same else unknown
    except KvcalcError:  # a format by name needs a count of parameters
        return unknown
