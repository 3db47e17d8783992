"""-f html and the page of `report`: self-contained, well-formed, its figures those of `fit`."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import lru_cache
from html.parser import HTMLParser
from typing import Any

import pytest

from kvcalc.api.report import report
from kvcalc.core.results.report import ReportResult
from kvcalc.report import html
from tests.answers import ask

HOSTILE = (
    "<img src=x onerror=alert(1)> \"' ]]> --> </script></title> \u202eright\u2066 \x1b[31m &amp;"
)
PAGES = {
    "size": "size gemma-3-27b -c 8K,32K", "size-models": "size llama-3.1-8b,gpt-2",
    "fit": "fit llama-3.1-70b --gpu h100 --weights int4 --engine none",
    "fit-no": "fit llama-3.1-70b --gpu 4090 --engine none",
    "fit-list": "fit qwen3-32b --engine none",
    "timeline": "timeline llama-3.1-8b --prompt 4K --output 124K --gpu 4090",
    "waste": "waste llama-3.1-70b --request 500,3800,200 --max-context 4096 --pool 45GiB",
    "waste-slots": "waste --slots 36 --waste-fraction 0.62",
    "compare": "compare llama-3.1-70b -n 26", "speed": "speed llama-3.1-70b --gpu h100",
    "offload": "offload llama-3.1-8b -c 8K,32K -n 20 --pool 100GiB --bandwidth 25GB/s",
    "tradeoff": "tradeoff llama-3.1-8b --tokens 1000", "models": "models --family mixtral",
    "models-show": "models show gemma-3-27b", "gpus": "gpus", "dtypes": "dtypes",
}  # fmt: skip
#: Name → options of `report`.
REPORTS: dict[str, dict[str, Any]] = {
    "plans": {"model": "llama-3.1-70b", "gpu": "a100-80", "gpus": [1, 2, 4], "weights": "int4",
              "kv_dtype": ["bf16", "int8_per_token_head"], "requests": 20, "utilization": "0.92",
              "engine": "none"},
    "no": {"model": "llama-3.1-70b", "gpu": "h100", "weights": "int4", "context": "128K",
           "requests": 2, "engine": "none"},
    "engine": {"model": "gemma-3-27b", "gpu": ["h100", "h200"], "requests": [8, 3],
               "engine": "vllm"},
    "llama.cpp": {"model": "llama-3.1-8b", "gpu": "4090", "requests": 4, "engine": "llama.cpp"},
    "replicas": {"model": "llama-3.1-8b", "gpu": "8x4090", "requests": 7, "dp": 4, "tp": 2,
                 "shared_prefix": 1000, "block_size": 16, "engine": "none"},
    "stages": {"model": "llama-3.1-8b", "gpu": "4090", "gpus": 3, "pp": 3, "engine": "none"},
    "pool": {"model": "qwen2.5-7b", "kv_pool": "16GiB", "context": 5999, "engine": "none"},
    "too-large": {"model": "llama-3.1-405b", "gpu": "h100", "engine": "none"},
    "states": {"model": "qwen3-next-80b", "gpu": "4xh100", "requests": 4, "engine": "none"},
    "latents": {"model": "deepseek-v3", "gpu": "h200", "tp": 8, "context": "32K",
                "engine": "none"},
    "bare": {"model": "qwen3-32b"},
    "own": {"model": "llama-3.1-8b", "gpu": "4090", "prompt": 1000, "output": 500,
            "request": ["2000:50", "9000:100"], "at": 100, "engine": "none"},
    "trace": {"model": "llama-3.1-8b", "gpu": ["4090", "h100"], "context": "8K", "engine": "none",
              "trace": "poisson:rate=50,requests=40,prompt=900,output=60",
              "policy": ["paged", "naive"]},
}  # fmt: skip
_VOID = frozenset({"meta", "input", "br"})


class Page(HTMLParser):
    """Checks nesting and collects what tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element without content."""
        self.tags.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """An element ends: the one that began last."""
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Words."""
        if not self.open or self.open[-1] not in {"script", "style"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All words of the body."""
        return re.sub(r"\s+", " ", "".join(self.words))


@lru_cache(maxsize=64)
def reported(name: str) -> ReportResult:
    return report(**REPORTS[name])


@lru_cache(maxsize=64)
def page_of(name: str) -> str:
    return html.render(reported(name)) if name in REPORTS else ask(
        *PAGES[name].split(), "-f", "html").text  # fmt: skip


EVERY = pytest.mark.parametrize("name", [*PAGES, *REPORTS])


@EVERY
def test_pages_are_well_formed(name: str) -> None:
    page = Page(page_of(name))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]

    assert page.open == []
    assert len(ids) == len(set(ids))
    assert [tag for tag, _ in page.tags].count("h1") <= 1
    assert "\x1b" not in page_of(name)


@EVERY
def test_pages_ask_nothing_of_any_network(name: str) -> None:
    """No address but namespaces and data, and a policy that would forbid it."""
    page = Page(page_of(name))

    for tag, attrs in page.tags:
        assert tag not in {"img", "link", "iframe", "object", "embed", "base", "audio", "video"}
        assert not {"src", "style"} & set(attrs), (tag, attrs)
        assert not [a for a in attrs if a.startswith("on")], (tag, attrs)
        assert attrs.get("href", "#").startswith("#")
        assert "url(" not in str(attrs) or "url(#" in str(attrs)


@EVERY
def test_the_policy_names_every_style_and_script_by_its_hash(name: str) -> None:
    text = page_of(name)
    policy = next(a["content"] for _, a in Page(text).tags
                  if a.get("http-equiv") == "Content-Security-Policy")  # fmt: skip

    def hashed(part: str) -> str:
        digest = hashlib.sha256(part.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    for part in re.findall(r"<style>(.*?)</style>", text, re.DOTALL):
        assert f"style-src {hashed(part)}" in policy
    codes = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert f"script-src {' '.join(map(hashed, codes))};" in policy
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"unsafe|https?:|\*", policy)


@EVERY
def test_the_data_in_the_page_is_the_answers(name: str) -> None:
    text = page_of(name)
    held = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)[0])

    if name in REPORTS:
        assert held["data"] == json.loads(json.dumps(reported(name).to_dict()))
        assert held["schema"] == "kvcalc.report/1"
    else:
        assert held["data"] == ask(*PAGES[name].split(), "--json").data


@EVERY
def test_every_control_has_a_name(name: str) -> None:
    page = Page(page_of(name))
    labels = {attrs.get("for") for tag, attrs in page.tags if tag == "label"}

    for tag, attrs in page.tags:
        if tag == "input" and attrs["type"] == "range":
            assert attrs["id"] in labels
        if tag == "svg" and attrs.get("role") == "img":
            assert attrs["aria-label"]
        if tag == "html":
            assert attrs["lang"] == "en"


@pytest.mark.parametrize("name", [n for n in PAGES if n not in {"models", "gpus", "dtypes"}])
def test_the_verdict_opens_the_page(name: str) -> None:
    first = ask(*PAGES[name].split(), "-f", "plain").text.splitlines()[0]
    said = first.rpartition(": ")[2] if first.startswith(("✓", "✗")) else first.strip()

    assert re.sub(r"\s+", " ", said) in Page(page_of(name)).text


def test_equal_answers_give_equal_pages() -> None:
    options = REPORTS["no"]

    assert html.render(report(**options)) == html.render(report(**options))
