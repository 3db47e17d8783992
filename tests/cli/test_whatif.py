"""Comma lists and repeated options on the command line: one row a combination."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from tests.answers import ask

FIT = ("fit", "llama-3.1-70b", "--engine", "none", "--weight-bytes", "35GiB",
       "--gpu-memory", "80GiB")  # fmt: skip


def combinations(*argv: str) -> list[dict[str, Any]]:
    return [row["combination"] for row in ask(*argv, "--json").data["rows"]]


@pytest.mark.parametrize(
    "options",
    [
        ("--kv-dtype", "bf16,fp8"),
        ("--kv-dtype", "bf16", "--kv-dtype", "fp8"),
        ("--kv-dtype=bf16", "--kv-dtype=fp8"),
        ("--kv-cache-dtype", "bf16, fp8"),
        ("--kv_cache_dtype", "bf16", "--kv-dtype", "fp8"),
    ],
)
def test_repeating_an_option_equals_a_comma_list(options: tuple[str, ...]) -> None:
    assert combinations("size", "llama-3.1-8b", *options) == [
        {"kv_dtype": "bf16"}, {"kv_dtype": "fp8"},
    ]  # fmt: skip


@pytest.mark.parametrize("options", [("-c", "1,2"), ("-c1", "-c", "2"), ("--max-model-len", "1,2")])
def test_contexts_of_size_are_no_combinations(options: tuple[str, ...]) -> None:
    data = ask("size", "llama-3.1-8b", *options, "--json").data

    assert [c["tokens"] for c in data["contexts"]] == [1, 2]


def test_contexts_of_fit_are() -> None:
    assert combinations(*FIT, "-c", "4k,8k") == [{"context": "4k"}, {"context": "8k"}]


def test_the_product_follows_the_order_of_the_options() -> None:
    first = combinations(*FIT, "-c", "4k,8k", "--kv-dtype", "bf16,fp8")
    second = combinations(*FIT, "--kv-dtype", "bf16,fp8", "-c", "4k,8k")

    assert [list(c.values()) for c in first] == [
        ["4k", "bf16"], ["4k", "fp8"], ["8k", "bf16"], ["8k", "fp8"],
    ]  # fmt: skip
    assert [list(c.values()) for c in second] == [
        ["bf16", "4k"], ["bf16", "8k"], ["fp8", "4k"], ["fp8", "8k"],
    ]  # fmt: skip


def test_rows_are_full_answers() -> None:
    """36 requests of 4,096 tokens and 18 of 8,192."""
    rows = ask(*FIT, "-c", "4k,8k", "--json").data["rows"]
    single = ask(*FIT, "-c", "8k", "--json").data

    assert [row["max_requests"] for row in rows] == [36, 18]
    assert {k: v for k, v in rows[1].items() if k != "combination"} == single


def test_models_are_a_list_in_one_argument() -> None:
    rows = ask("size", "llama-3.1-8b, llama-3.1-70b,gpt-3-175b", "--json").data["rows"]

    assert [row["bytes_per_token"] for row in rows] == [131_072, 327_680, 4_718_592]


def test_gpus_are_alternatives() -> None:
    rows = ask("fit", "llama-3.1-8b", "--engine", "none", "--gpu", "h100,2x4090", "--json").data
    found = [(row["gpu"]["id"], row["gpu"]["count"]) for row in rows["rows"]]

    assert found == [("h100-sxm", 1), ("rtx4090", 2)]


@pytest.mark.parametrize(
    ("requests", "code", "status"), [("36,37", 0, "ok"), ("37,38", 1, "no"), ("36", 0, "ok")]
)
def test_the_exit_code_is_0_if_any_row_says_yes(requests: str, code: int, status: str) -> None:
    answer = ask(*FIT, "-n", requests, "--json")

    assert (answer.code, answer.envelope["exit_code"]) == (code, code)
    assert answer.envelope["status"] == status


def test_settings_and_groups_keep_their_commas() -> None:
    """A group is one text; several make one model, not several."""
    argv = ("size", "--group", "2*full:8x128", "--group", "1*full:8x128", "--json")

    assert ask(*argv).data["model"]["layers"] == 3
    answer = ask("size", "llama-3.1-8b", "--set", "a=1,2", "--json")
    assert answer.envelope["errors"][0]["code"] == "unknown_setting"


def test_csv_and_jsonl_hold_a_row_each_with_joined_keys() -> None:
    argv = ("size", "llama-3.1-8b", "--kv-dtype", "bf16,fp8", "-f")
    table = list(csv.DictReader(io.StringIO(ask(*argv, "csv").text)))
    lines = [json.loads(line) for line in ask(*argv, "jsonl").text.splitlines()]

    assert [row["combination.kv_dtype"] for row in table] == ["bf16", "fp8"]
    assert [row["bytes_per_token"] for row in table] == ["131072", "65536"]
    assert [row["bytes_per_token"] for row in lines] == [131_072, 65_536]
    assert lines[0]["model.id"] == "llama-3.1-8b"


@pytest.mark.parametrize("form", ["plain", "text", "md"])
def test_the_table_shows_every_combination(form: str) -> None:
    text = ask(*FIT, "-c", "4k,8192", "--kv-dtype", "bf16,fp8", "-f", form).text

    for words in (("4,096", "bf16", "36"), ("4,096", "fp8", "72"), ("8,192", "bf16", "18")):
        assert any(all(word in line for word in words) for line in text.splitlines()), words
    assert "4 of 4 combinations fit" in text


def test_sizes_of_several_models_are_the_articles_table() -> None:
    """KiB a token and GiB at 4,096 and 131,072 tokens: 128, 0.50, 16.00; 320, 1.25, 40.00."""
    models = "llama-3.1-8b,llama-3.1-70b,llama-3.1-405b"
    lines = ask("size", models, "-c", "4096,131072", "-f", "plain").text.splitlines()

    assert ["llama-3.1-8b", "32", "8", "128", "128.00", "131,072", "0.50", "16.00"] in [
        line.split() for line in lines
    ]
    assert ["llama-3.1-405b", "126", "8", "128", "504.00", "516,096", "1.97", "63.00"] in [
        line.split() for line in lines
    ]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("size", "llama-3.1-8b,no-such", "--json"), "no-such"),
        (("size", "llama-3.1-8b", "--kv-dtype", "bf16,fp9", "--json"), "fp9"),
        (("size", "llama-3.1-8b", "--kv-dtype", "bf16,", "--json"), "--kv-dtype"),
        (("size", "llama-3.1-8b", "--tp", "1,3", "--json"), "--tp 3"),
        (("size", ",", "--json"), "MODEL"),
    ],
)
def test_one_wrong_value_fails_the_table(argv: tuple[str, ...], words: str) -> None:
    envelope = ask(*argv).envelope

    assert envelope["status"] == "error"
    assert words in envelope["errors"][0]["message"]
