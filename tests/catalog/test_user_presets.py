"""The user's presets: they win over shipped ones, and their faults are told in one line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kvcalc.catalog.gpus import gpu_ids, load_all_gpus, load_gpu
from kvcalc.catalog.models import load_all_models, load_model, model_entry, model_ids
from kvcalc.core.errors import KvcalcError

MINE = """\
id = "my-70b"
aliases = ["Mine"]
query_heads = 64
[[layers]]
count = 80
kind = "full"
kv_heads = 8
key_dim = 128
value_dim = 128
"""
CARD = 'id = "my-card"\nmemory_bytes = 10_000_000_000\n'
#: A pattern needs names in place of a count.
NAMED = MINE.replace("count = 80", 'name = "full"')


@pytest.fixture(autouse=True)
def _no_presets_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVCALC_PRESETS", raising=False)


def put(folder: Path, text: str | bytes, name: str = "my-70b", kind: str = "models") -> Path:
    path = folder / kind / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def fault(folder: Path, name: str = "my-70b") -> KvcalcError:
    with pytest.raises(KvcalcError) as caught:
        load_model(name, [str(folder)])
    assert "\n" not in caught.value.message + str(caught.value.hint)
    return caught.value


def test_a_user_preset_is_found_by_id_file_and_alias(tmp_path: Path) -> None:
    path = put(tmp_path, MINE, "other-file")

    for name in ("my-70b", "MY_70B", "mine", "other-file", "my70b"):
        model = load_model(name, [str(tmp_path)])
        assert (model.id, len(model.layers)) == ("my-70b", 80)
        assert (model.source, model.file) == ("user preset", str(path))


def test_a_user_preset_wins_over_the_shipped_one_of_its_id(tmp_path: Path) -> None:
    put(tmp_path, MINE.replace("my-70b", "llama-3.1-70b"), "llama-3.1-70b")

    for name in ("llama-3.1-70b", "meta-llama/Llama-3.1-70B-Instruct", "llama31 70b"):
        assert load_model(name, [str(tmp_path)]).source == "user preset"
    assert load_model("llama-3.1-70b").source == "preset"
    assert load_model("llama-3.1-8b", [str(tmp_path)]).source == "preset"


def test_a_user_preset_wins_over_a_shipped_alias(tmp_path: Path) -> None:
    put(tmp_path, MINE.replace("Mine", "llama-3.1-70b-instruct"))

    assert load_model("llama-3.1-70b-instruct", [str(tmp_path)]).id == "my-70b"
    assert load_model("llama-3.1-70b", [str(tmp_path)]).source == "preset"


def test_the_variable_comes_before_the_app_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, app = tmp_path / "1", tmp_path / "2", tmp_path / "app"
    put(app, MINE.replace("= 80", "= 3"))
    put(second, MINE.replace("= 80", "= 2"))
    first.mkdir()
    monkeypatch.setenv("KVCALC_PRESETS", os.pathsep.join(map(str, (first, second))))

    assert len(load_model("my-70b", [str(app)]).layers) == 2
    put(first, MINE.replace("= 80", "= 1"))
    assert len(load_model("my-70b", [str(app)]).layers) == 1


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    put(tmp_path, MINE)
    assert len(load_model("my-70b", [str(tmp_path)]).layers) == 80

    put(tmp_path, MINE.replace("= 80", "= 8"))
    assert len(load_model("my-70b", [str(tmp_path)]).layers) == 8


def test_lists_hold_user_presets(tmp_path: Path) -> None:
    put(tmp_path, MINE)
    put(tmp_path, MINE.replace("my-70b", "gpt-2"), "gpt-2")
    put(tmp_path, CARD, "my-card", "gpus")
    dirs = [str(tmp_path)]

    assert len(load_all_models(dirs)) == len(model_ids(dirs)) == 214
    assert len(load_all_gpus(dirs)) == len(gpu_ids(dirs)) == 84
    assert {m.id for m in load_all_models(dirs) if m.source == "user preset"} == {"my-70b", "gpt-2"}


def test_a_user_gpu_needs_only_its_memory(tmp_path: Path) -> None:
    put(tmp_path, CARD, "my-card", "gpus")

    gpu = load_gpu("My Card", [str(tmp_path)])
    assert (gpu.memory_bytes, gpu.low_bytes, gpu.high_bytes) == (10**10,) * 3
    assert (gpu.bandwidth, gpu.dense_flops, gpu.source) == (None, {}, "user preset")


def test_missing_folders_are_no_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_model("gpt-2", [str(tmp_path / "none"), str(tmp_path)]).source == "preset"

    monkeypatch.setenv("KVCALC_PRESETS", str(tmp_path / "none"))
    with pytest.raises(KvcalcError, match="KVCALC_PRESETS: no folder") as caught:
        load_model("gpt-2")
    assert caught.value.code == "unreadable_input"


def test_an_unrelated_broken_file_spoils_nothing(tmp_path: Path) -> None:
    put(tmp_path, "x = ", "broken")

    assert load_model("gpt-2", [str(tmp_path)]).source == "preset"
    # A name found nowhere may be in there; a list would silently lack it.
    assert "broken.toml" in fault(tmp_path, "no-such-model").message
    with pytest.raises(KvcalcError, match=r"broken\.toml"):
        load_all_models([str(tmp_path)])


def test_own_names_are_suggested(tmp_path: Path) -> None:
    put(tmp_path, MINE)

    assert "my-70b" in str(fault(tmp_path, "my-71b").hint)


def test_the_whole_table_is_at_hand(tmp_path: Path) -> None:
    put(tmp_path, MINE + '[layers.from]\nkv_heads = "num_key_value_heads"\n')

    found = model_entry("my-70b", [str(tmp_path)])
    assert found.entry["layers"][0]["from"] == {"kv_heads": "num_key_value_heads"}
    assert model_entry("gpt-2").file == "presets/models/gpt-2.toml"


KV = "expected a whole number; compare kvcalc models show llama-3.1-70b"
#: (text, what is named, what was expected)
FAULTS = [
    (MINE.replace("kv_heads = 8\n", ""), "layers[0].kv_heads is missing", KV),
    (MINE.replace("kv_heads = 8", 'kv_heads = "8"'), 'layers[0].kv_heads is "8"', KV),
    (MINE.replace("kv_heads = 8", "kv_heads = 8.0"), "layers[0].kv_heads is 8.0", KV),
    (MINE.replace("kv_heads = 8", "kv_heads = true"), "layers[0].kv_heads is true", KV),
    (MINE.replace("kv_heads = 8", "kv_heads = 0"), "layers[0].kv_heads is 0", "at least 1"),
    (MINE.replace("kv_heads", "kv_head"), "unknown key layers[0].kv_head", "nearest: kv_heads;"),
    (MINE.replace('"full"', '"sliding_window"') + "window_tokens = -4\n",
     "layers[0].window_tokens is -4", "at least 1"),
    (MINE.replace('"full"', '"ful"'), 'layers[0].kind is "ful"', "full, sliding_window, chunked"),
    (MINE.replace('kind = "full"\n', ""), "layers[0].kind is missing", "full, sliding_window"),
    (MINE.replace('"full"', '"latent"'), "unknown key layers[0].kv_heads", "compare kvcalc"),
    (MINE.replace("count = 80\n", ""), "layers[0].count is missing", "or a pattern"),
    (MINE.replace("count = 80", "count = 80000"), "layers[0].count is 80000", "at most 10,000"),
    (MINE + MINE[MINE.index("[[") :], "pattern is missing", "12*(a + b)"),
    ('id = "my-70b"\n', "layers is missing", "[[layers]]"),
    ('id = "my-70b"\nlayers = 3\n', "layers is 3", "a list"),
    ('id = "my-70b"\nlayers = [1]\n', "layers[0] is 1", "a table"),
    ('id = "My 70"\n', 'id is "My 70"', "a name of a-z"),
    ("id = 70\n", "id is 70", "text in quotes"),
    ("name = 'x'\n", "id is missing", "a name of a-z"),
    (MINE.replace("query_heads", "xyzzy"), "unknown key xyzzy", "known: id, name,"),
    (MINE.replace("query_heads", "q_heads"), "unknown key q_heads", "nearest: query_heads"),
    (MINE.replace("query_heads = 64", 'dtype = "bf17"'), 'dtype is "bf17"', "bf16, fp16, fp32"),
    (MINE + '[source]\nchecked = "today"\n', 'source.checked is "today"', "a date such as"),
    (MINE + "[source]\nnote = []\n", "unknown key source.note", "nearest: notes"),
    (MINE + "[weights]\nbytes = 5\n", "weights.dtype is missing", "text such as bf16"),
    (MINE + "[layers.from]\nkv_heads = 8\n", "layers[0].from.kv_heads is 8", "text in quotes"),
    (NAMED.replace("query_heads = 64", 'pattern = "80*ful"'), "pattern: no layer is named ful",
     "one of full"),
    (NAMED.replace("query_heads = 64", 'pattern = "80*none"'), "layers[0]: full is not in",
     "expected it there"),
    (NAMED.replace("query_heads = 64", 'pattern = "80*"'), "pattern: its end at position 4",
     "a layer's name"),
    (MINE.replace("query_heads = 64", 'pattern = "80*full"'), "layers[0].name is missing",
     "a name"),
    (NAMED.replace("query_heads = 64", 'pattern = "full"\n').replace("kind", "count = 3\nkind"),
     "layers[0].count stands beside a pattern", "the pattern counts"),
    ("id = ", "not TOML: Invalid value (at end of document)", "toml.io"),
    (MINE + "\n[[layers]\n", "(at line 11, column", "toml.io"),
    ("x = " + "9" * 5000, "too long a number", "toml.io"),
    ("x = " + "[" * 5000, "not TOML", "toml.io"),
    (b'id = "my-70b"\nname = "\xff"\n', "line 2 is not UTF-8", "as UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "named", "expected"), FAULTS, ids=[f[1] for f in FAULTS])
def test_a_fault_names_file_key_and_expectation(
    tmp_path: Path, text: str | bytes, named: str, expected: str
) -> None:
    path = put(tmp_path, text)

    error = fault(tmp_path)
    assert error.code == "invalid_preset"
    assert error.message.startswith(f"{path}: ")
    assert named in error.message
    assert expected in str(error.hint)


def test_a_gpu_fault_compares_with_a_gpu(tmp_path: Path) -> None:
    put(tmp_path, CARD + "low_bytes = 20_000_000_000\n", "my-card", "gpus")
    with pytest.raises(KvcalcError, match="outside low_bytes to high_bytes") as caught:
        load_gpu("my-card", [str(tmp_path)])
    assert "kvcalc gpus show h100-sxm" in str(caught.value.hint)

    put(tmp_path, CARD + "[dense_flops]\nbf15 = 1\n", "my-card", "gpus")
    with pytest.raises(KvcalcError, match="dense_flops"):
        load_gpu("my-card", [str(tmp_path)])


def test_a_windows_editor_s_mark_is_no_fault(tmp_path: Path) -> None:
    put(tmp_path, b"\xef\xbb\xbf" + MINE.replace("\n", "\r\n").encode())

    assert load_model("my-70b", [str(tmp_path)]).id == "my-70b"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    put(tmp_path, MINE).chmod(stat.S_IWUSR)

    assert "cannot be read" in fault(tmp_path).message


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "my-70b.toml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "models" / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "models" / "pipe.toml")

    for name in ("my-70b", "folder", "pipe"):
        error = fault(tmp_path, name)
        assert (error.code, "is no readable file" in error.message) == ("unreadable_input", True)


def test_a_huge_file_is_no_preset(tmp_path: Path) -> None:
    put(tmp_path, MINE + "#" * 1_000_001)

    assert "larger than 1,000,000 bytes" in fault(tmp_path).message
