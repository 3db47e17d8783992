"""The committed scripts are what the commands' declarations give, and name all they should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvcalc.catalog.locate import data_dir
from kvcalc.cli import complete
from kvcalc.cli.completions import FILES
from kvcalc.cli.spec import COMMANDS, spec_of

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
SCRIPTS = complete.scripts()


@pytest.mark.parametrize("shell", FILES)
def test_the_committed_script_is_current(shell: str) -> None:
    """If not: python -m kvcalc.cli.complete."""
    with open(os.path.join(data_dir("completions"), FILES[shell]), "rb") as file:
        committed = file.read()

    assert committed == SCRIPTS[shell].encode("utf-8")


def test_writing_is_deterministic() -> None:
    assert complete.scripts() == SCRIPTS


def test_check_says_which_are_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(complete, "data_dir", lambda _name: str(tmp_path))

    assert complete.main(["--check"]) == 1
    assert "kvcalc.fish" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert complete.main([]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(FILES.values())
    assert complete.main(["--check"]) == 0
    (tmp_path / "_kvcalc").write_text("old\n")
    assert complete.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith("stale in completions/: _kvcalc:")
    assert complete.main(["--wrong"]) == 2


@pytest.mark.parametrize("shell", FILES)
def test_every_command_option_and_preset_is_in_every_script(shell: str) -> None:
    script = SCRIPTS[shell]
    flags = {f for name in COMMANDS for o in spec_of(name).all_options() for f in o.flags}
    spelled = {f"-l {f[2:]}" for f in flags if f.startswith("--")} if shell == "fish" else flags
    names = {word for kind in complete.tree().kinds.values() for word in kind.words}

    missing = [word for word in spelled | names | set(COMMANDS) if not _has(script, word)]

    assert missing == []


def _has(script: str, word: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9._-]){re.escape(word)}(?![A-Za-z0-9._])", script) is not None


@pytest.mark.parametrize("shell", FILES)
def test_no_script_starts_the_program(shell: str) -> None:
    """A TAB must not wait for Python: `kvcalc` is only ever completed, never called."""
    calls = re.findall(r"\$\(\s*kvcalc\b|`kvcalc\b|\(kvcalc\b|python", SCRIPTS[shell])

    assert calls == ["python"]  # the note how it was generated


@pytest.mark.parametrize("name", ["h100", "4090", "a100-80", "h100-sxm"])
def test_gpus_come_with_their_short_aliases(name: str) -> None:
    assert name in complete.tree().kinds["gpus"].words


def test_every_offered_name_is_known(kvcalc: Kvcalc) -> None:
    """Each model and GPU that is offered can be looked up; `auto` is this machine's."""
    from kvcalc.catalog.lookup import shipped_id  # noqa: PLC0415 - only here

    kinds = complete.tree().kinds
    for kind in ("models", "gpus"):
        words, more = kinds[kind]
        unknown = [w for w in (*words, *more) if shipped_id(kind, w) is None]
        assert unknown == (["auto"] if kind == "gpus" else [])
    assert kvcalc("size", kinds["models"].more[0]).returncode == 0


def test_what_takes_a_value_does_so_in_every_command() -> None:
    """The scripts know one list of options with values; no flag may differ between commands."""
    kinds: dict[str, set[bool]] = {}
    for name in COMMANDS:
        for option in spec_of(name).all_options():
            for flag in option.flags:
                kinds.setdefault(flag, set()).add(option.is_flag)

    assert [flag for flag, found in kinds.items() if len(found) > 1] == []


@pytest.mark.parametrize("shell", [*FILES, "pwsh", "Zsh"])
def test_the_command_prints_the_committed_script(kvcalc: Kvcalc, shell: str) -> None:
    name = FILES["powershell" if shell == "pwsh" else shell.lower()]
    done = kvcalc("completions", shell, env={"PYTHONIOENCODING": "ascii"})

    assert done.returncode == 0
    assert done.stdout == (Path(data_dir("completions")) / name).read_text("utf-8")


def test_the_module_writes_and_checks(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvcalc.cli.complete", "--check"], env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_powershell_is_balanced() -> None:
    """No PowerShell runs here: brackets outside quotes pair up, keys differ beyond their case."""
    text = re.sub(r"(?m)^\s*#.*$", "", SCRIPTS["powershell"])
    text = re.sub(r"'(?:[^']|'')*'|\"[^\"\n]*\"", "", text)
    open_brackets: list[str] = []
    for character in text:
        if character in "([{":
            open_brackets.append(character)
        elif character in ")]}":
            assert open_brackets.pop() + character in {"()", "[]", "{}"}

    assert open_brackets == []
    spellings = complete.tree().spellings
    assert len({s.lower() for s in spellings}) == len(spellings)
    assert (
        SCRIPTS["powershell"].count("Register-ArgumentCompleter -Native -CommandName kvcalc") == 1
    )
