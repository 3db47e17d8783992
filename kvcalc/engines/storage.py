"""What an engine allocates for given requests: the bytes of `size --engine`.

One function an engine behind one call; the budget of a GPU is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.size import EngineItem, Stored
from kvcalc.core.shard import Parallel
from kvcalc.engines.registry import Value

#: More than any pool: the planner is asked for its cap, not for what fits.
_ENDLESS = 2**60


class Ask(NamedTuple):
    """What is to be stored, and under which settings."""

    model: Model
    storage: Storage
    #: Formats as the user named them; None where the engine's own default holds.
    k_dtype: str | None
    v_dtype: str | None
    dtype: str | None
    settings: dict[str, Value]
    parallel: Parallel
    block_size: int | None
    version: str | None


def stored(engine: str, ask: Ask, tokens: int, requests: int) -> Stored:
    """Bytes, blocks and items that the engine allocates for `requests` of `tokens`, all GPUs.

    Raises:
        KvcalcError: "unsupported_architecture", "unknown_dtype", "not_divisible", "usage".
    """
    return _ENGINES[engine](ask, tokens, requests)


def _transformers(ask: Ask, tokens: int, requests: int) -> Stored:
    from kvcalc.engines.transformers import cache_bytes  # noqa: PLC0415 - one engine, one import

    named = ask.dtype or ask.k_dtype
    length = ask.settings.get("max_cache_len")
    found = cache_bytes(
        ask.model, tokens, batch=requests, kv_dtype=named,
        cache_implementation=str(ask.settings.get("cache_implementation", "dynamic")),
        max_cache_len=None if length is None else int(length),
    )  # fmt: skip
    items = tuple(
        EngineItem(i.item, i.layers, i.cells, requests, i.key_bytes, i.value_bytes, i.bytes)
        for i in found.items
    )
    return Stored(found.total_bytes, None, items)


def _llamacpp(ask: Ask, tokens: int, requests: int) -> Stored:
    from kvcalc.engines.llamacpp import context  # noqa: PLC0415 - one engine, one import

    s = ask.settings
    flash = s.get("flash_attn")
    found = context(
        ask.model,
        n_ctx=int(s.get("n_ctx", tokens * requests)),
        n_seq_max=int(s.get("n_seq_max", requests)),
        n_ubatch=int(s.get("n_ubatch", 512)),
        n_batch=int(s.get("n_batch", 2048)),
        kv_unified=bool(s.get("kv_unified", False)),
        swa_full=bool(s.get("swa_full", False)),
        flash_attn=None if flash is None else bool(flash),
        type_k=str(s.get("type_k", ask.k_dtype or "f16")),
        type_v=str(s.get("type_v", ask.v_dtype or "f16")),
    )
    return Stored(found.total_bytes, None, found.items)


def _vllm(ask: Ask, tokens: int, requests: int) -> Stored:
    """The cap its planner counts for each request: blocks of every group, of every GPU."""
    from kvcalc.engines.vllm.from_model import specs_from_model  # noqa: PLC0415
    from kvcalc.engines.vllm.planner import plan  # noqa: PLC0415
    from kvcalc.engines.vllm.versions import in_flight_tokens  # noqa: PLC0415

    s, p = ask.settings, ask.parallel
    prefix = s.get("enable_prefix_caching")
    ssm = str(s.get("mamba_ssm_cache_dtype", "auto"))
    made = specs_from_model(
        ask.model, ask.storage, max_model_len=tokens, tp=p.tp, block_size=ask.block_size,
        prefix_caching=None if prefix is None else bool(prefix),
        disable_hybrid=bool(s.get("disable_hybrid_kv_cache_manager", False)),
        ssm_dtype=None if ssm == "auto" else ssm, version=ask.version,
    )  # fmt: skip
    flight = in_flight_tokens(
        int(s.get("max_num_batched_tokens", 8192)), ask.version, pp=p.pp,
        async_scheduling=bool(s.get("async_scheduling", True)),
    )  # fmt: skip
    blocks, total, items = 0, 0, []
    for stage in made.stages(p.pp):
        planned = plan(
            stage, _ENDLESS, max_model_len=tokens, max_in_flight_tokens=flight, layout=made.layout,
            mamba_cache_mode=made.mamba_cache_mode, disable_hybrid=made.disable_hybrid, dcp=p.dcp,
            max_num_encoder_input_tokens=made.encoder_tokens, version=ask.version,
        )  # fmt: skip
        if planned.error is not None or planned.bytes_per_block is None:
            raise KvcalcError("unsupported_architecture", f"vllm: {planned.error}", None)
        for group in planned.groups:
            count = requests * group.blocks_per_request
            size = count * planned.bytes_per_block * p.tp
            blocks, total = blocks + count, total + size
            items.append(EngineItem(
                group.spec_type, group.n_layers, count * group.block_size, p.tp, 0, 0, size
            ))  # fmt: skip
    return Stored(total, blocks, tuple(items))


_ENGINES: dict[str, Callable[[Ask, int, int], Stored]] = {
    "transformers": _transformers,
    "llama.cpp": _llamacpp,
    "vllm": _vllm,
}
