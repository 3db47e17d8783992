"""kvcalc.speed: ceilings on prefill and decode speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.api.machine import gpu_count
from kvcalc.core import speed as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.speed import SpeedGpu, SpeedResult
from kvcalc.core.units import parse_count
from kvcalc.shape import Count, Shape

if TYPE_CHECKING:
    from kvcalc.catalog.gpus import Gpu


@takes_auto
def speed(
    model: str | Model | None = None,
    *,
    gpu: str | None = None,
    gpus: Count | None = None,
    tp: Count | None = None,
    context: Count | None = None,
    requests: Count = 1,
    prompt: Count | None = None,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    encoder_tokens: Count | None = None,
    allow_long_context: bool = False,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> SpeedResult:
    """At most how fast a model is on a GPU: seconds, tokens per second, and what bounds them.

    Args:
        model: As in `kvcalc.size`.
        gpu: A preset's id or alias, "8xh100" for eight that split the model.
        context: Tokens of each decoding request. Default: 4,096, or the model's maximum.
        requests: Requests that decode together.
        prompt: Tokens of the prompt that is prefilled. Default: the context.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = resolve.model_of(model, shape, encoder_tokens)
    if gpu is None:
        raise KvcalcError(
            "usage", "speed needs --gpu: bandwidth and FLOP/s are a GPU's",
            "like --gpu h100 or --gpu 8xh100; all GPUs: kvcalc gpus",
        )  # fmt: skip
    device, named = resolve.gpu_of(gpu)
    known = resolve.weights_of(found, weights, weight_bytes)
    tokens = (
        resolve.default_context(found)
        if context is None
        else resolve.context_of(found, context, allow_long=allow_long_context)
    )
    return core.speed(
        found,
        resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype),
        weights=known,
        gpu=speed_gpu(device, gpu_count(named, gpus, tp), known, dtype or found.dtype),
        context=tokens,
        prompt=tokens
        if prompt is None
        else resolve.context_of(found, prompt, allow_long=allow_long_context, option="--prompt"),
        requests=parse_count(requests, "-n"),
    )


def speed_gpu(gpu: Gpu, count: int, weights: WeightInfo, own: str) -> SpeedGpu:
    """What of the GPU bounds speed.

    Raises:
        KvcalcError: "usage" naming the figure that the preset leaves empty.
    """
    used = core.compute_dtype(weights.format, own, gpu.dense_flops)
    lacking = [
        text
        for text, known in (
            ("bandwidth_bytes_per_second", gpu.bandwidth),
            ("dense_flops of bf16 or fp16", used),
        )
        if not known
    ]
    if gpu.bandwidth is None or used is None:
        raise KvcalcError(
            "usage", f"{gpu.id}: {' and '.join(lacking)} not known",
            "name another GPU, or give the figures in a user preset of that id",
        )  # fmt: skip
    return SpeedGpu(
        id=gpu.id,
        name=gpu.name,
        count=count,
        memory_bytes=gpu.memory_bytes,
        bandwidth_bytes_per_second=gpu.bandwidth,
        dense_flops_per_second=gpu.dense_flops[used],
        flops_dtype=used,
    )
