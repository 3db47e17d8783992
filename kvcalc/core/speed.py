"""Ceilings on speed from a GPU's bandwidth and dense FLOP/s: a roofline, not a forecast.

seconds = max(FLOPs / (FLOP/s · GPUs), bytes read / (bandwidth · GPUs)). A step reads the weights
once for all requests and each request's own cache: batching amortises the weights, never the KV.
Communication, launches and scheduling are left out, so nothing real is faster.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvcalc.core import flops, shard
from kvcalc.core.cache import Cross
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import KvDtype, Warn, WeightInfo
from kvcalc.core.results.speed import Decode, Prefill, Ridge, SpeedGpu, SpeedResult
from kvcalc.core.size import model_info
from kvcalc.core.units import cdiv, fixed, format_bytes

#: Weight formats whose products run below 16 bits; all others (awq, gguf …) are widened first.
_COMPUTE = {
    "fp8": "fp8",
    "fp8_channel": "fp8",
    "fp8_block": "fp8",
    "mxfp8": "fp8",
    "int8": "int8",
    "nvfp4": "fp4",
}


def compute_dtype(weights: str | None, own: str, dense: Mapping[str, int]) -> str | None:
    """The dtype whose FLOP/s bound products with these weights, or None if the GPU lists none.

    Args:
        weights: The weights' format.
        own: The model's dtype, for the activations.
        dense: Dense FLOP/s by dtype, as far as known.
    """
    sixteen = ("fp16", "bf16") if own == "fp16" else ("bf16", "fp16")
    wanted = (_COMPUTE.get(weights or ""), *sixteen)
    return next((name for name in wanted if name is not None and dense.get(name)), None)


def speed(
    model: Model,
    storage: Storage,
    *,
    weights: WeightInfo,
    gpu: SpeedGpu,
    context: int,
    prompt: int,
    requests: int = 1,
    warnings: tuple[Warn, ...] = (),
) -> SpeedResult:
    """At most how fast one prompt of `prompt` tokens and `requests` of `context` tokens can be.

    Raises:
        KvcalcError: "usage" where parameters, query heads or the weights' size are not known;
            "unsupported_architecture" for attention whose FLOPs are not; "not_divisible".
    """
    attention, parameters, weight_bytes = _known(model, weights)
    parallel = shard.Parallel(tp=gpu.count)
    one = held_bytes(model, storage, context, parallel)
    kv = requests * one
    token = 2 * parameters + sum(a.decode * a.seen(context) for a in attention)
    step = _roof(requests * token, weight_bytes + kv, gpu)
    least = _least(model, weight_bytes)
    most = None if least is None else requests / _roof(requests * token, least + kv, gpu)[2]
    return SpeedResult(
        model=model_info(model),
        kv_dtype=KvDtype(storage.k.key, storage.v.key),
        weights=weights,
        gpu=gpu,
        prefill=prefill(model, storage, weights=weights, gpu=gpu, prompt=prompt, parallel=parallel),
        decode=Decode(
            context_tokens=context,
            requests=requests,
            weight_bytes=weight_bytes,
            kv_bytes=kv,
            kv_bytes_per_request=one,
            kv_read_fraction=kv / (weight_bytes + kv),
            flops=requests * token,
            compute_seconds=step[0],
            read_seconds=step[1],
            seconds_per_step=step[2],
            bound=step[3],
            tokens_per_second_per_request=1 / step[2],
            tokens_per_second=requests / step[2],
            least_weight_bytes=least,
            most_tokens_per_second=most,
        ),
        ridge=_ridge(token, one, weight_bytes, gpu),
        warnings=(
            *warnings,
            *_encoder(model),
            *_experts(model, least, most),
            *_copies(model.bytes_at(context, storage), one, gpu),
            *_fit(model, weight_bytes, requests * (one // gpu.count), gpu),
        ),
    )


def held_bytes(model: Model, storage: Storage, tokens: int, parallel: shard.Parallel) -> int:
    """Bytes of one request on all GPUs of a replica; copied heads and latents count each time.

    Raises:
        KvcalcError: "not_divisible".
    """
    ranks = shard.stage_ranks(model, parallel)
    return parallel.tp * sum(shard.rank_bytes(r, tokens, storage, parallel.dcp) for r in ranks)


def prefill(
    model: Model,
    storage: Storage,
    *,
    weights: WeightInfo,
    gpu: SpeedGpu,
    prompt: int,
    parallel: shard.Parallel,
) -> Prefill:
    """At least how long one prompt takes that all GPUs share, none ever waiting.

    Raises:
        KvcalcError: As `speed`.
    """
    attention, parameters, weight_bytes = _known(model, weights)
    work = 2 * parameters * prompt + sum(a.prefill * a.seen_in_pass(prompt) for a in attention)
    read = weight_bytes + held_bytes(model, storage, prompt, parallel)
    roof = _roof(work, read, gpu)
    return Prefill(prompt, work, read, *roof, prompt / roof[2])


def decode_ceiling(
    model: Model,
    storage: Storage,
    *,
    weights: WeightInfo,
    gpu: SpeedGpu,
    context: int,
    requests: int,
    parallel: shard.Parallel,
) -> float:
    """Tokens a second that `requests` requests of one replica decode at most.

    A mixture of experts counts as reading only the active ones' weights, so that nothing real is
    faster.

    Raises:
        KvcalcError: As `speed`.
    """
    attention, parameters, weight_bytes = _known(model, weights)
    work = requests * (2 * parameters + sum(a.decode * a.seen(context) for a in attention))
    read = _least(model, weight_bytes) or weight_bytes
    kv = requests * held_bytes(model, storage, context, parallel)
    return requests / _roof(work, read + kv, gpu)[2]


def _known(model: Model, weights: WeightInfo) -> tuple[tuple[flops.Attention, ...], int, int]:
    """Attention, parameters of a pass and bytes of the weights, or why one is not known."""
    parameters, attention = flops.pass_parameters(model), flops.attention_of(model)
    if parameters is None:
        what = "active parameters" if model.experts else "parameters"
        raise KvcalcError(
            "usage", f"the {what} of {model.id} are not known, so neither are its FLOPs",
            "name another model, or give --parameters with a model by its numbers",
        )  # fmt: skip
    if weights.bytes is None:
        raise KvcalcError(
            "usage", f"the weights' size of {model.id} is not known", "give --weight-bytes"
        )
    if attention is None and model.query_heads is None:
        raise KvcalcError(
            "usage", f"the query heads of {model.id} are not known, so neither are its FLOPs",
            "give --query-heads with a model by its numbers",
        )  # fmt: skip
    if attention is None:
        raise KvcalcError(
            "unsupported_architecture",
            f"the attention FLOPs of {model.id}'s sparse layers are not known to kvcalc",
            "kvcalc size and kvcalc timeline know its memory",
        )
    return attention, parameters, weights.bytes


def _roof(work: int, read: int, gpu: SpeedGpu) -> tuple[float, float, float, str]:
    """Seconds to compute, to read, the larger of them, and which it is."""
    compute = work / (gpu.dense_flops_per_second * gpu.count)
    reading = read / (gpu.bandwidth_bytes_per_second * gpu.count)
    bound = work * gpu.bandwidth_bytes_per_second >= read * gpu.dense_flops_per_second
    return compute, reading, max(compute, reading), "compute" if bound else "memory"


def _ridge(token: int, kv: int, weights: int, gpu: SpeedGpu) -> Ridge:
    """The fewest requests n with n · F / D ≥ (W + n · K) / B, for F FLOPs and K bytes of each.

    n ≥ W · D / (F · B − K · D): where a request takes longer to read than to compute, at no n.
    """
    dense, bandwidth = gpu.dense_flops_per_second, gpu.bandwidth_bytes_per_second
    gain = token * bandwidth - kv * dense
    return Ridge(
        requests=max(1, cdiv(weights * dense, gain)) if gain > 0 else None,
        flops_per_byte=dense / bandwidth,
        read_seconds_per_request=kv / (bandwidth * gpu.count),
        compute_seconds_per_request=token / (dense * gpu.count),
    )


def _least(model: Model, weight_bytes: int) -> int | None:
    """Weights that a mixture of experts reads at least: those of the active parameters."""
    whole = model.parameters or model.stored_parameters
    if model.active_parameters is None or whole is None or model.active_parameters >= whole:
        return None
    return cdiv(weight_bytes * model.active_parameters, whole)


def _encoder(model: Model) -> tuple[Warn, ...]:
    """A warning where the parameters may include an encoder, which no decoding step runs."""
    if not any(isinstance(group.cache, Cross) for group in model.groups):
        return ()
    return (
        Warn(
            "encoder_counted",
            f"the encoder's weights of {model.name} count as read in each step, which only the "
            "decoder's are: real decoding may be faster",
        ),
    )


def _experts(model: Model, least: int | None, most: float | None) -> tuple[Warn, ...]:
    """A warning that fewer experts may be read than are counted."""
    if least is None or most is None:
        return ()
    return (
        Warn(
            "all_experts_read",
            f"all {model.experts or ''} experts count as read in each step; where requests share "
            f"theirs, at least ≈{format_bytes(least)} of weights is, for at most "
            f"{fixed(most, 1, 0)} tokens/s",
        ),
    )


def _copies(once: int, read: int, gpu: SpeedGpu) -> tuple[Warn, ...]:
    """A warning where the GPUs hold copies that tensor parallelism cannot split."""
    if read <= once:
        return ()
    return (
        Warn(
            "copied_cache",
            f"{gpu.count} GPUs cannot split this cache: with its copies they read "
            f"{format_bytes(read)} of a request that takes {format_bytes(once)}",
        ),
    )


def _fit(model: Model, weights: int, kv: int, gpu: SpeedGpu) -> tuple[Warn, ...]:
    """A warning where weights and caches exceed one GPU's memory."""
    needed = cdiv(weights, gpu.count) + kv
    if needed <= gpu.memory_bytes:
        return ()
    where = " per GPU" if gpu.count > 1 else ""
    return (
        Warn(
            "does_not_fit",
            f"{model.name} and its caches take {format_bytes(needed)}{where}; {gpu.id} has "
            f"{format_bytes(gpu.memory_bytes)}: these speeds need more memory",
        ),
    )
