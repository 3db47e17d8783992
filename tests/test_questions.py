"""Questions that people asked, each answered by one command; every number of the answer compared.

tests/data/questions.jsonl holds them: `argv`, the `answer` worked out by hand, and for each of its
numbers a path into the JSON, or a short derivation from such ([operator, operands …]). What a
machine measured must lie within kvcalc's interval.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.answers import ask, at

DATA = Path(__file__).parent / "data" / "questions.jsonl"
QUESTIONS: dict[str, dict[str, Any]] = {
    q["id"]: q for q in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
}

OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: Fraction(a) / Fraction(b),
    "down": math.floor,
    "up": math.ceil,
    "round": lambda a, digits: round(float(a), digits),
    # What a machine measured, where kvcalc's interval holds it.
    "within": lambda value, low, high: value if low <= value <= high else (low, high),
    "list": lambda *values: list(values),
}


def derived(data: Any, how: Any) -> Any:
    """The figure at a path, a number as it is, or an operator on such."""
    if isinstance(how, str):
        return at(data, how)
    if isinstance(how, list):
        return OPERATORS[how[0]](*(derived(data, part) for part in how[1:]))
    return how


def numbers(answer: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number of an answer with its name; words are comments."""
    for name, value in answer.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}.")
        elif not isinstance(value, str):
            yield f"{prefix}{name}", value


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_command_answers_every_number(name: str) -> None:
    question = QUESTIONS[name]
    answer = ask(*question["argv"], "--json")
    expected = dict(numbers(question["answer"]))

    assert answer.code in {0, 1}
    assert set(expected) == set(question["paths"])
    found = {key: derived(answer.data, how) for key, how in question["paths"].items()}
    assert found == expected


def test_a_wrong_number_would_be_noticed() -> None:
    """The paths read the answer: another model's figures differ."""
    question = QUESTIONS["q78"]
    other = ask("size", "llama-3.1-8b", "-c", "131072", "--json").data

    assert derived(other, "bytes_per_token") == 131_072
    assert derived(other, question["paths"]["at_131072"]) != question["answer"]["at_131072"]


def test_these_are_all_questions(shared: Path) -> None:
    lines = (shared / "expected" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    theirs = {q["id"]: q for q in map(json.loads, lines)}

    assert list(theirs) == list(QUESTIONS)
    for name in QUESTIONS:
        assert QUESTIONS[name]["answer"] == theirs[name]["answer"]
