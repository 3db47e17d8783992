"""`kvcalc simulate`."""

from __future__ import annotations

import sys
import time
from typing import Any

from kvcalc.cli import output
from kvcalc.cli.options import KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "simulate",
    "a stream of requests",
    (
        "trace", "requests_per_second", "limit", "skip_bad", "seed", "longest_context",
        "encoder_tokens", "allow_long_context", *KV, "weights", "weight_bytes", "block_size",
        "gpu", "gpus", "tp", "pool", "blocks", "utilization", "reserve", "each_policy",
        "scheduler", "max_batched_tokens", "max_requests", "prefix_caching", "no_prefix_caching",
        "engine", "engine_version", "set", "clock", "step_seconds", "per_request", "series",
        "solve_load", "max_wait", "chart", "no_chart", *SHAPE,
    ),
    argument=("[MODEL]", "a preset, a file or folder, or numbers; none with --blocks", "models"),
    examples=(
        ("kvcalc simulate llama-3.1-8b --trace conv.csv --gpu a100-40", "waiting, memory, time"),
        ("kvcalc simulate llama-3.1-8b --trace conv.csv --gpu h100 --policy naive,paged",
         "policies side by side"),
        ("kvcalc simulate llama-3.1-8b --trace conv.csv --gpu a100-40 --solve rate",
         "how many requests a second it serves"),
        ("kvcalc simulate --trace requests.jsonl --blocks 1000 --series all --per-request --json",
         "blocks and steps alone"),
    ),
    note=(
        "paged is vLLM: blocks on demand. naive reserves --max-context for each request, pow2 "
        "rounds the output up to a power of two, exact knows its length beforehand. Seconds are "
        "roofline ceilings: nothing real is faster. Settings of --set: watermark, "
        "enable_chunked_prefill, scheduler_reserve_full_isl, async_scheduling …"
    ),
)  # fmt: skip


def run(options: dict[str, Any], out: output.Output) -> int:
    """Answer, with a line of progress where somebody watches."""
    from kvcalc.cli.main import answered, deliver  # noqa: PLC0415 - main imports this module

    if out.quiet or sys.stderr is None or not sys.stderr.isatty():
        return deliver(answered(SPEC, options), out)
    from kvcalc.api.simulate_load import watchers  # noqa: PLC0415 - only a terminal has progress

    progress = Progress()
    watchers.append(progress)
    try:
        result = answered(SPEC, options)
    finally:
        watchers.remove(progress)
        progress.clear()
    return deliver(result, out)


class Progress:
    """One line on stderr that says how far the trace is read, once a run takes long."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 0.5
        self._width = 0

    def __call__(self, requests: int) -> None:
        """So many requests have been read."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 0.1
        text = f"simulating: {requests:,} requests"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
