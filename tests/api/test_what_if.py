"""Several values of an option: one answer a combination, in the order they were given."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kvcalc.answer import MAX_ROWS, answer, function_of, pairs
from kvcalc.cli.main import list_keys
from kvcalc.cli.spec import spec_of
from kvcalc.cli.stream import _SCREEN
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.size import SizeResult

NONE: frozenset[str] = frozenset()


def rows(command: str, lists: frozenset[str] = NONE, **options: object) -> Rows:
    result = answer(command, dict(options), lists=lists)
    assert isinstance(result, Rows)
    return result


def test_the_product_runs_in_option_order() -> None:
    r = rows("size", model=["llama-3.1-8b", "llama-3.1-70b"], kv_dtype=["bf16", "fp8"])

    assert [row.combination for row in r.rows] == [
        {"model": "llama-3.1-8b", "kv_dtype": "bf16"},
        {"model": "llama-3.1-8b", "kv_dtype": "fp8"},
        {"model": "llama-3.1-70b", "kv_dtype": "bf16"},
        {"model": "llama-3.1-70b", "kv_dtype": "fp8"},
    ]
    assert [row.result.bytes_per_token for row in r.rows if isinstance(row.result, SizeResult)] == [
        131_072,
        65_536,
        327_680,
        163_840,
    ]


def test_a_list_option_stays_one_list() -> None:
    """In size, -c fills `contexts`: no table."""
    result = answer(
        "size", {"model": "llama-3.1-8b", "context": [1, 2]}, lists=frozenset({"context"})
    )

    assert isinstance(result, SizeResult)
    assert [c.tokens for c in result.contexts] == [1, 2]


@pytest.mark.parametrize("value", [["fp8"], "fp8"])
def test_one_value_is_no_table(value: object) -> None:
    result = answer("size", {"model": "llama-3.1-8b", "kv_dtype": value}, lists=NONE)

    assert isinstance(result, SizeResult)
    assert result.bytes_per_token == 65_536


def test_an_empty_list_is_an_option_left_out() -> None:
    result = answer("size", {"model": "llama-3.1-8b", "kv_dtype": []}, lists=NONE)

    assert isinstance(result, SizeResult)
    assert result.bytes_per_token == 131_072


def test_any_row_that_says_yes_is_a_yes() -> None:
    """35 GiB on 80: 36 requests of 4,096 fit, 37 do not."""
    options: dict[str, Any] = {
        "model": "llama-3.1-70b",
        "weight_bytes": "35GiB",
        "gpu_memory": "80GiB",
        "engine": "none",
    }

    assert [r.result.yes for r in rows("fit", requests=[36, 37], **options).rows] == [True, False]
    assert rows("fit", requests=[36, 37], **options).yes
    assert not rows("fit", requests=[37, 38], **options).yes


def test_rows_hold_the_combination_and_the_full_answer() -> None:
    r = rows("size", model="llama-3.1-8b", kv_dtype=["bf16", "fp8"])
    (first, second) = r.to_dict()["rows"]

    assert first["combination"] == {"kv_dtype": "bf16"}
    single = answer("size", {"model": "llama-3.1-8b", "kv_dtype": "fp8"}, lists=NONE)
    assert {"combination": {"kv_dtype": "fp8"}, **single.to_dict()} == second
    assert r.command == "size"


def test_an_absurd_number_of_combinations_is_refused() -> None:
    many = [str(n) for n in range(1, 102)]

    assert MAX_ROWS < 101 * 101
    with pytest.raises(KvcalcError, match="10,201 combinations") as refused:
        answer("size", {"model": "llama-3.1-8b", "requests": many, "block_size": many}, lists=NONE)
    assert refused.value.code == "usage"


def test_a_wrong_value_among_several_is_named() -> None:
    with pytest.raises(KvcalcError, match="fp9"):
        answer("size", {"model": "llama-3.1-8b", "kv_dtype": ["bf16", "fp9"]}, lists=NONE)


def test_settings_are_pairs() -> None:
    assert pairs(["a=1", " b = x=y,z ", "c="]) == {"a": "1", "b": "x=y,z", "c": ""}


@pytest.mark.parametrize("texts", [["a"], ["=1"], [" =1"], ["a=1", "a=2"], [""]])
def test_other_settings_are_refused(texts: list[str]) -> None:
    with pytest.raises(KvcalcError) as refused:
        pairs(texts)

    assert refused.value.code == "usage"


@pytest.mark.parametrize("command", ["size", "fit", "models", "gpus", "dtypes"])
def test_every_option_is_a_keyword_of_the_python_function(command: str) -> None:
    spec = spec_of(command)
    options = {o.key for o in spec.all_options()} - _SCREEN
    keywords = set(inspect.signature(function_of(command)).parameters)

    assert options <= keywords
    assert keywords - options <= {"model", "name"}


def test_which_options_are_lists() -> None:
    lists = {"context", "request", "image", "pp_layers", "group", "set"}
    assert lists == list_keys(spec_of("size"))
    assert {"pp_layers", "group", "set"} == list_keys(spec_of("fit"))


def test_a_table_tells_what_its_rows_warn_of() -> None:
    """Once each, whatever the number of combinations."""
    options = {"model": "llama-3.1-8b", "context": ["200000"], "allow_long_context": True,
               "kv_dtype": ["bf16", "fp8"]}  # fmt: skip
    made = answer("size", options, lists=frozenset({"context"}))
    alone = answer("size", {**options, "kv_dtype": ["bf16"]}, lists=frozenset({"context"}))

    assert isinstance(made, Rows)
    assert isinstance(alone, SizeResult)
    assert made.warnings == alone.warnings
    assert [w.code for w in made.warnings] == ["beyond_maximum"]
