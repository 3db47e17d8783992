"""Damaged configs never give a figure: each is refused in one line that names file and field."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from kvcalc.checkpoints.config import MAX_CONFIG_BYTES, model_from_config, read_config
from kvcalc.core.errors import KvcalcError

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16,
}  # fmt: skip


def refused(config: dict[str, Any]) -> KvcalcError:
    with pytest.raises(KvcalcError) as caught:
        model_from_config(config, name="m", where="dir/config.json")
    error = caught.value
    assert "\n" not in error.message
    assert error.message.startswith("dir/config.json: ")
    return error


NONSENSE = [0, -1, "32", 3.5, True, math.nan, math.inf, [], {}, 10**9, 10**30]


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
@pytest.mark.parametrize(
    "field", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size"]
)
def test_nonsense_in_the_shape(field: str, value: object) -> None:
    error = refused({**LLAMA, field: value})
    assert error.code == "invalid_config"
    assert field in error.message


@pytest.mark.parametrize("value", [-1, "16", 3.5, True, math.nan, [1], {}, 10**9], ids=repr)
def test_nonsense_in_the_head_dim(value: object) -> None:
    assert "head_dim" in refused({**LLAMA, "head_dim": value}).message


@pytest.mark.parametrize("value", [-4096, "4096", 4096.5, False, math.nan, [8]], ids=repr)
@pytest.mark.parametrize("model_type", ["mistral", "gemma2", "gpt_oss", "starcoder2", "llama"])
def test_nonsense_in_the_window(model_type: str, value: object) -> None:
    config = {**LLAMA, "model_type": model_type, "sliding_window": value}
    assert "sliding_window" in refused(config).message


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3, expected a divisor of the 4 heads"),
        ({"num_key_value_heads": [2, 2]}, "num_key_value_heads lists 2, expected 4"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types lists 3, expected 4"),
        ({"layer_types": "full_attention"}, "layer_types"),
        ({"layer_types": [1, 2, 3, 4]}, "layer_types[0] is 1, expected text"),
        ({"layer_types": ["sliding_attention"] * 4}, "sliding_window is null, expected a window"),
        ({"per_layer_config": {"9": {}}}, "per_layer_config.9"),
        ({"per_layer_config": {"1": 5}}, "per_layer_config.1 is 5, expected an object"),
        ({"per_layer_config": [1]}, "per_layer_config"),
    ],
)
def test_lists_and_overrides(config: dict[str, Any], field: str) -> None:
    error = refused({**LLAMA, **config})
    assert error.code == "invalid_config"
    assert field in error.message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"layer_types": ["quantum_attention"] * 4}, 'layer_types[0] is "quantum_attention"'),
        ({"per_layer_config": {"0": {"skip": ["soul"]}}}, 'skip is "soul"'),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M?*-"}, "[1]"),
        ({"model_type": "recurrent_gemma", "block_types": ["magic"]}, 'block_types[0] is "magic"'),
        ({"model_type": "deepseek_v4", "compress_ratios": [0, 4, 9, 0]}, "compress_ratios[2]"),
        ({"model_type": "glm_moe_dsa", "indexer_types": ["odd"] * 4}, 'indexer_types is "odd"'),
        ({"model_type": "mamba", "mamba_ssm_dtype": "int3"}, 'mamba_ssm_dtype is "int3"'),
        ({"model_type": "bert"}, "an encoder, which keeps no KV cache"),
    ],
)
def test_kinds_that_are_not_known(config: dict[str, Any], words: str) -> None:
    error = refused({**LLAMA, **config})
    assert error.code == "unsupported_architecture"
    assert words in error.message


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "jamba", "attn_layer_period": 0},
        {"model_type": "jamba", "attn_layer_offset": -1},
        {"model_type": "jamba", "mamba_d_state": "16"},
        {"model_type": "mamba2", "num_heads": 7},
        {"model_type": "bamba", "mamba_d_head": 3},
        {"model_type": "bamba", "mamba_n_heads": 7},
        {"model_type": "gemma3n_text", "num_kv_shared_layers": 4},
        {"model_type": "gemma3n_text", "num_kv_shared_layers": -1},
        {"model_type": "gemma", "head_dim": None},
        {"model_type": "falcon", "multi_query": "yes"},
        {"model_type": "qwen2", "use_sliding_window": 1, "sliding_window": 8},
        {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8,
         "max_window_layers": -1},
        {"model_type": "t5", "d_kv": 0},
        {"model_type": "deepseek_v3", "kv_lora_rank": "512"},
        {"model_type": "deepseek_v3", "qk_rope_head_dim": -64},
        {"model_type": "qwen3_next", "linear_num_value_heads": 5},
        {"model_type": "qwen3_next", "full_attention_interval": 0},
        {"model_type": "kimi_linear", "linear_attn_config":
         {"full_attn_layers": [1, 2], "kda_layers": [2, 3]}},
        {"model_type": "minimax", "attn_type_list": [0, 1]},
        {"model_type": "lfm2", "full_attn_idxs": [1], "conv_L_cache": 0},
        {"model_type": "xlstm", "num_heads": 4, "qk_dim_factor": "half"},
        {"model_type": "mpt", "attn_config": 5},
        {"model_type": "nemotron-nas", "block_configs": [{}, {}, {}, {}]},
        {"model_type": "mllama_text_model", "cross_attention_layers": [1, 99]},
        {"model_type": "zamba2", "num_hidden_layers": 5},
    ],
    ids=lambda c: "-".join(map(str, c.values()))[:50],
)  # fmt: skip
def test_nonsense_in_a_family_s_own_fields(config: dict[str, Any]) -> None:
    assert refused({**LLAMA, **config}).code == "invalid_config"


def test_unknown_model_types_name_the_nearest() -> None:
    error = refused({"model_type": "llamma"})
    assert error.code == "unsupported_architecture"
    assert error.hint is not None
    assert "llama" in error.hint
    assert "--kv-heads" in error.hint


@pytest.mark.parametrize("value", [None, 5, ["llama"]])
def test_a_config_without_a_model_type(value: object) -> None:
    assert refused({"model_type": value, "hidden_size": 64}).code == "invalid_config"


def test_control_characters_are_never_printed() -> None:
    error = refused({"model_type": "\x1b[31mred\n"})
    assert "\x1b" not in error.message
    assert "\\x1b" in error.message
    types = ["\x07bell"] * 4
    assert "\x07" not in refused({**LLAMA, "layer_types": types}).message


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "5", "null", '"text"', '{"model_type": "llama"} x', "\x00", "\ufffe",
        '{"num_hidden_layers": ' + "9" * 5000 + "}", "[" * 100_000, '{"a":' * 100_000,
    ],
    ids=lambda t: t[:12],
)  # fmt: skip
def test_files_that_are_no_config(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KvcalcError) as caught:
        read_config(str(path))
    assert caught.value.code == "invalid_config"
    assert "\n" not in caught.value.message


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\x00\xfe{}")
    with pytest.raises(KvcalcError, match="no valid JSON"):
        read_config(str(path))


@pytest.mark.parametrize("nested", [False, True])
def test_a_key_that_stands_twice(nested: bool, tmp_path: Path) -> None:
    text = '{"model_type": "llama", "num_hidden_layers": 4, "num_hidden_layers": 400}'
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llava", "text_config": ' + text + "}" if nested else text)
    with pytest.raises(KvcalcError, match="num_hidden_layers stands twice"):
        read_config(str(path))


def test_a_file_too_large_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b" " * (MAX_CONFIG_BYTES + 1))
    with pytest.raises(KvcalcError, match="larger than"):
        read_config(str(path))


@pytest.mark.parametrize("name", ["missing.json", "folder", "nul\0byte.json"])
def test_files_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(KvcalcError) as caught:
        read_config(str(tmp_path / name))
    assert caught.value.code == "unreadable_input"


def test_objects_nested_a_thousand_deep() -> None:
    config: dict[str, Any] = {"model_type": "llava"}
    for _ in range(3000):
        config = {"model_type": "qwen2_5_omni", "thinker_config": {**config}}
    assert refused({"model_type": "qwen3_omni_moe", "thinker_config": config}).code in {
        "invalid_config", "unsupported_architecture",
    }  # fmt: skip


def test_the_message_names_file_field_and_value() -> None:
    error = refused({**LLAMA, "num_key_value_heads": -8})
    assert error.message == (
        "dir/config.json: num_key_value_heads is -8, expected a whole number from 0 to 1,000,000"
    )
    assert error.hint is not None
