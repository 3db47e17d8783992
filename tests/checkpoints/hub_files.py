"""The files of a small repository of the hub, as bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

from tests.checkpoints.files import CONFIG, PARAMETERS, hf_tensors

COMMIT = "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"
TOKEN = "hf_neverToBePrinted"  # noqa: S105 - not a real one
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
Tensors = dict[str, tuple[str, tuple[int, ...]]]


def config(**changes: Any) -> bytes:
    """The config.json of a model of two layers."""
    return json.dumps({**CONFIG, **changes}).encode()


def safetensors(tensors: Tensors, *, padding: int = 0) -> bytes:
    """A file of BF16 tensors; `padding` blanks make its header longer."""
    table, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = 2
        for n in shape:
            size *= n
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(table).encode() + b" " * padding
    return struct.pack("<Q", len(header)) + header + bytes(at)


def single() -> dict[str, bytes]:
    """The model in one file."""
    return {"config.json": config(), "model.safetensors": safetensors(hf_tensors())}


def sharded(padding: int = 0) -> dict[str, bytes]:
    """The model in two shards with their index."""
    tensors = list(hf_tensors().items())
    halves = (dict(tensors[:10]), dict(tensors[10:]))
    places = {n: f for f, half in zip(SHARDS, halves, strict=True) for n in half}
    files = {f: safetensors(h, padding=padding) for f, h in zip(SHARDS, halves, strict=True)}
    index = {"metadata": {"total_size": 2 * PARAMETERS}, "weight_map": places}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    return {"config.json": config(), **files}
