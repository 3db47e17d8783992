"""kvcalc.timeline: how the KV cache grows from the prompt to the last token."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.api.machine import gpu_count
from kvcalc.core import timeline as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.timeline import Machine, Request, TimelineResult
from kvcalc.core.units import parse_bytes, parse_count, shown
from kvcalc.shape import Count, Shape


@takes_auto
def timeline(
    model: str | Model | None = None,
    *,
    prompt: Count | None = None,
    output: Count | None = None,
    request: str | Sequence[str] = (),
    at: Count | Sequence[Count] = (),
    points: Count = core.DEFAULT_POINTS,
    block_size: Count = 16,
    max_context: Count | None = None,
    gpu: str | None = None,
    gpu_memory: Count | None = None,
    gpus: Count | None = None,
    tp: Count | None = None,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    engine: str = "none",
    engine_version: str | None = None,
    set: Mapping[str, object] | None = None,
    encoder_tokens: Count | None = None,
    allow_long_context: bool = False,
    chart: bool = False,
    no_chart: bool = False,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> TimelineResult:
    """KV bytes over steps: step 0 the start, 1 the prefill, 1 + k the k-th decoded token.

    Args:
        model: As in `kvcalc.size`.
        prompt: Tokens prefilled at once, in step 1.
        output: Tokens decoded after them, one a step.
        request: Further requests as "P:O" or "P:O@S", prefilled in step S + 1; with `prompt` they
            overlap that one.
        at: Decoded tokens after which a step is named. Default: 1,000 and 4,096.
        points: How many steps to list; those that matter always are.
        max_context: What naive allocation reserves for each request.
        gpu: A GPU whose memory, less the weights, is the limit; or its size as `gpu_memory`.
        chart: Draw the chart on a terminal even where a configuration says `no_chart`.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = resolve.model_of(model, shape, encoder_tokens)
    resolve.textbook_only(engine, engine_version, set)
    listed = parse_count(points, "--points")
    if listed > core.MAX_POINTS:
        raise KvcalcError("usage", f"--points is {listed:,}", f"the most is {core.MAX_POINTS:,}")
    requests = _requests(prompt, output, [request] if isinstance(request, str) else request)
    named = [at] if isinstance(at, (int, str)) else at
    for r, option in requests:
        resolve.context_of(
            found, r.prompt_tokens + r.output_tokens, allow_long=allow_long_context, option=option
        )
    return core.timeline(
        found,
        resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype),
        [r for r, _ in requests],
        weights=resolve.weights_of(found, weights, weight_bytes),
        at=[parse_count(n, "--at", minimum=0) for n in named] or None,
        points=listed,
        block_size=parse_count(block_size, "--block-size"),
        max_context=None
        if max_context is None
        else resolve.context_of(
            found, max_context, allow_long=allow_long_context, option="--max-context"
        ),
        machine=_machine(gpu, gpu_memory, gpus, tp),
        chart=chart or not no_chart,
    )


def _requests(
    prompt: Count | None, output: Count | None, texts: Sequence[str]
) -> list[tuple[Request, str]]:
    """Each request with the options that gave it, --prompt and --output first."""
    found = []
    if prompt is not None and output is not None:
        first = Request(parse_count(prompt, "--prompt"), parse_count(output, "--output", minimum=0))
        found.append((first, "--prompt + --output"))
    elif prompt is not None or output is not None:
        missing = "--output" if output is None else "--prompt"
        raise KvcalcError(
            "usage", f"{missing} is missing", "give both, like --prompt 4096 --output 1000"
        )
    found += [(_request(text), f"--request {shown(text)}") for text in texts]
    if not found:
        raise KvcalcError(
            "usage", "timeline needs --prompt and --output",
            "like --prompt 4096 --output 1000, or --request 4096:1000 for each of several",
        )  # fmt: skip
    return found


_REQUEST = re.compile(r"([^:@]+):([^:@]+)(?:@([^:@]+))?")


def _request(text: str) -> Request:
    """P:O, or P:O@S.

    Raises:
        KvcalcError: "usage".
    """
    match = _REQUEST.fullmatch(str(text))
    if match is None:
        raise KvcalcError(
            "usage", f"--request {shown(text)} is not PROMPT:OUTPUT[@STEP]",
            "write it like 4096:1000, or 4096:1000@200 to start after step 200",
        )  # fmt: skip
    return Request(
        parse_count(match[1], "--request PROMPT"),
        parse_count(match[2], "--request OUTPUT", minimum=0),
        parse_count(match[3] or 0, "--request STEP", minimum=0),
    )


def _machine(
    gpu: str | None, memory: Count | None, gpus: Count | None, tp: Count | None
) -> Machine | None:
    """The GPUs of --gpu or --gpu-memory, or None where neither is given.

    Raises:
        KvcalcError: "usage"; "unknown_gpu".
    """
    if gpu is not None and memory is not None:
        raise KvcalcError(
            "usage", "--gpu and --gpu-memory are two machines", "name a GPU or give its memory"
        )
    if gpu is not None:
        found, named = resolve.gpu_of(gpu)
        return Machine(
            found.id, found.name, gpu_count(named, gpus, tp), found.memory_bytes, found.basis,
            found.low_bytes, found.high_bytes,
        )  # fmt: skip
    count = gpu_count(None, gpus, tp)
    if memory is None:
        if count > 1:
            raise KvcalcError(
                "usage", f"{count} GPUs of which kind?", "add --gpu NAME or --gpu-memory SIZE"
            )
        return None
    size = parse_bytes(memory, "--gpu-memory")
    return Machine(None, "the given GPU", count, size, "exact", size, size)
