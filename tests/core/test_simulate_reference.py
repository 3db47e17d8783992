"""The scheduler against the slow reference, on thousands of random small workloads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvcalc.core.flops import Attention
from kvcalc.core.simulate.clock import Lane, Rate, Work
from kvcalc.core.simulate.job import Arrival, GroupSpec, Settings
from kvcalc.core.simulate.run import Memory, Outcome
from kvcalc.core.simulate.run import run as simulate
from kvcalc.core.simulate.tally import Seen, Tally
from tests.core.reference_scheduler import Reference

FULL = [GroupSpec("full", 4)]
GROUPS = (
    FULL,
    [GroupSpec("full", 8)],
    [GroupSpec("full", 4), GroupSpec("full", 4)],
    [GroupSpec("full", 8), GroupSpec("full", 4)],
    [GroupSpec("window", 4, 6)],
    [GroupSpec("window", 4, 9)],
    [GroupSpec("full", 4), GroupSpec("window", 4, 7)],
    [GroupSpec("full", 4), GroupSpec("window", 4, 6), GroupSpec("window", 4, 6)],
    [GroupSpec("full", 4), GroupSpec("window", 4, 10), GroupSpec("window", 4, 5)],
    [GroupSpec("full", 8), GroupSpec("window", 4, 6)],
    [GroupSpec("full", 4), GroupSpec("window", 8, 9)],
    [GroupSpec("full", 8), GroupSpec("window", 4, 9), GroupSpec("window", 4, 9)],
    [GroupSpec("full", 8), GroupSpec("window", 2, 5), GroupSpec("window", 4, 11)],
    [GroupSpec("window", 2, 3), GroupSpec("full", 8), GroupSpec("window", 2, 3)],
    [GroupSpec("full", 4), GroupSpec("window", 2, 2), GroupSpec("window", 6, 7)],
    [GroupSpec("chunked", 4, 12)],
    [GroupSpec("full", 4), GroupSpec("chunked", 4, 8)],
)


def small(
    groups: int,
    blocks: int,
    budget: int,
    seats: int,
    sizes: list[tuple[int, int, int]],
    **other: Any,
) -> Any:
    """A workload that once went wrong: (step, prompt, output) of each request."""
    engine = Settings(budget, seats, scheduler_reserve_full_isl=False)._replace(**other)
    arrivals = [Arrival(f"r{i}", *size) for i, size in enumerate(sizes)]
    return list(GROUPS[groups]), blocks, engine, arrivals


#: What a window has just left is hit again after a preemption.
LEFT = small(6, 20, 7, 2, [(0, 11, 20), (0, 14, 22)])
#: The same, where the block that it left last is taken already, and one behind it is not.
BEHIND = small(6, 27, 20, 3, [(0, 20, 10), (0, 5, 9), (0, 29, 1)])
#: Two windows, and a request that stops in the middle of its prompt.
STOPS = small(7, 26, 4, 2, [(0, 1, 13), (0, 21, 13), (0, 17, 1)])
#: A request that has ended gives way to another before its blocks are free.
ENDED = small(
    7, 16, 6, 1, [(0, 10, 2), (0, 17, 1), *[(0, 1, 1)] * 4],
    enable_prefix_caching=False, async_scheduling=True,
)  # fmt: skip

segments = st.lists(
    st.tuples(st.sampled_from("ABC"), st.integers(1, 14)), min_size=1, max_size=3
).map(tuple)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[GroupSpec], int, Settings, list[Arrival]]:
    """Groups, blocks, settings and arrivals; small enough that pools run short."""
    groups = list(draw(st.sampled_from(GROUPS)))
    seats = draw(st.integers(1, 6))
    budget = draw(st.integers(seats, 24))
    most = draw(st.sampled_from((None, 20, 40)))
    engine = Settings(
        max_num_batched_tokens=budget,
        max_num_seqs=seats,
        max_model_len=most,
        enable_prefix_caching=draw(st.booleans()),
        enable_chunked_prefill=draw(st.integers(0, 5)) > 0,
        scheduler_reserve_full_isl=draw(st.integers(0, 3)) > 0,
        watermark=draw(st.sampled_from((0.0, 0.0, 0.1, 0.3))),
        async_scheduling=draw(st.integers(0, 3)) == 0,
    )
    blocks = draw(st.integers(4, 40))
    at, arrivals = 0, []
    for i in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from((0, 0, 0, 1, 2, 7)))
        prompt, output = draw(st.integers(1, 30)), draw(st.integers(1, 24))
        prefix: Any = draw(st.one_of(st.none(), segments))
        arrivals.append(Arrival(f"r{i}", at, prompt, output, prefix))
    return groups, blocks, engine, arrivals


def run(load: Any, rows: int | None = 0, watch: Any = None, **timed: Any) -> Outcome:
    groups, blocks, engine, arrivals = load
    tally = Tally(rows, jobs=True)
    return simulate(arrivals, Memory(groups, blocks), engine, tally=tally, watch=watch, **timed)


def facts(outcome: Outcome) -> tuple[Any, ...]:
    """Everything that must not depend on how many steps are taken together."""
    t, pool = outcome.tally, outcome.pool
    return (
        sorted(t.jobs or []), t.rejected, t.cut, t.finished, t.preempted, t.scheduled_tokens,
        t.running_sum, t.peak_running, t.hit_tokens, t.denied_sum, pool.used_sum,
        round(pool.waste_sum, 6), pool.peak, pool.allocated, outcome.clock.now, outcome.clock.step,
        outcome.clock.read_bytes,
    )  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(workloads())
@example(LEFT)
@example(BEHIND)
@example(STOPS)
@example(ENDED)
def test_equals_the_reference_step_by_step(load: Any) -> None:
    groups, blocks, engine, arrivals = load
    slow = Reference(groups, blocks, engine)
    slow.run(arrivals)
    seen: list[Seen] = []
    fast = run(load, watch=seen.append)
    assert [
        (s.row.step, s.scheduled, s.row.used_blocks, s.row.running, s.row.waiting,
         list(s.preempted), s.row.cached_blocks)
        for s in seen
    ] == [
        (s.step, s.scheduled, s.used, s.running, s.waiting, s.preempted, s.cached)
        for s in slow.steps
    ]  # fmt: skip
    assert fast.tally.rejected == slow.rejected
    assert [
        (j.id, j.first_token_step, j.finish_step, j.preemptions, j.hit_tokens)
        for j in sorted(fast.tally.jobs or [])
    ] == [(r.arrival.id, r.first_step, r.finish_step, r.preemptions, r.hits) for r in slow.requests]
    assert fast.pool.used == 0
    assert fast.pool.used_sum == sum(s.used for s in slow.steps)
    assert fast.pool.peak == max((s.used for s in slow.steps), default=0)
    assert fast.pool.waste_sum == pytest.approx(sum(s.wasted for s in slow.steps))
    # Less than a block is empty in each request and group.
    assert all(s.wasted < max(s.running, 1) * len(groups) for s in slow.steps)


@settings(max_examples=1000, deadline=None)
@given(workloads())
@example(LEFT)
@example(BEHIND)
@example(STOPS)
@example(ENDED)
def test_steps_taken_together_change_nothing(load: Any) -> None:
    seen: list[Seen] = []
    one_by_one = facts(run(load, watch=seen.append))
    together = run(load)
    assert facts(together) == one_by_one
    every = run(load, rows=None)
    assert facts(every) == one_by_one
    assert every.tally.series() == [s.row for s in seen]
    few = run(load, rows=3)
    assert facts(few) == one_by_one
    kept = few.tally.series()
    assert len(kept) <= 3
    assert set(kept) <= {s.row for s in seen}


@st.composite
def timings(draw: st.DrawFn) -> tuple[Work, Rate]:
    """A model's work and a machine's rates, small enough that either bound may hold."""
    lanes = []
    for cut in draw(st.lists(st.sampled_from(("", "window", "chunk", "encoder")), max_size=3)):
        span = {cut: draw(st.integers(2, 12))} if cut else {}
        prefill, decode = draw(st.integers(1, 9)), draw(st.integers(1, 9))
        lanes.append(Lane(Attention(prefill, decode, **span), draw(st.integers(0, 9))))
    work = Work(draw(st.integers(1, 50)), tuple(lanes), draw(st.integers(0, 9)), 40)
    return work, Rate(draw(st.integers(1, 12)), draw(st.integers(1, 12)))


@settings(max_examples=800, deadline=None)
@given(workloads(), timings())
def test_times_are_the_same_however_steps_are_taken(load: Any, timed: Any) -> None:
    work, rate = timed
    timed = {"work": work, "rate": rate, "ticks": 700}
    one_by_one = facts(run(load, watch=lambda _: None, **timed))
    assert facts(run(load, **timed)) == one_by_one
    assert facts(run(load, rows=4, **timed)) == one_by_one


@settings(max_examples=200, deadline=None)
@given(workloads(), timings())
def test_a_step_costs_what_its_requests_cost(load: Any, timed: Any) -> None:
    """Ticks and bytes added up token by token, from the lengths that the reference saw."""
    work, rate = timed
    groups, blocks, engine, arrivals = load
    engine = engine._replace(enable_prefix_caching=False)
    slow = Reference(groups, blocks, engine)
    slow.run(arrivals)
    outcome = run((groups, blocks, engine, arrivals), work=work)
    timed_run = run(
        (groups, blocks, engine, [a._replace(at=0) for a in arrivals]), work=work, rate=rate
    )
    read = 0
    lengths: dict[Any, int] = {}
    for step in slow.steps:
        for name in step.preempted:
            lengths[name] = 0
        for name, count in step.scheduled.items():
            before = lengths.get(name, 0)
            lengths[name] = before + count
            read += work.request_bytes + sum(
                lane.read * visible(lane.seen, before, before + count) for lane in work.lanes
            )
    assert outcome.clock.read_bytes == read
    assert timed_run.clock.ticks_per_second is not None
    least = work.token_flops * timed_run.tally.scheduled_tokens / rate.flops
    assert timed_run.clock.now / timed_run.clock.ticks_per_second >= least * 0.999999


def visible(a: Attention, before: int, after: int) -> int:
    """Positions that any of the tokens before + 1 … after attends to."""
    if a.encoder is not None:
        return a.encoder
    positions = set()
    for n in range(before + 1, after + 1):
        positions |= set(range(n - a.seen(n) + 1, n + 1))
    return len(positions)
