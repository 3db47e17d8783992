"""GPU presets: memory as a program sees it, rates by dtype, and the aliases people use."""

from __future__ import annotations

from kvcalc.catalog.gpus import load_all_gpus, load_gpu
from kvcalc.core.units import GIB, MIB


def test_an_h100_shows_79_gib_not_80_gb() -> None:
    """79.18 GiB read by programs; 81,559 MiB by nvidia-smi; 80 GB on the box."""
    gpu = load_gpu("h100")

    assert gpu.memory_bytes == round(79.18 * GIB)
    assert gpu.entry["visible_bytes"] == 81_559 * MIB
    assert gpu.entry["marketing"] == "80 GB"
    assert (gpu.basis, gpu.confidence, gpu.vendor) == ("measured", "high", "NVIDIA")
    assert (gpu.bandwidth, gpu.gpus_per_node) == (3_350 * 10**9, 8)
    assert gpu.dense_flops["bf16"] == 989_400 * 10**9


def test_estimates_have_a_range() -> None:
    for gpu in load_all_gpus():
        assert gpu.low_bytes <= gpu.memory_bytes <= gpu.high_bytes, gpu.id
        if gpu.basis == "estimated":
            assert gpu.low_bytes < gpu.high_bytes, gpu.id


def test_a_program_sees_no_more_than_the_driver_shows() -> None:
    for gpu in load_all_gpus():
        visible = gpu.entry.get("visible_bytes")
        assert visible is None or gpu.memory_bytes <= visible, gpu.id


def test_the_mi250x_is_one_of_its_two_devices() -> None:
    """A program sees 64 GiB with half of the module's 3,277 GB/s and 383 TFLOPS."""
    gpu = load_gpu("mi250x")

    assert gpu.memory_bytes < 64 * GIB
    assert gpu.bandwidth == 1_638 * 10**9
    assert gpu.dense_flops["bf16"] == 191_500 * 10**9


def test_doubtful_rates_are_left_empty() -> None:
    assert load_gpu("b100").bandwidth is None
    assert load_gpu("b100").dense_flops == {}
    assert load_gpu("max-1550").dense_flops == {}
    assert {"bf16", "fp8"}.isdisjoint(load_gpu("gb10").dense_flops)


def test_cards_known_from_logs_alone() -> None:
    """An nvidia-smi total is an upper bound; a torch total is a reading."""
    assert load_gpu("a5000").memory_bytes == 24_138 * MIB
    assert load_gpu("5060ti").high_bytes == 16_311 * MIB
    assert load_gpu("r9700").low_bytes == round(29.859 * GIB)
    for name in ("a5000", "5060ti", "r9700", "rtx-5000-ada"):
        assert load_gpu(name).bandwidth is None
