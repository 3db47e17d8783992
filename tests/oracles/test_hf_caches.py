"""Cache bytes of models that transformers 5.24 ran, from their configs, to the byte.

Sets: prefill, prefill and decode, static caches, multimodal wrappers, default configs. Both the
config as typed and the whole saved one must give the recorded bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kvcalc.checkpoints.config import model_from_config
from kvcalc.core.cache import State
from kvcalc.core.model import Model, with_encoder_tokens
from kvcalc.engines.transformers import cache_bytes, parts, step_of

if TYPE_CHECKING:
    from .conftest import Tally

Record = dict[str, Any]
Read = Callable[[str], list[Record]]
SETS = (
    "hf_cache_bytes", "hf_decode_cache_bytes", "hf_static_cache_bytes", "hf_wrapper_cache_bytes",
    "hf_default_config_params_and_cache",
)  # fmt: skip


def model_of(record: Record, key: str) -> Model:
    model = model_from_config(record[key], name=record["model_type"], where="config.json")
    tokens = record.get("encoder_len", record.get("cross_len"))
    return model if tokens is None else with_encoder_tokens(model, tokens)


def stored(record: Record, key: str) -> int:
    static: dict[str, Any] = {}
    if "max_cache_len" in record:
        static = {"cache_implementation": "static", "max_cache_len": record["max_cache_len"]}
    return cache_bytes(
        model_of(record, key), record["seq_len"], batch=record.get("batch", 1),
        kv_dtype=record["dtype"], **static,
    ).total_bytes  # fmt: skip


@pytest.mark.parametrize("place", ["", "shared/"])
@pytest.mark.parametrize("name", SETS)
def test_bytes_are_those_of_the_run(name: str, place: str, read: Read, tally: Tally) -> None:
    for record in read(place + name):
        if record.get("bytes_total") is None:  # a default config whose forward pass failed
            continue
        for key in ("config_min", "config"):
            if key in record:
                label = f"{record.get('name', record['model_type'])} {key} n={record['seq_len']}"
                tally.check(label, partial(stored, record, key), record["bytes_total"])
    tally.assert_equal()


@pytest.mark.parametrize("place", ["", "shared/"])
def test_states_held_in_modules(place: str, read: Read, tally: Tally) -> None:
    """RecurrentGemma's modules hold the states; its attention was not recorded."""
    for record in read(f"{place}hf_module_state_bytes"):
        for key in ("config_min", "config"):
            if key in record:
                tally.check(
                    f"{record['model_type']} {key}",
                    partial(state_bytes, record, key),
                    record["bytes_total"],
                )
    tally.assert_equal()


def state_bytes(record: Record, key: str) -> int:
    model = model_of(record, key)
    step = step_of(model, record["seq_len"], record["batch"], record["dtype"])
    found = [parts(c, step) for layer in model.layers for c in layer if isinstance(c, State)]
    batch: int = record["batch"]
    return batch * sum(part.key_bytes + part.value_bytes for part in found)


def test_own_runs_of_further_model_types(read: Read, tally: Tally) -> None:
    """Tiny models with random weights, one of every type that transformers 5.24 can run."""
    records = read("hf_own_runs")
    for record in records:
        tally.check(record["model_type"], partial(stored, record, "config"), record["bytes_total"])
    tally.assert_equal()
    assert len({record["model_type"] for record in records}) > 180
