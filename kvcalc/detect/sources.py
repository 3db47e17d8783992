"""The tools in the order they are asked; the first that answers is believed."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.detect import amd_smi, apple, nvidia_smi, nvml, rocm_smi
from kvcalc.detect.device import Absent, Device, Unusable
from kvcalc.detect.visible import Visible, visible

SOURCES = (nvml, nvidia_smi, rocm_smi, amd_smi, apple)
#: For so long one reading serves: a batch of a thousand lines asks once.
SECONDS = 10


class Reading(NamedTuple):
    """All GPUs of this machine, those that programs get, and tools that failed before."""

    devices: tuple[Device, ...]
    visible: Visible
    #: "nvidia-smi failed with exit code 9: …", one a tool that is there and gave no answer.
    failures: tuple[str, ...] = ()


def read() -> Reading:
    """The GPUs of this machine.

    Raises:
        KvcalcError: "unknown_gpu" if no tool shows one, naming what was tried.
    """
    found = _read(int(time.monotonic() // SECONDS), tuple(sorted(os.environ.items())))
    if isinstance(found, Reading):
        return found
    raise KvcalcError(
        "unknown_gpu", f"no GPU found on this machine ({found})",
        "name one with --gpu; all GPUs: kvcalc gpus",
    )  # fmt: skip


@lru_cache(maxsize=1)
def _read(_when: int, environment: tuple[tuple[str, str], ...]) -> Reading | str:
    """The reading, or what was tried in vain: a tool that hangs is not asked twice either."""
    absent, failures = [], []
    for source in SOURCES:
        try:
            devices = source.read()
        except Absent:  # noqa: PERF203 - five sources
            absent.append(f"{source.NAME} (kvcalc[gpu])" if source is nvml else source.NAME)
        except Unusable as reason:
            failures.append(f"{source.NAME}: {reason}")
        else:
            return Reading(devices, visible(devices, dict(environment)), tuple(failures))
    missing = [f"not installed: {', '.join(absent)}"] if absent else []
    return "; ".join([*failures, *missing])
