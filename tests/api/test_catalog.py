"""kvcalc.models, kvcalc.gpus, kvcalc.dtypes: lists, filters, single entries."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc import KvcalcError
from kvcalc.core.results.catalog import DtypeItem, EntryResult, GpuItem, Listing, ModelItem

GIB = 2**30


def models(**filters: Any) -> dict[str, ModelItem]:
    result = kvcalc.models(**filters)
    assert isinstance(result, Listing)
    return {m.id: m for m in result.items if isinstance(m, ModelItem)}


def gpus(**filters: Any) -> dict[str, GpuItem]:
    result = kvcalc.gpus(**filters)
    assert isinstance(result, Listing)
    return {g.id: g for g in result.items if isinstance(g, GpuItem)}


def entry(result: Listing | EntryResult) -> dict[str, Any]:
    assert isinstance(result, EntryResult)
    return result.to_dict()


def test_models_stand_with_their_sizes() -> None:
    """Llama-3.1-70B: 327,680 × 131,072 = 42,949,672,960 at its longest."""
    llama = models()["llama-3.1-70b"]

    assert (
        llama.bytes_per_token, llama.state_bytes_per_request, llama.max_context_tokens,
        llama.bytes_at_max_context,
    ) == (327_680, 0, 131_072, 42_949_672_960)  # fmt: skip
    assert (llama.attention, llama.layers) == ("gqa", "80 full")


def test_models_of_a_family() -> None:
    found = models(family="MIXTRAL")

    assert {"mixtral-8x7b", "mixtral-8x22b"} <= set(found)
    assert all("mixtral" in f"{m.family} {m.id}".lower() for m in found.values())
    assert models(family="no such family") == {}


@pytest.mark.parametrize(
    ("kind", "member"),
    [("mha", "gpt-3-175b"), ("gqa", "llama-3.1-8b"), ("mqa", "falcon-7b"), ("mla", "deepseek-v3"),
     ("none", "mamba-2.8b")],
)  # fmt: skip
def test_models_of_a_kind_of_attention(kind: str, member: str) -> None:
    found = models(attention=kind)

    assert member in found
    assert {kind} == {m.attention for m in found.values()}


def test_one_model_in_full() -> None:
    data = entry(kvcalc.models("llama-3.1-70b"))

    assert tuple(data[k] for k in ("id", "layers", "query_heads", "kv_heads", "head_dim")) == (
        "llama-3.1-70b",
        80,
        64,
        8,
        128,
    )
    (group,) = data["layer_groups"]
    assert "num_key_value_heads" in group["from"]["kv_heads"]
    assert data["sources"]
    assert entry(kvcalc.models("meta-llama/Llama-3.1-70B")) == data


def test_gpus_by_vendor_and_memory() -> None:
    large = gpus(min_memory="80GB", vendor="NVIDIA")

    assert "h200-sxm" in large
    assert "rtx4090" not in large
    assert {"nvidia"} == {g.vendor.lower() for g in large.values()}
    assert min(g.memory_bytes for g in large.values()) >= 80 * 10**9
    assert gpus(min_memory="1TiB") == {}


def test_one_gpu_in_full() -> None:
    data = entry(kvcalc.gpus("h100"))

    assert data["id"] == "h100-sxm"
    assert 79 * GIB < data["memory_bytes"] < 80 * GIB
    assert gpus()["h100-sxm"].memory_bytes == data["memory_bytes"]


@pytest.mark.parametrize(
    ("name", "block", "pair"),
    [("bf16", (1, 2, 0), 512), ("q8_0", (32, 34, 0), 272), ("q4_0", (32, 18, 0), 144),
     ("int8_per_token_head", (1, 1, 4), 264), ("nvfp4", (16, 9, 0), 144),
     ("turboquant_k8v4", (1, 0, 0), 196)],
)  # fmt: skip
def test_formats_stand_with_their_blocks(name: str, block: tuple[int, int, int], pair: int) -> None:
    """K and V of a head of 128: bf16 2 × 128 × 2, q8_0 2 × 4 × 34, nvfp4 1.125 × 128."""
    result = kvcalc.dtypes()
    assert isinstance(result, Listing)
    items = {d.key: d for d in result.items if isinstance(d, DtypeItem)}

    assert block == items[name][2:5]
    assert pair == items[name].head_128_bytes
    assert {"block_elements": block[0], "head_128_bytes": pair} == {
        k: entry(kvcalc.dtypes(name))[k] for k in ("block_elements", "head_128_bytes")
    }


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: kvcalc.models("no-such-model"), "unknown_model"),
        (lambda: kvcalc.models(""), "usage"),
        (lambda: kvcalc.models(5), "usage"),  # type: ignore[arg-type]
        (lambda: kvcalc.models(attention="foo"), "usage"),
        (lambda: kvcalc.gpus("no-such-gpu"), "unknown_gpu"),
        (lambda: kvcalc.gpus(""), "usage"),
        (lambda: kvcalc.gpus(5), "usage"),  # type: ignore[arg-type]
        (lambda: kvcalc.gpus(min_memory="80G"), "usage"),
        (lambda: kvcalc.dtypes("fp9"), "unknown_dtype"),
        (lambda: kvcalc.dtypes(5), "unknown_dtype"),  # type: ignore[arg-type]
    ],
)
def test_wrong_names_are_refused(call: Any, code: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        call()

    assert code == refused.value.code
