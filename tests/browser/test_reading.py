"""Reading the page of `report`: by keyboard, on a phone, in print, without scripts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import kvcalc
from kvcalc import resolve
from kvcalc.api.report import report
from kvcalc.core.results.report import ReportResult
from kvcalc.core.units import GIB, fixed
from kvcalc.report import html
from tests.browser.driver import END, ENTER, HOME, RIGHT, SPACE, TAB, Browser
from tests.browser.test_report import SHOWN, expected, first, same

pytestmark = pytest.mark.browser
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"> '\" ]]> --> </script> \u202eright\u2066 &amp;"
)


def test_the_keyboard_reaches_everything(browser: Browser, page: Path) -> None:
    """Tab walks through every button, slider, choice, disclosure and the plot, in order."""
    browser.open(page)
    wanted = browser.run("""
      return [...document.querySelectorAll('a[href], button, input, summary, [tabindex="0"]')]
        .filter(el => el.tagName === 'SUMMARY' || !el.closest('details:not([open])'))
        .filter(el => el.getClientRects().length || el.type === 'radio')
        .filter(el => el.type !== 'radio' || el.checked)
        .map((el, i) => { el.dataset.stop = i; return el.dataset.stop; });
    """)
    reached = []
    for _ in range(len(wanted) + 8):
        browser.press(TAB)
        stop = browser.run("return document.activeElement.dataset.stop ?? null")
        reached += [stop] if stop is not None else []

    assert len(wanted) > 50
    assert [stop for stop in reached if stop in set(wanted)][: len(wanted)] == wanted


def test_focus_is_seen(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press(TAB, TAB)

    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_curve_reads_out_its_listed_points(
    browser: Browser, page: Path, plan: ReportResult
) -> None:
    """Arrow keys walk from the asked context; the words are the engine's bytes there."""
    browser.open(page)
    assert browser.run("return document.getElementById('tip').hidden") is True
    browser.run("document.querySelector('.plot').focus()")
    browser.press(HOME, RIGHT)
    tokens = plan.growth_tokens[1]
    # 20 requests in whole blocks of 16 tokens of 320 KiB, and the pool's null block.
    blocks = 20 * -(-tokens // 16) + 1
    tip = browser.text("#tip")

    assert tip.startswith(f"{tokens:,} tokens in each")
    assert f"20 requests: {fixed(blocks * 16 * 327_680, GIB)} GiB of KV cache" in tip
    browser.press(END)
    assert "too much" in browser.text("#tip")


def test_pointing_at_the_curve_reads_it_out(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("""
      const plot = document.querySelector('.plot'), box = plot.getBoundingClientRect();
      plot.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + box.width / 2}));
    """)

    assert browser.text("#tip").startswith("4,096 tokens in each")
    browser.run("document.querySelector('.plot').dispatchEvent(new PointerEvent('pointerleave'))")
    assert browser.run("return document.getElementById('tip').hidden") is True


def test_the_legend_switches_series(browser: Browser, page: Path, plan: ReportResult) -> None:
    browser.open(page)
    browser.run("document.querySelector('[data-series=weights]').focus()")
    browser.press(SPACE)
    state = first(plan)._replace(weights=False)

    same(browser.run(SHOWN), expected(plan, state))
    assert browser.run("return document.querySelector('[data-series=weights]').ariaPressed") == (
        "false"
    )
    browser.run("document.querySelector('[data-series=cache]').focus()")
    browser.press(ENTER)
    same(browser.run(SHOWN), expected(plan, state._replace(cache=False)))


def test_tables_sort(browser: Browser, page: Path) -> None:
    browser.open(page)
    column = ("return [...document.querySelectorAll('#changes tbody tr:not([hidden])')]"
              ".map(r => parseInt(r.cells[1].innerText.replace(',', '')))")  # fmt: skip
    browser.click("#changes th:nth-child(2) button")
    falling = browser.run(column)
    browser.click("#changes th:nth-child(2) button")

    assert falling == sorted(falling, reverse=True)
    assert browser.run(column) == sorted(falling)
    assert browser.run("return document.querySelector('#changes th[aria-sort]').ariaSort") == (
        "ascending"
    )


def test_tables_copy_as_markdown(browser: Browser, page: Path) -> None:
    browser.open(page)
    made = browser.run("return kvcalcPage.markdown(document.getElementById('budget'))")
    lines = made.splitlines()

    assert lines[0] == "| GiB per GPU | best | low–high | basis |  |"
    assert lines[1] == "| --- | ---: | ---: | --- | --- |"
    assert lines[2].startswith("| memory a program sees | 79.15 | 78.91–79.39 | measured |")
    assert lines[-1].startswith("| KV pool | ≈")


def test_copying_says_so(browser: Browser, page: Path) -> None:
    browser.open(page)
    for name, words in (("ask", "copied"), ("ladder", "copied as Markdown")):
        browser.click(f"[data-copies={name}]")
        browser.run("return new Promise(done => setTimeout(done, 200))")
        assert browser.text("#said") == words


def test_the_theme_can_be_chosen(browser: Browser, page: Path) -> None:
    browser.open(page)
    ground = "return getComputedStyle(document.body).backgroundColor"
    auto = browser.run(ground)
    browser.click("#theme")
    browser.click("#theme")

    assert (auto, browser.run(ground)) == ("rgb(255, 255, 255)", "rgb(16, 21, 27)")
    browser.open(page, dark=True)
    assert browser.run(ground) == "rgb(16, 21, 27)"


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_width_scrolls_sideways(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width)

    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.querySelector('h1').getBoundingClientRect().right") <= width


def test_print_shows_the_plan_without_its_controls(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.cdp("Emulation.setEmulatedMedia", media="print")
    hidden = browser.run("return ['.ctl', '[data-copies]', '[data-pick]'].map(s => "
                         "getComputedStyle(document.querySelector(s)).display)")  # fmt: skip
    browser.cdp("Emulation.setEmulatedMedia", media="")

    assert hidden == ["none", "none", "block"]


def test_without_scripts_the_plan_as_asked_is_there(
    browser: Browser, page: Path, plan: ReportResult
) -> None:
    browser.cdp("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        browser.cdp("Emulation.setScriptExecutionDisabled", value=False)
        same(browser.run(SHOWN), expected(plan, first(plan)))
        assert "Without JavaScript" in browser.run("return document.body.innerText")
    finally:
        browser.cdp("Emulation.setScriptExecutionDisabled", value=False)


def test_hostile_names_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    model = replace(resolve.model_of("llama-3.1-8b"), name=HOSTILE, id=HOSTILE)
    for name, result in (
        ("report", report(model, gpu="4090", engine="none")), ("size", kvcalc.size(model)),
    ):  # fmt: skip
        path = tmp_path / f"{name}.html"
        path.write_text(html.render(result), encoding="utf-8")
        browser.open(path)
        seen = browser.run("return document.body.innerText")

        assert browser.logs("browser") == []
        assert browser.requests() == [path.resolve().as_uri()]
        assert browser.run("return document.images.length") == 0
        assert browser.run("return document.title") != "owned"
        assert "<img src=x onerror=\"document.title='owned'\"> '\" ]]> --> </script>" in seen
        assert "\\u202eright\\u2066 &amp;" in seen
        assert not {"\u202e", "\u2066"} & set(seen)
