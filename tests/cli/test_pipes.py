"""stdout, pipes, colour and encodings: what is written, and how it ends when nobody reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
PROGRAM = [sys.executable, "-m", "kvcalc"]
ESC = "\x1b"
ANSWER = ("size", "llama-3.1-8b")
NO = ("fit", "llama-3.1-405b", "--gpu", "4090", "--engine", "none")
posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes and devices")


@pytest.mark.parametrize("form", ["plain", "text", "json", "jsonl", "csv", "md"])
@pytest.mark.parametrize("args", [ANSWER, NO, ("models", "--family", "qwen"), ("size", "nope")],
                         ids=" ".join)  # fmt: skip
def test_a_pipe_gets_no_escape_codes(kvcalc: Kvcalc, args: tuple[str, ...], form: str) -> None:
    done = kvcalc(*args, "-f", form)

    assert ESC not in done.stdout + done.stderr


@pytest.mark.parametrize(("options", "variables", "coloured"), [
    ((), {}, False),
    ((), {"FORCE_COLOR": "1"}, True),
    ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ((), {"FORCE_COLOR": "", "NO_COLOR": ""}, False),
    (("--color", "always"), {}, True),
    (("--color", "always"), {"NO_COLOR": "1"}, True),
    (("--color=never",), {"FORCE_COLOR": "1"}, False),
    (("--color", "auto"), {}, False),
    (("-f", "text"), {}, False),
    (("-f", "text"), {"FORCE_COLOR": "1"}, True),
    (("-f", "plain", "--color", "always"), {}, False),
    (("-f", "json", "--color", "always"), {}, False),
    ((), {"KVCALC_COLOR": "always"}, True),
], ids=str)  # fmt: skip
def test_colour_follows_the_option_then_the_variables(
    kvcalc: Kvcalc, options: tuple[str, ...], variables: dict[str, str], coloured: bool
) -> None:
    done = kvcalc(*NO, *options, env=variables)

    assert (ESC in done.stdout) is coloured
    assert done.returncode == 1


def test_a_file_is_never_coloured(kvcalc: Kvcalc, work: Path) -> None:
    kvcalc(*NO, "-f", "text", "-o", "x.txt", env={"FORCE_COLOR": "1"})

    assert ESC not in (work / "x.txt").read_text()


def closed_pipe(args: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and stderr of a program whose reader has left before it wrote."""
    program = subprocess.Popen(
        [*PROGRAM, *args], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        encoding="utf-8",
    )  # fmt: skip
    assert program.stdout is not None
    program.stdout.close()
    assert program.stderr is not None
    said = program.stderr.read()
    program.stderr.close()
    return program.wait(timeout=60), said


@posix
@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(("args", "code"), [
    (ANSWER, 0), ((*ANSWER, "--json"), 0), ((*ANSWER, "-f", "text"), 0), (NO, 1),
    ((*NO, "--json"), 1), (("--version",), 0), (("size", "--help"), 0), (("models",), 0),
    (("completions", "zsh"), 0), ((*ANSWER, "-o", "/dev/stdout"), 0),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")  # fmt: skip
def test_a_closed_pipe_ends_quietly_with_the_answers_code(
    environment: dict[str, str], args: tuple[str, ...], code: int, unbuffered: bool
) -> None:
    if unbuffered:
        environment["PYTHONUNBUFFERED"] = "1"

    assert closed_pipe(args, environment) == (code, "")


@posix
def test_a_closed_pipe_does_not_hide_a_failure(environment: dict[str, str]) -> None:
    code, said = closed_pipe(("size", "nope", "--json"), environment)

    assert code == 2
    assert said.startswith('error: no model "nope"')
    assert len(said.splitlines()) == 2


@posix
def test_a_pipeline_that_reads_nothing(environment: dict[str, str]) -> None:
    line = f'"{sys.executable}" -m kvcalc size llama-3.1-8b | head -c 0; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("0\n", "")


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("args", [
    ANSWER, (*ANSWER, "--json"), ("size", "--help"), ("--version",), ("models", "--names"),
    ("completions", "bash"),
], ids=" ".join)  # fmt: skip
def test_a_full_disk_is_a_failed_write(environment: dict[str, str], args: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PROGRAM, *args], env=environment, stdout=full, stderr=subprocess.PIPE,
            encoding="utf-8", check=False,
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        "error: cannot write to standard output: No space left on device"
    )
    assert "Traceback" not in done.stderr


@posix
@pytest.mark.parametrize("args", [ANSWER, (*ANSWER, "--json"), ("--version",), ("size", "--help")],
                         ids=" ".join)  # fmt: skip
def test_a_closed_standard_output_is_a_failed_write(
    environment: dict[str, str], args: tuple[str, ...]
) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, *args]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "error: standard output is closed"
    assert "Traceback" not in done.stderr


@posix
def test_a_closed_stderr_loses_the_message_and_keeps_the_code(environment: dict[str, str]) -> None:
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM, "size", "nope", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert json.loads(done.stdout)["errors"][0]["code"] == "unknown_model"


ASCII_ONLY = (
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"PYTHONIOENCODING": "latin-1"},
)


@pytest.mark.parametrize("variables", ASCII_ONLY, ids=str)
@pytest.mark.parametrize("form", ["plain", "text"])
def test_other_encodings_get_ascii_glyphs(
    environment: dict[str, str], variables: dict[str, str], form: str
) -> None:
    """≈ becomes ~, ✗ becomes x, − becomes -: nothing is lost and no ? appears."""
    for args in (ANSWER, NO, ("fit", "llama-3.1-70b", "--gpu", "h100", "--weights", "int4")):
        done = subprocess.run(
            [*PROGRAM, *args, "-f", form], env={**environment, **variables}, capture_output=True,
            check=False,
        )  # fmt: skip

        assert done.returncode in {0, 1}
        assert done.stdout.isascii()
        assert b"?" not in done.stdout
        assert done.stderr.isascii()


@pytest.mark.parametrize("variables", ASCII_ONLY, ids=str)
def test_json_is_utf8_in_every_locale(
    environment: dict[str, str], variables: dict[str, str]
) -> None:
    done = subprocess.run(
        [*PROGRAM, *ANSWER, "--json"], env={**environment, **variables}, capture_output=True,
        check=True,
    )  # fmt: skip

    assert "×" in json.loads(done.stdout.decode("utf-8"))["data"]["formula"]["numbers"]


def test_errors_in_ascii(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*PROGRAM, "size", "modèle-ζ", "--json"], capture_output=True, check=False,
        env={**environment, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.startswith(b"error: no model")
    assert json.loads(done.stdout.decode("utf-8"))["errors"][0]["code"] == "unknown_model"
