"""What public start-up logs of vLLM print, against the whole chain and against the pool alone.

The arithmetic stands in tests/benchmarks/accuracy_vllm.py, which prints the tables in full.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvcalc.engines.coefficients import coefficients
from tests.benchmarks.accuracy_vllm import (
    Error,
    Record,
    chain,
    given,
    gpu_class,
    measured,
    predict,
    records,
    summary,
)

SHARED = Path(__file__).parents[2].parent / "shared" / "logs"


@pytest.fixture(scope="module")
def blind() -> list[Error]:
    """Every complete case, left out of what it would judge."""
    return chain(blind=True)


def of(errors: list[Error], platform: str) -> list[Error]:
    return [e for e in errors if gpu_class(e.record).startswith(platform)]


def test_pool_on_cuda(blind: list[Error]) -> None:
    """RTX 3090, 4090, 5090, 5000 Ada, A100-40, A100-80 and 8 × H200; 0.6.4 to 0.28.0."""
    n, median, p90, worst, _, _ = summary(of(blind, "CUDA"))
    assert n == 16
    assert median <= 0.005
    assert p90 <= 0.015
    assert worst <= 0.03


def test_pool_on_rocm(blind: list[Error]) -> None:
    """Fourteen starts on an R9700; one of them held 3 GiB more than its twin, unexplained."""
    n, median, p90, _, _, _ = summary(of(blind, "ROCm"))
    assert n == 14
    assert median <= 0.005
    assert p90 <= 0.04
    far = [e.record["id"] for e in of(blind, "ROCm") if abs(e.fraction) > 0.04]
    assert far == ["vllm-017"]


def test_intervals_hold_the_logged_pool(blind: list[Error]) -> None:
    _, _, _, _, covered, width = summary(blind)
    assert covered >= 0.9
    assert width <= 0.07


def test_leaving_out_moves_little() -> None:
    """No case rests on itself: with all coefficients the errors are much the same."""
    seen = summary(of(chain(blind=False), "CUDA"))
    assert seen[1] <= 0.005
    assert seen[2] <= 0.015


def test_weights_as_loaded() -> None:
    """Plain formats on CUDA: within 0.25 %, but for the rule's own spread of 4-bit experts."""
    known = coefficients("vllm")
    for record in records("log"):
        logged = record["measured"].get("weights_gib")
        cuda = not str(record["gpu"]).startswith(("radeon", "mi"))
        if record["complete"] and logged and cuda:
            assert predict(record, known).weights / 2**30 == pytest.approx(logged, rel=0.0025)


GIVEN = [r for r in (*records("log"), *records("measured")) if r["model"]]


@pytest.mark.parametrize("record", GIVEN, ids=lambda r: str(r["id"]))
def test_figures_of_a_logged_pool(record: Record) -> None:
    """Tokens, blocks and refusal lengths lie between those of the pool ± half its last digit."""
    found = given(record)
    if found is None:
        pytest.skip("the log states no figure that follows from the pool")
    assert found.agrees or record.get("differs"), found


def test_few_cases_differ() -> None:
    """At most 5 % differ from the rules, each with its reason."""
    asked = [r for r in GIVEN if given(r) is not None]
    differ = [r for r in asked if r.get("differs")]
    assert len(asked) >= 60
    assert len(differ) <= 0.05 * len(asked)


def test_what_others_measured() -> None:
    """ridgepoint on A100-80: pool and overhead to 0.6 GiB, bytes per token equal.

    It names 0.28.0; its figures are nearer to a release that charged no unused segments.
    """
    for record in records("measured"):
        for name, value in measured(record).items():
            near = 0.0 if name == "bytes_per_token" else 0.6
            assert value == pytest.approx(record["measured"][name], abs=near), record["id"]


def test_every_shared_case_is_carried() -> None:
    path = SHARED / "cases.jsonl"
    if not path.is_file():
        pytest.skip("no shared cases beside this checkout")
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    carried = {r["id"]: r["measured"] for r in records("log")}
    for case in cases:
        if case["engine"].startswith("vllm"):
            pool = case["measured"].get("available_kv_gib")
            assert carried[case["id"]].get("available_kv_gib") == pool
