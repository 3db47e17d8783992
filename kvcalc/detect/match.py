"""A device to its preset: by the name that the tool prints, and only if the memory agrees.

A wrong preset is worse than none: laptop chips, cut-down and enlarged cards carry the names of
others, and so a name must be known in full and the memory must be that preset's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kvcalc.catalog.gpus import Gpu, load_gpu
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import GIB, KIB, MIB, format_bytes
from kvcalc.detect.device import Device

#: Drivers of one card differ by up to 2%; ECC takes 6%, the next size of a card at least 10%.
SLACK_PERCENT = 4
#: Says how the board is mounted or shared out, not what it is.
_MARKS = re.compile(r"\((?:tm|r|c|nvgpu)\)|\b(?:OAM|VF|Graphics)\s*$", re.IGNORECASE)
_BRACKET = re.compile(r"[^\[\]]*\[([^\[\]]+)\]\s*")
_MEMINFO = "/proc/meminfo"


class Match(NamedTuple):
    """A device, and the preset it is; or why it is none."""

    device: Device
    gpu: Gpu | None
    reason: str | None = None

    @property
    def given_bytes(self) -> int | None:
        """What programs may take of a device without a preset, or a little more; None: unknown."""
        d = self.device
        if d.limit_bytes is not None:
            return d.limit_bytes
        return None if d.divided or d.installed else d.memory_total_bytes


def match(device: Device, user_dirs: Iterable[str] = ()) -> Match:
    """The preset of a device.

    Raises:
        KvcalcError: "invalid_preset" or "unreadable_input" for a file of the user.
    """
    gpu = _named(device.name, tuple(user_dirs))
    if gpu is None:
        return Match(device, None, "no preset has this name")
    if device.divided:
        return Match(device, None, "it is split into MIG devices, whose memory is less")
    if device.memory_total_bytes is None and gpu.unified_memory:
        device = _with_system_memory(device)
    total = device.memory_total_bytes
    if total is None:
        return Match(device, None, f"its memory cannot be read, so {gpu.id} cannot be told")
    low, high = _range(gpu, installed=device.installed)
    if not low <= total <= high:
        told = expected(gpu, installed=device.installed)
        return Match(device, None, f"{gpu.id} is called so and has {size_text(told)}")
    limit = device.limit_bytes
    if limit is not None and not gpu.low_bytes <= limit <= gpu.high_bytes:
        return Match(device, None, f"the system lets it take {size_text(limit)}, unlike {gpu.id}")
    return Match(device, gpu)


def _named(name: str, user_dirs: tuple[str, ...]) -> Gpu | None:
    """The preset of that name, of the name without marks, or of the one in brackets."""
    words = [name, " ".join(_MARKS.sub(" ", name).split())]
    if bracket := _BRACKET.fullmatch(name):
        words.append(bracket[1])
    for word in words:
        try:
            return load_gpu(word, user_dirs)
        except KvcalcError as error:  # noqa: PERF203 - three words at most
            if error.code != "unknown_gpu":
                raise
    return None


def expected(gpu: Gpu, *, installed: bool = False) -> int:
    """The bytes that a tool should show of this preset."""
    box = _box(gpu)
    if installed and box:
        return box
    return gpu.entry.get("visible_bytes") or gpu.memory_bytes


def _range(gpu: Gpu, *, installed: bool) -> tuple[int, int]:
    """What a tool may show: the reading it is known for, else from the program's share to the box.

    Installed memory has no drivers in between: it is the size on the box, or another machine.
    """
    box = _box(gpu)
    if installed and box:
        return box, box
    visible = gpu.entry.get("visible_bytes")
    ends = (visible, visible) if visible else (gpu.memory_bytes, max(gpu.memory_bytes, box))
    return ends[0] * (100 - SLACK_PERCENT) // 100, ends[1] * (100 + SLACK_PERCENT) // 100


def _box(gpu: Gpu) -> int:
    """The size on the box, binary as memory chips are; 0 if the preset has none."""
    found = re.match("([0-9]+) GI?B", str(gpu.entry.get("marketing", "")), re.IGNORECASE)
    return int(found[1]) * GIB if found else 0


def _with_system_memory(device: Device) -> Device:
    """A GPU that shares the system's memory has what the kernel has."""
    try:
        with open(_MEMINFO, encoding="ascii", errors="replace") as file:
            text = file.read(1 << 16)
    except OSError:
        return device
    sizes = {
        name: int(kib) * KIB
        for name, kib in re.findall(
            r"^(MemTotal|MemAvailable):\s+([0-9]{1,12}) kB$", text, re.MULTILINE
        )
    }
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    used = total - free if total is not None and free is not None and free <= total else None
    source = f"{device.source}, {_MEMINFO}"
    return device._replace(
        memory_total_bytes=total, memory_used_bytes=used, free_bytes=free, source=source
    )


def size_text(value: int) -> str:
    """A size in a message: with a plain blank."""
    return format_bytes(value).replace("\u00a0", " ")


def as_option(value: int) -> str:
    """A size as --gpu-memory takes it, in whole MiB: 16376MiB."""
    return f"{value // MIB}MiB"
