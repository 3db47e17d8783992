"""`OLLAMA_NUM_PARALLEL=4 ollama serve`, `ollama run llama3.1:8b`: variables and parameters.

Source: Ollama `envconfig/config.go` and `api/types.go`. A context is of one request here.
"""

from __future__ import annotations

import re

from kvcalc.launch.flags import Launch, Reading, parsed, truth
from kvcalc.launch.line import Line
from kvcalc.launch.names import gguf_format

#: What ollama pulls where a tag names no format.
_DEFAULT_FORMAT = "q4_k_m"
#: Variable → setting, and the kind of its value.
_VARIABLES = {
    "OLLAMA_CONTEXT_LENGTH": ("num_ctx", "int"), "OLLAMA_NUM_PARALLEL": ("num_parallel", "int"),
    "OLLAMA_KV_CACHE_TYPE": ("kv_cache_type", "text"),
    "OLLAMA_FLASH_ATTENTION": ("flash_attention", "truth"),
    "OLLAMA_GPU_OVERHEAD": ("gpu_overhead", "int"),
}  # fmt: skip
#: Parameters of a Modelfile or of /set parameter.
_PARAMETERS = frozenset({"num_ctx", "num_gpu", "num_batch", "num_parallel"})


def parse(line: Line) -> Launch:
    """What Ollama's command and variables say; num_ctx is by the GPU's memory otherwise."""
    reading = Reading("ollama")
    settings = reading.settings
    for name, (setting, kind) in _VARIABLES.items():
        text = line.environment.get(name, "")
        if not text:
            continue
        value = truth(text) if kind == "truth" else parsed(kind, text, name)
        if value is not None and value != 0:
            settings[setting] = value
    reading.ignored += [
        name for name in line.environment if name.startswith("OLLAMA_") and name not in _VARIABLES
    ]
    words = [w for w in line.words if not re.match(r"[A-Z_]+=", w)]
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name in _PARAMETERS and (equals or words):
            settings[name] = parsed("int", value if equals else words.pop(0), name)
        elif word.startswith("-"):
            reading.ignored.append(name)
            if name == "--keepalive" and not equals and words:
                words.pop(0)
        elif reading.model is None and word.lower() not in {"parameter", "/set"}:
            reading.model = word
    settings.setdefault("num_parallel", 1)
    if "num_ctx" in settings:
        reading.options["context"] = settings["num_ctx"]
    if reading.model is not None:
        reading.options["weights"] = gguf_format(reading.model) or _DEFAULT_FORMAT
    if line.version is not None:
        reading.options["engine_version"] = line.version
    return reading.done("vram")
