"""nvidia-smi's CSV and NVML, in the wordings of several driver releases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvcalc.core.units import MIB
from kvcalc.detect import nvidia_smi, nvml
from kvcalc.detect.device import Absent, Unusable
from kvcalc.detect.run import Output
from tests.detect.conftest import Tools

H100 = "0, NVIDIA H100 80GB HBM3, 81559, 4, 81079, 550.54.15, GPU-3f6a, Disabled"


def test_a_line_is_a_gpu_in_mib() -> None:
    """Total − used − free is what the driver keeps: 81,559 − 4 − 81,079 = 476 MiB."""
    (gpu,) = nvidia_smi.parse(H100 + "\n")

    assert (gpu.index, gpu.name, gpu.uuid) == (0, "NVIDIA H100 80GB HBM3", "GPU-3f6a")
    assert gpu.memory_total_bytes == 81_559 * MIB
    assert (gpu.memory_used_bytes, gpu.free_bytes) == (4 * MIB, 81_079 * MIB)
    assert (gpu.driver_version, gpu.source, gpu.divided) == ("550.54.15", "nvidia-smi", False)


def test_a_driver_before_mig_has_one_column_less() -> None:
    (gpu,) = nvidia_smi.parse("0, Tesla V100-SXM2-32GB, 32510, 0, 32510, 418.87.00, GPU-a")

    assert (gpu.memory_total_bytes, gpu.divided) == (32_510 * MIB, False)


@pytest.mark.parametrize(
    "nothing", ["[N/A]", "[Not Supported]", "N/A", "[Unknown Error]", "[Insufficient Permissions]"]
)
def test_memory_that_a_gpu_does_not_tell_is_none(nothing: str) -> None:
    line = f"0, NVIDIA GB10, {nothing}, {nothing}, {nothing}, 580.95.05, {nothing}, {nothing}"
    (gpu,) = nvidia_smi.parse(line)

    assert gpu[2:5] == (None, None, None)
    assert (gpu.name, gpu.uuid) == ("NVIDIA GB10", None)


def test_free_follows_where_it_is_not_told() -> None:
    (gpu,) = nvidia_smi.parse("0, NVIDIA L4, 23034, 34, [Insufficient Permissions], 5, GPU-a")

    assert gpu.free_bytes == 23_000 * MIB


def test_a_gpu_split_into_mig_devices_says_so() -> None:
    (gpu,) = nvidia_smi.parse("0, NVIDIA A100-SXM4-40GB, 40960, 37, 40336, 550, GPU-a, Enabled")

    assert gpu.divided


@pytest.mark.parametrize("text", [
    "",
    "\n\n",
    "hello",
    H100 + "\nUnable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.",
    "0, NVIDIA H100, eighty, 4, 5, 550, GPU-a, Disabled",
    "0, NVIDIA H100, -1, 4, 5, 550, GPU-a, Disabled",
    "0, NVIDIA H100, 99999999999, 4, 5, 550, GPU-a, Disabled",
    "x, NVIDIA H100, 81559, 4, 5, 550, GPU-a, Disabled",
    "0, NVIDIA, H100, 81559, 4, 5, 550, GPU-a, Disabled",
    (H100 + "\n") * 2000,
], ids=range(10))  # fmt: skip
def test_anything_else_is_refused_whole(text: str) -> None:
    """A list with a GPU missing would be answered for another machine."""
    with pytest.raises(Unusable):
        nvidia_smi.parse(text)


@pytest.mark.parametrize(("code", "text", "reason"), [
    (6, "No devices were found", "no devices were found"),
    (0, "No devices were found", "no devices were found"),
    (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure",
     'failed with exit code 9: "NVIDIA-SMI has failed because'),
    (18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535",
     'failed with exit code 18: "Failed to initialize NVML: Driver/library version mismatch"'),
    (1, "", "failed with exit code 1: nothing"),
])  # fmt: skip
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_failure_is_told_in_its_own_words(code: int, text: str, reason: str, stream: str) -> None:
    said = Output(code, text, "") if stream == "stdout" else Output(code, "", text)
    with pytest.raises(Unusable) as caught:
        nvidia_smi.check(said)

    assert str(caught.value).startswith(reason)


def test_an_old_driver_is_asked_again_without_mig(tools: Tools) -> None:
    tools("nvidia-smi", body="""
case "$1" in
    *mig.mode.current*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2 ;;
esac
[ "$2" = --format=csv,noheader,nounits ] && echo '0, Tesla T4, 15109, 0, 15109, 418.87, GPU-a'
""")  # fmt: skip
    (gpu,) = nvidia_smi.read()

    assert (gpu.name, gpu.memory_total_bytes) == ("Tesla T4", 15_109 * MIB)


class NVMLError(Exception):
    """As pynvml raises it."""


def fake_nvml(**changed: Any) -> Any:
    """A pynvml module with two GPUs of 80 GiB, 1 GiB of it in use."""

    def memory(_handle: Any, version: int | None = None) -> Any:
        reserved = 0 if version else 476 * MIB
        return SimpleNamespace(
            total=81_559 * MIB, used=1024 * MIB + reserved, free=81_559 * MIB - 1500 * MIB
        )

    def unsupported(*_: Any, **__: Any) -> Any:
        raise NVMLError("Not Supported")

    calls: dict[str, Any] = {
        "NVMLError": NVMLError,
        "nvmlMemory_v2": 0x02000028,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlSystemGetDriverVersion": lambda: "550.54.15",
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _: "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetMigMode": unsupported,
    }
    return SimpleNamespace(**{**calls, **{k: v or unsupported for k, v in changed.items()}})


def test_nvml_gives_what_nvidia_smi_gives() -> None:
    first, second = nvml.listed(fake_nvml())

    assert first[:5] == (
        0, "NVIDIA H100 80GB HBM3", 81_559 * MIB, 1024 * MIB, (81_559 - 1500) * MIB
    )  # fmt: skip
    assert (second.uuid, second.driver_version, second.source) == ("GPU-1", "550.54.15", "NVML")


def test_an_older_nvml_gives_bytes_and_counts_the_reserve_as_used() -> None:
    """1,024 MiB of programs + 476 MiB of the driver = 1,500 MiB."""
    module = fake_nvml(nvmlDeviceGetName=lambda _: b"Tesla T4")
    del module.nvmlMemory_v2
    gpu, _ = nvml.listed(module)

    assert (gpu.name, gpu.memory_used_bytes) == ("Tesla T4", 1500 * MIB)


def test_a_driver_without_the_second_call_gets_the_first() -> None:
    def memory(_handle: Any, version: int | None = None) -> Any:
        if version:
            raise NVMLError("Function Not Found")
        return SimpleNamespace(total=MIB, used=0, free=MIB)

    gpu, _ = nvml.listed(fake_nvml(nvmlDeviceGetMemoryInfo=memory))

    assert gpu.memory_total_bytes == MIB


def test_unified_memory_is_unknown_to_nvml() -> None:
    gpu, _ = nvml.listed(fake_nvml(nvmlDeviceGetMemoryInfo=None))

    assert gpu[2:5] == (None, None, None)


def test_mig_mode_is_current_and_pending() -> None:
    gpu, _ = nvml.listed(fake_nvml(nvmlDeviceGetMigMode=lambda _: [1, 1]))

    assert gpu.divided


@pytest.mark.parametrize(
    "broken", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName"]
)
def test_what_nvml_must_know_is_refused_in_its_words(broken: str) -> None:
    with pytest.raises(Unusable, match="Not Supported"):
        nvml.listed(fake_nvml(**{broken: None}))


def test_nvml_without_a_gpu_is_refused() -> None:
    with pytest.raises(Unusable, match="no devices"):
        nvml.listed(fake_nvml(nvmlDeviceGetCount=lambda: 0))


def test_the_extra_without_a_driver_is_absent() -> None:
    def init() -> None:
        error = NVMLError("NVML Shared Library Not Found")
        error.value = 12  # type: ignore[attr-defined]  # as pynvml sets it
        raise error

    with pytest.raises(Absent):
        nvml.listed(fake_nvml(nvmlInit=init))


@pytest.mark.usefixtures("tools")
def test_without_the_extra_nvml_is_absent() -> None:
    with pytest.raises(Absent):
        nvml.read()
