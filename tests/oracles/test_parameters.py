"""Parameter counts against models that transformers built, and against published totals.

The samples in tests/data are part of the records (their lines name the source); all of them are
read where ../shared is there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc.checkpoints.parameters import count_parameters

ROOT = Path(__file__).parents[2]
DATA, SHARED = ROOT / "tests" / "data", ROOT.parent / "shared"
#: What a published model's config says that its copy among the facts leaves out.
LEFT_OUT: dict[str, dict[str, Any]] = {
    # The facts hold the width after the class's adjustment.
    "LiquidAI/LFM2-1.2B": {"block_auto_adjust_ff_dim": False},
    "LiquidAI/LFM2-2.6B": {"block_auto_adjust_ff_dim": False},
    # The facts count 15B of the head once, though the checkpoint holds it twice.
    "bigcode/starcoder2-15b": {"tie_word_embeddings": True},
    "deepseek-ai/DeepSeek-V2-Lite": {"q_lora_rank": None},
    "microsoft/Phi-3.5-MoE-instruct": {"lm_head_bias": True},
    "tiiuae/Falcon-H1-34B-Instruct": {"mamba_rms_norm": True},
    "tiiuae/Falcon-H1-7B-Instruct": {"mamba_rms_norm": True},
}
shared_only = pytest.mark.skipif(not SHARED.is_dir(), reason="no ../shared")


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def counted(config: dict[str, Any]) -> int | None:
    found = count_parameters(config)
    return None if found is None else found.total


@pytest.mark.parametrize("name", ["parameters_oracle", "parameters_instantiated"])
def test_sample(name: str) -> None:
    """Tiny, default and odd configs of 140 model types, as the model classes allocate them."""
    wrong = [
        (r["config"], counted(r["config"]), r["parameters"])
        for r in records(DATA / f"{name}.jsonl")
        if counted(r["config"]) != r["parameters"]
    ]
    assert wrong == []


def test_published_sample() -> None:
    """The whole stored total: parameters, buffers, and what the checkpoint holds beside them."""
    for r in records(DATA / "parameters_published.jsonl"):
        found = count_parameters(r["config"])
        assert found is not None, r["id"]
        assert found.total == r["parameters"], r["id"]
        assert r["buffers"] in (0, found.buffers), r["id"]
        beside = sum(r["stored_beside"].values())
        assert found.total + r["buffers"] + beside == r["published"], r["id"]


@shared_only
@pytest.mark.parametrize("name", ["hf_default_config_params_and_cache", "hf_cache_bytes"])
@pytest.mark.parametrize("shape", ["config", "config_min"])
def test_all(name: str, shape: str) -> None:
    """Every record equal, from the config as typed and as transformers saves it."""
    rows = [r for r in records(SHARED / "oracles" / f"{name}.jsonl") if shape in r]
    wrong = [(r["id"], counted(r[shape]), r["n_params"]) for r in rows
             if counted(r[shape]) != r["n_params"]]  # fmt: skip
    assert wrong == []


@shared_only
def test_all_published() -> None:
    """Every model whose formula the facts give: 204 equal, none different, none refused."""
    rows = [json.loads(p.read_text()) for p in sorted((SHARED / "facts" / "models").glob("*.json"))]
    known = [r for r in rows if r["computed_params"] is not None]
    wrong = []
    for r in known:
        found = count_parameters({**r["config"], **LEFT_OUT.get(r["id"], {})})
        totals = () if found is None else (found.total, found.total + found.buffers)
        if r["computed_params"] not in totals:
            wrong.append((r["id"], totals, r["computed_params"]))
    assert wrong == []
    assert len(known) == 204
