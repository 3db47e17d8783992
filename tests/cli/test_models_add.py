"""`kvcalc models add`: a preset of the user's own, whole or not at all, the same model again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.decode import model_of
from kvcalc.checkpoints.config import model_from_config
from kvcalc.checkpoints.source import load_source
from kvcalc.checkpoints.stored import with_weights
from kvcalc.cli.models_add import checked_text
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
DATA = Path(__file__).parents[1] / "data"
CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 96,
    "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def folder(work: Path) -> Path:
    """A folder with a config in the folder that the program is started in."""
    found = work / "My Model_v1"
    found.mkdir()
    (found / "config.json").write_text(json.dumps(CONFIG))
    return found


@pytest.fixture
def presets(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's model presets, which need not exist."""
    monkeypatch.setattr("sys.platform", "linux")
    return Path(environment["XDG_CONFIG_HOME"]) / "kvcalc" / "models"


def data_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(done.stdout)
    found: dict[str, Any] = answer["data"]
    return found


def again(model: Model) -> Model:
    """The model that its preset's text gives."""
    entry = tomli.loads(checked_text(model, "x"))
    return replace(model_of(entry, model.file, model.source), id=model.id)


def test_a_folder_becomes_a_preset(kvcalc: Kvcalc, folder: Path, presets: Path) -> None:
    done = kvcalc("models", "add", folder.name, "--json")

    assert done.returncode == 0
    written = presets / "my-model-v1.toml"
    assert data_of(done)["written"] == str(written)
    assert data_of(done)["id"] == "my-model-v1"
    assert "wrote " in done.stderr
    assert [p.name for p in presets.iterdir()] == ["my-model-v1.toml"]
    assert "config.json" in tomli.loads(written.read_text())["source"]["texts"][0]

    as_preset = kvcalc("size", "my-model-v1", "-c", "100", "--json")
    as_path = kvcalc("size", f"./{folder.name}", "-c", "100", "--json")
    first, second = data_of(as_preset), data_of(as_path)
    model = first.pop("model")
    assert model["source"] == "user preset"
    assert second.pop("model")["source"] == "config.json"
    assert first == second


def test_it_shows_what_it_wrote(kvcalc: Kvcalc, folder: Path) -> None:
    done = kvcalc("models", "add", folder.name, "--id", "mine")

    assert done.stdout.startswith("mine  ")
    assert "mine.toml" in done.stdout
    shown = kvcalc("models", "show", "mine")
    assert shown.stdout == done.stdout
    quiet = kvcalc("models", "add", folder.name, "--id", "other", "-q")
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_what_is_there_is_not_written_over(kvcalc: Kvcalc, folder: Path, presets: Path) -> None:
    kvcalc("models", "add", folder.name, "--id", "mine")
    before = (presets / "mine.toml").read_text()
    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 3}))

    done = kvcalc("models", "add", folder.name, "--id", "mine")
    assert done.returncode == 2
    assert "mine.toml is there already\n" in done.stderr
    assert (presets / "mine.toml").read_text() == before

    assert kvcalc("models", "add", folder.name, "--id", "mine", "--force").returncode == 0
    assert "count = 3" in (presets / "mine.toml").read_text()


def test_nothing_is_left_where_the_source_is_refused(
    kvcalc: Kvcalc, folder: Path, presets: Path
) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 0}))

    assert kvcalc("models", "add", folder.name).returncode == 2
    assert not presets.exists()


def test_a_folder_that_cannot_be_made(kvcalc: Kvcalc, folder: Path, presets: Path) -> None:
    presets.parent.parent.mkdir(parents=True)
    presets.parent.write_text("a file")

    done = kvcalc("models", "add", folder.name, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["errors"][0]["code"] == "output_failed"


def test_a_shipped_preset_can_be_copied_and_replaced(kvcalc: Kvcalc, presets: Path) -> None:
    done = kvcalc("models", "add", "gpt-2", "--json")

    assert done.returncode == 0
    assert (presets / "gpt-2.toml").exists()
    assert json.loads(done.stdout)["warnings"][0]["code"] == "preset_replaced"
    assert data_of(kvcalc("size", "gpt-2", "--json"))["model"]["source"] == "user preset"


def test_a_preset_that_another_folder_hides(
    kvcalc: Kvcalc, folder: Path, presets: Path, tmp_path: Path
) -> None:
    kvcalc("models", "add", folder.name, "--id", "mine")
    other = tmp_path / "team"
    presets.parent.rename(other)

    done = kvcalc(
        "models", "add", folder.name, "--id", "mine", "--json", env={"KVCALC_PRESETS": str(other)}
    )
    assert json.loads(done.stdout)["warnings"][0]["code"] == "preset_not_used"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("add",), "add needs a SOURCE"),
        (("add", "a", "b"), "one SOURCE at a time"),
        (("add", "gpt-2", "--id", "Mine"), "--id Mine is no id"),
        (("add", "gpt-2", "--id", "../x"), "--id ../x is no id"),
        (("add", "gpt-2", "--id", ""), '--id "" is no id'),
        (("add", "gpt-2", "--names"), "--names is not for models add"),
        (("add", "gpt-2", "--family", "x"), "--family is not for models add"),
        (("show", "gpt-2", "--force"), "--force belongs to models add"),
        (("--id", "x"), "--id belongs to models add"),
        (("add", "none-such"), 'no model "none-such"'),
        (("add", "./none.json"), "no such file"),
    ],
)
def test_usage(kvcalc: Kvcalc, presets: Path, args: tuple[str, ...], said: str) -> None:
    done = kvcalc("models", *args)

    assert done.returncode == 2
    assert said in done.stderr
    assert not presets.exists()


@pytest.mark.parametrize("path", sorted((DATA / "configs").glob("*.json")), ids=lambda p: p.stem)
def test_a_real_config_survives_it(path: Path) -> None:
    model = load_source(str(path))
    assert again(model) == model


def test_every_recorded_config_survives_it() -> None:
    """Config → preset → model is the identity for every model type that is read."""
    seen = set()
    for file in ("hf_cache_bytes", "hf_decode_cache_bytes", "hf_wrapper_cache_bytes"):
        for line in (DATA / f"{file}.jsonl").read_text().splitlines():
            config = json.loads(line).get("config_min")
            if config is None:
                continue
            try:
                model = model_from_config(config, name="m", where="config.json")
            except KvcalcError:
                continue
            model = with_weights(model, config)
            assert again(model) == model
            seen.add(config["model_type"])
    assert len(seen) > 30


@given(
    changes=st.fixed_dictionaries(
        {},
        optional={
            "num_hidden_layers": st.integers(1, 200),
            "num_attention_heads": st.integers(1, 256),
            "num_key_value_heads": st.integers(1, 256),
            "head_dim": st.integers(1, 1024),
            "vocab_size": st.integers(1, 10**7),
            "max_position_embeddings": st.integers(1, 10**9),
            "torch_dtype": st.sampled_from(["float16", "float32", "bfloat16", None]),
            "model_type": st.sampled_from(
                ["llama", "mistral", "qwen2", "gemma3_text", "qwen3_moe"]
            ),
            "sliding_window": st.integers(1, 10**6),
        },
    )
)
def test_any_config_that_is_read_survives_it(changes: dict[str, Any]) -> None:
    config = {**CONFIG, **changes}
    try:
        model = model_from_config(config, name="m", where="config.json")
    except KvcalcError:
        return
    model = with_weights(model, config)
    assert again(model) == model
