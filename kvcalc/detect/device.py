"""A GPU as a tool of this machine shows it, before anything is known about it."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from kvcalc.core.units import shown

#: Lines of a tool's answer that may stand before its JSON.
_PREAMBLE = 200
#: More GPUs than any machine has: what prints them is no tool of ours.
MOST = 1024


class Device(NamedTuple):
    """One GPU. Memory in bytes; None where the tool does not say."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls here
    name: str
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    free_bytes: int | None
    #: The tool that said so.
    source: str
    uuid: str | None = None
    driver_version: str | None = None
    #: Split into MIG devices: programs get a slice of it, not all of it.
    divided: bool = False
    #: The total is the machine's installed memory, of which the GPU may take a part.
    installed: bool = False
    #: What the system lets the GPU take, where somebody set it.
    limit_bytes: int | None = None


class Absent(Exception):  # noqa: N818 - nothing went wrong
    """The tool is not on this machine."""


class Unusable(Exception):  # noqa: N818 - a reason, not a bug
    """The tool is there and gave no usable answer; the text says why, in a few words."""


def quoted(text: str) -> str:
    """The first words of a tool's answer, for a message."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f'"{shown(first, 100)}"' if first else "nothing"


def decoded(text: str) -> Any:
    """The JSON in a tool's answer, which may open with warnings in plain words.

    Raises:
        Unusable: There is none.
    """
    decoder, at = json.JSONDecoder(), 0
    for line in text.splitlines(keepends=True)[:_PREAMBLE]:
        if line.lstrip()[:1] in {"{", "["}:
            try:
                return decoder.raw_decode(text, at + len(line) - len(line.lstrip()))[0]
            except (ValueError, RecursionError):
                pass
        at += len(line)
    raise Unusable(f"printed {quoted(text)}, not JSON")


def whole(value: object) -> int | None:
    """A count that a tool printed as a number or as text, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 1 << 53 else None
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,15}", value) else None


def amd_uuid(serial: object) -> str | None:
    """The GPU's id as ROCr spells it: GPU- and the 16 hexadecimal digits of its serial."""
    match = re.fullmatch("0x([0-9a-fA-F]{4,16})", str(serial))
    return f"GPU-{match[1].lower().zfill(16)}" if match else None


def difference(total: int | None, part: int | None) -> int | None:
    """What `part` leaves of `total`, where both are known and fit together."""
    return total - part if total is not None and part is not None and part <= total else None
