"""`kvcalc explain`."""

from __future__ import annotations

from typing import Any

from kvcalc.cli import output
from kvcalc.cli.options import KV, SHAPE
from kvcalc.cli.spec import Spec
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

SPEC = Spec(
    "explain",
    "the subject, page by page",
    ("context", "gpu", "weights", "weight_bytes", "encoder_tokens", *KV, *SHAPE),
    argument=("[TOPIC] [MODEL]", "a topic (none lists them), and whose numbers to use", "models"),
    rest=True,
    examples=(
        ("kvcalc explain", "the topics"),
        ("kvcalc explain formula llama-3.1-70b", "the formula in symbols and in numbers"),
        ("kvcalc explain gemma-3-27b", "the topics, with this model's numbers"),
        ("kvcalc explain gqa llama-3.1-8b,llama-3.1-70b", "two models beside each other"),
        ("kvcalc explain all qwen3-32b -o kv-cache.html", "every page in one file"),
    ),
    note="Topics: why, attention, stored, formula, gqa, prefill-decode, lifecycle, batching, "
         "waste, paged, reduce, units, engines, traps, self-check, and all. The model is "
         "llama-3.1-70b unless one is named; a single word that is no topic is a MODEL.",
)  # fmt: skip


def run(options: dict[str, Any], out: output.Output) -> int:
    """Answer, with several models as a table."""
    from kvcalc.answer import answer  # noqa: PLC0415 - after the options were checked
    from kvcalc.cli.main import deliver, list_keys, prepared  # noqa: PLC0415 - it imports this

    words = list(options.pop("argument", []))
    if len(words) > 2:
        text = " ".join(words)
        raise KvcalcError(
            "usage", f"{shown(text)}: one topic and one MODEL",
            "like kvcalc explain formula llama-3.1-70b; a,b compares models",
        )  # fmt: skip
    keywords = prepared(options)
    if words:
        keywords["topic"] = words[0]
    if len(words) > 1:
        names = [name.strip() for name in words[1].split(",")]
        keywords["model"] = names if len(names) > 1 else words[1]
    return deliver(answer("explain", keywords, lists=list_keys(SPEC)), out)
