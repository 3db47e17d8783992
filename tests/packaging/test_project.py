"""The project's own files agree with each other: pins, scripts, hooks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tomli

ROOT = Path(__file__).resolve().parent.parent.parent
PYPROJECT = tomli.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_version_is_one() -> None:
    from kvcalc import __version__  # noqa: PLC0415 - the package beside this file

    assert PYPROJECT["project"]["version"] == __version__


def test_hooks_pin_what_the_dev_group_pins() -> None:
    hooks = ROOT / ".pre-commit-config.yaml"
    if not hooks.exists():
        pytest.skip("an sdist has no hooks")
    pins = re.findall(r'additional_dependencies: \["([^"]*)"\]', hooks.read_text("utf-8"))

    group = PYPROJECT["dependency-groups"]["dev"]

    assert set(pins) <= {line for line in group if isinstance(line, str)}
    assert pins


def test_typer_stays_below_the_version_that_imports_pydantic() -> None:
    assert "typer>=0.27,<0.29" in PYPROJECT["project"]["dependencies"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_the_ci_script_is_an_executable_bash_script() -> None:
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("an sdist has no CI script")
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)

    assert os.access(script, os.X_OK)
    assert (done.returncode, done.stderr) == (0, "")
