"""Mutated real configs: a Model or a KvcalcError, nothing else, and never a figure from nonsense.

Seeds are the configs of tests/data. A mutation replaces, drops or adds fields anywhere; a second
test damages the fields that shape the cache and expects a refusal or the undamaged layers.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kvcalc.checkpoints.config import load_json, model_from_config
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.engines.transformers import cache_bytes

DATA = Path(__file__).parents[1] / "data"
FILES = ("hf_own_runs", "hf_cache_bytes", "hf_wrapper_cache_bytes")
SEEDS: list[dict[str, Any]] = [
    record.get("config") or record["config_min"]
    for name in FILES
    for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    if "model_type" in (record := json.loads(line))
]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.integers(), st.floats(), st.text(max_size=8),
    st.lists(st.one_of(st.integers(-2, 3), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(-1, 4), max_size=3),
    st.sampled_from([10**9, 10**30, "full_attention", "\x1b[0m", math.nan, {"1": {"skip": []}}]),
)  # fmt: skip
#: Fields that every family checks, whether it needs them or not.
SHAPING = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size")
NONSENSE = st.sampled_from([-1, -(10**9), 10**9, "4", "", 2.5, math.nan, True, {}, [[]]])
slow = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def places(config: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Every object of a config with each of its keys."""
    found = [(config, key) for key in config]
    for value in config.values():
        if isinstance(value, dict):
            found += places(value)
    return found


def read(config: dict[str, Any]) -> Model | KvcalcError:
    found: Model | KvcalcError
    try:
        found = model_from_config(config, name="m", where="config.json")
    except KvcalcError as error:
        found = error
    if isinstance(found, KvcalcError):
        assert found.message.isprintable()
    else:
        assert 0 < len(found.layers) <= 20_000
    return found


@slow
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_configs_give_a_model_or_one_line(
    seed: dict[str, Any], data: st.DataObject
) -> None:
    config = json.loads(json.dumps(seed))
    for _ in range(data.draw(st.integers(1, 4))):
        where, key = data.draw(st.sampled_from(places(config)))
        match data.draw(st.sampled_from(["replace", "replace", "drop", "add"])):
            case "drop":
                where.pop(key, None)
            case "add":
                other = data.draw(st.sampled_from(places(data.draw(st.sampled_from(SEEDS)))))
                where[other[1]] = deepcopy(other[0][other[1]])
            case _:
                where[key] = deepcopy(data.draw(VALUES))
    found = read(config)
    if isinstance(found, Model):
        with suppress(KvcalcError):
            assert cache_bytes(found, 33, batch=2).total_bytes >= 0


@slow
@given(st.sampled_from(SEEDS), st.sampled_from(SHAPING), NONSENSE)
def test_damaged_shapes_never_give_a_figure(
    seed: dict[str, Any], field: str, value: object
) -> None:
    config = json.loads(json.dumps(seed))
    at = [where for where, key in places(config) if key == field]
    at = [where for where in at if where is config or where is config.get("text_config")]
    assume(at)
    at[-1][field] = value
    assert isinstance(read(config), KvcalcError), config


@slow
@given(st.sampled_from(SEEDS), st.binary(max_size=8), st.data())
def test_damaged_bytes(
    tmp_path_factory: Any, seed: dict[str, Any], noise: bytes, data: st.DataObject
) -> None:
    text = json.dumps(seed).encode()
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(at, min(len(text), at + 12)))
    path = tmp_path_factory.getbasetemp() / "fuzzed.json"
    path.write_bytes(text[:at] + noise + text[cut:])
    with suppress(KvcalcError):
        read(load_json(str(path)))
