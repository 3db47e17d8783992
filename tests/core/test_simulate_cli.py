"""The commands' declarations, and the line of progress."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from kvcalc.cli import simulate, workload
from kvcalc.cli.build import build
from kvcalc.cli.main import parse
from kvcalc.cli.spec import Spec


@pytest.mark.parametrize("spec", [simulate.SPEC, workload.SPEC], ids=["simulate", "workload"])
def test_every_option_is_declared_once(spec: Spec) -> None:
    assert build(spec) is not None
    keys = [option.key for option in spec.all_options()]
    assert len(set(keys)) == len(keys)


def test_words_become_keywords() -> None:
    words = [
        "llama-3.1-8b", "--trace", "poisson:rate=5,prompt=10,output=2", "--policy", "naive,paged",
        "--max-context", "4K", "--max-num-seqs", "8", "--set", "watermark=0.1", "--series", "all",
        "--no-prefix-caching", "--blocks", "100",
    ]  # fmt: skip
    assert parse(simulate.SPEC, words) == {
        "argument": "llama-3.1-8b",
        "trace": "poisson:rate=5,prompt=10,output=2",
        "policy": ["naive", "paged"],
        "max_context": ["4K"],
        "set": ["max_num_seqs=8", "watermark=0.1"],
        "series": "all",
        "no_prefix_caching": True,
        "blocks": ["100"],
    }


class Watched(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """Somebody looks."""
        return True


def test_progress_is_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    err: Any = Watched()
    monkeypatch.setattr("kvcalc.cli.simulate.time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", err)
    progress = simulate.Progress()
    progress(256)
    assert err.getvalue() == "", "short runs show nothing"
    now[0] = 1.0
    progress(12_345)
    progress(12_346)
    assert err.getvalue() == "\rsimulating: 12,345 requests"
    progress.clear()
    assert err.getvalue().endswith("\r" + " " * 27 + "\r")
