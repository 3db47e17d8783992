"""Options of simulate to what is simulated: the pool, its groups, what tokens cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvcalc import resolve
from kvcalc.core import flops, shard
from kvcalc.core.cache import Compressed, Cross
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import Warn, WeightInfo
from kvcalc.core.results.fit import FitResult
from kvcalc.core.simulate.clock import NO_WORK, Clock, Lane, Rate, Work
from kvcalc.core.simulate.job import CHUNKED, FULL, STATE, WINDOW, GroupSpec
from kvcalc.core.speed import compute_dtype
from kvcalc.core.units import parse_bytes, parse_count

#: Tokens of a block without a model.
DEFAULT_BLOCK = 16


class Layout(NamedTuple):
    """How a model's layers share blocks: bytes of a block, tokens of one, groups."""

    groups: tuple[GroupSpec, ...]
    block_tokens: int
    block_bytes: int | None


class Device(NamedTuple):
    """A kind of GPU, and the rates of all of them; None where they are not known."""

    id: str
    rate: Rate | None


class GpuPool(NamedTuple):
    """The KV pool of one GPU: bytes, how sure they are, and the engine's settings behind them."""

    bytes: int
    basis: str
    settings: Mapping[str, Any]


def layout_of(
    model: Model | None, storage: Storage | None, values: Mapping[str, Any], tp: int, length: int
) -> Layout:
    """The model's groups as vLLM makes them; without a model one of full attention.

    Raises:
        KvcalcError: "not_divisible"; "unsupported_architecture" for layers vLLM does not group.
    """
    size = values.get("block_size")
    if model is None or storage is None:
        size = size or DEFAULT_BLOCK
        return Layout((GroupSpec(FULL, size),), size, None)
    from kvcalc.engines.vllm.from_model import specs_from_model  # noqa: PLC0415 - models alone
    from kvcalc.engines.vllm.groups import block_bytes, groups_of  # noqa: PLC0415
    from kvcalc.engines.vllm.merge import PlanError  # noqa: PLC0415

    made = specs_from_model(
        model, storage, max_model_len=length, tp=tp, block_size=size, prefix_caching=False,
        disable_hybrid=values.get("disable_hybrid_kv_cache_manager", False),
    )  # fmt: skip
    try:
        found = groups_of(made.specs, layout=made.layout, disable_hybrid=made.disable_hybrid)
        each = block_bytes(found, made.layout)
    except PlanError as refusal:
        raise KvcalcError(
            "unsupported_architecture", f"vLLM cannot group the layers of {model.id}: {refusal}",
            "--set disable_hybrid_kv_cache_manager=true, or a model by its numbers",
        ) from None  # fmt: skip
    groups: list[GroupSpec] = []
    for g in found:
        spec = g.specs[0]
        if spec.type == "CrossAttentionSpec":
            encoder = -(-made.encoder_tokens // spec.block_size)
            groups += [GroupSpec(STATE)] * encoder
        elif spec.is_full:
            groups.append(GroupSpec(FULL, spec.block_size))
        elif spec.is_window:
            groups.append(GroupSpec(WINDOW, spec.block_size, spec.window or 0))
        elif spec.chunk is not None:
            groups.append(GroupSpec(CHUNKED, spec.block_size, spec.chunk))
        else:
            groups.append(GroupSpec(STATE))
    sizes = [g.block_size for g in groups if g.kind != STATE]
    if not sizes:
        raise KvcalcError(
            "unsupported_architecture", f"{model.id} keeps states alone: no blocks to simulate",
            "kvcalc fit says how many of its requests a GPU holds",
        )  # fmt: skip
    return Layout(tuple(groups), sizes[0] if len(set(sizes)) == 1 else max(sizes), each)


def caching(
    values: Mapping[str, Any], layout: Layout, model: Model | None
) -> tuple[bool, tuple[Warn, ...]]:
    """Whether prefixes are cached; states are not, which is said unless it was asked for.

    Raises:
        KvcalcError: "usage" if caching was asked for a model with states.
    """
    wanted = values.get("enable_prefix_caching")
    if all(g.kind != STATE for g in layout.groups):
        return wanted is not False, ()
    name = model.id if model else "the model"
    if wanted:
        raise KvcalcError(
            "usage", f"--prefix-caching: caching the states of {name} is not simulated",
            "leave it out: attention alone is simulated, without it",
        )  # fmt: skip
    text = f"prefix caching is off: caching the states of {name} is not simulated"
    return False, (() if wanted is False else (Warn("prefix_caching_off", text),))


def device_of(name: str, gpus: int, weights: WeightInfo | None, model: Model | None) -> Device:
    """The GPUs and their rates; without bandwidth or FLOP/s there are no seconds."""
    gpu, _ = resolve.gpu_of(name)
    rate = None
    if model is not None and weights is not None:
        used = compute_dtype(weights.format, model.dtype, gpu.dense_flops)
        if gpu.bandwidth and used is not None:
            rate = Rate(gpus * gpu.dense_flops[used], gpus * gpu.bandwidth)
    return Device(gpu.id, rate)


def ticks_per_second(rate: Rate) -> int:
    """Ticks of the clock in a second."""
    ticks = Clock(NO_WORK, rate).ticks_per_second
    assert ticks is not None  # noqa: S101 - a clock with a rate has seconds
    return ticks


def gpu_pool(
    model: Model, gpus: int, settings: Mapping[str, object], asked: Mapping[str, Any]
) -> GpuPool:
    """The KV pool of one GPU as `fit` has it: vLLM's budget, or that of `--engine`.

    Args:
        model: Whose weights take the rest.
        gpus: Tensor-parallel.
        settings: Of the engine, those that its budget depends on.
        asked: The options.

    Raises:
        KvcalcError: "usage" if the weights leave no room; what `fit` raises.
    """
    from kvcalc.api.fit import fit  # noqa: PLC0415 - a known pool needs no budget

    passed = ("engine_version", "utilization", "reserve", "kv_dtype", "k_dtype", "v_dtype",
              "dtype", "weights", "weight_bytes", "block_size", "allow_long_context")  # fmt: skip
    options = {key: asked[key] for key in passed if key in asked}
    engine = asked.get("engine", "vllm")
    if settings and engine != "none":
        options["set"] = settings
    gpu = re.sub(r"^[0-9]+\s*[x×*]\s*", "", str(asked["gpu"]))
    found = fit(model, gpu=gpu, gpus=gpus, engine=engine, **options)
    assert isinstance(found, FitResult)  # noqa: S101 - one model on one machine
    if found.kv_pool_bytes <= 0:
        raise KvcalcError(
            "usage", f"no room for KV cache beside the weights of {model.id} on {gpus} × {gpu}",
            "more --gpus, or smaller --weights",
        )  # fmt: skip
    return GpuPool(found.kv_pool_bytes, found.budget[-1].basis, found.engine.settings)


def work_of(
    model: Model, storage: Storage, weights: WeightInfo, tp: int
) -> tuple[Work, tuple[Warn, ...]]:
    """FLOPs and bytes of the model on all GPUs; what is not known counts as 0, and is said."""
    (rank,) = shard.stage_ranks(model, shard.Parallel(tp=tp))
    attention = flops.attention_of(model)
    parameters = flops.pass_parameters(model)
    missing = []
    if attention is None:
        missing.append("attention FLOPs")
    if parameters is None:
        missing.append("FLOPs of the weights")
    if weights.bytes is None:
        missing.append("bytes of the weights")
    lanes = [Lane(a) for a in attention or ()]
    fixed = tp * rank.fixed_bytes(storage)
    for group in rank.groups:
        cache = group.cache
        if isinstance(cache, Cross):
            continue
        each = (
            cache.token_bytes(storage)
            if isinstance(cache, Compressed)
            else cache.entry_bytes(storage)
        )
        if each:
            seen = flops.Attention(
                0, 0, window=getattr(cache, "window", None), chunk=getattr(cache, "chunk", None)
            )
            lanes.append(Lane(seen, tp * len(group.layers) * each))
    work = Work(2 * (parameters or 0), _merged(lanes), fixed, weights.bytes or 0)
    if not missing:
        return work, ()
    text = f"{', '.join(missing)} of {model.id} are not known and count as none"
    return work, (Warn("work_unknown", text),)


def _merged(lanes: list[Lane]) -> tuple[Lane, ...]:
    """Lanes that see equally far, as one."""
    found: dict[tuple[int | None, ...], Lane] = {}
    for seen, read in lanes:
        key = (seen.window, seen.chunk, seen.encoder)
        old = found.get(key)
        if old is None:
            found[key] = Lane(seen, read)
        else:
            a = old.seen
            both = a._replace(prefill=a.prefill + seen.prefill, decode=a.decode + seen.decode)
            found[key] = Lane(both, old.read + read)
    return tuple(found.values())


def pool_blocks(
    blocks: Any, pool: Any, layout: Layout, model: Model | None
) -> tuple[int | None, int | None]:
    """(blocks, bytes) of --blocks or --pool; None of both where neither is given.

    Raises:
        KvcalcError: "usage" for both, for bytes without a model, or for a pool of no block.
    """
    if blocks is not None and pool is not None:
        raise KvcalcError("usage", "--blocks and --pool both give the pool", "give one of them")
    if blocks is not None:
        count = parse_count(blocks, "--blocks", minimum=2)
        return count, None if layout.block_bytes is None else count * layout.block_bytes
    if pool is None:
        return None, None
    size = parse_bytes(pool, "--pool")
    return blocks_in(size, layout, model, "--pool"), size


def blocks_in(size: int, layout: Layout, model: Model | None, what: str) -> int:
    """Blocks in so many bytes.

    Raises:
        KvcalcError: "usage" without a model, or if there are not two: one is the null block.
    """
    if layout.block_bytes is None or model is None:
        raise KvcalcError(
            "usage", f"{what} needs a MODEL: how large is a block?", "name one, or give --blocks"
        )
    count = size // layout.block_bytes
    if count < 2:
        raise KvcalcError(
            "usage", f"{what} holds {max(count, 0)} blocks of {layout.block_bytes:,} bytes",
            "at least 2, for vLLM keeps one empty",
        )  # fmt: skip
    return count


#: For runs without a model.
IDLE = NO_WORK
