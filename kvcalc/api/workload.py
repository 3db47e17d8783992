"""kvcalc.workload: what a trace asks for."""

from __future__ import annotations

from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.workload import WorkloadResult
from kvcalc.core.units import parse_count
from kvcalc.shape import Count
from kvcalc.workloads import open_workload
from kvcalc.workloads.statistics import statistics


def workload(
    trace: str | None = None,
    *,
    cache_blocks: Count = 0,
    block_size: Count = 16,
    limit: Count | None = None,
    skip_bad: bool = False,
    seed: Count | None = None,
) -> WorkloadResult:
    """Rates, lengths and prefix sharing of a trace.

    Args:
        trace: A file, "-" for standard input, or a spec like
            "poisson:rate=5,prompt=1K,output=200".
        cache_blocks: Blocks of the LRU that prompts are replayed through; 0 is endless.
        block_size: Tokens of a block, where the trace names prefixes instead of hashing blocks.
        limit: Read at most so many requests.
        skip_bad: Count lines that are no request and go on.
        seed: Of a synthetic workload.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    if not trace:
        raise KvcalcError(
            "usage", "FILE is missing: which requests?",
            "a trace, - for stdin, or poisson:rate=5,prompt=1K,output=200",
        )  # fmt: skip
    opened = open_workload(
        trace,
        limit=None if limit is None else parse_count(limit, "--limit"),
        skip_bad=skip_bad,
        seed=None if seed is None else parse_count(seed, "--seed", minimum=0),
    )
    return statistics(
        opened,
        cache_blocks=parse_count(cache_blocks, "--cache-blocks", minimum=0),
        block_size=parse_count(block_size, "--block-size"),
    )
