"""`kvcalc models`."""

from __future__ import annotations

from kvcalc.cli.lookup import run_lookup
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "models",
    "the models kvcalc knows",
    ("family", "attention", "names"),
    argument=("[show] NAME", "one model in full; none lists them all", "models"),
    rest=True,
    examples=(
        ("kvcalc models --family qwen", "the models of a family"),
        ("kvcalc models show gemma-3-27b", "its layers, and the config field behind each number"),
    ),
)
run = run_lookup("models")
