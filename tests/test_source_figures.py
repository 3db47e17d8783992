"""Every figure of the two source documents, computed by one command and equal to the exact value.

tests/data/source_figures.jsonl holds them: what the article on KV caches and the interview question
print, and what is exact. Here stands the command of each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.answers import ask, at

DATA = Path(__file__).parent / "data" / "source_figures.jsonl"
FIGURES: dict[str, dict[str, Any]] = {
    figure["id"]: figure
    for figure in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
}

_SIZES = "size {} --kv-dtype bf16 -c 4096 -c 131072"
_FIT = "fit llama-3.1-70b --engine none --weight-bytes 35GiB --gpu-memory 80GiB --kv-dtype bf16 -c"
_TIME = "timeline llama-3.1-70b --kv-dtype bf16 --prompt 4096 --output 126976 --at 1000,4096,126976"
_BATCH = "size llama-3.1-70b --kv-dtype bf16 --request 2048 --request 4096 --request 500"
_LENGTHS = "size llama-3.1-70b --kv-dtype bf16 -c 150,8200,2500"
_WASTE = "waste llama-3.1-70b --request 500 --request 3800 --request 200 --max-context 4096"
_PAGED = f"{_WASTE} --block-size 16"
_NOMINAL = "size --layers 80 --kv-heads 8 --head-dim 128 --parameters 70000000000 --weights"
_TRADE = "tradeoff llama-3.1-8b --tokens 1000"
_QUESTION = "size llama-3-8b --kv-dtype fp16 -c 8192 -n 100"

#: Figure → the command line and where its JSON has the figure.
COMMANDS: dict[str, tuple[str, str]] = {
    **{
        f"{model}-{what}": (_SIZES.format(model) + extra, path)
        for model, extra in (
            ("llama-3.1-8b", ""), ("llama-3.1-70b", ""), ("llama-3.1-405b", ""),
            ("gpt-3-175b", " --allow-long-context"),
        )
        for what, path in (
            ("per-token", "bytes_per_token"),
            ("request-4096", "contexts.tokens=4096.bytes_per_request"),
            ("request-131072", "contexts.tokens=131072.bytes_per_request"),
        )
    },
    "llama-3.1-70b-mha-per-token": (
        _SIZES.format("llama-3.1-70b"), "attention_variants.mha_bytes_per_token",
    ),
    "32-layer-mha-per-token": (
        "size --layers 32 --kv-heads 32 --head-dim 128 --kv-dtype bf16", "bytes_per_token",
    ),
    "llama-3.1-70b-fp8-per-token": ("size llama-3.1-70b --kv-dtype fp8", "bytes_per_token"),
    "weights-70b-bf16": (f"{_NOMINAL} bf16", "weights.bytes"),
    "weights-70b-int4": (f"{_NOMINAL} int4", "weights.bytes"),
    "fit-70b-int4-80gb-4k": (f"{_FIT} 4096", "max_requests"),
    "fit-70b-int4-80gb-128k": (f"{_FIT} 131072", "max_requests"),
    "timeline-70b-after-prefill": (_TIME, "points.step=1.kv_bytes"),
    "timeline-70b-after-1k-decode": (_TIME, "points.step=1001.kv_bytes"),
    "timeline-70b-after-4k-decode": (_TIME, "points.step=4097.kv_bytes"),
    "timeline-70b-after-124k-decode": (_TIME, "points.step=126977.kv_bytes"),
    "growth-70b-1000-steps": (_TIME, "milestones.step=1001.added_bytes"),
    "batch-70b-a": (_BATCH, "batch.requests.0.bytes"),
    "batch-70b-b": (_BATCH, "batch.requests.1.bytes"),
    "batch-70b-c": (_BATCH, "batch.requests.2.bytes"),
    "batch-70b-total": (_BATCH, "batch.total_bytes"),
    "variable-70b-chatbot": (_LENGTHS, "contexts.tokens=150.bytes_per_request"),
    "variable-70b-summarization": (_LENGTHS, "contexts.tokens=8200.bytes_per_request"),
    "variable-70b-code": (_LENGTHS, "contexts.tokens=2500.bytes_per_request"),
    "naive-70b-allocated": (_WASTE, "policies.policy=naive.allocated_bytes"),
    "naive-70b-used": (_WASTE, "policies.policy=naive.used_bytes"),
    "naive-70b-waste-share": (_WASTE, "policies.policy=naive.waste_fraction"),
    "paged-70b-waste-share": (_PAGED, "policies.policy=paged.waste_fraction"),
    "effective-concurrency": ("waste --slots 36 --waste-fraction 0.62", "effective_requests"),
    "recompute-1000": (_TRADE, "uncached_token_passes"),
    "cached-1000": (_TRADE, "cached_token_passes"),
    "recompute-ratio-1000": (_TRADE, "ratio"),
    "llama-3-8b-8k-request": (_QUESTION, "contexts.0.bytes_per_request"),
    "llama-3-8b-100-requests": (_QUESTION, "contexts.0.total_bytes"),
    "llama-3-8b-gqa-ratio": (_QUESTION, "attention_variants.reduction"),
    "shape-contiguous-70b": ("size llama-3.1-70b -c 4096 -n 4", "shapes.0.contiguous"),
    "shape-paged-70b": ("size llama-3.1-70b -c 4096 --block-size 16", "shapes.0.paged"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_the_figure_is_exact(name: str) -> None:
    command, path = COMMANDS[name]
    answer = ask(*command.split(), "--json")

    assert answer.code == 0
    assert at(answer.data, path) == FIGURES[name]["exact"]


def test_every_figure_has_its_command() -> None:
    assert set(FIGURES) == set(COMMANDS)


def test_these_are_all_figures(shared: Path) -> None:
    theirs = (shared / "expected" / "source-figures.jsonl").read_text(encoding="utf-8")

    assert list(FIGURES.values()) == [json.loads(line) for line in theirs.splitlines()]
