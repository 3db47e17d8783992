"""The topics in their order, the question each answers, and the page behind it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from kvcalc.core.results.explain import Page, Topic
from kvcalc.core.size import block_bytes
from kvcalc.core.units import GIB, fixed, format_bytes, percent
from kvcalc.explain.subject import BLOCK, UNEQUAL, Subject

#: Topic → module of this package, function, question.
TOPICS = {
    "why": ("basics", "why", "Why does it exist?"),
    "attention": ("basics", "attention", "What does a new token read?"),
    "stored": ("basics", "stored", "What exactly is stored?"),
    "formula": ("formulas", "formula", "How many bytes?"),
    "gqa": ("formulas", "gqa", "What does sharing heads save?"),
    "prefill-decode": ("serving", "prefill_decode", "What do the two phases do?"),
    "lifecycle": ("serving", "lifecycle", "When is memory taken and freed?"),
    "batching": ("serving", "batching", "Why does memory end a batch?"),
    "waste": ("pages", "waste", "What does allocation waste?"),
    "paged": ("pages", "paged", "How do pages work?"),
    "reduce": ("means", "reduce", "What makes it smaller?"),
    "units": ("means", "units", "GiB or GB, 128K or 128,000?"),
    "engines": ("means", "engines", "What do engines really allocate?"),
    "traps": ("checks", "traps", "What is often said and wrong?"),
    "self-check": ("checks", "self_check", "Do you know it?"),
}
#: All pages, one after the other.
ALL = "all"


def page_of(topic: str, subject: Subject) -> Page:
    """The page on a topic."""
    module, name, _ = TOPICS[topic]
    make: Callable[[Subject], Page] = getattr(import_module(f"kvcalc.explain.{module}"), name)
    return make(subject)


def listed(subject: Subject) -> tuple[Topic, ...]:
    """Every topic with its question and this model's number in a word."""
    return tuple(
        Topic(topic, question, _number(topic, subject))
        for topic, (_, _, question) in TOPICS.items()
    )


def _block(s: Subject) -> int:
    return block_bytes(s.model, s.storage, BLOCK, BLOCK)


def _number(topic: str, s: Subject) -> str:
    """What the topic comes to for this model; empty where a page is needed to say it."""
    one = format_bytes(s.bytes_at(s.context))
    v = s.size.attention_variants
    n = min(1000, s.maximum)
    waste = s.waste(*s.scaled(UNEQUAL))
    numbers = {
        "attention": f"{one} at {s.context:,} tokens",
        "stored": s.size.pattern,
        "formula": f"{format_bytes(s.token)} a token",
        "lifecycle": f"{one} for a prompt of {s.context:,}",
        "batching": f"{one} for each request",
        "why": f"{format_bytes(s.bytes_at(n))} spare {n * (n - 1) // 2:,} passes",
        "waste": f"{percent(waste.policies[0].waste_fraction)} of what is reserved in full",
        "prefill-decode": f"{one} at once, then {format_bytes(s.token)} a step",
        "units": f"{fixed(s.bytes_at(s.context), GIB)} GiB is "
        f"{fixed(s.bytes_at(s.context), 10**9)} GB",
        "paged": f"{format_bytes(_block(s))} a block of {BLOCK}",
    }
    if v is not None:
        numbers["gqa"] = f"{s.model.query_heads} query heads, {s.size.model.kv_heads} KV heads"
    return numbers.get(topic, "")
