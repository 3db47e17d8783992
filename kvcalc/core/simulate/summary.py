"""What a run added up to, as the answer's fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvcalc.core.results.simulate import (
    Latency,
    Lifecycle,
    Mean,
    Peak,
    Percentiles,
    PrefixHits,
    RequestCounts,
    RequestRow,
    SeriesRow,
    Shares,
    Throughput,
)
from kvcalc.core.simulate.clock import Clock
from kvcalc.core.simulate.quantiles import percentile
from kvcalc.core.simulate.run import Outcome

_NONE = Percentiles(None, None, None, None, None)
#: Ticks as seconds; None where the clock has none.
Seconds = Callable[[float], "float | None"]


class Summary(NamedTuple):
    """The part of an answer that follows from the run alone."""

    requests: RequestCounts
    preemptions: int
    steps: int
    seconds: float | None
    peak: Peak
    mean: Mean
    shares: Shares
    waste_fraction: float
    effective_requests: float
    prefix: PrefixHits
    latency: Latency
    throughput: Throughput
    lifecycle: Lifecycle
    series: tuple[SeriesRow, ...]
    per_request: tuple[RequestRow, ...]


def summary(
    outcome: Outcome,
    *,
    step_seconds: float | None = None,
    token_bytes: int | None = None,
    skipped: int = 0,
) -> Summary:
    """The answer's fields of a run.

    Args:
        outcome: The run.
        step_seconds: What a step lasts where the clock counts steps; None: they have no seconds.
        token_bytes: Bytes of a cached token, for what hits save; None without a model.
        skipped: Lines of the trace that were left out.
    """
    tally, pool, clock = outcome
    steps, seconds = clock.step, _seconds(clock, step_seconds)
    shares = _shares(outcome)
    duration = seconds(clock.now)
    return Summary(
        requests=RequestCounts(
            tally.finished + tally.rejected, tally.finished, tally.rejected, tally.preempted,
            tally.cut, skipped,
        ),
        preemptions=tally.preemptions,
        steps=steps,
        seconds=duration,
        peak=Peak(pool.peak, tally.peak_running),
        mean=Mean(_over(pool.used_sum, steps), _over(tally.running_sum, steps)),
        shares=shares,
        waste_fraction=1 - shares.used_fraction if any(shares) else 0.0,
        effective_requests=tally.peak_running * shares.used_fraction,
        prefix=PrefixHits(
            tally.hit_tokens, _over(tally.hit_tokens, tally.prompt_tokens),
            None if token_bytes is None else tally.hit_tokens * token_bytes,
        ),
        latency=_latency(outcome, seconds),
        throughput=Throughput(*(
            n / duration if duration else None
            for n in (tally.finished, tally.prompt_tokens, tally.output_tokens)
        )),
        lifecycle=_lifecycle(outcome, token_bytes),
        series=tuple(
            SeriesRow(r.step, seconds(r.tick), r.running, r.waiting, r.scheduled_tokens,
                      r.used_blocks, r.cached_blocks)
            for r in tally.series()
        ),
        per_request=_per_request(outcome, seconds),
    )  # fmt: skip


def _over(value: float, count: float) -> float:
    return value / count if count else 0.0


def _seconds(clock: Clock, step_seconds: float | None) -> Seconds:
    per_second = clock.ticks_per_second
    if per_second is not None:
        return lambda ticks: ticks / per_second
    if step_seconds is None:
        return lambda _: None
    return lambda ticks: ticks * step_seconds


def _shares(outcome: Outcome) -> Shares:
    used, reserved, internal, pieces = outcome.pool.shares()
    external = pieces + outcome.tally.denied_sum
    total = used + reserved + internal + external
    return Shares(*(_over(part, total) for part in (used, reserved, internal, external)))


def _lifecycle(outcome: Outcome, token_bytes: int | None) -> Lifecycle:
    tally, pool, clock = outcome
    # A request stores all but its last token, and what it hits is there already.
    once = tally.prompt_tokens + tally.output_tokens - tally.finished - tally.hit_tokens
    return Lifecycle(
        pool.allocated,
        tally.scheduled_tokens,
        tally.scheduled_tokens - once,
        None if token_bytes is None else clock.read_bytes,
        pool.allocated - pool.used,
    )


def _latency(outcome: Outcome, seconds: Seconds) -> Latency:
    tally, _, clock = outcome
    waits = [_percentiles(ticks) for ticks in (tally.queue, tally.first, tally.total)]
    timed = [_scaled(found, seconds) for found in (*waits, _percentiles(tally.gaps))]
    steps = waits if clock.ticks_per_second is None else [_NONE] * 3
    return Latency(*timed, *steps)


def _percentiles(values: Sequence[float]) -> Percentiles:
    if not values:
        return _NONE
    ordered = sorted(values)
    p50, p90, p99 = (percentile(ordered, percent) for percent in (50, 90, 99))
    return Percentiles(p50, p90, p99, sum(values) / len(values), ordered[-1])


def _scaled(found: Percentiles, seconds: Seconds) -> Percentiles:
    return Percentiles(*(None if value is None else seconds(value) for value in found))


def _per_request(outcome: Outcome, seconds: Seconds) -> tuple[RequestRow, ...]:
    stepped = outcome.clock.ticks_per_second is None
    return tuple(
        RequestRow(
            j.id, j.first_token_step, j.finish_step, j.preemptions, j.hit_tokens,
            seconds(j.queue_ticks), j.queue_ticks if stepped else None,
        )
        for j in sorted(outcome.tally.jobs or ())
    )  # fmt: skip
