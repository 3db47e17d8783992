"""GGUF metadata as models: layers of every family."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kvcalc.checkpoints.gguf_model import model_from_metadata
from kvcalc.core.cache import (
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
)
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model


def meta(architecture: str, **keys: Any) -> dict[str, Any]:
    """Metadata of a small model: 4 layers of 4 query and 2 KV heads of 64."""
    known: dict[str, Any] = {
        "block_count": 4,
        "embedding_length": 256,
        "context_length": 8192,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "vocab_size": 1000,
    }
    known |= {key.replace("__", "."): value for key, value in keys.items()}
    named = {f"{architecture}.{k}": v for k, v in known.items() if v is not None}
    return {"general.architecture": architecture, **named}


def read(architecture: str, **keys: Any) -> Model:
    return model_from_metadata(meta(architecture, **keys), name="m", where="m.gguf")


def kinds(found: Model) -> list[str]:
    return ["+".join(c.kind for c in layer) for layer in found.layers]


class Stored(NamedTuple):
    """A tensor as the header reader gives it."""

    name: str
    elements: int
    stored_bytes: int


def test_a_plain_model() -> None:
    found = read("llama")
    assert found.layers == ((Full(kv_heads=2, key_dim=64, value_dim=64),),) * 4
    assert (found.query_heads, found.max_context_tokens, found.hidden_size) == (4, 8192, 256)
    assert (found.vocab_size, found.architecture, found.source) == (1000, "llama", "gguf")
    assert found.parameters is None
    assert read("llama", attention__head_count_kv=None).layers[0] == (
        Full(kv_heads=4, key_dim=64, value_dim=64),
    )


def test_keys_and_values_of_their_own_size() -> None:
    found = read("mimo2", attention__key_length=192, attention__value_length=128,
                 attention__head_count_kv=[1, 2, 2, 1], attention__sliding_window=128,
                 attention__sliding_window_pattern=[False, True, True, False])  # fmt: skip
    assert found.layers[0] == (Full(kv_heads=1, key_dim=192, value_dim=128),)
    assert found.layers[1] == (SlidingWindow(kv_heads=2, key_dim=192, value_dim=128, window=128),)


@pytest.mark.parametrize(
    ("architecture", "keys", "slides"),
    [
        ("gemma2", {}, "SFSF"),
        ("gemma3", {"attention__sliding_window": 512}, "SSSS"),
        ("gemma3", {}, "FFFF"),
        ("cohere2", {"attention__sliding_window": 512}, "SSSF"),
        ("laguna", {"attention__sliding_window": 512}, "FSSS"),
        ("olmo2", {"attention__sliding_window": 512,
                   "attention__sliding_window_pattern": [1, 0, 1, 0]}, "SFSF"),
        ("gpt-oss", {"attention__sliding_window": 128,
                     "attention__sliding_window_pattern": 4}, "SSSF"),
        ("phi3", {"attention__sliding_window": 2047}, "SSSS"),
        ("phi3", {"attention__sliding_window": 0}, "FFFF"),
        ("llama", {"attention__sliding_window": 4096}, "FFFF"),
        ("afmoe", {"attention__sliding_window": 64,
                   "attention__sliding_window_pattern": 1}, "FFFF"),
    ],
)  # fmt: skip
def test_windows(architecture: str, keys: dict[str, Any], slides: str) -> None:
    found = read(architecture, **keys)
    letters = {"sliding_window": "S", "full": "F"}
    assert "".join(letters[kind] for kind in kinds(found)) == slides


def test_llama_4_is_chunked() -> None:
    assert kinds(read("llama4")) == ["chunked"] * 3 + ["full"]
    first = read("llama4").layers[0][0]
    assert isinstance(first, Chunked)
    assert first.chunk == 8192
    assert kinds(read("llama4", attention__sliding_window=0)) == ["full"] * 4


def test_gemma_layers_that_share_name_what_they_read() -> None:
    found = read("gemma4", attention__sliding_window=512, attention__key_length=128,
                 attention__value_length=128, attention__key_length_swa=64,
                 attention__value_length_swa=32, attention__shared_kv_layers=2,
                 attention__sliding_window_pattern=[True, False, True, False])  # fmt: skip
    assert kinds(found) == ["sliding_window", "full", "shared", "shared"]
    shared = found.layers[2][0]
    assert isinstance(shared, Shared)
    assert shared.reads == SlidingWindow(kv_heads=2, key_dim=64, value_dim=32, window=512)
    assert shared == Shared(), "what it reads does not tell shared caches apart"


LATENT = {
    "attention__head_count_kv": 1,
    "attention__key_length": 192,
    "attention__value_length": 128,
    "attention__kv_lora_rank": 128,
    "attention__key_length_mla": 96,
    "attention__value_length_mla": 48,
}


def test_latent_attention_with_and_without_its_keys() -> None:
    found = read("deepseek2", **LATENT)
    assert found.layers[0] == (Latent(rank=128, rope_dim=64, heads=4, nope_dim=32, value_dim=48),)
    old = {**LATENT, "attention__key_length_mla": None, "attention__head_count_kv": 4}
    assert read("deepseek2", **old).layers[0] == (Full(kv_heads=4, key_dim=192, value_dim=128),)


def test_indexers_stand_where_the_file_says() -> None:
    index = {**LATENT, "attention__indexer__key_length": 128, "attention__indexer__top_k": 64}
    assert kinds(read("deepseek32", **index)) == ["latent+indexer"] * 4
    types = {"attention__indexer__types": [True, False, True, False]}
    assert kinds(read("glm-dsa", **index, **types))[:2] == ["latent+indexer", "latent"]
    assert kinds(read("glm-dsa", **index)) == ["latent+indexer"] * 4
    long = read("glm-dsa", **{**index, "context_length": 2**20, "block_count": 8})
    owns = [i for i, kind in enumerate(kinds(long)) if "indexer" in kind]
    assert owns == [0, 1, 2, 6]
    assert kinds(read("hy_v4", **LATENT)) == ["latent"] * 4
    m3 = read("minimax-m3", attention__indexer__key_length=128, leading_dense_block_count=1)
    assert kinds(m3) == ["full"] + ["full+indexer"] * 3


SSM = {"ssm__conv_kernel": 4, "ssm__inner_size": 512, "ssm__state_size": 16}


def test_states() -> None:
    """(K − 1) · (inner + 2 · groups · state) conv and inner · state recurrent elements."""
    (mamba,) = read("mamba", attention__head_count=0, **SSM).layers[0]
    assert isinstance(mamba, State)
    assert (mamba.conv_channels, mamba.recurrent_elements, mamba.groups) == (512, 8192, 0)
    hybrid = read("granitehybrid", attention__head_count_kv=[0, 2, 0, 0], ssm__group_count=2,
                  ssm__time_step_rank=8, **SSM)  # fmt: skip
    assert kinds(hybrid) == ["state", "full", "state", "state"]
    (state,) = hybrid.layers[0]
    assert isinstance(state, State)
    assert (state.conv_channels, state.heads, state.group_channels) == (576, 8, 32)
    both = read("falcon-h1", ssm__group_count=1, **SSM)
    assert kinds(both) == ["full+state"] * 4


def test_layers_with_a_feed_forward_network_alone_hold_nothing() -> None:
    found = read("nemotron_h", attention__head_count_kv=[0, 0, 2, 0], ssm__group_count=1,
                 feed_forward_length=[0, 1024, 0, 0], **SSM)  # fmt: skip
    assert kinds(found) == ["state", "", "full", "state"]


def test_recurrent_layers_by_interval_and_by_list() -> None:
    keys = {**SSM, "ssm__group_count": 2, "ssm__time_step_rank": 4}
    assert kinds(read("qwen3next", **keys)) == ["state"] * 3 + ["full"]
    assert kinds(read("qwen35", full_attention_interval=2, **keys))[1] == "full"
    listed = read("qwen35moe", attention__recurrent_layers=[False, True, True, True], **keys)
    assert kinds(listed) == ["full"] + ["state"] * 3
    lightning = read("minimax-01", attention__key_length=32)
    (state,) = lightning.layers[0]
    assert isinstance(state, State)
    assert (state.conv_channels, state.recurrent_elements) == (0, 4 * 32 * 32)


def test_short_convolutions_kda_and_rwkv() -> None:
    lfm = read("lfm2", attention__head_count_kv=[0, 2, 0, 2], shortconv__l_cache=3)
    assert lfm.layers[0] == (State(variant="short_conv", conv_kernel=3, conv_channels=256),)
    kimi = read("kimi-linear", **{**LATENT, "attention__head_count_kv": [0, 0, 0, 1]},
                ssm__conv_kernel=4, kda__head_dim=32)  # fmt: skip
    (state,) = kimi.layers[0]
    assert isinstance(state, State)
    assert (state.conv_channels, state.recurrent_elements) == (3 * 4 * 32, 4 * 32 * 32)
    assert kinds(kimi)[3] == "latent"
    glm = read("glm5-next", **{**LATENT, "attention__head_count_kv": [0, 1, 0, 1]},
               ssm__conv_kernel=4, kda__head_dim=32, attention__indexer__key_length=128,
               attention__indexer__top_k=64)  # fmt: skip
    assert kinds(glm) == ["state", "latent+indexer"] * 2
    rwkv = read("rwkv7", attention__head_count=0, wkv__head_size=64)
    assert rwkv.layers[0] == (
        State(variant="rwkv", conv_kernel=2, conv_channels=512, recurrent_elements=256 * 64),
    )


V4 = {
    "attention__head_count_kv": 1,
    "attention__key_length": 512,
    "rope__dimension_count": 64,
    "attention__sliding_window": 128,
    "attention__indexer__key_length": 128,
    "attention__compress_ratios": [0, 4, 128, 4, 0],
}


def test_deepseek_v4() -> None:
    found = read("deepseek4", **V4)
    raw = Latent(rank=448, rope_dim=64, window=128)
    assert found.layers == (
        (raw,),
        (raw, Compressed(dim=512, ratio=4), Indexer(dim=128, ratio=4)),
        (raw, Compressed(dim=512, ratio=128)),
        (raw, Compressed(dim=512, ratio=4), Indexer(dim=128, ratio=4)),
    )
    with pytest.raises(KvcalcError, match="compress_ratios holds 8"):
        read("deepseek4", **{**V4, "attention__compress_ratios": [8] * 4})
    drafts = meta("deepseek4", **V4, nextn_predict_layers=1)
    assert len(model_from_metadata(drafts, name="m", where="m.gguf").layers) == 4
    head = [Stored("blk.3.nextn.eh_proj.weight", 10, 20)]
    found = model_from_metadata(drafts, name="m", where="m.gguf", tensors=head)
    assert len(found.layers) == 3


def test_t5_and_looped_layers() -> None:
    t5 = read("t5", decoder_block_count=2, attention__head_count_kv=None, context_length=512)
    assert kinds(t5) == ["full+cross"] * 2
    assert isinstance(t5.layers[0][1], Cross)
    assert len(read("nanbeige", num_loops=3).layers) == 12


def test_draft_layers_are_left_out() -> None:
    found = read("glm4moe", nextn_predict_layers=1)
    assert len(found.layers) == 3
    with pytest.raises(KvcalcError, match="no layer is left"):
        read("glm4moe", nextn_predict_layers=4)


def test_tensors_give_parameters_and_bytes() -> None:
    tensors = [
        Stored("token_embd.weight", 1000, 500),
        Stored("blk.0.ffn_down_exps.weight", 800, 400),
        Stored("blk.3.attn_q.weight", 64, 32),
    ]
    keys = meta("qwen3moe", expert_count=8, expert_used_count=2, nextn_predict_layers=1)
    found = model_from_metadata(
        {**keys, "general.file_type": 15}, name="m", where="m.gguf", tensors=tensors
    )
    assert (found.parameters, found.active_parameters, found.stored_parameters) == (
        1800,
        1200,
        1864,
    )
    assert found.weights is not None
    assert (found.weights.dtype, found.weights.bytes) == ("q4_k_m", 932)
    assert found.weights.embedding_elements == 1000
    assert (found.experts, found.experts_per_token) == (8, 2)
    odd = model_from_metadata(
        {**keys, "general.file_type": "7"}, name="m", where="m.gguf", tensors=tensors
    )
    assert odd.weights is not None
    assert odd.weights.dtype == "gguf"
