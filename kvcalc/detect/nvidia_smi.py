"""nvidia-smi: `--query-gpu=… --format=csv,noheader,nounits`, memory in MiB.

The format is NVIDIA's: https://docs.nvidia.com/deploy/nvidia-smi/ . A field that a GPU does not
have is `[N/A]`, `[Not Supported]` or another text in brackets; on GB10 and Jetson that is the
memory itself. Exit codes: 6 no device, 9 no driver, 12 no NVML library.
"""

from __future__ import annotations

import re

from kvcalc.core.units import MIB, shown
from kvcalc.detect.device import MOST, Device, Unusable, difference, quoted
from kvcalc.detect.run import Output, run

NAME = "nvidia-smi"
_FIELDS = ("index", "name", "memory.total", "memory.used", "memory.free", "driver_version", "uuid")
#: Drivers before 450 know no MIG and refuse a query that asks for it.
_MIG = "mig.mode.current"
_NOT_THERE = re.compile(r"\[.*\]|N/A|Not Supported|ERR!|Unknown Error", re.IGNORECASE)
_NO_DEVICE = 6


def read() -> tuple[Device, ...]:
    """The GPUs that nvidia-smi lists.

    Raises:
        Absent: There is no nvidia-smi.
        Unusable: It found no GPU, failed, or printed something else.
    """
    said = _query((*_FIELDS, _MIG))
    if said.code and "not a valid field" in said.stdout + said.stderr:
        said = _query(_FIELDS)
    check(said)
    return parse(said.stdout)


def _query(fields: tuple[str, ...]) -> Output:
    return run(NAME, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")


def check(said: Output) -> None:
    """Refuse the answer of an nvidia-smi that failed; its reason is on either stream.

    Raises:
        Unusable: Naming it.
    """
    text = said.stdout.strip() or said.stderr.strip()
    if said.code == _NO_DEVICE or "No devices were found" in text:
        raise Unusable("no devices were found")
    if said.code:
        raise Unusable(f"failed with exit code {said.code}: {quoted(text)}")


def parse(text: str) -> tuple[Device, ...]:
    """The devices of a CSV answer, with or without the MIG column.

    Raises:
        Unusable: A line that is none; a list with a GPU missing is worse than none.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise Unusable("printed nothing")
    if len(lines) > MOST:
        raise Unusable(f"printed {len(lines):,} lines")
    return tuple(map(_device, lines))


def _device(line: str) -> Device:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) not in {len(_FIELDS), len(_FIELDS) + 1} or not re.fullmatch(
        "[0-9]{1,4}", cells[0]
    ):
        raise Unusable(f"printed {quoted(line)}, not a GPU")
    total, used, free = (_bytes(cell, line) for cell in cells[2:5])
    if free is None:
        free = difference(total, used)
    return Device(
        int(cells[0]), shown(cells[1], 100), total, used, free, NAME,
        uuid=None if _NOT_THERE.fullmatch(cells[6]) else cells[6],
        driver_version=None if _NOT_THERE.fullmatch(cells[5]) else shown(cells[5], 40),
        divided=cells[7:8] == ["Enabled"],
    )  # fmt: skip


def _bytes(cell: str, line: str) -> int | None:
    """MiB as bytes; None for a field that this GPU does not have."""
    if re.fullmatch("[0-9]{1,9}", cell):
        return int(cell) * MIB
    if _NOT_THERE.fullmatch(cell):
        return None
    raise Unusable(f"printed {quoted(line)}, not a GPU")
