"""-f text follows the terminal's width: no line of prose or table is wider."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from kvcalc.cli.help import command_help, overview
from kvcalc.cli.spec import COMMANDS, spec_of

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
FIT = ("fit", "llama-3.1-70b", "--engine", "none")
ANSWERS = [
    ("size", "llama-3.1-70b"),
    ("size", "gemma-3-27b", "-c", "8K,32K,128K"),
    ("size", "deepseek-v3"),
    ("size", "llama-3.1-8b,llama-3.1-70b"),
    ("size", "llama-3.1-70b", "--request", "2048", "--request", "4096"),
    (*FIT, "--gpu", "h100", "--weights", "int4"),
    (*FIT, "--gpu", "h100", "--weights", "int4", "-c", "128K", "-n", "9"),
    (*FIT, "--gpu", "8xh100", "--tp", "4", "--dp", "2"),
    FIT,
    ("fit", "--gpu", "4090", "--engine", "none"),
    ("timeline", "llama-3.1-70b", "--prompt", "4096", "--output", "4096"),
    ("waste", "llama-3.1-70b", "--request", "500,3800,200", "--max-context", "4096"),
    ("compare", "llama-3.1-70b"),
    ("speed", "llama-3.1-70b", "--gpu", "h100"),
    ("tradeoff", "llama-3.1-8b", "--tokens", "1000"),
    (
        "offload",
        "deepseek-v3",
        "-c",
        "8K,32000",
        "-n",
        "40",
        "--tp",
        "8",
        "--gpu",
        "h200",
        "--max-local-cpu-size",
        "50",
        "--bandwidth",
        "200Gb/s",
        "--requests-per-second",
        "3",
    ),
    ("models", "--family", "llama"),
    ("gpus", "--vendor", "amd"),
    ("dtypes",),
]
#: Lines to paste are one argument list and are never broken.
_PASTED = ("kvcalc ", "vllm ")


def too_wide(text: str, width: int, *, tables: bool) -> list[str]:
    """Lines wider than the terminal; those with columns only where `tables` says so."""
    wide = [line for line in text.splitlines() if len(line) > width]
    wide = [line for line in wide if not line.strip().startswith(_PASTED)]
    return wide if tables else [line for line in wide if "  " not in line.strip()]


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("args", ANSWERS, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    kvcalc: Kvcalc, args: tuple[str, ...], width: int
) -> None:
    done = kvcalc(*args, "-f", "text", env={"COLUMNS": str(width)})

    assert done.returncode in {0, 1}
    assert too_wide(done.stdout, width, tables=True) == []


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("args", ANSWERS, ids=" ".join)
def test_prose_wraps_on_a_narrow_terminal(
    kvcalc: Kvcalc, args: tuple[str, ...], width: int
) -> None:
    done = kvcalc(*args, "-f", "text", env={"COLUMNS": str(width)})

    assert done.returncode in {0, 1}
    assert too_wide(done.stdout, width, tables=False) == []


@pytest.mark.parametrize("width", ["0", "1", "-5", "x", "10", "100000"])
def test_odd_widths_are_survived(kvcalc: Kvcalc, width: str) -> None:
    done = kvcalc("size", "llama-3.1-70b", "-f", "text", env={"COLUMNS": width})

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_plain_is_never_wrapped(kvcalc: Kvcalc) -> None:
    narrow = kvcalc("size", "llama-3.1-70b", env={"COLUMNS": "40"}).stdout

    assert narrow == kvcalc("size", "llama-3.1-70b", env={"COLUMNS": "200"}).stdout


def test_the_first_line_answers_alone(kvcalc: Kvcalc) -> None:
    first = kvcalc("size", "llama-3.1-70b").stdout.splitlines()[0]

    assert first.startswith("Llama-3.1-70B keeps 320 KiB of KV cache per token")


def test_help_fits_a_narrow_terminal() -> None:
    """Examples alone may be wider, for they are to paste; at 80 nothing else is said."""
    pasted = ("  kvcalc ", "  vllm ", "  docker ", "  echo ")
    for command in COMMANDS:
        for width in (40, 60, 80):
            text = command_help(spec_of(command), width)
            wide = [x for x in text.splitlines() if len(x) > width and not x.startswith(pasted)]
            assert wide == []
            assert text.split() == command_help(spec_of(command)).split()
    assert not [x for x in overview(40).splitlines() if len(x) > 40 and not x.startswith(pasted)]
    assert overview(40).split() == overview().split()
