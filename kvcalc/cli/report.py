"""`kvcalc report`."""

from __future__ import annotations

from kvcalc.cli.options import ENGINES, KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "report",
    "one page for a deployment",
    (
        "gpu", "gpu_memory", "gpus", "utilization", "reserve", "kv_pool", "kv_pool_tokens",
        "context", "requests", "average_context", "shared_prefix", "prefix_copies", "prompt",
        "output", "requests_spec", "at", "max_context", "trace", "requests_per_second", "limit",
        "skip_bad", "seed", "encoder_tokens", "allow_long_context", *KV, "weights", "weight_bytes",
        "block_size", "tp", "pp", "pp_layers", "dp", "dcp", "ep", *ENGINES, "trace_policy",
        "scheduler", "max_batched_tokens", "max_requests", "prefix_caching", "no_prefix_caching",
        "clock", "step_seconds", "chart", "no_chart", *SHAPE,
    ),
    lists=("context", "requests", "gpu", "gpus", "kv_dtype"),
    examples=(
        ("kvcalc report llama-3.1-70b --weights int4 --gpu h100 -n 20 -o plan.html",
         "a page whose sliders move every figure"),
        ("kvcalc report llama-3.1-70b --gpu h100,h200 --gpus 2,4 --kv-dtype bf16,fp8 -o plan.html",
         "several plans in one page"),
        ("kvcalc report qwen3-32b --gpu h100 -c 32K -o plan.md", "the same for an issue or a wiki"),
        ("kvcalc report llama-3.1-8b --gpu a100-40 --trace conv.csv -o plan.html",
         "and how each plan serves the requests of a trace"),
    ),
    note="Several values of --gpu, --gpus and --kv-dtype are plans beside each other; the first "
         "values of -c and -n are the question, all are points of the page. Exit code 1 where the "
         "question is answered with no.",
)  # fmt: skip
