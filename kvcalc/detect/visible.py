"""Which of the GPUs programs get: CUDA_VISIBLE_DEVICES and its kin, by the rules of their makers.

The tools show every GPU of the machine whatever these variables say. NVIDIA_VISIBLE_DEVICES is
for the runtime of containers: inside one, the tools show no more than it allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvcalc.detect import amd_smi, nvidia_smi, nvml, rocm_smi
from kvcalc.detect.device import Device

_CUDA, _HIP, _ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
#: How CUDA counts: by default the fastest GPU is 0, while the tools go by the PCI bus.
_ORDER = "CUDA_DEVICE_ORDER"
_NVIDIA, _AMD = (nvml.NAME, nvidia_smi.NAME), (rocm_smi.NAME, amd_smi.NAME)


class Visible(NamedTuple):
    """The devices that programs get, in their order."""

    devices: tuple[Device, ...]
    #: The variables that said so.
    variables: tuple[str, ...] = ()
    #: False where a number may mean another GPU to the program than it does to the tool.
    sure: bool = True


def order_advice(source: str) -> str:
    """What makes the numbers in these variables mean what the tool means."""
    return "name them by UUID" + (f", or set {_ORDER}=PCI_BUS_ID" if source in _NVIDIA else "")


def visible(devices: Sequence[Device], environment: Mapping[str, str]) -> Visible:
    """What the environment leaves of the devices of one tool."""
    found, used, sure = tuple(devices), [], True
    for variable in _variables(devices, environment):
        text = environment.get(variable)
        if text is None:
            continue
        used.append(variable)
        chosen = _chosen(found, text)
        if not _ordered(devices, environment) and len({_kind(d) for d in found}) > 1:
            numbers = any(part.strip().isdecimal() for part in text.split(","))
            sure = sure and not (numbers and len(chosen) < len(found))
        found = chosen
    return Visible(found, tuple(used), sure)


def _variables(devices: Sequence[Device], environment: Mapping[str, str]) -> tuple[str, ...]:
    source = devices[0].source if devices else ""
    if source in _NVIDIA:
        return (_CUDA,)
    if source in _AMD:  # HIP counts among those that ROCr leaves, and knows CUDA's name for it
        return (_ROCR, _HIP if _HIP in environment else _CUDA)
    return ()


def _ordered(devices: Sequence[Device], environment: Mapping[str, str]) -> bool:
    return devices[0].source in _NVIDIA and environment.get(_ORDER) == "PCI_BUS_ID"


def _kind(device: Device) -> tuple[str, int | None]:
    return device.name, device.memory_total_bytes


def _chosen(devices: tuple[Device, ...], text: str) -> tuple[Device, ...]:
    """Numbers or beginnings of UUIDs; the first that names nothing ends the list."""
    found: list[Device] = []
    for part in text.split(","):
        word = part.strip()
        if word.startswith("MIG-"):
            # A slice, named by an id that does not tell whose: any of the divided GPUs.
            matching = [d for d in devices if d.divided]
        elif word.isascii() and word.isdecimal():
            matching = [d for d in devices[int(word) : int(word) + 1] if len(word) < 5]
        else:
            matching = [d for d in devices if word and (d.uuid or "").startswith(word)]
            matching = matching if len(matching) == 1 else []
        if not matching:
            break
        found += [d for d in matching if d not in found]
    return tuple(found)
