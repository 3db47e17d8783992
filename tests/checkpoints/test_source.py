"""A MODEL that is a path: what is read of it, what it is called, and how each failure is named."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from kvcalc import models, resolve
from kvcalc.checkpoints.source import is_path, load_source, state
from kvcalc.core.errors import KvcalcError
from tests.checkpoints.files import (
    CONFIG,
    LAYERS,
    LLAMA,
    PARAMETERS,
    gguf,
    hf_tensors,
    llama_tensors,
    safetensors,
    shard,
)


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


# What is a path


@pytest.mark.parametrize(
    "name",
    ["x.json", "x.GGUF", "a/b.safetensors", "./x", "../x", "~/x", ".", "..", os.path.abspath("x")],
)
def test_paths(name: str) -> None:
    assert is_path(name)


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "org/name", "hf:org/name", "hf:a/b.gguf", "", "x"]
)
def test_names(name: str) -> None:
    assert not is_path(name)


def test_a_folder_wins_over_a_preset_once_it_holds_a_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt-2").mkdir()
    assert resolve.model_of("gpt-2").source == "preset"

    (tmp_path / "gpt-2" / "config.json").write_text(json.dumps(CONFIG))
    assert resolve.model_of("gpt-2").source == "config.json"


# Tensors and GGUF


def test_a_safetensors_file_needs_the_config_beside_it(folder: Path) -> None:
    path = safetensors(folder / "model.safetensors", hf_tensors())
    model = load_source(str(path))
    assert (model.id, model.source, model.file) == ("My-Model", "safetensors", str(path))
    assert model.stored_parameters == PARAMETERS

    (folder / "config.json").unlink()
    error = refusal(path)
    assert error.message == (
        f"{path}: tells the weights, but not the layers; there is no config.json beside it"
    )


def test_one_shard_stands_for_all(folder: Path) -> None:
    for path in shard(folder):
        assert load_source(str(path)).stored_parameters == PARAMETERS


def test_a_gguf_file_tells_it_all(tmp_path: Path) -> None:
    path = gguf(tmp_path / "a-llama-F16.gguf", LLAMA, llama_tensors(), tokens=96)

    model = load_source(str(path))

    assert (model.id, model.name, model.source) == ("a-llama-F16", "A Llama", "gguf")
    assert model.file == str(path)
    assert model.layers == LAYERS
    assert model.parameters == model.stored_parameters == PARAMETERS
    assert model.vocab_size == 96
    norms = 5 * 64
    assert model.weights is not None
    assert model.weights.types == (("f16", 2 * (PARAMETERS - norms)), ("f32", 4 * norms))
    assert model.weights.bytes == 2 * PARAMETERS + 2 * norms


def test_any_part_of_a_split_gguf_stands_for_all(tmp_path: Path) -> None:
    tensors = llama_tensors()
    for n, part in enumerate((tensors[:10], tensors[10:])):
        split = {"split.no": n, "split.count": 2, "split.tensors.count": len(tensors)}
        gguf(tmp_path / f"m-{n + 1:05d}-of-00002.gguf", split | (LLAMA if n == 0 else {}), part)

    for n in (1, 2):
        model = load_source(str(tmp_path / f"m-{n:05d}-of-00002.gguf"))
        assert (model.id, model.layers, model.parameters) == ("m", LAYERS, PARAMETERS)


def test_a_config_under_another_name_has_no_headers_beside_it(folder: Path) -> None:
    safetensors(folder / "model.safetensors", {"x": ("BF16", (8,))})
    other = folder / "small.json"
    other.write_text(json.dumps(CONFIG))

    model = load_source(str(other))
    assert (model.id, model.parameters, model.stored_parameters) == ("small", PARAMETERS, None)


def test_the_hubs_cache_gives_the_repositorys_name(tmp_path: Path) -> None:
    inner = tmp_path / "models--org--Their-Model" / "snapshots" / ("0" * 40)
    inner.mkdir(parents=True)
    (inner / "config.json").write_text(json.dumps(CONFIG))

    assert load_source(str(inner)).id == "Their-Model"


# Failures


def test_what_is_not_there(folder: Path) -> None:
    error = refusal(folder / "confg.json")
    assert error.code == "unreadable_input"
    assert error.message == f"{folder / 'confg.json'}: no such file"
    assert error.hint == "nearest: config.json"
    assert (
        refusal(folder / "none" / "x.gguf").hint == f"there is no folder {folder / 'none'} either"
    )
    assert "no such file" in refusal("a\0b.gguf").message


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert error.message == f"{tmp_path}: holds no config.json"
    (tmp_path / "m.gguf").touch()
    assert refusal(tmp_path).hint == "it holds m.gguf: name the file itself"


def test_a_folder_without_a_config_says_more_than_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qqqq").mkdir()
    (tmp_path / "model.bin").touch()
    for name, problem in (("qqqq", "holds no config.json"), ("model.bin", "is no model")):
        with pytest.raises(KvcalcError, match=problem):
            resolve.model_of(name)
    with pytest.raises(KvcalcError, match="no model"):
        resolve.model_of("qqqqq")


def test_other_files(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text("{}")
    assert "lists tensors, and no layers" in refusal(index).message
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text('{"version": "1.0"}')
    assert "model_type is missing" in refusal(tokenizer).message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in its folders")
@pytest.mark.parametrize("name", ["config.json", "model.gguf", "model.safetensors"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert "is no regular file" in refusal(tmp_path / name).message


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="may read everything")
def test_what_may_not_be_read(folder: Path) -> None:
    (folder / "config.json").chmod(0)
    assert "permission denied" in refusal(folder).message.lower()


# Reading again


def test_a_changed_file_is_read_again(folder: Path) -> None:
    name = str(folder)
    assert len(resolve.model_of(name).layers) == 2
    assert resolve.model_of(name) is resolve.model_of(name)

    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 12}))
    assert len(resolve.model_of(name).layers) == 12
    before = resolve.model_of(name)
    shard(folder)
    assert resolve.model_of(name) is not before


def test_the_state_names_all_parts(tmp_path: Path) -> None:
    for name in ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "other.gguf"):
        (tmp_path / name).touch()
    assert [part[0] for part in state(str(tmp_path / "m-00001-of-00002.gguf"))] == [
        "m-00001-of-00002.gguf", "m-00002-of-00002.gguf",
    ]  # fmt: skip
    assert state(str(tmp_path / "none" / "x.gguf")) == ()


def test_models_show_takes_a_path(folder: Path) -> None:
    shown = models(str(folder)).to_dict()

    assert (shown["id"], shown["source"], shown["pattern"]) == ("My-Model", "config.json", "2 full")
    assert shown["file"] == str(folder / "config.json")
