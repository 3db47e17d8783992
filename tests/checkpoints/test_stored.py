"""Parameters and weights: exact from the headers beside a config, else as far as it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc import resolve
from kvcalc.catalog.models import load_model
from kvcalc.checkpoints.source import load_source
from kvcalc.core.errors import KvcalcError
from tests.checkpoints.files import BITS, CONFIG, LAYERS, PARAMETERS, hf_tensors, safetensors, shard

DATA = Path(__file__).parents[1] / "data" / "configs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a config.json and nothing else."""
    found = tmp_path / "My-Model"
    found.mkdir()
    (found / "config.json").write_text(json.dumps(CONFIG))
    return found


def refusal(name: str | Path) -> KvcalcError:
    with pytest.raises(KvcalcError) as caught:
        load_source(str(name))
    assert caught.value.message.isprintable()
    assert caught.value.hint is None or caught.value.hint.isprintable()
    return caught.value


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("index", [True, False])
def test_headers_beside_a_config_are_exact(folder: Path, shards: int, index: bool) -> None:
    if shards == 1:
        safetensors(folder / "model.safetensors", hf_tensors())
    else:
        shard(folder, count=shards, index=index)
    for name in (folder, folder / "config.json"):
        model = load_source(str(name))

        assert (model.id, model.source) == ("My-Model", "config.json")
        assert model.file == str(folder / "config.json")
        assert model.layers == LAYERS
        assert model.parameters == model.stored_parameters == PARAMETERS
        assert model.active_parameters is None
        assert model.weights is not None
        assert model.weights[:4] == (
            "bf16", 2 * PARAMETERS, 2 * 96 * 64, (("bf16", 2 * PARAMETERS),),
        )  # fmt: skip
        assert model.weights.low_bytes is None


def test_a_config_alone_is_counted_by_its_formula(folder: Path) -> None:
    model = load_source(str(folder))

    assert (model.parameters, model.stored_parameters) == (PARAMETERS, None)
    assert model.weights is not None
    assert (model.weights.bytes, model.weights.low_bytes) == (2 * PARAMETERS, None)


def test_a_config_that_names_no_dtype_may_be_of_32_bits(folder: Path) -> None:
    changed = {k: v for k, v in CONFIG.items() if k != "torch_dtype"}
    (folder / "config.json").write_text(json.dumps(changed))

    info = resolve.weights_of(load_source(str(folder)), None, None)

    assert info.basis == "estimated"
    assert (info.low_bytes, info.bytes, info.high_bytes) == (
        2 * PARAMETERS, 2 * PARAMETERS, 4 * PARAMETERS,
    )  # fmt: skip


def test_several_dtypes_are_told_apart(folder: Path) -> None:
    tensors = hf_tensors() | {"model.norm.weight": ("F32", (64,))}
    safetensors(folder / "model.safetensors", tensors)

    info = resolve.weights_of(load_source(str(folder)), None, None)

    assert info.types == (("bf16", 2 * (PARAMETERS - 64)), ("fp32", 4 * 64))
    assert info.bytes == 2 * PARAMETERS + 2 * 64
    assert (info.basis, info.format) == ("exact", "bf16")


def test_vision_towers_are_weights_and_not_the_text_models_parameters(tmp_path: Path) -> None:
    inner = {k: v for k, v in CONFIG.items() if k != "torch_dtype"}
    vision = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 64}
    config = {"model_type": "llava", "torch_dtype": "bfloat16", "text_config": inner}
    config["vision_config"] = vision | {"model_type": "clip_vision_model"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    alone = load_source(str(tmp_path))
    tower = {"vision_tower.encoder.layers.0.mlp.fc1.weight": ("BF16", (64, 32))}
    safetensors(tmp_path / "model.safetensors", hf_tensors() | tower)

    model = load_source(str(tmp_path))

    assert model.parameters == alone.parameters == PARAMETERS
    assert model.stored_parameters == PARAMETERS + 64 * 32
    assert model.weights is not None
    assert model.weights.bytes == 2 * (PARAMETERS + 64 * 32)
    # Without headers: the text exactly, and about 1 · (4 · 32² + 2 · 32 · 64) of a tower.
    assert alone.weights is not None
    assert alone.weights.bytes == 2 * (PARAMETERS + 8192)
    assert alone.weights.low_bytes == 2 * PARAMETERS
    assert alone.weights.high_bytes == 2 * (PARAMETERS + 2 * 8192)


@pytest.mark.parametrize(
    ("quantisation", "packed", "dtype", "key"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "qweight", "I32", "gptq"),
        ({"quant_method": "awq", "bits": 4, "group_size": 32}, "qweight", "I32", "awq"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "weight", "U8", "nf4"),
        ({"quant_method": "hqq", "bits": 4}, "weight", "U8", "hqq (variant)"),
    ],
)
def test_weights_packed_into_integers_are_counted_apart(
    folder: Path, quantisation: dict[str, Any], packed: str, dtype: str, key: str
) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": quantisation}))
    tensors = hf_tensors()
    each = BITS[dtype] // 4
    for name in [n for n in tensors if "_proj." in n]:
        _, shape = tensors.pop(name)
        base = name.removesuffix("weight")
        tensors[base + packed] = (dtype, (shape[0] // each, shape[1]))
        tensors[base + "scales"] = ("F16", (shape[0], 2))
    safetensors(folder / "model.safetensors", tensors)

    model = load_source(str(folder))

    assert model.parameters == model.stored_parameters == PARAMETERS
    assert model.weights is not None
    assert model.weights.dtype == key
    assert model.weights.bytes == sum(t.bytes for t in model.weights.types)


def test_an_unknown_packing_leaves_the_count_open_and_the_bytes_exact(folder: Path) -> None:
    config = CONFIG | {"quantization_config": {"quant_method": "newest"}}
    (folder / "config.json").write_text(json.dumps(config))
    safetensors(folder / "model.safetensors", {"model.layers.0.x": ("I32", (8, 8))})

    model = load_source(str(folder))

    assert model.stored_parameters is None
    assert model.weights is not None
    assert model.weights[:2] == ("newest (variant)", 256)


def test_an_unknown_quantisation_without_headers_leaves_the_weights_unknown(folder: Path) -> None:
    config = CONFIG | {"quantization_config": {"quant_method": "newest"}}
    (folder / "config.json").write_text(json.dumps(config))

    model = load_source(str(folder))

    assert model.layers == LAYERS
    assert resolve.weights_of(model, None, None).bytes is None
    assert resolve.weights_of(model, "bf16", None).bytes == 2 * PARAMETERS


def test_a_family_without_a_formula_is_counted_by_its_headers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvcalc.checkpoints.stored.count_parameters", lambda _: None)
    # A layer past the last is a draft layer: stored, and no part of the model.
    safetensors(folder / "model.safetensors", hf_tensors(layers=3))
    draft = (PARAMETERS - 2 * 96 * 64 - 64) // 2

    model = load_source(str(folder))

    assert (model.parameters, model.stored_parameters) == (PARAMETERS, PARAMETERS + draft)
    assert model.weights is not None
    assert model.weights.embedding_elements == 2 * 96 * 64


def test_an_index_without_its_shards_still_tells_the_bytes(folder: Path) -> None:
    files = shard(folder)
    for n, file in enumerate(files):
        file.unlink()
        if n:  # what `git clone` leaves where large files were not fetched
            file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")

    model = load_source(str(folder))

    assert model.stored_parameters is None
    assert model.weights is not None
    assert model.weights[:2] == ("bf16", 2 * PARAMETERS)


@pytest.mark.parametrize("index", [True, False])
def test_some_shards_are_no_checkpoint(folder: Path, index: bool) -> None:
    files = shard(folder, count=3, index=index)
    files[1].unlink()

    error = refusal(folder)

    assert error.code == "unreadable_input"
    assert error.message.startswith(f"{files[1]}: is missing")


def test_a_pointer_among_shards_is_named(folder: Path) -> None:
    files = shard(folder)
    files[1].write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")

    error = refusal(folder)

    assert str(files[1]) in error.message


def test_one_tensor_in_two_shards(folder: Path) -> None:
    files = shard(folder)
    safetensors(files[1], hf_tensors())

    error = refusal(folder)
    assert "holds a tensor that another file holds too" in error.message
    assert files[1].name in error.message


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda p: p.stem)
def test_real_configs_give_what_the_catalog_says(path: Path) -> None:
    model, preset = load_source(str(path)), load_model(path.stem.removesuffix("-awq"))

    assert model.layers == preset.layers
    assert model.max_context_tokens == preset.max_context_tokens
    assert model.query_heads == preset.query_heads
    assert model.weights is not None
    if model.id == "deepseek-v3":
        # Its formula counts 58 router correction biases of 256 apart; its checkpoint has a draft
        # layer beside the model.
        assert model.parameters == (preset.parameters or 0) - 58 * 256
    else:
        assert model.parameters == preset.parameters
        assert preset.weights is not None
        assert path.stem.endswith("-awq") or model.weights.bytes == preset.weights.bytes
