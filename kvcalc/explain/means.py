"""Pages on means and misunderstandings: reduce, units, engines."""

from __future__ import annotations

from fractions import Fraction

from kvcalc.api.size import size
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.explain import Page, Section
from kvcalc.core.units import GIB, KIB, fixed, trimmed, unit_of
from kvcalc.explain.subject import Subject, grid, page, part, sized

#: Engines whose storage is computed, as `size --engine` names them.
_ENGINES = ("vllm", "llama.cpp", "transformers")
_REQUESTS = 8


def reduce(s: Subject) -> Page:
    """Each technique alone, on this model."""
    made = s.compare(_REQUESTS)
    name, unit = unit_of(max(made.baseline_bytes, 1))
    rows = [
        [
            t.label,
            fixed(t.bytes, unit),
            fixed(t.saved_bytes, unit),
            "–" if t.factor is None else f"{fixed(Fraction(t.factor))}×",
            t.quality,
        ]
        for t in made.techniques
    ]
    best = max(
        (t for t in made.techniques if t.quality.startswith(("none", "<1%"))),
        key=lambda t: t.saved_bytes,
        default=None,
    )
    figures: list[tuple[str, int | float, str]] = [("baseline_bytes", made.baseline_bytes, "B")]
    figures += [(f"{t.technique}_bytes", t.bytes, "B") for t in made.techniques]
    most = (
        ""
        if best is None
        else (
            f" Of what costs no quality or little, “{best.label}” saves most: "
            f"{sized(best.saved_bytes)}."
        )
    )
    return page(
        "reduce",
        "What makes the cache smaller",
        f"{_REQUESTS} requests of {made.context_tokens:,} tokens hold "
        f"{sized(made.baseline_bytes)} of {s.name}'s cache.{most}",
        figures,
        part(
            "One technique alone",
            "Fewer heads are designed into a model; smaller formats, pages and shared prefixes are "
            "the engine's; windows and eviction forget tokens.",
            grid=grid(f"technique|>{name}|>saved|>factor|quality", rows),
            commands=(f"kvcalc compare {s.model.id} -c {s.context} -n {_REQUESTS}",),
        ),
    )


def units(s: Subject) -> Page:
    """KiB and kB, 128K and 128,000, the number on a GPU's box."""
    one = s.bytes_at(s.context)
    rows = [
        ["one token", f"{s.token:,}", f"{fixed(s.token, KIB)} KiB", f"{fixed(s.token, 1000)} kB"],
        [f"{s.context:,} tokens", f"{one:,}", f"{fixed(one, GIB)} GiB", f"{fixed(one, 10**9)} GB"],
    ]
    figures: list[tuple[str, int | float, str]] = [
        ("bytes_per_token", s.token, "B"),
        ("bytes_at_context", one, "B"),
    ]
    if s.weights.bytes:
        rows.append(
            [
                "weights",
                f"{s.weights.bytes:,}",
                f"{fixed(s.weights.bytes, GIB)} GiB",
                f"{fixed(s.weights.bytes, 10**9)} GB",
            ]
        )
        figures.append(("weight_bytes", s.weights.bytes, "B"))
    added = 1000 * s.token
    sections = []
    if s.maximum >= 131_072 and s.token:
        sections.append(_counts(s))
    return page(
        "units",
        "GiB, GB, and 128K",
        f"{one:,} bytes at {s.context:,} tokens of {s.name} are {fixed(one, GIB)} GiB or "
        f"{fixed(one, 10**9)} GB; {s.token:,} bytes a token are {fixed(s.token, KIB)} KiB or "
        f"{fixed(s.token, 1000)} kB.",
        figures,
        part(
            "Two families of units",
            "1 GiB is 1,073,741,824 bytes, 1 GB is 1,000,000,000: seven percent apart. kvcalc "
            "shows GiB, and bytes in JSON. A bare 80G is refused, because it is both.",
            grid=grid("|>bytes|>binary|>decimal", rows),
        ),
        part(
            "A common slip",
            f"1,000 tokens add {sized(added)}, which is {fixed(added, 10**6)} MB. "
            f"{trimmed(s.token, KIB)} KiB times 1,000, written as {trimmed(s.token, KIB)} MB, is "
            "neither.",
        ),
        *sections,
        part(
            "Memory of a GPU",
            "A program sees less than the box says: the driver keeps a part, and 80 GB on a box "
            "may be 80 GiB or less. Presets hold what programs see.",
            commands=(f"kvcalc gpus show {s.gpu}",),
        ),
    )


def _counts(s: Subject) -> Section:
    """128K, and what people write when they mean it."""
    gap = s.bytes_at(131_072) - s.bytes_at(128_000)
    words = [["128K, as kvcalc and most people mean it", "131,072"], ["128k, in vLLM", "128,000"]]
    return part(
        "Counts",
        f"Between the two readings of “128K tokens” lie {sized(gap)} of this model's cache.",
        grid=grid("written|>tokens", words),
    )


def engines(s: Subject) -> Page:
    """What engines really allocate for the same request."""
    textbook = s.bytes_at(s.context)
    rows, figures = [["textbook", sized(textbook), f"{textbook:,}", ""]], []
    figures.append(("textbook_bytes", textbook, "B"))
    reasons = []
    for name in _ENGINES:
        try:
            kept = {k: v for k, v in s.options.items() if k not in {"weights", "weight_bytes"}}
            made = size(s.model, context=s.context, engine=name, allow_long_context=True, **kept)
        except KvcalcError as error:
            reasons.append(f"{name}: {error.message}")
            continue
        found = made.contexts[0]
        taken = found.engine_bytes or 0
        more = taken - textbook
        note = "" if not more else f"{'+' if more > 0 else '−'}{sized(abs(more))}"
        version = f" {made.engine.version}" if made.engine.version else ""
        rows.append([f"{made.engine.id}{version}", sized(taken), f"{taken:,}", note])
        figures.append((f"{made.engine.id}_bytes", taken, "B"))
    text = (
        "The formula counts tokens. An engine counts what it can hand out: whole blocks, padded "
        "cells, windows with room for the tokens in flight, layers grouped to equal pages, states "
        "beside them."
    )
    return page(
        "engines",
        "What engines allocate",
        f"One request of {s.context:,} tokens to {s.name} is {sized(textbook)} by the formula: "
        f"{_beside(rows)}.",
        figures,
        part(
            "The same request",
            text,
            grid=grid("engine|>allocates|>bytes|>beside the formula", rows),
            commands=tuple(
                f"kvcalc size {s.model.id} -c {s.context} --engine {n}" for n in _ENGINES
            ),
        ),
        part(
            "Also theirs",
            "Engines keep memory beside weights and cache: activations of a step, captured graphs, "
            "buffers. That is why fewer requests fit than memory − weights says.",
            *(f"Not computed: {reason}." for reason in reasons),
            commands=(f"kvcalc fit {s.model.id} --gpu {s.gpu} --utilization 0.92",),
        ),
    )


def _beside(rows: list[list[str]]) -> str:
    """How the engines differ from the formula, in few words."""
    differing = [f"{row[0]} {row[3]}" for row in rows[1:] if row[3]]
    if len(rows) == 1:
        return "no engine's rules for it are known"
    if not differing:
        many = len(rows) - 1
        return "the engine does the same" if many == 1 else f"{many} engines allocate the same"
    return ", ".join(differing)
