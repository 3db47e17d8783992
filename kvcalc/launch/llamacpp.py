"""`llama-server …`, `llama-cli …` and ik_llama.cpp's: flags as of 2026, numbers without suffixes.

Source: llama.cpp `common/arg.cpp`. --ctx-size counts the tokens of all slots together.
"""

from __future__ import annotations

from typing import Any

from kvcalc.core.units import MIB
from kvcalc.launch.flags import Flag, Launch, Reading, truth, walk
from kvcalc.launch.line import Line
from kvcalc.launch.names import gguf_format

#: llama-server's slots where -np is not given, and then they share one row of cells.
_SLOTS = 4
#: Environment variable → flag, of those that shape memory.
_ENVIRONMENT = {
    "LLAMA_ARG_MODEL": "--model", "LLAMA_ARG_HF_REPO": "--hf-repo",
    "LLAMA_ARG_CTX_SIZE": "--ctx-size", "LLAMA_ARG_N_PARALLEL": "--parallel",
    "LLAMA_ARG_N_GPU_LAYERS": "--gpu-layers", "LLAMA_ARG_BATCH": "--batch-size",
    "LLAMA_ARG_UBATCH": "--ubatch-size", "LLAMA_ARG_CACHE_TYPE_K": "--cache-type-k",
    "LLAMA_ARG_CACHE_TYPE_V": "--cache-type-v", "LLAMA_ARG_FLASH_ATTN": "--flash-attn",
}  # fmt: skip


def _layers(reading: Reading, value: Any) -> None:
    """A number; "all" and "auto" are the default."""
    text = str(value).lower()
    if text.isdecimal():
        reading.settings["n_gpu_layers"] = int(text)
    elif text == "-2":
        reading.settings["n_gpu_layers"] = 10_000


def _fork(reading: Reading, value: Any) -> None:  # noqa: ARG001
    reading.engine = "ik_llama.cpp"


def _mla(reading: Reading, value: Any) -> None:
    reading.engine = "ik_llama.cpp"
    reading.settings["mla_attn"] = str(value)


def _target(reading: Reading, value: Any) -> None:
    """--fit-target is in MiB."""
    text = str(value).split(",")[0]
    if text.isdecimal():
        reading.settings["fit_target"] = int(text) * MIB


def _fit(reading: Reading, value: Any) -> None:
    found = truth(str(value))
    if found is not None:
        reading.settings["fit"] = found


FLAGS = (
    Flag(("--model", "-m"), "text", "model"),
    Flag(("--hf-repo", "-hf", "-hfr"), "text", "model"),
    Flag(("--ctx-size", "-c"), "int", "=n_ctx"),
    Flag(("--parallel", "-np"), "int", "=n_seq_max"),
    Flag(("--batch-size", "-b"), "int", "=n_batch"),
    Flag(("--ubatch-size", "-ub"), "int", "=n_ubatch"),
    Flag(("--gpu-layers", "--n-gpu-layers", "-ngl"), "text", then=_layers),
    Flag(("--cache-type-k", "-ctk"), "text", "=type_k"),
    Flag(("--cache-type-v", "-ctv"), "text", "=type_v"),
    Flag(("--flash-attn", "-fa"), "toggle", "=flash_attn"),
    Flag(("--kv-unified", "-kvu"), "switch", "=kv_unified"),
    Flag(("--no-kv-unified", "-no-kvu"), "switch", "=kv_unified", value=False),
    Flag(("--swa-full",), "switch", "=swa_full"),
    Flag(("--no-kv-offload", "-nkvo"), "switch", "=no_kv_offload"),
    Flag(("--kv-offload", "-kvo"), "switch", "=no_kv_offload", value=False),
    Flag(("--tensor-split", "-ts"), "text", "=tensor_split"),
    Flag(("--fit", "-fit"), "text", then=_fit),
    Flag(("--fit-target", "-fitt"), "text", then=_target),
    Flag(("--spec-draft-n-max", "--draft-max", "--draft", "--draft-n"), "int",
         "=spec_draft_n_max"),
    Flag(("-mla", "--mla-use"), "int", then=_mla),
    Flag(("-amb", "--attention-max-batch", "-ser", "--smart-expert-reduction"), "text",
         then=_fork),
    Flag(("-fmoe", "--fused-moe", "-rtr", "--run-time-repack"), "switch", then=_fork),
    # What follows says nothing of the cache; named so that values are told from the model.
    Flag(("--threads", "-t", "--threads-batch", "-tb", "--host", "--port", "--alias", "-a",
          "--predict", "-n", "--n-predict", "--temp", "--top-k", "--top-p", "--min-p", "--seed",
          "-s", "--prompt", "-p", "--chat-template", "--chat-template-file", "--split-mode",
          "-sm", "--main-gpu", "-mg", "--override-tensor", "-ot", "--n-cpu-moe", "-ncmoe",
          "--device", "-dev", "--mmproj", "-mm", "--hf-file", "-hff", "--hf-token", "-hft",
          "--api-key", "--rope-scaling", "--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx",
          "--cache-reuse", "--slot-save-path", "--timeout", "--model-draft", "-md",
          "--ctx-size-draft", "-cd", "-ngld", "--cache-type-k-draft", "-ctkd",
          "--cache-type-v-draft", "-ctvd",
          "--cache-ram", "-cram", "--reasoning-format", "--reasoning-budget", "--numa", "--lora",
          "--repeat-penalty", "--keep", "--log-verbosity", "-lv", "--model-url", "-mu",
          "--override-kv", "--fit-ctx", "-fitc"), "text"),
    Flag(("--no-mmap", "--mlock", "--no-warmup", "--jinja", "--metrics", "--slots", "--verbose",
          "-v", "--cont-batching", "-cb", "--no-cont-batching", "--embedding", "--embeddings",
          "--reranking", "--no-webui", "--cpu-moe", "-cmoe", "--context-shift", "--no-mmproj",
          "--no-context-shift", "--offline", "--check-tensors", "-cnv", "-i", "--color",
          "--no-repack", "--direct-io"), "switch"),
)  # fmt: skip


def parse(line: Line) -> Launch:
    """What a llama.cpp command says; without -c the model's maximum holds, of all slots."""
    reading = Reading("llama.cpp")
    spoken = [
        word
        for name, value in line.environment.items() if name in _ENVIRONMENT
        for word in (_ENVIRONMENT[name], value)
    ]  # fmt: skip
    walk(reading, [*spoken, *line.words], FLAGS)
    s, options = reading.settings, reading.options
    server = line.command in {"llama-server", ""}
    if s.get("n_seq_max", -1) < 1:
        s.pop("n_seq_max", None)
        if server and reading.engine == "llama.cpp":
            s["n_seq_max"] = _SLOTS
            s.setdefault("kv_unified", True)
    for key, option in (("type_k", "k_dtype"), ("type_v", "v_dtype")):
        if key in s:
            options[option] = s.pop(key)
    if s.get("n_ctx") == 0:
        del s["n_ctx"]
    slots = 1 if s.get("kv_unified") else int(s.get("n_seq_max", 1))
    if "n_ctx" in s:
        options["context"] = max(int(s["n_ctx"]) // slots, 1)
    kind = gguf_format(reading.model or "")
    if kind is not None:
        options["weights"] = kind
    return reading.done("model")
