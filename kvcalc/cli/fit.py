"""`kvcalc fit`."""

from __future__ import annotations

from kvcalc.cli.options import ENGINES, KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "fit",
    "what fits on which GPU",
    (
        "gpu", "gpu_memory", "gpus", "utilization", "reserve", "kv_pool", "kv_pool_tokens",
        "context", "requests", "average_context", "shared_prefix", "prefix_copies",
        "encoder_tokens", "allow_long_context", *KV, "weights", "weight_bytes", "block_size",
        "tp", "pp", "pp_layers", "dp", "dcp", "ep", "price", "solve", "all", "why", "chart",
        "no_chart", *ENGINES,
        *SHAPE,
    ),
    examples=(
        ("kvcalc fit llama-3.1-70b --gpu h100 --weights int4 -c 4096", "requests on one GPU"),
        ("kvcalc fit llama-3.1-70b --gpu 4xh100 -c 32K -n 20", "does this load fit?"),
        ("kvcalc fit llama-3.1-70b", "on which GPUs, and how many of them?"),
        ("kvcalc fit --gpu 4090", "which models fit on this one?"),
        ("kvcalc fit llama-3.1-70b --gpu h100,h200 --kv-dtype bf16,fp8", "combinations"),
        ("kvcalc fit llama-3.1-8b --gpu 4090 -n 8 --solve max_num_batched_tokens",
         "the most of an engine's own setting"),
        ("kvcalc fit qwen3-30b-a3b --gpu 5070ti+5090 --pp-layers 16,32 --weights fp8",
         "a machine that mixes GPUs, a pipeline over it"),
        ("kvcalc fit llama-3.1-70b --gpu h100 -n 8 --solve gpus", "the fewest GPUs for a load"),
        ("kvcalc fit llama-3.1-70b --gpu 4xh100 -c 8K --price 2.50", "what does a user cost?"),
    ),
)  # fmt: skip
