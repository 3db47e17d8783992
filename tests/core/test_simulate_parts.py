"""The parts of the simulator by hand: beats, clock, queue, names, buddy pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.flops import Attention
from kvcalc.core.simulate.beats import Beats
from kvcalc.core.simulate.blocks import Queue
from kvcalc.core.simulate.buddy import Buddy
from kvcalc.core.simulate.clock import Clock, Lane, Rate, Work
from kvcalc.core.simulate.job import GroupSpec, HashIds, Settings
from kvcalc.core.simulate.keys import Keys
from kvcalc.core.simulate.kinds import kinds_of
from kvcalc.core.simulate.quantiles import percentile


def test_a_request_begins_a_block_every_b_steps() -> None:
    """20 tokens stored at step 5, blocks of 16: the next begins with the 33rd token, at step 17."""
    beats = Beats(16)
    beats.join(beats.seat(5, 20))
    assert beats.begun(5, 12) == 0
    assert beats.begun(5, 13) == 1
    assert beats.begun(5, 13 + 16) == 2
    # Begun in step 17, so counted in 3 of the 15 steps 5 … 19.
    assert beats.ramp(5, 15) == (1, 3)
    assert beats.enough(5, 100, 1) == 12 + 16


@given(
    st.lists(st.integers(0, 200), max_size=12),
    st.integers(1, 9),
    st.integers(0, 50),
    st.integers(0, 60),
    st.integers(0, 40),
)
def test_beats_equal_counting(
    stored: list[int], size: int, step: int, steps: int, free: int
) -> None:
    beats = Beats(size)
    for n in stored:
        beats.join(beats.seat(step, n))
    begun = [sum(not (n + i) % size for n in stored) for i in range(steps)]
    sums = [sum(begun[: i + 1]) for i in range(steps)]
    assert beats.begun(step, steps) == sum(begun)
    assert beats.ramp(step, steps) == (sum(begun), sum(sums))
    enough = beats.enough(step, steps, free)
    assert enough == sum(s <= free for s in sums)


#: 100 FLOPs a token and 2 for each token attended to; 3 bytes a stored token, weights of 60.
_WORK = Work(100, (Lane(Attention(2, 2), 3),), 0, 60)


def test_a_step_takes_the_longer_of_computing_and_reading() -> None:
    """At 10 FLOP/s and 4 B/s: one request's 11th token is 122 FLOPs, 12.2 s, and 93 bytes, 23.25 s.

    A prompt of 50 is 100 · 50 + 2 · 50 · 51 / 2 = 7,550 FLOPs, 755 s, and 210 bytes.
    """
    clock = Clock(_WORK, Rate(10, 4))
    # gcd(10, 4) = 2: a FLOP is 4 / 2 ticks, a byte 10 / 2, so 20 ticks are a second.
    assert clock.ticks_per_second == 20
    clock.join(0, 10)
    clock.skip(1)
    assert clock.seconds(clock.now) == 23.25
    clock.leave(0, 11)
    clock.prefill(0, 50)
    clock.close()
    assert clock.seconds(clock.now) == 23.25 + 755
    assert clock.read_bytes == 33 + 150


def test_bounds_cross_within_a_jump() -> None:
    """At 5 FLOP/s and 3 B/s: FLOPs 102 + 2j take longer than (63 + 3j) bytes until j is 2."""
    work = Work(100, (Lane(Attention(2, 2), 3),), 0, 60)
    clock = Clock(work, Rate(5, 3))
    clock.join(0, 0)
    flops = [102 + 2 * j for j in range(40)]
    read = [63 + 3 * j for j in range(40)]
    want = [max(3 * f, 5 * b) for f, b in zip(flops, read, strict=True)]
    assert [clock.ticks(k) for k in range(41)] == [sum(want[:k]) for k in range(41)]
    for k in (1, 2, 17, 40):
        assert clock.steps_until(sum(want[:k]), 40) == k
        assert clock.steps_until(sum(want[:k]) - 1, 40) == k
    assert clock.steps_until(10**9, 40) == 40


def test_a_full_window_reads_no_more() -> None:
    """Window of 3, from 1 stored token: the steps read 2, 3, 3, 3 tokens; jumps end at the bend."""
    clock = Clock(Work(0, (Lane(Attention(1, 1, window=3), 10),)), None)
    clock.join(7, 1)
    assert clock.horizon(100) == 1
    clock.skip(1)
    assert clock.horizon(100) == 100
    clock.skip(3)
    assert clock.read_bytes == 20 + 30 + 30 + 30


def test_a_chunk_begins_anew() -> None:
    """Chunks of 4, from 2 stored tokens: 3, 4, then 1, 2, 3, 4, 1."""
    clock = Clock(Work(0, (Lane(Attention(1, 1, chunk=4), 1),)), None)
    clock.join(1, 2)
    read = []
    for _ in range(7):
        before = clock.read_bytes
        clock.skip(1)
        read.append(clock.read_bytes - before)
    assert read == [3, 4, 1, 2, 3, 4, 1]


def test_groups_of_a_weight_begin_their_blocks_together() -> None:
    beats = Beats(16, 7)
    beats.join(3)
    # One request, seven groups: 7 blocks in steps 3 and 19, none between.
    assert (beats.at(3), beats.at(4), beats.begun(3, 16), beats.begun(3, 17)) == (7, 0, 7, 14)
    assert beats.each(2, 3) == [0, 7, 0]
    # Steps 3 … 18 have 7 blocks more, 19 has 14.
    assert beats.ramp(3, 17) == (14, 16 * 7 + 14)
    beats.add([(3, -7), (20, 2)])
    assert [beats.at(step) for step in (3, 4)] == [0, 2]


def test_the_last_blocks_of_a_step_can_be_part_of_a_hit() -> None:
    # Hits end at multiples of 16; the next token's window of 6 reaches 5 tokens back: 2 blocks.
    groups = [GroupSpec("full", 16), GroupSpec("window", 4, 6), GroupSpec("window", 4, 6)]
    full, window = kinds_of(groups, Settings())
    assert (full.groups, window.groups) == ((0,), (1, 2))
    assert [place for place in range(8) if window.keeps(place)] == [2, 3, 6, 7]
    assert [window.rank(place) for place in range(9)] == [0, 0, 0, 1, 2, 2, 2, 3, 4]
    assert [window.place(rank) for rank in range(4)] == [2, 3, 6, 7]
    # 39 tokens hold two whole steps: 8 blocks of 4.
    assert (window.full(39), full.full(39)) == (8, 2)


def test_blocks_leave_the_queue_oldest_first() -> None:
    queue = Queue(2)
    a, b = queue.register("a"), queue.register("b")
    queue.drop(b)
    queue.drop(a)
    queue.lay(3)
    assert (queue.fresh, queue.idle) == (2, 5)
    queue.take(3)
    assert queue.find("b") is None
    assert queue.find("a") is a
    queue.hold(a)
    queue.take(2)
    assert (queue.fresh, queue.idle) == (0, 1)


def test_a_row_with_names_is_hit_block_by_block() -> None:
    queue = Queue(0)
    row, place = queue.lay(4)
    assert queue.lay(1) == (row, 4)
    queue.take(1)
    for i, name in enumerate("abcd"):
        queue.spell(row, place + i, name)
    # The first has been taken before it got its name.
    assert queue.find("a") is None
    middle = queue.find("c")
    assert middle is not None
    queue.hold(middle)
    assert queue.idle == 3
    queue.take(1)
    assert (queue.find("b"), queue.find("c")) == (None, middle)
    # The hole does not count: "d" and the one behind it are left.
    queue.take(1)
    assert queue.find("d") is None
    queue.take(1)
    assert queue.idle == 0
    assert queue.lay(1) != (row, 5)


def test_a_run_is_recalled_as_far_as_it_is_left() -> None:
    queue = Queue(0)
    run = queue.stow(3)
    queue.lay(2)
    queue.take(1)
    assert run.count == 2
    queue.recall(run)
    assert queue.idle == 2
    queue.take(2)
    assert queue.idle == 0


def test_a_hit_takes_the_oldest_twin() -> None:
    queue = Queue(0)
    first, second = queue.register("x"), queue.register("x")
    queue.drop(second)
    assert queue.find("x") is first
    queue.drop(first)
    # The second was freed first, so it goes first, and the oldest stays findable.
    queue.take(1)
    assert queue.find("x") is first
    queue.take(1)
    assert queue.find("x") is None


def test_an_heir_takes_the_place_of_the_oldest() -> None:
    queue = Queue(0)
    first, second, third = (queue.register("x") for _ in range(3))
    queue.drop(first)
    queue.take(1)
    assert queue.find("x") is second
    queue.drop(second)
    queue.take(1)
    assert queue.find("x") is third


def test_streams_of_one_name_share_their_beginning() -> None:
    keys = Keys(16)
    short, long = keys.of((("G", 48),), 200), keys.of((("G", 96),), 200)
    assert len(short) == 3
    assert list(short) == list(long)[:3]
    assert list(keys.of((("G", 96),), 40)) == list(long)[:2]
    # 8 tokens of S and 8 of G are another block than 16 of either, and so is all after it.
    mixed = keys.of((("S", 8), ("G", 40)), 200)
    assert len(mixed) == 3
    assert not set(mixed) & set(long)
    assert keys.of((("G", 15),), 200) == []
    assert keys.of(None, 200) == ()


def test_a_prefix_is_named_as_far_as_prompts_reach() -> None:
    """10¹² tokens would be 62.5 · 10⁹ names; longer prompts later go on where shorter ended."""
    keys = Keys(16)
    endless = (("S", 8), ("G", 10**12))
    first = list(keys.of(endless, 40))
    assert len(first) == 2  # 40 / 16 = 2.5
    longer = list(keys.of(endless, 1600))
    assert len(longer) == 100
    assert longer[:2] == first
    assert list(keys.of(endless, 40)) == first
    assert keys.of(endless, 15) == []


def test_hash_blocks_of_other_sizes() -> None:
    """1,100 tokens in hash blocks of 512: the third is cut at 76 tokens."""
    ids = HashIds([7, 8, 9], 512)
    assert list(Keys(512).of(ids, 1100)) == [7, 8]
    assert list(Keys(1024).of(ids, 1100)) == [8]
    small = Keys(16).of(ids, 1100)
    assert len(small) == 68  # 1,100 / 16 = 68.75
    assert len(set(small)) == 68
    other = Keys(16).of(HashIds([7, 8, 5], 512), 1100)
    assert [a == b for a, b in zip(small, other, strict=True)] == [True] * 64 + [False] * 4
    assert len(Keys(784).of(ids, 1100)) == 1


def test_what_a_window_no_longer_sees() -> None:
    window, chunk = GroupSpec("window", 16, 4), GroupSpec("chunked", 16, 8)
    assert [window.skipped(n) for n in (0, 3, 4, 7)] == [0, 0, 1, 4]
    assert [chunk.skipped(n) for n in (7, 8, 13, 16)] == [0, 8, 8, 16]


def test_buddies_split_and_join() -> None:
    """24 slots are pieces of 16 and 8. 5 slots take half of the smallest that holds them."""
    buddy = Buddy(24)
    assert buddy.take(5) == (16, 3)
    piece = buddy.take(3)
    assert piece == (0, 2)
    assert buddy.take(9) is None
    buddy.give(*piece)
    assert buddy.take(16) == (0, 4)


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 200))
def test_buddies_never_overlap_and_all_come_back(sizes: list[int], slots: int) -> None:
    buddy = Buddy(slots)
    held: list[tuple[int, int]] = []
    for i, size in enumerate(sizes):
        if i % 3 == 2 and held:
            buddy.give(*held.pop(0))
        piece = buddy.take(size)
        if piece is None:
            continue
        assert piece[0] + (1 << piece[1]) <= slots
        assert 1 << piece[1] >= size
        taken = set(range(piece[0], piece[0] + (1 << piece[1])))
        assert not any(taken & set(range(o, o + (1 << e))) for o, e in held)
        held.append(piece)
    for piece in held:
        buddy.give(*piece)
    largest = 1 << (slots.bit_length() - 1)
    assert buddy.take(largest) is not None


def test_percentiles_lie_between_values() -> None:
    assert percentile([10, 20, 30, 40], 50) == 25
    assert percentile([10, 20, 30, 40], 90) == pytest.approx(37)
    assert percentile([5], 99) == 5
