"""`compare`: each technique's bytes by hand, defaults, and what has no row."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.api.compare import compare
from kvcalc.cli.main import run
from kvcalc.core.compare import FORMATS
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.compare import CompareResult, Technique

GIB = 2**30
TOKEN = 2 * 80 * 8 * 128 * 2  # bytes of a token of Llama-3.1 70B in bf16
LOAD = 26 * 4096  # tokens of 26 requests


def rows(result: CompareResult) -> dict[str, Technique]:
    return {t.technique: t for t in result.techniques}


@pytest.fixture(scope="module")
def plan() -> CompareResult:
    return compare(
        "llama-3.1-70b", context=4096, requests=26, shared_prefix=1024, window=1024, keep=512
    )


def test_the_baseline_is_every_request_in_full(plan: CompareResult) -> None:
    assert plan.baseline_bytes == LOAD * TOKEN == 32 * GIB + GIB // 2


def test_gqa_against_mha_of_64_heads(plan: CompareResult) -> None:
    row = rows(plan)["gqa"]
    assert row.bytes == LOAD * TOKEN
    assert row.before_bytes == LOAD * (2 * 80 * 64 * 128 * 2)
    assert (row.saved_bytes, row.factor) == (row.before_bytes - row.bytes, 8.0)
    assert row.quality == "negligible (designed in)"
    assert row.label == "GQA, 8 of 64 KV heads"


def test_what_mqa_would_take(plan: CompareResult) -> None:
    row = rows(plan)["mqa"]
    assert row.bytes == LOAD * (2 * 80 * 1 * 128 * 2)
    assert row.factor == 64.0


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("fp8", 2 * 80 * 8 * 128),
        ("int8_per_token_head", 2 * 80 * 8 * (128 + 4)),  # a 4-byte scale a head
        ("int4_per_token_head", 2 * 80 * 8 * (64 + 4)),
        ("nvfp4", 2 * 80 * 8 * 8 * 9),  # 8 blocks of 16 elements in 9 bytes
        ("q8_0", 2 * 80 * 32 * 34),  # 1,024 elements: 32 blocks of 34 bytes
        ("q4_0", 2 * 80 * 32 * 18),
    ],
)
def test_each_format(plan: CompareResult, name: str, token: int) -> None:
    row = rows(plan)[f"kv_{name}"]
    assert row.bytes == LOAD * token
    assert row.saved_bytes == LOAD * (TOKEN - token)
    assert row.quality == ("<1% loss" if name == "fp8" else "not judged here")


def test_fp8_halves_the_bytes_per_token(plan: CompareResult) -> None:
    assert rows(plan)["kv_fp8"].bytes == LOAD * 163_840
    assert rows(plan)["kv_fp8"].factor == 2.0


def test_pages_instead_of_the_models_maximum(plan: CompareResult) -> None:
    row = rows(plan)["paging"]
    assert row.before_bytes == 26 * 131_072 * TOKEN == 26 * 40 * GIB
    assert row.bytes == LOAD * TOKEN  # 4,096 are 256 whole blocks
    assert (row.factor, row.quality) == (32.0, "none")


def test_pages_for_the_articles_requests() -> None:
    found = compare("llama-3.1-70b", request=[500, 3800, 200], max_context=4096)
    row = rows(found)["paging"]
    assert row.before_bytes == 3 * 4096 * TOKEN
    assert row.bytes == 4528 * TOKEN  # 512 + 3,808 + 208
    assert found.baseline_bytes == 4096 * TOKEN  # -n and -c keep their meaning
    assert found.reserved_tokens == 4096


def test_a_shared_prefix_is_stored_once(plan: CompareResult) -> None:
    """26 · 4,096 − 25 · 1,024 tokens."""
    row = rows(plan)["prefix_caching"]
    assert row.bytes == (LOAD - 25 * 1024) * TOKEN
    assert row.saved_bytes == 25 * 1024 * TOKEN
    assert row.quality == "none (exact reuse)"


def test_only_whole_blocks_are_shared() -> None:
    """1,000 tokens are 62 whole blocks of 16 = 992."""
    found = compare("llama-3.1-70b", requests=2, shared_prefix=1000)
    assert rows(found)["prefix_caching"].saved_bytes == 992 * TOKEN


def test_ten_agents_and_a_prompt_of_16k() -> None:
    """16,384 shared and 4,096 of their own each, 32,768 bytes a token in int8."""
    found = compare(
        layers=16, kv_heads=4, head_dim=256, kv_dtype="int8", context=20480, requests=10,
        shared_prefix=16384,
    )  # fmt: skip
    assert found.baseline_bytes == 204_800 * 32_768 == 6_710_886_400
    assert rows(found)["prefix_caching"].bytes == 57_344 * 32_768 == 1_879_048_192


def test_a_window_and_eviction(plan: CompareResult) -> None:
    window, keep = rows(plan)["sliding_window"], rows(plan)["token_eviction"]
    assert window.bytes == 26 * 1024 * TOKEN
    assert (window.factor, window.quality) == (4.0, "loses distant context")
    assert keep.bytes == 26 * 512 * TOKEN
    assert (keep.factor, keep.quality) == (8.0, "depends on the model")


def test_the_order_of_the_article(plan: CompareResult) -> None:
    assert list(rows(plan)) == [
        "gqa", "mqa", *(f"kv_{name}" for name in FORMATS), "paging", "prefix_caching",
        "sliding_window", "token_eviction",
    ]  # fmt: skip
    assert plan.assumed == ()
    assert not any(t.assumed for t in plan.techniques)


@pytest.mark.parametrize(
    ("context", "quarter", "eighth"),
    [(4096, 1024, 512), (5000, 1024, 512), (131_072, 32_768, 16_384), (7, 1, 1), (1, 1, 1)],
)
def test_what_is_not_given_is_assumed_and_said(context: int, quarter: int, eighth: int) -> None:
    found = compare("llama-3.1-70b", context=context)
    assert [tuple(a) for a in found.assumed] == [
        ("--shared-prefix", quarter), ("--window", quarter), ("--keep", eighth),
    ]  # fmt: skip
    assert (found.window_tokens, found.keep_tokens) == (quarter, eighth)
    assert [t.technique for t in found.techniques if t.assumed] == [
        "prefix_caching", "sliding_window", "token_eviction",
    ]  # fmt: skip


def test_a_window_larger_than_the_models_changes_only_its_full_layers() -> None:
    """4 layers keep 1,000 tokens already; of 1 full layer 2,048 stay."""
    spec = ["4*sliding_window:2x64:1000", "1*full:2x64"]
    token = 2 * 2 * 64 * 2  # of one layer
    found = compare(group=spec, context=8000, window=2048)
    assert found.baseline_bytes == (4 * 1000 + 8000) * token
    assert rows(found)["sliding_window"].bytes == (4 * 1000 + 2048) * token
    only = compare(group=spec[:1], context=8000, window=2048)
    row = rows(only)["sliding_window"]
    assert (row.saved_bytes, row.factor) == (0, 1.0)
    assert row.note.startswith("changes nothing")


def test_an_mha_model_has_no_gqa_row_and_says_why() -> None:
    found = compare("gpt-3-175b")
    assert "gqa" not in rows(found)
    assert [o.reason for o in found.left_out] == [
        "this model is MHA: all 96 heads keep keys and values"
    ]
    assert rows(found)["mqa"].factor == 96.0
    assert found.context_tokens == 2048  # its maximum


def test_mla_is_held_against_the_heads_it_replaces() -> None:
    """61 layers: 128 heads of (128 + 64) and 128 elements, against 512 + 64."""
    row = rows(compare("deepseek-v3"))["mla"]
    assert row.before_bytes == 4096 * 61 * 128 * (192 + 128) * 2
    assert row.bytes == 4096 * 61 * 576 * 2


def test_a_state_stays_under_every_technique() -> None:
    """Jamba: 28 Mamba layers' state is the same; only 4 attention layers shrink."""
    found = compare("jamba-v0.1", context=4096, window=1024)
    token = 4 * 2 * 8 * 128 * 2
    state = found.baseline_bytes - 4096 * token
    assert state > 0
    assert rows(found)["sliding_window"].bytes == state + 1024 * token
    assert rows(found)["kv_fp8"].bytes == state + 4096 * token // 2


def test_a_format_whose_blocks_do_not_divide_is_left_out() -> None:
    """A head of 72 is no multiple of nvfp4's 16, nor a row of 72 of ggml's 32."""
    found = compare(layers=2, kv_heads=1, head_dim=72, query_heads=4)
    reasons = {o.technique: o.reason for o in found.left_out}
    assert {"kv_nvfp4", "kv_q8_0", "kv_q4_0"} <= reasons.keys()
    assert "a head of 72" in reasons["kv_nvfp4"]
    assert rows(found)["mqa"].label == "MQA, 1 of 4 KV heads"


def test_formats_that_take_no_less_are_left_out() -> None:
    found = compare("llama-3.1-8b", kv_dtype="fp8")
    assert {o.technique for o in found.left_out} == {"kv_int8_per_token_head", "kv_q8_0"}
    assert "kv_fp8" not in rows(found)


def test_a_model_without_a_cache_has_infinite_factors() -> None:
    found = compare(Model(id="mlp", name="MLP", layers=((),)), max_context=8192)
    assert found.baseline_bytes == 0
    assert {t.factor for t in found.techniques} == {None}


REFUSED = [
    ({"shared_prefix": 5000}, "usage", "--shared-prefix 5,000 is longer than -c 4,096"),
    ({"max_context": 2048}, "context_too_long", "-c 4,096 is longer than --max-context 2,048"),
    ({"request": [9000], "max_context": 8192}, "context_too_long", "--request 9,000"),
    ({"request": [500]}, "usage", "--request needs --max-context"),
    ({"window": 0}, "usage", "--window is 0"),
    ({"keep": "x"}, "usage", "--keep"),
    ({"requests": 0}, "usage", "-n is 0"),
    ({"kv_dtype": "fp9"}, "unknown_dtype", "fp9"),
]


@pytest.mark.parametrize(("options", "code", "text"), REFUSED)
def test_what_is_refused(options: dict[str, object], code: str, text: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        compare(layers=2, kv_heads=2, head_dim=64, **options)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert text in caught.value.message


@given(
    st.integers(1, 100_000), st.integers(1, 50), st.integers(1, 200_000), st.integers(1, 200_000)
)
def test_what_holds_for_any_load(context: int, requests: int, window: int, keep: int) -> None:
    found = compare("gemma-3-27b", context=context, requests=requests, window=window, keep=keep)
    for row in found.techniques:
        assert row.bytes + row.saved_bytes == row.before_bytes
        assert row.bytes > 0
        if row.technique != "paging":  # a page may end beyond the maximum
            assert row.saved_bytes >= 0
    shorter = rows(compare("gemma-3-27b", context=context, requests=requests, window=1))
    assert shorter["sliding_window"].bytes <= rows(found)["sliding_window"].bytes


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-c", "4K", "-n", "26", "--shared-prefix", "1k", "--json"]
    assert run(["compare", "llama-3.1-70b", *words]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["baseline_bytes"] == 34_896_609_280
    for row in data["techniques"]:
        assert {"technique", "bytes", "saved_bytes", "factor", "quality", "note"} <= row.keys()
    assert run(["compare", "llama-3.1-70b", "-f", "csv"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("technique,bytes,saved_bytes,factor,quality,note")
    assert len(lines) == 12
