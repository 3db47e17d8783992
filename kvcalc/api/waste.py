"""kvcalc.waste: what allocation wastes."""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.api.machine import gpu_count
from kvcalc.core import waste as core
from kvcalc.core.alloc import POLICIES
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.model import Model
from kvcalc.core.results.base import Warn, WeightInfo
from kvcalc.core.results.waste import PoolSource, WasteResult
from kvcalc.core.units import parse_bytes, parse_count, parse_share, shown
from kvcalc.resolve import Count


@takes_auto
def waste(
    model: str | Model | None = None,
    *,
    request: Count | Sequence[Count] = (),
    max_context: Count | None = None,
    policy: str | Sequence[str] = (),
    block_size: Count = 16,
    pool: Count | None = None,
    gpu: str | None = None,
    gpus: Count | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    slots: Count | None = None,
    waste_fraction: str | float | None = None,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
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
) -> WasteResult:
    """Bytes reserved, used and wasted under each allocation policy.

    Args:
        model: A preset's id or alias, a hub name, a path, or None with a shape by numbers.
        request: Tokens that each request really used. Engines never store the last sampled
            token: a prompt of 2,000 with 50 generated is 2,049.
        max_context: Tokens that naive reserves for every request; a static cache's length.
        policy: Of naive, pow2, exact and paged; default all.
        pool: Memory for KV cache; or `gpu`, whose memory less the weights it is.
        slots: With `waste_fraction`, and without a model: only `effective_requests`.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = resolve.Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    lengths = [request] if isinstance(request, (int, str)) else list(request)
    if slots is not None or waste_fraction is not None:
        if model is not None or shape.given() or lengths:
            raise KvcalcError(
                "usage", "--slots and --waste-fraction answer without MODEL and lengths",
                "leave out MODEL and --request, or those two",
            )  # fmt: skip
        return _of_slots(slots, waste_fraction)
    found = resolve.model_of(model, shape, encoder_tokens)
    if not lengths:
        raise KvcalcError(
            "usage", "--request is missing: what did each request use",
            "like --request 500 --request 3800; or --slots N --waste-fraction F",
        )  # fmt: skip
    if pool is not None and gpu is not None:
        raise KvcalcError("usage", "--pool and --gpu both give the pool", "give one of them")
    memory: PoolSource | None = None
    warnings: tuple[Warn, ...] = ()
    if pool is not None:
        memory = PoolSource(parse_bytes(pool, "--pool"))
    elif gpu is not None:
        memory = _beside_weights(gpu, gpus, resolve.weights_of(found, weights, weight_bytes))
        warnings = _doubts(found, memory)
    return core.waste(
        found,
        resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype),
        [
            resolve.context_of(found, n, allow_long=allow_long_context, option="--request")
            for n in lengths
        ],
        maximum=None
        if max_context is None
        else resolve.context_of(
            found, max_context, allow_long=allow_long_context, option="--max-context"
        ),
        policies=_policies(policy),
        block_size=parse_count(block_size, "--block-size"),
        pool=memory,
        warnings=warnings,
    )


def _of_slots(slots: Count | None, fraction: str | float | None) -> WasteResult:
    if slots is None or fraction is None:
        raise KvcalcError(
            "usage",
            f"{'--slots' if slots is None else '--waste-fraction'} is missing",
            "both together, as --slots 36 --waste-fraction 0.62",
        )
    return core.of_slots(parse_count(slots, "--slots"), parse_share(fraction, "--waste-fraction"))


def _policies(policy: str | Sequence[str]) -> list[str]:
    """The named policies once each, in that order; all if none is named."""
    names = [policy] if isinstance(policy, str) else list(policy)
    for name in names:
        if name not in POLICIES:
            close = nearest(str(name), list(POLICIES))
            near = f"nearest: {', '.join(close)}; " if close else ""
            raise KvcalcError(
                "usage", f'--policy: no policy "{shown(name)}"', f"{near}all: {', '.join(POLICIES)}"
            )
    return list(dict.fromkeys(names)) or list(POLICIES)


def _beside_weights(name: str, gpus: Count | None, weights: WeightInfo) -> PoolSource:
    """All GPUs' memory less one copy of the weights; the doubts of both in low and high."""
    gpu, in_name = resolve.gpu_of(name)
    count = gpu_count(in_name, gpus, None)
    taken = weights.bytes or 0
    most, least = weights.high_bytes or taken, weights.low_bytes or taken
    estimated = "estimated" in {weights.basis, gpu.basis}
    return PoolSource(
        bytes=max(count * gpu.memory_bytes - taken, 0),
        basis="estimated" if estimated else gpu.basis,
        low_bytes=max(count * gpu.low_bytes - most, 0),
        high_bytes=max(count * gpu.high_bytes - least, 0),
        gpu=gpu.id,
        gpus=count,
        memory_bytes=count * gpu.memory_bytes,
        weight_bytes=weights.bytes,
        weight_format=weights.format,
    )


def _doubts(model: Model, pool: PoolSource) -> tuple[Warn, ...]:
    if pool.weight_bytes is None:
        text = f"the weights of {model.id} are unknown: the whole memory counts as pool"
        return (Warn("weights_unknown", text),)
    return ()
