"""LMDeploy's wordings (TurboMind with --log-level INFO, and the PyTorch engine); one rank each."""

from __future__ import annotations

import re

from kvcalc.core.units import MIB
from kvcalc.logs.pairs import pairs
from kvcalc.logs.wording import Family, Match, Sink, Wording, number

_N, _G = r"([0-9]+(?:,[0-9]{3})*)", r"(-?[0-9.]+)"

SETTINGS = {name: name for name in (
    "tp", "dp", "session_len", "max_batch_size", "cache_max_entry_count", "cache_chunk_size",
    "cache_block_seq_len", "quant_policy", "model_format", "max_prefill_token_num", "block_size",
    "num_gpu_blocks", "num_cpu_blocks", "dtype", "max_prefill_iters", "enable_prefix_caching",
)}  # fmt: skip


def _block_size(m: Match, sink: Sink) -> None:
    """Whole MiB are cut off, not rounded; later releases print decimals."""
    fact = sink.figure("block_bytes", m[1], "MB")
    if fact is not None and "." not in m[1]:
        sink.facts[-1] = fact._replace(low=fact.value, high=fact.value + MIB - 1)


def _cache_config(m: Match, sink: Sink) -> None:
    """The PyTorch engine's `CacheConfig(max_batches=…, block_size=…, num_gpu_blocks=…)`."""
    found = pairs(m[1], {**SETTINGS, "max_batches": "max_batch_size"})
    found.pop("num_cpu_blocks", None)
    blocks = found.pop("num_gpu_blocks", None)
    if isinstance(blocks, int):
        sink.add("kv_blocks", blocks, "blocks")
    if isinstance(found.get("block_size"), int):
        found["cache_block_seq_len"] = found.pop("block_size")
    sink.settings.update(found)


def _engine_config(m: Match, sink: Sink) -> None:
    sink.settings.update(pairs(m[1], SETTINGS))


def _shortened(m: Match, sink: Sink) -> None:
    sink.setting("session_len", m[1])
    sink.refuse("shortened", m[0], max_model_len=number(m[1]), longest=number(m[2]))


def _out_of_memory(m: Match, sink: Sink) -> None:
    sink.refuse("out_of_memory", re.sub(r"\s+/\S+", "", m[0]))


def _no_pool(m: Match, sink: Sink) -> None:
    sink.refuse("no_pool", m[0])


def _dumped(m: Match, sink: Sink) -> None:
    """`session_len: 2056`, `[llama] tensor_para_size = 1`: the model's own configuration."""
    name = {"tensor_para_size": "tp"}.get(m[1], m[1])
    if name == "model_name":
        sink.model = sink.model or m[2]
    elif name != "cache_chunk_size" and (name in _OWN or "lmdeploy" in sink.hits):
        sink.setting(name, m[2])


def _launched(m: Match, sink: Sink) -> None:
    sink.model = sink.model or m[1].strip("'\"")


#: Settings of no other engine; the others count only once a line of LMDeploy's own was seen.
_OWN = frozenset({"cache_block_seq_len", "cache_max_entry_count", "quant_policy", "session_len",
                  "tp"})  # fmt: skip
_DUMPED = ("session_len", "cache_max_entry_count", "cache_block_seq_len", "quant_policy",
           "max_batch_size", "tensor_para_size", "model_name")  # fmt: skip
FAMILY = Family("lmdeploy", (
    Wording("[BlockManager]", rf"\[BlockManager\] block_size = {_G} MB", read=_block_size),
    Wording("[BlockManager]", rf"\[BlockManager\] max_block_count = {_N}", ("kv_blocks blocks",)),
    Wording("[BlockManager]", rf"\[BlockManager\] chunk_size = {_N}", ("=cache_chunk_size",),
            figure=False),
    Wording("No enough blocks for",
            rf"No enough blocks for .?session_len.? \({_N}\), .?session_len.? truncated to {_N}",
            read=_shortened),
    Wording("CUDA runtime error: out of memory",
            r"\[TM\]\[ERROR\] ?CUDA runtime error: out of memory.*", read=_out_of_memory),
    Wording("Object cache budget: ",
            rf"Object cache budget: {_G} MB from free {_G} MB and ratio {_G}",
            ("kv_pool MB", "free_after_weights MB", "=cache_max_entry_count")),
    Wording("CacheConfig(", r"CacheConfig\((.*)", read=_cache_config, spans=True),
    Wording("EngineConfig(", r"(?:TurbomindEngineConfig|PytorchEngineConfig)\((.*)",
            read=_engine_config, figure=False, spans=True),
    Wording("is not set, default to ",
            rf"`(cache_block_seq_len)` is not set, default to {_N}", read=_dumped, figure=False),
    *(Wording(f"{name}{sign}", rf"(?<![A-Za-z0-9_])({name}){sign}([A-Za-z0-9_./-]+)\s*$",
              read=_dumped, figure=False) for name in _DUMPED for sign in (": ", " = ")),
    Wording("allocation ", rf"after allocation +: free: {_G} GB, total: {_G} GB, used: {_G} GB",
            ("free_after_pool GiB", "memory GiB")),
    Wording("enough gpu memory for ", r"No enough gpu memory for (?:kv cache|runtime)",
            read=_no_pool),
    Wording("lmdeploy serve ",
            r"lmdeploy serve (?:api_server|gradio|triton_client) (?!-)([^\s\\]+)", read=_launched,
            figure=False),
    Wording("lmdeploy_version", r"lmdeploy_version['\"]?[:=] ?['\"]?([0-9][^\s'\",)]*)",
            ("version",), figure=False),
))  # fmt: skip
