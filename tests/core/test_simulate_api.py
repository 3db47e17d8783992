"""kvcalc.simulate from options to fields: pools, settings, clocks, knees, and what views say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc.api.simulate import simulate
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.report.plain import render

TRACES = Path(__file__).parents[1] / "data" / "traces"
CONV = str(TRACES / "azure_conv.csv")


def one(**options: Any) -> SimulateResult:
    result = simulate(**options)
    assert isinstance(result, SimulateResult)
    return result


def refused(**options: Any) -> KvcalcError:
    with pytest.raises(KvcalcError) as caught:
        simulate(**options)
    return caught.value


def written(path: Path, *rows: tuple[int, int, int], **more: Any) -> str:
    """Lines of (step, prompt, output)."""
    lines = [
        {
            "id": f"r{i}",
            "arrival_step": at,
            "prompt_tokens": prompt,
            "output_tokens": output,
            **more,
        }
        for i, (at, prompt, output) in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_a_small_run_by_hand(tmp_path: Path) -> None:
    """Prompt 40 in blocks of 16: three blocks, the 49th token takes a fourth at step 9.

    10 tokens: the prompt's step gives the first, 9 more steps the rest; 49 are stored at the end.
    """
    trace = written(tmp_path / "t", (2, 40, 10))
    r = one(trace=trace, blocks=10, per_request=True, series="all", no_prefix_caching=True)
    assert (r.steps, r.seconds, r.clock) == (12, None, "steps")
    assert [s.used_blocks for s in r.series] == [0, 0, *[3] * 9, 4]
    assert [s.scheduled_tokens for s in r.series] == [0, 0, 40, *[1] * 9]
    assert r.peak == (4, 1)
    assert r.mean.used_blocks == (9 * 3 + 4) / 12
    assert r.lifecycle.allocated_blocks == r.lifecycle.released_blocks == 4
    assert r.lifecycle.filled_tokens == 49
    (row,) = r.per_request
    assert (row.id, row.first_token_step, row.finish_step, row.queue_steps) == ("r0", 2, 11, 0)
    assert r.latency.total_steps.p50 == 10
    # 40 … 49 tokens in nine times 48 slots and once 64.
    assert r.shares.used_fraction == pytest.approx(sum(range(40, 50)) / (9 * 48 + 64))
    assert r.requests == (1, 1, 0, 0, 0, 0)


def test_what_attention_reads(tmp_path: Path) -> None:
    """2 layers of 1 head of 4: 2 · 2 · 1 · 4 · 2 B = 32 B a token; 10 tokens, then 11, then 12."""
    trace = written(tmp_path / "t", (0, 10, 3))
    r = one(trace=trace, blocks=10, layers=2, kv_heads=1, head_dim=4)
    assert r.lifecycle.read_bytes == 32 * (10 + 11 + 12)
    assert r.pool.block_bytes == 32 * 16
    assert r.pool.bytes == 10 * 32 * 16


def test_too_large_requests_are_rejected_and_long_ones_cut(tmp_path: Path) -> None:
    """9 usable blocks hold 144 tokens: 140 + 5 store 144, 140 + 6 one more."""
    trace = written(tmp_path / "t", (0, 140, 6), (0, 140, 5), (0, 10, 5))
    r = one(trace=trace, blocks=10)
    assert (r.requests.rejected, r.requests.finished) == (1, 2)
    r = one(trace=trace, blocks=20, max_context=141)
    assert (r.requests.rejected, r.requests.finished, r.requests.cut) == (0, 3, 2)
    r = one(trace=trace, blocks=20, max_context=140)
    assert (r.requests.rejected, r.requests.finished) == (2, 1)


def test_prefix_hits_and_what_they_save(tmp_path: Path) -> None:
    """Identical prompts of 128 in blocks of 16 hit 112: the last token is always computed."""
    trace = written(tmp_path / "t", (0, 128, 2), (3, 128, 2), prefix=[["s", 128]])
    r = one(trace=trace, blocks=40, per_request=True, layers=1, kv_heads=1, head_dim=4)
    assert [q.hit_tokens for q in r.per_request] == [0, 112]
    assert r.prefix.hit_fraction == 112 / 256
    assert r.prefix.saved_bytes == 112 * 16
    assert one(trace=trace, blocks=40, no_prefix_caching=True).prefix.hit_tokens == 0


def test_a_gpu_gives_pool_and_seconds() -> None:
    r = one(model="llama-3.1-8b", trace=CONV, gpu="a100-40", engine="none")
    assert r.clock == "seconds"
    # 42,402,064,629 B seen by a program, less 16,060,522,496 of weights, in blocks of 2 MiB.
    assert r.pool.blocks == (42_402_064_629 - 16_060_522_496) // 2**21 == 12_560
    # Reading 16.06 GB at 1,555 GB/s takes 10.3 ms: no token comes faster.
    assert r.latency.per_token_seconds.p50 is not None
    assert r.latency.per_token_seconds.p50 >= 16_060_522_496 / 1_555e9
    assert r.seconds is not None
    assert r.throughput.requests_per_second == pytest.approx(60 / r.seconds)
    assert r.settings["max_num_batched_tokens"] == 2048


def test_more_gpus_hold_more_and_are_faster() -> None:
    small, large = (
        one(model="llama-3.1-70b", trace=CONV, gpu=gpu, engine="none")
        for gpu in ("4xa100", "8xa100")
    )
    assert (small.gpus, large.gpus) == (4, 8)
    assert large.pool.tokens > small.pool.tokens
    assert large.seconds is not None
    assert small.seconds is not None
    assert large.latency.total_seconds.p50 < small.latency.total_seconds.p50  # type: ignore[operator]


def test_requests_per_second_scales_times() -> None:
    """60 requests at a rate of 20 come in 3 seconds."""
    r = one(trace=CONV, blocks=5000, requests_per_second=20, step_seconds=0.01)
    assert r.requests_per_second == 20
    slow = one(trace=CONV, blocks=5000, requests_per_second=2, step_seconds=0.01)
    assert r.seconds is not None
    assert slow.seconds is not None
    assert 3 < r.seconds < 12
    assert 30 <= slow.seconds < 40


def test_policies_beside_each_other() -> None:
    rows = simulate(
        trace=CONV, blocks=800, max_context=4096, policy=["naive", "pow2", "exact", "paged"],
        step_seconds=0.02,
    )  # fmt: skip
    assert isinstance(rows, Rows)
    data = rows.to_dict()["rows"]
    assert [row["combination"] for row in data] == [
        {"policy": p} for p in ("naive", "pow2", "exact", "paged")
    ]
    used = [row["shares"]["used_fraction"] for row in data]
    assert used == sorted(used)
    text = render(rows)
    assert text.startswith("Paged blocks serve ")
    for row in data:
        assert f"{row['peak']['running']:,}" in text
    assert "naive reserves 4,096 tokens" in text


def test_windows_hold_less(tmp_path: Path) -> None:
    """A window of 64 in blocks of 16: 4 blocks and one begun; all tokens take 14 at the end."""
    trace = written(tmp_path / "t", (0, 16, 200))
    window = one(trace=trace, blocks=100, group=["1*sliding_window:1x64:64"])
    full = one(trace=trace, blocks=100, group=["1*full:1x64"])
    both = one(trace=trace, blocks=100, group=["1*full:1x64", "1*sliding_window:1x64:64"])
    # 16 + 200 − 1 = 215 tokens.
    assert full.peak.used_blocks == 14
    assert window.peak.used_blocks == 5
    assert both.peak.used_blocks == 19
    assert window.pool.groups == ("window(64)",)


def test_states_have_no_prefix_caching(tmp_path: Path) -> None:
    trace = written(tmp_path / "t", (0, 600, 10))
    r = one(model="qwen3-next-80b", trace=trace, blocks=100)
    assert [w.code for w in r.warnings] == ["prefix_caching_off"]
    # One block for each of three groups of states, and cdiv(609, 544) = 2 of attention.
    assert r.peak.used_blocks == 5
    error = refused(model="qwen3-next-80b", trace=trace, blocks=100, prefix_caching=True)
    assert error.code == "usage"


def test_the_knee_of_the_rate() -> None:
    """At the rate found 99% wait at most half a second; at a tenth more they do not."""
    options: dict[str, Any] = {"trace": CONV, "blocks": 300, "step_seconds": 0.02}
    r = one(**options, solve="rate", max_wait=0.5)
    assert r.solved is not None
    assert r.solved.value is not None
    assert r.latency.queue_seconds.p99 is not None
    assert r.latency.queue_seconds.p99 <= 0.5
    assert r.yes
    faster = one(**options, requests_per_second=1.1 * r.solved.value)
    assert faster.latency.queue_seconds.p99 is not None
    assert faster.latency.queue_seconds.p99 > 0.5


def test_the_fewest_gpus() -> None:
    """70B in bf16 is 141 GB: two A100 hold the weights, but little more."""
    r = one(model="llama-3.1-70b", trace=CONV, gpu="a100", engine="none", solve="gpus",
            requests_per_second=8)  # fmt: skip
    assert r.solved is not None
    assert r.solved.value == r.gpus
    assert r.gpus in {4, 8}
    assert "GPUs are enough" in render(r)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--trace is missing: which requests?"),
        ({"trace": CONV}, "how much memory? give --blocks, --pool or --gpu"),
        ({"trace": CONV, "blocks": 1}, "--blocks is 1, expected at least 2"),
        ({"trace": CONV, "pool": "1GiB"}, "--pool needs a MODEL: how large is a block?"),
        ({"trace": CONV, "gpu": "h100"}, "--gpu needs a MODEL"),
        ({"trace": CONV, "blocks": 9, "pool": "1GiB"},
         "--blocks and --pool both give the pool"),
        ({"trace": CONV, "blocks": 9, "policy": "page"}, '--policy: no policy "page"'),
        ({"trace": CONV, "blocks": 9, "scheduler": "orca"}, '--scheduler: no scheduler "orca"'),
        ({"trace": CONV, "blocks": 9, "policy": "naive"},
         "--max-context is missing: naive reserves by it"),
        ({"trace": CONV, "blocks": 9, "clock": "seconds"},
         "--clock seconds needs a MODEL and a --gpu of known bandwidth and FLOP/s"),
        ({"trace": CONV, "blocks": 9, "max_batched_tokens": 4, "max_requests": 8},
         "4 tokens a step are fewer than 8 requests at once"),
        ({"trace": CONV, "blocks": 9, "set": {"watermrk": 1}},
         "the simulated scheduler has no setting watermrk"),
        ({"trace": CONV, "blocks": 9, "set": {"max_num_seqs": 4}, "max_requests": 8},
         "--max-requests and --set max_num_seqs say the same"),
        ({"trace": CONV, "blocks": 9, "solve": "gpus"}, "--solve gpus needs --gpu"),
        ({"trace": CONV, "blocks": 9, "solve": "users"}, "--solve users is nothing to solve for"),
        ({"trace": CONV, "blocks": 9, "prefix_caching": True, "no_prefix_caching": True},
         "--prefix-caching and --no-prefix-caching"),
        ({"trace": str(TRACES / "vidur_arxiv.csv"), "blocks": 999, "requests_per_second": 2},
         f"{TRACES / 'vidur_arxiv.csv'} has no arrivals in seconds to scale"),
        ({"trace": CONV, "blocks": 9, "requests_per_second": 0},
         "--requests-per-second is 0"),
    ],
)  # fmt: skip
def test_refusals_name_the_option(options: dict[str, Any], message: str) -> None:
    assert refused(**options).message == message


def test_settings_by_the_engines_names(tmp_path: Path) -> None:
    trace = written(tmp_path / "t", (0, 64, 64), (0, 64, 64), (0, 64, 64))
    free = one(trace=trace, blocks=15)
    kept = one(trace=trace, blocks=15, set={"watermark": "0.3"})
    assert kept.settings["watermark"] == 0.3
    # 14 usable blocks hold three prompts of 4 at once, and 4 kept free only two.
    assert free.peak.running == 3
    assert kept.peak.running == 2
    late = one(trace=trace, blocks=15, set={"async-scheduling": "true"})
    assert late.settings["async_scheduling"] is True


def test_text_says_the_same_numbers() -> None:
    r = one(model="llama-3.1-8b", trace=CONV, gpu="a100-40", engine="none", per_request=True)
    text = render(r)
    assert text.startswith("Paged blocks serve 60 requests with at most ")
    assert f"pool {r.pool.tokens:,} tokens" in text
    assert f"{r.peak.running:,}" in text
    assert text.count("\n") > 60
    empty = one(trace=str(TRACES / "vidur_arxiv.csv"), blocks=2)
    assert empty.requests.rejected == 30
    assert "Paged blocks serve 0 of 30 requests" in render(empty)
