"""`timeline` as people read it: plain text, the chart at several widths, the command's answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvcalc.api.timeline import timeline
from kvcalc.cli.main import run
from kvcalc.report.chart import draw
from kvcalc.report.document import Chart
from kvcalc.report.layout import lay_out
from kvcalc.report.lines import as_text
from kvcalc.report.md import render as md
from kvcalc.report.plain import render as plain
from kvcalc.report.views import view

#: 256 B a token: 8 KiB of it are 32 tokens.
NUMBERS: dict[str, Any] = {"layers": 1, "kv_heads": 1, "head_dim": 128, "kv_dtype": "fp8"}
#: 1.5 MiB for KV cache are 6,144 tokens.
SMALL: dict[str, Any] = {**NUMBERS, "weight_bytes": "1MiB", "gpu_memory": "2.5MiB"}
PLAN = "Custom model, 1 × 2.5 MiB GPU, textbook"


def text(width: int | None, height: int | None = None, **options: Any) -> str:
    return as_text(lay_out(view(timeline(**options)), width, height)).replace("\u00a0", " ")


def test_memory_ends() -> None:
    assert plain(timeline(prompt=2048, output=6144, **SMALL)) == (
        """\
✗ Custom model, 1 × 2.5 MiB GPU, textbook: memory ends at token 6,145
  The request grows to 8,192 tokens and 2 MiB; the KV pool holds 1.5 MiB.

   step  tokens  KV MiB
      0       0    0.00  start
      1   2,048    0.50  prefill: the whole prompt at once
  1,001   3,048    0.74  1,000 tokens decoded: + 250 KiB
  2,050   4,097    1.00  KV cache outgrows the weights
  4,097   6,144    1.50  4,096 tokens decoded: + 1 MiB
  4,098   6,145    1.50  ✗ out of memory
  6,145   8,192    2.00  end

  weights  1 MiB as given
"""
    )


def test_without_a_gpu_there_is_no_limit() -> None:
    assert text(None, prompt=2048, output=2048, at=[2000], **NUMBERS) == (
        """\
Custom model's KV cache ends at 1 MiB: 512 KiB after the prompt of 2,048 tokens, \
then a token a step to 4,096.

   step  tokens  KV MiB
      0       0    0.00  start
      1   2,048    0.50  prefill: the whole prompt at once
  2,001   4,048    0.99  2,000 tokens decoded: + 500 KiB
  2,049   4,096    1.00  end
"""
    )


def test_several_requests_beside_naive_reservation() -> None:
    """A ends in step 101; 61 … 101 hold both."""
    found = text(None, request=["2048:100", "4096:50@60"], max_context="8K", **NUMBERS)
    assert found == (
        """\
2 requests of Custom model hold at most 1.53 MiB of KV cache, in step 101 of 111.

  step  tokens  KV MiB  paged  naive
     0       0    0.00   0.00   0.00  start
     1   2,048    0.50   0.50   2.00  prefill of request 1
    61   6,204    1.51   1.52   4.00  prefill of request 2
   101   6,284    1.53   1.54   4.00  peak; end of request 1
   111   4,146    1.01   1.02   2.00  end of request 2
  MiB; paged: whole blocks of 16 tokens; naive: 8,192 tokens reserved for each admitted request
"""
    )


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (
            {"prompt": 2048, "output": 0},
            f"✓ {PLAN}: 2,048 tokens fit, the KV cache ends at 512 KiB",
        ),
        (
            {"prompt": 6145, "output": 9},
            f"✗ {PLAN}: the prompt of 6,145 tokens does not fit",
        ),
        (
            {"request": ["4000:100", "2000:200@3"]},
            f"✗ {PLAN}: memory ends in step 75, at 6,145 tokens",
        ),
        (
            {"request": ["400:100", "2000:200@3"]},
            # 500 tokens of A in step 101 and 2,000 + 97 of B
            f"✓ {PLAN}: 2 requests fit, at most 649.25 KiB at once",
        ),
        (
            {"prompt": 1, "output": 1, "weight_bytes": "3MiB"},
            f"✗ {PLAN}: the weights alone are 0.50 MiB too large",
        ),
    ],
)
def test_first_lines(options: dict[str, Any], first: str) -> None:
    assert text(None, **{**SMALL, **options}).splitlines()[0] == first


def test_an_uncertain_limit_shows_its_range() -> None:
    """flat int4 without embeddings: from all at 4 bits to an eighth at 16."""
    options = {**NUMBERS, "parameters": 10**6, "weights": "int4", "gpu_memory": "2.5MiB"}
    found = text(None, prompt=2048, output=9000, **options)
    assert "memory ends at token ≈8,287\n" in found  # (2,621,440 − 500,000) // 256 + 1
    # 125,000 weights at 16 bits: (2,621,440 − 437,500 − 250,000) // 256 + 1
    assert "✗ out of memory (token 7,555–8,287)" in found
    surely = text(None, prompt=2048, output=5600, **options).splitlines()[0]
    assert surely.endswith("fit, the KV cache ends at 1.87 MiB, but not surely")


def test_rows_past_the_end_are_dim() -> None:
    result = timeline(prompt=2048, output=6144, **SMALL)
    styles = {row.cells[0]: row.style for row in view(result).blocks[3].rows}  # type: ignore[union-attr]
    assert (styles["4,098"], styles["6,145"]) == ("", "dim")


def test_a_narrow_terminal_shortens_the_notes() -> None:
    found = text(39, prompt=2048, output=6144, **SMALL)
    assert "  4,098   6,145    1.50  ✗ full\n" in found
    assert "  2,050   4,097    1.00  past weights\n" in found


@pytest.mark.parametrize("width", [40, 57, 80, 96, 120, 300])
def test_the_chart_keeps_to_the_width(width: int) -> None:
    found = text(width, prompt=2048, output=6144, **SMALL).splitlines()
    rows = [line for line in found if "┤" in line]
    assert len(rows) == 8
    assert max(map(len, found)) <= width
    assert {len(row) for row in rows if "▒" in row} == {7 + min(width - 8, 96)}


def test_a_tall_terminal_has_a_taller_chart() -> None:
    assert text(80, 39, prompt=2048, output=6144, **SMALL).count("┤") == 8
    assert text(80, 40, prompt=2048, output=6144, **SMALL).count("┤") == 12


def test_where_there_is_no_chart() -> None:
    result = timeline(prompt=2048, output=6144, **SMALL)
    for found in (plain(result), md(result), text(39, prompt=2048, output=6144, **SMALL)):
        assert "┤" not in found
    assert "┤" not in text(80, prompt=2048, output=6144, no_chart=True, **SMALL)
    assert "┤" in text(80, prompt=2048, output=6144, no_chart=True, chart=True, **SMALL)


# The chart itself.


def chart(*knots: tuple[int, int, int | None], width: int = 48, **options: Any) -> list[str]:
    made = Chart(knots=knots, x_name="tokens", unit_name="B", unit_bytes=1, legend="key", **options)
    return as_text(list(draw(made, width, None))).splitlines()


def test_edges_are_eighths_of_a_row() -> None:
    """40 columns to 80: each adds 2 of a row's 10. 2, 4, 6, 8 are 1.6, 3.2, 4.8, 6.4 eighths."""
    rows = chart((0, 0, None), (40, 80, None))
    assert rows[7] == "      ┤▂▃▅▆" + "█" * 36
    assert rows[6] == "   20 ┤     ▂▃▅▆" + "█" * 31
    assert rows[0] == "   80 ┤" + " " * 35 + "▂▃▅▆█"
    assert rows[8] == "    B └" + "─" * 19 + "┴" + "─" * 19 + "┴"
    assert rows[9] == "       0  tokens         20" + " " * 18 + "40"
    assert rows[10] == "  key"


def test_the_larger_share_of_a_cell_wins() -> None:
    """Rows of 10 on a base of 16: in the second row 6 of base beat 3 of cache, but not 9."""
    rows = chart((0, 3, None), (40, 3, None), base=16, limit=80)
    assert rows[6].endswith("▒" * 40)
    assert chart((0, 9, None), (40, 9, None), base=14, limit=80)[6].endswith("█" * 40)


def test_the_limit_and_the_end() -> None:
    """Past column 20 nothing fits; the limit of 40 tops the fourth row, which covers 30 … 40."""
    rows = chart((0, 0, None), (40, 80, None), limit=40, limit_label="limit 40", end=21,
                 end_label="full")  # fmt: skip
    assert rows[0] == " " * 20 + "✗ full ▾"
    assert rows[0].index("▾") == 7 + 20
    assert rows[5] == "   40 ┤╌╌ limit 40 ╌╌╌▂▃▅▆█" + "░" * 20
    assert rows[8] == "      ┤▂▃▅▆" + "█" * 16 + "░" * 20


def test_an_end_at_the_left_has_its_label_at_the_right() -> None:
    rows = chart((0, 0, None), (40, 80, None), end=1, end_label="out of memory")
    assert rows[0] == "       ▾ ✗ out of memory"


def test_the_dotted_line_lies_above_the_area() -> None:
    rows = chart((0, 0, 75), (40, 80, 75))
    assert rows[0] == "   80 ┤" + "·" * 35 + "▂▃▅▆█"


def test_a_short_peak_is_not_lost() -> None:
    """One step in 4,000 at the top, which no column's edge falls on."""
    rows = chart((0, 0, None), (1234, 0, None), (1235, 80, None), (1236, 0, None), (4000, 0, None))
    assert rows[0].count("█") == 1
    assert rows[0].index("█") == 7 + 1235 * 40 // 4000


def test_nothing_to_draw() -> None:
    assert chart((0, 0, None), (40, 0, None)) == []
    assert chart((0, 1, None)) == []


# The command.


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = run(["timeline", *words])
    return code, json.loads(capsys.readouterr().out)


def test_the_article_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = answer(
        capsys, "llama-3.1-70b", "--prompt", "4096", "--output", "126976",
        "--at", "1000,4096", "--json",
    )  # fmt: skip
    steps = {m["step"]: m["kv_bytes"] for m in found["data"]["milestones"]}
    assert (code, found["schema"], found["status"]) == (0, "kvcalc.timeline/1", "ok")
    assert steps[0] == 0
    assert steps[1] == 1_342_177_280
    assert steps[1001] == 1_669_857_280
    assert steps[4097] == 2_684_354_560
    assert steps[126_977] == 42_949_672_960
    assert found["data"]["peak"] == {"step": 126_977, "kv_bytes": 42_949_672_960, "tokens": 131_072}
    assert found["data"]["out_of_memory_at_step"] is None


def test_no_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """7 GiB − 5 GiB hold 6,553.6 tokens of 327,680 B."""
    code, found = answer(
        capsys, "llama-3.1-70b", "--prompt", "4K", "--output", "4K", "--weight-bytes", "5GiB",
        "--gpu-memory", "7GiB", "--json",
    )  # fmt: skip
    assert (code, found["status"], found["exit_code"]) == (1, "no", 1)
    assert found["data"]["out_of_memory_at_step"] == 1 + 6554 - 4096


def test_requests_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--layers", "1", "--kv-heads", "1", "--head-dim", "128", "--request", "3:1,5:2@1"]
    assert run(["timeline", *words, "-f", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "step,phase,tokens,kv_bytes,paged_bytes,naive_bytes",
        "0,start,0,0,0,",
        "1,prefill,3,1536,8192,",
        "2,prefill,9,4608,16384,",
        "3,decode,6,3072,8192,",
        "4,decode,7,3584,8192,",
    ]


def test_what_the_output_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    """--output counts tokens here; a failure's envelope goes to stdout, not to a file "5"."""
    code, found = answer(capsys, "no-such-model", "--prompt", "5", "--output", "5", "--json")
    assert (code, found["errors"][0]["code"]) == (2, "unknown_model")
