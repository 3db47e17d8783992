"""Every command of the README is run; what follows a `$ kvcalc` line is what it prints.

`python tests/test_readme.py` writes the current answers into the README.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_INDENTED = re.compile(r"^ {4}(kvcalc .*?)(?: {2,}\S.*)?$", re.MULTILINE)


def run(command: str, home: str) -> str:
    """What a shell shows for a README line: stdout, then stderr."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("KVCALC_")}
    env |= {"HOME": home, "XDG_CONFIG_HOME": home, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    given = None
    if command.startswith("echo "):
        words = shlex.split(command)
        bar = words.index("|")
        given, words = " ".join(words[1:bar]), words[bar + 1 :]
    else:
        words = shlex.split(command)
    argv = [sys.executable, "-m", "kvcalc", *words[1:]]
    done = subprocess.run(
        argv, input=given, capture_output=True, text=True, env=env, cwd=home, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def answers(block: str, home: str) -> str:
    """A console block with each command followed by its present answer."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{run(command, home)}" for command in commands)


BLOCKS = _CONSOLE.findall(README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.split("\n")[0][2:60])
def test_console_blocks_show_what_the_commands_print(block: str, tmp_path: Path) -> None:
    assert answers(block, str(tmp_path)) == block


@pytest.mark.parametrize("command", _INDENTED.findall(README.read_text(encoding="utf-8")))
def test_listed_commands_answer(command: str, tmp_path: Path) -> None:
    if "|" in command.split():
        pytest.skip("a list of choices, not a command")
    text = run(command, str(tmp_path))

    assert text or " -o " in command
    assert not text.startswith("error:")


def _write() -> None:
    with tempfile.TemporaryDirectory() as home:
        text = README.read_text(encoding="utf-8")
        new = _CONSOLE.sub(lambda m: f"```console\n{answers(m[1], home)}```", text)
        README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    _write()
