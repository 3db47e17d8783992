"""NVML, NVIDIA's library behind nvidia-smi, through the extra `kvcalc[gpu]` (nvidia-ml-py)."""

from __future__ import annotations

from typing import Any

from kvcalc.core.units import shown
from kvcalc.detect.device import MOST, Absent, Device, Unusable, whole

NAME = "NVML"
#: NVML_ERROR_LIBRARY_NOT_FOUND: the extra came along with an engine, the driver did not.
_NO_LIBRARY = 12


def read() -> tuple[Device, ...]:
    """The GPUs that NVML lists.

    Raises:
        Absent: The extra is not installed.
        Unusable: No driver, no library, no GPU.
    """
    try:
        import pynvml  # noqa: PLC0415 - an extra
    except ImportError:
        raise Absent from None
    return listed(pynvml)


def listed(nvml: Any) -> tuple[Device, ...]:
    """The devices of an imported pynvml module.

    Raises:
        Absent: No NVIDIA driver was ever installed here.
        Unusable: In NVML's own words.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == _NO_LIBRARY:
            raise Absent from None
        raise Unusable(shown(error, 100)) from None
    try:
        count = min(int(nvml.nvmlDeviceGetCount()), MOST)
        driver = _text(_maybe(nvml, nvml.nvmlSystemGetDriverVersion))
        found = tuple(_device(nvml, index, driver) for index in range(count))
    except nvml.NVMLError as error:
        raise Unusable(shown(error, 100)) from None
    finally:
        _maybe(nvml, nvml.nvmlShutdown)
    if not found:
        raise Unusable("no devices were found")
    return found


def _device(nvml: Any, index: int, driver: str | None) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = _memory(nvml, handle)
    mode = _maybe(nvml, nvml.nvmlDeviceGetMigMode, handle)
    return Device(
        index, _text(nvml.nvmlDeviceGetName(handle)) or "", *memory, NAME,
        uuid=_text(_maybe(nvml, nvml.nvmlDeviceGetUUID, handle)),
        driver_version=driver,
        divided=isinstance(mode, (list, tuple)) and mode[:1] in ([1], (1,)),
    )  # fmt: skip


def _memory(nvml: Any, handle: Any) -> tuple[int | None, int | None, int | None]:
    """Total, used and free. The first version of the call counts the driver's own share as used."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    info = None
    if version is not None:
        info = _maybe(nvml, nvml.nvmlDeviceGetMemoryInfo, handle, version=version)
    if info is None:
        info = _maybe(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    total, used, free = (whole(getattr(info, name, None)) for name in ("total", "used", "free"))
    return (total, used, free) if total else (None, None, None)


def _maybe(nvml: Any, function: Any, *arguments: Any, **named: Any) -> Any:
    """The answer, or None where this GPU or driver has none."""
    try:
        return function(*arguments, **named)
    except (nvml.NVMLError, TypeError, AttributeError):
        return None


def _text(value: Any) -> str | None:
    """A name; older releases give bytes."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return shown(value, 100) if isinstance(value, str) else None
