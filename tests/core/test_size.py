"""The size of one model: per token, per request, per batch, per GPU; variants and shapes."""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc.core import size as core
from kvcalc.core.cache import Cache, Cross, Full, Indexer, Latent, SlidingWindow, State
from kvcalc.core.dtypes import Storage, storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Layer, Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.size import SizeResult
from kvcalc.core.shard import Parallel

BF16 = storage("bf16")
FULL = Full(kv_heads=8, key_dim=128, value_dim=128)
WINDOW = SlidingWindow(kv_heads=8, key_dim=128, value_dim=128, window=1000)
MLA = Latent(rank=512, rope_dim=64)
STATE = State(variant="mamba2", recurrent_elements=1000)
CROSS = Cross(kv_heads=20, key_dim=64, value_dim=64, encoder_tokens=1500)
NO_WEIGHTS = WeightInfo(None, None, (), "exact")


def model(*layers: Layer, **fields: Any) -> Model:
    return Model(id="test", name="Test", layers=layers, **fields)


#: Llama-3.1-70B's shape.
LLAMA = model(*[(FULL,)] * 80, query_heads=64, max_context_tokens=131_072)


def size(m: Model, contexts: list[int], s: Storage = BF16, **options: Any) -> SizeResult:
    return core.size(m, s, contexts, weights=NO_WEIGHTS, **options)


def test_the_worked_example() -> None:
    """2 × 80 × 8 × 128 × 2 = 327,680; × 4,096 = 1,342,177,280; × 131,072 = 42,949,672,960."""
    r = size(LLAMA, [4096, 131_072])

    assert r.bytes_per_token == 327_680
    assert [c.bytes_per_request for c in r.contexts] == [1_342_177_280, 42_949_672_960]
    assert r.formula.symbols == "bytes per token = 2 · L · H_kv · d_h · s"
    assert r.formula.numbers == "2 × 80 × 8 × 128 × 2 = 327680"


def test_equal_requests_multiply() -> None:
    """26 × 1,342,177,280 = 34,896,609,280."""
    (c,) = size(LLAMA, [4096], requests=26).contexts

    assert (c.requests, c.bytes_per_request, c.total_bytes) == (26, 1_342_177_280, 34_896_609_280)


def test_unequal_requests_keep_their_own() -> None:
    """(2,048 + 4,096 + 500) × 327,680 = 2,177,105,920."""
    batch = size(LLAMA, [4096], batch=[2048, 4096, 500]).batch

    assert batch is not None
    assert [b.bytes for b in batch.requests] == [671_088_640, 1_342_177_280, 163_840_000]
    assert batch.total_bytes == 2_177_105_920


def test_variants_of_attention_stand_beside() -> None:
    """64 heads: 2,621,440; 8: 327,680; 1: 40,960; 64 / 8 = 8 times."""
    assert size(LLAMA, [1]).attention_variants == (2_621_440, 327_680, 40_960, 8.0)


def test_variants_count_the_attention_of_a_hybrid() -> None:
    """4 full layers among states: 4 × 32 × 256 × 2 = 65,536 as MHA; a state is no attention."""
    hybrid = model((STATE,), *[(FULL,)] * 4, (STATE,), query_heads=32)

    assert size(hybrid, [1]).attention_variants == (65_536, 16_384, 2_048, 4.0)


@pytest.mark.parametrize(
    ("layers", "heads"),
    [
        ([(FULL,), (WINDOW,)], 64),
        ([(MLA,)], 64),
        ([(FULL, CROSS)], 64),
        ([(FULL,)], None),
        ([(STATE,)], 64),
    ],
)
def test_no_variants_unless_all_attention_is_full(layers: list[Layer], heads: int | None) -> None:
    assert size(model(*layers, query_heads=heads), [1]).attention_variants is None


def test_a_format_that_one_head_cannot_hold_leaves_the_variants_out() -> None:
    """q8_0: 8 heads of 80 are 20 blocks of 34 = 680 bytes; one head of 80 is no whole block."""
    m = model((Full(kv_heads=8, key_dim=80, value_dim=80),), query_heads=8)
    r = size(m, [1], storage("q8_0"))

    assert r.bytes_per_token == 1360
    assert r.attention_variants is None


def test_shapes_of_the_article() -> None:
    """[L, 2, B, H_kv, S, d_h] and, per layer, [num_blocks, 2, block_size, H_kv, d_h].

    4 requests of 1,024 tokens in blocks of 16 are 256 blocks.
    """
    (shape,) = size(LLAMA, [1024], requests=4).shapes

    assert shape.contiguous == (80, 2, 4, 8, 1024, 128)
    assert shape.paged == (256, 2, 16, 8, 128)


@pytest.mark.parametrize(
    ("cache", "contiguous", "paged"),
    [
        # 2 requests of 1,001 tokens in blocks of 16: 126 blocks; a window of 1,000 takes 126 too
        (FULL, (1, 2, 2, 8, 1001, 128), (126, 2, 16, 8, 128)),
        (WINDOW, (1, 2, 2, 8, 1000, 128), (126, 2, 16, 8, 128)),
        (Full(kv_heads=4, key_dim=192, value_dim=128), (1, 2, 4, 1001, 320), (126, 16, 4, 320)),
        (MLA, (1, 2, 1001, 576), (126, 16, 576)),
        (Indexer(dim=128), (1, 2, 1001, 128), (126, 16, 128)),
        (CROSS, (1, 2, 2, 20, 1500, 64), (188, 2, 16, 20, 64)),
    ],
)
def test_shapes_of_other_kinds(
    cache: Cache, contiguous: tuple[int, ...], paged: tuple[int, ...]
) -> None:
    (shape,) = size(model((cache,)), [1001], requests=2).shapes

    assert (cache.kind, contiguous, paged) == shape


def test_a_state_has_no_shape_by_tokens() -> None:
    assert size(model((STATE,)), [1]).shapes == ()


@pytest.mark.parametrize(
    ("parallel", "each"),
    [
        (Parallel(), 1_342_177_280),
        (Parallel(tp=8), 167_772_160),  # 1 of 8 heads
        (Parallel(tp=16), 167_772_160),  # copied: no smaller
        (Parallel(pp=4), 335_544_320),  # 20 of 80 layers
        (Parallel(tp=2, pp=2), 335_544_320),
        (Parallel(tp=8, dcp=2), 167_772_160),  # 2 heads, half the tokens
    ],
)
def test_the_share_of_the_fullest_gpu(parallel: Parallel, each: int) -> None:
    (c,) = size(LLAMA, [4096], parallel=parallel).contexts

    assert each == c.bytes_per_gpu
    assert c.total_bytes == 1_342_177_280


def test_the_fullest_stage_decides() -> None:
    """61 layers over 4 stages: 16 in the third; 16 × 1,152 × 100 = 1,843,200."""
    (c,) = size(model(*[(MLA,)] * 61), [100], parallel=Parallel(tp=8, pp=4)).contexts

    assert c.bytes_per_gpu == 1_843_200
    assert c.total_bytes == 7_027_200


def test_a_shared_prefix_is_stored_once_in_whole_blocks() -> None:
    """10 requests of 20,480 share 16,384: 16,384 + 10 × 4,096 = 57,344 tokens × 4,096 bytes."""
    (c,) = size(model((FULL,)), [20_480], requests=10, shared_prefix=16_384).contexts

    assert c.total_bytes == 57_344 * 4096
    assert c.bytes_per_request == 20_480 * 4096


@pytest.mark.parametrize(
    ("prefix", "shared"),
    [
        (1000, 992),  # 62 blocks of 16
        (15, 0),
        (1001, 992),
        (5000, 992),  # no more than whole blocks of the request itself
    ],
)
def test_only_whole_blocks_of_a_prefix_are_shared(prefix: int, shared: int) -> None:
    """3 requests of 1,001 tokens: 3,003 less two copies of what is shared."""
    (c,) = size(model((FULL,)), [1001], requests=3, shared_prefix=prefix).contexts

    assert (3003 - 2 * shared) * 4096 == c.total_bytes


def test_states_and_encoders_are_never_shared() -> None:
    """2 × (2,000 + 7,680,000) of their own, 32 tokens × 4,096 once."""
    (c,) = size(model((FULL, STATE), (CROSS,)), [32], requests=2, shared_prefix=32).contexts

    assert c.total_bytes == 2 * 7_682_000 + 32 * 4096


def test_a_window_shares_only_what_it_still_holds() -> None:
    """1,500 tokens through a window of 1,000 keep 500 … 1,499; a prefix of 800 has 300 of them."""
    (c,) = size(model((WINDOW,)), [1500], requests=2, shared_prefix=800).contexts

    assert c.total_bytes == (2000 - 300) * 4096


def test_context_ranks_share_a_prefix_but_not_a_window() -> None:
    """tp 2, dcp 2: 3 × (750 + 1,000) tokens of 8 heads, less 2 × (400 + 300) shared."""
    m = model((FULL,), (WINDOW,))
    (c,) = size(m, [1500], requests=3, shared_prefix=800, parallel=Parallel(tp=2, dcp=2)).contexts

    assert c.bytes_per_gpu == (3 * 1750 - 2 * 700) * 4096


def test_layers_are_listed_as_groups() -> None:
    first, second, third = size(model((WINDOW,), (FULL, STATE), (WINDOW,)), [1]).layers

    assert first[:9] == ("sliding_window", 2, (0, 2), 8, 128, 128, 1000, 4096, 0)
    assert second[:9] == ("full", 1, (1,), 8, 128, 128, None, 4096, 0)
    assert third[:10] == ("state", 1, (1,), None, None, None, None, 0, 2000, "mamba2")


@pytest.mark.parametrize(
    ("layers", "heads", "word"),
    [
        ([(FULL,)], 8, "mha"),
        ([(FULL,)], 64, "gqa"),
        ([(Full(kv_heads=1, key_dim=64, value_dim=64),)], 64, "mqa"),
        ([(MLA,)], 128, "mla"),
        ([(WINDOW,), (FULL,)], 64, "gqa"),
        ([(MLA,), (FULL,)], 64, "mixed"),
        ([(STATE,)], 64, "none"),
        ([(FULL,)], None, "full"),
    ],
)
def test_attention_in_one_word(layers: list[Layer], heads: int | None, word: str) -> None:
    assert word == core.attention_of(model(*layers, query_heads=heads))


def test_heads_are_null_only_where_layers_differ() -> None:
    other = Full(kv_heads=4, key_dim=256, value_dim=256)

    assert size(model((FULL,), (STATE,)), [1]).model[5:7] == (8, 128)
    assert size(model((FULL,), (other,)), [1]).model[5:7] == (None, None)


@pytest.mark.parametrize(
    ("cache", "s", "numbers"),
    [
        (MLA, BF16, "1 × (512 + 64) × 2 = 1152"),
        (FULL, storage("auto", "q8_0", "f16"), "1 × 8 × (128 × 34/32 + 128 × 2) = 3136"),
        (FULL, storage("int8_per_token_head"),
         "1 × 8 × (128 × (1 + 4/d) + 128 × (1 + 4/d)) = 2112"),
        (STATE, BF16, "0 = 0"),
    ],
)  # fmt: skip
def test_formulas_in_numbers(cache: Cache, s: Storage, numbers: str) -> None:
    assert numbers == size(model((cache,)), [1], s).formula.numbers


def test_blocks_pad_what_each_layer_keeps() -> None:
    """1,001 tokens: full 63 × 16 = 1,008; a window of 1,000 also 1,008; states as they are."""
    m = model((FULL,), (WINDOW,), (STATE,))

    assert core.block_bytes(m, BF16, 1001, 16) == 2 * 1008 * 4096 + 2000


def test_a_rank_that_divides_neither_way_is_refused() -> None:
    with pytest.raises(KvcalcError, match="--tp 3 neither divides the 8 KV heads"):
        size(LLAMA, [1], parallel=Parallel(tp=3))
