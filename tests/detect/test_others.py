"""rocm-smi, amd-smi and macOS, in the formats of several releases."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.units import GIB, MIB
from kvcalc.detect import amd_smi, apple, nvidia_smi, rocm_smi
from kvcalc.detect.device import Unusable
from tests.detect.conftest import Tools

ROCM_5 = """
WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

{"card0": {"VRAM Total Memory (B)": "25753026560", "VRAM Total Used Memory (B)": "27856896",
"Card series": "Radeon RX 7900 XTX", "Card model": "0x744c", "Card SKU": "D70401XT"},
"system": {"Driver version": "6.7.0"}}
"""
ROCM_6 = json.dumps({
    f"card{n}": {
        "Unique ID": f"0x{n:016X}", "VRAM Total Memory (B)": "206141652992",
        "VRAM Total Used Memory (B)": "299687936", "Card Series": "AMD Instinct MI300X",
        "Card Model": "0x74a1", "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
        "GFX Version": "gfx942",
    }
    for n in (10, 2, 1)
})  # fmt: skip


def test_rocm_smi_of_rocm_5() -> None:
    (gpu,) = rocm_smi.parse(ROCM_5)

    assert (gpu.name, gpu.driver_version, gpu.uuid) == ("Radeon RX 7900 XTX", "6.7.0", None)
    assert gpu.memory_total_bytes == 25_753_026_560
    assert gpu.memory_used_bytes == 27_856_896
    assert gpu.free_bytes == 25_725_169_664


def test_rocm_smi_of_rocm_6_in_the_order_of_its_cards() -> None:
    """Cards 1, 2 and 10 are what programs call 0, 1 and 2."""
    gpus = rocm_smi.parse(ROCM_6)

    assert [gpu.index for gpu in gpus] == [0, 1, 2]
    assert [gpu.uuid for gpu in gpus] == [
        "GPU-0000000000000001", "GPU-0000000000000002", "GPU-000000000000000a"
    ]  # fmt: skip
    assert {gpu.memory_total_bytes for gpu in gpus} == {191 * GIB + 1008 * MIB}


def test_a_card_without_a_name_or_a_size_is_still_a_card() -> None:
    (gpu,) = rocm_smi.parse('{"card1": {"Card series": "N/A", "Card model": "0x744c"}}')

    assert gpu.name == "an AMD GPU without a name"
    assert gpu[2:5] == (None, None, None)


@pytest.mark.parametrize("text", [
    "", "ERROR: No AMD GPUs specified", "{}", '{"system": {"Driver version": "6"}}', "[1]",
    '{"card0": 7}', '{"card0":', "[" * 100_000, "{" * 3000, "3", '"card0"',
], ids=range(11))  # fmt: skip
def test_other_answers_of_rocm_smi_are_refused(text: str) -> None:
    with pytest.raises(Unusable):
        rocm_smi.parse(text)


def static(name: Any, size: Any, number: Any = 0) -> dict[str, Any]:
    """One GPU of `amd-smi static`."""
    asic = {"market_name": name, "vendor_id": "0x1002", "asic_serial": "0x6F1F0A2B3C4D5E6F"}
    return {"gpu": number, "asic": asic, "vram": {"type": "HBM", "size": size}}


def metric(total: int, used: int, number: int = 0) -> dict[str, Any]:
    """One GPU of `amd-smi metric`."""
    use = {"total_vram": {"value": total, "unit": "MB"}, "used_vram": {"value": used, "unit": "MB"}}
    return {"gpu": number, "mem_usage": use}


MB = {"value": 196_592, "unit": "MB"}


@pytest.mark.parametrize("wrap", [lambda gpus: gpus, lambda gpus: {"gpu_data": gpus}])
def test_amd_smi_counts_mib_and_calls_them_mb(wrap: Any) -> None:
    """196,592 of them are 191.98 GiB, an MI300X; as 10⁶ bytes they would be 183.1."""
    names = [static("AMD Instinct MI300X", MB, n) for n in (0, 1)]
    use = [metric(196_592, 297, 0), metric(196_592, 17_153, 1)]
    gpus = amd_smi.parse(json.dumps(wrap(names)), json.dumps(wrap(use)))

    assert [g.memory_total_bytes for g in gpus] == [196_592 * MIB] * 2
    assert [g.memory_used_bytes for g in gpus] == [297 * MIB, 17_153 * MIB]
    assert (gpus[1].free_bytes, gpus[1].uuid) == (179_439 * MIB, "GPU-6f1f0a2b3c4d5e6f")


def test_amd_smi_before_its_use_is_known() -> None:
    text = "WARNING: User is missing the following required groups: render\n\n"
    (gpu,) = amd_smi.parse(text + json.dumps([static("AMD Radeon RX 7900 XTX", MB)]), "no JSON")

    assert (gpu.memory_total_bytes, gpu.memory_used_bytes) == (196_592 * MIB, None)


def test_amd_smi_takes_the_size_from_either_answer() -> None:
    (gpu,) = amd_smi.parse(json.dumps([static("N/A", "N/A")]), json.dumps([metric(24_560, 10)]))

    assert (gpu.name, gpu.memory_total_bytes) == ("an AMD GPU without a name", 24_560 * MIB)


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"gpu_data": []}', '{"gpu_data": {}}', "[3]", "7", '[{"cpu": 0}]',
], ids=range(8))  # fmt: skip
def test_other_answers_of_amd_smi_are_refused(text: str) -> None:
    with pytest.raises(Unusable):
        amd_smi.parse(text)


def displays(**entry: Any) -> str:
    """`system_profiler SPDisplaysDataType -json` with one GPU."""
    return json.dumps({"SPDisplaysDataType": [entry]}, indent=2)


M3_MAX = displays(
    _name="Apple M3 Max", spdisplays_vendor="sppci_vendor_Apple", sppci_cores="40",
    sppci_device_type="spdisplays_gpu", sppci_model="Apple M3 Max",
)  # fmt: skip


def test_an_apple_gpu_shares_the_machines_memory() -> None:
    (gpu,) = apple.parse(M3_MAX, "137438953472\n", "0\n")

    assert (gpu.name, gpu.memory_total_bytes, gpu.installed) == ("Apple M3 Max", 128 * GIB, True)
    assert (gpu.limit_bytes, gpu.memory_used_bytes) == (None, None)


def test_a_limit_that_somebody_set_is_read() -> None:
    (gpu,) = apple.parse(M3_MAX, "137438953472", "122880")

    assert gpu.limit_bytes == 120 * GIB


def test_a_card_in_a_mac_has_its_own_memory() -> None:
    text = displays(_name="kHW", sppci_model="AMD Radeon Pro 5500M", spdisplays_vram="8 GB")
    (gpu,) = apple.parse(text, "34359738368")

    assert (gpu.memory_total_bytes, gpu.installed) == (8 * GIB, False)


def test_without_sysctl_the_memory_is_unknown() -> None:
    (gpu,) = apple.parse(M3_MAX, "")

    assert gpu.memory_total_bytes is None


@pytest.mark.parametrize("text", [
    "", "{}", "[]", '{"SPDisplaysDataType": []}', '{"SPDisplaysDataType": [{}, 3]}', "junk",
])  # fmt: skip
def test_other_answers_of_macos_are_refused(text: str) -> None:
    with pytest.raises(Unusable):
        apple.parse(text, "1")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["card0", "system", "gpu", "gpu_data", "asic", "vram", "size", "value",
                         "unit", "market_name", "Card Series", "VRAM Total Memory (B)",
                         "SPDisplaysDataType", "_name", "sppci_model", "mem_usage", "used_vram"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JUNK.map(json.dumps) | st.text(), JUNK.map(json.dumps) | st.text())
def test_whatever_a_tool_prints_is_read_or_refused(text: str, more: str) -> None:
    """No answer is a bug of ours; what is read is whole bytes and a name to print."""
    for parse in (
        nvidia_smi.parse, rocm_smi.parse,
        lambda t: amd_smi.parse(t, more), lambda t: apple.parse(t, more, more),
    ):  # fmt: skip
        with contextlib.suppress(Unusable):
            for gpu in parse(text):
                assert gpu.name.isprintable()
                assert all(n is None or n >= 0 for n in gpu[2:5])


def test_each_tool_is_asked_as_its_manual_says(tools: Tools) -> None:
    """The words that each script gets are its only way to the answer."""
    tools(
        "rocm-smi",
        body=f"""
[ "$*" = "--showproductname --showmeminfo vram --showuniqueid --json" ] || exit 7
printf '%s' '{ROCM_6}'
""",
    )
    tools(
        "amd-smi",
        body=f"""
[ "$*" = "static --asic --vram --json" ] && echo '{json.dumps([static("A", MB)])}'
[ "$*" = "metric --mem-usage --json" ] && echo '{json.dumps([metric(196_592, 5)])}'
""",
    )
    tools(
        "system_profiler",
        body=f"""
[ "$*" = "SPDisplaysDataType -json" ] && printf '%s' '{M3_MAX}'
""",
    )
    tools(
        "sysctl",
        body="""
[ "$*" = "-n hw.memsize" ] && echo 137438953472
[ "$*" = "-n iogpu.wired_limit_mb" ] && echo 0
""",
    )

    assert len(rocm_smi.read()) == 3
    assert amd_smi.read()[0].memory_used_bytes == 5 * MIB
    assert apple.read()[0].memory_total_bytes == 128 * GIB
