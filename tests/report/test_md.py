"""-f md: what pastes into an issue or a wiki."""

from __future__ import annotations

import re

import pytest

from kvcalc.report.document import Column, Paragraph, Row, Share, Span, Table
from kvcalc.report.md import _block
from tests.answers import ask


def lines(*words: str) -> list[str]:
    return ask(*words, "-f", "md").text.splitlines()


def test_headings_are_headings() -> None:
    found = lines("report", "llama-3.1-8b", "--gpu", "4090")

    assert [line for line in found if line.startswith("#")] == [
        "## What one token costs", "## Step by step", "## Why pages", "## What would save memory",
        "## What this rests on",
    ]  # fmt: skip
    assert _block(Paragraph((Span("plain"),), indent=0)) == "plain"


def test_arguments_stand_in_code_as_they_are_typed() -> None:
    found = "\n".join(lines("fit", "llama-3.1-8b", "--gpu", "a100-40"))

    assert "| `--kv-dtype int8_per_token_head` |" in found
    table = Table((Column("", "<"),), (Row(((Span("a|b `c`", "arg"),),)),))
    assert _block(table).splitlines()[-1] == "| a\\|b \\`c\\` |"


def test_bars_are_left_out_and_nothing_is_left_of_a_table_of_bars() -> None:
    bars = Table((Column("", "<", screen=True, narrow=True),), (Row((Share(1.0),)),))

    assert _block(bars) == ""


@pytest.mark.parametrize(
    "words",
    [
        "size gemma-3-27b -c 8K,32K", "fit llama-3.1-70b --gpu h100 --weights int4",
        "timeline llama-3.1-8b --prompt 4K --output 4K", "compare llama-3.1-70b", "gpus", "dtypes",
        "waste llama-3.1-8b --request 500,3800 --max-context 4K", "explain self-check gpt-2",
        "simulate --blocks 99 --trace poisson:rate=9,requests=9,prompt=9,output=9",
    ],
)  # fmt: skip
def test_every_row_of_a_table_has_the_cells_of_its_head(words: str) -> None:
    """Cells end at bars that are not escaped."""
    text = ask(*words.split(), "-f", "md").text
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)

    assert tables
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
