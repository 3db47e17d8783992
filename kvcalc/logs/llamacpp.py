"""llama.cpp's wordings, 2023 to 2026, and those of ik_llama.cpp: figures of one device, in MiB.

A context may have several caches (window layers, recurrent states), and a server several contexts
(draft model, MTP); those after the first are marked "draft" and keep no settings.
"""

from __future__ import annotations

import re

from kvcalc.logs.llamacpp_early import EARLY_WORDINGS
from kvcalc.logs.llamacpp_failed import FAILED_WORDINGS
from kvcalc.logs.llamacpp_model import MODEL_WORDINGS
from kvcalc.logs.wording import Family, Match, Sink, Wording

_N, _G = r"([0-9]+(?:,[0-9]{3})*)", r"(-?[0-9.]+)"
_BUFFERS = {
    "model": "weights", "": "weights", "KV": "kv_pool", "RS": "state", "output": "output",
    "compute": "compute", "LoRA": "lora",
}  # fmt: skip
_PARTS = {
    "K": "kv_key", "V": "kv_value", "c^KV": "kv_latent", "kv^T": "kv_latent_transposed",
    "R": "state_conv", "S": "state_ssm", "P": "state_extra",
}  # fmt: skip
_SETTINGS = (
    "n_ctx|n_ctx_per_seq|n_ctx_seq|n_seq_max|n_batch|n_ubatch|flash_attn|kv_unified|mla_attn"
    "|attn_max_b|fused_moe|n_rs_seq"
)
#: Settings that only ik_llama.cpp has.
_FORK = frozenset({"mla_attn", "attn_max_b", "fused_moe"})
_WORDS = {"enabled": "true", "disabled": "false", "on": "true", "off": "false"}


def _draft(sink: Sink) -> str:
    return sink.memo.get("part", "")


def _buffer(m: Match, sink: Sink) -> None:
    """`CUDA0 KV buffer size = 128.00 MiB`, of the context that is being made."""
    note = _draft(sink)
    if m[1] and m[1].startswith(("alloc_compute_meta", "clip")):
        note = "projector"
    kind = (m[3] or "").strip()
    item, device = _BUFFERS.get(kind, "state"), m[2]
    if device == "state":  # `DSV4 … state buffer size`, without a device
        item, device = "state", ""
    sink.figure(item, m[4], "MiB", device, note)


def _context_setting(m: Match, sink: Sink) -> None:
    name, text = m[1], m[2]
    caches = any(f.item in {"kv_cache", "state_cache"} and f.value for f in sink.facts)
    if name in {"n_ctx", "n_seq_max"} and caches:
        sink.memo["part"] = "draft"
    if _draft(sink):
        return
    if name in _FORK:
        sink.marks.add("ik")
    if name == "n_ctx_per_seq":
        name = "n_ctx_seq"
    if text != "auto":
        sink.setting(name, _WORDS.get(text, text))


def _cache(m: Match, sink: Sink) -> None:
    """A whole cache over all devices: `size = N MiB (N cells, N layers, N/N seqs), K (f16): …`."""
    parts = re.findall(r"([KVRSP]|c\^KV|kv\^T) \(([A-Za-z0-9_]+)\): *([0-9.]+) MiB", m["parts"])
    state = any(name in "RSP" for name, _, _ in parts) or "recurrent" in (m["who"] or "")
    label = _label(sink)
    item = "state_cache" if state else "kv_cache"
    _add(sink, item, m["size"], label)
    for name, kind, mib in parts:
        if state and name in "KV":  # spring of 2025: conv states as K, recurrent ones as V
            name = "R" if name == "K" else "S"  # noqa: PLW2901
        _add(sink, _PARTS[name], mib, label, kind)
        if name in {"K", "V"} and not _draft(sink):
            sink.settings["type_k" if name == "K" else "type_v"] = kind
        if name == "c^KV":
            sink.marks |= {"ik", "latent"}
            sink.settings.setdefault("type_k", kind)
    groups = m.groupdict()
    for name, unit, key in (("cells", "tokens", "kv_cells"), ("layers", "layers", "kv_layers")):
        if groups.get(name) and not (key == "kv_cells" and label):  # told when it was announced
            sink.figure(f"state_{unit}" if state else key, groups[name], unit, label, _draft(sink))
    if groups.get("seqs") and state and not _draft(sink):
        sink.settings.setdefault("n_seq_max", int(groups["seqs"]))
    elif groups.get("seqs") and not _draft(sink):
        sink.setting("n_seq_max", groups["seqs"])
        if groups.get("streams") and groups["seqs"] != "1":
            sink.settings["kv_unified"] = groups["streams"] == "1"


def _add(sink: Sink, item: str, mib: str, label: str, kind: str = "") -> None:
    note = " ".join(word for word in (kind, _draft(sink)) if word)
    sink.figure(item, mib, "MiB", label, note)


def _label(sink: Sink) -> str:
    """The name of the cache announced last, given away once."""
    return sink.memo.pop("label", "")


def _announced(m: Match, sink: Sink) -> None:
    """`creating     SWA KV cache, size = 8192 cells`; a quiet log says no more of it."""
    sink.memo["label"] = m[1].strip()
    sink.figure("kv_cells", m[2], "tokens", sink.memo["label"], _draft(sink))


def _header(m: Match, sink: Sink) -> None:
    """Spring of 2025: `kv_size = N, …, type_k = 'S', type_v = 'S', n_layer = N`."""
    if "recurrent" in m[0]:
        return
    sink.figure("kv_cells", m[1], "tokens", "", _draft(sink))
    sink.figure("kv_layers", m[4], "layers", "", _draft(sink))
    if not _draft(sink):
        sink.settings.update(type_k=m[2], type_v=m[3])


def _draft_model(m: Match, sink: Sink) -> None:  # noqa: ARG001
    sink.memo["part"] = "draft"


def _whole_windows(m: Match, sink: Sink) -> None:  # noqa: ARG001
    if not _draft(sink):
        sink.settings["swa_full"] = True


def _slots(m: Match, sink: Sink) -> None:
    sink.settings.setdefault("n_seq_max", int(m[1]))


def _flash(m: Match, sink: Sink) -> None:
    sink.settings["flash_attn"] = m[1] == "enabled"


def _layers(m: Match, sink: Sink) -> None:
    if _draft(sink):
        return
    sink.figure("gpu_layers", m[1], "layers")
    sink.figure("model_layers", m[2], "layers")
    sink.setting("n_gpu_layers", m[1])


def _breakdown(m: Match, sink: Sink) -> None:
    """A row of the table at exit; during the fit step it is a projection."""
    note = "projected" if m["rest"] and int(m["rest"]) < 0 else ""
    device = m["device"]
    if m["total"]:
        sink.figure("memory", m["total"], "MiB", device)
    for item in ("model", "context", "compute"):
        sink.figure(f"breakdown_{item}", m[item], "MiB", device, note)
    if m["gpu"] and m["gpu"] not in sink.devices:
        sink.devices.append(m["gpu"])


def _projected(m: Match, sink: Sink) -> None:
    """`- CUDA0 (…): 24080 total, 22450 used, 1157 free vs. target of 1024`: before loading."""
    if m[2] and m[2] not in sink.devices:
        sink.devices.append(m[2])
    sink.figure("memory", m[3], "MiB", m[1])
    sink.figure("projected", m[4], "MiB", m[1], "projected")


def _default(m: Match, sink: Sink, name: str) -> None:
    """What a line says of a setting that has a line of its own where the log is whole."""
    if not _draft(sink):
        sink.settings.setdefault(name, int(m[1]))


def _slot(m: Match, sink: Sink) -> None:
    """`n_slots = 4, n_ctx_slot = 4096, kv_unified = 'true'`."""
    _default(m, sink, "n_ctx_seq")
    if m[2] and not _draft(sink):
        sink.settings["kv_unified"] = m[2] == "true"


_CONTEXT = r"llama_context|llama_new_context_with_model|llama_init_from_model"
_TAIL = (
    r"(?P<parts>(?:, (?:[KVRSP]|c\^KV|kv\^T)(?: \([A-Za-z0-9_]+\))?: *(?:[0-9.]+ MiB|not used))*)"
)
#: A row of the breakdown: total = free + (self = model + context + compute) + the rest.
_SUM = (
    r"(?:(?P<total>[0-9]+) *= *-?[0-9]+ \+ \( *|[0-9]+ +(?=[0-9]))?[0-9]+ *= *"
    r"(?P<model>[0-9]+) \+ *(?P<context>[0-9]+) \+ *(?P<compute>[0-9]+)"
    r"(?:\) \+ *(?P<rest>-?[0-9]{1,20}))?"
)
FAMILY = Family("llama.cpp", (
    *MODEL_WORDINGS,
    *EARLY_WORDINGS,
    *FAILED_WORDINGS,
    Wording("loading draft model", r"loading draft model", read=_draft_model, keeps="model",
            figure=False),
    Wording("buffer size =",
            rf"(?:(\w+):)?\s+(\S+)\s+((?:model|KV|RS|output|compute|LoRA|DSV4 \S+ state) )?"
            rf"buffer size = *{_G} MiB", read=_buffer),
    *(Wording(f"{who}: ", rf"(?:^|[^~\w])(?:{_CONTEXT}):\s+({_SETTINGS})\s+=\s+(\S+)$",
              read=_context_setting, figure=False) for who in _CONTEXT.split("|")),
    Wording(" self size ",
            rf"(?P<who>\w*): +(?:KV|kv) self size *= *(?P<size>[0-9.]+) Mi?B{_TAIL}", read=_cache),
    Wording(" cells, ",
            r"(?P<who>\w*): size = *(?P<size>[0-9.]+) MiB \( *(?P<cells>[0-9]+) cells, *"
            r"(?P<layers>[0-9]+) layers, *(?P<seqs>[0-9]+)(?:/ *(?P<streams>[0-9]+))? seqs"
            rf"(?: *[0-9]+ rs_seq)?\){_TAIL}", read=_cache),
    Wording("KV cache, size = ", r"creating +(\S+(?: \S+){0,3}?) KV cache, size = *([0-9]+) cells",
            read=_announced, figure=False),
    Wording("kv_size = ",
            r"\w*: kv_size = ([0-9]+),.*?type_k = '(\w+)', type_v = '(\w+)', n_layer = ([0-9]+)",
            read=_header),
    Wording("using full-size SWA", r"using full-size SWA cache", read=_whole_windows,
            figure=False),
    Wording("Flash Attention was auto", r"Flash Attention was auto, set to (enabled|disabled)",
            read=_flash, figure=False),
    Wording("layers to GPU", rf"offloaded {_N}/{_N} layers to GPU", read=_layers, figure=False),
    Wording("n_slots", r"\bn_slots ?= ?([0-9]{1,6})\b", read=_slots, figure=False),
    Wording("n_ctx_slot", r"\bn_ctx_slot ?= ?([0-9]{1,12})\b(?:, kv_unified = '(true|false)')?",
            read=_slot, figure=False),
    Wording("new slot, n_ctx", r"new slot, n_ctx ?= ?([0-9]{1,12})()", read=_slot, figure=False),
    Wording(" n_ctx_train (", r"n_ctx_(?:per_)?seq \(([0-9]{1,12})\) [<>] n_ctx_train",
            read=lambda m, sink: _default(m, sink, "n_ctx_seq"), figure=False),
    Wording("to ctx_size = ", r"setting dry_penalty_last_n to ctx_size = ([0-9]{1,12})",
            read=lambda m, sink: _default(m, sink, "n_ctx"), figure=False),
    Wording("|   - ", rf"\|\s+- (?P<device>\S+)\s*(?:\((?P<gpu>[^|]*?)\))?\s*\|\s*{_SUM}",
            read=_breakdown, late=True),
    Wording("memory_breakdown: ",
            rf"memory_breakdown: +- (?P<device>\S+) +\((?P<gpu>[^|]*?)\): +{_SUM}",
            read=_breakdown, late=True),
    Wording(" total, ",
            rf"- (\S+) \(([^|]*?)\): +{_N} total, +{_N} used, +(-?[0-9]+) (?:free|surplus|deficit)",
            read=_projected, figure=False),
    Wording("estimated ", rf"estimated (?:fixed )?memory usage of MTP context is {_G} MiB",
            ("draft_context MiB",), figure=False),
    Wording("estimated ", rf"estimated worst-case memory usage of mmproj is {_G} MiB",
            ("projector MiB",), figure=False),
    Wording("projected to use ",
            rf"projected to use {_N} MiB of device memory vs\. {_N} MiB of free device memory",
            ("projected MiB", "free_at_start MiB"), figure=False),
))  # fmt: skip
