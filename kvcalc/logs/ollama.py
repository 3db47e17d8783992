"""Ollama's own wordings, 0.1.40 to 2026. Its memory.* lines are estimates made before loading.

The lines of device.go are what the Ollama engine allocated; where llama.cpp's runner loads, they
are the estimate, and llama.cpp's own lines are the fact.
"""

from __future__ import annotations

import re

from kvcalc.logs.facts import Fact, size
from kvcalc.logs.wording import Family, Match, Sink, Wording

_SIZE = r"([0-9.]+ [KMGT]?i?B)"
_ITEMS = {
    "memory.required.full": "estimated_full", "memory.required.partial": "estimated_partial",
    "memory.required.kv": "estimated_kv", "memory.weights.total": "estimated_weights",
    "memory.graph.full": "estimated_compute", "memory.available": "free_at_start",
}  # fmt: skip
_DEVICE_ITEMS = {
    "model weights": "estimated_weights", "kv cache": "estimated_kv",
    "compute graph": "estimated_compute", "total memory": "estimated_total",
}  # fmt: skip


def _device_line(m: Match, sink: Sink) -> None:
    sink.figure(_DEVICE_ITEMS[m[1]], m[3], "size", m[2] or "", "device")


def _request(m: Match, sink: Sink) -> None:
    """`request="{Operation:commit … Parallel:1 BatchSize:512 … KvSize:32768 KvCacheType:q8_0 …}"`.

    KvSize counts the cells of all slots.
    """
    words = dict(re.findall(r"(\w+):([^\s:\[\]{}]*)", m[1]))
    for name, key in (("KvSize", "n_ctx"), ("Parallel", "n_seq_max"), ("BatchSize", "n_batch")):
        if words.get(name, "").isdecimal() and len(words[name]) < 16:
            sink.settings[key] = int(words[name])
    if kind := words.get("KvCacheType"):
        sink.settings.update(type_k=kind, type_v=kind)
    if layers := re.search(r"GPULayers:([0-9]{1,6})\[", sink.text):
        sink.settings["n_gpu_layers"] = int(layers[1])
    flash = words.get("FlashAttention", "").lower()
    if flash in {"true", "false", "enabled", "disabled"}:
        sink.settings["flash_attn"] = flash in {"true", "enabled"}


def _runner(m: Match, sink: Sink) -> None:
    """The runner's command line, where it holds the settings."""
    flags = {"ctx-size": "n_ctx", "batch-size": "n_batch", "n-gpu-layers": "n_gpu_layers",
             "parallel": "n_seq_max", "num-gpu-layers": "n_gpu_layers"}  # fmt: skip
    for name, value in re.findall(r"--([a-z-]+)[ =]([0-9]{1,15})\b", m[2] or ""):
        if name in flags:
            sink.settings[flags[name]] = int(value)
    if kind := re.search(r"--kv-cache-type[ =](\w+)", m[2] or ""):
        sink.settings.update(type_k=kind[1], type_v=kind[1])
    if flash := re.search(r"--flash-attn(?:[ =](on|off|auto))?", m[2] or ""):
        sink.settings["flash_attn"] = flash[1] != "off"
    if version := re.search(r"ollama[/-]v?([0-9]+\.[0-9]+\.[0-9]+\S*?)/", m[2] or ""):
        sink.version = sink.version or version[1]


def _gpu(m: Match, sink: Sink) -> None:
    """`… name=CUDA0 description="NVIDIA GeForce RTX 4090" … total="24.0 GiB" available="…"`."""
    name = re.search(r'description="([^"]+)"', m[1]) or re.search(r'name="([^"]+)"', m[1])
    if name and name[1] not in sink.devices:
        sink.devices.append(name[1])
    for item, key in (("memory", "total"), ("free_at_start", "available")):
        if found := re.search(rf'\b{key}="{_SIZE}"', m[1]):
            sink.figure(item, found[1], "size")


def _file_type(m: Match, sink: Sink) -> None:
    sink.settings.setdefault("file_type", m[2])
    sink.metadata.setdefault("general.architecture", m[1])


def _too_large(m: Match, sink: Sink) -> None:
    """More than the host has: told before anything is loaded."""
    sink.refuse("out_of_memory", m[0], needed_bytes=_sized(sink, "asked", m[1]),
                available_bytes=_sized(sink, "free", m[2]) if m[2] else None)  # fmt: skip


def _sized(sink: Sink, item: str, text: str) -> Fact | None:
    found = size(text)
    if found is None:
        return None
    return Fact(item, found.value, "bytes", found.low, found.high, sink.line, sink.tag.label)


def _died(m: Match, sink: Sink) -> None:
    """The runner's last words name the cause, or nothing."""
    if "out of memory" in m[1] or "failed to allocate" in m[1]:
        if not any(r.code == "out_of_memory" for r in sink.refusals):
            sink.refuse("out_of_memory", m[0])
    elif not sink.refusals:
        sink.refuse("failed", m[0])


FAMILY = Family("ollama", (
    Wording("waiting for ", r"source=[a-z_]+\.go:[0-9]+ msg=.*?waiting for (?:llama|server)",
            figure=False),
    Wording("new model will fit", r"new model will fit .*?\bparallel=([0-9]{1,6})\b",
            read=lambda m, sink: sink.settings.setdefault("n_seq_max", int(m[1])), figure=False),
    Wording("(version ", r"Listening on \S+ \(version v?([0-9][^)]*)\)", ("version",),
            figure=False),
    # Every figure of the plan has its own words: pasted lines are often broken between them.
    Wording("layers.model=", r"layers\.model=([0-9]+)", ("model_layers layers",), opens="plan"),
    Wording("layers.offload=", r"layers\.offload=([0-9]+)", ("gpu_layers layers",)),
    *(Wording(f"{name}=", rf'{re.escape(name)}="?\[?{_SIZE}', (f"{item} size",))
      for name, item in _ITEMS.items()),
    Wording("model layers", r'"model layers"=([0-9]+)', ("model_layers layers",)),
    Wording("gpu memory", rf'msg="gpu memory" .*?\bfree="{_SIZE}"', ("free_at_start size",),
            figure=False),
    Wording("enabling flash attention", r'msg="(enabling) flash attention"',
            read=lambda m, sink: sink.settings.setdefault("flash_attn", bool(m[1])), figure=False),
    Wording("runner --", r'msg="starting (llama server|runner|ollama engine|llama-server)"(.*)',
            read=_runner, opens="runner", figure=False),
    *(Wording(f"source={file}.go",
              rf'msg="(model weights|kv cache|compute graph|total memory)"'
              rf'(?: (?:device|buffer|backend)=(\S+))?.*? size="{_SIZE}"', read=_device_line)
      for file in ("device", "backend", "ggml")),
    Wording("{Operation:", r"request=\"?\{(Operation:[^}]*)", read=_request, figure=False),
    Wording("default_num_ctx=", r"default_num_ctx=([0-9]+)", ("=default_num_ctx",), figure=False),
    Wording("num_key_values=", r"architecture=(\w+) file_type=(\S+)", read=_file_type,
            figure=False),
    Wording("inference compute", r'msg="inference compute"(.*)', read=_gpu, figure=False),
    Wording("requires more system memory",
            rf"model requires more system memory \({_SIZE}\) than is available \({_SIZE}\)",
            read=_too_large),
    Wording("model request too large for system",
            rf'model request too large for system" requested="?{_SIZE}"?()', read=_too_large),
    Wording("runner process has terminated",
            r"llama runner process has terminated: ?([^\n]*)", read=_died),
    Wording("llama runner started", r"(llama runner started|runner started)", ("ready",),
            figure=False),
))  # fmt: skip
