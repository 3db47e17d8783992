"""Counts of every oracle set: equal, different, refused; printed at the end of the run.

A set is a JSON-lines file of ../shared/oracles, or its sample in tests/data (a fresh clone has
only that); `read` skips where the file is absent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.core.errors import KvcalcError

ROOT = Path(__file__).parents[2]
SHARED, DATA = ROOT.parent / "shared", ROOT / "tests" / "data"
Record = dict[str, Any]
_SUMMARY: dict[str, Counter[str]] = {}


class Tally:
    """What one set came to: `check` counts, `assert_equal` fails on any difference."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.found: list[str] = []
        _SUMMARY[name] = self.counts

    def check(self, label: str, compute: Callable[[], object], want: object) -> None:
        """Count one record as equal, different or refused."""
        try:
            got = compute()
        except KvcalcError as error:
            self.counts["refused"] += 1
            self.found.append(f"{label}: refused: {error.message}")
            return
        self.counts["equal" if got == want else "different"] += 1
        if got != want:
            self.found.append(f"{label}: {got!r}, recorded {want!r}")

    def assert_equal(self, *, refused: int = 0) -> None:
        """Nothing is different, at most `refused` records are refused, and there were some."""
        problems = "\n".join(self.found[:20])
        assert self.counts["equal"], f"{self.name}: no record was compared"
        assert not self.counts["different"], f"{self.name}: {dict(self.counts)}\n{problems}"
        assert self.counts["refused"] <= refused, f"{self.name}: {dict(self.counts)}\n{problems}"


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """A tally named after the test."""
    return Tally(request.node.name)


@pytest.fixture
def read() -> Callable[[str], list[Record]]:
    """Reads the records of a set: "shared/NAME" from ../shared, else from tests/data."""

    def records(name: str) -> list[Record]:
        folder, _, rest = name.rpartition("/")
        path = (SHARED / "oracles" if folder == "shared" else DATA) / f"{rest}.jsonl"
        if not path.is_file():
            pytest.skip(f"no {rest}.jsonl beside this checkout")
        lines = path.read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines if line.strip()]
        return [record for record in found if "source" not in record or "model_type" in record]

    return records


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line a set."""
    for name, counts in sorted(_SUMMARY.items()):
        words = ", ".join(f"{counts[word]} {word}" for word in ("equal", "different", "refused"))
        terminalreporter.write_line(f"{name}: {words}")
