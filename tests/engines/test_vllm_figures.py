"""Pools, tokens and refusals that public logs of vLLM print, from models laid out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc.core.cache import Full, Latent, SlidingWindow
from kvcalc.core.dtypes import storage
from kvcalc.core.model import Layer, Model
from kvcalc.engines.vllm import LayerSpecs, Plan, plan, specs_from_model
from kvcalc.engines.vllm.specs import Spec
from kvcalc.engines.vllm.versions import in_flight_tokens

GIB = 2**30
BF16 = storage("bf16")


def full(heads: int = 8, dim: int = 128) -> Full:
    return Full(kv_heads=heads, key_dim=dim, value_dim=dim)


def window(tokens: int, heads: int = 8, dim: int = 128) -> SlidingWindow:
    return SlidingWindow(kv_heads=heads, key_dim=dim, value_dim=dim, window=tokens)


def model(layers: list[Layer], architecture: str | None = None) -> Model:
    return Model(id="m", name="m", layers=tuple(layers), architecture=architecture)


def planned(layers: list[Any], memory: int | list[int] = 10 * GIB, **more: Any) -> Plan:
    settings = {"max_model_len": 32768, "max_in_flight_tokens": 16384, **more}
    return plan(layers, memory, **settings)


def laid(layers: list[Layer], architecture: str | None = None, **more: Any) -> LayerSpecs:
    store = more.pop("store", BF16)
    settings = {"max_model_len": 262144, **more}
    return specs_from_model(model(layers, architecture), store, **settings)


def gemma3(full_layers: int, slides: int, heads: int, dim: int) -> list[Layer]:
    count = full_layers + slides
    return [
        (full(heads, dim),) if (i + 1) % 6 == 0 else (window(1024, heads, dim),)
        for i in range(count)
    ]


def gpt_oss(count: int) -> list[Layer]:
    return [(window(128, 8, 64),) if i % 2 == 0 else (full(8, 64),) for i in range(count)]


GEMMA_4_31B = [(full(4, 512),) if (i + 1) % 6 == 0 else (window(1024, 16, 256),) for i in range(60)]
#: version, layers, tp, format, tokens of a batch, pool in GiB as printed, its step, tokens and
#: concurrency as printed, length.
LOGGED = [
    ("0.13.0rc2", [(full(),)] * 40, 1, "bf16", 2048, 14.82, 97088, 2.96, 32768),
    ("0.13.0rc2", gemma3(8, 40, 8, 256), 1, "bf16", 2048, 16.25, 44368, 10.51, 9900),
    ("0.13.0rc2", gemma3(8, 40, 8, 256), 2, "bf16", 2048, 22.66, 123744, 29.30, 9900),
    ("0.13.0rc2", gpt_oss(24), 1, "bf16", 2048, 15.77, 344560, 19.71, 32768),
    ("0.12.0", gpt_oss(24), 1, "bf16", 2048, 7.12, 155584, 16.75, 16384),
    ("0.12.0", [(full(),)] * 32, 1, "bf16", 2048, 6.95, 56880, 1.79, 31800),
    ("0.6.4", [(full(),)] * 32, 1, "bf16", 20000, 3.81, 31232, 1.56, 20000),
    ("0.10.2", gemma3(10, 52, 16, 128), 1, "bf16", 8192, 109.86, 205696, 50.05, 4096),
    ("0.21.0", [(full(),)] * 48, 1, "bf16", 8192, 41.43, 226240, 55.23, 4096),
    ("0.24.0+rhaiv.13", GEMMA_4_31B, 1, "bf16", 8192, 103.92, 1007303, None, 262144),
    ("0.12.0", [(full(),)] * 48, 8, "bf16", 8192, 89.71, 3919664, 0.75, 5242880),
]


@pytest.mark.parametrize("case", LOGGED, ids=lambda c: f"{c[0]}-{c[6]}")
def test_logged_pools(case: tuple[Any, ...]) -> None:
    """The printed figures lie between those for the printed pool ± half its last digit."""
    version, layers, tp, kind, batch, pool, tokens, concurrency, length = case
    specs = laid(layers, store=storage(kind), tp=tp, max_model_len=length, version=version)
    low, high = (
        plan(
            specs.specs,
            int(size * GIB),
            max_model_len=length,
            max_in_flight_tokens=in_flight_tokens(batch, version),
            version=version,
            disable_hybrid=specs.disable_hybrid,
        )
        for size in (pool - 0.005, pool + 0.005)
    )
    if low.fits:
        assert (low.tokens or 0) <= tokens <= (high.tokens or 0)
    if concurrency is not None and low.fits:
        assert (low.max_concurrency or 0) - 0.005 <= concurrency
        assert concurrency <= (high.max_concurrency or 0) + 0.005


def test_gemma_4_on_an_h200() -> None:
    """26,492 blocks of 2,621,440 bytes over 8,192 + 5 · 577 of a request: 626,949 tokens."""
    specs = laid(list(GEMMA_4_31B), version="0.24.0")
    result = plan(
        specs.specs, 69449621176, max_model_len=262144, max_in_flight_tokens=8192, version="0.24.0"
    )
    assert (result.bytes_per_block, result.num_blocks) == (2_621_440, 26492)
    assert (result.blocks_per_request, result.tokens) == (11077, 626949)


def test_gpt_oss_120b_refuses_131072_tokens() -> None:
    """4.54 GiB with a chunk of 1,024, 4.786 with 8,192; 1.71 GiB allow 48,608 tokens."""
    specs = laid(gpt_oss(36), "gpt_oss", max_model_len=131072)
    needed = [
        plan(specs.specs, 1836098519, max_model_len=131072, max_in_flight_tokens=chunk)
        for chunk in (1024, 8192)
    ]
    assert [p.needed_bytes for p in needed] == [4_874_895_360, 5_139_136_512]
    assert needed[0].final_max_model_len == 48608


def test_a_latent_is_copied_to_every_rank() -> None:
    """DeepSeek-V3 at 60 GiB a rank: 916,787 tokens whatever tp is."""
    layers: list[Layer] = [(Latent(rank=512, rope_dim=64),)] * 61
    specs = laid(layers, tp=8, block_size=1)
    result = plan(specs.specs, 60 * GIB, max_model_len=131072, max_in_flight_tokens=16384)
    assert result.tokens == 916787


def test_unequal_stages_were_checked_as_one_before_0_18() -> None:
    """48 layers over 16 + 32, 3.18 GiB on the smaller: 0.15 said 34,736 tokens fit."""
    specs = laid([(full(4),)] * 48, max_model_len=262144, version="0.15.2rc1")
    stages = [specs.specs[:16], specs.specs[16:]]
    low, high = (
        plan(stages, [int(p * GIB), 10 * GIB], max_model_len=262144, max_in_flight_tokens=8192,
             version="0.15.2rc1")
        for p in (3.175, 3.185)
    )  # fmt: skip
    assert low.needed_bytes == 24 * GIB
    assert (low.final_max_model_len or 0) <= 34736 <= (high.final_max_model_len or 0)


def test_specs_are_taken_as_they_are() -> None:
    spec = Spec(type="FullAttentionSpec", block_size=16, page_bytes=65536)
    assert planned([spec] * 2).bytes_per_block == 131072
