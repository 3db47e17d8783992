"""One run: requests through a scheduler and a pool, and what it added up to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kvcalc.core.simulate.cached import Cached
from kvcalc.core.simulate.clock import NO_WORK, Clock, Rate, Work
from kvcalc.core.simulate.counted import Counted
from kvcalc.core.simulate.job import FULL, STATE, Arrival, GroupSpec, Job, Settings
from kvcalc.core.simulate.line import Line
from kvcalc.core.simulate.reserved import Reserved
from kvcalc.core.simulate.static import Static
from kvcalc.core.simulate.tally import Seen, Tally
from kvcalc.core.simulate.vllm import Scheduler
from kvcalc.core.simulate.windowed import Windowed

SCHEDULERS = ("vllm", "static")


class Outcome(NamedTuple):
    """What a run leaves behind."""

    tally: Tally
    pool: Counted
    clock: Clock


class Memory(NamedTuple):
    """What there is to allocate, and how: `blocks` as the engine counts them, null block included.

    `maximum` is the slot of naive and the end of pow2's rounding, tokens.
    """

    groups: Sequence[GroupSpec]
    blocks: int
    policy: str = "paged"
    maximum: int | None = None


def run(
    arrivals: Iterable[Arrival],
    memory: Memory,
    settings: Settings,
    *,
    scheduler: str = "vllm",
    work: Work = NO_WORK,
    rate: Rate | None = None,
    ticks: float | None = None,
    tally: Tally | None = None,
    watch: Callable[[Seen], None] | None = None,
) -> Outcome:
    """Requests, in the order of arrival, through a scheduler and a pool.

    A request that can never run is rejected, as the engine does: one whose prompt leaves no token
    of `max_model_len`, or that at its end needs more memory than there is. A longer output is cut
    at `max_model_len`.

    Args:
        arrivals: In order of `at`.
        memory: The pool and its policy.
        settings: vLLM's; a static batch uses only `max_num_seqs` and `max_model_len`.
        scheduler: "vllm" or "static".
        work: What a token costs; without it nothing is read.
        rate: FLOP/s and bytes/s; without it a step is a tick.
        ticks: Of the clock in a unit of `at`; default: `at` counts steps, or seconds where there is
            a `rate`.
        tally: Where to count; it says which rows are kept.
        watch: As `Scheduler` has it.
    """
    tally = tally or Tally()
    static = scheduler == "static"
    pool = _pool(memory, settings, static=static)
    clock = Clock(work, rate)
    line = Line(
        arrivals,
        _gate(pool, settings, tally, static=static),
        lambda number, a, tick: Job(number, a, tick, pool.keys(a.prefix, a.prompt)),
        (clock.ticks_per_second or 1) if ticks is None else ticks,
    )
    if isinstance(pool, Reserved) and static:
        Static(line, pool, clock, settings, tally).run()
    else:
        Scheduler(line, pool, clock, settings, tally, watch).run()
    return Outcome(tally, pool, clock)


def _pool(memory: Memory, settings: Settings, *, static: bool) -> Counted:
    """The simplest pool that answers for this memory and these settings."""
    groups, blocks, policy, maximum = memory
    if static or policy != "paged":
        return Reserved(policy, blocks, groups[0].block_size, maximum, settings)
    if not settings.enable_prefix_caching:
        plain = all(g.kind in {FULL, STATE} for g in groups)
        return (Counted if plain else Windowed)(groups, blocks, settings)
    if len(groups) == 1 and groups[0].kind == FULL:
        return Cached(groups, blocks, settings)
    return Windowed(groups, blocks, settings)


def _gate(
    pool: Counted, settings: Settings, tally: Tally, *, static: bool
) -> Callable[[int, int], int]:
    """(prompt, output) to the output that it may generate; 0 if it is rejected."""
    most = settings.max_model_len
    if not settings.enable_chunked_prefill and not static:
        budget = settings.max_num_batched_tokens
        most = budget if most is None else min(most, budget)

    def gate(prompt: int, output: int) -> int:
        if most is not None and prompt + output > most:
            output = most - prompt
            tally.cut += output > 0
        if output <= 0 or not pool.fits_alone(prompt, output):
            tally.rejected += 1
            return 0
        return output

    return gate
