"""The page of `kvcalc report`: every figure at every point is the command line's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kvcalc
from kvcalc import resolve
from kvcalc.api.report import report
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.fit import FitResult
from kvcalc.core.results.report import ReportResult
from kvcalc.core.results.rows import Rows, WhatIfRow
from kvcalc.report import data as scripts
from kvcalc.report import html, md, plain, svg
from kvcalc.report.html_figures import figures
from kvcalc.report.html_report import ITEMS
from kvcalc.report.html_view import State, View
from kvcalc.schemas import _result
from tests.report.test_html import HOSTILE, REPORTS, Page, page_of, reported


@pytest.mark.parametrize("name", [n for n in REPORTS if n != "bare"])
def test_every_figure_is_the_command_lines(name: str) -> None:
    """At every context, and at a handful of numbers of requests, with every plan."""
    result, options = reported(name), REPORTS[name]
    data = result.to_dict()
    several = ("gpu", "gpus", "kv_dtype")
    plans: list[dict[str, Any]] = [{}]
    for key in (k for k in options if k in several):
        values = options[key] if isinstance(options[key], list) else [options[key]]
        plans = [{**plan, key: value} for plan in plans for value in values]
    shown = {"context", "requests", "prompt", "output", "request", "at", "trace", "policy"}
    rest = {k: v for k, v in options.items() if k not in {*several, *shown}}
    asked = result.requests.index(result.requests_asked)
    assert len(plans) == len(result.plans)
    for p, plan in enumerate(plans):
        for i, tokens in enumerate(result.contexts):
            for j in sorted({0, 1, 4, asked, len(result.requests) // 2, len(result.requests) - 1}):
                v = View(data, State(p, i, j))
                found = kvcalc.fit(**rest, **plan, context=tokens, requests=v.n)
                assert isinstance(found, FitResult)
                assert v.pool is not None
                short = 0 if v.fits else v.need - v.pool["bytes"]
                assert (v.fits, short) == (found.fits, found.shortfall_bytes)
                assert v.pool["bytes"] == found.kv_pool_bytes
                assert v.side["bytes_per_request"] == found.bytes_per_request
                assert [line["bytes"] for line in v.budget] == [b.bytes for b in found.budget]
                step = v.step
                assert (
                    step["max_requests_low"], step["max_requests"], step["max_requests_high"],
                    step["max_context_tokens"],
                ) == (
                    found.max_requests_low, found.max_requests, found.max_requests_high,
                    found.max_context_tokens,
                )  # fmt: skip
                assert tuple(v.text["startup_lines"]) == found.startup_lines
                if j == asked:
                    held = {(s["argument"], s["max_requests"]) for s in step["suggestions"]}
                    assert held == {(s.argument, s.max_requests) for s in found.suggestions
                                    if s.change != "context"}  # fmt: skip


@pytest.mark.parametrize("name", ["plans", "engine", "replicas", "states"])
def test_full_at_is_the_longest_context_of_so_many_requests(name: str) -> None:
    result = reported(name)
    options = {k: v[0] if isinstance(v, list) else v for k, v in REPORTS[name].items()}
    data = result.to_dict()
    for j in (0, 3, 9):
        v = View(data, State(0, result.contexts.index(result.context_tokens), j))
        found = kvcalc.fit(**{**options, "requests": v.n}, solve="context")
        assert isinstance(found, FitResult)
        assert found.solved is not None
        assert found.solved.value == (v.full or result.model.max_context_tokens)


@pytest.mark.parametrize("name", ["plans", "states", "latents", "bare", "own"])
def test_techniques_and_policies_are_the_command_lines(name: str) -> None:
    result, model = reported(name), REPORTS[name]["model"]
    for i in (0, len(result.contexts) // 2, len(result.contexts) - 1):
        tokens = result.contexts[i]
        dtype = result.plans[0].kv_dtype
        found = next(s for s in result.savings
                     if (s.kv_dtype, s.context_tokens) == (dtype, tokens))  # fmt: skip
        for n in (1, 2, 7, 300):
            made = kvcalc.compare(model, context=tokens, requests=n, kv_dtype=dtype)
            assert [(t.label, t.fixed_bytes + n * t.each_bytes,
                     t.before_fixed_bytes + n * t.before_each_bytes) for t in found.techniques] == [
                (t.label, t.bytes, t.before_bytes) for t in made.techniques
            ]  # fmt: skip
        held = [a for a in result.allocations
                if (a.kv_dtype, a.context_tokens) == (dtype, tokens)]  # fmt: skip
        for a in held:
            wasted = kvcalc.waste(model, request=list(a.lengths), max_context=tokens,
                                  kv_dtype=dtype)  # fmt: skip
            assert a.policies == wasted.policies


def test_own_lengths_are_left_out_where_they_are_too_long() -> None:
    """2,000 + 50 and 9,000 + 100 tokens fit from 16,384 on."""
    result = reported("own")
    held = {a.context_tokens: a.lengths for a in result.allocations}

    assert set(held) == {c for c in result.contexts if c >= 9100}
    assert set(held.values()) == {(2050, 9100)}
    assert [m.step for m in result.steps[0].milestones][:3] == [0, 1, 101]


def test_the_first_state_stands_in_the_html() -> None:
    """Print and a browser without scripts show the plan as asked."""
    text = Page(page_of("plans")).text

    for words in (
        "✓ yes: 20 requests of 4,096 tokens fit; room for ≈11 more",
        "Llama-3.1-70B int4, 1 × a100-80-sxm, textbook, KV cache in bf16.",
        "320 KiB327,680 B", "1.25 GiB1,342,177,280 B", "≈39.96 GiB37.02–40.15",
        "memory a program sees79.1579.14–79.35measured",
        "2 × 80 × 8 × 128 × 2 = 327,680 B",
        "✗ out of memory2,453≈6,548",
        "Without JavaScript the page shows the plan as asked.",
        "kvcalc report llama-3.1-70b --gpu a100-80 --gpus 1,2,4",
    ):  # fmt: skip
        assert words in text


@pytest.mark.parametrize("name", REPORTS)
def test_the_page_says_what_it_holds(name: str) -> None:
    result = reported(name)
    words = f"{len(result.contexts)} contexts ({result.contexts[0]:,} to"

    assert words in Page(page_of(name)).text
    assert result.context_tokens in result.contexts
    assert result.requests_asked in result.requests
    assert {*range(1, 17)} <= set(result.requests)
    assert (result.model.max_context_tokens or 0) in {0, *result.contexts}


@pytest.mark.parametrize("name", REPORTS)
def test_every_figure_of_the_template_exists_in_every_state(name: str) -> None:
    result = reported(name)
    data = result.to_dict()
    states = [
        State(p, i, j)
        for p in range(len(result.plans))
        for i in range(len(result.contexts))
        for j in (0, len(result.requests) - 1)
    ]
    keys = {frozenset(figures(data, s, ITEMS)) for s in states}
    page = Page(page_of(name))
    used = {attrs["data-f"] for _, attrs in page.tags if "data-f" in attrs}
    used |= {attrs["data-h"] for _, attrs in page.tags if "data-h" in attrs}
    used |= {
        pair.split(":")[1]
        for _, attrs in page.tags
        for pair in attrs.get("data-a", "").split(";")
        if pair
    }

    assert len(keys) == 1
    assert used <= keys.pop()


def test_hostile_names_are_text() -> None:
    model = replace(resolve.model_of("llama-3.1-8b"), name=HOSTILE, id=HOSTILE)
    for result in (report(model, gpu="4090", engine="none"), kvcalc.size(model)):
        text = html.render(result)
        page = Page(text)

        assert page.open == []
        assert not [tag for tag, _ in page.tags if tag == "img"]
        assert not {"\x1b", "\u202e", "\u2066"} & set(text)
        assert "<img src=x onerror=alert(1)> \"' ]]> --> </script></title>" in page.text


def test_too_many_plans_are_refused() -> None:
    with pytest.raises(KvcalcError, match="28 plans"):
        report("llama-3.1-8b", gpu="4090", gpus=list(range(1, 8)),
               kv_dtype=["bf16", "fp8", "q8_0", "q4_0"])  # fmt: skip


def test_a_plan_that_cannot_be_is_left_out_and_said() -> None:
    result = report("llama-3.1-8b", gpu="4090", gpus=[1, 3], engine="none")

    assert [p.machine for p in result.plans] == ["1 × rtx4090"]
    assert "--tp 3" in result.left_out[0].reason
    assert "Left out" in Page(html.render(result)).text


@pytest.mark.parametrize(("options", "code"), [
    ({"model": "llama-3.1-8b", "gpu": "4090", "gpus": 3}, "not_divisible"),
    ({"model": "llama-3.1-8b", "gpu": "4090", "prompt": 5}, "usage"),
    ({"model": "llama-3.1-8b", "gpu": "4090", "request": "x"}, "usage"),
    ({"model": "llama-3.1-8b", "gpu": "4090", "context": "1M"}, "context_too_long"),
    ({"model": "no-such-model"}, "unknown_model"),
    ({}, "usage"),
])  # fmt: skip
def test_what_cannot_be_answered_is_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        report(**options)

    assert caught.value.code == code


@pytest.mark.parametrize("name", REPORTS)
def test_the_other_formats_show_the_same_report(name: str) -> None:
    result = reported(name)
    words = plain.render(result)
    rows = scripts.jsonl(result).splitlines()

    assert words.startswith("✗" if not result.yes else ("✓" if result.parts.fit else "Qwen"))
    assert "What one token costs" in words
    assert "What one token costs" in md.render(result)
    assert result.line in words
    assert len(rows) == len(result.plans) * len(result.contexts)
    assert "\x1b" not in words


def test_a_report_has_a_picture_too() -> None:
    text = svg.render(reported("plans"))

    assert text.count('class="budget"') == 1
    assert text.count('class="area"') == 1
    assert "20 requests of 4,096 tokens fit" in text


def test_several_values_of_another_option_are_a_table() -> None:
    rows = tuple(
        WhatIfRow(
            {"weights": name}, report("llama-3.1-8b", gpu="4090", weights=name, engine="none")
        )
        for name in ("bf16", "int4")
    )
    text = html.render(Rows(name="report", rows=rows))

    assert "2 combinations" in Page(text).text


def test_the_result_has_a_schema() -> None:
    made = _result(ReportResult)

    assert set(made["properties"]) == set(reported("plans").to_dict())
