"""kvcalc explain: every topic for every kind of model, its numbers live, its commands real."""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import Any

import pytest

import kvcalc
from kvcalc.api.explain import explain
from kvcalc.cli.explain import SPEC, run
from kvcalc.cli.main import parse
from kvcalc.cli.output import Output
from kvcalc.cli.spec import COMMANDS, spec_of
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.explain import ExplainResult, Page
from kvcalc.core.units import KIB
from kvcalc.explain.topics import TOPICS
from kvcalc.report import data, html, md, plain, svg
from kvcalc.schemas import _result

#: Full, windowed, latent, hybrid, state-only, encoder–decoder, MHA without a named GPU to hold it.
MODELS = ("llama-3.1-70b", "llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "qwen3-next-80b",
          "mamba-2.8b", "whisper-large-v3", "gpt-3", "gpt-2")  # fmt: skip
CONTRACT = (
    "why", "attention", "stored", "formula", "gqa", "prefill-decode", "lifecycle", "batching",
    "waste", "paged", "reduce", "units", "engines", "traps", "self-check",
)  # fmt: skip


@lru_cache(maxsize=256)
def page(topic: str, model: str = "llama-3.1-70b") -> Page:
    (found,) = explain(topic, model).pages
    return found


@lru_cache(maxsize=256)
def words(topic: str, model: str = "llama-3.1-70b") -> str:
    return re.sub(r"\s+", " ", plain.render(explain(topic, model)))


def test_the_topics_are_the_contracts() -> None:
    assert tuple(TOPICS) == CONTRACT
    assert [t.topic for t in explain().topics] == list(CONTRACT)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("topic", CONTRACT)
def test_every_topic_is_answered_for_every_kind_of_model(topic: str, model: str) -> None:
    result = explain(topic, model)
    (found,) = result.pages

    assert found.sentence.endswith(".")
    assert found.figures
    assert found.sections
    for section in found.sections:
        if section.grid is not None:
            assert {len(row) for row in section.grid.rows} == {len(section.grid.heads)}
        for text in section.text:
            assert "None" not in text
            assert text.endswith((".", ":", "s", " 0")), text
    for render in (plain.render, md.render, html.render, svg.render):
        assert "\x1b" not in render(result)


@pytest.mark.parametrize("topic", CONTRACT)
def test_with_two_models_every_number_changes(topic: str) -> None:
    """Figures are the numbers that depend on the model; both models have all of them."""
    one = {f.name: f.value for f in page(topic, "llama-3.1-70b").figures}
    # The same kind of model with other layers, heads and weights: 88 layers, 96 and 8 heads.
    other = {f.name: f.value for f in page(topic, "mistral-large-2407").figures}
    shared = {"kv_heads"}  # both have 8

    assert one.keys() == other.keys()
    assert one
    same = {name for name in one if one[name] == other[name]}
    assert same <= shared


@pytest.mark.parametrize("topic", CONTRACT)
def test_the_sentence_is_about_the_model(topic: str) -> None:
    for model in ("Llama-3.1-70B", "Gemma-3-27B"):
        assert model in words(topic, model.lower())


def test_the_numbers_are_the_other_commands() -> None:
    size = kvcalc.size("llama-3.1-70b", context=[4096, 131_072])
    figures = {f.name: f.value for f in page("formula").figures}
    tradeoff = kvcalc.tradeoff("llama-3.1-70b", tokens=1000)
    compare = kvcalc.compare("llama-3.1-70b", context=4096, requests=8)

    assert figures == {
        "bytes_per_token": size.bytes_per_token,
        "bytes_at_context": size.contexts[0].bytes_per_request,
        "bytes_at_maximum": size.contexts[1].bytes_per_request,
    }
    assert page("why").figures[0].value == tradeoff.kv_bytes
    assert page("reduce").figures[0].value == compare.baseline_bytes
    assert {f.name: f.value for f in page("batching").figures}["batch_bytes"] == (
        (2048 + 4096 + 500) * 327_680
    )


def test_the_formula_stands_in_symbols_and_in_numbers() -> None:
    text = words("formula")

    assert "bytes per token = 2 · L · H_kv · d_h · s" in text
    assert "2 × 80 × 8 × 128 × 2 = 327,680 B" in text


def test_the_four_steps_of_a_decoded_token() -> None:
    section = page("attention").sections[0]
    assert section.grid is not None

    assert [row[1] for row in section.grid.rows] == ["project", "append", "attend", "predict"]
    assert "64 queries, 8 keys and 8 values of 128 a layer" in section.grid.rows[0][2]


def test_the_block_table_is_drawn() -> None:
    """45 tokens take 3 blocks of 16, 38 take 3, of which the first 2 (32 tokens) are shared."""
    lines = page("paged").sections[0].drawing
    blocks = [line.split() for line in lines[1:]]

    assert [(b[0], b[1]) for b in blocks] == [
        ("A", "0"), ("A", "1"), ("A", "2"), ("B", "0"), ("B", "1"), ("B", "2"),
    ]  # fmt: skip
    # A cell is two tokens: 13 of 16 are six and a half.
    assert [line.split()[-1] for line in lines[1:]] == [
        "████████", "████████", "██████▌·", "████████", "████████", "███·····",
    ]  # fmt: skip
    assert [line[17:28].strip() for line in lines[1:]] == [
        "→ 7", "→ 1", "→ 3", "→ 7, as A", "→ 1, as A", "→ 4",
    ]  # fmt: skip
    # 4 blocks of 16 · 327,680 B instead of 6.
    assert "20 MiB instead of 30 MiB" in words("paged")


def test_waste_is_the_articles_example() -> None:
    """500 + 3,800 + 200 of 3 · 4,096 tokens are used: 36.6%, so 63.4% is wasted."""
    assert "wastes 63.4%" in words("waste")
    assert "0.15" in words("waste")


def test_the_self_check_answers_ten_questions_by_commands() -> None:
    (section,) = page("self-check").sections
    assert section.grid is not None

    assert len(section.grid.rows) == len(section.commands) == 10


def test_the_traps_are_the_documents_and_more() -> None:
    said = " ".join(section.heading for section in page("traps").sections)

    for word in ("O(1)", "Matrix multiplications", "Context length", "batch", "Query heads",
                 "Every layer", "8-bit", "MB", "two GPUs"):  # fmt: skip
        assert word in said


def test_units_are_told_apart() -> None:
    text = words("units")

    assert "1,342,177,280 bytes at 4,096 tokens" in text
    assert "1.25 GiB or 1.34 GB" in text
    # 131,072 − 128,000 tokens of 320 KiB.
    assert f"{3072 * 320 // KIB} MiB" in text


@pytest.mark.parametrize("model", ["llama-3.1-70b", "gemma-3-27b", "mamba-2.8b"])
@pytest.mark.parametrize("topic", CONTRACT)
def test_every_command_that_is_shown_can_be_typed(topic: str, model: str) -> None:
    for section in page(topic, model).sections:
        for line in section.commands:
            program, command, *rest = shlex.split(line)
            assert program == "kvcalc"
            if command == "explain":
                assert rest[0] in TOPICS
                continue
            assert command in COMMANDS
            assert parse(spec_of(command), rest) is not None


@pytest.mark.parametrize(("topic", "model", "asked", "named"), [
    (None, None, None, "llama-3.1-70b"),
    ("gqa", None, "gqa", "llama-3.1-70b"),
    ("GQA", "gpt-2", "gqa", "gpt-2"),
    ("self_check", None, "self-check", "llama-3.1-70b"),
    ("gemma-3-27b", None, None, "gemma-3-27b"),
    (None, "gpt-2", None, "gpt-2"),
    ("all", "gpt-2", "all", "gpt-2"),
])  # fmt: skip
def test_a_word_that_is_no_topic_is_a_model(
    topic: str | None, model: str | None, asked: str | None, named: str
) -> None:
    result = explain(topic, model)

    assert (result.topic, result.model.id) == (asked, named)
    assert len(result.pages) == (15 if asked == "all" else 1 if asked else 0)


@pytest.mark.parametrize(("topic", "model", "code", "hint"), [
    ("wasted", None, "usage", "waste"),
    ("zzzz", None, "unknown_model", "kvcalc models"),
    ("wasted", "gpt-2", "usage", "waste"),
    ("waste", "gpt-22222", "unknown_model", "gpt-2"),
])  # fmt: skip
def test_unknown_words_are_refused_with_the_nearest(
    topic: str, model: str | None, code: str, hint: str
) -> None:
    with pytest.raises(KvcalcError) as caught:
        explain(topic, model)

    assert caught.value.code == code
    assert hint in (caught.value.hint or "")


def test_options_change_the_numbers() -> None:
    half = explain("formula", "llama-3.1-70b", kv_dtype="fp8", context=8192).pages[0]
    by_numbers = explain("formula", layers=32, kv_heads=8, head_dim=128).pages[0]

    assert {f.name: f.value for f in half.figures}["bytes_at_context"] == 8192 * 163_840
    assert by_numbers.figures[0].value == 2 * 32 * 8 * 128 * 2


def test_a_gpu_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KvcalcError, match="no gpu"):
        explain("batching", gpu="h1000")


def test_the_package_answers_when_it_is_called() -> None:
    """`kvcalc.explain` is a package and the command's function: it must do as both."""
    package: Any = __import__("kvcalc.explain").explain

    assert callable(package)
    assert package("gqa").topic == "gqa"


def test_rows_for_scripts() -> None:
    rows = explain("formula").main_rows()

    assert rows[0] == {"topic": "formula", "name": "bytes_per_token", "value": 327_680, "unit": "B"}
    assert len(explain().main_rows()) == 15
    assert data.csv(explain("formula")).startswith("topic,name,value,unit\n")


def test_the_result_has_a_schema() -> None:
    assert set(_result(ExplainResult)["properties"]) == set(explain("gqa").to_dict())


def test_all_pages_are_one_document() -> None:
    text = html.render(explain("all", "gpt-2"))

    assert text.count("<h1>") == 1
    for topic in CONTRACT:
        assert page(topic, "gpt-2").title.replace("'", "&#39;") in text


class Written(Output):
    """Keeps what would be written."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.content: str | bytes = ""

    def write(self, content: str | bytes) -> None:
        """Into memory."""
        self.content = content


def typed(*argv: str) -> str:
    """What the command line writes; the function is found as the program would find it."""
    options = parse(SPEC, [*argv, "-f", "plain"])
    assert options is not None
    out = Written(options)
    assert run(options, out) == 0
    assert isinstance(out.content, str)
    return out.content


@pytest.fixture
def wired(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kvcalc.explain` in the place where the program looks for a command's function."""
    monkeypatch.setattr(kvcalc, "explain", explain, raising=False)


@pytest.mark.usefixtures("wired")
def test_the_command_line() -> None:
    assert typed().startswith("15 pages on the KV cache, with the numbers of Llama-3.1-70B.")
    assert typed("gqa", "gpt-2").startswith("GPT-2 has 12 query heads and as many KV heads")
    compared = typed("formula", "llama-3.1-8b,llama-3.1-70b")
    assert "llama-3.1-8b" in compared
    assert "131,072 B = 128 KiB" in compared
    assert "327,680 B = 320 KiB" in compared


@pytest.mark.usefixtures("wired")
def test_three_words_are_refused() -> None:
    with pytest.raises(KvcalcError, match="one topic and one MODEL"):
        typed("gqa", "gpt-2", "gpt-3")
