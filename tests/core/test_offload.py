"""`offload`: bytes by hand on one rank and on several, pools, links, streams, notes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.cache import Cross, Full, Indexer, Latent, Shared, SlidingWindow, State
from kvcalc.core.dtypes import Storage, storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.offload import RANK, TOTAL, Ask, even, offload
from kvcalc.core.results.offload import OffloadResult
from kvcalc.core.shard import Parallel
from tests import strategies as some

BF16 = storage("bf16")
GIB = 2**30
#: 32 layers × 2 × 8 heads × 128 × 2 B = 131,072 B a token.
EIGHT_HEADS = Full(kv_heads=8, key_dim=128, value_dim=128)
LLAMA = Model(id="l", name="L", query_heads=32, layers=((EIGHT_HEADS,),) * 32)
#: 61 × (512 + 64) × 2 B = 70,272 B a token.
DEEPSEEK = Model(id="d", name="D", query_heads=128, layers=((Latent(rank=512, rope_dim=64),),) * 61)


def asked(
    model: Model, contexts: list[int], tp: int = 1, pp: int = 1, dcp: int = 1, **ask: Any
) -> OffloadResult:
    return offload(model, BF16, contexts, Ask(**ask), parallel=Parallel(tp=tp, pp=pp, dcp=dcp))


def pool_tokens(model: Model, tp: int, pool: int = 50 * GIB) -> int:
    found = asked(model, [4096], tp, pool=pool, pool_per=RANK).pool
    assert found is not None
    return found.tokens


def test_a_pool_of_each_rank_grows_with_the_ranks_until_heads_are_copied() -> None:
    """53,687,091,200 B / 131,072 = 409,600; a rank of 2 holds 65,536 B a token, of 8 16,384 B.

    Of 16 ranks two hold each head: 16,384 B still.
    """
    assert [pool_tokens(LLAMA, tp) for tp in (1, 2, 8, 16)] == [
        409_600, 819_200, 3_276_800, 3_276_800,
    ]  # fmt: skip


def test_a_latent_is_kept_by_every_rank() -> None:
    """53,687,091,200 / 70,272 = 763,989.8 at any tp; 8 ranks store 8 × 70,272 B of a token."""
    assert [pool_tokens(DEEPSEEK, tp) for tp in (1, 2, 8)] == [763_989] * 3

    made = asked(DEEPSEEK, [1000], tp=8)
    assert made.contexts[0].bytes_per_session == 70_272_000
    assert made.contexts[0].bytes_per_rank == 70_272_000
    assert made.contexts[0].stored_bytes_per_session == 8 * 70_272_000
    assert "copies" in [note.code for note in made.notes]


def test_what_one_copy_for_all_ranks_would_come_to() -> None:
    """400 GiB over 8 ranks: 763,989 tokens on each, or 429,496,729,600 / 70,272 = 6,111,918."""
    made = asked(DEEPSEEK, [1000], tp=8, pool=400 * GIB)
    assert made.pool is not None
    assert (made.pool.tokens, made.pool.tokens_stored_once) == (763_989, 6_111_918)
    assert "holds 6,111,918 tokens" in made.notes[0].message
    split = asked(LLAMA, [1000], tp=8, pool=400 * GIB).pool
    assert split is not None
    assert split.tokens == split.tokens_stored_once == 3_276_800


def test_a_pool_in_all_is_split_over_the_ranks() -> None:
    """100 GiB over 2 is 50 GiB each, 819,200 tokens: 25 sessions of 32,768."""
    made = asked(LLAMA, [32_768], tp=2, pool=100 * GIB, pool_per=TOTAL).pool
    assert made is not None
    assert (made.bytes_per_rank, made.total_bytes) == (50 * GIB, 100 * GIB)
    assert (made.tokens, made.sessions, made.kept_fraction) == (819_200, 25, 1.0)


def test_forty_conversations_of_which_a_third_stays() -> None:
    """40 · 30,720 tokens · 131,072 B = 150 GiB in 50 GiB; 13 of 3.75 GiB are whole."""
    made = asked(LLAMA, [30_720], sessions=40, pool=50 * GIB)
    assert made.contexts[0].total_bytes == 150 * GIB
    assert made.contexts[0].total_tokens == 1_228_800
    assert made.contexts[0].kept_fraction == pytest.approx(1 / 3)
    assert made.contexts[0].pool_sessions == 13
    assert made.fits is False
    assert not made.yes
    assert made.notes[0].code == "cyclic_visits"


def test_only_whole_chunks_are_kept() -> None:
    """1,000 = 3 · 256 + 232; a pool of 1,000 tokens of 131,072 B keeps 3 chunks, of one session."""
    made = asked(LLAMA, [1000], chunk=256, pool=131_072_000)
    (row,) = made.contexts
    assert (row.tokens, row.kept_tokens) == (1000, 768)
    assert row.bytes_per_session == 768 * 131_072
    assert (row.pool_tokens, row.pool_sessions) == (768, 1)
    assert "the last 232 tokens are recomputed" in made.notes[0].message


def test_a_shared_prefix_is_stored_once() -> None:
    """10 sessions of 4,096 with 1,000 shared, 3 chunks of 256 of it: 768 + 10 · 3,328 tokens."""
    made = asked(
        LLAMA, [4096], sessions=10, chunk=256, shared_prefix=1000, pool=34_048 * 131_072,
        pool_per=RANK,
    )  # fmt: skip
    (row,) = made.contexts
    assert row.total_tokens == 34_048
    assert row.total_bytes == 34_048 * 131_072
    assert row.pool_sessions == 10
    assert made.fits
    less = asked(LLAMA, [4096], chunk=256, shared_prefix=1000, pool=34_048 * 131_072 - 1)
    assert less.contexts[0].pool_sessions == 9


def test_pipeline_stages_hold_their_layers() -> None:
    """61 layers over 4: 15, 15, 16, 15; the largest rank holds 16 · 1,152 B = 18,432 B a token."""
    made = asked(DEEPSEEK, [100], pp=4, pool=18_432 * 50, pool_per=RANK)
    assert made.bytes_per_token_per_rank == 18_432
    assert made.contexts[0].stored_bytes_per_session == 100 * 70_272
    assert made.contexts[0].pool_tokens == 50
    assert made.parallel.count == 4


def test_context_ranks_split_the_tokens() -> None:
    """2 of 2 ranks hold the latents of half the tokens: 1,001 are 501 on one of them."""
    made = asked(DEEPSEEK, [1001], tp=2, dcp=2, pool=70_272 * 10, pool_per=RANK)
    assert made.contexts[0].bytes_per_rank == 501 * 70_272
    assert made.contexts[0].pool_tokens == 20


def test_seconds_of_one_link_and_of_a_link_a_rank() -> None:
    """1,000 latents of 8 ranks are 562,176,000 B; at 1 GB/s 0.562 s, or 0.070 s each its own."""
    one = asked(DEEPSEEK, [1000], tp=8, sessions=3, bandwidth=10**9)
    own = asked(DEEPSEEK, [1000], tp=8, sessions=3, bandwidth=10**9, bandwidth_per=RANK)
    assert one.contexts[0].transfer_seconds == pytest.approx(0.562176)
    assert own.contexts[0].transfer_seconds == pytest.approx(0.070272)
    assert own.contexts[0].total_transfer_seconds == pytest.approx(3 * 0.070272)
    assert one.fits is None


def test_a_stream_of_requests() -> None:
    """OPT-13B: 40 layers · 2 · 40 · 128 · 2 B = 819,200 B a token; 512 are 419,430,400 B.

    Ten a second are 4,194,304,000 B/s = 33.55 Gb/s: more than 25 Gb/s, less than 100.
    """
    heads = Full(kv_heads=40, key_dim=128, value_dim=128)
    opt = Model(id="o", name="O", query_heads=40, layers=((heads,),) * 40)
    made = asked(opt, [512], requests_per_second=Fraction(10), bandwidth=25 * 10**9 // 8)
    stream = made.stream
    assert stream is not None
    assert stream.bytes_per_request == 419_430_400
    assert stream.bytes_per_second == 4_194_304_000
    assert stream.bits_per_second == 33_554_432_000
    assert stream.link_fraction == pytest.approx(1.34217728)
    assert made.fits is False
    wide = asked(opt, [512], requests_per_second=Fraction(10), bandwidth=100 * 10**9 // 8)
    assert wide.fits is True


def test_a_stream_moves_every_token_and_rounds_up() -> None:
    """A third of a request of 300 tokens, whatever its chunks: 39,321,600 / 3 = 13,107,200 B/s."""
    made = asked(LLAMA, [300], chunk=256, requests_per_second=Fraction(1, 3))
    assert made.stream is not None
    assert made.stream.bytes_per_second == 13_107_200
    odd = asked(LLAMA, [1], requests_per_second=Fraction(1, 3))
    assert odd.stream is not None
    assert odd.stream.bytes_per_second == 43_691  # 131,072 / 3 = 43,690.67


def test_loading_beside_recomputing() -> None:
    """131,072,000 B in 2 s or faster than 65,536,000 B/s."""
    made = offload(
        LLAMA, BF16, [1000], Ask(), parallel=Parallel(), recompute=lambda n: n / 500
    )  # fmt: skip
    assert made.contexts[0].recompute_seconds == 2
    assert made.contexts[0].break_even_bytes_per_second == 65_536_000
    assert "recompute_ceiling" in [note.code for note in made.notes]


def test_windows_and_states_count_as_the_cache_holds_them() -> None:
    """A window of 10 in one layer, a full one, a state of 3 · 100 + 400 elements of 2 B.

    At 100 tokens: (10 + 100) · 4,096 + 1,400 B = 451,960 B; kept whole the window is 100 too.
    """
    window = SlidingWindow(kv_heads=8, key_dim=128, value_dim=128, window=10)
    state = State(variant="mamba2", conv_kernel=4, conv_channels=100, recurrent_elements=400)
    model = Model(id="h", name="H", layers=((window,), (EIGHT_HEADS,), (state,)))
    made = asked(model, [100], pool=10 * 451_960 + 5)
    assert made.contexts[0].bytes_per_session == 451_960
    assert made.contexts[0].pool_sessions == 10
    assert made.contexts[0].pool_tokens == 1000
    codes = [note.code for note in made.notes]
    assert {"windows", "states", "longest_context"} <= set(codes)


def test_which_caches_grow_evenly() -> None:
    def of(*caches: Any) -> bool:
        return even(Model(id="m", name="M", layers=tuple((c,) for c in caches)), BF16)

    assert of(EIGHT_HEADS, Latent(rank=512, rope_dim=64), Indexer(dim=128), Shared())
    assert not of(EIGHT_HEADS, Latent(rank=512, rope_dim=64, window=9))
    assert not of(EIGHT_HEADS, Indexer(dim=128, ratio=4))
    assert not of(EIGHT_HEADS, Cross(kv_heads=1, key_dim=8, value_dim=8, encoder_tokens=5))
    assert not of(Shared())


def test_the_hosts_ram() -> None:
    """2 × 40 GB are 80 of 100 GB; of 70 GB they are more than there is."""
    half = asked(LLAMA, [1], tp=2, pool=40 * 10**9, pool_per=RANK, host_ram=100 * 10**9)
    assert half.pool is not None
    assert half.pool.host_ram_fraction == pytest.approx(0.8)
    assert half.fits
    assert (
        asked(LLAMA, [1], tp=2, pool=40 * 10**9, pool_per=RANK, host_ram=70 * 10**9).fits is False
    )


@pytest.mark.parametrize(("model", "context", "ask", "said"), [
    (LLAMA, 255, {"chunk": 256}, "--chunk-tokens 256 is more than -c 255"),
    (LLAMA, 64, {"shared_prefix": 64}, "leaves nothing"),
    (LLAMA, 64, {"shared_prefix": 100}, "leaves nothing"),
    (Model(id="e", name="E", layers=((),)), 64, {}, "e keeps no cache"),
])  # fmt: skip
def test_what_is_refused(model: Model, context: int, ask: dict[str, Any], said: str) -> None:
    with pytest.raises(KvcalcError) as error:
        asked(model, [context], **ask)
    assert error.value.code == "usage"
    assert said in error.value.message


pools = st.integers(0, 2**45)
sessions = st.integers(1, 10**6)


@given(some.attention_models, some.storages, some.lengths, pools, pools)
def test_more_memory_never_holds_less(
    model: Model, s: Storage, tokens: int, one: int, other: int
) -> None:
    small, large = sorted((one, other))

    def held(pool: int) -> tuple[int, int, float]:
        made = offload(model, s, [tokens], Ask(pool=pool), parallel=Parallel()).pool
        assert made is not None
        return made.tokens, made.sessions, made.kept_fraction

    assert all(a <= b for a, b in zip(held(small), held(large), strict=True))


@given(some.attention_models, some.storages, some.lengths, pools, st.integers(1, 300))
def test_what_stays_fits_into_the_pool(
    model: Model, s: Storage, tokens: int, pool: int, chunk: int
) -> None:
    chunk = min(chunk, tokens)
    made = offload(model, s, [tokens], Ask(pool=pool, chunk=chunk), parallel=Parallel())
    (row,) = made.contexts
    assert row.pool_sessions is not None
    assert row.pool_sessions * row.bytes_per_session <= pool
    assert (row.pool_sessions + 1) * row.bytes_per_session > pool
    assert row.kept_tokens % chunk == 0
    assert row.tokens - row.kept_tokens < chunk
    assert made.fits == (row.pool_sessions >= 1)


@given(some.attention_models, some.storages, some.lengths, st.integers(1, 12), sessions)
def test_stages_add_up_to_a_session(model: Model, s: Storage, tokens: int, pp: int, n: int) -> None:
    pp = min(pp, len(model.layers))
    made = offload(model, s, [tokens], Ask(sessions=n), parallel=Parallel(pp=pp))
    (row,) = made.contexts
    assert row.stored_bytes_per_session == row.bytes_per_session == model.bytes_at(tokens, s)
    assert row.total_bytes == n * row.bytes_per_session
    assert row.bytes_per_rank * pp >= row.bytes_per_session


@given(some.lengths, st.sampled_from([1, 2, 4, 8]), pools)
def test_ranks_that_split_the_heads_hold_what_one_does(tokens: int, tp: int, pool: int) -> None:
    """A pool in all that the ranks divide holds the same sessions, however many share it."""
    pool = pool // 8 * 8
    many = asked(LLAMA, [tokens], tp, pool=pool).pool
    one = asked(LLAMA, [tokens], pool=pool).pool
    assert many is not None
    assert one is not None
    assert (many.sessions, many.tokens) == (one.sessions, one.tokens)
    assert many.bytes_per_rank * tp == many.total_bytes
