"""Models laid out as vLLM does: blocks, pages, states and the layers it leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    State,
)
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Layer, Model
from kvcalc.core.shard import Parallel
from kvcalc.engines.vllm import LayerSpecs, plan, specs_from_model

GIB = 2**30
BF16 = storage("bf16")


def full(heads: int = 8, dim: int = 128) -> Full:
    return Full(kv_heads=heads, key_dim=dim, value_dim=dim)


def model(layers: list[Layer], architecture: str | None = None) -> Model:
    return Model(id="m", name="m", layers=tuple(layers), architecture=architecture)


def laid(layers: list[Layer], architecture: str | None = None, **more: Any) -> LayerSpecs:
    store = more.pop("store", BF16)
    settings = {"max_model_len": 262144, **more}
    return specs_from_model(model(layers, architecture), store, **settings)


def gdn(key_heads: int, value_heads: int) -> State:
    return State(
        variant="gated_delta_net",
        conv_kernel=4,
        conv_channels=128 * (2 * key_heads + value_heads),
        recurrent_elements=value_heads * 128 * 128,
        heads=value_heads,
        recurrent_dtype="fp32",
    )


def every_fourth(attend: Cache, other: Cache, count: int) -> list[Layer]:
    return [(attend,) if i % 4 == 3 else (other,) for i in range(count)]


QWEN3_NEXT = every_fourth(full(2, 256), gdn(16, 32), 48)


def test_attention_blocks_grow_until_a_page_holds_a_state() -> None:
    """Qwen3-Next: a 2,048, M 1,097,728: 16 · ceil(33.5) = 544; Qwen3.5's fp32 states: 1056."""
    specs = laid(QWEN3_NEXT, "qwen3_next")
    assert (specs.block_size, specs.mamba_cache_mode) == (544, "align")
    assert {s.page_bytes for s in specs.specs} == {1_114_112}
    assert laid(QWEN3_NEXT, "qwen3_5_moe").block_size == 1056
    old = laid(QWEN3_NEXT, "qwen3_next", version="0.24.0")
    assert (old.mamba_cache_mode, old.specs[0].block_size) == ("none", 262144)
    result = plan(
        specs.specs, 30 * GIB, max_model_len=262144, max_in_flight_tokens=16384,
        mamba_cache_mode="align",
    )  # fmt: skip
    assert (result.num_blocks, result.tokens) == (2409, 1_294_067)


@pytest.mark.parametrize(
    ("layers", "architecture", "block"),
    [
        # conv 3 · (8192 + 2 · 8 · 128) bf16 + 128 · 64 · 128 fp32 = 4,255,744 over 4,096 a token
        ([(full(),), (State(variant="mamba2", conv_kernel=4, conv_channels=10240,
                            recurrent_elements=128 * 64 * 128, heads=128, groups=8,
                            group_channels=256),)], "nemotron_h", 1040),
        ([(full(4),), (State(variant="mamba2", conv_kernel=4, conv_channels=3328,
                             recurrent_elements=48 * 64 * 128, heads=48, groups=1,
                             group_channels=256),)], "granitemoehybrid", 400),
        ([(full(8, 64),), (State(variant="short_conv", conv_kernel=3, conv_channels=2048),)],
         "lfm2", 16),
        # MLA: a multiple of 128 tokens of 1,152 bytes over 2,170,880
        ([(Latent(rank=512, rope_dim=64),),
          (State(variant="kda", conv_kernel=4, conv_channels=12288,
                 recurrent_elements=32 * 128 * 128, heads=32),)], "kimi_linear", 1920),
    ],
)  # fmt: skip
def test_blocks_of_hybrids(layers: list[Layer], architecture: str, block: int) -> None:
    specs = laid(layers, architecture)
    assert specs.block_size == block
    assert len({s.page_bytes for s in specs.specs}) == 1


def test_mamba_2_keeps_a_checkpoint_since_0_29() -> None:
    state = State(variant="mamba2", conv_kernel=4, conv_channels=512, recurrent_elements=4096)
    layers: list[Layer] = [(full(),), (state,)]
    assert laid(layers).specs[1].checkpoint_blocks == 1
    assert laid(layers, version="0.28.0").specs[1].checkpoint_blocks == 0
    assert laid(QWEN3_NEXT, gdn_checkpoint=True).specs[0].checkpoint_blocks == 1
    assert laid([(state,)]).specs[0].page_bytes == (3 * 512 + 4096) * 2
    assert laid([(state,)], ssm_dtype="fp32").specs[0].page_bytes == 3 * 512 * 2 + 4096 * 4


def test_drafts_add_layers_states_and_columns() -> None:
    specs = laid(QWEN3_NEXT, draft_layers=1, speculative_tokens=3)
    assert len(specs.specs) == 49
    assert specs.specs[0].speculative_blocks == 3
    assert specs.specs[-1].is_full
    # 3 more columns of 16 KiB: 1,097,728 + 49,152 bytes are 560 tokens of 2,048
    assert specs.block_size == 560


def test_sparse_latents_are_packed_in_fp8() -> None:
    """DeepSeek-V3.2: 656 + 132 bytes a token and layer in fp8, 1,152 + 132 in bf16."""
    layers: list[Layer] = [(Latent(rank=512, rope_dim=64), Indexer(dim=128))] * 61
    for store, expected in ((storage("fp8"), 788), (BF16, 1284), (storage("nvfp4"), 484)):
        specs = laid(layers, store=store)
        assert sum(s.page_bytes for s in specs.specs) == 61 * 64 * expected
    assert laid([(full(), Indexer(dim=128))]).specs[1].page_bytes == 64 * 128 * 2


def test_plain_latents_follow_the_format() -> None:
    layers: list[Layer] = [(Latent(rank=512, rope_dim=64),)]
    assert laid(layers, tp=8).specs[0].page_bytes == 64 * 1152, "copied to every rank"
    assert laid(layers, store=storage("fp8")).specs[0].page_bytes == 64 * 576
    mini: list[Layer] = [(Latent(rank=256, rope_dim=32, heads=40, nope_dim=64, value_dim=64),)]
    assert laid(mini, "minicpm3", tp=2).specs[0].page_bytes == 64 * 20 * 2 * 96 * 2
    with pytest.raises(KvcalcError, match="keys of every head"):
        laid([(Latent(rank=256, rope_dim=32),)], "minicpm3")


def test_chunks_are_full_unless_vllm_is_told_otherwise() -> None:
    chunk = Chunked(kv_heads=8, key_dim=128, value_dim=128, chunk=8192)
    layers = every_fourth(full(), chunk, 8)
    assert laid(layers).disable_hybrid
    assert not laid(layers, chunked_hybrid=True).disable_hybrid
    assert laid(layers).specs[0].type == "ChunkedLocalAttentionSpec"


def test_shared_and_cross_layers() -> None:
    cross = Cross(kv_heads=20, key_dim=64, value_dim=64, encoder_tokens=1500)
    specs = laid([(full(20, 64), cross), (Shared(),), ()])
    assert [s.type for s in specs.specs] == ["FullAttentionSpec", "CrossAttentionSpec"]
    assert specs.encoder_tokens == 1500
    assert [len(stage) for stage in specs.stages(Parallel(pp=3))] == [2, 0, 0]
    with pytest.raises(KvcalcError, match="no cache cache"):
        laid([(Odd(),)])


class Odd(Cache):
    """A kind that no engine knows."""

    kind = "cache"


def test_deepseek_v4_as_vllm_plans_it() -> None:
    """43 layers at tp 8 and 60 GiB: 64,280 blocks of 1,002,240 bytes, 6,253,708 tokens."""
    raw = Latent(rank=448, rope_dim=64, window=128)
    light: Layer = (raw, Compressed(dim=512, ratio=4), Indexer(dim=128, ratio=4))
    heavy: Layer = (raw, Compressed(dim=512, ratio=128))
    layers: list[Layer] = [(raw,), (raw,), *[light, heavy] * 20, light]
    specs = laid(layers, "deepseek_v4", store=storage("fp8"), tp=8, max_model_len=2**20)
    result = plan(
        specs.specs, 60 * GIB, max_model_len=2**20, max_in_flight_tokens=16384, layout=specs.layout
    )
    assert (result.num_blocks, result.bytes_per_block) == (64280, 1_002_240)
    assert (result.tokens, result.max_concurrency) == (6_253_708, 5.964000742252737)
    # a public refusal of mid 2026: 6.66 GiB needed for 30,000 tokens, 13,528 fit in 5.44 GiB
    low, high = (
        plan(specs.specs, int(pool * GIB), max_model_len=30000, max_in_flight_tokens=16384,
             layout=specs.layout, version="0.26.0")
        for pool in (5.435, 5.445)
    )  # fmt: skip
    assert round((low.needed_bytes or 0) / GIB, 2) == 6.66
    assert (low.final_max_model_len or 0) <= 13528 <= (high.final_max_model_len or 0)
    older = plan(specs.specs, 60 * GIB, max_model_len=2**20, max_in_flight_tokens=8192,
                 layout=specs.layout, version="0.22.1")  # fmt: skip
    assert older.bytes_per_block == 22 * (37440 + 8640 + 1728)
    plain = laid(layers, "deepseek_v4", tp=8)
    assert plain.specs[0].page_bytes == 64 * 1024


def test_v0_pads_a_token_of_mla_to_256_bytes() -> None:
    """576 · 2 = 1,152 B to 1,280 in 0.7.2 and 0.7.3: DeepSeek-R1's blocks are 61 · 16 · 1,280 B."""
    layer: list[Layer] = [(Latent(rank=512, rope_dim=64, heads=128),)] * 61

    def pages(version: str) -> int:
        found = laid(layer, "deepseek_v3", version=version, block_size=16)
        return sum(spec.page_bytes for spec in found.specs)

    assert pages("0.7.2") == pages("0.7.3") == 61 * 16 * 1280
    assert pages("0.7.0") == pages("0.8.0") == 61 * 16 * 1152


def test_v0_gives_cross_attention_the_blocks_of_all_layers() -> None:
    """Llama-3.2-11B-Vision, 0.6.6: 14.65 GiB in 6,001 blocks of 40 · 2 · 8 · 128 · 2 · 16 B."""
    cross = Cross(kv_heads=8, key_dim=128, value_dim=128, encoder_tokens=6404)
    layers: list[Layer] = [(full(),)] * 32 + [(cross,)] * 8
    for version, kinds in (("0.6.6", {"FullAttentionSpec"}), ("0.12.0", None)):
        found = laid(layers, "mllama", version=version)
        names = {spec.type for spec in found.specs}
        assert names == kinds if kinds else len(names) == 2
    block = sum(spec.page_bytes for spec in laid(layers, "mllama", version="0.6.6").specs)
    assert block == 40 * 2 * 8 * 128 * 2 * 16
    assert 14.645 * GIB < 6001 * block < 14.655 * GIB
