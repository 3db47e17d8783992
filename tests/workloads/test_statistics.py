"""What `workload` says of a trace, by hand and on the excerpts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc.api.workload import workload
from kvcalc.core.errors import KvcalcError
from kvcalc.report.plain import render

TRACES = Path(__file__).parents[1] / "data" / "traces"


def asked(path: Path, lines: list[dict[str, Any]], **options: Any) -> Any:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return workload(str(path), **options)


def line(at: float, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"arrival_seconds": at, "prompt_tokens": prompt, "output_tokens": output, **more}


def test_rates_and_percentiles_by_hand(tmp_path: Path) -> None:
    """Gaps 1, 1, 4: mean 2, deviation sqrt((1 + 1 + 4) / 3) = 1.414. p50 of 10 20 30 40: 25."""
    r = asked(tmp_path / "t", [line(t, 10 * (i + 1), 2) for i, t in enumerate((0, 1, 2, 6))])
    assert r.arrivals.requests_per_second == pytest.approx(4 / 6)
    assert r.arrivals.interarrival_cv == pytest.approx(2**0.5 / 2)
    prompt, output = r.lengths
    assert (prompt.mean, prompt.p50, prompt.p90, prompt.max) == (25, 25, 37, 40)
    assert (output.total_tokens, output.p99) == (8, 2)
    assert r.prefix is None


def test_hits_of_hash_blocks_by_hand(tmp_path: Path) -> None:
    """Blocks of 512, the last of 1,100 tokens partial: 1 2 3 | 1 2 4 | 5 2 3.

    The second hits 1 and 2; the third's first block is new, so nothing of it is a prefix.
    """
    ids = ([1, 2, 3], [1, 2, 4], [5, 2, 3])
    lines = [line(i, 1100, 1, hash_ids=list(h)) for i, h in enumerate(ids)]
    p = asked(tmp_path / "t", lines).prefix
    assert (p.block_tokens, p.blocks, p.unique_blocks, p.hit_blocks) == (512, 9, 5, 2)
    assert (p.hit_fraction, p.hit_tokens) == (2 / 9, 1024)
    assert p.sharing_requests == 1
    # An LRU of two keeps 2 and 3 of the first prompt: the second hits nothing.
    assert asked(tmp_path / "t", lines, cache_blocks=2).prefix.hit_blocks == 0
    assert asked(tmp_path / "t", lines, cache_blocks=3).prefix.hit_blocks == 2


def test_hits_of_named_prefixes(tmp_path: Path) -> None:
    """48 tokens of G in blocks of 16 are 3; 100 tokens take 7 blocks, 4 of them its own."""
    lines = [line(i, 100, 1, prefix=[["G", n]]) for i, n in enumerate((48, 96, 40))]
    p = asked(tmp_path / "t", lines).prefix
    # The second shares 3 of its 6 named blocks; the third has 2 named blocks, both seen.
    assert (p.blocks, p.hit_blocks, p.hit_tokens) == (21, 5, 80)
    # 6 distinct named blocks, and 4 + 1 + 5 that nobody shares.
    assert p.unique_blocks == 16
    small = asked(tmp_path / "t", lines, cache_blocks=3).prefix
    assert small.hit_blocks == 0, "each prompt pushes the shared blocks out"


def test_excerpt_of_mooncake() -> None:
    r = workload(str(TRACES / "mooncake_conversation.jsonl"))
    assert (r.requests, r.format) == (40, "mooncake")
    assert r.prefix is not None
    # All begin with the same block.
    assert r.prefix.sharing_requests == 39


def test_steps_and_no_times(tmp_path: Path) -> None:
    r = asked(tmp_path / "t", [{"arrival_step": 3, "prompt_tokens": 1, "output_tokens": 1}])
    assert (r.arrivals, r.first_step, r.last_step) == (None, 3, 3)
    r = asked(tmp_path / "t", [{"prompt_tokens": 1, "output_tokens": 1}])
    assert (r.arrivals, r.last_step) == (None, None)
    assert "1 request, without times" in render(r)


def test_skipped_lines_are_said(tmp_path: Path) -> None:
    r = asked(tmp_path / "t", [line(0, 5, 5), line(0, 0, 5)], skip_bad=True)
    assert [w.message for w in r.warnings] == [f"1 line of {tmp_path / 't'} left out as no request"]


def test_text_says_the_same_numbers() -> None:
    text = render(workload(str(TRACES / "mooncake_conversation.jsonl"), cache_blocks=100))
    assert text.startswith("40 requests in ")
    assert "100 blocks would hit" in text


def test_a_source_is_needed() -> None:
    with pytest.raises(KvcalcError, match="FILE is missing"):
        workload(None)
