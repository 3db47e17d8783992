"""Help as plain text: grouped options, defaults in brackets, examples last."""

from __future__ import annotations

import textwrap

from kvcalc.cli.options import COMMON, Option
from kvcalc.cli.spec import GROUPS, Spec, spec_of

_WIDTH, _COLUMN = 80, 28


def command_help(spec: Spec) -> str:
    """The help of one command."""
    argument = f" {spec.argument[0]}" if spec.argument[0] else ""
    usage = f"kvcalc {spec.name}{argument} [OPTIONS]"
    lines = [f"{usage}{spec.summary:>{max(_WIDTH - len(usage), len(spec.summary) + 2)}}", ""]
    if spec.argument[0] and spec.argument[1]:
        lines += [*_entry(spec.argument[0], spec.argument[1]), ""]
    panels: dict[str, list[Option]] = {}
    for option in spec.all_options():
        panels.setdefault(option.panel, []).append(option)
    for panel, options in panels.items():
        lines.append(panel)
        for option in options:
            lines += _option(option)
    lines += _entry("-h, --help", "show this")
    if spec.note:
        lines += ["", *textwrap.wrap(spec.note, _WIDTH)]
    if spec.examples:
        lines += ["", "Examples"]
        for command, why in spec.examples:
            lines += [f"  {command}", f"      {why}"]
    return "\n".join(lines)


def _option(option: Option) -> list[str]:
    flags = f"{', '.join(option.flags)} {option.metavar}".strip()
    return _entry(flags, f"{option.help}  [{option.default}]" if option.default else option.help)


def _entry(flags: str, text: str) -> list[str]:
    head = f"  {flags}"
    body = textwrap.wrap(text, _WIDTH - _COLUMN, break_on_hyphens=False) or [""]
    if len(head) >= _COLUMN - 1:
        return [head, *(" " * _COLUMN + line for line in body)]
    return [head.ljust(_COLUMN) + body[0], *(" " * _COLUMN + line for line in body[1:])]


def overview() -> str:
    """`kvcalc --help`: the commands by group, what is common, three examples."""
    lines = ["kvcalc COMMAND [MODEL] [OPTIONS]     how much memory a KV cache takes, what fits"]
    lines.append("")
    for group, names in GROUPS:
        lines.append(group)
        lines += [f"  {name:<12} {spec_of(name).summary}" for name in names]
    lines += [
        "",
        "MODEL   a preset (llama-3.1-70b), a config.json, .safetensors or .gguf file or",
        "        folder, hf:ORG/NAME, or --layers N --kv-heads N --head-dim N",
        "Everywhere",
    ]
    from kvcalc.cli.options import OPTIONS  # noqa: PLC0415 - only help walks them all

    for name in COMMON:
        lines += _option(OPTIONS[name])
    lines += _entry("-h, --help", "help of kvcalc or of a command")
    lines += _entry("--version", "the version")
    lines += [
        "",
        "  kvcalc size llama-3.1-70b",
        "  kvcalc fit llama-3.1-70b --gpu h100 --weights int4 -c 4096",
        "  kvcalc fit -- vllm serve Qwen/Qwen3-8B --max-model-len 32k -tp 2",
        "Exit code: 0 yes, 1 no (does not fit), 2 could not answer.",
    ]
    return "\n".join(lines)
