"""llama.cpp's padding, streams, window caches, states and refusals, with the arithmetic beside."""

from __future__ import annotations

import pytest

from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
)
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Layer, Model
from kvcalc.engines.llamacpp import context
from kvcalc.engines.llamacpp_archs import gguf_name

MIB = 2**20


def model(layers: list[Layer], architecture: str | None = "llama", **fields: object) -> Model:
    known = {"max_context_tokens": 131072, "hidden_size": 2560, **fields}
    return Model(id="m", name="m", layers=tuple(layers), architecture=architecture, **known)  # type: ignore[arg-type]


def full(heads: int = 8, key: int = 128, value: int | None = None) -> Full:
    return Full(kv_heads=heads, key_dim=key, value_dim=key if value is None else value)


def window(tokens: int, heads: int = 8, dim: int = 128) -> SlidingWindow:
    return SlidingWindow(kv_heads=heads, key_dim=dim, value_dim=dim, window=tokens)


LLAMA_8B = model([(full(),)] * 32)


def items(result_of: Model, **settings: object) -> dict[str, tuple[int, int, int, int]]:
    result = context(result_of, **settings)  # type: ignore[arg-type]
    return {i.item: (i.layers, i.cells or 0, i.streams or 0, i.bytes) for i in result.items}


def test_a_plain_model_keeps_every_cell() -> None:
    """4096 · 32 layers · 2 · 1024 · 2 B = 512 MiB."""
    result = context(LLAMA_8B, n_ctx=4096)
    (kv,) = result.items
    assert kv == ("kv", 32, 4096, 1, 256 * MIB, 256 * MIB, 512 * MIB)
    assert result.total_bytes == 512 * MIB


def test_contexts_are_padded_and_slots_may_grow_them() -> None:
    assert context(LLAMA_8B, n_ctx=5000).n_ctx == 5120
    result = context(LLAMA_8B, n_ctx=4096, n_seq_max=3)
    assert (result.n_ctx_seq, result.n_ctx) == (1536, 4608)
    assert items(LLAMA_8B, n_ctx=4096, n_seq_max=3)["kv"][1:3] == (1536, 3)
    unified = context(LLAMA_8B, n_ctx=4096, n_seq_max=3, kv_unified=True)
    assert (unified.n_ctx_seq, unified.n_ctx) == (4096, 4096)
    assert context(LLAMA_8B, n_ctx=100, n_seq_max=200).n_ctx_seq == 256
    assert context(LLAMA_8B).n_ctx == 131072


def test_the_batch_is_no_longer_than_the_context() -> None:
    assert context(LLAMA_8B, n_ctx=300).n_ubatch == 300
    assert context(LLAMA_8B, n_ctx=8192, n_ubatch=0).n_ubatch == 2048
    assert context(LLAMA_8B, n_ctx=8192, n_ubatch=4096, n_batch=4096).n_ubatch == 4096


GEMMA_4B = model(
    [(full(4, 256),) if (i + 1) % 6 == 0 else (window(1024, 4, 256),) for i in range(34)],
    "gemma3_text",
)


def test_gemma_3_4b_as_ollama_logged_it() -> None:
    """5 full layers at 131,072: 2560 MiB; 29 windows of 1024 + 512 cells: 174 MiB."""
    kv = items(GEMMA_4B, n_ctx=131072)
    assert kv["kv_full"] == (5, 131072, 1, 2560 * MIB)
    assert kv["kv_window"] == (29, 1536, 1, 174 * MIB)
    assert items(GEMMA_4B, n_ctx=131072, swa_full=True)["kv_window"][1] == 131072


def test_unified_windows_hold_all_slots() -> None:
    """Gemma-4-12B with 4 slots: 1024 · 4 + 512 = 4608 cells."""
    gemma = model(
        [(full(1, 512),) if (i + 1) % 6 == 0 else (window(1024, 8, 256),) for i in range(48)],
        "gemma4_text",
    )
    kv = items(gemma, n_ctx=8192, n_seq_max=4, kv_unified=True, type_k="q8_0", type_v="q8_0")
    assert kv["kv_full"] == (8, 8192, 1, 68 * MIB)
    assert kv["kv_window"] == (40, 4608, 1, 765 * MIB)


def test_layers_that_share_hold_nothing() -> None:
    """Gemma-4-E4B: 24 of 42 layers own a cache; 4 full ones 512 MiB, 20 windows 40 MiB."""
    own: list[Cache] = [
        full(2, 512) if (i + 1) % 6 == 0 else window(512, 2, 256) for i in range(42)
    ]
    layers: list[Layer] = [(c,) if i < 24 else (Shared(reads=c),) for i, c in enumerate(own)]
    kv = items(model(layers, "gemma4_text"), n_ctx=32768)
    assert kv["kv_full"] == (4, 32768, 1, 512 * MIB)
    assert kv["kv_window"] == (20, 1024, 1, 40 * MIB)


def test_without_flash_attention_values_are_as_wide_as_the_widest() -> None:
    gemma = model([(full(2, 128),), (window(512, 2, 64),)], "gemma4_text")
    narrow, wide = (
        next(i for i in context(gemma, n_ctx=4096, flash_attn=f).items if i.item == "kv_window")
        for f in (True, False)
    )
    assert (narrow.key_bytes, narrow.value_bytes) == (wide.key_bytes, wide.value_bytes // 2)
    assert gguf_name("grok-1") == "grok"
    grok = model([(full(2, 128),), (full(2, 64),)], "grok-1")
    (kv,) = context(grok, n_ctx=4096).items
    assert kv.value_bytes == 2 * 4096 * 2 * 128 * 2, "grok runs without flash attention"


@pytest.mark.parametrize("architecture", ["mistral", "qwen2", "phi3", "starcoder2", "qwen3"])
def test_windows_that_llama_cpp_ignores(architecture: str) -> None:
    assert set(items(model([(window(512),)] * 4, architecture), n_ctx=4096)) == {"kv"}


def test_llama_4_has_a_window_of_8192_whatever_its_chunk() -> None:
    chunk = Chunked(kv_heads=8, key_dim=128, value_dim=128, chunk=2048)
    llama4 = model([(full(),) if i % 4 == 3 else (chunk,) for i in range(8)], "llama4_text")
    assert items(llama4, n_ctx=65536)["kv_window"][:2] == (6, 8704)
    assert set(items(model([(full(),)] * 4, "llama4"), n_ctx=4096)) == {"kv"}


def test_patterns_that_the_converter_does_not_write() -> None:
    """cohere2's layers slide three of four, also where the config says otherwise."""
    odd = model([(window(512),), (full(),)] * 4, "cohere2")
    assert items(odd, n_ctx=4096)["kv_window"][0] == 6
    thinker = model([(full(),), (window(512),), (window(512),), (full(),)], "smallthinker")
    assert items(thinker, n_ctx=8192)["kv_window"][:2] == (3, 4608)


def test_exaone_4_slides_only_in_the_32b() -> None:
    layers: list[Layer] = [(full(),) if i % 4 == 3 else (window(512),) for i in range(64)]
    assert items(model(layers, "exaone4"), n_ctx=4096)["kv_window"][0] == 48
    assert set(items(model(layers[:32], "exaone4"), n_ctx=4096)) == {"kv"}
    plain = model([(full(),)] * 64, "exaone4")
    assert items(plain, n_ctx=16384)["kv_window"][:2] == (48, 4608)


def test_gemma_3n_gives_the_first_20_layers_a_cache() -> None:
    own = [full(2, 256) if (i + 1) % 5 == 0 else window(512, 2, 256) for i in range(30)]
    shared = model([(c,) if i < 15 else (Shared(reads=c),) for i, c in enumerate(own)], "gemma3n")
    kv = items(shared, n_ctx=4096)
    assert (kv["kv_full"][0], kv["kv_window"][0]) == (4, 16)
    with pytest.raises(KvcalcError, match="of which kind"):
        context(model([(full(),), (window(512),), (Shared(),)], "gemma3n"), n_ctx=4096)


DEEPSEEK = model([(Latent(rank=512, rope_dim=64),)] * 61, "deepseek_v3")


def test_latent_attention_has_no_values() -> None:
    """DeepSeek-R1 in q8_0 as ik_llama.cpp logged it: 61 · 576 · 34/32 · 32,768 = 1,166.62 MiB."""
    (kv,) = context(DEEPSEEK, n_ctx=32768, type_k="q8_0", type_v="q8_0").items
    assert (kv.item, kv.value_bytes) == ("kv_latent", 0)
    assert f"{kv.bytes / MIB:.2f}" == "1166.62"
    with pytest.raises(KvcalcError, match="one format"):
        context(DEEPSEEK, n_ctx=4096, type_k="q8_0")


def test_indexers_have_a_cache_of_keys() -> None:
    sparse = model([(Latent(rank=512, rope_dim=64), Indexer(dim=128))] * 4, "deepseek_v32")
    assert items(sparse, n_ctx=4096)["indexer"] == (4, 4096, 1, 4 * MIB)
    m3 = model([(full(), Indexer(dim=128))] * 4, "minimax_m3")
    assert items(m3, n_ctx=4096)["indexer"][3] == 8 * MIB, "keys and values"


def test_minicpm_3_is_expanded() -> None:
    """40 heads: keys 64 + 32, values hidden / heads = 64."""
    latent = Latent(rank=256, rope_dim=32, heads=40, nope_dim=64, value_dim=64)
    (kv,) = context(model([(latent,)], "minicpm3"), n_ctx=256).items
    assert (kv.key_bytes, kv.value_bytes) == (256 * 40 * 96 * 2, 256 * 40 * 64 * 2)
    with pytest.raises(KvcalcError, match="keys of every head"):
        context(model([(Latent(rank=256, rope_dim=32),)], "minicpm3"), n_ctx=256)


STATE = State(
    variant="gated_delta_net", conv_kernel=4, conv_channels=10240, recurrent_elements=48 * 128 * 128
)


def test_states_are_fp32_one_cell_a_slot() -> None:
    """Qwen3.6-27B, 4 slots: R 22.5 MiB, S 576 MiB; with 12 draft tokens 13 times that."""
    hybrid = model([(full(4, 256),) if i % 4 == 3 else (STATE,) for i in range(64)], "qwen3_5")
    (state,) = (i for i in context(hybrid, n_ctx=131072, n_seq_max=4).items if i.item == "state")
    assert (state.layers, state.cells) == (48, 4)
    assert (state.key_bytes / MIB, state.value_bytes / MIB) == (22.5, 576)
    copies = items(hybrid, n_ctx=131072, n_seq_max=4, n_rs_seq=12)
    assert copies["state"][3] / MIB == 7780.5
    plain = model([(STATE,)] * 2, "qwen3_next")
    once = items(plain, n_ctx=256)["state"][3]
    assert items(plain, n_ctx=256, n_rs_seq=3)["state"][3] == once, "no rollback there"


def test_deepseek_v4_has_a_stream_a_slot_and_compressed_cells() -> None:
    """43 raw rows of 512 bf16 in pad(128 + 4096) = 4352 cells: 182.75 MiB, as logged."""
    raw = Latent(rank=448, rope_dim=64, window=128)
    light: Layer = (raw, Compressed(dim=512, ratio=4), Indexer(dim=128, ratio=4))
    heavy: Layer = (raw, Compressed(dim=512, ratio=128))
    v4 = model([(raw,), (raw,), *[light, heavy] * 20, light], "deepseek_v4")
    kv = items(v4, n_ctx=64000, n_ubatch=4096, n_batch=4096, type_k="bf16", type_v="bf16")
    assert kv["kv_window"] == (43, 4352, 1, int(182.75 * MIB))
    assert kv["kv_compressed_4"] == (21, 16128, 1, 21 * 16128 * 512 * 2)
    assert kv["kv_compressed_128"][:2] == (20, 512)
    assert kv["indexer"] == (21, 16128, 1, 21 * 16128 * 128 * 2)
    # keys and scores: 8 rows of 2 · 512 fp32, 128 rows of 512, 8 rows of 2 · 128
    assert kv["compressor_state_4"][3] == 2 * 21 * 8 * 1024 * 4
    assert kv["compressor_state_128"][3] == 2 * 20 * 128 * 512 * 4
    assert kv["compressor_state_indexer"][3] == 2 * 21 * 8 * 256 * 4
    unified = items(v4, n_ctx=4096, n_seq_max=2, kv_unified=True)
    assert unified["kv_window"][2] == 2


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"type_v": "q8_0", "flash_attn": False}, "usage"),
        ({"type_k": "fp8"}, "unknown_dtype"),
        ({"type_k": "q3"}, "unknown_dtype"),
        ({"n_seq_max": 0}, "usage"),
        ({"n_seq_max": 257}, "usage"),
        ({"n_batch": 0, "n_ubatch": 0}, "usage"),
    ],
)
def test_settings_that_llama_cpp_refuses(settings: dict[str, object], code: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        context(LLAMA_8B, n_ctx=4096, **settings)  # type: ignore[arg-type]
    assert refused.value.code == code


def test_blocks_must_divide_heads_and_rows() -> None:
    odd = model([(full(1, 80),)])
    with pytest.raises(KvcalcError, match="head of 80"):
        context(odd, n_ctx=256, type_k="q8_0")
    with pytest.raises(KvcalcError, match="row of 80"):
        context(odd, n_ctx=256, type_k="q8_0", flash_attn=False)
    with pytest.raises(KvcalcError, match="names no maximum"):
        context(model([(full(),)], max_context_tokens=None))


def test_models_that_llama_cpp_does_not_know() -> None:
    with pytest.raises(KvcalcError) as refused:
        context(model([(full(),)], "gemma33"), n_ctx=256)
    assert refused.value.code == "unsupported_architecture"
    assert "gemma3" in (refused.value.hint or "")
    with pytest.raises(KvcalcError, match="one window a model"):
        context(model([(window(128),), (window(256),)], None), n_ctx=256)
    assert set(items(model([(full(),), (window(128),)], None), n_ctx=1024)) == {
        "kv_full",
        "kv_window",
    }


@pytest.mark.parametrize(
    ("name", "gguf"),
    [
        ("gemma3_text", "gemma3"),
        ("Gemma3ForConditionalGeneration", "gemma3"),
        ("Qwen3MoeForCausalLM", "qwen3moe"),
        ("DeepseekV32ForCausalLM", "deepseek32"),
        ("mixtral", "llama"),
        ("gpt_oss", "gpt-oss"),
        ("falcon-h1", "falcon-h1"),
    ],
)
def test_names_of_models(name: str, gguf: str) -> None:
    assert gguf_name(name) == gguf
