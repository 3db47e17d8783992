"""Each preset against the facts collected for it: caches, parameters, limits, weights, memory."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model, model_entry
from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
)

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(os.path.dirname(HERE), "data")
#: Collected facts in their full form, where they lie beside the project.
SHARED = os.path.join(HERE, *[os.pardir] * 3, "shared", "facts")
Fact = dict[str, Any]


def lines(path: str) -> list[Fact]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


MODELS = lines(os.path.join(DATA, "model_facts.jsonl"))[1:]
GPUS = lines(os.path.join(DATA, "gpu_facts.jsonl"))[1:]
#: How the facts name a checkpoint's storage, and how presets do.
STORED = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8_e4m3fn": "fp8",
    "mxfp4 experts + bf16": "mxfp4",
    "int4 experts + bf16": "int4",
}


def of_facts(facts: list[Fact]) -> Counter[tuple[object, ...]]:
    """The facts' caches with their numbers of layers; a state as (conv, recurrent) elements."""
    found: Counter[tuple[object, ...]] = Counter()
    for f in facts:
        n, kind = f["layers"], f["kind"]
        if kind in {"full", "sliding", "chunked", "cross"}:
            reach = f.get("window") or f.get("chunk")
            found[kind, f["kv_heads"], f["k_dim"], f["v_dim"], reach] += n
        elif kind == "mla":
            found[kind, f["latent_dim"], f["rope_dim"]] += n
        elif kind == "csa_hca_hybrid":
            found["window", f["head_dim"], f["window"]] += n
            found["indexer", f["index_head_dim"]] += f["ratio_counts"]["4"]
            for ratio in ("4", "128"):
                found["compressed", f["head_dim"], int(ratio)] += f["ratio_counts"][ratio]
        elif kind == "shared":
            found[(kind,)] += n
        else:
            recurrent = f.get("ssm_state_elems") or f.get("recurrent_state_elems") or 0
            found["state", f.get("conv_state_elems", 0), recurrent] += n
        if "indexer_k_dim" in f:
            found["indexer", f["indexer_k_dim"]] += f["indexer_layers"]
    return found


def as_fact(c: Cache) -> tuple[object, ...]:  # noqa: PLR0911 - one return a kind
    """A core cache in the facts' words."""
    match c:
        case SlidingWindow():
            return "sliding", c.kv_heads, c.key_dim, c.value_dim, c.window
        case Chunked():
            return "chunked", c.kv_heads, c.key_dim, c.value_dim, c.chunk
        case Full():
            return "full", c.kv_heads, c.key_dim, c.value_dim, None
        case Cross():
            return "cross", c.kv_heads, c.key_dim, c.value_dim, None
        case Latent(window=None):
            return "mla", c.rank, c.rope_dim
        case Latent():
            return "window", c.rank + c.rope_dim, c.window
        case Indexer():
            return "indexer", c.dim
        case Compressed():
            return "compressed", c.dim, c.ratio
        case State():
            return "state", (c.conv_kernel - 1) * c.conv_channels, c.recurrent_elements
        case Shared():
            return ("shared",)
    raise TypeError(c)


@pytest.mark.parametrize("fact", MODELS, ids=lambda f: f["id"])
def test_the_caches_are_those_of_the_facts(fact: Fact) -> None:
    model = load_model(fact["id"])

    found = Counter(as_fact(cache) for layer in model.layers for cache in layer)
    assert found == of_facts(fact["kv"])


@pytest.mark.parametrize("fact", MODELS, ids=lambda f: f["id"])
def test_counts_and_limits_are_those_of_the_facts(fact: Fact) -> None:
    model = load_model(fact["hub"])

    assert model.id == fact["id"]
    assert model.confidence == fact["confidence"]
    assert model.max_context_tokens == fact["max_context"]
    assert model.parameters in {fact["computed_params"], None}
    if model.stored_parameters and fact["published_params"]:
        assert model.stored_parameters == fact["published_params"]
    assert model.active_parameters in {fact["active_params"], None}


@pytest.mark.parametrize("fact", MODELS, ids=lambda f: f["id"])
def test_weights_are_those_of_the_facts(fact: Fact) -> None:
    weights = load_model(fact["id"]).weights

    if weights is None:
        assert fact["confidence"] == "D" or "?" in fact["weight_dtype"]
        return
    if weights.low_bytes is None:
        assert weights.bytes in {fact["weight_bytes"], None}
    else:  # a size that a catalog lists, with its doubt
        assert fact["weight_bytes"] is None
        assert weights.bytes is not None
        assert weights.low_bytes < weights.bytes < (weights.high_bytes or 0)
    assert weights.dtype == STORED.get(fact["weight_dtype"], weights.dtype)


def test_only_uncertain_models_lack_their_parameters() -> None:
    lacking = {
        f["id"] for f in MODELS if f["computed_params"] and not load_model(f["id"]).parameters
    }

    # What is left over in the checkpoint has not been accounted for.
    unexplained = {"mistral-medium-3.5-128b", "mistral-large-3-675b-2512", "step3"}
    doubtful = {f["id"] for f in MODELS if f["confidence"] in {"C", "D"}}
    assert lacking <= doubtful | unexplained


def test_a_cache_names_the_config_field_behind_each_number() -> None:
    for fact in MODELS:
        for table in model_entry(fact["id"]).entry["layers"]:
            numbers = {k for k, v in table.items() if isinstance(v, int)}
            assert numbers - set(table.get("from", ())) <= {"encoder_tokens"}, fact["id"]


@pytest.mark.parametrize("fact", GPUS, ids=lambda f: f["id"])
def test_a_gpu_is_as_the_facts_say(fact: Fact) -> None:
    gpu = load_gpu(fact["id"])

    assert gpu.memory_bytes == fact["memory_bytes"]
    assert gpu.basis == fact["basis"]
    assert (gpu.low_bytes, gpu.high_bytes) == (fact["low_bytes"], fact["high_bytes"])
    assert gpu.confidence == fact["confidence"]
    # One of the module's two devices, as memory_bytes counts them; the facts count the module.
    devices = 2 if gpu.id == "mi250x" else 1
    visible = gpu.entry.get("visible_bytes")
    assert visible == (fact["visible_bytes"] and fact["visible_bytes"] // devices)
    if gpu.confidence != "low":
        assert gpu.bandwidth == pytest.approx(fact["bandwidth_gbs"] * 10**9 / devices, rel=1e-3)
        flops = {k: round(v * 10**12 / devices) for k, v in fact["dense_tflops"].items() if v}
        assert gpu.dense_flops == flops
        assert gpu.gpus_per_node == (fact["gpus_per_node"] and fact["gpus_per_node"] * devices)


@pytest.mark.skipif(not os.path.isdir(SHARED), reason="the full facts are not beside the project")
def test_the_committed_facts_are_the_collected_ones() -> None:
    ids = {f["hub"]: f for f in lines(os.path.join(SHARED, "ids.jsonl"))}
    assert {f["hub"]: f["id"] for f in MODELS} == {hub: f["id"] for hub, f in ids.items()}
    for fact in MODELS:
        name = fact["hub"].replace("/", "__")
        with open(os.path.join(SHARED, "models", f"{name}.json"), encoding="utf-8") as file:
            full = json.load(file)
        assert {k: full[k] for k in fact if k not in {"id", "hub", "kv"}} == {
            k: v for k, v in fact.items() if k not in {"id", "hub", "kv"}
        }
        assert of_facts(fact["kv"]) == of_facts(full["kv"])
        for alias in ids[fact["hub"]]["aliases"]:
            assert load_model(alias).id == fact["id"]


@pytest.mark.skipif(not os.path.isdir(SHARED), reason="the full facts are not beside the project")
def test_the_committed_gpu_facts_are_the_collected_ones() -> None:
    full = {f["id"]: f for f in lines(os.path.join(SHARED, "gpus.jsonl"))}
    assert set(full) == {f["id"] for f in GPUS}
    for fact in GPUS:
        assert fact["memory_bytes"] == full[fact["id"]]["program_memory"]["bytes"]
        assert fact["dense_tflops"] == full[fact["id"]]["dense_tflops"]
