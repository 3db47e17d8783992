"""-o: a regular file whole or not at all, keeping its mode; devices directly; endings decide."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
ANSWER = ("size", "llama-3.1-8b")
posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes and devices")


@pytest.mark.parametrize(("name", "begins"), [
    ("x.json", '{"schema":"kvcalc.size/1"'),
    ("x.jsonl", '{"tokens":4096'),
    ("x.csv", "tokens,"),
    ("x.md", "**Llama-3.1-8B"),
    ("x.txt", "Llama-3.1-8B keeps"),
    ("x", "Llama-3.1-8B keeps"),
    ("X.JSON", '{"schema":"kvcalc.size/1"'),
])  # fmt: skip
def test_the_ending_sets_the_format(kvcalc: Kvcalc, work: Path, name: str, begins: str) -> None:
    done = kvcalc(*ANSWER, "-o", name)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (work / name).read_text("utf-8").startswith(begins)
    assert [path.name for path in work.iterdir()] == [name]


def test_the_format_option_wins_over_the_ending(kvcalc: Kvcalc, work: Path) -> None:
    kvcalc(*ANSWER, "-o", "x.json", "-f", "csv")

    assert (work / "x.json").read_text().startswith("tokens,")


def test_a_dash_is_standard_output(kvcalc: Kvcalc, work: Path) -> None:
    done = kvcalc(*ANSWER, "-o", "-", "--json")

    assert json.loads(done.stdout)["status"] == "ok"
    assert list(work.iterdir()) == []


def test_a_no_is_written_too(kvcalc: Kvcalc, work: Path) -> None:
    done = kvcalc("fit", "llama-3.1-405b", "--gpu", "4090", "--engine", "none", "-o", "x.json")

    assert done.returncode == 1
    assert json.loads((work / "x.json").read_text())["status"] == "no"


def test_a_missing_folder_is_named(kvcalc: Kvcalc, work: Path) -> None:
    done = kvcalc(*ANSWER, "-o", "plans/a.txt")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: cannot write plans/a.txt: no folder plans\n"
        " hint: nothing was written; mkdir plans\n"
    )
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("path", [".", ""])
def test_what_is_no_file_is_refused(kvcalc: Kvcalc, work: Path, path: str) -> None:
    done = kvcalc(*ANSWER, "-o", path)

    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert list(work.iterdir()) == []


@posix
def test_an_existing_file_keeps_its_mode(kvcalc: Kvcalc, work: Path) -> None:
    target = work / "x.json"
    target.write_text("old")
    target.chmod(0o640)
    kvcalc(*ANSWER, "-o", "x.json")

    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert json.loads(target.read_text())["status"] == "ok"


@posix
def test_a_link_is_followed_not_replaced(kvcalc: Kvcalc, work: Path) -> None:
    (work / "real.json").write_text("old")
    (work / "link.json").symlink_to("real.json")
    kvcalc(*ANSWER, "-o", "link.json")

    assert (work / "link.json").is_symlink()
    assert json.loads((work / "real.json").read_text())["status"] == "ok"


def test_a_failed_question_leaves_an_existing_file_alone(kvcalc: Kvcalc, work: Path) -> None:
    (work / "x.txt").write_text("old")
    done = kvcalc("size", "no-such-model", "-o", "x.txt")

    assert done.returncode == 2
    assert (work / "x.txt").read_text() == "old"


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_device_is_a_failed_write(kvcalc: Kvcalc) -> None:
    done = kvcalc(*ANSWER, "-o", "/dev/full")

    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write /dev/full: No space left on device\n")


@posix
def test_devices_are_written_directly(kvcalc: Kvcalc) -> None:
    assert kvcalc(*ANSWER, "--json", "-o", "/dev/stdout").stdout.startswith('{"schema"')
    assert kvcalc(*ANSWER, "--json", "-o", "/dev/stderr").stderr.startswith('{"schema"')
    assert kvcalc(*ANSWER, "-o", "/dev/null").returncode == 0
    assert os.path.exists("/dev/null")


@posix
def test_the_standard_output_that_is_a_file_is_appended_to(
    environment: dict[str, str], work: Path
) -> None:
    """`-o /dev/stdout >> log` must not replace the log."""
    log = work / "log"
    log.write_text("first\n")
    with log.open("ab") as out:
        program = [sys.executable, "-m", "kvcalc", *ANSWER, "-o", "/dev/stdout"]
        subprocess.run(program, env=environment, stdout=out, check=True)

    assert log.read_text().startswith("first\nLlama-3.1-8B")


@posix
def test_a_named_pipe_is_written_directly(kvcalc: Kvcalc, work: Path) -> None:
    os.mkfifo(work / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((work / "pipe").read_text()))
    reader.start()
    done = kvcalc(*ANSWER, "--json", "-o", "pipe")
    reader.join(timeout=60)

    assert done.returncode == 0
    assert json.loads(read[0])["status"] == "ok"
    assert stat.S_ISFIFO((work / "pipe").stat().st_mode)


@posix
@pytest.mark.skipif(os.name != "nt" and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(kvcalc: Kvcalc, work: Path) -> None:
    locked = work / "locked"
    locked.mkdir(0o555)
    done = kvcalc(*ANSWER, "-o", "locked/x.json")

    assert done.returncode == 2
    assert "cannot write locked/x.json" in done.stderr


def test_batch_writes_its_file_whole(kvcalc: Kvcalc, work: Path) -> None:
    lines = '{"command": "size", "model": "gpt-2"}\n' * 3
    done = kvcalc("batch", "-o", "x.jsonl", input=lines)

    assert (done.returncode, done.stdout) == (0, "")
    assert len((work / "x.jsonl").read_text().splitlines()) == 3
    assert [path.name for path in work.iterdir()] == ["x.jsonl"]
