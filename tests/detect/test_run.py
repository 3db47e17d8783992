"""The runner: no tool hangs it, floods it or makes it fail otherwise than in one line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.detect import run as runner
from kvcalc.detect import sources
from kvcalc.detect.device import Absent, Unusable
from kvcalc.detect.run import run
from tests.detect.conftest import Tools

MOVE = shutil.which("mv") or "/bin/mv"
SLEEP = shutil.which("sleep") or "/bin/sleep"
H100 = "0, NVIDIA H100 80GB HBM3, 81559, 4, 81079, 550.54.15, GPU-3f6a, Disabled"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SECONDS", 0.2)


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(path: Path) -> bool:
    """Whether the process whose id the file holds ends soon."""
    pid = int(path.read_text(encoding="ascii"))
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_code_and_both_streams(tools: Tools) -> None:
    tools("nvidia-smi", body="echo out; echo err >&2; exit 9")

    assert run("nvidia-smi") == (9, "out\n", "err\n")


def test_arguments_pass_no_shell(tools: Tools) -> None:
    tools("nvidia-smi", body='printf "%s|" "$@"')

    assert run("nvidia-smi", "a b", "$(echo c)", "*").stdout == "a b|$(echo c)|*|"


@pytest.mark.usefixtures("tools")
def test_a_tool_that_is_not_there_is_absent() -> None:
    with pytest.raises(Absent):
        run("nvidia-smi")


@pytest.mark.usefixtures("impatient")
def test_a_hanging_tool_is_ended_with_its_children(tools: Tools, tmp_path: Path) -> None:
    tools("nvidia-smi", body=f"{SLEEP} 60 & echo $! > {tmp_path}/pid; wait")
    with pytest.raises(Unusable, match=r"did not answer within 0\.2 s"):
        run("nvidia-smi")

    assert not os.path.isdir("/proc") or gone(tmp_path / "pid")


@pytest.mark.usefixtures("impatient")
def test_a_child_that_keeps_the_pipe_does_not_keep_us(tools: Tools, tmp_path: Path) -> None:
    """The tool itself ends; what it left behind holds its standard output."""
    tools("nvidia-smi", body=f"{SLEEP} 60 & echo $! > {tmp_path}/pid; echo done")
    with pytest.raises(Unusable, match="did not answer"):
        run("nvidia-smi")

    assert not os.path.isdir("/proc") or gone(tmp_path / "pid")


def test_ctrl_c_ends_the_tool_too(tools: Tools, tmp_path: Path) -> None:
    tools("nvidia-smi", body=f"echo $$ > {tmp_path}/pid.new; {MOVE} {tmp_path}/pid.new "
          f"{tmp_path}/pid; {SLEEP} 60")  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    program = subprocess.Popen(
        [sys.executable, "-m", "kvcalc", "gpus", "--detect"], env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    for _ in range(600):
        if (tmp_path / "pid").exists():
            break
        time.sleep(0.05)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)

    assert (program.returncode, out, err) == (130, "", "")
    assert not os.path.isdir("/proc") or gone(tmp_path / "pid")


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_an_endless_answer_is_cut(tools: Tools, stream: str) -> None:
    line = "x" * 1000
    tools("nvidia-smi", body=f"while :; do echo {line}{stream}; done")
    with pytest.raises(Unusable, match="more than 1 MiB"):
        run("nvidia-smi")


def test_bytes_that_are_no_text_are_shown_as_such(tools: Tools) -> None:
    tools("nvidia-smi", body=r"printf 'caf\351 \377'")

    assert run("nvidia-smi").stdout == r"caf\xe9 \xff"


def test_a_file_that_is_no_program_is_told(tools: Tools) -> None:
    tools("nvidia-smi").write_bytes(b"\x7fELF and nothing else")
    with pytest.raises(Unusable, match="cannot be started"):
        run("nvidia-smi")


def test_the_first_source_that_answers_is_believed(tools: Tools) -> None:
    tools("nvidia-smi", H100)
    tools("rocm-smi", body="echo asked > asked; exit 1")
    reading = sources.read()

    assert [d.source for d in reading.devices] == ["nvidia-smi"]
    assert reading.failures == ()
    assert not os.path.exists("asked")


def test_a_tool_that_failed_is_remembered(tools: Tools) -> None:
    tools("nvidia-smi", "NVIDIA-SMI has failed because", code=9)
    tools("rocm-smi", '{"card0": {"Card series": "Radeon VII"}}')
    reading = sources.read()

    assert reading.devices[0].name == "Radeon VII"
    assert reading.failures == (
        'nvidia-smi: failed with exit code 9: "NVIDIA-SMI has failed because"',
    )


def test_no_gpu_is_one_line_of_all_that_was_tried(tools: Tools) -> None:
    tools("nvidia-smi", "No devices were found", code=6)
    tools("rocm-smi", "hello \x1b[31m")
    with pytest.raises(KvcalcError) as caught:
        sources.read()

    assert caught.value.code == "unknown_gpu"
    assert caught.value.message == (
        "no GPU found on this machine (nvidia-smi: no devices were found; "
        'rocm-smi: printed "hello \\x1b[31m", not JSON; '
        "not installed: NVML (kvcalc[gpu]), amd-smi, system_profiler)"
    )


def test_one_reading_serves_for_a_while(tools: Tools, tmp_path: Path) -> None:
    """A batch of a thousand lines starts one program; a tool that fails is not asked again."""
    tools("nvidia-smi", body=f"echo asked >> {tmp_path}/asked; exit 9")
    now = time.monotonic()
    for _ in range(20):
        with pytest.raises(KvcalcError):
            sources.read()
    times = len((tmp_path / "asked").read_text(encoding="ascii").splitlines())

    assert times <= 1 + (time.monotonic() - now) // sources.SECONDS + 1
