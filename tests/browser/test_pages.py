"""Pages of the other commands in a real browser: quiet, narrow enough, sortable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.answers import ask
from tests.browser.driver import Browser
from tests.report.test_html import PAGES

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pages are written."""
    return tmp_path_factory.mktemp("pages")


def written(folder: Path, name: str) -> Path:
    path = folder / f"{name}.html"
    if not path.exists():
        ask(*PAGES[name].split(), "-o", str(path))
    return path


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_quiet_and_load_nothing(browser: Browser, folder: Path, name: str) -> None:
    page = written(folder, name)
    browser.open(page)

    assert browser.logs("browser") == []
    assert browser.requests() == [page.resolve().as_uri()]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_do_not_scroll_sideways(
    browser: Browser, folder: Path, name: str, width: int
) -> None:
    browser.open(written(folder, name), width=width)

    assert browser.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_shows_the_chart_it_has_room_for(browser: Browser, folder: Path, width: int) -> None:
    browser.open(written(folder, "timeline"), width=width)
    shown = browser.run("""
      return [...document.querySelectorAll('svg.picture')]
        .filter(s => s.getClientRects().length).map(s => s.viewBox.baseVal.width);
    """)

    assert shown == [342 if width == 390 else 712]


def test_a_table_sorts_by_its_numbers(browser: Browser, folder: Path) -> None:
    browser.open(written(folder, "gpus"))
    column = ("return [...document.querySelectorAll('#b1 tbody tr')]"
              ".map(r => parseFloat(r.cells[1].innerText.replace(',', '')))")  # fmt: skip
    browser.click("#b1 th:nth-child(2) button")
    falling = browser.run(column)

    assert len(falling) > 40
    assert falling == sorted(falling, reverse=True)
