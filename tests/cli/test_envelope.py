"""Whoever asks for JSON gets the envelope, on failure too, however it was asked for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.report import data

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
KEYS = ["schema", "version", "command", "status", "exit_code", "data", "warnings", "errors"]


def envelope(text: str) -> dict[str, Any]:
    """The one line of JSON."""
    assert text.count("\n") == 1
    assert text.endswith("\n")
    loaded: dict[str, Any] = json.loads(text)
    assert list(loaded) == KEYS
    return loaded


def test_an_answer_comes_in_one_compact_line(kvcalc: Kvcalc) -> None:
    found = envelope(kvcalc("size", "llama-3.1-8b", "--json").stdout)

    assert (found["schema"], found["command"]) == ("kvcalc.size/1", "size")
    assert (found["status"], found["exit_code"], found["errors"]) == ("ok", 0, [])
    assert found["data"]["bytes_per_token"] == 131072


ASKED = {
    "--json": ((), ("--json",), {}, ""),
    "-f json": ((), ("-f", "json"), {}, ""),
    "-fjson": ((), ("-fjson",), {}, ""),
    "--format=json": ((), ("--format=json",), {}, ""),
    "before the command": (("--json",), (), {}, ""),
    "KVCALC_FORMAT": ((), (), {"KVCALC_FORMAT": "json"}, ""),
    "KVCALC_JSON": ((), (), {"KVCALC_JSON": "1"}, ""),
    "kvcalc.toml format": ((), (), {}, 'format = "json"\n'),
    "kvcalc.toml json": ((), (), {}, "json = true\n"),
}


@pytest.mark.parametrize("how", ASKED)
@pytest.mark.parametrize(("args", "code", "schema"), [
    (("size", "no-such-model"), "unknown_model", "kvcalc.size/1"),
    (("size", "llama-3.1-8b", "--no-such-option", "1"), "usage", "kvcalc.size/1"),
    (("size", "llama-3.1-8b", "-c", "256K"), "context_too_long", "kvcalc.size/1"),
    (("size", "llama-3.1-8b", "--tp", "3"), "not_divisible", "kvcalc.size/1"),
    (("size", "llama-3.1-8b", "--kv-dtype", "fp9"), "unknown_dtype", "kvcalc.size/1"),
    (("size", "llama-3.1-8b", "--engine", "vlm"), "unknown_engine", "kvcalc.size/1"),
    (("fit", "llama-3.1-8b", "--gpu", "h1000"), "unknown_gpu", "kvcalc.fit/1"),
    (("no-such-command",), "usage", "kvcalc.error/1"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_a_failure_comes_in_the_envelope_too(
    kvcalc: Kvcalc, work: Path, how: str, args: tuple[str, ...], code: str, schema: str
) -> None:
    before, after, variables, config = ASKED[how]
    if config:
        (work / "kvcalc.toml").write_text(config)
    done = kvcalc(*before, *args, *after, env=variables)
    found = envelope(done.stdout)

    assert done.returncode == 2
    assert (found["status"], found["exit_code"], found["data"]) == ("error", 2, None)
    assert (found["schema"], found["errors"][0]["code"]) == (schema, code)
    assert found["command"] == (None if schema == "kvcalc.error/1" else args[0])
    assert done.stderr.startswith(f"error: {found['errors'][0]['message']}\n")


def test_no_command_at_all_is_a_failure_like_others(kvcalc: Kvcalc) -> None:
    found = envelope(kvcalc(env={"KVCALC_FORMAT": "json"}).stdout)

    assert (found["schema"], found["command"]) == ("kvcalc.error/1", None)


def test_a_failure_goes_to_the_json_file_it_was_meant_for(kvcalc: Kvcalc, work: Path) -> None:
    done = kvcalc("size", "no-such-model", "-o", "x.json")

    assert (done.returncode, done.stdout) == (2, "")
    assert envelope((work / "x.json").read_text())["errors"][0]["code"] == "unknown_model"


def test_a_failed_write_is_told_on_stdout(kvcalc: Kvcalc, work: Path) -> None:
    done = kvcalc("size", "llama-3.1-8b", "-o", "no/such/x.json")

    assert done.returncode == 2
    assert envelope(done.stdout)["errors"][0]["code"] == "output_failed"
    assert list(work.iterdir()) == []


def test_a_failure_without_json_leaves_stdout_empty(kvcalc: Kvcalc) -> None:
    for asked in ((), ("-f", "csv"), ("-f", "jsonl"), ("-f", "text"), ("-f", "md")):
        done = kvcalc("size", "no-such-model", *asked)

        assert (done.returncode, done.stdout) == (2, "")


def test_the_option_wins_over_the_variable(kvcalc: Kvcalc) -> None:
    done = kvcalc("size", "no-such-model", "-f", "plain", env={"KVCALC_FORMAT": "json"})

    assert done.stdout == ""


def test_timeline_counts_tokens_with_output_and_writes_no_file(kvcalc: Kvcalc, work: Path) -> None:
    """There --output is a number; a failure must not be written into a file of that name."""
    args = ("timeline", "no-such-model", "--prompt", "10", "--output", "4096", "--json")
    done = kvcalc(*args)

    assert envelope(done.stdout)["errors"][0]["code"] == "unknown_model"
    assert list(work.iterdir()) == []


def test_json_asked_twice_and_differently_is_refused(kvcalc: Kvcalc) -> None:
    found = envelope(kvcalc("size", "llama-3.1-8b", "--json", "-f", "csv").stdout)

    assert found["errors"][0]["code"] == "usage"


def test_a_failure_is_utf_8_whatever_was_typed() -> None:
    """A byte that is none stands in argv as half a surrogate pair."""
    error = KvcalcError("usage", "--clock \udcff\x1b", "like \udcff")

    (said,) = data.envelope("simulate", version="0", exit_code=2, error=error)["errors"]
    assert said["message"] == "--clock \\udcff\\x1b"
    assert said["hint"] == "like \\udcff"
