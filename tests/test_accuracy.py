"""The README's accuracy tables are the stored cases', and those are what kvcalc answers now.

After a change of rules or coefficients: `python tests/benchmarks/accuracy.py --write`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.benchmarks import accuracy


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The stored cases."""
    return accuracy.stored()


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return one == pytest.approx(other, rel=1e-6)
    return one == other


def test_the_readme_shows_the_stored_cases(rows: list[dict[str, Any]]) -> None:
    assert accuracy.in_readme() == accuracy.block(rows)


def test_the_stored_cases_are_what_kvcalc_answers(rows: list[dict[str, Any]]) -> None:
    now = json.loads(json.dumps(accuracy.rows()))

    def differing() -> Iterator[tuple[object, object]]:
        for old, new in zip(rows, now, strict=True):
            if old.keys() != new.keys() or not all(_same(old[k], new[k]) for k in old):
                yield old, new

    assert list(differing()) == []


def test_every_case_names_its_source(rows: list[dict[str, Any]]) -> None:
    assert all(r["source"] for r in rows if r["table"] in {"chain", "measured"})
    assert {r["table"] for r in rows} == {"chain", "given", "measured"}


def test_the_whole_chain_meets_its_aims(rows: list[dict[str, Any]]) -> None:
    """CUDA: median 0.5 %, p90 1.5 %; ROCm: p90 4 %; 90 % inside, median width 7 % of the pool."""
    judged = [r for r in rows if r["table"] == "chain" and r["engine"] == "vllm"]
    for group in ("left out", "unseen"):
        part = [r for r in judged if r["set"] == group]
        cuda = accuracy.summary([r for r in part if r["gpu"].startswith("CUDA")])
        assert cuda.median <= 0.005
        assert cuda.p90 <= 0.015
        whole = accuracy.summary(part)
        assert whole.covered >= 0.9
        assert whole.width <= 0.07
    rocm = [r for r in judged if r["set"] == "left out" and r["gpu"].startswith("ROCm")]
    assert accuracy.summary(rocm).p90 <= 0.04


def test_figures_of_a_given_pool_differ_in_few_cases(rows: list[dict[str, Any]]) -> None:
    """At most 5 % of those stated, each with its reason."""
    given = [r for r in rows if r["table"] == "given" and r["engine"] == "vllm"]
    stated = [r for r in given if r["verdict"] != "not stated"]
    differs = [r for r in stated if r["verdict"] == "differs"]
    assert len(differs) <= 0.05 * len(stated)
    assert all(r["reason"] for r in differs)
