"""What a model may be called in a launch line or a log, from the whole name to its bare one."""

from __future__ import annotations

import re

#: Endings of a model's name that say how its weights are stored, and not what it is.
_ENDINGS = (
    r"[-_. ](?:fp8(?:[-_]dynamic|[-_]block)?|awq|gptq|int[48]|w[48]a(?:16|8)|nvfp4|mxfp4|bnb|gguf"
    r"|[48]-?bit|(?:ud-)?i?q[0-9](?:_[0-9a-z]+)*|bf16|fp16|hf|autoround|auto-round|quantized"
    r"|dynamic|unsloth|mlx|instruct|it|chat|base|original|marlin|g128|mtp|latest|[0-9]{4}"
    r"|[0-9]{5}-of-[0-9]{5})$"
)
_GGUF = r"(?:^|[-_.:])((?:ud-)?i?q[0-9](?:_[0-9a-z]+)*|f16|bf16|f32|mxfp4)(?:[-_.]|$)"


def candidates(name: str) -> list[str]:
    """The name, its hub name in a cache path, its last part, and that without its endings."""
    tries = [name]
    cached = re.search(r"models--([^/\\]+)--([^/\\]+)", name)
    if cached:
        tries.append(f"{cached[1]}/{cached[2]}")
    base = re.split(r"[/\\]", tries[-1].rstrip("/\\"))[-1]
    base = re.sub(r"\.gguf$", "", base, flags=re.IGNORECASE)
    tries.append(base)
    if ":" in base:  # llama3.1:8b-instruct-q4_K_M, repository:Q4_K_M
        base = base.replace(":", "-")
        tries.append(base)
    while (shorter := re.sub(_ENDINGS, "", base, flags=re.IGNORECASE)) != base:
        base = shorter
        tries.append(base)
    return list(dict.fromkeys(tries))


def gguf_format(name: str) -> str | None:
    """The storage format that a GGUF file's name or tag tells: Q4_K_M."""
    word = re.sub(r"\.gguf$", "", re.split(r"[/\\]", name)[-1], flags=re.IGNORECASE)
    found = re.findall(_GGUF, word, re.IGNORECASE)
    return str(found[-1]).lower().removeprefix("ud-") if found else None
