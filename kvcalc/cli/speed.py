"""`kvcalc speed`."""

from __future__ import annotations

from kvcalc.cli.options import KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "speed",
    "how fast at most: bandwidth and FLOPs",
    (
        "gpu", "gpus", "tp", "context", "requests", "prompt", "encoder_tokens",
        "allow_long_context", "weights", "weight_bytes", *KV, "chart", "no_chart", *SHAPE,
    ),
    examples=(
        ("kvcalc speed llama-3.1-70b --weights awq --gpu a100-80 -c 4096 -n 26", "a full GPU"),
        ("kvcalc speed llama-3.1-8b --gpu 4090", "one request"),
        ("kvcalc speed llama-3.1-70b --gpu 8xh100 -c 32K -n 8,16,32", "more requests at once"),
    ),
    note="Ceilings from bandwidth and dense FLOP/s, not forecasts: nothing real is faster. A step "
         "reads the weights once for all requests, and each request's own cache.",
)  # fmt: skip
