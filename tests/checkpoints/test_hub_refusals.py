"""hf: names that are refused: each failure of the hub, of the network, of a file, by its name."""

from __future__ import annotations

import struct
import time
import traceback
from typing import TYPE_CHECKING

import pytest

from kvcalc.checkpoints import hub_fetch
from kvcalc.checkpoints.hub import load_hub, repo_of
from kvcalc.core.errors import KvcalcError
from tests.checkpoints.files import hf_tensors
from tests.checkpoints.hub_files import SHARDS, TOKEN, config, safetensors, sharded, single

if TYPE_CHECKING:
    from tests.checkpoints.hub_server import Hub


def refusal(name: str) -> KvcalcError:
    with pytest.raises(KvcalcError) as caught:
        load_hub(name)
    error = caught.value
    assert TOKEN not in "".join(traceback.format_exception(error)) + str(error.hint)
    assert error.message.isprintable()
    return error


@pytest.mark.parametrize("status", [401, 403])
def test_gated(hub: Hub, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    if status == 403:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add("meta-llama/Llama-3.1-70B", {"config.json": config()}, (status, "GatedRepo"))
    hub.add("org/gated", {"config.json": config()}, (status, "GatedRepo"))

    error = refusal("hf:meta-llama/Llama-3.1-70B")
    access = "set HF_TOKEN to one with access" if status == 403 else "set HF_TOKEN"

    assert error.message == f"hf:meta-llama/Llama-3.1-70B is gated ({status})"
    assert error.hint == f"{access}, or use the preset llama-3.1-70b (no network)"
    assert error.code == "unreadable_input"
    assert refusal("hf:org/gated").hint == access


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("hf:org/none", "unknown_model", "hf:org/none is not on the hub, or is private (401)"),
        ("hf:org/bare@v9", "unknown_model", "hf:org/bare@v9 has no such revision (404)"),
        ("hf:org/gguf", "unreadable_input", "hf:org/gguf has no config.json"),
    ],
)
def test_what_is_not_there(hub: Hub, name: str, code: str, message: str) -> None:
    hub.add("org/bare", {"config.json": config()})
    hub.add("org/gguf", {"model-q4_k_m.gguf": b"GGUF"})

    error = refusal(name)

    assert (error.code, error.message) == (code, message)
    assert error.hint


@pytest.mark.parametrize(
    ("status", "headers", "problem", "hint"),
    [
        (429, {"Retry-After": "42"}, "cannot be read: too many requests (429)",
         "try again in 42 s"),
        (429, {}, "cannot be read: too many requests (429)",
         "try again later, with HF_TOKEN set for a higher limit"),
        (500, {}, "cannot be read: the hub has trouble (500)", "try again later"),
        (503, {"Retry-After": "1"}, "cannot be read: the hub has trouble (503)", "try again later"),
        (401, {}, "is gated or private: access is refused (401)",
         "set HF_TOKEN to one with access"),
        (403, {"X-Error-Message": "Access to this resource is disabled."},
         "is gated or private: access is refused (403)", "set HF_TOKEN to one with access"),
        (404, {}, "cannot be read: no config.json (404)",
         "check the name, check HF_ENDPOINT and any proxy"),
        (418, {}, "cannot be read: the hub answered 418", "check HF_ENDPOINT and any proxy"),
    ],
)  # fmt: skip
def test_refusals_are_named(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, status: int, headers: dict[str, str], problem: str,
    hint: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add("org/bare", {"config.json": config()})
    hub.failing["config.json"] = (status, headers)

    started = time.monotonic()
    error = refusal("hf:org/bare")

    assert error.message == f"hf:org/bare {problem}"
    assert error.hint == hint
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("file", ["model.safetensors.index.json", *SHARDS])
def test_a_refusal_of_any_file_is_named(hub: Hub, file: str) -> None:
    hub.add("org/sharded", sharded())
    hub.failing[file] = (429, {"Retry-After": "7"})

    error = refusal("hf:org/sharded")

    assert error.message == "hf:org/sharded cannot be read: too many requests (429)"
    assert error.hint == "try again in 7 s"


def test_slow_and_cut_off_answers(hub: Hub) -> None:
    hub.add("org/sharded", sharded(padding=100_000))
    hub.slow["config.json"] = 1.5
    assert "took too long" in refusal("hf:org/sharded").message

    hub.slow = {}
    hub.slow[SHARDS[0]] = 1.5
    assert f"{SHARDS[0]} took too long" in refusal("hf:org/sharded").message

    hub.slow.clear()
    hub.cut[SHARDS[1]] = 500
    assert "was cut off" in refusal("hf:org/sharded").message


def test_an_answer_that_only_drips_ends_too(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/small", single())
    monkeypatch.setattr(hub_fetch, "MAX_SECONDS", -1.0)
    monkeypatch.setattr(hub_fetch, "_CHUNK", 16)

    assert "did not arrive" in refusal("hf:org/small").message


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is cut off"),
        (b"version https://git-lfs", "past the end of the file"),
        (struct.pack("<Q", 2**40) + b"{}", "past the end of the file"),
        (struct.pack("<Q", 16) + b'{"a": {"dtype"} ', "not JSON"),
        (safetensors(hf_tensors())[:-1], "ends at byte"),
    ],
)
def test_a_damaged_header_is_named_with_its_file(hub: Hub, data: bytes, problem: str) -> None:
    hub.add("org/small", {"config.json": config(), "model.safetensors": data})

    error = refusal("hf:org/small")

    assert error.message.startswith("hf:org/small: model.safetensors: ")
    assert problem in error.message


def test_a_damaged_config_is_named(hub: Hub) -> None:
    hub.add("org/bare", {"config.json": config(num_hidden_layers=-1)})
    error = refusal("hf:org/bare")
    assert error.code == "invalid_config"
    assert "hf:org/bare" in error.message


@pytest.mark.parametrize(
    "name",
    ["hf:", "hf:a/b/c", "hf:../x", "hf:a/..", "hf:a b/c", "hf:a/b@", "hf:a/b@x y", "hf:a/b@../..",
     "hf:a--b/c", "hf:-a/b", "hf:a/b\n", "hf:" + "x" * 300, "hf:datasets/a/b", "hf:a/b?x",
     "hf:é/b"],
)  # fmt: skip
def test_no_name_of_the_hub(name: str) -> None:
    with pytest.raises(KvcalcError, match="is no name of the hub") as caught:
        repo_of(name)
    assert caught.value.code == "usage"


def test_a_gguf_file_of_the_hub_is_to_be_fetched_first() -> None:
    with pytest.raises(KvcalcError, match="from the disk only"):
        repo_of("hf:org/name:model-Q4_K_M.gguf")


@pytest.mark.parametrize(
    ("name", "repo", "revision"),
    [
        ("hf:gpt2", "gpt2", None),
        ("HF:Org/Na.me_1", "Org/Na.me_1", None),
        ("hf://org/name", "org/name", None),
        ("hf:org/name@refs/pr/1", "org/name", "refs/pr/1"),
    ],
)
def test_names(name: str, repo: str, revision: str | None) -> None:
    assert repo_of(name) == (repo, revision)
