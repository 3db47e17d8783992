"""`speed` as people read it, and the command's answers."""

from __future__ import annotations

import json

import pytest

from kvcalc.cli.main import run
from kvcalc.core.cache import Full
from kvcalc.core.dtypes import storage
from kvcalc.core.model import Model
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.results.speed import SpeedGpu, SpeedResult
from kvcalc.core.speed import speed
from kvcalc.report.layout import lay_out
from kvcalc.report.lines import as_text
from kvcalc.report.plain import render as plain
from kvcalc.report.views import view
from kvcalc.report.views.speed import seconds, si, significant

LLAMA = Model(
    id="l", name="Llama", query_heads=64, parameters=70 * 10**9,
    layers=((Full(kv_heads=8, key_dim=128, value_dim=128),),) * 80,
)  # fmt: skip


def asked(requests: int = 26, context: int = 4096, weights: int = 35 * 2**30) -> SpeedResult:
    """On a GPU of 2,000 GB/s and 300 TFLOP/s."""
    gpu = SpeedGpu("a-gpu", "A", 1, 80 * 2**30, 2 * 10**12, 3 * 10**14, "bf16")
    known = WeightInfo(weights, None, (), "exact", None, None, "awq")
    return speed(
        LLAMA, storage("bf16"), weights=known, gpu=gpu, context=context, prompt=context,
        requests=requests,
    )  # fmt: skip


def test_a_batch() -> None:
    """Prefill: 140 · 10⁹ · 4,096 + 2,621,440 · 8,390,656 = 595.4 · 10¹² ÷ 3 · 10¹⁴ is 1.98 s.

    A step reads 35 + 26 · 1.25 = 67.5 GiB in 36.2 ms: 26 requests, 717 tokens/s. One more reads
    1.25 GiB in 671 µs and computes (140 + 10.7) · 10⁹ in 502 µs.
    """
    assert plain(asked()) == (
        """\
At most 717 tokens/s: 26 requests at 27.6 tokens/s each, limited by reading memory. \
A ceiling from bandwidth and FLOPs, not a forecast.

  a-gpu                   work           at    takes  tokens/s  bound
  prefill 4,096      595 TFLOP  300 TFLOP/s   1.98 s   ≤ 2,060  compute
  decode, one step   67.50 GiB   2,000 GB/s  36.2 ms     ≤ 717  memory
                    3.92 TFLOP  300 TFLOP/s  13.1 ms
  dense FLOP/s of bf16; awq weights are converted to it
  Each further request of 4,096 tokens reads its own 1.25 GiB: it adds 671 µs of reading and \
502 µs of arithmetic; at this context more requests never make decode compute-bound.
"""
    )


def test_one_request_and_the_ridge() -> None:
    """512 tokens: 160 MiB in 83.9 µs, 141.3 · 10⁹ FLOPs in 471 µs: 18.79 ms ÷ 387.3 µs = 48.5."""
    found = plain(asked(1, 512))
    assert found.startswith("At most 53.0 tokens/s: one request, limited by reading memory.")
    assert "; from 49 requests on decode is bound by arithmetic." in found


def test_what_does_not_fit_is_said() -> None:
    assert "these speeds need more memory" in plain(asked(100))


def test_a_terminal_shows_what_a_step_reads() -> None:
    """35 of 67.5 GiB of 76 cells are 39."""
    found = as_text(lay_out(view(asked()), 80)).replace("\u00a0", " ").splitlines()
    assert "  " + "▒" * 39 + "█" * 37 in found
    assert "  read per step  ▒ weights 35.00  █ KV 32.50 GiB (48% of the reading)" in found


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_it_keeps_to_the_width(width: int) -> None:
    found = as_text(lay_out(view(asked()), width)).splitlines()
    assert max(map(len, found)) <= width


def test_scales() -> None:
    assert [significant(v) for v in (0.6641, 6.641, 66.41, 664.1, 6641, 66414)] == [
        "0.664", "6.64", "66.4", "664", "6,640", "66,400",
    ]  # fmt: skip
    assert [si(v, "FLOP") for v in (12, 3.95e12, 6e14)] == [
        "12.0\u00a0FLOP", "3.95\u00a0TFLOP", "600\u00a0TFLOP",
    ]  # fmt: skip
    assert [seconds(v) for v in (1.923, 0.0366, 6.6e-4, 2e-10)] == [
        "1.92\u00a0s", "36.6\u00a0ms", "660\u00a0µs", "0.200\u00a0ns",
    ]  # fmt: skip


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """An A100 has no fp8: weights of it run in bf16, 312 TFLOP/s; an H100 has."""
    words = ["speed", "llama-3.1-8b", "--weights", "fp8", "-n", "4", "--json"]
    assert run([*words, "--gpu", "a100-80-sxm"]) == 0
    old = json.loads(capsys.readouterr().out)["data"]
    assert run([*words, "--gpu", "2xh100-sxm"]) == 0
    new = json.loads(capsys.readouterr().out)["data"]
    assert (old["gpu"]["flops_dtype"], old["gpu"]["dense_flops_per_second"]) == (
        "bf16",
        312 * 10**12,
    )
    assert (new["gpu"]["flops_dtype"], new["gpu"]["count"]) == ("fp8", 2)
    assert old["decode"]["kv_bytes"] == new["decode"]["kv_bytes"] == 4 * 4096 * 131_072
    assert set(old) >= {"prefill", "decode", "ridge"}


def test_one_row_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["speed", "llama-3.1-8b", "--gpu", "h100", "-f", "csv"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.startswith("prefill.tokens,prefill.flops,")
    assert row.startswith("4096,")
