"""-f png: a real PNG with the extra, a clear refusal without it, never into a terminal."""

from __future__ import annotations

import importlib.util
import struct
import sys
from pathlib import Path

import pytest

import kvcalc
from kvcalc.cli.output import Output
from kvcalc.core.errors import KvcalcError
from kvcalc.report import png, svg
from tests.answers import ask

needs_extra = pytest.mark.skipif(
    importlib.util.find_spec("vl_convert") is None, reason="the png extra is not installed"
)


@needs_extra
def test_a_png_is_twice_the_size_of_the_picture() -> None:
    result = kvcalc.size("llama-3.1-70b")
    data = png.render(result)
    width, height = struct.unpack(">II", data[16:24])

    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert f'width="{width // 2}" height="{height // 2}"' in svg.render(result)


@needs_extra
def test_a_file_of_that_ending_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "size.png"
    answer = ask("size", "llama-3.1-8b", "-o", str(path))

    assert (answer.code, answer.text) == (0, "")
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(KvcalcError) as caught:
        png.render(kvcalc.size("llama-3.1-8b"))

    assert caught.value.code == "missing_extra"
    assert "kvcalc[png]" in (caught.value.hint or "")
    assert ask("size", "llama-3.1-8b", "-f", "png").code == 2
    assert "png needs the package vl-convert-python" in capsys.readouterr().err


def test_a_terminal_gets_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvcalc.cli.output._is_terminal", lambda: True)
    out = Output({"format": "png"})

    with pytest.raises(KvcalcError, match="not for a terminal"):
        out.render(kvcalc.size("llama-3.1-8b"), {})
