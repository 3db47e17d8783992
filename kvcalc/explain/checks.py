"""Pages on mistakes and on knowing it: traps, self-check."""

from __future__ import annotations

from kvcalc.core.dtypes import DTYPES
from kvcalc.core.results.explain import Page, Section
from kvcalc.core.units import KIB, fixed, percent, trimmed
from kvcalc.explain.subject import UNEQUAL, Subject, grid, page, part, sized


def traps(s: Subject) -> Page:
    """What is often said, and what this model's numbers say."""
    one, longest = s.bytes_at(s.context), s.bytes_at(s.maximum)
    rows = (
        []
        if not s.token
        else [
            _trap(
                "“A cache makes attention O(1).”",
                (
                    f"It spares computing old keys and values. Every new token still reads all "
                    f"of them: {sized(one)} after {s.context:,} tokens, {sized(longest)} after "
                    f"{s.maximum:,}."
                ),
            ),
        ]
    )
    rows += [
        _trap("“Matrix multiplications bound decode.”", _bandwidth(s)),
        _trap(
            "“A larger batch reads the cache once for all.”",
            (
                "Only the weights. Each request reads its own cache: "
                f"16 requests of {s.context:,} tokens read {sized(16 * one)} a step."
            ),
        ),
        _trap("“Context length is about quality.”", _capacity(s)),
        _trap("“Query heads or the hidden size give the size.”", _heads(s)),
        _trap("“Every layer keeps every token.”", _layers(s)),
        _trap("“With two GPUs everything halves.”", _halves(s)),
    ]
    if s.token:
        amount = trimmed(s.token, KIB)
        rows += [
            _trap("“An 8-bit cache is half as large, a 4-bit one a quarter.”", _formats(s)),
            _trap(
                f"“1,000 tokens of {amount} KiB are {amount} MB.”",
                (
                    f"KiB times 1,000 is neither MiB nor MB. 1,000 tokens of {s.name} are "
                    f"{sized(1000 * s.token)}, or {fixed(1000 * s.token, 10**6)} MB."
                ),
            ),
        ]
    return page(
        "traps",
        "Common traps",
        f"What is often said of KV caches, held against {s.name}: {sized(s.token)} a token, "
        f"{sized(one)} at {s.context:,} tokens.",
        [
            ("bytes_per_token", s.token, "B"),
            ("bytes_at_context", one, "B"),
            ("bytes_at_maximum", longest, "B"),
        ],
        *rows,
    )


def _trap(said: str, holds: str) -> Section:
    return part(said, holds)


def _bandwidth(s: Subject) -> str:
    made = s.speed(1)
    if made is None:
        return f"A step reads the weights and {sized(s.bytes_at(s.context))} of cache first."
    d = made.decode
    return (
        f"On {made.gpu.count} × {made.gpu.id} a step of one request computes for at least "
        f"{_ms(d.compute_seconds)} and reads {sized(d.weight_bytes + d.kv_bytes)} for at least "
        f"{_ms(d.read_seconds)}."
    )


def _ms(seconds: float) -> str:
    return f"{trimmed(seconds * 1000, 1, 3)}\u00a0ms"


def _capacity(s: Subject) -> str:
    found = s.machine
    if found is None:
        return f"It is memory: {sized(s.bytes_at(s.maximum))} for one request at the maximum."
    most = s.fit(found.gpu.count, s.maximum)
    at = "none" if most is None or not most.max_requests else f"{most.max_requests:,}"
    return (
        f"It is capacity: {found.gpu.count} × {found.gpu.id} hold{_s(found.gpu.count)} "
        f"{found.max_requests:,} requests of {s.context:,} tokens and {at} of {s.maximum:,}."
    )


def _s(count: int) -> str:
    return "s" if count == 1 else ""


def _heads(s: Subject) -> str:
    v = s.size.attention_variants
    if v is None:
        return (
            "They say nothing here: this model's cache follows from its layers, "
            f"{s.size.pattern}, {sized(s.token)} a token."
        )
    return (
        f"KV heads do. With its {s.model.query_heads} query heads {s.name} would take "
        f"{sized(v.mha_bytes_per_token)} a token, {trimmed(v.reduction)}× too much."
    )


def _layers(s: Subject) -> str:
    full = s.size.contexts[-1].unwindowed_bytes
    held = s.bytes_at(s.maximum)
    if full is None or full == held:
        if not s.token:
            return f"Here none does: {sized(held)} for a request of any length."
        return f"Here they do: {sized(held)} at {s.maximum:,} tokens. Models with windows differ."
    return (
        f"Not here: {s.size.pattern}. At {s.maximum:,} tokens it holds {sized(held)}, not "
        f"{sized(full)}."
    )


def _formats(s: Subject) -> str:
    parts, sizes = [], []
    for name in ("q8_0", "q4_0"):
        d = DTYPES[name]
        bytes_, elements = d.block_bytes, 2 * d.block_elements
        parts.append(f"{name} takes {percent(bytes_ / elements)} of 16 bits")
        sizes.append(fixed(s.token * bytes_, elements * KIB))
    return (
        f"Scales come on top: {' and '.join(parts)}; of {sized(s.token)} a token that is "
        f"{' and '.join(sizes)} KiB, if it is stored in 16 bits now."
    )


def _halves(s: Subject) -> str:
    heads = s.size.model.kv_heads
    if heads is None or any(g.kind == "latent" for g in s.size.layers):
        return "Where a layer keeps one latent or one state, tensor parallelism copies it."
    return (
        f"Tensor parallelism splits the {heads} KV head{'' if heads == 1 else 's'} of a layer; "
        f"beyond {heads} GPUs each keeps a copy. Activations and graphs do not halve either."
    )


def self_check(s: Subject) -> Page:
    """The article's list, each point with this model's answer and a command."""
    one = s.bytes_at(s.context)
    n = min(1000, s.maximum)
    t = s.tradeoff(n)
    lengths, limit = s.scaled(UNEQUAL)
    made = {p.policy: p for p in s.waste(lengths, limit).policies}
    found = s.machine
    v = s.size.attention_variants
    m = s.model.id
    fits = (
        "no single machine of up to 16 holds it"
        if found is None
        else (
            f"{found.max_requests:,} of {s.context:,} tokens on {found.gpu.count} × {found.gpu.id}"
        )
    )
    gpus = "" if found is None else f" --gpus {found.gpu.count}"
    weights = s.weights.bytes
    rows = [
        [
            "Why does the cache exist?",
            f"{t.uncached_token_passes:,} token passes become {n:,}",
            f"kvcalc tradeoff {m} --tokens {n}",
        ],
        [
            "Which stages does it pass through?",
            "allocate, fill, use, release",
            f"kvcalc explain lifecycle {m}",
        ],
        [
            "Why has each request its own?",
            f"{sized(one)} of its own tokens at {s.context:,}",
            f"kvcalc size {m} --request 2048,500",
        ],
        [
            "Why does memory limit requests, not compute?",
            f"each needs {sized(one)}; the weights are shared",
            f"kvcalc speed {m} --gpu {s.gpu}{gpus}",
        ],
        ["How many bytes a token?", f"{s.token:,} B", f"kvcalc size {m}"],
        ["How many requests fit?", fits, f"kvcalc fit {m} --gpu {s.gpu}{gpus} -c {s.context}"],
        [
            "What does grouping heads save?",
            f"{trimmed(v.reduction)}×" if v is not None else "this model saves by other means",
            f"kvcalc explain gqa {m}",
        ],
        [
            "What does reserving the maximum waste?",
            percent(made["naive"].waste_fraction),
            f"kvcalc waste {m} --request {','.join(map(str, lengths))} --max-context {limit}",
        ],
        [
            "Why is long context a matter of cache, not weights?",
            f"{sized(s.bytes_at(s.maximum))} a request at {s.maximum:,}"
            + (f", beside {sized(weights)} of weights once" if weights else ""),
            f"kvcalc size {m} -c {s.maximum}",
        ],
        [
            "What makes it smaller?",
            "heads, formats, pages, prefixes, windows, eviction",
            f"kvcalc compare {m} -c {s.context}",
        ],
    ]
    return page(
        "self-check",
        "Do you know it?",
        f"Ten questions on KV caches, answered for {s.name}; each command shows the working.",
        [
            ("bytes_per_token", s.token, "B"),
            ("bytes_at_context", one, "B"),
            ("bytes_at_maximum", s.bytes_at(s.maximum), "B"),
            ("kv_bytes", t.kv_bytes, "B"),
        ],
        part(
            "Questions",
            grid=grid("question|answer", [row[:2] for row in rows]),
            commands=tuple(row[2] for row in rows),
        ),
    )
