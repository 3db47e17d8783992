"""`kvcalc models`."""

from __future__ import annotations

from kvcalc.cli.lookup import run_lookup
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "models",
    "the models kvcalc knows",
    ("family", "attention", "names", "id", "force"),
    argument=("[show|add] NAME", "one model in full; none lists them all", "models"),
    rest=True,
    examples=(
        ("kvcalc models --family qwen", "the models of a family"),
        ("kvcalc models show gemma-3-27b", "its layers, and the config field behind each number"),
        ("kvcalc models add ./my-model --id mine", "a preset of your own, from a config or a file"),
    ),
)
run = run_lookup("models", {"add": "kvcalc.cli.models_add"})
