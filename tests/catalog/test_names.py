"""Spellings that find a preset, and what is suggested for those that do not."""

from __future__ import annotations

import os
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog import index, locate
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.lookup import lookup
from kvcalc.catalog.models import load_model, model_ids
from kvcalc.catalog.names import find, normalise, squeeze
from kvcalc.core.errors import KvcalcError

SPELLINGS = {
    "llama-3.1-70b": [
        "LLAMA_3.1-70b", "llama 3.1 70B instruct", "llama3.1-70b", "llama31 70b", " llama-3.1-70b ",
        "meta-llama/Llama-3.1-70B-Instruct", "Meta-Llama-3.1-70B", "llama-3.1_70B",
    ],
    "qwen2.5-7b": ["qwen 2.5 7b", "Qwen2.5-7B-Instruct", "qwen-2.5-7b", "QWEN/QWEN2.5-7B-INSTRUCT"],
    "gpt-3-175b": ["gpt-3", "gpt3", "GPT-3 175B"],
    "gpt-2": ["gpt2", "GPT-2", "openai-community/gpt2"],
    "internlm2.5-20b": ["internlm2_5-20b-chat", "internlm2.5 20b"],
    "llama-3.3-nemotron-super-49b-v1": ["Llama-3_3-Nemotron-Super-49B-v1"],
}  # fmt: skip
GPU_SPELLINGS = {
    "h100-sxm": ["h100", "H100 80GB", "H100_SXM", "NVIDIA H100 80GB HBM3", "nvidia h100"],
    "rtx4090": ["4090", "rtx-4090", "RTX 4090", "NVIDIA GeForce RTX 4090", "GeForce 4090"],
    "a100-80-sxm": ["a100", "a100-80", "A100 80GB", "NVIDIA A100-SXM4-80GB"],
    "rtx5090": ["5090", "RTX 5090"],
    "mi300x": ["MI300X", "AMD Instinct MI300X", "amd-mi300x"],
    "l40s": ["L40S", "NVIDIA L40S"],
    "dgx-spark-gb10": ["gb10", "dgx-spark", "DGX Spark"],
    "apple-m3-ultra": ["m3-ultra", "M3 Ultra", "apple m3 ultra"],
    "rtx3090": ["RTX 3090 24GB"],
    "l4": ["L4 24GB"],
}


@pytest.mark.parametrize(("preset", "name"), [(k, n) for k, v in SPELLINGS.items() for n in v])
def test_a_model_answers_to_usual_spellings(preset: str, name: str) -> None:
    assert load_model(name).id == preset


@pytest.mark.parametrize(("preset", "name"), [(k, n) for k, v in GPU_SPELLINGS.items() for n in v])
def test_a_gpu_answers_to_usual_spellings(preset: str, name: str) -> None:
    assert load_gpu(name).id == preset


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("lama-3.1-70b", "llama-3.1-70b"),
        ("llama-3.1-70bb", "llama-3.1-70b"),
        ("mistral-7b", "mistral-7b-v0.1"),
        ("phi-3-mini", "phi-3-mini-4k"),
        ("qwen2.5-7b-it", "qwen2.5-7b"),
        ("meta-llama/Lama-3.1-8B", "llama-3.1-8b"),
        ("deepseek-v33", "deepseek-v3"),
    ],
)
def test_the_nearest_model_is_suggested_first(name: str, first: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        load_model(name)

    assert caught.value.code == "unknown_model"
    assert caught.value.message == f'no model "{name}"'
    assert str(caught.value.hint).startswith(f"nearest: {first}, ")
    assert str(caught.value.hint).endswith("; all: kvcalc models")


def test_the_nearest_gpu_is_suggested() -> None:
    with pytest.raises(KvcalcError) as caught:
        load_gpu("rtx 4900")

    assert (caught.value.code, caught.value.message) == ("unknown_gpu", 'no gpu "rtx 4900"')
    assert "rtx4090" in str(caught.value.hint)
    assert str(caught.value.hint).endswith("; all: kvcalc gpus")


@pytest.mark.parametrize(
    "name", ["", " ", "x", "\x00", "a" * 5000, "../gpus/h100-sxm", "a/b/c", "."]
)
def test_nonsense_is_unknown_in_one_line(name: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        load_model(name)

    assert caught.value.code == "unknown_model"
    assert len(caught.value.message) < 120
    assert caught.value.message.isprintable()


def test_a_name_never_leaves_the_presets() -> None:
    """A name of the shape of a path finds no file beside the models."""
    for name in ("../index", "..", "../gpus/h100-sxm", os.path.abspath(__file__)):
        with pytest.raises(KvcalcError):
            lookup("models", name)


def test_separators_between_digits_are_not_forgotten() -> None:
    """gemma-3-1b must not answer to "gemma 31b", which means gemma-4-31b."""
    with pytest.raises(KvcalcError):
        load_model("gemma 31b")
    assert squeeze("gemma-3-1b") != squeeze("gemma-31b")


def test_a_squeezed_name_that_two_share_finds_neither() -> None:
    assert find("a-b", {"ab": "one", "a.b": "two"}) is None
    assert find("a-b", {"ab": "one", "a.b": "one"}) == "one"


@given(st.sampled_from(model_ids()), st.data())
def test_case_blanks_and_underscores_do_not_matter(preset: str, data: st.DataObject) -> None:
    def spelled(character: str) -> str:
        other = ["-", "_", " "] if character == "-" else [character, character.upper()]
        return data.draw(st.sampled_from(other))

    assert load_model("".join(map(spelled, preset))).id == preset


@given(st.text(string.printable, max_size=40))
def test_normalising_twice_changes_nothing(name: str) -> None:
    assert normalise(normalise(name)) == normalise(name)
    assert squeeze(normalise(name)) == squeeze(name)


def test_a_damaged_installation_is_told(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_loaded", {})
    monkeypatch.setattr(index, "index_path", lambda: os.path.join(tmp_path, "none.json"))

    with pytest.raises(KvcalcError, match="is missing or damaged"):
        index.shipped_names("models")
    with pytest.raises(KvcalcError, match="no nothing folder"):
        locate.data_dir("nothing")


def test_the_home_folder_is_shown_as_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")

    assert locate.shown_path("/home/ann/x.toml") == "~/x.toml"
    assert locate.shown_path("/home/anna/x.toml") == "/home/anna/x.toml"


@pytest.mark.parametrize(
    ("tag", "preset"),
    [("llama3.1:8b", "llama-3.1-8b"), ("qwen2.5:7b", "qwen2.5-7b"), ("gpt-oss:20b", "gpt-oss-20b")],
)
def test_a_tag_of_ollama_is_its_model(tag: str, preset: str) -> None:
    assert load_model(tag).id == preset
