"""`kvcalc tradeoff`."""

from __future__ import annotations

from kvcalc.cli.options import KV, SHAPE
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "tradeoff",
    "work saved for memory spent",
    ("tokens", "encoder_tokens", "allow_long_context", *KV, *SHAPE),
    examples=(
        ("kvcalc tradeoff llama-3.1-8b --tokens 1000", "500,500 token passes against 1,000"),
        ("kvcalc tradeoff llama-3.1-8b --tokens 1000,4000,16000", "how the ratio grows"),
    ),
    note="A pass is one token through the whole model. csv and jsonl list every step of up to 64 "
         "tokens; beyond, 32 evenly chosen ones. The totals are exact sums over all steps.",
)  # fmt: skip
