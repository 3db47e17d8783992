"""`kvcalc completions`."""

from __future__ import annotations

import os
from typing import Any

from kvcalc import __version__
from kvcalc.cli import output
from kvcalc.cli.spec import Spec
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import shown

SPEC = Spec(
    "completions",
    "a shell's completion script",
    (),
    argument=("SHELL", "bash, zsh, fish or powershell", "shells"),
    examples=(
        ("kvcalc completions bash > ~/.local/share/bash-completion/completions/kvcalc", "bash"),
        ('kvcalc completions zsh > "${fpath[1]}/_kvcalc"', "zsh, before compinit runs"),
        ("kvcalc completions fish > ~/.config/fish/completions/kvcalc.fish", "fish"),
        ("kvcalc completions powershell >> $PROFILE", "PowerShell"),
    ),
    note="The scripts are static: a TAB starts no Python. Print them again after an update.",
)
#: Shell to the file of its script; the names people also give it.
FILES = {"bash": "kvcalc.bash", "zsh": "_kvcalc", "fish": "kvcalc.fish", "powershell": "kvcalc.ps1"}
_ALIASES = {"pwsh": "powershell", "ps1": "powershell"}


def run(options: dict[str, Any], out: output.Output) -> int:
    """Print one script; JSON carries it as a string, every other format as it is."""
    from kvcalc.catalog.locate import data_dir  # noqa: PLC0415 - the module loads with any help
    from kvcalc.report.data import dumps, envelope  # noqa: PLC0415 - as above

    given = options.get("argument")
    if given is None:
        raise KvcalcError("usage", "SHELL is missing", f"one of: {', '.join(FILES)}")
    shell = _ALIASES.get(given.lower(), given.lower())
    if shell not in FILES:
        close = nearest(shell, list(FILES), 1)
        near = f"nearest: {close[0]}; " if close else ""
        hint = f"{near}all: {', '.join(FILES)}"
        raise KvcalcError("usage", f'no completions for "{shown(given)}"', hint)
    path = os.path.join(data_dir("completions"), FILES[shell])
    try:
        with open(path, encoding="utf-8") as file:
            script = file.read()
    except OSError as error:
        message = f"{FILES[shell]} cannot be read: {error.strerror}"
        raise KvcalcError("internal", message, "install kvcalc again") from None
    if out.format == "json":
        data = {"shell": shell, "file": FILES[shell], "script": script}
        script = dumps(envelope("completions", version=__version__, data=data)) + "\n"
    out.format = "json"  # bytes as they are: no glyph is replaced
    out.write(script)
    return 0
