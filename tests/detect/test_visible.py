"""CUDA_VISIBLE_DEVICES and its kin, as CUDA, HIP and ROCr read them."""

from __future__ import annotations

import pytest

from kvcalc.detect.device import Device
from kvcalc.detect.visible import visible


def machine(*names: str, source: str = "nvidia-smi") -> list[Device]:
    """A GPU for each name, with ids GPU-a0, GPU-b1 and so on."""
    return [
        Device(i, name, 1, 0, 1, source, uuid=f"GPU-{'abcdefgh'[i]}{i}")
        for i, name in enumerate(names)
    ]


FOUR = machine("A", "A", "A", "A")


@pytest.mark.parametrize(("text", "left"), [
    (None, [0, 1, 2, 3]),
    ("0", [0]),
    ("2,0", [2, 0]),
    (" 1 , 3 ", [1, 3]),
    ("", []),
    ("-1", []),
    ("0,-1,2", [0]),  # the first that names nothing ends the list
    ("0,9,2", [0]),
    ("1,1", [1]),
    ("GPU-c", [2]),
    ("GPU-c2,GPU-a0", [2, 0]),
    ("GPU-", []),  # the beginning of four
    ("NoDevFiles", []),
    ("99999999999999999999", []),
])  # fmt: skip
def test_cuda(text: str | None, left: list[int]) -> None:
    found = visible(FOUR, {} if text is None else {"CUDA_VISIBLE_DEVICES": text})

    assert [d.index for d in found.devices] == left
    assert found.sure
    assert found.variables == (() if text is None else ("CUDA_VISIBLE_DEVICES",))


@pytest.mark.parametrize(("text", "order", "sure"), [
    ("0", None, False),
    ("0", "FASTEST_FIRST", False),
    ("0", "PCI_BUS_ID", True),
    ("1,0", None, True),  # all of them, in whatever order
    ("GPU-a", None, True),
    ("", None, True),
])  # fmt: skip
def test_numbers_of_unlike_gpus_are_cudas_own(text: str, order: str | None, sure: bool) -> None:
    """CUDA calls the fastest GPU 0; nvidia-smi the first on the bus."""
    environment = {"CUDA_VISIBLE_DEVICES": text}
    if order is not None:
        environment["CUDA_DEVICE_ORDER"] = order

    assert visible(machine("A", "B"), environment).sure is sure


def test_a_slice_is_one_of_the_divided_gpus() -> None:
    devices = [FOUR[0], FOUR[1]._replace(divided=True)]
    found = visible(devices, {"CUDA_VISIBLE_DEVICES": "MIG-1234"})

    assert [d.index for d in found.devices] == [1]


@pytest.mark.parametrize(("environment", "left"), [
    ({"ROCR_VISIBLE_DEVICES": "1,2,3", "HIP_VISIBLE_DEVICES": "0,2"}, [1, 3]),
    ({"HIP_VISIBLE_DEVICES": "2"}, [2]),
    ({"CUDA_VISIBLE_DEVICES": "2"}, [2]),
    ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "2"}, [1]),
    ({"ROCR_VISIBLE_DEVICES": "GPU-d3"}, [3]),
])  # fmt: skip
def test_hip_counts_among_what_rocr_leaves(environment: dict[str, str], left: list[int]) -> None:
    found = visible(machine(*"AAAA", source="rocm-smi"), environment)

    assert [d.index for d in found.devices] == left


def test_other_makers_variables_say_nothing() -> None:
    everything = {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}

    assert len(visible(FOUR, everything).devices) == 4
    assert len(visible(machine("A", source="system_profiler"),
                       {"CUDA_VISIBLE_DEVICES": ""}).devices) == 1  # fmt: skip
