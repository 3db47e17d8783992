"""Names as tools print them to presets: the whole name, and the memory too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvcalc.catalog.gpus import load_all_gpus
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import GIB, KIB, MIB
from kvcalc.detect import match as module
from kvcalc.detect.device import Device
from kvcalc.detect.match import match

#: Name, MiB of the tool, preset.
KNOWN = [
    ("Tesla V100-SXM2-16GB", 16_160, "v100-sxm2-16"),
    ("Tesla V100-SXM2-16GB", 16_384, "v100-sxm2-16"),
    ("Tesla V100-SXM2-32GB", 32_768, "v100-sxm2-32"),
    ("Tesla V100-SXM2-32GB", 32_510, "v100-sxm2-32"),
    ("Tesla V100-PCIE-32GB", 32_768, "v100-pcie-32"),
    ("Tesla T4", 15_360, "t4"),
    ("Tesla T4", 15_109, "t4"),
    ("NVIDIA A10", 23_028, "a10"),
    ("NVIDIA A10G", 23_028, "a10g"),
    ("NVIDIA A16", 15_356, "a16-gpu"),
    ("NVIDIA A30", 24_576, "a30"),
    ("NVIDIA A40", 46_068, "a40"),
    ("A100-PCIE-40GB", 40_536, "a100-40-pcie"),
    ("NVIDIA A100-PCIE-40GB", 40_960, "a100-40-pcie"),
    ("A100-SXM4-40GB", 40_537, "a100-40-sxm"),
    ("NVIDIA A100-SXM4-40GB", 40_960, "a100-40-sxm"),
    ("NVIDIA A100 80GB PCIe", 81_920, "a100-80-pcie"),
    ("NVIDIA A100-SXM4-80GB", 81_251, "a100-80-sxm"),
    ("NVIDIA A100-SXM4-80GB", 81_920, "a100-80-sxm"),
    ("NVIDIA L4", 23_034, "l4"),
    ("NVIDIA L40", 46_068, "l40"),
    ("NVIDIA L40S", 46_068, "l40s"),
    ("NVIDIA H100 80GB HBM3", 81_559, "h100-sxm"),
    ("NVIDIA H100 PCIe", 81_559, "h100-pcie"),
    ("NVIDIA H100 NVL", 95_830, "h100-nvl"),
    ("NVIDIA H200", 143_771, "h200-sxm"),
    ("NVIDIA H200 NVL", 143_771, "h200-nvl"),
    ("NVIDIA H20", 97_871, "h20"),
    ("NVIDIA H800", 81_559, "h800-sxm"),
    ("NVIDIA GH200 480GB", 97_871, "gh200-96"),
    ("NVIDIA GH200 144G HBM3e", 146_831, "gh200-144"),
    ("NVIDIA B200", 183_359, "b200"),
    ("NVIDIA GB200", 189_471, "gb200"),
    ("NVIDIA B300 SXM6 AC", 275_040, "b300"),
    ("NVIDIA GB300", 284_208, "gb300"),
    ("NVIDIA GeForce RTX 3060", 12_288, "rtx3060-12"),
    ("GeForce RTX 3090", 24_268, "rtx3090"),
    ("NVIDIA GeForce RTX 3090", 24_576, "rtx3090"),
    ("NVIDIA GeForce RTX 4060 Ti", 16_380, "rtx4060ti-16"),
    ("NVIDIA GeForce RTX 4070", 12_282, "rtx4070"),
    ("NVIDIA GeForce RTX 4080", 16_376, "rtx4080"),
    ("NVIDIA GeForce RTX 4090", 24_564, "rtx4090"),
    ("NVIDIA GeForce RTX 5060 Ti", 16_311, "rtx5060ti-16"),
    ("NVIDIA GeForce RTX 5070 Ti", 16_303, "rtx5070ti"),
    ("NVIDIA GeForce RTX 5080", 16_303, "rtx5080"),
    ("NVIDIA GeForce RTX 5090", 32_607, "rtx5090"),
    ("NVIDIA RTX A5000", 24_564, "rtx-a5000"),
    ("NVIDIA RTX A6000", 49_140, "rtx-a6000"),
    ("RTX A6000", 48_685, "rtx-a6000"),
    ("NVIDIA RTX 5000 Ada Generation", 32_760, "rtx5000-ada"),
    ("NVIDIA RTX 6000 Ada Generation", 49_140, "rtx6000-ada"),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 97_887, "rtx-pro-6000-ws"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887, "rtx-pro-6000-server"),
    ("AMD Instinct MI210", 65_520, "mi210"),
    ("Aldebaran/MI200 [Instinct MI210]", 65_520, "mi210"),
    ("AMD Instinct MI250X", 65_520, "mi250x"),
    ("AMD Instinct MI300X", 196_592, "mi300x"),
    ("AMD Instinct MI300X OAM", 196_592, "mi300x"),
    ("AMD Instinct MI300X VF", 196_288, "mi300x"),
    ("Aqua Vanjaram [Instinct MI300X]", 196_592, "mi300x"),
    ("AMD Instinct MI325X", 262_128, "mi325x"),
    ("AMD Instinct MI350X", 294_896, "mi350x"),
    ("AMD Instinct MI355X", 294_896, "mi355x"),
    ("AMD Radeon RX 7900 XTX", 24_560, "rx7900xtx"),
    ("Radeon RX 7900 XTX", 24_560, "rx7900xtx"),
    ("AMD Radeon PRO W7900", 49_140, "pro-w7900"),
    ("AMD Radeon AI PRO R9700", 32_624, "radeon-ai-pro-r9700"),
    ("AMD Radeon(TM) 8060S Graphics", 128 * 1024, "ryzen-ai-max-395"),
]  # fmt: skip
#: Names that another device's preset begins or resembles, and totals of another edition.
UNKNOWN = [
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 16_376),
    ("NVIDIA GeForce RTX 4090 Laptop GPU", 24_564),
    ("NVIDIA GeForce RTX 4090 D", 24_564),
    ("NVIDIA GeForce RTX 5090 D", 32_607),
    ("NVIDIA GeForce RTX 5090 Laptop GPU", 24_463),
    ("NVIDIA GeForce RTX 4070 SUPER", 12_282),
    ("NVIDIA GeForce RTX 4070 Ti", 12_282),
    ("NVIDIA GeForce RTX 4080 SUPER", 16_376),
    ("NVIDIA GeForce RTX 3090 Ti", 24_564),
    ("NVIDIA GeForce RTX 3060 Ti", 8_192),
    ("NVIDIA GeForce RTX 3060", 8_192),
    ("NVIDIA GeForce RTX 4060 Ti", 8_188),
    ("NVIDIA GeForce RTX 5060 Ti", 8_151),
    ("NVIDIA GeForce RTX 4090", 49_140),
    ("NVIDIA RTX A6000", 46_068),  # ECC on: 44.43 GiB for programs, not the preset's 47.43
    ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97_887),
    ("NVIDIA RTX PRO 5000 Blackwell", 48_935),
    ("Quadro RTX 6000", 24_576),
    ("NVIDIA RTX 6000", 49_140),
    ("NVIDIA A100-SXM4-40GB", 81_920),
    ("NVIDIA A100-SXM4-80GB", 40_960),
    ("NVIDIA A100-SXM-64GB", 65_536),
    ("NVIDIA A800-SXM4-80GB", 81_920),
    ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4_864),
    ("GRID A100-40C", 40_960),
    ("NVIDIA A40-48Q", 46_068),
    ("NVIDIA A10-24C", 23_028),
    ("NVIDIA H100 80GB HBM2e", 81_559),
    ("NVIDIA H20-3e", 143_771),
    ("NVIDIA H800 PCIe", 81_559),
    ("NVIDIA L20", 49_140),
    ("NVIDIA L40G", 24_564),
    ("Tesla V100-PCIE-16GB", 16_384),
    ("Tesla V100-SXM3-32GB", 32_768),
    ("Tesla P40", 24_576),
    ("NVIDIA Graphics Device", 81_559),
    ("AMD Instinct MI250X/MI250", 65_520),
    ("AMD Instinct MI250", 65_520),
    ("AMD Instinct MI300X", 24_574),  # partitioned eightfold
    ("AMD Instinct MI300X HF", 196_592),
    ("AMD Instinct MI308X", 196_592),
    ("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M]", 24_560),
    ("Radeon RX 7900 XT", 20_464),
    ("AMD Radeon 8060S Graphics", 512),
    ("AMD Radeon Graphics", 512),
    ("Raphael", 512),
    ("an AMD GPU without a name", 24_560),
    ("h100 ", 40_960),
    ("auto", 81_559),
    ("", 81_559),
]  # fmt: skip


def device(name: str, mib: int | None, **more: Any) -> Device:
    total = None if mib is None else mib * MIB
    return Device(0, name, total, None, None, "a tool")._replace(**more)


@pytest.mark.parametrize(("name", "mib", "preset"), KNOWN)
def test_a_known_device_is_its_preset(name: str, mib: int, preset: str) -> None:
    found = match(device(name, mib))

    assert found.gpu is not None, found.reason
    assert found.gpu.id == preset


@pytest.mark.parametrize(("name", "mib"), UNKNOWN)
def test_a_name_or_a_size_too_close_is_not_enough(name: str, mib: int) -> None:
    found = match(device(name, mib))

    assert found.gpu is None
    assert found.reason
    assert found.given_bytes == mib * MIB


def test_every_alias_that_looks_like_a_tools_name_is_found() -> None:
    """At the size that the preset says its tool shows."""
    names = [
        (alias, gpu)
        for gpu in load_all_gpus()
        for alias in [*gpu.entry.get("aliases", []), gpu.name]
        if alias[:1].isupper() and gpu.vendor in {"NVIDIA", "AMD"}
    ]
    found = {alias: match(device(alias, module.expected(gpu) // MIB)) for alias, gpu in names}
    wrong = [
        (alias, gpu.id, other.id)
        for alias, gpu in names
        if (other := found[alias].gpu) is not None and other.id != gpu.id
    ]

    assert len(names) > 60
    assert wrong == []
    assert all(found[a].gpu for a, g in names if a in g.entry.get("aliases", []))


def test_another_size_is_told_with_both() -> None:
    """24,564 MiB are the card's 23.99 GiB; 49,140 MiB the enlarged one's 47.99."""
    found = match(device("NVIDIA GeForce RTX 4090", 49_140))

    assert found.reason == "rtx4090 is called so and has 23.99 GiB"


def test_a_size_that_nobody_tells_decides_nothing() -> None:
    found = match(device("NVIDIA GeForce RTX 3060", None))

    assert found.reason == "its memory cannot be read, so rtx3060-12 cannot be told"


def test_a_divided_gpu_is_none() -> None:
    found = match(device("NVIDIA A100-SXM4-40GB", 40_960, divided=True))

    assert (found.gpu, found.given_bytes) == (None, None)
    assert found.reason == "it is split into MIG devices, whose memory is less"


@pytest.mark.parametrize(("name", "gib", "preset"), [
    ("NVIDIA GB10", "119.6", "dgx-spark-gb10"),
    ("Orin (nvgpu)", "61.4", "jetson-agx-orin-64"),
    ("NVIDIA Thor", "122.8", "jetson-agx-thor"),
    ("Orin (nvgpu)", "15.3", None),
    ("Orin (nvgpu)", "30.0", None),
    ("NVIDIA GB10", "251.0", None),
])  # fmt: skip
def test_shared_memory_is_the_systems(
    name: str, gib: str, preset: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AGX Orin, Orin NX and Orin Nano all say "Orin (nvgpu)" and [N/A]; the kernel tells."""
    kib = int(float(gib) * GIB / KIB)
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal:  {kib} kB\nMemFree: 9 kB\nMemAvailable: {kib - 4096} kB\n")
    monkeypatch.setattr(module, "_MEMINFO", str(meminfo))
    found = match(device(name, None))

    assert (found.gpu and found.gpu.id) == preset
    assert found.device.memory_total_bytes == kib * KIB
    assert found.device.memory_used_bytes == 4096 * KIB
    assert found.device.source == f"a tool, {meminfo}"


def test_shared_memory_without_a_kernel_that_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MEMINFO", str(tmp_path / "nowhere"))

    assert match(device("NVIDIA GB10", None)).gpu is None


@pytest.mark.parametrize(("name", "gib", "limit", "preset"), [
    ("Apple M3 Max", 128, None, "apple-m3-max"),
    ("Apple M3 Max", 96, None, None),  # what the preset's programs get, but another machine
    ("Apple M3 Max", 36, None, None),
    ("Apple M2 Ultra", 192, None, "apple-m2-ultra"),
    ("Apple M3 Pro", 36, None, None),
    ("Apple M4", 16, None, None),
    ("Apple M3 Max", 128, 100, "apple-m3-max"),
    ("Apple M3 Max", 128, 120, None),
])  # fmt: skip
def test_a_mac_is_its_preset_at_the_same_installed_memory(
    name: str, gib: int, limit: int | None, preset: str | None
) -> None:
    bound = None if limit is None else limit * GIB
    found = match(device(name, gib * 1024, installed=True, limit_bytes=bound))

    assert (found.gpu and found.gpu.id) == preset
    assert found.given_bytes == bound


def test_a_preset_of_ones_own_names_its_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gpus"
    folder.mkdir()
    (folder / "my-laptop.toml").write_text(
        'id = "my-laptop"\nname = "Laptop"\naliases = ["NVIDIA GeForce RTX 4090 Laptop GPU"]\n'
        'memory_bytes = 16_750_000_000\nbasis = "measured"\nvendor = "NVIDIA"\n'
        '[source]\ntexts = ["nvidia-smi"]\nchecked = "2026-11-29"\nconfidence = "high"\n'
    )
    monkeypatch.setenv("KVCALC_PRESETS", str(tmp_path))
    found = match(device("NVIDIA GeForce RTX 4090 Laptop GPU", 16_376))

    assert found.gpu is not None
    assert found.gpu.id == "my-laptop"


def test_a_broken_preset_of_ones_own_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gpus"
    folder.mkdir()
    (folder / "rtx4090.toml").write_text('id = "rtx4090"\nmemory_bytes = "much"\n')
    monkeypatch.setenv("KVCALC_PRESETS", str(tmp_path))
    with pytest.raises(KvcalcError) as caught:
        match(device("NVIDIA GeForce RTX 4090", 24_564))

    assert caught.value.code == "invalid_preset"
