"""kvcalc.offload: KV kept in host RAM or on disk, and moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.api.fit_plan import gpus_of, parallel_of, sizes_of
from kvcalc.core import offload as core
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.rates import parse_number, parse_rate
from kvcalc.core.results.base import Warn, WeightInfo
from kvcalc.core.results.offload import OffloadResult
from kvcalc.core.results.speed import SpeedGpu
from kvcalc.core.shard import Parallel
from kvcalc.core.units import format_bytes, parse_bytes, parse_count, shown
from kvcalc.engines import host_pools
from kvcalc.shape import Count, Shape

if TYPE_CHECKING:
    from kvcalc.catalog.gpus import Gpu


@takes_auto
def offload(
    model: str | Model | None = None,
    *,
    context: Count | Sequence[Count] | None = None,
    requests: Count = 1,
    shared_prefix: Count | None = None,
    pool: Count | None = None,
    pool_per: str | None = None,
    host_ram: Count | None = None,
    chunk_tokens: Count | None = None,
    bandwidth: Count | None = None,
    bandwidth_per: str | None = None,
    requests_per_second: str | float | None = None,
    set: Mapping[str, object] | None = None,
    gpu: str | None = None,
    gpus: Count | None = None,
    tp: Count | None = None,
    pp: Count = 1,
    dcp: Count = 1,
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
) -> OffloadResult:
    """What sessions take outside the GPUs, what a pool holds of them, and how long they move.

    Args:
        model: As in `kvcalc.size`.
        context: Tokens of a session; several give a row each. Default: 4,096 or the maximum.
        requests: Sessions that should stay.
        pool: Host RAM or disk given to KV, with its unit; of what, says `pool_per`.
        pool_per: "rank" or "total"; needed with several ranks, whose pool has both readings.
        bandwidth: Of the link, like "25GB/s" or "200Gb/s"; of what, says `bandwidth_per`.
        requests_per_second: Requests whose KV moves, as from prefill to decode nodes.
        set: The pool by an engine's own setting, as {"hicache_size": 40}.
        gpu: Gives the seconds that recomputing takes at least.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = resolve.model_of(model, shape, encoder_tokens)
    storage = resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype)
    device, named = (None, None) if gpu is None else resolve.gpu_of(gpu)
    parallel = parallel_of(gpus_of(named, gpus), sizes_of({"tp": tp, "pp": pp, "dcp": dcp}))
    ranks = parallel.tp * parallel.pp
    said = host_pools.chosen(set or {}, ranks)
    size, per = _pool(pool, pool_per, said, ranks)
    ask = core.Ask(
        sessions=parse_count(requests, "-n"),
        shared_prefix=0 if shared_prefix is None else parse_count(shared_prefix, "--shared-prefix"),
        chunk=_chunk(chunk_tokens, said),
        pool=size,
        pool_per=per,
        host_ram=_host_ram(host_ram, size),
        bandwidth=None if bandwidth is None else parse_rate(bandwidth, "--bandwidth"),
        bandwidth_per=_link_per(bandwidth, bandwidth_per),
        requests_per_second=None
        if requests_per_second is None
        else parse_number(requests_per_second, "--requests-per-second"),
    )
    again: core.Recompute | None = None
    used: SpeedGpu | None = None
    doubts: tuple[Warn, ...] = ()
    known = resolve.weights_of(found, weights, weight_bytes)
    if device is not None:
        own = dtype or found.dtype
        again, used, doubts = _recompute(found, storage, known, device, own, parallel)
    return core.offload(
        found,
        storage,
        _contexts(found, context, allow_long=allow_long_context),
        ask,
        parallel=parallel,
        advise=lambda each, given: host_pools.settings_for(
            each, ranks, given=given, disk=said is not None and said.disk
        ),
        recompute=again,
        gpu=used,
        warnings=doubts,
    )


def _per(text: str, option: str) -> str:
    word = str(text).lower()
    if word not in {core.RANK, core.TOTAL}:
        raise KvcalcError("usage", f"{option} is {shown(text)}", "expected rank or total")
    return word


def _link_per(bandwidth: Count | None, per: str | None) -> str:
    """Whose the bandwidth is: all ranks' by default."""
    if per is None:
        return core.TOTAL
    if bandwidth is None:
        raise KvcalcError("usage", "--bandwidth-per needs --bandwidth", "like --bandwidth 25GB/s")
    return _per(per, "--bandwidth-per")


def _pool(
    pool: Count | None, per: str | None, said: host_pools.Chosen | None, ranks: int
) -> tuple[int | None, str]:
    """Bytes of the pool, and whether they are one rank's or all ranks'.

    Raises:
        KvcalcError: "usage" for two pools, and for one of several ranks with both readings.
    """
    named = said if said is not None and said.bytes is not None else None
    if named is not None and (pool is not None or per is not None):
        other = "--pool" if pool is not None else "--pool-per"
        raise KvcalcError(
            "usage", f"{other} and --set {named.setting} are two pools",
            "the setting says its unit and whose it is; give one of them",
        )  # fmt: skip
    if named is not None:
        return named.bytes, named.per
    if pool is None:
        if per is not None:
            raise KvcalcError("usage", "--pool-per needs --pool", "like --pool 50GiB")
        return None, core.TOTAL
    size = parse_bytes(pool, "--pool")
    if per is None and ranks > 1:
        raise KvcalcError(
            "usage",
            f"--pool {shown(pool)} over {ranks} ranks has two readings: {format_bytes(size)} each, "
            f"{format_bytes(ranks * size)} in all, or {format_bytes(size)} in all",
            "--pool-per rank (as LMCache and SGLang count) or --pool-per total (as vLLM does)",
        )
    return size, core.TOTAL if per is None else _per(per, "--pool-per")


def _chunk(given: Count | None, said: host_pools.Chosen | None) -> int | None:
    if given is not None:
        return parse_count(given, "--chunk-tokens")
    return None if said is None else said.chunk


def _host_ram(text: Count | None, pool: int | None) -> int | None:
    if text is None:
        return None
    if pool is None:
        raise KvcalcError("usage", "--host-ram needs --pool", "it is what the pool is a share of")
    return parse_bytes(text, "--host-ram")


def _contexts(
    model: Model, context: Count | Sequence[Count] | None, *, allow_long: bool
) -> list[int]:
    if context is None or context == []:
        return [resolve.default_context(model)]
    texts = list(context) if isinstance(context, (list, tuple)) else [context]
    return [resolve.context_of(model, t, allow_long=allow_long) for t in texts]  # type: ignore[arg-type]


def _recompute(
    model: Model,
    storage: Storage,
    weights: WeightInfo,
    device: Gpu,
    own: str,
    parallel: Parallel,
) -> tuple[core.Recompute | None, SpeedGpu | None, tuple[Warn, ...]]:
    """How long a prefill takes at least; None, and why, where speed does not know it."""
    from kvcalc.api.speed import speed_gpu  # noqa: PLC0415 - only who names a GPU
    from kvcalc.core.speed import prefill  # noqa: PLC0415

    try:
        used = speed_gpu(device, parallel.tp * parallel.pp, weights, own)
        prefill(model, storage, weights=weights, gpu=used, prompt=1, parallel=parallel)
    except KvcalcError as error:
        if error.code == "not_divisible":
            raise
        return None, None, (Warn("recompute_unknown", f"no time to recompute: {error.message}"),)

    def seconds(tokens: int) -> float:
        return prefill(
            model, storage, weights=weights, gpu=used, prompt=tokens, parallel=parallel
        ).seconds

    return seconds, used, ()
