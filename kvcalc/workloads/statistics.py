"""What a trace asks for, in one pass: rates, percentiles, and what an LRU of blocks would hit."""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from kvcalc.core.results.base import Warn
from kvcalc.core.results.workload import Arrivals, Lengths, PrefixSharing, WorkloadResult
from kvcalc.core.simulate.job import HashIds
from kvcalc.core.simulate.keys import Keys
from kvcalc.core.simulate.quantiles import percentile
from kvcalc.core.units import cdiv
from kvcalc.workloads.request import TraceRequest
from kvcalc.workloads.trace import Workload


def statistics(
    workload: Workload, *, cache_blocks: int = 0, block_size: int = 16
) -> WorkloadResult:
    """Rates, lengths and prefix sharing of all requests.

    Args:
        workload: The trace; read once.
        cache_blocks: Blocks of the LRU through which prompts are replayed; 0 is endless.
        block_size: Tokens of a block where the trace names prefixes instead of hashing blocks.

    Raises:
        KvcalcError: What reading the trace raises.
    """
    times, prompts, outputs = array("d"), array("q"), array("q")
    replay = _Replay(cache_blocks, block_size)
    for request in workload:
        times.append(request.at)
        prompts.append(request.prompt)
        outputs.append(request.output)
        replay.add(request)
    timed = workload.unit == "seconds" and bool(times)
    stepped = workload.unit == "steps" and bool(times)
    return WorkloadResult(
        name=workload.name,
        format=workload.format,
        requests=len(times),
        skipped=workload.skipped,
        arrivals=_arrivals(times) if timed else None,
        first_step=int(times[0]) if stepped else None,
        last_step=int(times[-1]) if stepped else None,
        lengths=(_lengths("prompt", prompts), _lengths("output", outputs)) if times else (),
        prefix=replay.result(),
        warnings=skipped_warning(workload),
    )


def skipped_warning(workload: Workload) -> tuple[Warn, ...]:
    """That lines were left out, if any were."""
    n = workload.skipped
    if not n:
        return ()
    text = f"{n:,} line{'' if n == 1 else 's'} of {workload.name} left out as no request"
    return (Warn("lines_skipped", text),)


def _lengths(of: str, values: array[int]) -> Lengths:
    ordered = sorted(values)
    p10, p50, p90, p95, p99 = (percentile(ordered, percent) for percent in (10, 50, 90, 95, 99))
    total = sum(values)
    return Lengths(of, total, total / len(values), ordered[0], p10, p50, p90, p95, p99, ordered[-1])


def _arrivals(times: array[float]) -> Arrivals:
    """Rates over the span between the first and the last request."""
    duration, gaps = times[-1] - times[0], len(times) - 1
    rate = cv = None
    if duration > 0:
        mean = duration / gaps
        square = sum((b - a - mean) ** 2 for a, b in zip(times, times[1:]))  # noqa: B905, RUF007
        rate, cv = len(times) / duration, math.sqrt(square / gaps) / mean
    return Arrivals(times[0], times[-1], duration, rate, cv)


class _Replay:
    """Prompts through an LRU of blocks: those hit in a row from the first on, then all are used."""

    def __init__(self, capacity: int, block_size: int) -> None:
        self._capacity, self._size = capacity, block_size
        self._keys = Keys(block_size)
        self._held: OrderedDict[Hashable, None] = OrderedDict()
        self._seen: set[Hashable] = set()
        self._unique = self._blocks = self._hits = self._tokens = self._hit_tokens = 0
        self._sharing = 0
        self._any = False
        self._number = 0

    def add(self, request: TraceRequest) -> None:
        """Replay a prompt."""
        prefix, prompt = request.prefix, request.prompt
        self._number += 1
        self._tokens += prompt
        own = 0
        names: Sequence[Hashable] = ()
        if isinstance(prefix, HashIds):
            names, size = prefix
            self._size = size
        else:
            size = self._size
            names = self._keys.of(prefix, prompt)
            own = cdiv(prompt, size) - len(names)
        self._any = self._any or prefix is not None
        if own and self._capacity:
            # Blocks of nobody else take room in the cache; an endless one need not keep them.
            names = [*names, *((self._number, i) for i in range(own))]
            own = 0
        hits = self._replay(names)
        self._hits += hits
        self._hit_tokens += min(hits * size, prompt)
        self._sharing += hits > 0
        self._blocks += len(names) + own
        self._unique += own
        if self._capacity:
            self._seen.update(names)

    def _replay(self, names: Sequence[Hashable]) -> int:
        held, capacity, hits = self._held, self._capacity, 0
        for name in names:
            if name not in held:
                break
            hits += 1
        for name in names:
            if name in held:
                held.move_to_end(name)
                continue
            held[name] = None
            if capacity and len(held) > capacity:
                held.popitem(last=False)
        return hits

    def result(self) -> PrefixSharing | None:
        """What was hit; None if no prompt said what it shares."""
        if not self._any:
            return None
        named = len(self._seen) if self._capacity else len(self._held)
        return PrefixSharing(
            block_tokens=self._size,
            cache_blocks=self._capacity,
            blocks=self._blocks,
            unique_blocks=named + self._unique,
            hit_blocks=self._hits,
            hit_fraction=self._hits / self._blocks,
            hit_tokens=self._hit_tokens,
            token_hit_fraction=self._hit_tokens / self._tokens,
            sharing_requests=self._sharing,
        )
