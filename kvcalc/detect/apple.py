"""macOS: system_profiler names the GPU, sysctl says how much memory it shares with the system.

Metal lets a program have a part of it (recommendedMaxWorkingSetSize), which no tool prints; the
presets say how much. `sysctl iogpu.wired_limit_mb` is not 0 where somebody set it.
"""

from __future__ import annotations

import re
from typing import Any

from kvcalc.core.units import GIB, MIB, shown
from kvcalc.detect.device import MOST, Absent, Device, Unusable, decoded, quoted, whole
from kvcalc.detect.run import run

NAME = "system_profiler"
_SIZES = {"MB": MIB, "GB": GIB}


def read() -> tuple[Device, ...]:
    """The GPUs that system_profiler lists.

    Raises:
        Absent: This is no Mac.
        Unusable: It failed, or printed something else.
    """
    said = run(NAME, "SPDisplaysDataType", "-json")
    if said.code:
        raise Unusable(f"failed with exit code {said.code}: {quoted(said.stderr)}")
    return parse(said.stdout, _sysctl("hw.memsize"), _sysctl("iogpu.wired_limit_mb"))


def _sysctl(name: str) -> str:
    try:
        return run("sysctl", "-n", name).stdout
    except (Absent, Unusable):
        return ""


def parse(displays: str, memsize: str, wired_limit_mib: str = "") -> tuple[Device, ...]:
    """The devices: an Apple GPU with the memory of the machine, others with their own.

    Args:
        displays: `system_profiler SPDisplaysDataType -json`.
        memsize: `sysctl -n hw.memsize`, in bytes.
        wired_limit_mib: `sysctl -n iogpu.wired_limit_mb`; 0 or nothing where it is not set.

    Raises:
        Unusable: No JSON, or no GPU in it.
    """
    data = decoded(displays)
    entries = data.get("SPDisplaysDataType") if isinstance(data, dict) else None
    if not isinstance(entries, list) or len(entries) > MOST:
        raise Unusable(f"printed {quoted(displays)}, not a list of GPUs")
    found = [entry for entry in entries if isinstance(entry, dict) and _name(entry)]
    if not found:
        raise Unusable("no devices were found")
    total, limit = whole(memsize.strip()), whole(wired_limit_mib.strip())
    return tuple(
        Device(
            index, _name(entry), total, None, None, NAME, installed=True,
            limit_bytes=limit * MIB if limit else None,
        )
        if _name(entry).startswith("Apple ")
        else Device(index, _name(entry), _own_memory(entry), None, None, NAME)
        for index, entry in enumerate(found)
    )  # fmt: skip


def _name(entry: dict[str, Any]) -> str:
    name = entry.get("sppci_model") or entry.get("_name")
    return shown(name.strip(), 100) if isinstance(name, str) and name.strip() else ""


def _own_memory(entry: dict[str, Any]) -> int | None:
    """The memory of a card with its own: "8 GB", in binary units."""
    match = re.fullmatch("([0-9]{1,6}) (MB|GB)", str(entry.get("spdisplays_vram", "")))
    return int(match[1]) * _SIZES[match[2]] if match else None
