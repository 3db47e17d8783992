"""`kvcalc waste`."""

from __future__ import annotations

from kvcalc.cli.options import KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "waste",
    "what allocation wastes",
    (
        "request", "trace", "limit", "skip_bad", "seed", "max_context", "slots", "waste_fraction",
        "encoder_tokens",
        "allow_long_context", *KV, "weights", "weight_bytes", "block_size", "pool", "gpu", "gpus",
        "policy", "chart", "no_chart", *SHAPE,
    ),
    examples=(
        (
            "kvcalc waste llama-3.1-70b --request 500,3800,200 --max-context 4096 --pool 45GiB",
            "four policies side by side, and what a pool holds under each",
        ),
        (
            "kvcalc waste qwen3-8b --request 2049 --max-context 32768",
            "a static cache of 32,768: prompt 2,000 and 50 generated",
        ),
        (
            "kvcalc waste llama-3.1-8b --request 4k --policy paged --block-size 16,32,64,128",
            "what larger pages waste",
        ),
        (
            "kvcalc waste llama-3.1-8b --trace conv.csv --max-context 16384",
            "the requests of a trace, at their full lengths",
        ),
        ("kvcalc waste --slots 36 --waste-fraction 0.62", "without a model or lengths"),
    ),
    note=(
        "naive reserves --max-context for every request, as a static cache does (transformers' "
        "StaticCache); pow2 the next power of two, at most that; "
        "exact what the request used; paged whole blocks. --request counts stored tokens: engines "
        "never store the last sampled one, so a prompt of 2,000 with 50 generated is 2049, and so "
        "--trace counts; simulate follows its requests over time. "
        "--gpu makes the pool the GPU's memory less the weights."
    ),
)  # fmt: skip
