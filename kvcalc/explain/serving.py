"""Pages on serving: prefill and decode, a request's life, batches."""

from __future__ import annotations

from kvcalc.core.results.explain import Page, Section
from kvcalc.core.results.fit import FitResult
from kvcalc.core.units import GIB, cdiv, counted, fixed, percent
from kvcalc.explain.subject import BATCH, BLOCK, Subject, grid, page, part, sized
from kvcalc.explain.words import scale_of, seconds_of

#: Tokens decoded in the page on a request's life.
_DECODED = 1000
#: The article's three kinds of requests.
_KINDS = (("a short reply", 150), ("a document summed up", 8200), ("long code", 2500))


def prefill_decode(s: Subject) -> Page:
    """Two phases: one computes, the other reads; batching shares the weights, never the cache."""
    one = s.bytes_at(s.context)
    figures: list[tuple[str, int | float, str]] = [
        ("prefill_kv_bytes", one, "B"),
        ("decode_kv_bytes", s.token, "B"),
    ]
    sections = [
        part(
            "Two phases",
            f"Prefill takes the whole prompt at once: {s.context:,} tokens of {s.name} write "
            f"{sized(one)} in one pass, and there is arithmetic enough to keep a GPU busy. Decode "
            f"takes a token at a time: it writes {sized(s.token)} and reads all before it, so "
            "it waits for memory.",
        )
    ]
    few, many = s.speed(1), s.speed(16)
    if few is not None and many is not None:
        rows = [
            [
                "prefill",
                scale_of(few.prefill.flops),
                sized(few.prefill.read_bytes),
                seconds_of(few.prefill.seconds),
                few.prefill.bound,
            ],
            [
                "decode, 1 request",
                scale_of(few.decode.flops),
                sized(few.decode.weight_bytes + few.decode.kv_bytes),
                seconds_of(few.decode.seconds_per_step),
                few.decode.bound,
            ],
            [
                "decode, 16 requests",
                scale_of(many.decode.flops),
                sized(many.decode.weight_bytes + many.decode.kv_bytes),
                seconds_of(many.decode.seconds_per_step),
                many.decode.bound,
            ],
        ]
        gpus = f"{few.gpu.count} × {few.gpu.id}"
        sections.append(
            part(
                f"Ceilings on {gpus}",
                "What bandwidth and FLOP/s allow at most; not a forecast.",
                grid=grid("step|>computes|>reads|>takes at least|bound by", rows),
            )
        )
        shares = [
            [
                f"{n}",
                sized(few.decode.weight_bytes),
                sized(n * few.decode.kv_bytes_per_request),
                percent(
                    n
                    * few.decode.kv_bytes_per_request
                    / (few.decode.weight_bytes + n * few.decode.kv_bytes_per_request)
                ),
            ]
            for n in (1, 4, 16, 64)
        ]
        sections.append(
            part(
                "What a batch shares",
                "All requests of a step use the same weights, read once. Each reads a cache of its "
                "own, so its share of the reading grows with the batch.",
                grid=grid(">requests|>weights|>caches|>share of caches", shares),
                commands=(f"kvcalc speed {s.model.id} --gpu {s.gpu} --gpus {few.gpu.count} -n 16",),
            )
        )
        figures += [
            ("prefill_seconds", few.prefill.seconds, "s"),
            ("decode_seconds_per_step", few.decode.seconds_per_step, "s"),
        ]
    return page(
        "prefill-decode",
        "Prefill computes, decode reads",
        f"A prompt of {s.context:,} tokens fills {sized(one)} of {s.name}'s cache in one pass; "
        f"each token after it adds {sized(s.token)} and reads all that is there.",
        figures,
        *sections,
    )


def lifecycle(s: Subject) -> Page:
    """Allocate, fill, use, release: when a request takes memory and when it gives it back."""
    decoded = min(_DECODED, s.maximum - 1)
    prompt = max(min(s.context, s.maximum - decoded), 1)
    first, last = s.bytes_at(prompt), s.bytes_at(prompt + decoded)
    blocks, more = cdiv(prompt, BLOCK), cdiv(prompt + decoded, BLOCK) - cdiv(prompt, BLOCK)
    read = sum(s.bytes_at(prompt + k) for k in range(decoded))
    rows = [
        ["allocate", "when the scheduler admits it", f"{blocks:,} blocks of {BLOCK} tokens"],
        ["fill", "prefill, at once", sized(first)],
        ["fill", f"each of {decoded:,} steps", f"{sized(s.token)}; a block every {BLOCK} steps"],
        ["use", "each step reads all of it", f"{sized(read)} read in all"],
        ["release", "at its last token", f"{blocks + more:,} blocks, {sized(last)}"],
    ]
    drawing = [
        f"step 0        admitted: {blocks:,} blocks taken from the free pool",
        f"step 1        prefill:  {prompt:,} tokens written",
        f"step 2 …      decode:   one token a step, {more:,} more blocks on the way",
        f"step {decoded + 1:<8,} the last token; in the next step the pool has them all back",
    ]
    return page(
        "lifecycle",
        "A request's life in the cache",
        f"A request of {prompt:,} + {decoded:,} tokens to {s.name} starts with {sized(first)}, "
        f"ends with {sized(last)}, and gives all of it back at once.",
        [("prefill_bytes", first, "B"), ("end_bytes", last, "B"), ("read_bytes", read, "B")],
        part(
            "Four stages",
            "Memory is taken when it is needed and freed when the request ends, not when others "
            "end: that is what lets a scheduler admit the next one in the same step.",
            grid=grid("stage|when|how much", rows),
        ),
        part(
            "In steps",
            "A long answer holds its memory for long. If the pool runs dry, an engine puts a "
            "request back into the queue and computes its cache anew later.",
            drawing=tuple(drawing),
            commands=(f"kvcalc timeline {s.model.id} --prompt {prompt} --output {decoded}",),
        ),
    )


def batching(s: Subject) -> Page:
    """Every request has a cache of its own; memory, not compute, ends the batch."""
    lengths, _ = s.scaled(BATCH)
    rows = [
        [name, f"{n:,}", sized(s.bytes_at(n)), f"{s.bytes_at(n):,}"]
        for name, n in zip("ABC", lengths, strict=True)
    ]
    total = sum(s.bytes_at(n) for n in lengths)
    rows.append(["all", f"{sum(lengths):,}", sized(total), f"{total:,}"])
    kinds = [
        [name, f"{min(n, s.maximum):,}", sized(s.bytes_at(min(n, s.maximum)))] for name, n in _KINDS
    ]
    sections = [
        part(
            "A batch",
            "Requests decode side by side and read the same weights, but a cache belongs to one "
            "conversation. It is shared only where two prompts begin with the same tokens and the "
            "engine caches prefixes.",
            grid=grid("request|>tokens|>KV cache|>bytes", rows),
        ),
        part(
            "Unequal lengths",
            "Requests differ a hundredfold in length, and so do their caches.",
            grid=grid("kind|>tokens|>KV cache", kinds),
        ),
    ]
    figures: list[tuple[str, int | float, str]] = [
        ("batch_bytes", total, "B"),
        ("bytes_per_request", s.bytes_at(s.context), "B"),
    ]
    found = s.machine
    answer = f"Three requests of {sum(lengths):,} tokens hold {sized(total)} of {s.name}'s cache"
    if found is not None:
        sections += _most(s, found)
        figures.append(("max_requests", found.max_requests, ""))
        many = counted(found.max_requests)
        answer += (
            f"; {found.gpu.count} × {found.gpu.id} end{'s' if found.gpu.count == 1 else ''} at "
            f"{many} of {s.context:,} tokens"
        )
    return page("batching", "Why memory ends a batch", f"{answer}.", figures, *sections)


def _most(s: Subject, found: FitResult) -> list[Section]:
    """(memory − weights) / cache of one request, on the fewest GPUs that hold the model."""
    lines = {line.item: line.bytes for line in found.budget}
    memory, weights = lines["memory"], -lines.get("weights", 0)
    rows = [
        ["memory that a program sees", fixed(memory, GIB)],
        [f"weights, {found.weights.format or 'as given'}", fixed(-weights, GIB)],
        ["left for KV cache", fixed(found.kv_pool_bytes, GIB)],
        [f"one request of {found.context_tokens:,} tokens", fixed(found.bytes_per_request, GIB)],
        ["requests at once (a count)", f"{found.max_requests:,}"],
    ]
    longer = [
        [
            f"{step.context_tokens:,}",
            fixed(step.bytes_per_request, GIB),
            f"{step.max_requests:,}" if step.max_requests else "none",
        ]
        for step in found.ladder
    ]
    many = f"{found.gpu.count} × {found.gpu.id}"
    command = f"kvcalc fit {s.model.id} --gpu {s.gpu} --gpus {found.gpu.count} -c {s.context}"
    return [
        part(
            f"The most on {many}",
            "Requests at once = (memory − weights) / KV cache of one request. Arithmetic is left "
            "over: another request costs a step little, but it needs memory of its own.",
            grid=grid("of one GPU|>GiB", rows),
        ),
        part(
            "Longer requests, fewer of them",
            grid=grid(">context|>GiB each|>requests", longer),
            commands=(command,),
        ),
    ]
