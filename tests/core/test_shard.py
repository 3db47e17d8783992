"""What one rank of tensor, pipeline and context parallelism holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvcalc.core import shard
from kvcalc.core.cache import (
    Cache,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    SlidingWindow,
    State,
)
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model

BF16 = storage("bf16")
DATA = Path(__file__).parents[1] / "data" / "vllm_pp_split.jsonl"
FULL = Full(kv_heads=8, key_dim=128, value_dim=128)
MLA = Latent(rank=512, rope_dim=64)


def model(*layers: tuple[Cache, ...]) -> Model:
    return Model(id="test", name="Test", layers=layers)


def recorded() -> list[tuple[int, int, list[int]]]:
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    return [(row["num_layers"], row["pp"], row["layers_per_rank"]) for row in rows]


@pytest.mark.parametrize(("layers", "pp", "split"), recorded())
def test_pipeline_stages_as_vllm_cuts_them(layers: int, pp: int, split: list[int]) -> None:
    assert split == shard.pp_split(layers, pp)


@pytest.mark.parametrize(
    ("layers", "pp", "split"),
    [
        (61, 4, [15, 15, 16, 15]),  # one left over: to the second to last
        (62, 4, [15, 16, 16, 15]),  # two: counted back from there
        (63, 4, [16, 16, 16, 15]),
        (80, 1, [80]),
        (4, 4, [1, 1, 1, 1]),
    ],
)
def test_the_remainder_avoids_the_last_stage(layers: int, pp: int, split: list[int]) -> None:
    assert split == shard.pp_split(layers, pp)


@pytest.mark.parametrize("pp", [0, -1, 5])
def test_more_stages_than_layers_are_refused(pp: int) -> None:
    with pytest.raises(KvcalcError) as refused:
        shard.pp_split(4, pp)

    assert refused.value.code == "not_divisible"


@pytest.mark.parametrize(
    ("heads", "tp", "held"),
    [(8, 1, 8), (8, 2, 4), (8, 8, 1), (8, 16, 1), (8, 64, 1), (1, 7, 1), (6, 3, 2), (10, 30, 1)],
)
def test_heads_split_then_repeat(heads: int, tp: int, held: int) -> None:
    """max(1, H_kv // tp)."""
    assert held == shard.rank_heads(heads, tp)


@pytest.mark.parametrize(("heads", "tp"), [(8, 3), (8, 12), (10, 4), (2, 5)])
def test_ranks_that_divide_neither_way_are_refused(heads: int, tp: int) -> None:
    with pytest.raises(KvcalcError, match=f"--tp {tp} neither divides the {heads} KV heads") as no:
        shard.rank_heads(heads, tp)

    assert no.value.code == "not_divisible"


def test_the_refusal_names_counts_that_work() -> None:
    with pytest.raises(KvcalcError) as refused:
        shard.rank_heads(8, 3)

    assert refused.value.hint == (
        "1, 2, 4, 8 split the heads; 16, 32, 64 copy them; --pp 3 splits the layers"
    )


@pytest.mark.parametrize(
    ("cache", "each"),
    [
        (FULL, 1024),  # 2 of 8 heads × 256 × 2
        (SlidingWindow(kv_heads=8, key_dim=128, value_dim=128, window=64), 1024),
        (Full(kv_heads=2, key_dim=128, value_dim=128), 512),  # 1 head, copied twice
        (MLA, 1152),  # whole on every rank
        (Indexer(dim=128), 256),
        (Compressed(dim=512, ratio=4), 256),
    ],
)
def test_a_token_of_one_layer_on_one_of_four_ranks(cache: Cache, each: int) -> None:
    assert each == shard.rank_cache(cache, 4).token_bytes(BF16)


def test_encoder_heads_split_too() -> None:
    """20 heads over 4: 5 × 1,500 × (64 + 64) × 2 = 1,920,000 of 7,680,000."""
    cross = Cross(kv_heads=20, key_dim=64, value_dim=64, encoder_tokens=1500)

    assert shard.rank_cache(cross, 4).fixed_bytes(BF16) == 1_920_000


def test_a_state_splits_by_heads_and_channels() -> None:
    """Groups of 128 channels, 8 over 4 ranks: (3 · 10,240/4 + 128·64·128/4) × 2 bytes."""
    state = State(
        variant="mamba2", conv_kernel=4, conv_channels=10_240, recurrent_elements=1_048_576,
        heads=128, groups=8, group_channels=256,
    )  # fmt: skip

    assert shard.rank_cache(state, 4).fixed_bytes(BF16) == (7_680 + 262_144) * 2


def test_mamba2_groups_are_raised_to_the_ranks() -> None:
    """1 group of 256 channels over 2 ranks becomes 2: (10,240 + 256) / 2 = 5,248 channels each."""
    state = State(
        variant="mamba2", conv_kernel=2, conv_channels=10_240, recurrent_elements=0,
        heads=128, groups=1, group_channels=256,
    )  # fmt: skip

    assert shard.rank_cache(state, 2).fixed_bytes(BF16) == 5_248 * 2


def test_a_state_that_does_not_divide_is_refused() -> None:
    state = State(variant="gdn", conv_kernel=4, conv_channels=100, recurrent_elements=300, heads=3)

    with pytest.raises(KvcalcError, match="--tp 2 does not divide the gdn state of 3 heads") as no:
        shard.rank_cache(state, 2)
    assert no.value.code == "not_divisible"


def test_context_ranks_share_the_tokens_of_a_head() -> None:
    """tp 8, dcp 4: heads over 8 / 4 = 2 ranks, 4 each; 1,001 tokens over 4 = 251.

    251 × 4 heads × 256 × 2 bytes = 514,048.
    """
    (rank,) = shard.stage_ranks(model((FULL,)), shard.Parallel(tp=8, dcp=4))

    assert shard.rank_bytes(rank, 1001, BF16, 4) == 514_048


@pytest.mark.parametrize(
    ("cache", "tokens"),
    [(FULL, 251), (MLA, 251), (Indexer(dim=128), 251),
     (SlidingWindow(kv_heads=8, key_dim=128, value_dim=128, window=64), 1001)],
)  # fmt: skip
def test_only_caches_without_an_end_split_by_tokens(cache: Cache, tokens: int) -> None:
    """⌈1,001 / 4⌉ = 251; a window's tokens stay together."""
    assert tokens == shard.rank_tokens(cache, 1001, 4)


def test_context_ranks_come_out_of_the_tensor_ranks() -> None:
    with pytest.raises(KvcalcError, match="--dcp 3 does not divide --tp 8") as refused:
        shard.stage_ranks(model((FULL,)), shard.Parallel(tp=8, dcp=3))

    assert refused.value.code == "usage"


def test_stages_keep_the_order_of_layers() -> None:
    """5 layers over 2 stages: 3 and 2, as [full, mla, full] and [mla, full]."""
    cut = shard.stages(model((FULL,), (MLA,), (FULL,), (MLA,), (FULL,)), shard.Parallel(pp=2))

    assert [[layer[0].kind for layer in stage.layers] for stage in cut] == [
        ["full", "latent", "full"],
        ["latent", "full"],
    ]


def test_a_stage_holds_its_layers_shares() -> None:
    """80 layers over 4 stages, tp 2: 20 × 4 heads × 256 × 2 = 40,960 of 327,680 a token."""
    ranks = shard.stage_ranks(model(*[(FULL,)] * 80), shard.Parallel(tp=2, pp=4))

    assert [rank.token_bytes(BF16) for rank in ranks] == [40_960] * 4


def test_gpus_are_the_product_without_dcp_and_ep() -> None:
    assert shard.Parallel(tp=4, pp=2, dp=2, dcp=4, ep=8).gpus == 16


def test_every_recorded_split_of_the_full_set(shared: Path) -> None:
    full = shared / "oracles" / "vllm_pp_split.jsonl"
    rows = [json.loads(line) for line in full.read_text(encoding="utf-8").splitlines()]

    assert rows
    assert [r["layers_per_rank"] for r in rows] == [
        shard.pp_split(r["num_layers"], r["pp"]) for r in rows
    ]
