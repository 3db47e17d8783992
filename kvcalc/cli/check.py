"""`kvcalc check`."""

from __future__ import annotations

from typing import Any

from kvcalc.cli import output
from kvcalc.cli.options import SHAPE
from kvcalc.cli.spec import Spec
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

SPEC = Spec(
    "check",
    "an engine's start-up log beside kvcalc's figures",
    (
        "measured", "gpu", "gpu_memory", "utilization", "context", "kv_dtype", "dtype", "weights",
        "weight_bytes", "block_size", "tp", "pp", "dp", "dcp", "engine_version", "set", *SHAPE,
    ),
    argument=("LOG [MODEL]", "a start-up log (- reads standard input), and its model", "files"),
    rest=True,
    examples=(
        ("kvcalc check server.log", "every figure of the log beside kvcalc's"),
        ("vllm serve Qwen/Qwen3-8B 2>&1 | tee server.log; kvcalc check server.log",
         "keep what the engine prints"),
        ("docker logs llm 2>&1 | kvcalc check - qwen3-8b --gpu h100",
         "what the log does not say stands beside it"),
        ("kvcalc check server.log --measured ~/.config/kvcalc/engines/vllm.toml",
         "later fits use what this machine measured"),
    ),
    note=(
        "Reads logs of vLLM, SGLang, llama.cpp, ik_llama.cpp, Ollama, TensorRT-LLM and LMDeploy "
        "(with --log-level INFO): engine, release, model, settings, memory, refusals. Of several "
        "starts the last counts, of several ranks the smallest. Options win over the log. The exit "
        "code is 1 if a figure is outside its tolerance."
    ),
)  # fmt: skip


def run(options: dict[str, Any], out: output.Output) -> int:
    """Check one log, and keep what it measured if --measured asks for it."""
    from kvcalc.answer import function_of  # noqa: PLC0415
    from kvcalc.cli.main import deliver, prepared  # noqa: PLC0415 - main imports this module

    words = list(options.pop("argument", []))
    if not words:
        raise KvcalcError("usage", "LOG is missing", "kvcalc check server.log; - is standard input")
    if len(words) > 2:
        text = " ".join(words[1:])
        raise KvcalcError("usage", f"{shown(text)}: one MODEL after the log", "quote it")
    path = options.pop("measured", None)
    keywords = {
        key: value[0] if isinstance(value, list) and key not in {"set", "group"} else value
        for key, value in options.items()
    }
    model = words[1] if len(words) == 2 else None
    result = function_of("check")(words[0], model, **prepared(keywords))
    profile: str = getattr(result, "profile", "")
    if path is not None:
        if not profile:
            raise KvcalcError(
                "usage", f"--measured: {shown(words[0])} holds nothing that an engine profile has",
                "vLLM's and SGLang's lines on memory outside PyTorch are kept",
            )  # fmt: skip
        output.write_file(path, profile)
    return deliver(result, out)
