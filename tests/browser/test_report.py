"""The page of `report` in a real browser: nothing loaded, exact figures, keyboard enough."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvcalc
from kvcalc.api.report import report
from kvcalc.core.results.fit import FitResult
from kvcalc.core.results.report import ReportResult
from kvcalc.core.results.rows import Rows
from kvcalc.core.units import GIB, fixed, format_bytes
from kvcalc.report import html
from kvcalc.report.document import Verdict
from kvcalc.report.html_figures import figures
from kvcalc.report.html_report import ITEMS
from kvcalc.report.html_view import State
from kvcalc.report.views import view
from tests.browser.conftest import OPTIONS, TRACE
from tests.browser.driver import DOWN, END, HOME, RIGHT, Browser

pytestmark = pytest.mark.browser
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"> '\" ]]> --> </script> \u202eright\u2066 &amp;"
)
#: Reads all bound texts, attributes and switches of the page.
SHOWN = """
const f = {}, all = selector => document.querySelectorAll(selector);
for (const el of all('[data-f]')) f[el.dataset.f] = el.textContent;
for (const el of all('[data-a]'))
  for (const [name, key] of el.dataset.a.split(';').map(pair => pair.split(':')))
    f[key] = el.getAttribute(name);
for (const el of all('[data-h]')) f[el.dataset.h] = el.hasAttribute('hidden') ? 'hidden' : '';
return f;
"""
#: The figures that the page's own script gives for states.
COMPUTED = """
const held = JSON.parse(document.getElementById('data').textContent);
return arguments[0].map(([plan, context, requests, weights, cache]) =>
  kvcalcFigures.figures(held.data, {plan, context, requests, weights, cache}, held.page.items));
"""


def first(plan: ReportResult) -> State:
    return State(0, plan.contexts.index(4096), plan.requests.index(20))


def expected(plan: ReportResult, state: State) -> dict[str, str]:
    return figures(json.loads(json.dumps(plan.to_dict())), state, ITEMS)


def asked(plan: ReportResult, state: State) -> FitResult:
    """What the command line says of a state of the page."""
    at = plan.plans[state.plan]
    options = {**OPTIONS, "gpus": at.gpu.count if at.gpu else 1, "kv_dtype": at.kv_dtype}
    options |= {"context": plan.contexts[state.context], "requests": plan.requests[state.requests]}
    found = kvcalc.fit(**options)
    assert isinstance(found, FitResult)
    return found


def same(shown: dict[str, str], wanted: dict[str, str]) -> None:
    """Every place of the page shows its figure."""
    assert {k: v for k, v in shown.items() if v != wanted[k]} == {}


def test_nothing_is_asked_of_a_network_and_nothing_is_complained(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    browser.run("document.getElementById('req').value = 5; document.getElementById('req').oninput"
                "({target: document.getElementById('req')})")  # fmt: skip

    assert browser.logs("browser") == []
    assert browser.requests() == [page.resolve().as_uri()]


def test_the_policy_is_in_force(browser: Browser, page: Path) -> None:
    """A script and a style that the page does not name by hash are refused."""
    browser.open(page)
    ran = browser.run("""
      const s = document.createElement('script');
      s.textContent = 'window.owned = 1';
      document.body.append(s);
      const p = document.createElement('p');
      p.setAttribute('style', 'position: fixed');
      document.body.append(p);
      return [window.owned ?? null, getComputedStyle(p).position];
    """)

    assert ran == [None, "static"]
    assert len(browser.logs("browser")) == 2


def test_the_first_state_is_the_written_one(
    browser: Browser, page: Path, plan: ReportResult
) -> None:
    browser.open(page)

    same(browser.run(SHOWN), expected(plan, first(plan)))


def test_the_page_computes_what_python_computes(
    browser: Browser, page: Path, plan: ReportResult
) -> None:
    """Name for name, in every plan and context, with and without weights."""
    browser.open(page)
    states = [
        State(p, i, j, weights=weights)
        for p in range(len(plan.plans))
        for i in range(len(plan.contexts))
        for j in range(0, len(plan.requests), 6)
        for weights in (True, False)
    ]
    computed = browser.run(COMPUTED, [list(s) for s in states])

    for state, found in zip(states, computed, strict=True):
        assert found == expected(plan, state)


@pytest.mark.parametrize("options", [
    {"model": "gemma-3-27b", "gpu": "h100", "engine": "vllm", "context": "32K"},
    {"model": "llama-3.1-8b", "gpu": "4090", "requests": 4, "engine": "llama.cpp"},
    {"model": "llama-3.1-8b", "gpu": "8x4090", "dp": 4, "tp": 2, "shared_prefix": 1000,
     "engine": "none"},
    {"model": "qwen3-next-80b", "gpu": "4xh100", "engine": "none"},
    {"model": "llama-3.1-405b", "gpu": "h100", "engine": "none"},
    {"model": "qwen2.5-7b", "kv_pool": "16GiB", "context": 5999, "engine": "none"},
    {"model": "mamba-2.8b", "gpu": "4090", "engine": "none"},
    {"model": "deepseek-v3"},
], ids=lambda o: o["model"])  # fmt: skip
def test_other_reports_agree_too(browser: Browser, tmp_path: Path, options: dict[str, Any]) -> None:
    made = report(**options)
    path = tmp_path / "plan.html"
    path.write_text(html.render(made), encoding="utf-8")
    browser.open(path)
    states = [State(p, i, j) for p in range(len(made.plans)) for i in range(len(made.contexts))
              for j in {0, 5, len(made.requests) - 1}]  # fmt: skip

    assert browser.logs("browser") == []
    for state, found in zip(states, browser.run(COMPUTED, [list(s) for s in states]), strict=True):
        assert found == expected(made, state)


def test_sliders_move_every_figure_to_the_command_lines(
    browser: Browser, page: Path, plan: ReportResult
) -> None:
    browser.open(page)
    browser.click("#ctx")
    browser.press(HOME, RIGHT, RIGHT, RIGHT)  # the fourth context
    browser.click("#req")
    browser.press(HOME, *[RIGHT] * 6)  # the seventh number of requests
    state = State(0, 3, 6)
    found = asked(plan, state)
    shown = browser.run(SHOWN)

    assert (plan.contexts[3], plan.requests[6]) == (8192, 7)
    same(shown, expected(plan, state))
    assert shown["verdict"] == (
        f"7 requests of 8,192 tokens fit; room for ≈{found.max_requests - 7} more"
    )
    assert shown["one"] == format_bytes(found.bytes_per_request)
    assert shown["pool"] == f"≈{fixed(found.kv_pool_bytes, GIB)} GiB"
    assert shown["most"] == f"≈{found.max_requests}"
    assert shown["b0.best"] == fixed(found.budget[0].bytes, GIB)
    assert "Available KV cache memory" in shown["start"]
    assert shown["start"].endswith(found.startup_lines[-1])
    assert shown["ask"].endswith("-c 8192 -n 7")
    assert browser.run("return document.getElementById('ctx').getAttribute('aria-valuetext')") == (
        "8,192 tokens"
    )


def test_what_does_not_fit_says_by_how_much(
    browser: Browser, page: Path, plan: ReportResult
) -> None:
    browser.open(page)
    browser.click("#ctx")
    browser.press(END)
    state = State(0, len(plan.contexts) - 1, plan.requests.index(20))
    missing = -(-asked(plan, state).shortfall_bytes * 100 // GIB)

    assert browser.text("[data-f=verdict]") == (
        f"≈{fixed(missing, 100)} GiB short for 20 requests of 131,072 tokens"
    )
    assert browser.run("return document.getElementById('verdict').dataset.k") == "no"


def test_a_cell_of_the_ladder_becomes_the_plan(
    browser: Browser, page: Path, plan: ReportResult
) -> None:
    browser.open(page)
    browser.click('[data-pick="3,4"]')
    found = asked(plan, State(3, 4, 0))

    assert browser.text("[data-f=ctx]") == "16,384 tokens"
    assert browser.text("[data-f=req]") == f"{found.max_requests:,}"
    assert browser.run("return document.querySelector('[name=gpu]:checked').value") == (
        "2 × a100-80-sxm"
    )
    assert browser.run("return document.querySelector('[aria-pressed=true][data-pick]')"
                       ".dataset.pick") == "3,4"  # fmt: skip


def test_radio_buttons_choose_machine_and_storage(
    browser: Browser, page: Path, plan: ReportResult
) -> None:
    browser.open(page)
    browser.run("document.querySelector('[name=gpu]').focus()")
    browser.press(DOWN)
    browser.run("document.querySelector('[name=kv]').focus()")
    browser.press(DOWN)

    same(browser.run(SHOWN), expected(plan, first(plan)._replace(plan=3)))


def test_the_trace_is_the_chosen_plans(browser: Browser, page: Path, plan: ReportResult) -> None:
    """What two GPUs make of it says the command line too."""
    shown = """return [...document.querySelectorAll('section')]
      .find(s => s.textContent.includes('A stream of requests')).innerText"""
    browser.open(page)
    one = browser.run(shown)
    browser.run("document.querySelector('[name=gpu]').focus()")
    browser.press(DOWN)
    two = browser.run(shown)
    words = {k: v for k, v in OPTIONS.items() if k not in {"gpus", "kv_dtype", "requests"}}
    found = kvcalc.simulate(**words, gpus=2, kv_dtype="bf16", **TRACE)
    assert isinstance(found, Rows)
    sentence = text_of(found)

    assert sentence in two
    assert one != two
    assert [s.policies[0]["gpus"] for s in plan.simulations] == [1, 1, 2, 2]


def text_of(found: Rows) -> str:
    """The sentence of a simulation."""
    first_block = view(found).blocks[0]
    assert isinstance(first_block, Verdict)
    return first_block.answer
