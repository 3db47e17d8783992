"""What llama.cpp's log says of its build, of the GPUs and of the model: GGUF keys, print_info."""

from __future__ import annotations

import json
import re
from typing import Any

from kvcalc.core.units import MIB
from kvcalc.logs.facts import printed, size
from kvcalc.logs.wording import Match, Sink, Wording

#: What print_info calls a GGUF key of the architecture; the dump of the keys may be cut away.
_KEYS = {
    "n_ctx_train": "context_length", "n_embd": "embedding_length", "n_layer": "block_count",
    "n_head": "attention.head_count", "n_head_kv": "attention.head_count_kv",
    "n_embd_head_k": "attention.key_length", "n_embd_head_v": "attention.value_length",
    "n_ff": "feed_forward_length", "n_expert": "expert_count",
    "n_expert_used": "expert_used_count", "n_swa": "attention.sliding_window",
    "n_lora_kv": "attention.kv_lora_rank", "ssm_d_conv": "ssm.conv_kernel",
    "ssm_d_inner": "ssm.inner_size", "ssm_d_state": "ssm.state_size",
    "ssm_dt_rank": "ssm.time_step_rank", "ssm_n_group": "ssm.group_count",
    "n_embd_head_k_mla": "attention.key_length_mla",
    "n_embd_head_v_mla": "attention.value_length_mla",
}  # fmt: skip


def _build(m: Match, sink: Sink) -> None:
    commit = f" ({m[2]})" if m[2] else ""
    sink.version = f"build {m[1]}{commit}"


def _binding(m: Match, sink: Sink) -> None:
    sink.version = f"llama-cpp-python {m[1]}"


def _key(m: Match, sink: Sink) -> None:
    """`- kv   5:  llama.block_count u32  = 16`; arrays that the log cuts are left out."""
    if sink.memo.get("part"):
        return
    name, kind, text = m[1], m[2], m[3].strip()
    value = _value(kind, text)
    if value is None:
        return
    if name == "general.name":
        sink.model = str(value)
    sink.metadata[name] = value


def _value(kind: str, text: str) -> Any:
    if kind == "str":
        return text
    if kind == "bool":
        return text == "true"
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, (int, float, list)) else None


def _info(m: Match, sink: Sink) -> None:
    """`print_info: n_layer = 16`: the GGUF keys by llama.cpp's names, and sizes."""
    if not sink.memo.get("part"):
        model_line(m[1].strip(), m[2].strip(), sink)


def model_line(name: str, text: str, sink: Sink) -> None:
    """One of the model's properties by llama.cpp's name for it."""
    if name == "arch":
        sink.metadata.setdefault("general.architecture", text)
    elif name == "general.name":
        sink.model = sink.model or text
    elif name in {"model ftype", "file type"}:
        sink.settings["file_type"] = text
    elif name in {"model size", "file size"}:
        found = re.match(r"([0-9.]+ [KMGT]iB)", text)
        made = size(found[1]) if found else None
        if found and made is not None:
            digits, _, unit = found[1].partition(" ")
            sink.figure("model_size", digits, unit)
    elif name in _KEYS:
        value = _value("u32", text)
        if value is not None and (value or name == "n_head_kv"):
            sink.metadata.setdefault(f"*.{_KEYS[name]}", value)


def keyed(metadata: dict[str, Any]) -> dict[str, Any]:
    """GGUF keys: those of the dump, and what print_info adds under the architecture's name."""
    architecture = metadata.get("general.architecture")
    own = {k: v for k, v in metadata.items() if not k.startswith("*.")}
    for name, value in metadata.items():
        if name.startswith("*."):
            own.setdefault(f"{architecture}.{name[2:]}", value)
    return own


def _listed(m: Match, sink: Sink) -> None:
    """`  - CUDA0   : NVIDIA GeForce RTX 5060 Ti (16310 MiB, 15159 MiB free)`."""
    if not m[1].startswith("CPU") and m[2] not in sink.devices:
        sink.devices.append(m[2])
    sink.figure("memory", m[3], "MiB", m[1])
    sink.figure("free_at_start", m[4], "MiB", m[1])


def _working_set(m: Match, sink: Sink) -> None:
    """Metal's limit: MB of 10⁶ bytes since autumn 2023, of 2²⁰ before."""
    found = printed(m[1], 10**6, 2)
    high = printed(m[1], MIB, 2).high
    sink.add("usable", found._replace(high=high), "bytes")


def _device(m: Match, sink: Sink) -> None:
    if m[2] not in sink.devices:
        sink.devices.append(m[2])
    sink.figure("free_at_start", m[3], "MiB", m[1])


MODEL_WORDINGS = (
    Wording("build", r"\bbuild(?: info)?(?::| =)? ?\|?.{0,80}?\bbuild=([0-9]+) commit=\"?(\w+)",
            read=_build, figure=False),
    Wording("build", r"\bbuild(?:: | = | )([0-9]{3,6}) \(([0-9a-f]{6,12})\)", read=_build,
            figure=False),
    Wording("build", r"\bbuild_info: b([0-9]+)-([0-9a-f]+)", read=_build,
            figure=False),
    Wording("version: ",
            r"\bversion: (?:\S+ \(build )?([0-9]{3,6})(?:, commit | \()([0-9a-f]{6,12})\)",
            read=_build, figure=False),
    Wording("llama_cpp_python", r"llama_cpp_python[ =]+v?([0-9][^\s,]*)",
            read=_binding, figure=False),
    Wording("loaded meta data", r"loaded meta data with .*? from (\S+)", opens="model",
            figure=False),
    Wording("- kv ", r"- kv +[0-9]+: +(\S+) +(str|[uif][0-9]+|bool|arr\[\S+\]) += ?(.*)",
            read=_key, figure=False),
    Wording("print_info: ", r"print_info: ([A-Za-z_. ]+?) *= (.*)", read=_info, figure=False),
    Wording("llm_load_print_meta: ", r"llm_load_print_meta: ([A-Za-z_. ]+?) *= (.*)", read=_info,
            figure=False),
    Wording("compute capability", r"Device [0-9]+: ([^,]+), compute capability", ("gpu",),
            figure=False),
    Wording(", VRAM: ", r"Device ([0-9]+): [^,]+, compute capability .*?, VRAM: ([0-9]+) MiB",
            ("@", "memory MiB"), figure=False),
    Wording(" | uma: ", r"\bVulkan[0-9]+: ([^|]+?) \((?:[^()|]*)\) \| uma: ", ("gpu",),
            figure=False),
    Wording("  Device ", r"\s\sDevice [0-9]+: ([A-Z][^,:]{3,60}?)\s*$", ("gpu",), figure=False),
    Wording("ggml_vulkan: ", r"ggml_vulkan: [0-9]+ = ([^|]+?) \((?:[^()|]*)\) \|", ("gpu",),
            figure=False),
    Wording(" MiB free)", r"(?:- |^ *)(\S+?) *: (\S[^|]*?) +\(([0-9]+) MiB, ([0-9]+) MiB free\)",
            read=_listed, figure=False),
    Wording("recommendedMaxWorkingSetSize", r"recommendedMaxWorkingSetSize *= *([0-9.]+) MB",
            read=_working_set, figure=False),
    Wording("GPU name: ", r"GPU name: +(\S.*?)\s*$", ("gpu",), figure=False),
    Wording("using device ", r"using device (\S+) \(([^)]*)\).*? - ([0-9]+) MiB free",
            read=_device, figure=False),
    Wording("HTTP server listening", r"(HTTP server listening)", ("ready",), figure=False),
    Wording("server is listening on", r"(server is listening on)", ("ready",), figure=False),
)  # fmt: skip
