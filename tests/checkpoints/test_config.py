"""Configs to models: heads, dims, windows, dtypes, contexts, defaults, files."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kvcalc.checkpoints.architectures import dense_rows, index, wrappers
from kvcalc.checkpoints.config import model_from_config, read_config
from kvcalc.core.cache import Cache, Chunked, Full, Shared, SlidingWindow
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}  # fmt: skip


def model(config: dict[str, Any], *, include_mtp: bool = False) -> Model:
    return model_from_config(config, name="m", where="config.json", include_mtp=include_mtp)


def kinds(config: dict[str, Any]) -> Counter[str]:
    return Counter(c.kind for layer in model(config).layers for c in layer)


def first(config: dict[str, Any]) -> Cache:
    return model(config).layers[0][0]


def test_a_plain_config() -> None:
    """Llama-3.1-8B: 32 layers of 8 heads of 4096 / 32 = 128."""
    m = model(LLAMA)
    assert m.layers == ((Full(kv_heads=8, key_dim=128, value_dim=128),),) * 32
    assert (m.query_heads, m.hidden_size, m.vocab_size) == (32, 4096, 128256)
    assert (m.max_context_tokens, m.dtype, m.architecture) == (131072, "bf16", "llama")
    assert m.defaulted == ()


@pytest.mark.parametrize("head_dim", [None, 0])
def test_a_head_dim_of_null_or_0_is_none(head_dim: int | None) -> None:
    assert model({**LLAMA, "head_dim": head_dim}).layers == model(LLAMA).layers


def test_an_explicit_head_dim_wins() -> None:
    """GLM-4.5 has 96 heads over 5,120: only the explicit 128 is right."""
    config = {"model_type": "glm4_moe", "hidden_size": 5120, "num_attention_heads": 96,
              "num_key_value_heads": 8, "num_hidden_layers": 92, "head_dim": 128}  # fmt: skip
    assert first(config) == Full(kv_heads=8, key_dim=128, value_dim=128)


def test_a_class_that_rounds_its_head_dim_down() -> None:
    """glm4_moe's own default: 4096 // 96 = 42, as transformers computes it."""
    assert first({"model_type": "glm4_moe"}) == Full(kv_heads=8, key_dim=42, value_dim=42)


def test_hidden_sizes_that_the_heads_do_not_divide_are_refused() -> None:
    with pytest.raises(KvcalcError, match="hidden_size is 4100, expected a multiple of the 32"):
        model({**LLAMA, "hidden_size": 4100})


def test_missing_fields_take_the_class_default_and_say_so() -> None:
    """Gemma-7B without head_dim: the class says 256, and hidden / heads = 192 is wrong."""
    m = model({"model_type": "gemma", "hidden_size": 3072, "num_attention_heads": 16})
    assert m.layers[0][0] == Full(kv_heads=16, key_dim=256, value_dim=256)
    noted = dict(m.defaulted)
    assert noted["head_dim"] == "256"
    assert noted["num_key_value_heads"] == "16"
    assert noted["num_hidden_layers"] == "28"


def test_kv_heads_that_no_class_defaults_are_as_many_as_heads() -> None:
    m = model({k: v for k, v in LLAMA.items() if k != "num_key_value_heads"})
    assert m.layers[0][0] == Full(kv_heads=32, key_dim=128, value_dim=128)
    assert ("num_key_value_heads", "32") in m.defaulted


def test_kv_heads_listed_per_layer() -> None:
    """OpenELM-like lists hold for any plain family."""
    m = model({**LLAMA, "num_hidden_layers": 3, "num_key_value_heads": [8, 4, 8]})
    assert [c.kv_heads for (c,) in m.layers if isinstance(c, Full)] == [8, 4, 8]


@pytest.mark.parametrize(
    ("window", "kind"), [(None, "full"), (0, "full"), (4096, "sliding_window")]
)
def test_mistral_windows(window: int | None, kind: str) -> None:
    assert kinds({**LLAMA, "model_type": "mistral", "sliding_window": window}) == {kind: 32}


def test_mistral_without_the_key_has_the_class_default() -> None:
    m = model({**LLAMA, "model_type": "mistral"})
    assert isinstance(m.layers[0][0], SlidingWindow)
    assert ("sliding_window", "4096") in m.defaulted


def test_qwen2_ignores_its_window_unless_told_to_use_it() -> None:
    config = {**LLAMA, "model_type": "qwen2", "sliding_window": 131072, "max_window_layers": 28}
    assert kinds({**config, "use_sliding_window": False}) == {"full": 32}
    assert kinds({**config, "use_sliding_window": True}) == {"full": 28, "sliding_window": 4}


def test_layer_types_win_over_a_stray_window() -> None:
    config = {**LLAMA, "sliding_window": 4096, "layer_types": ["full_attention"] * 32}
    assert kinds(config) == {"full": 32}


def test_layer_types_longer_than_the_layers_are_cut() -> None:
    """Checkpoints with multi-token prediction list its layers too."""
    types = ["sliding_attention", "full_attention"] * 17
    config = {**LLAMA, "layer_types": types, "sliding_window": 128}
    assert kinds(config) == {"full": 16, "sliding_window": 16}


GEMMA3 = {"model_type": "gemma3_text", "num_hidden_layers": 62, "num_attention_heads": 32,
          "num_key_value_heads": 16, "head_dim": 128, "hidden_size": 5376,
          "sliding_window": 1024}  # fmt: skip


def test_gemma3_every_sixth_layer_is_full() -> None:
    """Gemma-3-27B: 62 layers, 10 full."""
    m = model(GEMMA3)
    full = [i for i, (c,) in enumerate(m.layers) if type(c) is Full]
    assert full == [5, 11, 17, 23, 29, 35, 41, 47, 53, 59]
    assert kinds({**GEMMA3, "sliding_window_pattern": 2}) == {"full": 31, "sliding_window": 31}


def test_exaone4_letters_and_no_window() -> None:
    config = {**LLAMA, "model_type": "exaone4", "sliding_window_pattern": "LLLG"}
    assert kinds({**config, "sliding_window": 4096}) == {"full": 8, "sliding_window": 24}
    assert kinds({**config, "sliding_window": None}) == {"full": 32}


def test_gemma4_re_saved_per_layer() -> None:
    """transformers 5 drops global_head_dim for per_layer_config with padded string keys."""
    base = {"model_type": "gemma4_text", "num_hidden_layers": 6, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8,
            "attention_k_eq_v": True}  # fmt: skip
    old = {**base, "global_head_dim": 32, "num_global_key_value_heads": 1}
    new = {**base, "per_layer_config": {"05": {"head_dim": 32, "num_key_value_heads": 1}}}
    assert model(old).layers == model(new).layers
    assert model(old).layers[5] == (Full(kv_heads=1, key_dim=32, value_dim=32),)
    assert model({**old, "attention_k_eq_v": False}).layers[5][0] == Full(
        kv_heads=2, key_dim=32, value_dim=32
    )


def test_shared_layers_hold_nothing() -> None:
    """Gemma-3n-E4B: the last 15 of 35 layers read earlier ones."""
    m = model({"model_type": "gemma3n_text"})
    assert kinds({"model_type": "gemma3n_text"}) == {"full": 4, "sliding_window": 16, "shared": 15}
    assert m.layers[20:] == ((Shared(),),) * 15


def test_llama4_chunks() -> None:
    assert kinds({"model_type": "llama4_text"}) == {"chunked": 36, "full": 12}
    assert isinstance(first({"model_type": "llama4_text"}), Chunked)
    assert kinds({"model_type": "llama4_text", "attention_chunk_size": None}) == {"full": 48}


@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        ({"torch_dtype": "float16"}, "fp16"),
        ({"dtype": "float32"}, "fp32"),
        ({"torch_dtype": "torch.bfloat16"}, "bf16"),
        ({"dtype": "float8_e4m3fn"}, "bf16"),
    ],
)
def test_both_spellings_of_the_dtype(fields: dict[str, str], dtype: str) -> None:
    config = {k: v for k, v in LLAMA.items() if k != "torch_dtype"}
    assert model({**config, **fields}).dtype == dtype


def test_a_dtype_inside_the_wrapper_and_none_at_all() -> None:
    bare = {k: v for k, v in LLAMA.items() if k != "torch_dtype"}
    assert model({"model_type": "llava", "dtype": "float16", "text_config": bare}).dtype == "fp16"
    assert ("dtype", "bf16") in model(bare).defaulted


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_yarn_stretches_the_context(key: str) -> None:
    scaling = {"factor": 4.0, "original_max_position_embeddings": 32768}
    yarn = {key: {**scaling, "rope_type": "yarn"}, "max_position_embeddings": 40960}
    assert model({**LLAMA, **yarn}).max_context_tokens == 131072
    llama3 = {key: {**scaling, "type": "llama3"}, "max_position_embeddings": 131072}
    assert model({**LLAMA, **llama3}).max_context_tokens == 131072


def test_gemma3_has_stretched_its_context_already() -> None:
    scaling = {"rope_scaling": {"factor": 8.0, "rope_type": "linear"}}
    config = {**GEMMA3, **scaling, "max_position_embeddings": 131072}
    assert model(config).max_context_tokens == 131072


def test_patterns_of_the_class_are_noted() -> None:
    noted = dict(model(GEMMA3).defaulted)
    assert noted["layer_types"] == "52 sliding_attention, 10 full_attention"
    assert noted["sliding_window_pattern"] == "6"


def test_experts() -> None:
    m = model({"model_type": "mixtral"})
    assert (m.experts, m.experts_per_token) == (8, 2)


def test_prediction_layers_only_on_request() -> None:
    config = {"model_type": "deepseek_v3", "num_nextn_predict_layers": 1}
    assert len(model(config).layers) == 61
    assert len(model(config, include_mtp=True).layers) == 62
    assert model(config, include_mtp=True).layers[61] == model(config).layers[60]
    assert len(model({"model_type": "llama"}, include_mtp=True).layers) == 32


def test_infinity_where_no_cache_is_shaped(tmp_path: Path) -> None:
    """transformers writes time_step_limit: [0.0, Infinity] for Mamba-2."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]}))
    assert read_config(str(path)).layers == model(LLAMA).layers


def test_a_folder_gives_the_model_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3.1-8B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    found = read_config(str(folder))
    assert (found.id, found.name) == ("Llama-3.1-8B", "Llama-3.1-8B")
    assert found.file == str(folder / "config.json")
    other = tmp_path / "mine.json"
    other.write_text(json.dumps(LLAMA))
    assert read_config(str(other)).name == "mine"


def test_the_index_names_what_the_modules_have() -> None:
    for module, names in index.MODULES.items():
        families = import_module(f"kvcalc.checkpoints.architectures.{module}").FAMILIES
        assert sorted(names.split()) == sorted(families)
    assert len(index.all_names()) == len(set(index.all_names()))


def test_every_wrapper_leads_to_a_family() -> None:
    for wrapper, text in wrappers.WRAPPERS.items():
        name = text.partition(" ")[0]
        known = not name or name in wrappers.WRAPPERS or index.find(name) is not None
        assert known, wrapper


#: Types without a class of transformers, and encoders: their files must say more than a type.
NEED_MORE = {
    *index.MODULES["remote"].split(), *dense_rows.ENCODERS, "deci", "nemotron-nas", "openelm",
    "pangu_ultra_moe",
}  # fmt: skip


@pytest.mark.parametrize("name", index.all_names())
def test_every_family_reads_its_own_defaults(name: str) -> None:
    if name in NEED_MORE:
        with pytest.raises(KvcalcError, match=r"is missing|is null|an encoder"):
            model({"model_type": name})
        return
    found = model({"model_type": name})
    assert found.layers
    assert found.defaulted
