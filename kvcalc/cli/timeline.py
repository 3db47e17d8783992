"""`kvcalc timeline`."""

from __future__ import annotations

from kvcalc.cli.options import ENGINES, KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "timeline",
    "how it grows from prompt to last token",
    (
        "prompt", "output", "requests_spec", "at", "points", "max_context", "encoder_tokens",
        "allow_long_context", "gpu", "gpu_memory", "gpus", "tp", "weights", "weight_bytes", *KV,
        "block_size", "chart", "no_chart", *ENGINES, *SHAPE,
    ),
    examples=(
        ("kvcalc timeline llama-3.1-70b --prompt 4096 --output 4096", "one request"),
        ("kvcalc timeline llama-3.1-70b --prompt 4K --output 124K --weights int4 --gpu a100",
         "where memory ends"),
        ("kvcalc timeline llama-3.1-8b --prompt 4096 --output 5000 --at 1000 --at 4096",
         "named steps"),
        ("kvcalc timeline llama-3.1-8b --request 2000:500 --request 4000:200@100 --max-context 8K",
         "two requests, the second 100 steps later, beside naive reservation"),
    ),
    note="Step 0 is the start, 1 the prefill, 1 + k the k-th decoded token. A request's memory is "
         "free in the step after its last token. Exit code 1 where memory runs out.",
)  # fmt: skip
