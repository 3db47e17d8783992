"""Families with fields of their own: states, latents, cross attention, wrappers; old and new."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kvcalc.checkpoints.config import model_from_config
from kvcalc.core.cache import Cache, Compressed, Cross, Full, Indexer, Latent, State
from kvcalc.core.model import Model

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip


def model(config: dict[str, Any]) -> Model:
    return model_from_config(config, name="m", where="config.json")


def kinds(config: dict[str, Any]) -> Counter[str]:
    return Counter(c.kind for layer in model(config).layers for c in layer)


def first(config: dict[str, Any]) -> Cache:
    return model(config).layers[0][0]


NEMOTRON = {"model_type": "nemotron_h", "num_attention_heads": 32, "num_key_value_heads": 8,
            "head_dim": 128, "hidden_size": 4096, "mamba_num_heads": 128, "mamba_head_dim": 64,
            "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4}  # fmt: skip


def test_nemotron_h_letters_and_the_re_saved_list() -> None:
    old = {**NEMOTRON, "hybrid_override_pattern": "M-*E", "num_hidden_layers": 4}
    types = ["linear_attention", "mlp", "full_attention", "moe"]
    assert model(old).layers == model({**NEMOTRON, "layers_block_type": types}).layers
    state = model(old).layers[0][0]
    assert isinstance(state, State)
    # 128 · 64 + 2 · 8 · 128 channels; 128 heads of 64 · 128 elements
    assert (state.conv_channels, state.recurrent_elements) == (10240, 1048576)
    assert [len(layer) for layer in model(old).layers] == [1, 0, 1, 0]


def test_kimi_linear_counts_from_1_and_is_re_saved_flat() -> None:
    """transformers 5 re-saves linear_attn_config as layer_types and linear_* fields."""
    old = {"model_type": "kimi_linear", "num_hidden_layers": 4, "num_attention_heads": 8,
           "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3],
                                  "head_dim": 16, "num_heads": 8,
                                  "short_conv_kernel_size": 4}}  # fmt: skip
    types = ["linear_attention"] * 3 + ["full_attention"]
    new = {"model_type": "kimi_linear", "num_hidden_layers": 4, "num_attention_heads": 8,
           "layer_types": types, "linear_head_dim": 16, "linear_num_heads": 8,
           "linear_conv_kernel_dim": 4}  # fmt: skip
    assert model(old).layers == model(new).layers
    assert isinstance(model(old).layers[3][0], Latent)


def test_granite_4_names_its_layers_the_old_way() -> None:
    config = {"model_type": "granitemoehybrid", "num_hidden_layers": 2, "hidden_size": 64,
              "num_attention_heads": 4, "mamba_n_heads": 8, "mamba_d_head": 16,
              "mamba_d_state": 16}  # fmt: skip
    old = model({**config, "layer_types": ["mamba", "attention"]})
    new = model({**config, "layer_types": ["linear_attention", "full_attention"]})
    assert old.layers == new.layers
    assert kinds(config) == {"state": 2}


def test_mla_ignores_kv_heads_and_head_dim() -> None:
    """DeepSeek-V3: 512 + 64 a token; transformers 5 saves head_dim as the rope dim."""
    config = {"model_type": "deepseek_v3", "num_key_value_heads": 128, "head_dim": 64}
    latent = first(config)
    assert isinstance(latent, Latent)
    assert (latent.rank, latent.rope_dim, latent.heads) == (512, 64, 128)
    assert kinds({"model_type": "deepseek_v32"}) == {"latent": 61, "indexer": 61}


def test_indexers_that_layers_share() -> None:
    config = {"model_type": "glm_moe_dsa", "num_hidden_layers": 8}
    assert kinds(config) == {"latent": 8, "indexer": 8}
    assert kinds({**config, "index_topk_freq": 4}) == {"latent": 8, "indexer": 3}
    assert kinds({**config, "index_topk_pattern": "FFSSSFSS"}) == {"latent": 8, "indexer": 3}


def test_longcat_has_two_attentions_a_layer() -> None:
    assert kinds({"model_type": "longcat_flash", "num_layers": 3}) == {"latent": 6}


def test_deepseek_v4_by_ratios_or_types() -> None:
    base = {"model_type": "deepseek_v4", "num_hidden_layers": 3}
    old = {**base, "compress_ratios": [0, 4, 128, 0], "qk_rope_head_dim": 64}
    types = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    assert model(old).layers == model({**base, "layer_types": types}).layers
    window, entries, key = model(old).layers[1]
    assert window == Latent(rank=448, rope_dim=64, window=128, heads=64)
    assert (entries, key) == (Compressed(dim=512, ratio=4), Indexer(dim=128, ratio=4))


def test_falcon_old_and_new_decoder() -> None:
    base = {"model_type": "falcon", "num_attention_heads": 8, "hidden_size": 64}
    assert first(base) == Full(kv_heads=1, key_dim=8, value_dim=8)
    assert first({**base, "multi_query": False}) == Full(kv_heads=8, key_dim=8, value_dim=8)
    new = {**base, "new_decoder_architecture": True, "num_kv_heads": 2}
    assert first(new) == Full(kv_heads=2, key_dim=8, value_dim=8)
    legacy = {"model_type": "RefinedWeb", "n_head": 8, "n_layer": 2, "hidden_size": 64}
    assert first({**legacy, "n_head_kv": 2}) == Full(kv_heads=2, key_dim=8, value_dim=8)


def test_t5_has_its_own_head_dim_and_decoder_depth() -> None:
    """d_kv, never d_model / num_heads; decoder layers default to the encoder's."""
    m = model({"model_type": "t5", "d_model": 1024, "num_heads": 128, "d_kv": 128,
               "num_layers": 24, "num_decoder_layers": 12})  # fmt: skip
    assert len(m.layers) == 12
    assert m.layers[0] == (
        Full(kv_heads=128, key_dim=128, value_dim=128),
        Cross(kv_heads=128, key_dim=128, value_dim=128, encoder_tokens=512),
    )
    assert len(model({"model_type": "t5", "num_layers": 7}).layers) == 7


def test_whisper_crosses_1500_frames() -> None:
    m = model({"model_type": "whisper"})
    cross = m.layers[0][1]
    assert isinstance(cross, Cross)
    assert cross.encoder_tokens == 1500


def test_mllama_cross_layers_hold_the_image_alone() -> None:
    """Llama-3.2-11B-Vision: 4 tiles of 40² + 1 patches = 6,404 tokens in 8 of 40 layers."""
    config = {"model_type": "mllama", "text_config": {"num_hidden_layers": 40},
              "vision_config": {"image_size": 560, "patch_size": 14,
                                "max_num_tiles": 4}}  # fmt: skip
    m = model(config)
    crossing = [layer for layer in m.layers if isinstance(layer[0], Cross)]
    assert len(crossing) == 8
    assert crossing[0] == (Cross(kv_heads=8, key_dim=128, value_dim=128, encoder_tokens=6404),)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llava", "text_config": LLAMA},
        {"model_type": "internvl_chat", "llm_config": LLAMA},
        {"model_type": "deepseek_vl_v2", "language_config": LLAMA},
        {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": LLAMA}},
        {"model_type": "never_heard_of_this_vl", "text_config": LLAMA},
        {"model_type": "llama", "text_config": LLAMA},
    ],
)
def test_wrappers_are_their_language_model(config: dict[str, Any]) -> None:
    assert model(config).layers == model(LLAMA).layers
    assert model(config).architecture == "llama"


def test_a_wrapper_may_keep_its_text_fields_at_the_top() -> None:
    flat = {**LLAMA, "model_type": "qwen2_vl", "vision_config": {"depth": 32}}
    assert model(flat).architecture == "qwen2_vl_text"
    assert model(flat).layers == model(LLAMA).layers


def test_a_nested_type_that_only_repeats_the_wrapper() -> None:
    config = {"model_type": "qwen2_5_vl", "text_config": {**LLAMA, "model_type": "qwen2_5_vl"}}
    assert model(config).architecture == "qwen2_5_vl_text"
