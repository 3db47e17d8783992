"""What an engine allocates for given requests: the bytes of `size --engine`.

One function an engine behind one call; the budget of a GPU is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.plan import Plan
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.size import EngineItem, Stored
from kvcalc.core.shard import Parallel
from kvcalc.core.units import cdiv
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
    #: Tokens that requests begin with, and how many such beginnings there are.
    shared_prefix: int = 0
    prefix_copies: int = 1


def stored(engine: str, ask: Ask, tokens: int, requests: int) -> Stored:
    """Bytes, blocks and items that the engine allocates for `requests` of `tokens`, all GPUs.

    Raises:
        KvcalcError: "unsupported_architecture", "unknown_dtype", "not_divisible", "usage".
    """
    made = _ENGINES[engine](ask, tokens, requests)
    if not ask.shared_prefix:
        return made
    return _shared(engine, ask, made, tokens, requests)


def _shared(engine: str, ask: Ask, made: Stored, tokens: int, requests: int) -> Stored:
    """Less what a prefix takes for every request but one of each copy; an item of its own."""
    from kvcalc.engines.rules import rules_for  # noqa: PLC0415 - one engine, one import

    rules: Any = rules_for(engine)
    plan = _plan(ask, tokens, requests)._replace(kv_pool=1)
    same = plan._replace(shared_prefix=min(ask.shared_prefix, tokens))
    streams, shared = max(requests - ask.prefix_copies, 0), rules.shared_tokens(same)
    saved = blocks = 0
    for rank in rules.ranks(plan):
        once = rules.needed(plan, rank, tokens, requests)
        once -= rules.needed(same, rank, tokens, requests)
        saved += once * ask.parallel.tp
        size = rules.block_bytes(plan, rank)
        # Without equal blocks: pages of tokens.
        pages = shared // ((rules.block_tokens(plan) or 1) * ask.parallel.dcp) * streams
        blocks += once // size if size else pages
    item = EngineItem("shared prefix", len(ask.model.layers), shared, streams, 0, 0, -saved)
    left = None if made.blocks is None else made.blocks - blocks
    return Stored(made.bytes - saved, left, (*made.items, item))


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
        n_rs_seq=int(s.get("spec_draft_n_max", 0)),
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
    for stage in made.stages(p):
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


def _kin(engine: str, ask: Ask, tokens: int, requests: int) -> Stored:
    """ik_llama.cpp and Ollama: the caches of the context that serves so many requests."""
    from kvcalc.engines.llamacpp_setup import setup_of  # noqa: PLC0415 - one engine, one import
    from kvcalc.engines.rules import rules_for  # noqa: PLC0415

    rules: Any = rules_for(engine)
    plan = _plan(ask, tokens, requests)
    setup = setup_of(engine, plan)
    slots = setup.n_seq_max or requests
    made = rules.held(setup, ask.model, setup.n_ctx or slots * tokens, slots)
    return Stored(made.total_bytes, None, made.items)


def _paged(engine: str, ask: Ask, tokens: int, requests: int) -> Stored:
    """SGLang, TensorRT-LLM, LMDeploy: whole pages of every request, on all GPUs of a replica."""
    from kvcalc.engines.rules import rules_for  # noqa: PLC0415 - one engine, one import

    rules: Any = rules_for(engine)
    plan = _plan(ask, tokens, requests)._replace(kv_pool=1)
    total, items = 0, []
    for rank in rules.ranks(plan):
        size = requests * rules.request_bytes(plan, rank, tokens) * ask.parallel.tp
        page = rules.block_tokens(plan) or 1
        pages = requests * cdiv(tokens, page * ask.parallel.dcp)
        total += size
        items.append(EngineItem(
            "kv", len(rank.model.layers), pages * page, ask.parallel.tp, 0, 0, size
        ))  # fmt: skip
    return Stored(total, pages, tuple(items))


def _plan(ask: Ask, tokens: int, requests: int) -> Plan:
    """The ask as a plan without a machine."""
    return Plan(
        ask.model, ask.storage, ask.parallel, WeightInfo(None, None, (), "exact"), None, tokens,
        requests, block_size=ask.block_size, version=ask.version, settings=ask.settings,
        prefix_copies=ask.prefix_copies,
    )  # fmt: skip


_ENGINES: dict[str, Callable[[Ask, int, int], Stored]] = {
    "transformers": _transformers,
    "llama.cpp": _llamacpp,
    "vllm": _vllm,
    **{name: partial(_kin, name) for name in ("ik_llama.cpp", "ollama")},
    **{name: partial(_paged, name) for name in ("sglang", "tensorrt-llm", "lmdeploy")},
}
