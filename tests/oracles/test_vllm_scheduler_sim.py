"""The scheduler against runs of vLLM's own, recorded step by step.

tests/data/scheduler_sim.jsonl: the real Scheduler and KVCacheManager of vLLM 0.33.0 (g4ba787ec9),
synchronous, with a fake model; the first 60 steps of each run. Tags of shared prefixes: P160 is 160
tokens that all such requests share, same128 identical prompts of 128, P96_k and Gk:c the first
tokens of family k.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvcalc.core.simulate.job import Arrival, GroupSpec, Prefix, Settings
from kvcalc.core.simulate.run import Memory, run
from kvcalc.core.simulate.tally import Seen, Tally

_FILE = Path(__file__).parents[1] / "data" / "scheduler_sim.jsonl"
RECORDS = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]
_KINDS = {
    "FullAttentionSpec": "full",
    "SlidingWindowSpec": "window",
    "ChunkedLocalAttentionSpec": "chunked",
}


def prefix_of(tag: str | None) -> Prefix:
    """The stream that a tag names, and its length."""
    if tag is None:
        return None
    match = re.fullmatch(r"(P)(\d+)(_\d+)?|(same)(\d+)|(G\d+):(\d+)", tag)
    assert match is not None, tag
    name = (match[1] or match[4] or match[6]) + (match[3] or "")
    return ((name, int(match[2] or match[5] or match[7])),)


def question(r: dict[str, Any]) -> tuple[list[Arrival], Memory, Settings]:
    """What was run."""
    groups = [
        GroupSpec(
            _KINDS[g["spec"]],
            g["block_size"],
            g["sliding_window"] or g["attention_chunk_size"] or 0,
        )
        for g in r["groups"]
    ]
    settings = Settings(
        max_num_batched_tokens=r["max_num_batched_tokens"],
        max_num_seqs=r["max_num_seqs"],
        max_model_len=r["max_model_len"],
        enable_prefix_caching=r["enable_prefix_caching"],
        enable_chunked_prefill=r["chunked_prefill"],
        scheduler_reserve_full_isl=r["reserve_full_isl"],
        watermark=r["watermark"],
    )
    arrivals = [
        Arrival(q["id"], q["arrive_step"], q["prompt_len"], q["max_tokens"],
                prefix_of(q["shared_prefix_tag"]))
        for q in r["requests"]
    ]  # fmt: skip
    return arrivals, Memory(groups, r["num_blocks"]), settings


@pytest.mark.parametrize("r", RECORDS, ids=[f"{r['id']} {r['name']}" for r in RECORDS])
def test_every_recorded_step_is_equal(r: dict[str, Any]) -> None:
    seen: list[Seen] = []
    run(*question(r), watch=seen.append)
    steps = [
        {
            "step": s.row.step,
            "scheduled": s.scheduled,
            "used_blocks": s.row.used_blocks,
            "running": s.row.running,
            "waiting": s.row.waiting,
            "preempted": list(s.preempted),
        }
        for s in seen
    ]
    assert len(steps) == r["steps_total"]
    assert steps[: len(r["steps"])] == r["steps"]


@pytest.mark.parametrize("rows", [0, None], ids=["together", "one by one"])
@pytest.mark.parametrize("r", RECORDS, ids=[f"{r['id']} {r['name']}" for r in RECORDS])
def test_totals_are_equal_however_steps_are_taken(r: dict[str, Any], rows: int | None) -> None:
    tally = Tally(rows, jobs=True)
    outcome = run(*question(r), tally=tally)
    jobs = tally.jobs or []
    assert {
        "steps_total": outcome.clock.step,
        "finished": tally.finished,
        "total_scheduled_tokens": tally.scheduled_tokens,
        "preemptions": tally.preemptions,
        "peak_used_blocks": outcome.pool.peak,
        "first_token_step": {j.id: j.first_token_step for j in jobs},
        "finish_step": {j.id: j.finish_step for j in jobs},
    } == {key: r[key] for key in (
        "steps_total", "finished", "total_scheduled_tokens", "preemptions", "peak_used_blocks",
        "first_token_step", "finish_step",
    )}  # fmt: skip
    if rows is None:
        assert [row.used_blocks for row in tally.series()][: len(r["steps"])] == [
            s["used_blocks"] for s in r["steps"]
        ]
    assert outcome.pool.used == 0
