"""amd-smi: `static --asic --vram --json` names the GPUs, `metric --mem-usage --json` their use.

Each GPU is an object with "gpu", its number. They come as a list, since ROCm 7 as
{"gpu_data": [...]}; a quantity is {"value": 196592, "unit": "MB"}, and the MB are MiB: an MI300X of
192 GiB shows 196,592. Notices in plain words may stand before the JSON. Documented at
https://rocm.docs.amd.com/projects/amdsmi/en/latest/how-to/amdsmi-cli-tool.html .
"""

from __future__ import annotations

from typing import Any

from kvcalc.core.units import GIB, KIB, MIB, shown
from kvcalc.detect.device import (
    MOST,
    Device,
    Unusable,
    amd_uuid,
    decoded,
    difference,
    quoted,
    whole,
)
from kvcalc.detect.run import run

NAME = "amd-smi"
_UNITS = {"B": 1, "KB": KIB, "MB": MIB, "GB": GIB, "KIB": KIB, "MIB": MIB, "GIB": GIB}


def read() -> tuple[Device, ...]:
    """The GPUs that amd-smi lists.

    Raises:
        Absent: There is no amd-smi.
        Unusable: It found no GPU, failed, or printed something else.
    """
    said = run(NAME, "static", "--asic", "--vram", "--json")
    if said.code and not said.stdout.strip():
        raise Unusable(f"failed with exit code {said.code}: {quoted(said.stderr)}")
    try:
        use = run(NAME, "metric", "--mem-usage", "--json").stdout
    except Unusable:
        use = ""
    return parse(said.stdout, use)


def parse(static: str, metric: str = "") -> tuple[Device, ...]:
    """The devices of both answers; without a usable second one their use is unknown.

    Raises:
        Unusable: No JSON in the first, or no GPU.
    """
    gpus = _gpus(decoded(static))
    if not gpus or len(gpus) > MOST:
        raise Unusable("no devices were found")
    try:
        usage = {whole(gpu.get("gpu")): _part(gpu, "mem_usage") for gpu in _gpus(decoded(metric))}
    except Unusable:
        usage = {}
    return tuple(_device(place, gpu, usage) for place, gpu in enumerate(gpus))


def _gpus(data: Any) -> list[dict[str, Any]]:
    if isinstance(data, dict):
        data = data.get("gpu_data")
    if not isinstance(data, list) or not all(isinstance(gpu, dict) for gpu in data):
        raise Unusable("printed JSON without a list of GPUs")
    return [gpu for gpu in data if "gpu" in gpu]


def _part(gpu: dict[str, Any], key: str) -> dict[str, Any]:
    part = gpu.get(key)
    return part if isinstance(part, dict) else {}


def _device(place: int, gpu: dict[str, Any], usage: dict[int | None, dict[str, Any]]) -> Device:
    number = whole(gpu.get("gpu"))
    index = place if number is None else number
    use = usage.get(number, {})
    total = _bytes(_part(gpu, "vram").get("size")) or _bytes(use.get("total_vram"))
    used = _bytes(use.get("used_vram"))
    name, serial = (_part(gpu, "asic").get(key) for key in ("market_name", "asic_serial"))
    known = isinstance(name, str) and name.strip() not in {"", "N/A"}
    return Device(
        index, shown(str(name).strip(), 100) if known else "an AMD GPU without a name",
        total, used, difference(total, used), NAME, uuid=amd_uuid(serial),
    )  # fmt: skip


def _bytes(quantity: Any) -> int | None:
    """A quantity with its unit in bytes; 0 and N/A are no reading."""
    if not isinstance(quantity, dict):
        return None
    value, unit = whole(quantity.get("value")), _UNITS.get(str(quantity.get("unit", "MB")).upper())
    return value * unit if value is not None and unit is not None else None
