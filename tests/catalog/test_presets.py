"""Every shipped preset: its strict form, its names, its sources, and the index over all."""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest

from kvcalc.catalog import index
from kvcalc.catalog.files import Entry, read_toml, toml_files
from kvcalc.catalog.gpus import gpu_ids, load_all_gpus
from kvcalc.catalog.locate import data_dir
from kvcalc.catalog.models import load_all_models, load_model, model_ids
from kvcalc.catalog.names import normalise
from kvcalc.catalog.schema import check

PRESETS = data_dir("presets")
FILES = [(kind, path) for kind in index.KINDS for path in toml_files(os.path.join(PRESETS, kind))]
CONFIDENCE = {"models": {"A", "A-", "B", "B-", "C", "D"}, "gpus": {"high", "medium", "low"}}


def entries(kind: str) -> list[Entry]:
    return [read_toml(path) for k, path in FILES if k == kind]


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda v: os.path.basename(str(v)))
def test_a_preset_has_the_strict_form(kind: str, path: str) -> None:
    entry = read_toml(path)

    check(kind, entry, path)
    assert os.path.basename(path) == f"{entry['id']}.toml"


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda v: os.path.basename(str(v)))
def test_a_preset_names_its_source_date_and_confidence(kind: str, path: str) -> None:
    source = read_toml(path)["source"]

    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", source["checked"])
    assert source["confidence"] in CONFIDENCE[kind]
    assert source["texts"]


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda v: os.path.basename(str(v)))
def test_a_doubtful_preset_says_why(kind: str, path: str) -> None:
    source = read_toml(path)["source"]

    if source["confidence"] in {"C", "D", "low"}:
        assert source.get("notes") or source.get("conflicts"), kind


def test_the_catalog_is_complete() -> None:
    assert (len(entries("models")), len(entries("gpus"))) == (213, 83)
    assert len(load_all_models()) == len(model_ids()) == 213
    assert len(load_all_gpus()) == len(gpu_ids()) == 83


def test_the_index_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert index.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_index_is_told(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = os.path.join(tmp_path, "index.json")
    monkeypatch.setattr(index, "index_path", lambda: stale)

    assert index.main([]) == 0
    assert index.main(["--check"]) == 0
    with open(stale, "a", encoding="utf-8") as file:
        file.write(" ")
    assert index.main(["--check"]) == 1
    assert index.main(["--what"]) == 2
    assert "python -m kvcalc.catalog.index" in capsys.readouterr().err


@pytest.mark.parametrize("kind", index.KINDS)
def test_names_are_unique_over_all_presets(kind: str) -> None:
    names = Counter(name for entry in entries(kind) for name in index.names_of(entry))

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("kind", index.KINDS)
def test_alias_lists_hold_no_duplicates(kind: str) -> None:
    for entry in entries(kind):
        words = [normalise(w) for w in (entry["id"], *entry.get("aliases", ()))]
        assert len(words) == len(set(words)), entry["id"]


def test_every_name_of_every_model_finds_it() -> None:
    for entry in entries("models"):
        for name in (entry["id"], entry["name"], *entry.get("aliases", ()), *entry["hub"]):
            assert load_model(name).id == entry["id"], name


def test_layer_names_appear_in_their_pattern() -> None:
    for entry in entries("models"):
        if "pattern" in entry:
            assert len(entry["layers"]) > 1 or "none" in entry["pattern"], entry["id"]


def test_active_parameters_are_fewer_than_all() -> None:
    for model in load_all_models():
        total = model.parameters or model.stored_parameters
        if total and model.active_parameters:
            assert model.active_parameters < total, model.id


def test_presets_hold_no_path_of_a_machine() -> None:
    for _, path in FILES:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert not re.search(r"/(home|root|work|tmp|Users)/", text), path
