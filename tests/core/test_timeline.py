"""`timeline`: the article's figures, overlapping requests, thresholds, against plain stepping."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.api.timeline import timeline as ask
from kvcalc.core.cache import Compressed, Full, SlidingWindow, State
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.load import Load, spread
from kvcalc.core.model import Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.timeline import Machine, Request, TimelineResult
from kvcalc.core.timeline import timeline

BF16, FP8 = storage("bf16"), storage("fp8")
#: 80 layers, 8 KV heads of 128: 2 · 80 · 8 · 128 · 2 = 327,680 B a token.
LLAMA = Model(id="l", name="L", layers=((Full(kv_heads=8, key_dim=128, value_dim=128),),) * 80)
#: One byte of K and one of V a token.
TINY = Model(id="t", name="T", layers=((Full(kv_heads=1, key_dim=1, value_dim=1),),))
UNKNOWN = WeightInfo(None, None, (), "exact")


def weighing(size: int, low: int | None = None, high: int | None = None) -> WeightInfo:
    return WeightInfo(size, None, (), "exact" if low is None else "estimated", low, high)


def gpu(memory: int, count: int = 1, low: int | None = None, high: int | None = None) -> Machine:
    basis = "exact" if low is None else "measured"
    return Machine("g", "G", count, memory, basis, low or memory, high or memory)


def tiny(*requests: tuple[int, ...], model: Model = TINY, **options: Any) -> TimelineResult:
    given_ = {"weights": UNKNOWN, "block_size": 4, "points": 1000, **options}
    return timeline(model, FP8, [Request(*r) for r in requests], **given_)


def at(result: TimelineResult, step: int) -> tuple[int, int]:
    """Tokens and KV bytes of a listed step."""
    return next((p.tokens, p.kv_bytes) for p in result.points if p.step == step)


# The article, section 4: Llama-3.1 70B in bf16, a prompt of 4,096 tokens.


@pytest.mark.parametrize(
    ("decoded", "expected"),
    [
        (0, 4096 * 327_680),  # 1.25 GiB, printed 1.25 GB
        (1000, 5096 * 327_680),  # 1.5552 GiB, printed 1.6 GB
        (4096, 8192 * 327_680),  # 2.5 GiB, printed 2.6 GB: wrong there
        (126_976, 131_072 * 327_680),  # 40 GiB
    ],
)
def test_the_articles_timeline(decoded: int, expected: int) -> None:
    result = timeline(
        LLAMA, BF16, [Request(4096, 126_976)], weights=UNKNOWN, at=[decoded], points=2
    )
    assert at(result, 1 + decoded) == (4096 + decoded, expected)
    (named,) = [m for m in result.milestones if m.kind == "decoded"]
    assert (named.step, named.kv_bytes) == (1 + decoded, expected)


def test_a_thousand_steps_add_312_and_a_half_mib() -> None:
    """1,000 · 327,680 = 327,680,000 B; the article multiplies KiB by 1,000 and prints 320 MB."""
    result = timeline(LLAMA, BF16, [Request(4096, 5000)], weights=UNKNOWN, at=[1000])
    (named,) = [m for m in result.milestones if m.kind == "decoded"]
    assert named.added_bytes == 327_680_000 == int(312.5 * 2**20)


def test_start_prefill_and_last_token() -> None:
    result = tiny((5, 3))
    assert [(p.step, p.phase, p.tokens, p.kv_bytes) for p in result.points] == [
        (0, "start", 0, 0),
        (1, "prefill", 5, 10),
        (2, "decode", 6, 12),
        (3, "decode", 7, 14),
        (4, "decode", 8, 16),
    ]
    assert [p.paged_bytes for p in result.points] == [0, 16, 16, 16, 16]  # 8 slots of 2 B
    assert result.peak == (4, 16, 8)
    assert [m.label for m in result.milestones] == ["start", "prefill", "end"]


def test_a_prompt_alone_has_two_steps() -> None:
    result = tiny((5, 0))
    assert [p.step for p in result.points] == [0, 1]
    assert result.peak.step == 1


def test_requests_overlap_and_leave() -> None:
    """A: 4 + 2 tokens from step 1; B: 3 + 4 from step 2 (start step 1).

    step   1  2  3  4  5  6
    A      4  5  6  -  -  -     its last token is in step 3: free in step 4
    B      -  3  4  5  6  7
    """
    result = tiny((4, 2), (3, 4, 1), max_context=10)
    rows = [(p.phase, p.tokens, p.kv_bytes, p.naive_bytes) for p in result.points]
    assert rows == [
        ("start", 0, 0, 0),
        ("prefill", 4, 8, 20),  # naive: 10 tokens · 2 B for each admitted request
        ("prefill", 8, 16, 40),
        ("decode", 10, 20, 40),
        ("decode", 5, 10, 20),
        ("decode", 6, 12, 20),
        ("decode", 7, 14, 20),
    ]
    assert result.peak == (3, 20, 10)


def test_idle_steps_hold_nothing() -> None:
    """A ends in step 2, B prefills in step 6."""
    result = tiny((4, 1), (3, 0, 5))
    assert [p.kv_bytes for p in result.points] == [0, 8, 10, 0, 0, 0, 6]
    assert [p.phase for p in result.points][3:] == ["decode", "decode", "decode", "prefill"]


def test_a_window_bends_the_curve() -> None:
    """Window of 8: 2 B a token until token 8 (step 4 after a prompt of 5), then nothing more."""
    window = SlidingWindow(kv_heads=1, key_dim=1, value_dim=1, window=8)
    model = Model(id="w", name="W", layers=((window,),))
    result = tiny((5, 100), model=model, points=4)
    assert at(result, 4) == (8, 16)
    assert result.points[-1].kv_bytes == 16
    assert result.peak == (4, 16, 8)
    assert [(m.kind, m.step) for m in result.milestones] == [
        ("start", 0), ("prefill", 1), ("window", 4), ("peak", 4), ("end", 101),
    ]  # fmt: skip


def test_a_state_is_held_from_the_prefill_to_the_last_token() -> None:
    """2 elements of 4 B, whatever the length, and free afterwards."""
    state = State(variant="s", recurrent_elements=2, recurrent_dtype="fp32")
    result = tiny((3, 2), (1, 5, 10), model=Model(id="s", name="S", layers=((state,),)))
    assert {p.kv_bytes for p in result.points if p.step in {1, 2, 3}} == {8}
    assert at(result, 4) == (0, 0)


# Thresholds.


def test_the_cache_outgrows_the_weights_at_the_first_token_beyond() -> None:
    """100 B of weights: 50 tokens are 100 B, 51 are 102 B."""
    assert tiny((10, 60), weights=weighing(100)).crosses_weights_at_tokens == 51
    assert tiny((10, 40), weights=weighing(100)).crosses_weights_at_tokens is None
    assert tiny((10, 60)).crosses_weights_at_tokens is None  # unknown


def test_several_requests_cross_at_their_tokens_together() -> None:
    """30 + 25 tokens in step 1 are 110 B."""
    assert tiny((30, 5), (25, 5), weights=weighing(100)).crosses_weights_at_tokens == 55


def test_memory_ends_at_the_first_step_that_does_not_fit() -> None:
    """200 − 100 = 100 B: token 51 is the first too many, in step 1 + (51 − 10) = 42."""
    result = tiny((10, 60), weights=weighing(100), machine=gpu(200))
    assert result.out_of_memory_at_step == 42
    assert not result.yes
    assert result.pool is not None
    assert (result.pool.bytes, result.pool.peak_bytes, result.pool.room_bytes) == (100, 140, -40)


def test_a_full_pool_still_fits() -> None:
    """50 tokens are 100 B exactly."""
    result = tiny((10, 40), weights=weighing(100), machine=gpu(200))
    assert result.out_of_memory_at_step is None
    assert result.yes


def test_uncertain_memory_has_an_earliest_and_a_latest_end() -> None:
    """Pools 190 − 104 = 86, 200 − 100 = 100, 210 − 98 = 112 B: first too many 44, 51, 57 tokens."""
    machine = gpu(200, low=190, high=210)
    end = tiny((10, 60), weights=weighing(100, 98, 104), machine=machine).memory_end
    assert end is not None
    assert (end.low_tokens, end.tokens, end.high_tokens) == (44, 51, 57)
    surely = tiny((10, 35), weights=weighing(100, 98, 104), machine=machine)
    assert surely.yes
    assert surely.memory_end is not None
    assert (surely.memory_end.low_tokens, surely.memory_end.step) == (44, None)


def test_weights_larger_than_the_memory_end_it_at_the_start() -> None:
    result = tiny((10, 5), weights=weighing(300), machine=gpu(200))
    assert result.out_of_memory_at_step == 0


def test_two_gpus_split_heads_and_weights() -> None:
    """8 heads over 2: 163,840 B of a token each; 4 GiB − 1 GiB hold 19,660.8 tokens."""
    result = timeline(
        LLAMA, BF16, [Request(4096, 30_000)], weights=weighing(2 * 2**30), machine=gpu(2**32, 2)
    )
    assert result.memory_end is not None
    assert result.memory_end.tokens == 3 * 2**30 // 163_840 + 1 == 19_661


def test_more_gpus_than_heads_hold_copies() -> None:
    """16 GPUs, 8 heads: each holds one head whole, as 8 would: 40,960 B of a token."""
    one = gpu(2**30, 16)
    result = timeline(LLAMA, BF16, [Request(1, 30_000)], weights=weighing(16), machine=one)
    assert result.memory_end is not None
    assert result.memory_end.tokens == (2**30 - 1) // 40_960 + 1


def test_unknown_weights_leave_unknown_memory() -> None:
    with pytest.raises(KvcalcError, match="weights' size is not known"):
        tiny((10, 5), machine=gpu(200))


# Points.


def test_as_many_points_as_asked_for() -> None:
    assert len(tiny((10, 1000), points=50, at=[]).points) == 50
    assert len(tiny((10, 5), points=50).points) == 7  # steps 0 … 6 are all there are
    assert [p.step for p in tiny((10, 1000), points=1, at=[]).points] == [0, 1, 1001]


def test_marked_steps_are_always_listed() -> None:
    result = tiny((10, 1000), (5, 20, 400), points=1, at=[77])
    # start, prefill, +77, both sides of B's coming and going (400, 401, 421, 422), the end.
    assert [p.step for p in result.points] == [0, 1, 78, 400, 401, 421, 422, 1001]


def test_points_spread_by_the_length_of_the_gaps() -> None:
    """4 more between 0 and 10 (9 free) and 10 and 40 (29 free): 1 and 3, evenly."""
    assert spread([0, 10, 40], 7) == [0, 5, 10, 17, 25, 32, 40]


def test_a_trillion_steps_cost_no_more_than_a_few() -> None:
    calls = 0

    def size(n: int) -> int:
        nonlocal calls
        calls += 1
        return 2 * n

    load = Load([Request(10, 10**12)])
    assert load.first_above(10**12, size) == 1 + (10**12 // 2 + 1 - 10)
    assert load.peak(size) == 1 + 10**12
    assert calls < 200


# What is refused.


NUMBERS = {"layers": 2, "kv_heads": 2, "head_dim": 8}


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({}, "usage", "needs --prompt and --output"),
        ({"prompt": 5}, "usage", "--output is missing"),
        ({"output": 5}, "usage", "--prompt is missing"),
        ({"prompt": 0, "output": 5}, "usage", "--prompt is 0"),
        ({"prompt": 5, "output": -1}, "usage", "--output is -1"),
        ({"request": ["5"]}, "usage", "is not PROMPT:OUTPUT"),
        ({"request": ["5:x"]}, "usage", "--request OUTPUT"),
        ({"request": ["5:1"] * 257}, "usage", "257 requests"),
        ({"prompt": 5, "output": 5, "at": [6]}, "usage", "--at 6 is beyond the end"),
        ({"prompt": 5, "output": 5, "points": 10**6}, "usage", "--points is 1,000,000"),
        ({"prompt": 5, "output": 5, "max_context": 9}, "context_too_long", "10 tokens is longer"),
        ({"prompt": 5, "output": 5, "tp": 2}, "usage", "of which kind"),
        ({"prompt": 5, "output": 5, "gpu": "h100", "gpu_memory": "1GiB"}, "usage", "two machines"),
        ({"prompt": 5, "output": 5, "engine": "vllm"}, "unknown_engine", "vllm"),
        ({"prompt": 5, "output": 6, "max_context_length": 10}, "context_too_long", "11 tokens"),
    ],
)
def test_what_is_refused(options: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(KvcalcError, match=words) as caught:
        ask(**{**NUMBERS, **options})
    assert caught.value.code == code


def test_gpu_counts_must_agree() -> None:
    options: dict[str, Any] = {**NUMBERS, "prompt": 5, "output": 5, "weight_bytes": "1MiB"}
    assert ask(gpu_memory="1GiB", gpus=2, tp=2, **options).gpu == (
        None, "the given GPU", 2, 2**30, "exact", 2**30, 2**30,
    )  # fmt: skip
    with pytest.raises(KvcalcError, match="how many GPUs"):
        ask(gpu="2xh100", tp=1, **options)


# Against plain stepping.


CACHES = st.sampled_from(
    [
        Full(kv_heads=2, key_dim=3, value_dim=5),
        SlidingWindow(kv_heads=1, key_dim=2, value_dim=2, window=7),
        SlidingWindow(kv_heads=1, key_dim=4, value_dim=4, window=16),
        Compressed(dim=8, ratio=4),
        State(variant="s", recurrent_elements=3),
    ]
)
REQUESTS = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 30), st.integers(0, 40)), min_size=1, max_size=5
)


@settings(max_examples=150, deadline=None)
@given(st.lists(CACHES, min_size=1, max_size=3), REQUESTS, st.integers(0, 2000), st.integers(1, 9))
def test_it_equals_plain_stepping(
    caches: list[Any], requests: list[tuple[int, int, int]], limit: int, block: int
) -> None:
    """Every step, one after the other: what the closed form never does."""
    model = Model(id="m", name="M", layers=tuple((c,) for c in caches))
    result = timeline(
        model, BF16, [Request(*r) for r in requests], weights=weighing(limit),
        machine=gpu(limit + limit), max_context=64, block_size=block, points=10**4,
    )  # fmt: skip
    held: list[int] = []
    for point in result.points:
        lengths = [
            p + point.step - (s + 1) for p, o, s in requests if s + 1 <= point.step <= s + 1 + o
        ]
        held.append(sum(model.bytes_at(n, BF16) for n in lengths))
        assert (point.tokens, point.kv_bytes) == (sum(lengths), held[-1])
        assert point.paged_bytes >= point.kv_bytes
        assert point.naive_bytes is not None
        assert point.naive_bytes >= point.kv_bytes
    assert [p.step for p in result.points] == list(range(max(o + s + 2 for _, o, s in requests)))
    assert (result.peak.step, result.peak.kv_bytes) == (held.index(max(held)), max(held))
    over = [i for i, total in enumerate(held) if total > limit]
    assert result.out_of_memory_at_step == (over[0] if over else None)
    assert result.crosses_weights_at_tokens == (result.points[over[0]].tokens if over else None)


@settings(deadline=None)
@given(REQUESTS, st.integers(1, 40))
def test_marked_points_are_a_part_of_all(requests: list[tuple[int, int, int]], count: int) -> None:
    few, all_ = tiny(*requests, points=count), tiny(*requests)
    assert set(few.points) <= set(all_.points)
    named = {m.step for m in few.milestones} | {0, few.peak.step}
    assert named <= {p.step for p in few.points}
    assert len(few.points) <= max(count, len(tiny(*requests, points=1).points))
