"""`compare` as people read it: golden texts."""

from __future__ import annotations

import pytest

from kvcalc.api.compare import compare
from kvcalc.report import md, plain, text

GOLDEN = """\
26 requests of 4,096 tokens take 32.5 GiB of KV cache; fp8 halves it, and a shared prompt of \
1,024 tokens saves 7.81 GiB at no loss.

  one technique alone         GiB     saved  factor  quality
  GQA, 8 of 64 KV heads     32.50    227.50   8.00×  negligible (designed in)
  MQA, 1 KV head             4.06    255.94  64.00×  slightly lower
  KV fp8                    16.25     16.25   2.00×  <1% loss
  KV int8_per_token_head    16.76     15.74   1.94×  not judged here
  KV int4_per_token_head     8.63     23.87   3.76×  not judged here
  KV nvfp4                   9.14     23.36   3.56×  not judged here
  KV q8_0 (llama.cpp)       17.27     15.23   1.88×  not judged here
  KV q4_0 (llama.cpp)        9.14     23.36   3.56×  not judged here
  pages of 16, not 131,072  32.50  1,007.50  32.00×  none
  shared prefix 1,024       24.69      7.81   1.32×  none (exact reuse)
  window 1,024, all layers   8.13     24.38   4.00×  loses distant context
  keep 512 tokens            4.06     28.44   8.00×  depends on the model
"""


def test_plain() -> None:
    found = compare(
        "llama-3.1-70b", context=4096, requests=26, shared_prefix=1024, window=1024, keep=512
    )
    assert plain.render(found) == GOLDEN


def test_80_columns_hold_every_column() -> None:
    found = compare("llama-3.1-70b", requests=26, shared_prefix=1024)
    shown = text.render(found, width=80, height=None, colour=False)
    assert max(map(len, shown.splitlines())) <= 80
    assert "loses distant context" in shown
    assert "1,007.50" in shown


def test_40_columns_keep_bytes_and_factor() -> None:
    found = compare("llama-3.1-70b")
    lines = text.render(found, width=40, height=None, colour=False).splitlines()
    assert max(map(len, lines)) <= 40
    assert any(line.split() == ["KV", "fp8", "0.63", "2.00×"] for line in lines)


PAGES = "fp8 halves it, and pages of 16 instead of reserving 131,072 tokens save"


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (
            {"context": 4096},
            f"1 request of 4,096 tokens takes 1.25 GiB of KV cache; {PAGES} 38.75 GiB at no loss.",
        ),
        (
            {"context": 1},
            f"1 request of 1 token takes 320 KiB of KV cache; {PAGES} 40 GiB at no loss.",
        ),
        (
            {"context": 4096, "kv_dtype": "fp8", "max_context": 4096},
            "1 request of 4,096 tokens takes 640 MiB of KV cache.",
        ),
    ],
)
def test_the_sentence(options: dict[str, object], first: str) -> None:
    found = compare("llama-3.1-70b", **options)  # type: ignore[arg-type]
    assert plain.render(found).splitlines()[0] == first


def test_assumptions_and_gaps_are_said() -> None:
    shown = plain.render(compare("gpt-3-175b", kv_dtype="fp8"))
    assert "\n  assumed, not given: --shared-prefix 512, --window 512, --keep 256\n" in shown
    assert "kv_int8_per_token_head, kv_q8_0: takes no less than fp8\n" in shown
    assert "\n  shared prefix 512: one request shares with nobody: -n 2 or more\n" in shown


def test_fp8_that_does_not_halve_says_what_it_saves() -> None:
    first = plain.render(compare("jamba-v0.1", requests=4)).splitlines()[0]
    assert "fp8 saves 128 MiB" in first


def test_markdown_has_every_technique() -> None:
    shown = md.render(compare("llama-3.1-70b"))
    assert shown.startswith("**1 request of 4,096 tokens takes 1.25 GiB of KV cache;")
    assert "| GQA, 8 of 64 KV heads | 1.25 | 8.75 | 8.00× | negligible (designed in) |" in shown


def test_pages_that_cost_more_than_the_maximum_say_why() -> None:
    """32 windowed layers of 2,047 tokens are 128 pages of 16 = 2,048: one token more each."""
    shown = plain.render(compare("phi-3-mini-4k"))
    why = "-c is all of the model's maximum: nothing is reserved in vain"
    assert f"\n  pages of 16, not 4,096: {why}\n" in shown
