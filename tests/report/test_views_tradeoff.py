"""`tradeoff` as people read it, and the command's answers."""

from __future__ import annotations

import json

import pytest

from kvcalc.api.tradeoff import tradeoff
from kvcalc.cli.main import run
from kvcalc.report.plain import render as plain


def test_a_thousand_tokens() -> None:
    """FLOPs: 2 · 8 · 10⁹ · 500,500 = 8.008 · 10¹⁵.

    Attention: 32 · 32 · 2 · 256 = 524,288 for each token seen, of which there are
    1,000 · 1,001 · 1,002 / 6 = 167,167,000 without a cache and 500,500 with it.
    """
    result = tradeoff(
        layers=32, kv_heads=8, head_dim=128, query_heads=32, parameters=8 * 10**9, tokens=1000
    )
    assert plain(result) == (
        """\
1,000 tokens cost 500,500 token passes without a cache, 1,000 with it: 500.5× less work for \
125 MiB of memory.

           token passes                       FLOPs  attention  KV cache
  without       500,500  1 + 2 + … + 1,000  ≈8.01 P    ≈87.6 T      none
  with            1,000  one per token      ≈16.0 T     ≈262 G   125 MiB
  FLOPs: 2 × 8,000,000,000 parameters × passes; attention comes on top
"""
    )


def test_without_parameters_there_are_no_flops() -> None:
    assert plain(tradeoff(layers=2, kv_heads=2, head_dim=8, tokens=3)) == (
        """\
3 tokens cost 6 token passes without a cache, 3 with it: 2× less work for 384 B of memory.

           token passes                 KV cache
  without             6  1 + 2 + 3          none
  with                3  one per token     384 B
  no FLOPs: the parameters of a pass are not known
  no attention FLOPs: the query heads or the kind of attention are not known
"""
    )


def test_one_token_saves_nothing() -> None:
    first = plain(tradeoff(layers=2, kv_heads=2, head_dim=8, tokens=1)).splitlines()[0]
    assert first == "1 token costs 1 token pass with a cache or without: 128 B saves nothing."


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tradeoff", "llama-3.1-8b", "--tokens", "1000", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert (data["uncached_token_passes"], data["cached_token_passes"]) == (500_500, 1000)
    assert data["ratio"] == 500.5
    assert data["kv_bytes"] == 1000 * 131_072
    assert data["cached"]["projection_flops"] == 2 * 8_030_261_248 * 1000
    assert data["cached_flops"] == 2 * 8_030_261_248 * 1000 + 524_288 * 500_500


def test_every_step_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--layers", "2", "--kv-heads", "2", "--head-dim", "8", "--tokens", "2"]
    assert run(["tradeoff", *words, "-f", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["1,1,1,,,,", "2,2,1,,,,"]
