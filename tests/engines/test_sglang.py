"""SGLang: the share that stays free, pools, states, slots, what it logs and refuses.

Shares are those of its own rule for known GPUs and releases; pools are worked out by hand.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc import resolve
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.fit import fit
from kvcalc.core.plan import Device, Memory, Plan
from kvcalc.core.results.fit import FitResult, GpuInfo
from kvcalc.core.shard import Parallel
from kvcalc.core.units import GIB, MIB
from kvcalc.engines.sglang import SGLANG
from kvcalc.engines.sglang_memory import prefill_graphs, start_of
from kvcalc.engines.sglang_pool import Pools

HOPPER = Device("h100-sxm", "H100", "NVIDIA", "Hopper")


def plan(model: str = "llama-3.1-8b", total: float = 79.18, **changes: Any) -> Plan:
    """A plan on one GPU of `total` GiB."""
    found = resolve.model_of(model)
    return Plan(
        model=found, storage=storage(changes.pop("kv", "bf16"), model="bf16"),
        parallel=changes.pop("parallel", Parallel()),
        weights=resolve.weights_of(found, None, None),
        memory=Memory(int(total * GIB)), context=changes.pop("context", 8192), rules=SGLANG,
        device=changes.pop("device", HOPPER), **changes,
    )  # fmt: skip


def answer(made: Plan) -> FitResult:
    return fit(made, GpuInfo(None, "GPU", made.parallel.gpus, None, "exact"))


#: Defaults of 0.4.3, 0.4.9, 0.5.5, 0.5.10 and 0.5.23 at tp 1, by nvidia-smi's total in MiB.
SHARES = [
    (81_559, "0.880 0.874 0.835 0.830 0.830"),
    (143_771, "0.880 0.911 0.907 0.903 0.903"),
    (24_564, "0.880 0.879 0.847 0.833 0.704"),
    (183_359, "0.880 0.821 0.857 0.854 0.854"),
]


@pytest.mark.parametrize(("total", "shares"), SHARES)
def test_the_default_share_is_that_of_each_release(total: int, shares: str) -> None:
    found = [
        start_of(plan(total=total / 1024, version=version), 0, 0).fraction
        for version in ("0.4.3", "0.4.9", "0.5.5", "0.5.10", "0.5.23")
    ]

    assert [f"{float(share):.3f}" for share in found] == shares.split()


def test_eight_ranks_keep_more_free() -> None:
    """0.5.2, H100: 1 − (9.5 + 8 / 2) · 1,024 / 81,559 = 0.8305, as its log's 13.11 of 77.43."""
    start = start_of(plan(total=81_559 / 1024, parallel=Parallel(tp=8), version="0.5.2"), 0, 0)

    assert start.fraction == Fraction(831, 1000)


def test_a_newer_chunk_and_batch_move_the_share() -> None:
    """81,559 MiB: 512 + 1.5 · 2,048 + 128 + 2 · 16 + 8 · 42 = 4,080, but at least 10 GiB."""
    small = plan(total=81_559 / 1024, settings={
        "chunked_prefill_size": 2048, "cuda_graph_max_bs": 16,
    })  # fmt: skip

    assert prefill_graphs(2048) == 42
    # 8 to 32, 14 to 256, 8 to 512, 8 to 1,024, 12 to 4,096: 50; then one every 512.
    assert [prefill_graphs(n) for n in (4096, 4607, 4608, 8192)] == [50, 50, 51, 58]
    assert prefill_graphs(10**12) == 50 + (10**12 - 4096) // 512
    # 1 − 10,240 / 81,559 = 0.8744
    assert start_of(small, 0, 0).fraction == Fraction(874, 1000)


def test_budget_lines_add_up_and_the_share_is_of_what_was_free() -> None:
    made = answer(plan(settings={"mem_fraction_static": 0.85}))
    lines = {line.item: line.bytes for line in made.budget}

    free = lines["memory"] + lines["other"]
    assert lines["unused"] == int(free * 0.85) - free
    assert sum(line.bytes for line in made.budget[:-1]) == made.kv_pool_bytes
    assert made.kv_pool_tokens == made.kv_pool_bytes // 131_072
    assert made.max_requests == made.kv_pool_tokens // 8192


def test_given_pools_are_those_of_the_log() -> None:
    """2,086,558 tokens are 8 requests of 256,000, though 33 may run."""
    made = plan(context=131_072, kv_pool_tokens=2_086_558, settings={"max_running_requests": 33})

    assert answer(made).kv_pool_tokens == 2_086_558
    assert answer(made).max_requests == 2_086_558 // 131_072
    assert SGLANG.requests(made, SGLANG.ranks(made)[0], 2_086_558 * 131_072, 1024) == 33


def test_window_layers_have_a_pool_of_their_own_only_where_sglang_gives_one() -> None:
    """gpt-oss: 12 full and 12 window layers of 8 · (64 + 64) · 2 = 2,048 bytes a token.

    A token of capacity is 12 · 2,048 · (1 + 0.8) bytes. Gemma-3's windows keep every token.
    """
    made = answer(plan("gpt-oss-20b", kv_pool=44_237 * 1000, context=4096))
    gemma = answer(plan("gemma-3-27b", kv_pool=62 * 16 * 256 * 2 * 1000))

    assert made.kv_pool_tokens == 44_237_000 * 10 // (12 * 2048 * 18)
    assert gemma.kv_pool_tokens == 1000
    assert [limit.code for limit in gemma.limits][:1] == ["full_windows"]


def test_sparse_latent_rows_are_656_bytes_in_fp8_and_pages_64_tokens() -> None:
    """512 + 4 · 4 + 64 · 2 = 656, and 128 + 4 = 132 of the indexer: 61 · 788 a token."""
    made = answer(plan("deepseek-v3.2", kv="fp8", parallel=Parallel(tp=8), kv_pool=61 * 788 * 1000))

    assert made.kv_pool_tokens == 1000 // 64 * 64
    assert made.block_tokens == 64


def test_states_take_nine_parts_of_nineteen() -> None:
    made = answer(plan("qwen3-next-80b-a3b", total=191.98, kv="bf16"))
    lines = {line.item: line.bytes for line in made.budget}

    rest = made.kv_pool_bytes - lines["states"]
    assert -lines["states"] / rest == pytest.approx(9 / 19, abs=0.01)
    assert made.max_requests == (-lines["states"] // _state(made) - 2) // 5


def _state(made: FitResult) -> int:
    """A state of Qwen3-Next: 36 layers of 3 · 8,192 in bf16 and 524,288 in float32."""
    assert made.model.id == "qwen3-next-80b-a3b"
    return 36 * (3 * 8192 * 2 + 524_288 * 4)


def test_drafted_tokens_keep_a_state_each() -> None:
    """65 requests, padding included, with 16 copies: 64 · 16 + 16 states beside the 65."""
    pools = Pools(
        page=1, full=100, windowed=0, window=0, ratio=Fraction(4, 5), state=1000, state_slots=1,
        state_ratio=Fraction(9, 10), fixed_states=64, padded=True, wanted=None, most_tokens=None,
        drafts=16,
    )  # fmt: skip

    assert pools.of_rest(2_000_000)[0] == 65 * 1000 + 65 * 16 * 1000


def test_running_requests_are_estimated_from_the_pool() -> None:
    """903,439 / 131,072 · 512 = 3,529, as the log of eight H100 says."""
    made = plan("grok-1", parallel=Parallel(tp=8), context=8192, kv_pool_tokens=903_439)
    line = answer(made._replace(context=8192)).startup_lines[-1]

    assert "max_total_num_tokens=903439" in line
    pools = Pools(1, 1, 0, 0, Fraction(1), 0, 1, Fraction(1), None, True, None, None)
    assert pools.running(903_439, 131_072, 10**9) == 3529


def test_attention_of_data_parallel_ranks_shares_the_experts() -> None:
    alone = SGLANG.ranks(plan("deepseek-v3", 139.8, parallel=Parallel(tp=1, dp=8)))[0]
    shared = SGLANG.ranks(plan(
        "deepseek-v3", 139.8, parallel=Parallel(tp=1, dp=8, ep=8),
        settings={"enable_dp_attention": True},
    ))[0]  # fmt: skip

    assert alone.weight_bytes > 6 * shared.weight_bytes
    command = SGLANG.command(plan(
        "deepseek-v3", 139.8, parallel=Parallel(tp=1, dp=8, ep=8),
        settings={"enable_dp_attention": True},
    ))  # fmt: skip
    assert "--tp-size 8 --dp-size 8 --ep-size 8" in str(command)
    assert "--enable-dp-attention" in str(command)


def test_the_host_cache_is_counted_in_decimal_gigabytes_a_rank() -> None:
    made = answer(plan(parallel=Parallel(tp=4), settings={"hicache_size": 40.0}))

    text = next(limit.message for limit in made.limits if limit.code == "host_cache")
    assert "1,220,703 tokens" in text
    assert "160 GB (149.01 GiB)" in text


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kv": "int8"}, "unknown_dtype"),
    ({"kv": "fp8", "device": Device("t4", "T4", "NVIDIA", "Turing")}, "unknown_dtype"),
    ({"model": "deepseek-v4-flash"}, "unsupported_architecture"),
    ({"model": "whisper-large-v3"}, "unsupported_architecture"),
    ({"parallel": Parallel(tp=3)}, "not_divisible"),
    ({"device": Device("apple-m3-max", "Apple M3 Max", "Apple")}, "usage"),
    ({"settings": {"mem_fraction_static": 1.0}}, "usage"),
    ({"version": "newest"}, "unknown_setting"),
]


@pytest.mark.parametrize(("changes", "code"), REFUSED)
def test_what_it_refuses_it_names(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        SGLANG.ranks(plan(**{"context": 448, **changes}))

    assert caught.value.code == code
    assert caught.value.message


def test_a_pool_that_is_none_is_logged_as_sglang_does() -> None:
    made = answer(plan("llama-3.1-70b"))

    assert not made.fits
    assert made.shortfall_bytes > 0
    assert made.startup_lines[-1].startswith("RuntimeError: Not enough memory.")


def test_changes_are_its_own_settings() -> None:
    found = SGLANG.changes(plan("gpt-oss-20b"))

    assert [c.argument for c in found][:2] == [
        "--set mem_fraction_static=0.915", "--set chunked_prefill_size=2048",
    ]  # fmt: skip
    assert "--set swa_full_tokens_ratio=0.2" in [c.argument for c in found]
    assert all(SGLANG.ranks(c.plan) for c in found)


@given(
    model=st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "qwen3-next-80b-a3b", "deepseek-v3"]),
    tokens=st.integers(8, 40_000),  # SGLang runs at most half as many requests as tokens
    requests=st.integers(1, 60),
    page=st.sampled_from([1, 16, 64]),
)
def test_what_is_needed_is_enough_and_a_page_less_is_not(
    model: str, tokens: int, requests: int, page: int
) -> None:
    made = plan(model, kv_pool=MIB, settings={"page_size": page})
    rank = SGLANG.ranks(made)[0]
    needed = SGLANG.needed(made, rank, tokens, requests)

    assert SGLANG.requests(made, rank, needed + MIB, tokens) >= requests
    assert SGLANG.requests(made, rank, needed * 9 // 10 - MIB, tokens) < requests
