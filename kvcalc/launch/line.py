"""The words of a launch line: shells, containers and wrappers taken off, the engine found."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: Commands → engine.
_COMMANDS = {
    "vllm": "vllm", "sglang": "sglang", "llama-server": "llama.cpp", "llama-cli": "llama.cpp",
    "llama-bench": "llama.cpp", "llama-completion": "llama.cpp", "ollama": "ollama",
    "trtllm-serve": "tensorrt-llm", "lmdeploy": "lmdeploy",
}  # fmt: skip
#: The first word of commands that have several; without one the word is something else's name.
_SUBCOMMANDS = {
    "vllm": frozenset({"serve", "chat", "complete", "bench", "run-batch"}),
    "sglang": frozenset({"serve", "generate"}),
    "ollama": frozenset({"serve", "run", "start"}),
    "lmdeploy": frozenset({"serve", "chat"}),
}
#: llama.cpp's programs before June 2024.
_OLD_LLAMA = frozenset({"server", "main"})
#: Python modules → engine.
_MODULES = (
    ("vllm.entrypoints", "vllm"), ("sglang.launch_server", "sglang"), ("sglang", "sglang"),
    ("lmdeploy", "lmdeploy"), ("tensorrt_llm.commands.serve", "tensorrt-llm"),
)  # fmt: skip
#: Words of container images → engine, whose own command the image starts.
_IMAGES = (
    ("vllm", "vllm"), ("sglang", "sglang"), ("llama.cpp", "llama.cpp"), ("ollama", "ollama"),
    ("tensorrt", "tensorrt-llm"), ("lmdeploy", "lmdeploy"),
)  # fmt: skip
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
#: docker run's flags without a value.
_CONTAINER_SWITCHES = frozenset({
    "-d", "--detach", "-i", "--interactive", "-t", "--tty", "-it", "-ti", "-dit", "-itd", "-id",
    "--rm", "--privileged", "--init", "--read-only", "-P", "--publish-all", "--no-healthcheck",
    "-q", "--quiet", "--replace",
})  # fmt: skip
_ENDS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "2>&1", "2>", "&>", "|&", "<"})
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*="


class Line(NamedTuple):
    """A launch line's engine, the words after its command, its environment, its image's tag."""

    engine: str
    command: str
    words: list[str]
    environment: dict[str, str]
    version: str | None = None


def split(words: Sequence[str]) -> Line:
    """The engine of a launch line, and what is said to it.

    Raises:
        KvcalcError: "usage" for a line that starts no engine that kvcalc knows.
    """
    flat = _words(words)
    environment = _environment(flat)
    for i, word in enumerate(flat):
        base = re.split(r"[/\\]", word)[-1].removesuffix(".exe")
        if word == "-m" and i + 1 < len(flat):
            module = flat[i + 1]
            engine = next((e for name, e in _MODULES if module.startswith(name)), None)
            if engine is not None:
                return Line(engine, module, flat[i + 2 :], environment)
        if base in _CONTAINERS and "run" in flat[i:]:
            return _container(flat[i + flat[i:].index("run") + 1 :], environment)
        engine = _COMMANDS.get(base)
        if base in _OLD_LLAMA and any(w.lower().endswith(".gguf") for w in flat[i:]):
            engine = "llama.cpp"
        needed = _SUBCOMMANDS.get(base)
        if engine is None or (needed is not None and not needed & set(flat[i + 1 : i + 2])):
            continue
        rest = flat[i + 1 :] if needed is None else flat[i + 2 :]
        return Line(engine, base if needed is None else flat[i + 1], rest, environment)
    shown_line = shown(" ".join(flat) or '""', 60)
    raise KvcalcError(
        "usage", f"launch line: no engine in {shown_line}",
        "it starts with vllm serve, sglang, llama-server, ollama, trtllm-serve or lmdeploy",
    )  # fmt: skip


def _words(words: Sequence[str]) -> list[str]:
    """Single words: a line that was quoted whole is split, shell operators end it."""
    if len(words) == 1:
        text = words[0].replace("\\\r\n", " ").replace("\\\n", " ")
        try:
            words = shlex.split(text, comments=True)
        except ValueError:  # a quote that never ends
            words = text.split()
    flat: list[str] = []
    for word in words:
        if word in _ENDS and flat:
            break
        if word.strip() not in {"", "\\", "$", "%", "`", "^"}:
            flat.append(word)
    return flat


def _environment(words: list[str]) -> dict[str, str]:
    """NAME=VALUE before the command, after env, export or -e."""
    found = {}
    for word in words:
        text = word.removeprefix("-e").removeprefix("--env=") if word[:2] in {"-e", "--"} else word
        name, equals, value = text.partition("=")
        if equals and re.fullmatch(_ASSIGNMENT, f"{name}="):
            found[name] = value
    return found


def _container(words: list[str], environment: dict[str, str]) -> Line:
    """docker run OPTIONS IMAGE [COMMAND] ARGS: the image's engine, or the command after it."""
    i = 0
    while i < len(words) and words[i].startswith("-"):
        bare = "=" in words[i] or words[i] in _CONTAINER_SWITCHES
        i += 1 if bare else 2
    if i >= len(words):
        raise KvcalcError("usage", "launch line: docker run without an image", None)
    image, rest = words[i], words[i + 1 :]
    tag = re.search(r":v?([0-9]+\.[0-9]+(?:\.[0-9]+)?[a-z0-9.]*)", image)
    version = tag[1] if tag else None
    try:
        return split(rest)._replace(environment=environment, version=version)
    except KvcalcError:
        pass
    engine = next((e for word, e in _IMAGES if word in image.lower()), None)
    if engine is None:
        raise KvcalcError(
            "usage", f"launch line: the image {shown(image)} is of no engine kvcalc knows",
            "paste the engine's own command",
        )  # fmt: skip
    return Line(engine, "", rest, environment, version)
