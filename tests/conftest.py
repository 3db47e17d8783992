"""The program in a clean subprocess, for every test that runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# A busy machine is no failure; in CI hypothesis loads its own profile, which repeats itself.
if "CI" not in os.environ:
    hypothesis.settings.register_profile("patient", deadline=None)
    hypothesis.settings.load_profile("patient")

ROOT = Path(__file__).resolve().parent.parent
#: Variables that would change what the program says.
_TAKEN_OUT = frozenset({
    "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONIOENCODING", "PYTHONUTF8",
    "PYTHONUNBUFFERED", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "LC_ALL", "LC_CTYPE", "LANG",
    "LANGUAGE", "XDG_CONFIG_HOME", "APPDATA", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
})  # fmt: skip
Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's environment: an empty home, UTF-8, no KVCALC_ variable, the checkout's package."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _TAKEN_OUT and not name.startswith("KVCALC_")
    }
    config = str(home / ".config")
    return {
        **kept, "HOME": str(home), "USERPROFILE": str(home), "XDG_CONFIG_HOME": config,
        "APPDATA": config, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color",
    }  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder the program is started in: empty."""
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def kvcalc(environment: dict[str, str], work: Path) -> Kvcalc:
    """Runs `python -m kvcalc ARGS…` and returns its exit code, stdout and stderr.

    `env` adds variables, `cwd` is another folder than `work`, `input` goes to standard input.
    """

    def run(
        *args: str,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        input: str = "",
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kvcalc", *args],
            env={**environment, **(env or {})}, cwd=cwd or work, input=input,
            capture_output=True, encoding="utf-8", timeout=120, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def shared() -> Path:
    """The collection of facts beside the checkout; tests of it are skipped where it is absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no ../shared beside this checkout")
    return folder
