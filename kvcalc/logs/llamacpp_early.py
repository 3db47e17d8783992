"""llama.cpp's wordings of 2023, before GGUF told the model and buffers had devices.

Its MB are MiB. "per state" is what a context of the default length would take beside the weights.
"""

from __future__ import annotations

from kvcalc.logs.llamacpp_model import model_line
from kvcalc.logs.wording import Match, Sink, Wording

_N, _G = r"([0-9]+(?:,[0-9]{3})*)", r"(-?[0-9.]+)"


def _total(m: Match, sink: Sink) -> None:
    """`total VRAM used: 4887 MB`, from autumn on with `(model: …, context: …)`."""
    for item, digits in (("total", m[1]), ("model", m[2]), ("context", m[3])):
        if digits:
            sink.figure(f"breakdown_{item}", digits, "MiB", "VRAM")


def _hyperparameter(m: Match, sink: Sink) -> None:
    """`llama_model_load_internal: n_layer = 40`: the model, and the context it is loaded for."""
    if m[1] == "n_ctx":
        sink.setting("n_ctx", m[2])
        return
    sink.metadata.setdefault("general.architecture", "llama")
    model_line(m[1], m[2], sink)


def _file(m: Match, sink: Sink) -> None:
    sink.model = sink.model or m[1]


EARLY_WORDINGS = (
    Wording("llama.cpp: loading model from ", r"llama\.cpp: loading model from (\S+)", read=_file,
            opens="file", figure=False),
    Wording("llama_model_load_internal: n_",
            r"llama_model_load_internal: (n_[a-z_]+) += ([0-9]+)\b", read=_hyperparameter,
            figure=False),
    Wording("generate: n_ctx", r"generate: n_ctx = ([0-9]{1,12}), n_batch = ",
            read=lambda m, sink: sink.settings.setdefault("n_ctx", int(m[1])), figure=False),
    Wording("mem required", rf"mem required *= *{_G} Mi?B(?: \(\+ *{_G} Mi?B per state\))?",
            ("weights MiB", "per_state MiB")),
    Wording("kv self = ", rf"VRAM kv self = {_G} Mi?B", ("kv_pool MiB",)),
    Wording("VRAM used", rf"total VRAM used *: *{_G} Mi?B"
            rf"(?: \(model: *{_G} Mi?B, context: *{_G} Mi?B\))?", read=_total),
    Wording("VRAM used", rf"(?<!total )VRAM used *[:=] *{_G} Mi?B", ("weights_vram MiB",)),
    Wording("buffer total size = ", rf"compute buffer total size = *{_G} Mi?B", ("compute MiB",)),
    Wording("scratch buffer", rf"VRAM scratch buffer: *{_G} Mi?B", ("scratch MiB",)),
    Wording("scratch buffer", rf"= {_N} MB VRAM for the scratch buffer", ("scratch MiB",)),
)  # fmt: skip
