"""State shapes of one rank: the splits and refusals, with the arithmetic beside."""

from __future__ import annotations

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.engines.vllm import state_shape

MAMBA2 = {
    "intermediate_size": 3072,
    "n_groups": 1,
    "num_heads": 48,
    "head_dim": 64,
    "state_size": 128,
    "conv_kernel": 4,
}


def test_one_group_becomes_as_many_as_ranks() -> None:
    """(3072 + 2 · 4 · 128) / 4 = 1024 channels of 3 columns; 12 heads."""
    assert state_shape("mamba2", 4, **MAMBA2) == [[3, 1024], [12, 64, 128]]


def test_groups_that_do_not_divide_become_the_ranks() -> None:
    """vLLM sets them to the ranks even where there were more: 6 groups over 4 ranks are 4."""
    assert state_shape("mamba2", 4, **{**MAMBA2, "n_groups": 6})[0] == [3, 1024]


def test_draft_tokens_lengthen_the_conv_state() -> None:
    assert state_shape("mamba2", 1, **MAMBA2, num_spec=3)[0][0] == 6
    assert state_shape("short_conv", 2, intermediate_size=2048, conv_kernel=3) == [[2, 1024]]


def test_kda_may_have_keys_of_their_own() -> None:
    """32 · 128 + 2 · 16 · 64 = 6144 channels; the kernel is 4 unless given."""
    assert state_shape("kda", 1, num_heads=32, head_dim=128, num_k_heads=16, head_k_dim=64) == [
        [3, 6144],
        [32, 128, 128],
    ]


@pytest.mark.parametrize("name", ["gdn", "gated delta net (Qwen3-Next-like)", "Gated-Delta-Net"])
def test_names_of_kinds(name: str) -> None:
    sizes = {"num_k_heads": 16, "num_v_heads": 32, "head_k_dim": 128, "head_v_dim": 128}
    assert state_shape(name, 2, **sizes, conv_kernel_size=4) == [[3, 4096], [16, 128, 128]]


def test_mamba_2_is_not_mamba() -> None:
    assert len(state_shape("mamba-2", 1, **MAMBA2)[1]) == 3
    first = state_shape("mamba", 2, intermediate_size=8192, state_size=16, conv_kernel=4)
    assert first == [[3, 4096], [4096, 16]]


@pytest.mark.parametrize(
    ("kind", "tp", "sizes", "code"),
    [
        ("mamba3", 1, {}, "usage"),
        ("xlstm", 1, {}, "usage"),
        ("short_conv", 1, {"intermediate_size": 8}, "usage"),
        ("short_conv", 0, {"intermediate_size": 8, "conv_kernel": 3}, "usage"),
        ("short_conv", 1, {"intermediate_size": 8, "conv_kernel": 3, "depth": 2}, "usage"),
        ("short_conv", 3, {"intermediate_size": 8, "conv_kernel": 3}, "not_divisible"),
        ("linear_attention", 5, {"num_heads": 64, "head_dim": 128}, "not_divisible"),
    ],
)
def test_refusals(kind: str, tp: int, sizes: dict[str, int], code: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        state_shape(kind, tp, **sizes)
    assert refused.value.code == code
