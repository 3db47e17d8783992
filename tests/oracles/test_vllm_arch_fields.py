"""Layers, query heads, KV heads and head size as vLLM 0.33 resolves them.

For MLA the head size is rank + rope and KV heads are not compared. T5, BART and Whisper (vLLM
takes the encoder's depth), LongCat (it counts two attentions as one layer), MiniCPM3 (it expands
the latent) and pure state models are its own reading and only listed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kvcalc.checkpoints.config import model_from_config
from kvcalc.core.cache import Full, Latent

if TYPE_CHECKING:
    from .conftest import Tally

Record = dict[str, Any]
OWN_READING = {
    "t5", "bart", "whisper", "longcat_flash", "minicpm3", "mamba", "mamba2", "falcon_mamba", "rwkv",
}  # fmt: skip


def fields(record: Record) -> Record:
    config = record["config_min"]
    model = model_from_config(config, name=record["name"], where="config.json")
    own = [c for layer in model.layers for c in layer if isinstance(c, (Full, Latent))]
    found: Record = {"num_layers": len(model.layers), "num_heads": model.query_heads}
    if "per_layer_kv_heads_head_size" in record:  # then vLLM's head size is the largest
        found["per_layer_kv_heads_head_size"] = [
            [c.kv_heads, c.key_dim] for c in own if isinstance(c, Full)
        ]
        return found
    first = own[0]
    if isinstance(first, Latent):
        return {**found, "head_size": first.rank + first.rope_dim}
    return {**found, "head_size": first.key_dim, "num_kv_heads": first.kv_heads}


def recorded(record: Record) -> Record:
    names = ["num_layers", "num_heads"]
    if "per_layer_kv_heads_head_size" in record:
        names.append("per_layer_kv_heads_head_size")
    else:
        names += ["head_size"] if record["is_mla"] else ["head_size", "num_kv_heads"]
    return {name: record[name] for name in names}


@pytest.mark.parametrize("place", ["", "shared/"])
def test_fields_are_those_of_vllm(
    place: str, read: Callable[[str], list[Record]], tally: Tally
) -> None:
    for record in read(f"{place}vllm_arch_fields"):
        if record["model_type"] in OWN_READING:
            tally.counts["listed"] += 1
            continue
        tally.check(record["name"], partial(fields, record), recorded(record))
    tally.assert_equal()
