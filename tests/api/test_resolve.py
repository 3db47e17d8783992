"""Names, files and environments behind the Python functions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kvcalc
from kvcalc import KvcalcError, resolve
from kvcalc.core.cache import Chunked, SlidingWindow
from kvcalc.core.model import Model
from kvcalc.shape import Shape, custom_model


@pytest.mark.parametrize(
    "name",
    [
        "llama-3.1-70b",
        "LLAMA-3.1-70B",
        "llama_3.1_70b",
        " llama-3.1-70b ",
        "meta-llama/Llama-3.1-70B",
        "meta-llama/llama-3.1-70b-instruct",
    ],
)
def test_a_model_answers_to_its_id_aliases_and_hub_names(name: str) -> None:
    assert resolve.model_of(name).id == "llama-3.1-70b"


def test_a_model_object_is_itself() -> None:
    model = resolve.model_of("llama-3.1-8b")

    assert resolve.model_of(model) is model
    assert kvcalc.size(model).bytes_per_token == 131_072
    assert isinstance(model, Model)
    assert model is resolve.model_of("llama-3.1-8b")  # read once


@pytest.mark.parametrize("name", [5, ["a"], b"llama-3.1-8b", 1.5, True])
def test_a_name_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(KvcalcError) as refused:
        resolve.model_of(name)  # type: ignore[arg-type]

    assert refused.value.code == "usage"
    assert "is no name" in refused.value.message


@pytest.mark.parametrize(
    ("name", "gpu", "count"),
    [
        ("h100", "h100-sxm", None),
        ("H100-SXM", "h100-sxm", None),
        ("8xh100", "h100-sxm", 8),
        ("8 x h100", "h100-sxm", 8),
        ("8×h100", "h100-sxm", 8),
        ("2X4090", "rtx4090", 2),
        ("4090", "rtx4090", None),
        ("a100-80", "a100-80-sxm", None),
    ],
)
def test_gpu_names_and_counts(name: str, gpu: str, count: int | None) -> None:
    found, said = resolve.gpu_of(name)

    assert (gpu, count) == (found.id, said)


@pytest.mark.parametrize(
    ("tp", "message"), [("0", "--tp is 0"), ("x", "--tp x"), (65_537, "the most is 65,536")]
)
def test_ranks_are_counts(tp: str | int, message: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        resolve.parallel_of(tp)

    assert message in refused.value.message + (refused.value.hint or "")


def test_groups_by_kind() -> None:
    model = custom_model(
        Shape(group=["1*sliding-window:8x128:1k", "1*window:8x128:2k", "1*chunked:2x64:8k"])
    )
    first, second, third = (layer[0] for layer in model.layers)

    assert isinstance(first, SlidingWindow)
    assert isinstance(second, SlidingWindow)
    assert isinstance(third, Chunked)
    assert (first.window, second.window, third.chunk) == (1024, 2048, 8192)


def test_formats_of_models_that_are_not_16_bit() -> None:
    """`auto` is 2 bytes: the model's own 16-bit type, or bf16."""
    gpt2 = resolve.model_of("gpt-2")

    assert resolve.storage_of(gpt2, "auto", None, None, "fp32").k.key == "bf16"
    assert resolve.storage_of(gpt2, "auto", None, None, "fp16").k.key == "fp16"
    assert resolve.storage_of(gpt2, "auto", None, None, "fp32").model.key == "fp32"


def test_weights_follow_their_option() -> None:
    llama = resolve.model_of("llama-3.1-70b")
    stored = resolve.weights_of(llama, None, None)

    assert (stored.format, stored.basis, stored.bits_per_weight) == ("bf16", "exact", 16.0)
    assert resolve.weights_of(llama, "stored", None) == resolve.weights_of(llama, None, None)
    # 8 × 35 GiB / 70,553,706,496 parameters
    assert round(resolve.weights_of(llama, None, "35GiB").bits_per_weight or 0, 2) == 4.26


@pytest.mark.parametrize("count", [None, 70_000_000_000])
def test_nominal_parameters(count: int | None) -> None:
    """The article's 70e9: 140e9 bytes as bf16, 35e9 as plain int4."""
    model = custom_model(Shape(layers=80, kv_heads=8, head_dim=128, parameters=count))
    if count is None:
        with pytest.raises(KvcalcError, match="no parameter count"):
            resolve.weights_of(model, "bf16", None)
    else:
        assert resolve.weights_of(model, "bf16", None).bytes == 140_000_000_000
        assert resolve.weights_of(model, "int4", None).bytes == 35_000_000_000


@pytest.mark.parametrize(
    ("variable", "platform", "folder"),
    [
        ("XDG_CONFIG_HOME", "linux", "{}/kvcalc"),
        ("HOME", "linux", "{}/.config/kvcalc"),
        ("HOME", "darwin", "{}/Library/Application Support/kvcalc"),
        ("APPDATA", "win32", "{}/kvcalc"),
    ],
)
def test_the_users_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, platform: str, folder: str
) -> None:
    for name in ("XDG_CONFIG_HOME", "HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr("sys.platform", platform)

    assert folder.format(tmp_path) == resolve.app_dir().replace(os.sep, "/")
