"""The one place that starts a program: bounded in time and in what it may print."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import IO, NamedTuple

from kvcalc.detect.device import Absent, Unusable

#: A driver that hangs, hangs for minutes; one that answers takes a second or two.
SECONDS = 5.0
MAX_BYTES = 1 << 20
#: Where these tools lie without being on everybody's PATH.
FOLDERS = ("/opt/rocm/bin", "/usr/lib/wsl/lib")


#: Programs under way: Ctrl-C leaves at once and ends them first.
running: list[subprocess.Popen[bytes]] = []


class Output(NamedTuple):
    """What a program said."""

    code: int
    stdout: str
    stderr: str


def run(tool: str, *arguments: str) -> Output:
    """Run one program, without a shell, and read what it prints.

    Raises:
        Absent: No such program.
        Unusable: It cannot be started, does not end in time, or prints without end.
    """
    path = shutil.which(tool) or shutil.which(tool, path=os.pathsep.join(FOLDERS))
    if path is None:
        raise Absent
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed words, and no shell
            [path, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError as error:
        raise Unusable(f"cannot be started: {error.strerror or 'not a program'}") from None
    running.append(process)
    end = time.monotonic() + SECONDS
    readers = [_Reader(pipe, process) for pipe in (process.stdout, process.stderr) if pipe]
    try:
        code = process.wait(SECONDS)
        for reader in readers:  # a child may hold the pipe after its parent is gone
            reader.join(max(end - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        raise Unusable(f"did not answer within {SECONDS:g} s") from None
    finally:
        # Never the number of a group that has ended: it may be another's by now.
        if process.returncode is None or any(reader.is_alive() for reader in readers):
            kill(process)
        process.wait()
        running.remove(process)
    if any(reader.too_much for reader in readers):
        raise Unusable("printed more than 1 MiB")
    if any(reader.is_alive() for reader in readers):
        raise Unusable(f"did not answer within {SECONDS:g} s")
    stdout, stderr = (reader.text() for reader in readers)
    return Output(code, stdout, stderr)


class _Reader(threading.Thread):
    """Reads one pipe to its end, or to `MAX_BYTES`, where it ends the program."""

    def __init__(self, pipe: IO[bytes], process: subprocess.Popen[bytes]) -> None:
        super().__init__(daemon=True)
        self.pipe, self.process = pipe, process
        self.pieces: list[bytes] = []
        self.too_much = False
        self.start()

    def run(self) -> None:
        size = 0
        with self.pipe:
            while piece := os.read(self.pipe.fileno(), 1 << 16):
                size += len(piece)
                if size > MAX_BYTES:
                    self.too_much = True
                    if self.process.returncode is None:
                        kill(self.process)
                    return
                self.pieces.append(piece)

    def text(self) -> str:
        """What was read; bytes that are no UTF-8 are shown as such."""
        return b"".join(self.pieces).decode("utf-8", "backslashreplace")


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it started itself: they share a session of their own."""
    if sys.platform == "win32":
        process.kill()
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
