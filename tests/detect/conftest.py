"""A machine made of scripts: a folder of executables that is the whole PATH."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvcalc.detect import match, run, sources

Tools = Callable[..., Path]
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
            "CUDA_DEVICE_ORDER")  # fmt: skip


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tools]:
    """Adds one executable that prints a text and ends with a code, or runs a body of its own."""
    if sys.platform == "win32":
        pytest.skip("the tools are shell scripts")
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(run, "FOLDERS", ())
    monkeypatch.setattr(match, "_MEMINFO", str(tmp_path / "meminfo"))
    for name in _VISIBLE:
        monkeypatch.delenv(name, raising=False)

    def add(name: str, text: str = "", *, code: int = 0, body: str = "") -> Path:
        script = body or f"printf '%s\\n' {shlex.quote(text)}; exit {code}"
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        sources._read.cache_clear()
        return path

    sources._read.cache_clear()
    yield add
    sources._read.cache_clear()
