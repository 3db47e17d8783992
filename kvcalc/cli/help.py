"""Help as plain text: grouped options, defaults in brackets, examples last."""

from __future__ import annotations

import textwrap

from kvcalc.cli.options import COMMON, Option
from kvcalc.cli.spec import GROUPS, Spec, spec_of

#: Cells of a line, and of its first column; narrower than `_BESIDE` a text stands below its flags.
WIDTH, _COLUMN, _BESIDE = 80, 28, 70


def command_help(spec: Spec, width: int = WIDTH) -> str:
    """The help of one command, in lines of `width` cells; examples are to paste and never break."""
    argument = f" {spec.argument[0]}" if spec.argument[0] else ""
    usage = f"kvcalc {spec.name}{argument} [OPTIONS]"
    lines = [*_usage(usage, spec.summary, width), ""]
    if spec.argument[0] and spec.argument[1]:
        lines += [*_entry(spec.argument[0], spec.argument[1], width), ""]
    panels: dict[str, list[Option]] = {}
    for option in spec.all_options():
        panels.setdefault(option.panel, []).append(option)
    for panel, options in panels.items():
        lines.append(panel)
        for option in options:
            lines += _option(option, width)
    lines += _entry("-h, --help", "show this", width)
    if spec.note:
        lines += ["", *_indented(spec.note, width, 0)]
    if spec.examples:
        lines += ["", "Examples"]
        for command, why in spec.examples:
            lines += [f"  {command}", *_indented(why, width, 6)]
    return "\n".join(lines)


def _usage(usage: str, summary: str, width: int) -> list[str]:
    """The usage with what the command is for at the right, or below it."""
    if len(usage) + 2 + len(summary) > width:
        return [usage, *_indented(summary, width, 2)]
    return [f"{usage}{summary:>{width - len(usage)}}"]


def _indented(text: str, width: int, indent: int) -> list[str]:
    wrapped = textwrap.wrap(
        text, max(width - indent, 20), break_on_hyphens=False, break_long_words=False
    )
    return [" " * indent + line for line in wrapped]


def _option(option: Option, width: int) -> list[str]:
    flags = f"{', '.join(option.flags)} {option.metavar}".strip()
    text = f"{option.help}  [{option.default}]" if option.default else option.help
    return _entry(flags, text, width)


def _entry(flags: str, text: str, width: int) -> list[str]:
    head = f"  {flags}"
    if width < _BESIDE:
        return [head, *_indented(text, width, 4)]
    body = _indented(text, width, _COLUMN) or [""]
    if len(head) >= _COLUMN - 1:
        return [head, *body]
    return [head.ljust(_COLUMN) + body[0][_COLUMN:], *body[1:]]


def overview(width: int = WIDTH) -> str:
    """`kvcalc --help`: the commands by group, what is common, three examples."""
    purpose = "how much memory a KV cache takes, what fits"
    lines = [*_usage("kvcalc COMMAND [MODEL] [OPTIONS]", purpose, width), ""]
    for group, names in GROUPS:
        lines.append(group)
        for name in names:
            body = _indented(spec_of(name).summary, width, 15)
            lines += [f"  {name:<13}{body[0][15:]}", *body[1:]]
    model = _indented(
        "a preset (llama-3.1-70b), a config.json, .safetensors or .gguf file or folder, "
        "hf:ORG/NAME, or --layers N --kv-heads N --head-dim N", width, 8,
    )  # fmt: skip
    lines += ["", f"MODEL   {model[0][8:]}", *model[1:], "Everywhere"]
    from kvcalc.cli.options import OPTIONS  # noqa: PLC0415 - only help walks them all

    for name in COMMON:
        lines += _option(OPTIONS[name], width)
    lines += _entry("-h, --help", "help of kvcalc or of a command", width)
    lines += _entry("--version", "the version", width)
    lines += [
        "",
        "  kvcalc size llama-3.1-70b",
        "  kvcalc fit llama-3.1-70b --gpu h100 --weights int4 -c 4096",
        "  kvcalc fit -- vllm serve Qwen/Qwen3-8B --max-model-len 32k -tp 2",
        *textwrap.wrap("Exit code: 0 yes, 1 no (does not fit), 2 could not answer.", width),
    ]
    return "\n".join(lines)
