"""Ctrl-C: 130 from the first statement on, no traceback, nothing half written."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")

#: The program as the console script starts it; it says when its first statement is reached.
START = """
import sys
import kvcalc.__main__ as program
run = program._run
def started(argv, **keywords):
    sys.stderr.write("started\\n")
    sys.stderr.flush()
    return run(argv, **keywords)
program._run = started
program.main()
"""
#: The same, interrupted when a module is looked for: the moment is the same in every run.
AT_IMPORT = """
import os, signal, sys
wanted, *sys.argv[1:] = sys.argv[1:]
from kvcalc.__main__ import main
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
main()
"""


def interrupted(
    environment: dict[str, str], args: tuple[str, ...], delay: float
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the program, sent SIGINT `delay` seconds after its start."""
    program = subprocess.Popen(
        [sys.executable, "-c", START, *args], env=environment, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    assert program.stderr is not None
    assert program.stderr.readline() == "started\n"
    time.sleep(delay)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    return program.returncode, out, err


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 5, 10, 20, 30, 40, 60, 80])
@pytest.mark.parametrize("args", [
    ("size", "llama-3.1-8b", "--json"),
    ("size", "llama-3.1-8b", "-f", "text"),
    ("fit", "--gpu", "h100", "--engine", "none"),
], ids=" ".join)  # fmt: skip
def test_at_any_time_it_is_130_or_the_whole_answer(
    environment: dict[str, str], args: tuple[str, ...], milliseconds: int
) -> None:
    jitter = random.random() * 2  # noqa: S311 - spreads the runs over more moments
    code, out, err = interrupted(environment, args, (milliseconds + jitter) / 1000)

    assert err == ""
    assert code in {130, 0}
    assert code == 130 or out.endswith("\n")


@pytest.mark.parametrize("module", [
    "kvcalc.cli.main", "kvcalc.cli.output", "kvcalc.cli.size", "typer", "kvcalc.answer",
    "kvcalc.core.size", "kvcalc.catalog.models", "kvcalc.report.data",
])  # fmt: skip
def test_during_each_import_it_is_130(environment: dict[str, str], module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_IMPORT, module, "size", "llama-3.1-8b", "--json"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_while_it_waits_for_input(environment: dict[str, str]) -> None:
    assert interrupted(environment, ("batch",), 0.5) == (130, "", "")


def test_during_work_no_partial_file_is_left(environment: dict[str, str], work: Path) -> None:
    """batch -o writes beside its target until the input ends; the old file stays as it was."""
    target = work / "x.jsonl"
    target.write_text("old\n")
    program = subprocess.Popen(
        [sys.executable, "-m", "kvcalc", "batch", "-o", str(target)], env=environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert program.stdin is not None
    program.stdin.write(b'{"command": "size", "model": "gpt-2"}\n')
    program.stdin.flush()
    deadline = time.monotonic() + 30
    while len(list(work.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)

    assert (program.returncode, out, err) == (130, b"", b"")
    assert [path.name for path in work.iterdir()] == ["x.jsonl"]
    assert target.read_text() == "old\n"


def test_called_from_python_it_raises_and_leaves_the_handler_alone(
    environment: dict[str, str],
) -> None:
    """Another program that calls main() keeps its own Ctrl-C and gets SystemExit."""
    script = (
        "import signal, sys, types\n"
        "import kvcalc.__main__ as program\n"
        "host = types.ModuleType('host')\n"
        "host.main = program.main\n"
        "sys.argv = ['kvcalc', 'size', 'gpt-2', '--json']\n"
        "exec('def call():\\n    main()', host.__dict__)\n"
        "try:\n    host.call()\nexcept SystemExit as left:\n    code = left.code\n"
        "print(code, signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "0 True"


def test_an_ignored_signal_stays_ignored(environment: dict[str, str]) -> None:
    """As in a shell's background job: the answer comes all the same."""
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", AT_IMPORT,
         "kvcalc.core.size", "size", "gpt-2", "--json"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0
    assert done.stdout.startswith('{"schema"')
