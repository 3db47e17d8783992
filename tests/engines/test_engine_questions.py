"""Questions about engines answered again by the engine's own rules; every number compared.

tests/data/engine_questions.jsonl is written like questions.jsonl: argv, the answer worked out by
hand, and a path or a short derivation for each of its numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.answers import ask
from tests.test_questions import derived, numbers

DATA = Path(__file__).parents[1] / "data" / "engine_questions.jsonl"
QUESTIONS: dict[str, dict[str, Any]] = {
    q["id"]: q for q in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_command_answers_every_number(name: str) -> None:
    question = QUESTIONS[name]
    answer = ask(*question["argv"], "--json")
    expected = dict(numbers(question["answer"]))

    assert answer.code in {0, 1}, answer.text
    found = {key: derived(answer.data, how) for key, how in question["paths"].items()}
    assert found == expected
    assert "--engine" in question["argv"]
