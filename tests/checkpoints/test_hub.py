"""hf: names against a loopback server that behaves like the hub: what is fetched and cached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvcalc.checkpoints.hub import load_hub
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from tests.checkpoints.files import LAYERS, PARAMETERS
from tests.checkpoints.hub_files import COMMIT, SHARDS, TOKEN, config, sharded, single
from tests.checkpoints.hub_server import Hub


def check(model: Model) -> None:
    assert model.layers == LAYERS
    assert model.parameters == model.stored_parameters == PARAMETERS
    assert model.weights is not None
    assert model.weights.bytes == 2 * PARAMETERS
    assert model.weights.dtype == "bf16"
    assert model.weights.types == (("bf16", 2 * PARAMETERS),)


def test_one_file_is_read_by_its_header(hub: Hub) -> None:
    hub.add("org/small", single())

    model = load_hub("hf:org/small")

    check(model)
    assert (model.id, model.hub, model.source) == ("small", ("org/small",), "hub")
    assert model.file == f"hf:org/small@{COMMIT}"
    fetched = {a.path.rpartition("/")[2] for a in hub.gets()}
    assert fetched == {"config.json", "model.safetensors"}
    assert all(a.range for a in hub.gets(".safetensors"))


def test_shards_are_read_from_the_store_without_the_token(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add("org/sharded", sharded(padding=100_000))

    check(load_hub("hf:org/sharded"))

    assert {a.token for a in hub.asked if a.host == "hub"} == {f"Bearer {TOKEN}"}
    assert {a.token for a in hub.asked if a.host == "store"} == {None}
    for shard in SHARDS:  # the first 64 KiB, then the rest of the header and not one byte more
        ranges = [a.range for a in hub.gets(shard) if a.host == "store"]
        header = 8 + int.from_bytes(hub.repositories["org/sharded"].files[shard][:8], "little")
        assert ranges == ["bytes=0-65535", f"bytes=65536-{header - 1}"]


def test_a_server_without_ranges_is_read_no_further_than_needed(hub: Hub) -> None:
    hub.ranges = False
    hub.add("org/sharded", sharded(padding=100_000))

    check(load_hub("hf:org/sharded"))


def test_every_file_is_of_the_commit_that_the_config_came_from(hub: Hub) -> None:
    hub.add("org/sharded", sharded())

    assert load_hub("hf:org/sharded@v1").file == f"hf:org/sharded@{COMMIT}"
    of = {a.path.rpartition("/")[2]: a.path.split("/")[4] for a in hub.gets()}
    assert of.pop("config.json") == "v1"
    assert set(of.values()) == {COMMIT}


def test_a_repository_without_safetensors_is_sized_by_its_config(hub: Hub) -> None:
    hub.add("org/bare", {"config.json": config()})

    model = load_hub("hf:org/bare")

    assert model.parameters == PARAMETERS
    assert model.stored_parameters is None


def test_a_mirror_may_say_that_a_file_is_missing_without_a_word(hub: Hub) -> None:
    hub.add("org/bare", {"config.json": config()})
    hub.failing["model.safetensors"] = hub.failing["model.safetensors.index.json"] = (404, {})

    assert load_hub("hf:org/bare").parameters == PARAMETERS


def test_the_cache_answers_a_second_time_and_offline(
    hub: Hub, package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/bare", {"config.json": config()})
    load_hub("hf:org/bare")
    load_hub("hf:org/bare")
    assert [a.range for a in hub.gets("config.json")] == ["bytes=0-0", None, "bytes=0-0"]

    hub.asked.clear()
    monkeypatch.setattr(package.constants, "HF_HUB_OFFLINE", True)
    assert load_hub("hf:org/bare").parameters == PARAMETERS
    assert hub.asked == []

    with pytest.raises(KvcalcError, match="HF_HUB_OFFLINE is set") as caught:
        load_hub("hf:meta-llama/Llama-3.1-70B")
    preset = "use the preset llama-3.1-70b (no network)"
    assert caught.value.hint == f"unset HF_HUB_OFFLINE once, or {preset}"
    assert hub.asked == []


def test_a_whole_model_in_the_cache_needs_no_ranges(
    hub: Hub, package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sharded()
    hub.add("org/sharded", files)
    for name in files:
        package.hf_hub_download("org/sharded", name)
    hub.asked.clear()

    check(load_hub("hf:org/sharded"))
    assert {(a.method, a.range) for a in hub.asked} == {("GET", "bytes=0-0"), ("HEAD", None)}

    monkeypatch.setattr(package.constants, "HF_HUB_OFFLINE", True)
    check(load_hub("hf:org/sharded"))


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_a_cached_copy_serves_while_the_hub_does_not(hub: Hub, status: int) -> None:
    hub.add("org/bare", {"config.json": config()})
    load_hub("hf:org/bare")
    hub.failing["config.json"] = (status, {})

    assert load_hub("hf:org/bare").parameters == PARAMETERS


def kvcalc(hub: Hub, home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The program, in a process of its own."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "KVCALC_"))}
    own |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "kvcalc", *words],
        env={**own, **variables}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_the_program_honours_the_variables(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/sharded", sharded())

    done = kvcalc(hub, tmp_path, "size", "hf:org/sharded", "--json", HF_TOKEN=TOKEN)

    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)["data"]
    assert data["bytes_per_token"] == 2 * 2 * 2 * 16 * 2
    assert data["model"]["file"] == f"hf:org/sharded@{COMMIT}"
    assert data["weights"]["types"] == [{"type": "bf16", "bytes": 2 * PARAMETERS}]
    assert data["weights"]["basis"] == "exact"
    assert {a.path.rpartition("/")[2] for a in hub.asked} == {
        "config.json", "model.safetensors", "model.safetensors.index.json", *SHARDS,
    }  # fmt: skip

    hub.asked.clear()
    done = kvcalc(hub, tmp_path, "size", "hf:org/sharded", "--json", HF_HUB_OFFLINE="1")
    assert done.returncode == 0
    assert hub.asked == []


def test_the_program_never_prints_the_token(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/gated", {}, (403, "GatedRepo"))
    hub.failing["model.safetensors"] = (500, {})
    hub.add("org/broken", {"config.json": config()})
    for name in ("org/gated", "org/broken", "org/none"):
        done = kvcalc(hub, tmp_path, "size", f"hf:{name}", "--json", "-v", HF_TOKEN=TOKEN)
        assert done.returncode == 2
        assert TOKEN not in done.stdout + done.stderr
        assert done.stderr.count("\n") == 2

    # A token that no header can hold makes the HTTP library complain, with the token in its words.
    done = kvcalc(hub, tmp_path, "size", "hf:org/other", HF_TOKEN="hf_tok€n")  # noqa: S106
    assert done.returncode == 2
    assert "hf_tok" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("endpoint", "problem"),
    [
        ("http://127.0.0.1:9", "the hub cannot be reached"),
        ("http://no.such.host.invalid", "the hub cannot be reached"),
        ("nonsense", "at config.json"),
    ],
)
def test_an_endpoint_that_does_not_answer(
    hub: Hub, tmp_path: Path, endpoint: str, problem: str
) -> None:
    done = kvcalc(hub, tmp_path, "size", "hf:org/name", HF_ENDPOINT=endpoint, NO_PROXY="*")

    assert done.returncode == 2
    assert done.stderr.startswith("error: hf:org/name cannot be read: ")
    assert problem in done.stderr
    assert done.stderr.count("\n") == 2


def test_without_the_package_its_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['huggingface_hub'] = None; from kvcalc.cli.main import run;"
        "sys.exit(run(['size', 'hf:org/name', '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 2
    assert json.loads(done.stdout)["errors"][0]["code"] == "missing_extra"
    assert "pip install 'kvcalc[hub]'" in done.stderr


def test_nothing_else_reaches_for_a_network(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(config())
    code = (
        "import sys; from kvcalc.cli.main import run; asked = [];"
        "sys.addaudithook(lambda event, args: event[:7] == 'socket.' and asked.append(event));"
        "run(['size', 'llama-3.1-8b', '--json']); run(['size', '.', '--json']);"
        "run(['size', 'org/none', '--json']); run(['models', 'add', '.', '--id', 'x']);"
        "sys.exit('huggingface_hub' in sys.modules or ', '.join(asked) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]),
             "XDG_CONFIG_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
