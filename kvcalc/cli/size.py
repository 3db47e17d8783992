"""`kvcalc size`."""

from __future__ import annotations

from kvcalc.cli.options import ENGINES, KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "size",
    "how big the cache is",
    (
        "context", "requests", "request", "image", "encoder_tokens", "shared_prefix",
        "prefix_copies", "include_mtp",
        "allow_long_context",
        *KV, "weights", "weight_bytes", "block_size", "tp", "pp", "pp_layers", "dcp", "chart",
        "no_chart", *ENGINES, *SHAPE,
    ),
    lists=("context",),
    examples=(
        ("kvcalc size llama-3.1-70b -c 8K,32K,128K", "a table of contexts"),
        ("kvcalc size llama-3.1-8b,llama-3.1-70b,llama-3.1-405b", "models beside each other"),
        ("kvcalc size llama-3.1-70b --request 2048 --request 4096 --request 500", "a mixed batch"),
        ("kvcalc size qwen3-32b --kv-dtype bf16,fp8,q4_0 -c 32K", "what a smaller format saves"),
        ("kvcalc size qwen2.5-vl-72b --image 2488x2048 --image 2488x2048", "what images take"),
        ("kvcalc size --layers 32 --kv-heads 32 --head-dim 128", "a model by its numbers"),
    ),
)  # fmt: skip
