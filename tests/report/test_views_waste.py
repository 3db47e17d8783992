"""`waste` as people read it: small golden texts."""

from __future__ import annotations

import pytest

from kvcalc.api.waste import waste
from kvcalc.core.results.waste import WasteResult
from kvcalc.report import plain, text

NUMBERS = {"layers": 80, "kv_heads": 8, "head_dim": 128}
POOL = """\
Reserving 4,096 tokens for each of 3 requests wastes 63.4%; pages of 16 tokens waste 0.6%. \
A 45 GiB pool has 36 such slots and does the work of 13.2.

  policy  reserves         GiB  wasted  share  in 45 GiB
  naive   the maximum     3.75    2.38  63.4%         36
  pow2    a power of two  1.48    0.11   7.5%         90
  exact   known length    1.37    0.00   0.0%         98
  paged   blocks of 16    1.38    0.01   0.6%         97
  used 1.37 GiB; last column: requests like these that 45 GiB hold
"""
SCREEN = """\
Reserving 4,096 tokens for each of 3 requests wastes 63.4%; pages of 16 tokens
waste 0.6%. A 45 GiB pool has 36 such slots and does the work of 13.2.

  policy  reserves        █ used  ░ wasted         GiB  wasted  share  in 45 GiB
  naive   the maximum     ████████░░░░░░░░░░░░░░  3.75    2.38  63.4%         36
  pow2    a power of two  ████████░               1.48    0.11   7.5%         90
  exact   known length    ████████                1.37    0.00   0.0%         98
  paged   blocks of 16    ████████                1.38    0.01   0.6%         97
  used 1.37 GiB; last column: requests like these that 45 GiB hold
"""


def article(**options: object) -> WasteResult:
    asked = {"request": [500, 3800, 200], "max_context": 4096, **NUMBERS, **options}
    return waste(**asked)  # type: ignore[arg-type]


def test_plain() -> None:
    assert plain.render(article(pool="45GiB")) == POOL


def test_a_terminal_of_80_columns() -> None:
    shown = text.render(article(pool="45GiB"), width=80, height=None, colour=False)
    assert shown.replace("\u00a0", " ") == SCREEN


def test_40_columns_keep_the_figures() -> None:
    shown = text.render(article(pool="45GiB"), width=40, height=None, colour=False)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 40
    assert any(line.split() == ["naive", "3.75", "2.38", "63.4%", "36"] for line in lines)
    # The bars stand below: 3.75 GiB are 30 cells, 1.37 GiB are 1.37 / 3.75 · 30 = 11 of them.
    assert any(line.split() == ["naive", "█" * 11 + "░" * 19] for line in lines)


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"request": 2049, "max_context": 32768},
         "Reserving 32,768 tokens for 1 request wastes 93.7%; pages of 16 tokens waste 0.7%."),
        ({"policy": "paged"}, "Allocating each of 3 requests in pages of 16 tokens wastes 0.6%."),
        ({"policy": "exact", "request": 9},
         "Reserving exactly what it uses for 1 request wastes nothing."),
        ({"policy": "pow2"}, "Reserving a power of two for each of 3 requests wastes 7.5%."),
    ],
)  # fmt: skip
def test_the_sentence(options: dict[str, object], first: str) -> None:
    assert plain.render(article(**options)).splitlines()[0] == first


@pytest.mark.parametrize(
    ("pool", "sentence"),
    [
        ("1GiB", "A 1 GiB pool has no such slot."),
        # 18 / 1.25 = 14.4; 14 · 4,500 / 12,288 = 5.1
        ("18GiB", "An 18 GiB pool has 14 such slots and does the work of 5.1."),
        ("1.25GiB", "A 1.25 GiB pool has 1 such slot and does the work of 0.4."),
        ("800MiB", "An 800 MiB pool has no such slot."),
    ],
)
def test_the_pool_in_the_sentence(pool: str, sentence: str) -> None:
    first = plain.render(article(policy="naive", pool=pool)).splitlines()[0]
    assert first == f"Reserving 4,096 tokens for each of 3 requests wastes 63.4%. {sentence}"


def test_without_a_model() -> None:
    assert plain.render(waste(slots=36, waste_fraction="0.62")) == (
        "36 slots that waste 62% do the work of 13.68.\n"
    )
    assert plain.render(waste(slots=1, waste_fraction="0.5")) == (
        "1 slot that wastes 50% does the work of 0.5.\n"
    )


def test_a_gpu_says_where_its_pool_comes_from() -> None:
    shown = plain.render(article(gpu="h100-sxm", weight_bytes="35GiB"))
    assert "\n  pool  1 × h100-sxm 79.18 GiB − weights 35 GiB = 44.18 GiB, 44." in shown


def test_weights_that_leave_nothing() -> None:
    shown = plain.render(article(gpu="h100-sxm", weight_bytes="200GiB"))
    assert shown.splitlines()[0] == (
        "✗ Custom model, 1 × h100-sxm: no room for KV cache beside weights of 200 GiB"
    )
    assert "in 0 B" not in shown
