"""One headless browser for all browser tests, and the report they look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvcalc.api.report import report
from kvcalc.core.results.report import ReportResult
from kvcalc.report import html
from tests.browser.driver import Browser, programs

#: What the tests open: two machines, two storages, an engine that keeps memory for itself.
OPTIONS: dict[str, Any] = {
    "model": "llama-3.1-70b", "gpu": "a100-80", "gpus": [1, 2], "weights": "awq",
    "kv_dtype": ["bf16", "int8_per_token_head"], "requests": 20, "engine": "vllm",
}  # fmt: skip
#: What their report also shows: a trace under each plan.
TRACE: dict[str, Any] = {
    "trace": "poisson:rate=20,requests=50,prompt=900,output=60", "policy": ["paged", "naive"],
}  # fmt: skip


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser; tests are skipped where it or its driver is missing."""
    if programs() is None:
        pytest.skip("no chromium with chromedriver")
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="session")
def plan() -> ReportResult:
    """The report of `OPTIONS` with `TRACE`."""
    return report(**OPTIONS, **TRACE)


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory, plan: ReportResult) -> Path:
    """Its page."""
    path = tmp_path_factory.mktemp("pages") / "plan.html"
    path.write_text(html.render(plan), encoding="utf-8")
    return path
