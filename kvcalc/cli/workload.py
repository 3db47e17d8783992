"""`kvcalc workload`."""

from __future__ import annotations

from typing import Any

from kvcalc.cli import output
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "workload",
    "what a trace asks for",
    ("cache_blocks", "block_size", "limit", "skip_bad", "seed"),
    argument=("FILE", "a trace, - for stdin, or poisson:rate=5,prompt=1K,output=200", "files"),
    examples=(
        ("kvcalc workload conv.csv", "rates, percentiles, shared prefixes"),
        ("kvcalc workload mooncake.jsonl --cache-blocks 10000,50000,0",
         "what caches of three sizes hit"),
        ("kvcalc workload 'poisson:rate=5,prompt=lognormal(1200,0.9),output=200'",
         "a synthetic one"),
    ),
    note=(
        "Traces are recognised by their fields: kvcalc's own (prompt_tokens, output_tokens, "
        "arrival_seconds or arrival_step, prefix or hash_ids), Azure, Mooncake, BurstGPT, "
        "Qwen-Bailian, vidur, LLMServingSim."
    ),
)  # fmt: skip


def run(options: dict[str, Any], out: output.Output) -> int:
    """Answer; the argument is a source, whose commas separate nothing."""
    from kvcalc.answer import answer  # noqa: PLC0415 - main imports this module's command
    from kvcalc.cli.main import deliver, list_keys  # noqa: PLC0415

    keywords = {"trace": options.pop("argument", None), **options}
    return deliver(answer("workload", keywords, lists=list_keys(SPEC)), out)
