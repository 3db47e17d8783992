"""SGLang's wordings, 0.1 to 0.5: figures of one rank; its GB are GiB.

A pool is printed for each kind: full and window layers, target and draft.
"""

from __future__ import annotations

import re

from kvcalc.logs.pairs import pairs
from kvcalc.logs.wording import Family, Match, Sink, Wording

_N, _G = r"(-?[0-9]+(?:,[0-9]{3})*)", r"(-?[0-9.]+)"
_AVAILABLE = rf"avail mem={_G} ?GB"

SETTINGS = {
    **{name: name for name in (
        "tp_size", "pp_size", "dp_size", "ep_size", "dcp_size", "dtype", "kv_cache_dtype",
        "quantization", "mem_fraction_static", "context_length", "max_total_tokens",
        "max_running_requests", "chunked_prefill_size", "max_prefill_tokens", "page_size",
        "swa_full_tokens_ratio", "mamba_full_memory_ratio", "max_mamba_cache_size",
        "mamba_ssm_dtype", "disable_cuda_graph", "cuda_graph_max_bs", "enable_dp_attention",
        "enable_dp_lm_head", "speculative_algorithm", "speculative_num_steps",
        "speculative_num_draft_tokens", "speculative_eagle_topk", "attention_backend",
        "disable_radix_cache", "cpu_offload_gb", "disable_hybrid_swa_memory", "load_format",
        "enable_hierarchical_cache", "hicache_ratio", "hicache_size", "disaggregation_mode",
    )},
    "tensor_parallel_size": "tp_size",
    "data_parallel_size": "dp_size",
}  # fmt: skip


def _arguments(m: Match, sink: Sink) -> None:
    """`server_args=ServerArgs(model_path='…', …)`, or a dict of late 2026."""
    found = pairs(m[1], {**SETTINGS, "model_path": "model"})
    name = found.pop("model", None)
    if isinstance(name, str):
        sink.model = name
    sink.settings.update(found)


def _loaded(m: Match, sink: Sink) -> None:
    """`Load weight end. type=…, dtype=…, avail mem=N GB, mem usage=N GB.` in any order."""
    rest = m[1]
    if kind := re.search(r"\btype=([A-Za-z0-9_]+)", rest):
        sink.settings.setdefault("architecture", kind[1])
    if dtype := re.search(r"\bdtype=(?:torch\.)?([A-Za-z0-9_]+)", rest):
        sink.settings["dtype"] = dtype[1]
    if used := re.search(rf"mem usage={_G} ?GB", rest):
        sink.figure("weights", used[1].rstrip("."), "GiB")
    if free := re.search(_AVAILABLE, rest):
        sink.figure("free_after_weights", free[1], "GiB")


def _pool(m: Match, sink: Sink) -> None:
    """One pool; what is only reserved as addresses (VA) is no memory."""
    if m[2].startswith("VA"):
        return
    label = (m[1] or "").strip(" .:")
    if label in {"Virtual", "The", "Target"}:
        label = ""
    rest = m[3]
    if dtype := re.search(r"dtype: (?:torch\.)?([A-Za-z0-9_]+)", rest):
        sink.settings.setdefault("kv_cache_dtype_used", dtype[1])
    tokens = re.search(rf"#tokens: {_N}", rest)
    if tokens:
        sink.figure("kv_tokens", tokens[1], "tokens", label)
    sizes = []
    for name, digits in re.findall(rf"\b(K|V|KV|Cache|Indexer) size: {_G} ?GB", rest):
        item = {"K": "kv_key", "V": "kv_value"}.get(name, "kv_latent")
        sizes.append(sink.figure(item, digits, "GiB", label))
    found = [fact for fact in sizes if fact is not None]
    if found:
        value, low, high = (sum(getattr(f, end) for f in found) for end in ("value", "low", "high"))
        whole = found[-1]._replace(item="kv_pool", value=value, low=low, high=high)
        sink.facts.append(whole)


def _states(m: Match, sink: Sink) -> None:
    """Recurrent states: slots, and GiB of each part."""
    items = {
        "conv_state": "conv_state", "ssm_state": "ssm_state",
        "intermediate_ssm_state_cache": "draft_ssm_state",
        "intermediate_conv_window_cache": "draft_conv_state",
    }  # fmt: skip
    if slots := re.search(rf"max_mamba_cache_size: {_N}", m[1]):
        sink.figure("state_slots", slots[1], "slots")
    for name, digits in re.findall(rf"([a-z_]+) size: {_G} ?GB", m[1]):
        if name in items:
            sink.figure(items[name], digits, "GiB")


def _graphs(m: Match, sink: Sink) -> None:
    """The two figures changed places between releases."""
    if used := re.search(rf"mem usage={_G} ?GB", m[1]):
        sink.figure("graphs", used[1].rstrip("."), "GiB")
    if free := re.search(_AVAILABLE, m[1]):
        sink.figure("free_after_graphs", free[1].rstrip("."), "GiB")


def _capacity(m: Match, sink: Sink) -> None:
    """`max_total_num_tokens=N, chunked_prefill_size=N, …, available_gpu_mem=N GB`."""
    sink.figure("max_total_num_tokens", m[1], "tokens")
    names = {
        "chunked_prefill_size": "chunked_prefill_size", "max_prefill_tokens": "max_prefill_tokens",
        "context_len": "context_length",
    }  # fmt: skip
    for key, value in pairs(m[2], names).items():
        sink.settings[key] = value
    if slots := re.search(rf"max_running_requests={_N}", m[2]):
        sink.figure("max_running_requests", slots[1], "requests")
    if free := re.search(rf"available_[gc]pu_mem={_G} ?GB", m[2]):
        sink.figure("free_at_end", free[1].rstrip("."), "GiB")


def _too_small(m: Match, sink: Sink) -> None:
    sink.refuse("no_pool", m[0])
    if m[1]:
        sink.setting("mem_fraction_static", m[1].rstrip("."))


def _profiled(m: Match, sink: Sink) -> None:
    """A profiled value that is negative says that the weights are larger than the static share."""
    sink.setting("max_total_tokens", m[1])
    sink.figure("profiled_tokens", m[2], "tokens")
    if m[2].startswith("-"):
        sink.refuse("no_pool", m[0])


def _taken(m: Match, sink: Sink) -> None:
    """Ranks of one group begin with unlike free memory: another process has some of it."""
    sink.refuse("memory_taken", m[0])


def _graph_failed(m: Match, sink: Sink) -> None:
    """The pool stands, and the graphs do not fit beside it: PyTorch's sentence follows if so."""
    if "out of memory" not in m[1] and not sink.refusals:
        sink.refuse("failed", m[0])


def _died(m: Match, sink: Sink) -> None:
    """The cause follows in the traceback, where there is one that says memory."""
    if not sink.refusals and not sink.ready:
        sink.refuse("failed", m[0])


def _launched(m: Match, sink: Sink) -> None:
    sink.model = sink.model or m[1].strip("'\"")


FAMILY = Family("sglang", (
    Wording("server_args=", r"server_args=(?:ServerArgs\(|\{)(.*)", read=_arguments,
            opens="server", figure=False, spans=True),
    Wording("sglang version", r"(?i)sglang version:? ?v?([0-9][^\s,;)]*)", ("version",),
            figure=False),
    Wording("Init torch distributed ends", rf"Init torch distributed ends\..*?mem usage={_G} ?GB",
            ("communication GiB",)),
    Wording("HF snapshot for ", r"Found local HF snapshot for (\S+)(?: at|\s|$)", ("model",),
            figure=False),
    Wording("Load weight begin", rf"Load weight begin\. +{_AVAILABLE}",
            ("free_before_weights GiB",)),
    Wording("Load weight end", r"Load weight end\.(.*)", read=_loaded),
    Wording("sliding window memory pool",
            rf"Use sliding window memory pool(?: \(all SWA\))?\. (?:full_layer_tokens={_N}, )?"
            rf"swa_layer_tokens={_N}", ("full_tokens tokens", "swa_tokens tokens")),
    Wording("Mamba Cache is allocated", r"Mamba Cache is allocated\.? ?(.*)", read=_states),
    Wording("KV Cache ",
            r"(?:\b([A-Za-z][A-Za-z0-9_+-]*) )?KV Cache (is allocated|VA upper bound)\.?(.*)",
            read=_pool),
    Wording("KV cache dtype: ", r"Using KV cache dtype: (?:torch\.)?([A-Za-z0-9_]+)",
            ("=kv_cache_dtype_used",), figure=False),
    Wording("Memory pool end", rf"Memory pool end\. +{_AVAILABLE}", ("free_after_pool GiB",)),
    Wording("graph end.", r"Capture (?:[A-Za-z0-9_-]+ ){0,4}(?:cuda|CUDA|npu|cpu) graph end\.(.*)",
            read=_graphs),
    Wording("max_total_num_tokens=", rf"max_total_num_tokens={_N}(.*)", read=_capacity),
    Wording("than the profiled value",
            rf"max_total_tokens={_N} is larger than the profiled value {_N}", read=_profiled),
    Wording("try to increase --mem-fraction",
            r"Not enough memory\. Please try to increase --mem-fraction-static\.?"
            r"(?:.*?mem_fraction_static=([0-9.]+))?", read=_too_small),
    Wording("Not enough memory. Please try to",
            r"Not enough memory\. Please try to (?!increase --mem-fraction)()[^.]*",
            read=_too_small),
    Wording("leave no GPU memory for the KV cache",
            r"Loaded weights leave no GPU memory for the KV cache"
            r"(?: under --mem-fraction-static=([0-9.]+))?[^\n]*", read=_too_small),
    Wording("memory for hybrid state cache",
            r"Not enough GPU memory for hybrid state cache()[^\n]*", read=_too_small),
    Wording("memory capacity is unbalanced",
            r"(?:ValueError|RuntimeError): The memory capacity is unbalanced[^\n]*", read=_taken),
    Wording(" graph failed: ", r"Capture (?:cuda|CUDA|npu|cpu) graph failed: ([^\n]*)",
            read=_graph_failed),
    Wording("Scheduler hit an exception", r"Scheduler hit an exception", read=_died),
    Wording("sglang.launch_server ", r"sglang\.launch_server .*?--model(?:-path)?[ =]([^\s\\]+)",
            read=_launched, figure=False),
    Wording("The server is fired up", r"(The server is fired up)", ("ready",), figure=False),
))  # fmt: skip
