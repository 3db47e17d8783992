"""Prefixes stored once: sums, their inverse, and which engines share what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvcalc
from kvcalc import KvcalcError
from kvcalc.core import sharing
from kvcalc.core.results.fit import FitResult


def test_three_adapters_keep_three_copies() -> None:
    """10 units each, 8 of them the prefix: 5 requests are 5 · 2 + 8, or with 3 copies + 24."""
    assert sharing.held(5, 10, 8) == 18
    assert sharing.held(5, 10, 8, 3) == 34
    assert sharing.held(2, 10, 8, 3) == 20, "two requests of three adapters share nothing"
    assert sharing.held(0, 10, 8, 3) == 0


def test_requests_in_a_room() -> None:
    """26 = 8 + 9 · 2: nine; with 3 copies 24 + 1 · 2 would be one of three, so 26 // 10 = 2."""
    assert sharing.most(26, 10, 8) == 9
    assert sharing.most(26, 10, 8, 3) == 2
    assert sharing.most(30, 10, 8, 3) == 3
    assert sharing.most(9, 10, 8) == 0
    assert sharing.most(10, 10, 10) == 2**40, "all of it is shared: no end"


@given(st.integers(0, 2000), st.integers(1, 60), st.integers(0, 60), st.integers(1, 6))
def test_the_most_is_the_last_that_is_held(room: int, one: int, shared: int, copies: int) -> None:
    shared = min(shared, one - 1)
    n = sharing.most(room, one, shared, copies)

    assert n == 0 or sharing.held(n, one, shared, copies) <= room
    assert sharing.held(n + 1, one, shared, copies) > room


def fit(**options: Any) -> FitResult:
    made = {"model": "llama-3.1-8b", "kv_pool": "20GiB", "context": 4096, "shared_prefix": 3000}
    result = kvcalc.fit(**{**made, **options})
    assert isinstance(result, FitResult)
    return result


@pytest.mark.parametrize(
    ("options", "shared", "requests"),
    [
        # 20 GiB are 10,240 blocks of 16 tokens; a request has 256, 187 of them the prefix.
        ({}, 2992, (10_240 - 1 - 187) // 69),
        ({"prefix_copies": 3}, 2992, (10_240 - 1 - 3 * 187) // 69),
        ({"set": {"enable_prefix_caching": "false"}}, 0, 10_239 // 256),
        ({"engine_version": "0.6"}, 0, 10_240 // 256),
        ({"engine_version": "0.6", "set": {"enable_prefix_caching": "true"}}, 2992, 10_053 // 69),
        ({"engine": "sglang"}, 3000, None),
        ({"engine": "sglang", "set": {"disable_radix_cache": "true"}}, 0, 40),
        # 2,560 blocks of 64 tokens; a request has 64.
        ({"engine": "lmdeploy"}, 0, 2_560 // 64),
        ({"engine": "lmdeploy", "set": {"enable_prefix_caching": "true"}}, 2944, None),
        # 5,120 blocks of 32; a request has 128, 93 of them the prefix.
        ({"engine": "tensorrt-llm"}, 2976, (5_120 - 93) // 35),
        ({"engine": "tensorrt-llm", "set": {"enable_block_reuse": "false"}}, 0, 5_120 // 128),
        ({"engine": "llama.cpp"}, 0, 40),
        ({"engine": "transformers"}, 0, 40),
        ({"engine": "none"}, 2992, (163_840 - 2992) // (4096 - 2992)),
    ],
)
def test_what_engines_share(options: dict[str, Any], shared: int, requests: int | None) -> None:
    r = fit(**options)

    assert r.shared_prefix is not None
    assert r.shared_prefix.tokens == 3000
    assert r.shared_prefix.shared_tokens == shared
    if requests is not None:
        assert r.max_requests == requests
    assert any(limit.code == "shared_prefix" for limit in r.limits) == (not shared)


def test_a_prefix_under_one_block_shares_nothing() -> None:
    """Qwen3-Next's blocks grow to 544 tokens to hold a state."""
    asked = {"model": "qwen3-next-80b-a3b", "kv_pool": "20GiB"}
    none, short = (fit(**asked, shared_prefix=n) for n in (None, 240))
    long = fit(**asked, shared_prefix=1600)

    assert none.max_requests == short.max_requests < long.max_requests
    assert "shorter than a block of 544" in str(short.limits)
    assert none.shared_prefix is None
    assert long.shared_prefix is not None
    assert long.shared_prefix.shared_tokens == 2 * 544


def test_windows_share_until_they_have_slid_over_the_prefix() -> None:
    """Exaone-4: 16 full layers and 48 with a window of 4,096, in four groups of 16 layers.

    992 of 1,000 tokens are 62 blocks of each group. At 4,096 tokens the windows hold them all; at
    4,596 they have left 500 tokens behind and freed the 31 whole blocks in them: 31 are held.
    """
    block = 16 * 16 * 4096
    asked = {"model": "exaone-4.0-32b", "kv_pool": "1MiB", "requests": 2}
    for tokens, shared in ((4096, 4 * 62), (4596, 62 + 3 * 31), (5096, 62)):
        apart, same = (
            fit(**asked, context=tokens, shared_prefix=1000, prefix_copies=n) for n in (2, 1)
        )
        assert apart.ranks[0].block_bytes == block
        assert apart.shortfall_bytes - same.shortfall_bytes == shared * block


def test_size_and_compare_count_copies() -> None:
    """1,000 tokens share 992; 262,144 bytes each, five requests of two adapters."""
    one = kvcalc.size("exaone-4.0-32b", context=2048, requests=5, shared_prefix=1000)
    two = kvcalc.size(
        "exaone-4.0-32b", context=2048, requests=5, shared_prefix=1000, prefix_copies=2
    )
    assert two.contexts[0].total_bytes - one.contexts[0].total_bytes == 992 * 262_144
    made = kvcalc.compare(
        "exaone-4.0-32b", context=2048, requests=5, shared_prefix=1000, prefix_copies=2
    )
    prefix = next(t for t in made.techniques if t.technique == "prefix_caching")
    assert prefix.bytes == two.contexts[0].total_bytes


def test_copies_need_a_prefix() -> None:
    for command in (kvcalc.size, kvcalc.compare):
        with pytest.raises(KvcalcError, match="--prefix-copies needs --shared-prefix"):
            command("llama-3.1-8b", prefix_copies=2)
    with pytest.raises(KvcalcError, match="--prefix-copies is 0"):
        fit(prefix_copies=0)


def planned(model: str, **options: Any) -> FitResult:
    """As it is asked, without a pool or a context of these tests."""
    result = kvcalc.fit(model, **options)
    assert isinstance(result, FitResult)
    return result


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"shared_prefix": 4096}, "--shared-prefix 4,096 leaves nothing of -c 4,096"),
        ({"shared_prefix": 10**12}, "leaves nothing of -c 4,096"),
        ({"shared_prefix": 2000, "average_context": 2000},
         "leaves nothing of --average-context 2,000"),
    ],
)  # fmt: skip
def test_requests_that_are_nothing_but_their_prefix(asked: dict[str, int], said: str) -> None:
    """Any number of them would fit."""
    with pytest.raises(KvcalcError, match=said):
        planned("llama-3.1-8b", gpu="4090", **asked)


def test_the_ladder_begins_beyond_the_prefix() -> None:
    r = planned("llama-3.1-8b", kv_pool="20GiB", context=4000, shared_prefix=3000)

    assert [step.context_tokens for step in r.ladder][:2] == [4000, 4096]


def test_a_context_is_solved_for_with_the_whole_prefix() -> None:
    """10,239 blocks of 16 tokens hold 500 blocks of the prefix once and 20 · 486 others: 986 each.

    The default context of 4,096 is shorter than the prefix and cuts nothing off it.
    """
    asked: dict[str, Any] = {
        "kv_pool": "20GiB",
        "requests": 20,
        "shared_prefix": 8000,
        "solve": "context",
    }
    r = planned("llama-3.1-8b", **asked)
    assert r.solved is not None
    assert r.solved.value == (500 + (10_239 - 500) // 20) * 16
    # The prefix alone is 8,125 blocks; 1 GiB are 512.
    none = planned("llama-3.1-8b", **{**asked, "shared_prefix": 130_000, "kv_pool": "1GiB"})
    assert none.solved is not None
    assert none.solved.value is None
    assert not none.fits


def test_no_suggestion_is_shorter_than_the_prefix() -> None:
    r = planned("llama-3.1-8b", gpu="4090", context=60_000, requests=5, shared_prefix=50_000)

    assert not r.fits
    assert not [s for s in r.suggestions if s.change == "context"]


def test_a_prefix_is_part_of_each_request() -> None:
    with pytest.raises(KvcalcError, match="--shared-prefix 5,000 is longer than -c 4,096"):
        kvcalc.size("llama-3.1-8b", context=4096, shared_prefix=5000)
    mixed = kvcalc.size("llama-3.1-8b", request=[2000, 500], shared_prefix=100)
    assert mixed.batch is not None
    assert mixed.batch.total_bytes == 2500 * 131_072
    assert [w.code for w in mixed.warnings] == ["batch_unshared"]
    with pytest.raises(KvcalcError, match="leaves nothing of -c 2,000"):
        kvcalc.report("llama-3.1-8b", gpu="h100", context=[4096, 2000], shared_prefix=3000)


def test_a_block_is_shared_while_the_window_is_over_a_token_of_it() -> None:
    """Gemma-3-27B at 4,005 tokens, 3,000 of them shared: full layers share 187 blocks.

    Windows of 1,024 have left 2,981 tokens behind, 186 whole blocks of 16, and share the 187th in
    each of their 6 groups. A request has 251 blocks and 6 · 252.
    """
    r = planned("gemma-3-27b", gpu="h100", kv_pool="400GiB", context=4005, shared_prefix=3000)

    blocks = 400 * 2**30 // (10 * 16 * 16 * 256 * 2) - 1
    one, shared = 251 + 6 * 252, 187 + 6 * (187 - 186)
    assert r.max_requests == (blocks - shared) // (one - shared)
    assert r.max_requests != (blocks - 187) // (one - 187)


@pytest.mark.parametrize(
    ("engine", "shared", "saved", "blocks"),
    [
        # 10 requests of 256 blocks of 16 tokens, 2 MiB each; 64 of them shared nine times.
        ("vllm", 1024, 9 * 64 * 2 * 2**20, 2560 - 9 * 64),
        ("sglang", 1030, 9 * 1030 * 131_072, 40_960 - 9 * 1030),
        ("tensorrt-llm", 1024, 9 * 1024 * 131_072, 1280 - 9 * 32),
        ("lmdeploy", 0, 0, 640),
        ("llama.cpp", 0, 0, None),
        ("ollama", 0, 0, None),
        ("transformers", 0, 0, None),
    ],
)
def test_size_of_an_engine_that_shares(
    engine: str, shared: int, saved: int, blocks: int | None
) -> None:
    made = kvcalc.size(
        "llama-3.1-8b", context=4096, requests=10, shared_prefix=1030, engine=engine
    ).contexts[0]
    alone = kvcalc.size("llama-3.1-8b", context=4096, requests=10, engine=engine).contexts[0]

    last = made.engine_items[-1]
    assert (last.item, last.cells, last.streams, last.bytes) == ("shared prefix", shared, 9, -saved)
    assert made.engine_bytes == sum(i.bytes for i in made.engine_items)
    assert alone.engine_bytes is not None
    assert made.engine_bytes == alone.engine_bytes - saved
    assert made.engine_blocks == blocks


def test_a_pipelines_stages_share_each_their_layers() -> None:
    """Of 10,240 · 16 tokens four ranks hold a quarter each: saved in all the same."""
    one, four = (
        kvcalc.size(
            "llama-3.1-8b", context=4096, requests=10, shared_prefix=1024, engine="vllm", tp=n, pp=n
        ).contexts[0]
        for n in (1, 2)
    )
    assert one.engine_bytes == four.engine_bytes
