"""`kvcalc offload`."""

from __future__ import annotations

from kvcalc.cli.options import KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "offload",
    "KV outside the GPU: host RAM, disk, links",
    (
        "context", "requests", "shared_prefix", "transfers_per_second", "encoder_tokens",
        "allow_long_context", "host_pool", "pool_per", "host_set", "host_ram", "bandwidth",
        "bandwidth_per", "gpu", "gpus", "tp", "pp", "dcp", "chunk_tokens", *KV, "weights",
        "weight_bytes", *SHAPE,
    ),
    lists=("context",),
    examples=(
        ("kvcalc offload llama-3.1-8b -c 32K -n 20 --pool 100GiB --bandwidth 25GB/s --gpu h100",
         "do 20 sessions stay in host RAM, and is loading quicker than recomputing?"),
        ("kvcalc offload llama-3.1-8b --tp 2 --max-local-cpu-size 50 -c 8K,32K",
         "what LMCache's 50 GB a rank hold"),
        ("kvcalc offload opt-13b -c 512 --requests-per-second 10 --bandwidth 25Gb/s",
         "KV from prefill to decode nodes"),
    ),
    note="--gpu gives the seconds that recomputing takes at least, by bandwidth and FLOP/s. A link "
         "is given in bytes (25GB/s) or bits (200Gb/s); 25G is refused, for it is both.",
)  # fmt: skip
