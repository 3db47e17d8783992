"""The completion scripts: static, written from the commands' declarations.

`python -m kvcalc.cli.complete` writes completions/, `--check` only compares and exits 1 when one of
them is stale. Names of presets are baked in, so that a TAB never starts Python.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

from kvcalc.catalog.files import read_toml, toml_files
from kvcalc.catalog.index import shipped_names
from kvcalc.catalog.locate import data_dir
from kvcalc.cli.completions import FILES
from kvcalc.cli.options import COMMON, OPTIONS, Option
from kvcalc.cli.output import FORMATS
from kvcalc.cli.spec import COMMANDS, spec_of
from kvcalc.cli.spellings import MODEL, RENAMED, SETTINGS
from kvcalc.core.dtypes import DTYPES, Dtype
from kvcalc.core.weight_formats import WeightFormat, weight_formats
from kvcalc.engines.registry import ENGINES

#: Device names as drivers print them: nobody types these, but they are known.
_VENDORS = ("nvidia-", "geforce-", "tesla-", "amd-", "instinct-", "radeon-", "intel-")
#: What a shell passes through unquoted.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]*")


class Names(NamedTuple):
    """Words of one kind; `more` are offered only where none of `words` begins as typed."""

    words: tuple[str, ...]
    more: tuple[str, ...] = ()


class Offer(NamedTuple):
    """One option as a shell sees it."""

    flags: tuple[str, ...]
    #: Empty for an option without a value.
    metavar: str
    help: str
    #: A key of `Tree.kinds`, "files", or "" where nothing is offered.
    kind: str
    #: May be given again.
    again: bool
    #: Takes a comma list.
    listed: bool


class Command(NamedTuple):
    """One command as a shell sees it."""

    name: str
    summary: str
    options: tuple[Offer, ...]
    #: Metavar and kind of its argument; empty if it takes none.
    metavar: str
    kind: str
    #: The argument is a comma list.
    listed: bool
    #: Words that may stand before the argument: `show` takes a name, others (`add`) a file.
    verbs: tuple[str, ...]


class Tree(NamedTuple):
    """All that the scripts are written from."""

    commands: tuple[Command, ...]
    #: Options that may stand before the command.
    common: tuple[Offer, ...]
    kinds: dict[str, Names]
    #: Engines' spellings that take a value, to the option they stand for; "" for a setting.
    spellings: dict[str, str]

    def takes_value(self) -> list[str]:
        """Every spelling of an option that takes a value, in every command."""
        flags = {f for c in self.commands for o in c.options if o.metavar for f in o.flags}
        flags |= {f for o in self.common if o.metavar for f in o.flags}
        return sorted(flags | set(self.spellings))

    def value_of(self, command: Command | None, flag: str) -> tuple[str, bool] | None:
        """Kind of the option's value in that command, and whether it is a list; None: unknown."""
        for offer in command.options if command else self.common:
            if flag in offer.flags:
                return (offer.kind, bool(offer.kind) and offer.listed)
        target = self.spellings.get(flag)
        if command is None or not target:
            return None
        if target == "MODEL":
            return ("models", True) if command.listed else None
        found = self.value_of(command, target)
        return None if found == ("files", False) else found


def tree() -> Tree:
    """The commands, options and names of this version."""
    help_ = Offer(("-h", "--help"), "", "show help", "", again=False, listed=False)
    common = tuple(_offer(OPTIONS[name]) for name in COMMON)
    version = Offer(("--version",), "", "show the version", "", again=False, listed=False)
    commands = []
    for name in COMMANDS:
        spec = spec_of(name)
        metavar, _, kind = spec.argument
        verbs = re.findall(r"\[([a-z|]+)\]", metavar) if spec.rest else []
        commands.append(Command(
            name, spec.summary, (*map(_offer, spec.all_options()), help_),
            metavar, kind, kind == "models" and not spec.rest,
            tuple(verb for group in verbs for verb in group.split("|")),
        ))  # fmt: skip
    spellings = {**RENAMED, **dict.fromkeys(SETTINGS, ""), **dict.fromkeys(MODEL, "MODEL")}
    return Tree(tuple(commands), (*common, help_, version), _kinds(), spellings)


def _offer(option: Option) -> Offer:
    kind = option.completes or (option.name if option.choices else "")
    listed = option.repeat in {"product", "list"} and option.name != "group"
    return Offer(option.flags, option.metavar, option.help, kind, bool(option.repeat), listed)


def _kinds() -> dict[str, Names]:
    kinds = {
        "models": _presets("models"),
        "gpus": _presets("gpus"),
        "dtypes": Names(("auto", *DTYPES), _aliases(DTYPES.values())),
        "weights": Names(
            tuple(f.key for f in weight_formats()), _aliases(weight_formats())
        ),
        "engines": Names(tuple(ENGINES)),
        "formats": Names(FORMATS),
        "commands": Names(COMMANDS),
        "shells": Names(tuple(FILES)),
    }  # fmt: skip
    for option in OPTIONS.values():
        if option.choices:
            kinds[option.name] = Names(option.choices)
    return kinds


def _presets(kind: str) -> Names:
    """Ids, and of GPUs the short aliases and `auto`; then every other name."""
    names = shipped_names(kind)
    ids = sorted(set(names.values()))
    aliases = set(names) - set(ids)
    if kind == "gpus":
        short = {a for a in _given_aliases(kind) & aliases if not a.endswith("gb")}
        ids = sorted({"auto", *ids, *(a for a in short if not a.startswith(_VENDORS))})
    more = sorted(a for a in aliases - set(ids) if _PLAIN.fullmatch(a))
    return Names(tuple(ids), tuple(more))


def _given_aliases(kind: str) -> set[str]:
    paths = toml_files(os.path.join(data_dir("presets"), kind))
    return {str(a).lower() for path in paths for a in read_toml(path).get("aliases", ())}


def _aliases(formats: Iterable[Dtype | WeightFormat]) -> tuple[str, ...]:
    return tuple(alias for fmt in formats for alias in fmt.aliases)


def scripts() -> dict[str, str]:
    """Shell to the text of its script."""
    from kvcalc.cli.shells import bash, fish, powershell, zsh  # noqa: PLC0415 - they import Tree

    made = tree()
    return {
        "bash": bash.script(made),
        "zsh": zsh.script(made),
        "fish": fish.script(made),
        "powershell": powershell.script(made),
    }


def main(arguments: list[str]) -> int:
    """Write the scripts, or with --check say which are stale."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python -m kvcalc.cli.complete [--check]\n")
        return 2
    stale = []
    for shell, text in scripts().items():
        path = os.path.join(data_dir("completions"), FILES[shell])
        try:
            with open(path, encoding="utf-8", newline="") as file:
                current = file.read() == text
        except FileNotFoundError:
            current = False
        if current:
            continue
        stale.append(FILES[shell])
        if not arguments:
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
    if arguments and stale:
        names = ", ".join(stale)
        sys.stderr.write(f"stale in completions/: {names}: run python -m kvcalc.cli.complete\n")
    return 1 if arguments and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
