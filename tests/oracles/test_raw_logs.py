"""Start-up logs of seven engines: every file read, every stated figure found, settings as printed.

tests/data/logs holds the logs, each with a JSON file of what it states (see its README.md).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc.api.check import check
from kvcalc.logs.facts import Log
from kvcalc.logs.reader import read_log

DATA = Path(__file__).parents[1] / "data" / "logs"
LOGS = sorted(DATA.glob("*.log"))
#: The part of a figure's name that says its unit, and bytes of one.
UNITS = {"gib": 2**30, "gb": 2**30, "mib": 2**20}
#: Settings that were deduced, or that kvcalc calls otherwise, with what it finds.
NAMED = {"n_parallel": "n_seq_max", "n_ctx_per_seq": "n_ctx_seq", "kv_type": "type_k"}


def stated(log: Path) -> dict[str, Any]:
    """What the JSON file beside a log says of it."""
    found: dict[str, Any] = json.loads(log.with_suffix(".json").read_text("utf-8"))
    return found


def figures(measured: dict[str, Any]) -> list[tuple[str, float, float]]:
    """(name, value, half of the last printed digit), in bytes where the name says a unit."""
    found = []
    for name, value in measured.items():
        unit = next((size for word, size in UNITS.items() if word in name.split("_")), 1)
        for one in value if isinstance(value, list) else [value]:
            digits = len(str(one).partition(".")[2]) if isinstance(one, float) else 0
            found.append((name, one * unit, unit / 10**digits / 2 if unit > 1 else 0))
    return found


def holds(log: Log, value: float, half: float) -> bool:
    """Whether a fact of the log is that figure, each as rounded."""
    return any(f.low - half <= value <= f.high + half for f in log.facts)


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_every_stated_figure_is_found(path: Path) -> None:
    log, said = read_log(str(path)), stated(path)

    assert len(said["measured"]) >= 4
    missing = [n for n, value, half in figures(said["measured"]) if not holds(log, value, half)]
    assert missing == []
    assert all(f.line >= 1 for f in log.facts)


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_every_stated_figure_stands_in_the_rows(path: Path) -> None:
    rows, said = check(str(path)).rows, stated(path)

    missing = [
        name
        for name, value, half in figures(said["measured"])
        if not any(abs(r.measured - value) <= 2 * half + 1e-4 * abs(value) for r in rows)
    ]
    assert missing == []


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_engine_version_model_and_settings_are_as_stated(path: Path) -> None:
    log, said = read_log(str(path)), stated(path)

    assert log.engine == said["engine"]
    if said["complete"]["version"]:
        assert log.version is not None
        assert said["version"].startswith(log.version)
    if said["complete"]["model"]:
        assert log.model is not None
    for name, value in said["settings"].items():
        if isinstance(value, str) and "->" in value:
            assert log.settings[name] is True, name
        else:
            assert log.settings[NAMED.get(name, name)] == value, name
    assert log.refusals == ()
    assert said["outcome"] == "started"


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_no_figure_is_off(path: Path) -> None:
    result = check(str(path))

    assert [row for row in result.rows if row.verdict == "off"] == []
    assert result.yes


def test_most_logs_are_compared() -> None:
    """All but SGLang's, which names no model; with its model its keys and values agree too."""
    compared = {p.stem for p in LOGS if any(r.predicted is not None for r in check(str(p)).rows)}

    assert {p.stem for p in LOGS} - compared == {"sglang-0.5-01"}
    rows = {r.item: r for r in check(str(DATA / "sglang-0.5-01.log"), "grok-1").rows}
    # 903,439 tokens and one spare, 64 layers · 1 KV head of 8 · 128 · 2 bytes: 13.785 GiB.
    assert rows["kv_key"].predicted == (903_439 + 1) * 64 * 128 * 2
    assert rows["kv_key"].verdict == rows["kv_value"].verdict == "ok"
