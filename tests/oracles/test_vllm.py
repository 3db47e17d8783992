"""vLLM's own planner, state shapes, pipeline split and turboquant slots: equal in every record."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from kvcalc.core.dtypes import dtype, pair_bytes
from kvcalc.core.shard import pp_split
from kvcalc.engines.vllm import Plan, plan, state_shape

ROOT = Path(__file__).parents[2]
ORACLES = ROOT.parent / "shared" / "oracles"


def sources(name: str) -> list[Any]:
    everything = ORACLES / f"{name}.jsonl"
    missing = pytest.mark.skipif(not everything.exists(), reason="no ../shared")
    return [
        pytest.param(ROOT / "tests" / "data" / f"{name}.jsonl", id="sample"),
        pytest.param(everything, id="all", marks=missing),
    ]


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def planned(record: dict[str, Any]) -> Plan:
    return plan(
        record["input_layers"],
        record["available_bytes"],
        max_model_len=record["max_model_len"],
        max_in_flight_tokens=record["max_in_flight_tokens"],
        layout=record["layout"],
        mamba_cache_mode=record["mamba_cache_mode"],
        disable_hybrid=record["disable_hybrid"],
        dcp=record["dcp"],
        auto_fit=record.get("final_max_model_len", record["max_model_len"])
        != record["max_model_len"],
    )


def groups_of(result: Plan) -> list[dict[str, Any]]:
    return [
        {
            "n_layers": g.n_layers,
            "spec_type": g.spec_type,
            "block_size": g.block_size,
            "page_size_bytes": g.page_size_bytes,
            "blocks_per_request": g.blocks_per_request,
        }
        for g in result.groups
    ]


FIGURES = (
    "num_blocks",
    "bytes_per_block",
    "tensor_bytes",
    "kv_cache_size_tokens",
    "max_concurrency",
    "final_max_model_len",
)


@pytest.mark.parametrize("path", sources("vllm_planner"))
def test_the_planner(path: Path) -> None:
    different = []
    for record in records(path):
        if "workers" in record:
            continue
        result = planned(record)
        if "error" in record:
            # The records cut the text short.
            equal = (result.error or "").startswith(record["error"])
        else:
            equal = (
                result.error is None
                and groups_of(result) == record["groups"]
                and all(getattr(result, f) == record[f] for f in FIGURES)
            )
        if not equal:
            different.append((record["id"], record["name"], result))
    assert not different


@pytest.mark.parametrize("path", sources("vllm_planner"))
def test_pipeline_stages_take_the_smallest_number_of_blocks(path: Path) -> None:
    for record in (r for r in records(path) if "workers" in r):
        shape = record["params"]
        spec = {
            "type": "FullAttentionSpec",
            "block_size": shape["block"],
            "num_kv_heads": shape["H_kv"],
            "head_size": shape["d"],
            "head_size_v": shape["d"],
            "dtype": shape["dtype"],
        }
        workers = record["workers"]
        result = plan(
            [[spec] * w["layers"] for w in workers],
            [w["available"] for w in workers],
            max_model_len=record["max_model_len"],
            max_in_flight_tokens=24576,
            layout="LBNHC",
            mamba_cache_mode="none",
            disable_hybrid=False,
            dcp=1,
        )
        assert [result.num_blocks] * len(workers) == record["num_blocks"]
        assert result.tokens == record["kv_cache_size_tokens"]
        assert result.max_concurrency == record["max_concurrency"]


@pytest.mark.parametrize("path", sources("vllm_state_shape"))
def test_state_shapes(path: Path) -> None:
    for record in records(path):
        shapes = state_shape(record["name"], record["tp"], **record["params"])
        assert shapes == record["shapes"], record["id"]
        assert [prod(shape) for shape in shapes] == record["numel"]


@pytest.mark.parametrize("path", sources("vllm_pp_split"))
def test_pipeline_splits(path: Path) -> None:
    for record in records(path):
        assert pp_split(record["num_layers"], record["pp"]) == record["layers_per_rank"]


@pytest.mark.parametrize("path", sources("vllm_turboquant_slot"))
def test_turboquant_slots(path: Path) -> None:
    for record in records(path):
        dim = record["head_dim"]
        slot = pair_bytes(dtype(record["cache_dtype"]), dim, dim)
        assert slot == record["bytes_per_token_per_kv_head"], record["id"]
