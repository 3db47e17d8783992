"""--chart and --no-chart: charts and bars stand on a terminal unless told otherwise."""

from __future__ import annotations

import re

import pytest

from kvcalc.cli.output import ASCII
from tests.answers import ask

ANSWERS = {
    "timeline": "timeline llama-3.1-8b --prompt 4096 --output 4096",
    "fit": "fit llama-3.1-8b --gpu 4090 --engine none",
    "waste": "waste llama-3.1-8b --request 500,3800,200 --max-context 4096",
    "simulate": "simulate --blocks 99 --trace poisson:rate=9,requests=9,prompt=9,output=9",
    "size": "size gemma-3-27b",
    "report": "report llama-3.1-8b --gpu 4090 --engine none",
    "speed": "speed llama-3.1-8b --gpu 4090",
}  # fmt: skip
_DRAWN = re.compile("[█▒▓░┤└▁▂▃▄▅▆▇]")


@pytest.mark.parametrize("command", ANSWERS)
def test_no_chart_leaves_the_words_and_numbers(command: str) -> None:
    words = ANSWERS[command].split()
    drawn = ask(*words, "-f", "text", "--color", "never").text
    bare = ask(*words, "-f", "text", "--color", "never", "--no-chart").text

    assert _DRAWN.search(drawn)
    assert not _DRAWN.search(bare)
    assert set(bare.split()) <= set(drawn.split())


@pytest.mark.parametrize("command", ANSWERS)
def test_chart_draws_in_a_pipe_too(command: str) -> None:
    words = ANSWERS[command].split()

    assert not _DRAWN.search(ask(*words).text)
    for options in (["--chart"], ["--chart", "-f", "plain"], ["--chart", "--no-chart"]):
        text = ask(*words, *options).text
        assert _DRAWN.search(text)
        assert "\x1b" not in text


@pytest.mark.parametrize("command", ANSWERS)
def test_charts_change_no_data(command: str) -> None:
    words = [*ANSWERS[command].split(), "--json"]

    assert ask(*words, "--no-chart").text == ask(*words, "--chart").text == ask(*words).text


def test_ascii_has_every_glyph() -> None:
    """The limit, what would not fit and the weights are told apart; nothing becomes a ?."""
    lines = (
        "timeline llama-3.1-8b --prompt 4K --output 124K --gpu 4090", "explain attention gpt-2",
        "explain paged gpt-2", "explain traps gpt-2", "speed llama-3.1-8b --gpu 4090",
        "fit llama-3.1-8b --gpu 4090", "models --family mixtral", "size gemma-3-27b",
    )  # fmt: skip
    for line in lines:
        text = ask(*line.split(), "-f", "text", "--color", "never").text.translate(ASCII)
        assert text.isascii(), {c for c in text if not c.isascii()}
    drawn = ask(*lines[0].split(), "-f", "text", "--color", "never").text.translate(ASCII)
    assert {"-", "/", ":", "#"} <= set(drawn.split("GiB +")[0])
