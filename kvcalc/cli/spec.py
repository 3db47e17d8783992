"""What a command's file declares: its name, help, options, examples."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from kvcalc.cli.options import COMMON, OPTIONS, Option

#: Commands in the order of the overview, by group.
GROUPS = (
    ("Calculate", (
        "size", "fit", "timeline", "speed", "offload", "waste", "compare", "tradeoff", "simulate",
    )),
    ("Read and report", ("workload", "check", "report", "explain", "batch")),
    ("Look up", ("models", "gpus", "dtypes", "engines", "schema", "completions")),
)  # fmt: skip
COMMANDS = tuple(name for _, names in GROUPS for name in names)


class Spec(NamedTuple):
    """One command."""

    name: str
    summary: str
    options: tuple[str, ...]
    examples: tuple[tuple[str, str], ...] = ()
    #: Metavar, help and completion kind of the positional argument; none if empty.
    argument: tuple[str, str, str] = ("MODEL", "a preset, a file or folder, or numbers", "models")
    #: Words after the argument, as in `models show NAME`.
    rest: bool = False
    #: Options whose several values stay one list here, though they are products elsewhere.
    lists: tuple[str, ...] = ()
    note: str = ""

    def all_options(self) -> tuple[Option, ...]:
        """The command's options, then those of every command."""
        own = tuple(OPTIONS[name] for name in self.options)
        short = any("--output" in option.flags for option in own)
        common = (f"{n}_short" if short and n == "output_file" else n for n in COMMON)
        return (*own, *(OPTIONS[name] for name in common))


def spec_of(command: str) -> Spec:
    """The declaration of one command, its module imported now."""
    spec: Spec = importlib.import_module(f"kvcalc.cli.{command}").SPEC
    return spec
