"""Engines' own names of options: the same answer as with kvcalc's name."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.options import OPTIONS
from kvcalc.cli.spec import COMMANDS, spec_of
from kvcalc.cli.spellings import MODEL, RENAMED, SETTINGS, SWITCHES, normalise

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
SIZE = frozenset(f for o in spec_of("size").all_options() for f in o.flags)
FLAGS = frozenset(f for o in spec_of("size").all_options() if o.is_flag for f in o.flags)


def data(done: subprocess.CompletedProcess[str]) -> Any:
    """`data` of an answer."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["data"]


@pytest.mark.parametrize(("familiar", "own"), [
    (("--max-model-len", "32k"), ("-c", "32k")),
    (("--max_model_len", "32k"), ("-c", "32k")),
    (("--max-model-len=32k",), ("-c", "32k")),
    (("--context-length", "8192"), ("--context", "8192")),
    (("-c8192",), ("-c", "8192")),
    (("-tp", "2"), ("--tp", "2")),
    (("--tensor-parallel-size", "2"), ("--tp", "2")),
    (("--tensor_parallel_size", "2"), ("--tp", "2")),
    (("--tensor_parallel_size=2",), ("--tp", "2")),
    (("--tp-size", "2"), ("--tp", "2")),
    (("-pp", "2"), ("--pp", "2")),
    (("--kv-cache-dtype", "fp8"), ("--kv-dtype", "fp8")),
    (("--kv_cache_dtype=fp8",), ("--kv-dtype", "fp8")),
    (("--kv_dtype", "fp8"), ("--kv-dtype", "fp8")),
    (("-ctk", "q8_0", "-ctv", "q4_0"), ("--k-dtype", "q8_0", "--v-dtype", "q4_0")),
    (("--cache-type-k", "q8_0"), ("--k-dtype", "q8_0")),
    (("--page-size", "32"), ("--block-size", "32")),
    (("--quantization", "awq"), ("--weights", "awq")),
    (("--users", "7"), ("-n", "7")),
    (("--sessions", "7", "--seq-len", "2k"), ("-n", "7", "-c", "2048")),
    (("-n7",), ("--requests", "7")),
], ids=" ".join)  # fmt: skip
def test_a_familiar_spelling_answers_the_same(
    kvcalc: Kvcalc, familiar: tuple[str, ...], own: tuple[str, ...]
) -> None:
    size = ("size", "llama-3.1-70b", "--json")

    assert data(kvcalc(*size, *familiar)) == data(kvcalc(*size, *own))


@pytest.mark.parametrize("word", MODEL)
def test_the_model_by_its_option(kvcalc: Kvcalc, word: str) -> None:
    named = data(kvcalc("size", word, "llama-3.1-8b", "--json"))

    assert named == data(kvcalc("size", "llama-3.1-8b", "--json"))


def test_a_model_by_its_numbers_in_hugging_face_names(kvcalc: Kvcalc) -> None:
    args = ("size", "--num_hidden_layers", "32", "--num_key_value_heads", "8", "--head_dim", "128")

    assert data(kvcalc(*args, "--json"))["bytes_per_token"] == 131072


def test_every_target_is_an_option() -> None:
    flags = {f for o in OPTIONS.values() for f in o.flags}

    assert set(RENAMED.values()) <= flags
    assert not (set(RENAMED) | set(SETTINGS) | set(SWITCHES)) & flags


def test_every_spelling_of_an_option_reaches_a_command() -> None:
    flags = {f for name in COMMANDS for o in spec_of(name).all_options() for f in o.flags}

    assert set(RENAMED.values()) <= flags


def test_settings_become_pairs() -> None:
    words = ["--max-num-seqs", "64", "--ctx-size=8192", "-np", "4", "--swa-full", "--parallel=2"]

    assert normalise(words, SIZE, FLAGS) == [
        "--set", "max_num_seqs=64", "--set", "n_ctx=8192", "--set", "n_seq_max=4",
        "--set", "swa_full=true", "--set", "n_seq_max=2",
    ]  # fmt: skip


def test_values_and_what_follows_two_dashes_are_left_alone() -> None:
    words = ["--weights", "-tp", "-c", "--max-model-len", "x", "--", "-tp", "--max_model_len"]

    assert normalise(words, SIZE, FLAGS) == words


def test_values_keep_their_underscores() -> None:
    words = ["--kv_dtype=fp8_per_token_head", "--v_dtype", "q4_0", "a_b"]

    assert normalise(words, SIZE, FLAGS) == [
        "--kv-dtype", "fp8_per_token_head", "--v-dtype", "q4_0", "a_b",
    ]  # fmt: skip


def test_an_unknown_option_is_named_as_it_was_written(kvcalc: Kvcalc) -> None:
    assert "no option --no-such" in kvcalc("size", "gpt-2", "--no-such", "1").stderr


def test_output_tokens_of_an_engine_are_no_file(kvcalc: Kvcalc, work: Path) -> None:
    """--osl is timeline's --output; where --output is a file, it must not create one."""
    done = kvcalc("size", "llama-3.1-8b", "--osl", "100")

    assert (done.returncode, list(work.iterdir())) == (2, [])
    assert "--osl" in done.stderr


def test_prompt_and_output_in_an_engines_words(kvcalc: Kvcalc) -> None:
    timeline = ("timeline", "llama-3.1-8b", "--json")
    own = data(kvcalc(*timeline, "--prompt", "100", "--output", "50"))

    assert data(kvcalc(*timeline, "--isl", "100", "--osl", "50")) == own
    assert data(kvcalc(*timeline, "--input-len=100", "--output_len=50")) == own


def test_a_missing_value_is_told(kvcalc: Kvcalc) -> None:
    done = kvcalc("size", "llama-3.1-8b", "--max-model-len")

    assert done.returncode == 2
    assert "requires an argument" in done.stderr
