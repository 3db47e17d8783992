"""What holds for every model, format and length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil

from hypothesis import assume, given
from hypothesis import strategies as st

from kvcalc.core import fit, shard, size, units
from kvcalc.core.cache import Cache, Chunked, Full, SlidingWindow, State
from kvcalc.core.dtypes import DTYPES, Storage, dtype, kv_bytes, row_bytes, storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.fit import FitResult, GpuInfo
from tests import strategies as some

BF16 = storage("bf16")
EIGHT_HEADS = Full(kv_heads=8, key_dim=128, value_dim=128)
ranks = st.sampled_from([1, 2, 3, 4, 6, 8, 16])
pools = st.integers(0, 2**36)


@given(some.caches, some.storages, some.tokens, some.tokens)
def test_a_cache_never_shrinks(cache: Cache, s: Storage, a: int, b: int) -> None:
    few, many = sorted((a, b))

    assert 0 <= cache.bytes_at(few, s) <= cache.bytes_at(many, s)


@given(some.models(), some.storages, some.tokens, some.tokens)
def test_a_request_never_shrinks(model: Model, s: Storage, a: int, b: int) -> None:
    few, many = sorted((a, b))

    assert model.fixed_bytes(s) <= model.bytes_at(few, s) <= model.bytes_at(many, s)


@given(some.models(), some.models(), some.storages, some.tokens)
def test_layers_add_up(one: Model, other: Model, s: Storage, tokens: int) -> None:
    """Whatever the order and however equal layers are grouped."""
    both = replace(one, layers=one.layers + other.layers)
    turned = replace(one, layers=other.layers + one.layers)
    total = one.bytes_at(tokens, s) + other.bytes_at(tokens, s)

    assert total == both.bytes_at(tokens, s) == turned.bytes_at(tokens, s)
    assert both.token_bytes(s) == one.token_bytes(s) + other.token_bytes(s)


@given(some.models(), some.storages, some.tokens)
def test_a_request_is_the_sum_of_its_layers_caches(model: Model, s: Storage, tokens: int) -> None:
    each = sum(cache.bytes_at(tokens, s) for layer in model.layers for cache in layer)

    assert each == model.bytes_at(tokens, s)


@given(st.one_of(some.windows, some.chunks), some.storages, some.tokens)
def test_a_window_never_exceeds_its_full_layer(
    cache: SlidingWindow | Chunked, s: Storage, tokens: int
) -> None:
    whole = Full(kv_heads=cache.kv_heads, key_dim=cache.key_dim, value_dim=cache.value_dim)
    bend = cache.window if isinstance(cache, SlidingWindow) else cache.chunk

    assert cache.bytes_at(tokens, s) <= whole.bytes_at(tokens, s)
    assert cache.bytes_at(min(tokens, bend), s) == whole.bytes_at(min(tokens, bend), s)
    assert cache.bytes_at(bend + tokens, s) == whole.bytes_at(bend, s)


@given(some.growing, some.storages, some.tokens)
def test_growth_per_token_bounds_every_length(cache: Cache, s: Storage, tokens: int) -> None:
    assert cache.bytes_at(tokens, s) <= tokens * cache.token_bytes(s)


@given(st.sampled_from(sorted(DTYPES)), some.heads, some.heads, some.dims)
def test_heads_add_up(name: str, one: int, other: int, dim: int) -> None:
    s = storage(name)
    both = kv_bytes(s, one + other, dim, dim)

    assert both == kv_bytes(s, one, dim, dim) + kv_bytes(s, other, dim, dim)


@given(st.sampled_from([n for n, d in DTYPES.items() if not d.pair]), some.heads, some.dims)
def test_no_format_is_smaller_than_its_bits(name: str, heads: int, dim: int) -> None:
    """At least 4 bits an element, at most 32 and a scale of 4 bytes a head."""
    size_of = row_bytes(dtype(name), heads, dim)

    assert heads * dim <= 2 * size_of
    assert size_of <= heads * (4 * dim + 4)


@given(some.attention_models, some.storages, some.lengths, ranks)
def test_shards_hold_at_least_the_whole(model: Model, s: Storage, tokens: int, tp: int) -> None:
    """Equal where heads divide; more where they are copied."""
    heads = {c.kv_heads for layer in model.layers for c in layer if isinstance(c, Full)}
    assume(all(h % tp == 0 or tp % h == 0 for h in heads))
    (rank,) = shard.stage_ranks(model, shard.Parallel(tp=tp))
    held = tp * shard.rank_bytes(rank, tokens, s)

    assert held >= model.bytes_at(tokens, s)
    if all(h % tp == 0 for h in heads):
        assert held == model.bytes_at(tokens, s)


@given(some.models(smallest=1), some.storages, some.lengths, st.integers(1, 12))
def test_stages_hold_the_whole(model: Model, s: Storage, tokens: int, pp: int) -> None:
    assume(pp <= len(model.layers))
    cut = shard.stage_ranks(model, shard.Parallel(pp=pp))

    assert model.bytes_at(tokens, s) == sum(stage.bytes_at(tokens, s) for stage in cut)
    assert list(model.layers) == [layer for stage in cut for layer in stage.layers]


@given(st.integers(1, 200), st.integers(1, 200))
def test_stages_are_as_even_as_can_be(layers: int, pp: int) -> None:
    assume(pp <= layers)
    counts = shard.pp_split(layers, pp)

    assert layers == sum(counts)
    assert pp == len(counts)
    assert max(counts) - min(counts) <= 1


@given(some.full, some.storages, some.lengths, st.sampled_from([1, 2, 4, 8]))
def test_context_ranks_hold_at_least_the_whole(
    cache: Full, s: Storage, tokens: int, dcp: int
) -> None:
    """Less than a token each above it."""
    model = Model(id="one", name="One", layers=((cache,),))
    (rank,) = shard.stage_ranks(model, shard.Parallel(tp=dcp, dcp=dcp))
    held = dcp * shard.rank_bytes(rank, tokens, s, dcp)

    assert model.bytes_at(tokens, s) <= held < model.bytes_at(tokens + dcp, s)


@given(some.models(), some.storages, some.lengths, some.block_sizes)
def test_pages_hold_at_least_what_is_kept(
    model: Model, s: Storage, tokens: int, block: int
) -> None:
    """And less than a block above it in each layer that grows."""
    exact = model.bytes_at(tokens, s)
    paged = size.block_bytes(model, s, tokens, block)
    most = sum(
        (block - 1) * cache.entry_bytes(s)
        for layer in model.layers
        for cache in layer
        if not isinstance(cache, State)
    )

    assert exact <= paged <= exact + most
    assert exact == size.block_bytes(model, s, tokens, 1)


@given(some.models(), some.storages, some.lengths, st.integers(1, 50), st.integers(0, 300_000))
def test_sharing_never_costs_and_never_saves_more_than_all_copies(
    model: Model, s: Storage, tokens: int, requests: int, prefix: int
) -> None:
    none = WeightInfo(None, None, (), "exact")
    (shared,) = size.size(
        model, s, [tokens], weights=none, requests=requests, shared_prefix=prefix
    ).contexts
    one = model.bytes_at(tokens, s)

    assert one <= shared.total_bytes <= requests * one
    assert shared.total_bytes >= requests * model.fixed_bytes(s)


def plan_of(model: Model, s: Storage, pool: int, tokens: int, requests: int) -> fit.Plan:
    weights = WeightInfo(0, None, (), "exact")
    one = shard.Parallel()
    return fit.Plan(model, s, one, weights, None, tokens, requests, kv_pool=pool)


def answer(plan: fit.Plan) -> FitResult:
    return fit.fit(plan, GpuInfo(None, "test", plan.parallel.gpus, None, "exact"))


growing_models = some.models(of=some.full.map(lambda cache: (cache,)))


@given(some.models(), some.storages, pools, some.lengths, st.integers(1, 100))
def test_it_fits_where_the_pool_is_as_large_as_the_need(
    model: Model, s: Storage, pool: int, tokens: int, requests: int
) -> None:
    r = answer(plan_of(model, s, pool, tokens, requests))
    need = requests * model.bytes_at(tokens, s)

    assert r.fits is (need <= pool)
    assert r.shortfall_bytes == max(need - pool, 0)


@given(growing_models, some.storages, pools, some.lengths)
def test_the_most_requests_fit_and_one_more_does_not(
    model: Model, s: Storage, pool: int, tokens: int
) -> None:
    most = answer(plan_of(model, s, pool, tokens, 1)).max_requests

    if most:
        assert answer(plan_of(model, s, pool, tokens, most)).fits
    assert not answer(plan_of(model, s, pool, tokens, most + 1)).fits


@given(growing_models, some.storages, pools, st.integers(1, 20), some.block_sizes)
def test_the_longest_context_fits_and_one_more_token_does_not(
    model: Model, s: Storage, pool: int, requests: int, block: int
) -> None:
    plan = plan_of(model, s, pool, 1, requests)._replace(block_size=block)
    longest = fit.longest_context(plan, fit.rank_plans(plan), requests)

    assert longest is not None
    if longest:
        assert answer(plan._replace(context=longest)).fits
    assert not answer(plan._replace(context=longest + 1)).fits


@given(growing_models, pools, st.integers(1, 300_000), st.integers(1, 300_000))
def test_more_memory_or_shorter_requests_never_hold_fewer(
    model: Model, pool: int, a: int, b: int
) -> None:
    short, long = sorted((a, b))
    small = answer(plan_of(model, BF16, pool, long, 1)).max_requests

    assert small <= answer(plan_of(model, BF16, pool + a, long, 1)).max_requests
    assert small <= answer(plan_of(model, BF16, pool, short, 1)).max_requests


@given(
    st.integers(1, 2**40), st.integers(0, 2**35), st.integers(0, 2**35),
    st.integers(0, 2**40), st.integers(0, 2**30), st.integers(1, 10_000),
)  # fmt: skip
def test_budgets_add_up_between_their_bounds(
    memory: int, spread: int, doubt: int, weights: int, reserve: int, share: int
) -> None:
    plan = plan_of(Model(id="m", name="M", layers=((EIGHT_HEADS,),)), BF16, 1, 4096, 1)._replace(
        kv_pool=None,
        memory=fit.Memory(memory, "measured", max(memory - spread, 1), memory + spread),
        weights=WeightInfo(
            weights, None, (), "estimated", max(weights - doubt, 0), weights + doubt
        ),
        reserve=reserve,
        utilization=Fraction(share, 10_000),
    )
    r = answer(plan)
    *lines, pool = r.budget

    assert r.max_requests_low <= r.max_requests <= r.max_requests_high
    assert pool.bytes == sum(line.bytes for line in lines)
    assert pool.low_bytes <= pool.bytes <= pool.high_bytes
    used = memory + sum(line.bytes for line in lines if line.item == "unused")
    assert used <= memory * Fraction(share, 10_000) < used + 1


@given(st.integers(1, units.MAX_COUNT))
def test_counts_survive_being_written(n: int) -> None:
    assert n == units.parse_count(str(n), "-c")
    assert n == units.parse_count(f"{n:_}", "-c")
    assert n == units.parse_count(n, "-c")


@given(st.integers(1, 900_000), st.sampled_from(["k", "K", "m", "M"]))
def test_suffixes_are_binary(n: int, letter: str) -> None:
    assert n * (1024 if letter in "kK" else 1_048_576) == units.parse_count(f"{n}{letter}", "-c")


@given(st.integers(1, units.MAX_BYTES))
def test_sizes_survive_being_written(n: int) -> None:
    assert n == units.parse_bytes(f"{n}B", "--reserve")
    assert n == units.parse_bytes(f"{n:_} b", "--reserve")


@given(st.integers(1, 10**5), st.sampled_from([10, 20, 30, 40]))
def test_whole_units_survive_being_shown(n: int, power: int) -> None:
    """What a sentence says can be typed as an option and means the same."""
    shown = units.format_bytes(n * 2**power).replace(",", "")

    exact = units.parse_bytes(shown, "--reserve")
    assert abs(exact - n * 2**power) <= ceil(units.unit_of(n * 2**power)[1] / 200)
    if n < 1024:
        assert exact == n * 2**power


@given(st.text(max_size=12), st.sampled_from([units.parse_count, units.parse_bytes]))
def test_any_text_is_read_or_refused(text: str, parse: Callable[[str, str], int]) -> None:
    """Never anything but a value in range or the one expected error."""
    try:
        value, message = parse(text, "--option"), "--option"
    except KvcalcError as refused:
        value, message = 1, refused.message

    assert 0 < value <= units.MAX_BYTES
    assert message.startswith("--option")
    assert message.isprintable()
