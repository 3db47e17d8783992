"""Defaults: option, KVCALC_<OPTION>, ./kvcalc.toml, the app folder's kvcalc.toml, built in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def app(environment: dict[str, str]) -> Path:
    """The app folder of the clean environment (on Linux; elsewhere these tests are skipped)."""
    if sys.platform in {"darwin", "win32"}:
        pytest.skip("the app folder is elsewhere")
    folder = Path(environment["XDG_CONFIG_HOME"]) / "kvcalc"
    folder.mkdir(parents=True)
    return folder


def contexts(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Tokens of the answer's contexts."""
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return [c["tokens"] for c in answer["data"]["contexts"]]


def test_what_is_nearer_wins(kvcalc: Kvcalc, work: Path, app: Path) -> None:
    def ask(*options: str, **variables: str) -> list[int]:
        return contexts(kvcalc("size", "llama-3.1-8b", "--json", *options, env=variables))

    assert ask() == [4096, 131072]
    (app / "kvcalc.toml").write_text("context = 1000\n")
    assert ask() == [1000]
    (work / "kvcalc.toml").write_text("context = 2000\n")
    assert ask() == [2000]
    assert ask(KVCALC_CONTEXT="3000") == [3000]
    assert ask("-c", "4000", KVCALC_CONTEXT="3000") == [4000]


def test_a_commands_table_wins_over_the_general_keys(kvcalc: Kvcalc, work: Path) -> None:
    (work / "kvcalc.toml").write_text("context = 1000\n[size]\ncontext = 2000\n[fit]\ntp = 8\n")

    assert contexts(kvcalc("size", "llama-3.1-8b", "--json")) == [2000]


def test_the_nearer_file_wins_over_the_farther_ones_table(
    kvcalc: Kvcalc, work: Path, app: Path
) -> None:
    (app / "kvcalc.toml").write_text("[size]\ncontext = 1000\n")
    (work / "kvcalc.toml").write_text("context = 2000\n")

    assert contexts(kvcalc("size", "llama-3.1-8b", "--json")) == [2000]


@pytest.mark.parametrize(("text", "expected"), [
    ("context = [1024, 2048]", [1024, 2048]),
    ('context = "1k,2k"', [1024, 2048]),
    ('context = ["1k", 2048]', [1024, 2048]),
    ("context = 1024", [1024]),
    ('context = "8K"', [8192]),
])  # fmt: skip
def test_values_of_a_list_option(
    kvcalc: Kvcalc, work: Path, text: str, expected: list[int]
) -> None:
    (work / "kvcalc.toml").write_text(text + "\n")

    assert contexts(kvcalc("size", "llama-3.1-8b", "--json")) == expected


def test_a_variable_holds_a_comma_list(kvcalc: Kvcalc) -> None:
    done = kvcalc("size", "llama-3.1-8b", "--json", env={"KVCALC_CONTEXT": "1k,2k"})

    assert contexts(done) == [1024, 2048]


def test_keys_of_other_commands_are_passed_over(kvcalc: Kvcalc, work: Path) -> None:
    """`gpu` is no option of size; a general key is for the commands that have it."""
    (work / "kvcalc.toml").write_text('gpu = "h100"\nkv_dtype = "fp8"\n')

    done = kvcalc("size", "llama-3.1-8b", "--json")

    assert json.loads(done.stdout)["data"]["bytes_per_token"] == 65536


@pytest.mark.parametrize(("text", "said"), [
    ("contxt = 5\n", "./kvcalc.toml: contxt is no option"),
    ("[size]\ncontxt = 5\n", "./kvcalc.toml: [size] contxt is no option"),
    ("[siz]\ncontext = 5\n", "./kvcalc.toml: siz is no option"),
    ("tp = \n", "./kvcalc.toml: "),
    ("tp = true\n", "./kvcalc.toml: tp is"),
    ("tp = 1979-05-27\n", "./kvcalc.toml: tp is"),
    ("json = 5\n", "./kvcalc.toml: json is"),
    ('format = ["json"]\n', "./kvcalc.toml: format is a list"),
    ('tp = "many"\n', "--tp many is not a whole number"),
    ('format = "xml"\n', 'no format "xml"'),
])  # fmt: skip
def test_what_is_wrong_in_the_file_is_named(
    kvcalc: Kvcalc, work: Path, text: str, said: str
) -> None:
    (work / "kvcalc.toml").write_text(text)
    done = kvcalc("size", "llama-3.1-8b")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")
    assert len(done.stderr.splitlines()) == 2


def test_the_nearest_key_is_named(kvcalc: Kvcalc, work: Path) -> None:
    (work / "kvcalc.toml").write_text("kv-dtyp = 'fp8'\n")

    assert "kv_dtype" in kvcalc("size", "llama-3.1-8b").stderr


def test_an_unreadable_file(kvcalc: Kvcalc, work: Path) -> None:
    (work / "kvcalc.toml").write_bytes(b"context = \xff\xfe\n")
    done = kvcalc("size", "llama-3.1-8b", "--json")

    assert done.returncode == 2
    assert json.loads(done.stdout)["errors"][0]["code"] == "unreadable_input"


@pytest.mark.parametrize("word", ["maybe", "2"])
def test_a_flags_variable_is_true_or_false(kvcalc: Kvcalc, word: str) -> None:
    done = kvcalc("size", "llama-3.1-8b", env={"KVCALC_JSON": word})

    assert done.returncode == 2
    assert done.stderr.startswith(f"error: KVCALC_JSON is {word}")


@pytest.mark.parametrize(("word", "json_asked"), [("1", True), ("TRUE", True), ("0", False),
                                                  ("off", False), ("", False)])  # fmt: skip
def test_a_flags_variable(kvcalc: Kvcalc, word: str, json_asked: bool) -> None:
    done = kvcalc("size", "llama-3.1-8b", env={"KVCALC_JSON": word})

    assert done.stdout.startswith('{"schema"') is json_asked


def test_a_nearer_format_wins_over_a_farther_json(kvcalc: Kvcalc, work: Path) -> None:
    """`json` and `format` are one question: the variable wins over the file."""
    (work / "kvcalc.toml").write_text("json = true\n")
    done = kvcalc("size", "llama-3.1-8b", env={"KVCALC_FORMAT": "csv"})

    assert done.stdout.startswith("tokens,")


def test_unrelated_variables_are_nothing_to_us(kvcalc: Kvcalc) -> None:
    done = kvcalc("size", "gpt-2", env={"KVCALC_UNRELATED": "x", "CONTEXT": "5"})

    assert (done.returncode, done.stderr) == (0, "")


def test_help_does_not_read_the_file(kvcalc: Kvcalc, work: Path) -> None:
    (work / "kvcalc.toml").write_text("broken =\n")

    assert kvcalc("size", "--help").returncode == 0
    assert kvcalc("--version").returncode == 0


def test_a_misspelt_variable_is_named(kvcalc: Kvcalc) -> None:
    done = kvcalc("size", "gpt-2", env={"KVCALC_KV_DTYP": "fp8"})

    assert done.returncode == 2
    assert "the variable KVCALC_KV_DTYP is of no option" in done.stderr
    assert "nearest: KVCALC_KV_DTYPE" in done.stderr


def test_an_error_names_the_variable_or_file_that_set_its_option(
    kvcalc: Kvcalc, work: Path
) -> None:
    done = kvcalc("size", "gpt-2", env={"KVCALC_KV_DTYPE": "foo"})
    assert done.returncode == 2
    assert "KVCALC_KV_DTYPE sets --kv-dtype" in done.stderr
    (work / "kvcalc.toml").write_text('kv_dtype = "foo"\n')
    assert "kvcalc.toml sets --kv-dtype" in kvcalc("size", "gpt-2").stderr
    typed = kvcalc("size", "gpt-2", "--kv-dtype", "bar").stderr
    assert "sets --kv-dtype" not in typed
