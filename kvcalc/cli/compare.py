"""`kvcalc compare`."""

from __future__ import annotations

from kvcalc.cli.options import KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "compare",
    "what each technique saves",
    (
        "context", "requests", "request", "max_context", "shared_prefix", "prefix_copies",
        "window", "keep", "encoder_tokens", "allow_long_context", *KV, "block_size", *SHAPE,
    ),
    examples=(
        ("kvcalc compare llama-3.1-70b", "every technique, with stated assumptions"),
        (
            "kvcalc compare llama-3.1-70b -n 26 --shared-prefix 1024 --window 1024 --keep 512",
            "26 requests, and the techniques' own parameters",
        ),
        (
            "kvcalc compare llama-3.1-70b --request 500,3800,200 --max-context 4096",
            "pages for these requests, against reserving 4,096 for each",
        ),
    ),
    note=(
        "Each row is one technique alone, against -n requests of -c tokens; GQA, MQA and MLA are "
        "held against MHA, pages against reserving --max-context (or the model's maximum) for each "
        "request. What is not given is assumed and said: --shared-prefix and --window a quarter of "
        "-c, --keep an eighth, each rounded down to a power of two. Quality is the literature's "
        "word; formats it does not judge are not judged here."
    ),
)  # fmt: skip
