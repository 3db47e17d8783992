"""Where llama.cpp puts layers and weights: the last layers on GPUs, the rest on the host.

The input embedding is always on the host; GPUs share their layers in whole ones.

Source: `llama-model.cpp` (load_tensors) of llama.cpp 0c1e57098; until build 7480 the output layer
was the last to go to a GPU, since then it is the first (ggml-org/llama.cpp#18148).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.gguf_mix import Chooser, Mix
from kvcalc.core.gguf_types import FILE_TYPES, TYPES
from kvcalc.core.model import Model
from kvcalc.core.plan import Interval, Plan

#: Formats of whole files that leave every matrix as it is.
_PLAIN = {"bf16": "BF16", "fp16": "F16", "fp32": "F32"}


class Place(NamedTuple):
    """What one GPU holds: the indices of its layers, and whether the output layer."""

    layers: tuple[int, ...]
    output: bool


@lru_cache(maxsize=256)
def places(
    layers: int, gpus: int, n_gpu_layers: int | None, shares: tuple[Fraction, ...], *, first: bool
) -> tuple[Place, ...]:
    """The GPUs in order; n_gpu_layers counts the output layer (`first`: it goes first).

    Layer i of those on GPUs goes to the first GPU whose cumulated share is above i / count: of 81
    on two equal ones 41 (0 to 40) and 40.

    Raises:
        KvcalcError: "usage" if there are not as many shares as GPUs.
    """
    if shares and len(shares) != gpus:
        raise KvcalcError(
            "usage", f"tensor_split has {len(shares)} shares for {gpus} GPUs",
            "one share a GPU, like 3,1",
        )  # fmt: skip
    if gpus == 1 and n_gpu_layers is None:
        return (Place(tuple(range(layers)), output=True),)
    wanted = layers + 1 if n_gpu_layers is None else n_gpu_layers
    start = max(layers + int(first) - wanted, 0)
    count = min(wanted, layers + 1)
    given = shares or (Fraction(1),) * gpus
    ends = [sum(given[: i + 1], Fraction(0)) / sum(given) for i in range(gpus)]
    found: list[list[int]] = [[] for _ in range(gpus)]
    for layer in range(start, min(start + count, layers + 1)):
        at = Fraction(layer - start, count)
        gpu = next((i for i, end in enumerate(ends) if end > at), gpus - 1)
        found[gpu].append(layer)
    return tuple(Place(tuple(i for i in held if i < layers), layers in held) for held in found)


def only(model: Model, layers: tuple[int, ...]) -> Model:
    """The model with the caches of these layers alone; the others stay as empty layers.

    So patterns that go by a layer's number hold.
    """
    if len(layers) == len(model.layers):
        return model
    kept = frozenset(layers)
    return replace(
        model, layers=tuple(c if i in kept else () for i, c in enumerate(model.layers))
    )  # fmt: skip


def cut(model: Model, layers: tuple[int, ...]) -> Model:
    """The model of these layers, as a part of the answer."""
    if len(layers) == len(model.layers):
        return model
    return replace(model, layers=tuple(model.layers[i] for i in layers))


class Parts(NamedTuple):
    """Bytes of a file: input embedding (on the host), output layer, and all repeating layers."""

    embedding: int
    output: int
    repeating: Interval


def parts_of(plan: Plan) -> Parts | None:
    """The file's parts; None if its size is not known.

    A tied model's one matrix lies on the host as embedding and on a GPU as output.
    """
    total = plan.weights.bytes
    if total is None:
        return None
    model = plan.model
    rows = (model.hidden_size or 0) * (model.vocab_size or 0)
    elements = model.weights.embedding_elements if model.weights else None
    tied = bool(rows) and elements is not None and elements < 2 * rows
    name = (plan.weights.format or "").upper()
    embedding, output = (_bytes(name, part, plan, tied=tied) for part in ("token_embd", "output"))
    once = embedding if tied else embedding + output
    once = min(once, total)
    low, high = plan.weights.low_bytes or total, plan.weights.high_bytes or total
    return Parts(embedding, output, Interval(total - once, low - once, high - once))


def _bytes(name: str, part: str, plan: Plan, *, tied: bool) -> int:
    """Bytes of one matrix of vocabulary × hidden size in the file's own type for it."""
    model = plan.model
    hidden, rows = model.hidden_size or 0, model.vocab_size or 0
    kind = _PLAIN.get(name.lower())
    if kind is None and name in FILE_TYPES:
        names = ["token_embd.weight"] + ([] if tied else ["output.weight"])
        mix = Mix(model.architecture or "", len(model.layers), model.experts or 0)
        chooser = Chooser(name, FILE_TYPES[name][1], mix, names)
        tensor = "token_embd.weight" if tied else f"{part}.weight"
        kind = chooser.type_of(tensor, (hidden or 1, rows))
    if kind is None:
        bits = plan.weights.bits_per_weight or 16
        return int(hidden * rows * bits / 8)
    block = TYPES[kind]
    return hidden * rows // block.block_elements * block.block_bytes
