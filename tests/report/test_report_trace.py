"""`report --trace`: each plan's simulation is the one of `kvcalc simulate`."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.report import ReportResult
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.report import md, plain, svg
from tests.answers import ask
from tests.report.test_html import REPORTS, page_of, reported

TRACE = REPORTS["trace"]["trace"]


def simulated(**options: Any) -> list[dict[str, Any]]:
    """`data` of kvcalc simulate, one for each policy."""
    found = kvcalc.simulate("llama-3.1-8b", trace=TRACE, **options)
    rows = [r.result for r in found.rows] if isinstance(found, Rows) else [found]
    return [r.to_dict() for r in rows]


def test_every_plan_and_policy_is_the_command_lines() -> None:
    result = reported("trace")

    assert [s.machine for s in result.simulations] == ["1 × rtx4090", "1 × h100-sxm"]
    for s, gpu in zip(result.simulations, ("4090", "h100"), strict=True):
        made = simulated(gpu=gpu, engine="none", policy=["paged", "naive"])
        assert s.reason is None
        assert list(s.policies) == made
        assert [p["policy"] for p in s.policies] == ["paged", "naive"]


def test_the_json_and_the_command_have_the_trace() -> None:
    words = ["report", "llama-3.1-8b", "--gpu", "4090", "--trace", TRACE, "--limit", "20"]
    data = ask(*words, "--json").data

    assert len(data["simulations"]) == 1
    assert data["simulations"][0]["policies"][0]["requests"]["total"] == 20
    assert f"--trace {TRACE} --limit 20" in data["command"]
    again = ask(*data["command"].split()[1:-2], "--json").data
    assert (again["simulations"], again["plans"]) == (data["simulations"], data["plans"])


def test_a_report_without_a_trace_has_no_simulation() -> None:
    assert reported("plans").simulations == ()
    assert "A stream of requests" not in page_of("plans")


@pytest.mark.parametrize("render", [md.render, plain.render, svg.render])
def test_every_format_shows_it(render: Any) -> None:
    """22 GiB less 15 GiB of weights hold few requests of 131,072 tokens, but many of 960."""
    text = render(reported("trace"))

    assert "naive" in text
    assert any(words in text for words in ("A stream of requests", "Memory, over all steps"))


def test_the_page_has_one_answer_a_plan() -> None:
    page = page_of("trace")

    assert page.count("A stream of requests") == 1
    assert 'data-h="sim0.hidden">' in page
    assert 'data-h="sim1.hidden" hidden>' in page


def test_a_pool_of_known_size_is_simulated() -> None:
    """2 GiB hold 2 · 2³⁰ / (16 · 131,072 B) = 1,024 blocks."""
    for options in ({"kv_pool": "2GiB"}, {"kv_pool_tokens": 16384}):
        result = kvcalc.report("llama-3.1-8b", trace=TRACE, engine="none", context="1K", **options)
        assert result.simulations[0].policies[0]["pool"]["blocks"] == 1024


def test_a_plan_that_cannot_be_says_why() -> None:
    """16 GiB of weights leave a T4 nothing."""
    result: ReportResult = kvcalc.report("llama-3.1-8b", gpu=["4090", "t4"], trace=TRACE)
    second = result.simulations[1]

    assert second.policies == ()
    assert second.reason
    assert second.reason in plain.render(result)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu": "4090", "policy": ["naive"]}, "--policy needs --trace"),
        ({"gpu": "4090", "limit": 5}, "--limit needs --trace"),
        ({"trace": TRACE}, "--trace needs a machine"),
        ({"trace": TRACE, "gpu": "4090", "gpus": 2, "pp": 2}, "--trace with --pp 2"),
        ({"trace": "nothing.csv", "gpu": "4090"}, "nothing.csv"),
        ({"trace": TRACE, "gpu": "4090", "policy": ["lifo"]}, 'no policy "lifo"'),
    ],
)
def test_what_cannot_be_simulated_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        kvcalc.report("llama-3.1-8b", **options)
    assert words in caught.value.message


def test_a_reservation_bounds_the_request_shown_step_by_step() -> None:
    result = kvcalc.report("llama-3.1-8b", gpu="4090", max_context="8K", engine="none")

    assert result.steps[0].prompt_tokens + result.steps[0].output_tokens == 8192


def test_one_policy_is_a_result_and_several_are_rows() -> None:
    (one,) = kvcalc.report("llama-3.1-8b", gpu="4090", trace=TRACE).parts.simulated
    assert isinstance(one, SimulateResult)
    assert all(isinstance(found, Rows) for found in reported("trace").parts.simulated)
