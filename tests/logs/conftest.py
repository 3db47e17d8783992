"""Logs written for a test, and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvcalc.logs.facts import Log
from kvcalc.logs.reader import read_log

Read = Callable[..., Log]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Writes lines (or bytes) to a file and reads it as a log."""

    def write(*lines: str, raw: bytes | None = None, name: str = "server.log") -> Log:
        path = tmp_path / name
        path.write_bytes(raw if raw is not None else "".join(f"{x}\n" for x in lines).encode())
        return read_log(str(path))

    return write
