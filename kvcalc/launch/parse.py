"""A pasted launch line to kvcalc's options: whose it is, and that engine's own rules."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from kvcalc.launch.flags import Launch
from kvcalc.launch.line import split

#: Engine → its module; one is imported.
_PARSERS = {
    "vllm": "vllm", "sglang": "sglang", "llama.cpp": "llamacpp", "ollama": "ollama",
    "tensorrt-llm": "tensorrt", "lmdeploy": "lmdeploy",
}  # fmt: skip


def parse_launch(words: Sequence[str]) -> Launch:
    """What the words after `--` say, by the rules of the engine they start.

    Args:
        words: `vllm serve Qwen/Qwen3-8B -tp 2`, word by word, or one word that holds it all.

    Raises:
        KvcalcError: "usage" for a line that starts no engine that kvcalc knows, or with a value
            that the engine itself would refuse.
    """
    line = split(words)
    launch: Launch = import_module(f"kvcalc.launch.{_PARSERS[line.engine]}").parse(line)
    return launch
