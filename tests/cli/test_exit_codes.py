"""The exit code is the answer: 0 yes, 1 no, 2 could not answer; stdout holds the answer alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("args", [
    ("size", "llama-3.1-8b"),
    ("size", "--layers", "32", "--kv-heads", "32", "--head-dim", "128"),
    ("fit", "llama-3.1-8b", "--gpu", "h100", "--engine", "none"),
    ("waste", "--slots", "36", "--waste-fraction", "0.62"),
    ("tradeoff", "llama-3.1-8b", "--tokens", "1000"),
    ("compare", "llama-3.1-8b"),
    ("speed", "llama-3.1-8b", "--gpu", "h100"),
    ("offload", "llama-3.1-8b"),
    ("offload", "llama-3.1-8b", "--pool", "50GiB", "-n", "100"),
    ("timeline", "llama-3.1-8b", "--prompt", "4096", "--output", "4096"),
    ("models",), ("gpus", "show", "h100"), ("dtypes",), ("schema", "size"),
    ("completions", "bash"), ("--version",), ("--help",), ("-h",), ("help",),
    ("help", "size"), ("size", "--help"), ("fit", "llama-3.1-8b", "-h"), ("size", "--version"),
    ("-f", "json", "size", "llama-3.1-8b"), ("--color", "never", "--json", "size", "gpt-2"),
], ids=" ".join)  # fmt: skip
def test_an_answer_is_0_and_stderr_empty(kvcalc: Kvcalc, args: tuple[str, ...]) -> None:
    done = kvcalc(*args)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\n")


@pytest.mark.parametrize("args", [
    ("fit", "llama-3.1-405b", "--gpu", "4090", "--engine", "none"),
    ("fit", "llama-3.1-70b", "--gpu", "h100", "--engine", "none"),
    ("fit", "llama-3.1-70b", "--gpu", "4090,3090", "--engine", "none"),
    ("offload", "llama-3.1-8b", "--pool", "50GiB", "-n", "101"),
    ("offload", "opt-13b", "-c", "512", "--requests-per-second", "10", "--bandwidth", "25Gb/s"),
    ("offload", "llama-3.1-8b", "--pool", "50GiB", "--host-ram", "32GiB"),
], ids=" ".join)  # fmt: skip
def test_what_does_not_fit_is_1_and_answered(kvcalc: Kvcalc, args: tuple[str, ...]) -> None:
    """Weights larger than the GPU are an answer, not an error; so is a table without a yes."""
    done = kvcalc(*args, "--json")
    answer = json.loads(done.stdout)

    assert (done.returncode, answer["status"], answer["exit_code"]) == (1, "no", 1)
    assert answer["data"] is not None
    assert answer["errors"] == []
    assert "error" not in done.stderr


def test_one_yes_in_a_table_is_0(kvcalc: Kvcalc) -> None:
    done = kvcalc("fit", "llama-3.1-70b", "--gpu", "4090,h200", "--engine", "none", "--json")

    assert [row["fits"] for row in json.loads(done.stdout)["data"]["rows"]] == [False, True]
    assert done.returncode == 0


@pytest.mark.parametrize(("args", "said"), [
    (("siz", "llama-3.1-8b"), 'no command "siz"'),
    (("size", "lama-3.1-8b"), 'no model "lama-3.1-8b"'),
    (("fit", "llama-3.1-8b", "--gpu", "h1000"), 'no gpu "h1000"'),
    (("size", "llama-3.1-8b", "--contxt", "5"), "no option --contxt"),
    (("size", "llama-3.1-8b", "-c"), "requires an argument"),
    (("size", "llama-3.1-8b", "llama-3.1-70b"), "unexpected extra argument"),
    (("size",), "MODEL is missing"),
    (("size", ""), "MODEL is empty"),
    (("--json",), "no command"),
    (("fit",), "needs a MODEL"),
    (("schema", "nope"), "nope"),
    (("completions", "tcsh"), "tcsh"),
    (("completions",), "SHELL is missing"),
    (("models", "show"), "show needs a NAME"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")  # fmt: skip
def test_what_cannot_be_answered_is_2_in_one_line(
    kvcalc: Kvcalc, args: tuple[str, ...], said: str
) -> None:
    done = kvcalc(*args)
    lines = done.stderr.splitlines()

    assert done.returncode == 2
    assert lines[0].startswith("error: ")
    assert said in lines[0]
    assert [line[:6] for line in lines[1:]] in ([], [" hint:"])


def test_no_arguments_show_help_on_stderr(kvcalc: Kvcalc) -> None:
    done = kvcalc()

    assert (done.returncode, done.stdout) == (2, "")
    assert "kvcalc size llama-3.1-70b" in done.stderr


def test_help_wins_over_what_is_wrong_with_the_line(kvcalc: Kvcalc) -> None:
    done = kvcalc("size", "nope", "--no-such", "--help")

    assert done.returncode == 0
    assert done.stdout.startswith("kvcalc size MODEL")


def test_a_wrong_word_is_answered_with_the_nearest(kvcalc: Kvcalc) -> None:
    """The nearest commands, options, models, GPUs, dtypes, formats and choices are named."""
    cases = [
        (("tradeof",), "tradeoff"),
        (("size", "llama-3.1-8b", "--contxt", "5"), "--context"),
        (("size", "lama-3.1-70b"), "llama-3.1-70b"),
        (("fit", "llama-3.1-8b", "--gpu", "h10"), "h100"),
        (("size", "llama-3.1-8b", "--kv-dtype", "fp9"), "fp8"),
        (("size", "llama-3.1-8b", "--engine", "vlm"), "vllm"),
        (("size", "llama-3.1-8b", "-f", "jsn"), "json"),
        (("completions", "bsh"), "bash"),
    ]
    missing = [(args, want) for args, want in cases if want not in kvcalc(*args).stderr]

    assert missing == []


def test_a_bug_is_70_with_its_traceback_on_stderr(
    kvcalc: Kvcalc, environment: dict[str, str]
) -> None:
    """A damaged installation stands for a bug: an exception nobody expected."""
    spoil = "import kvcalc.answer as a; a.answer = None; import kvcalc.cli.main as m; import sys"
    done = subprocess.run(
        [sys.executable, "-c",
         f"{spoil}; sys.exit(m.run(['size', 'gpt-2', '--json']))"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    envelope = json.loads(done.stdout)

    assert done.returncode == 70
    assert "Traceback" in done.stderr
    assert (envelope["exit_code"], envelope["errors"][0]["code"]) == (70, "internal")
    assert kvcalc("size", "gpt-2").returncode == 0
