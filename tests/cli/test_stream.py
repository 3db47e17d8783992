"""kvcalc batch: a question a line, an envelope a line, in order, whatever the lines hold."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.cli import stream
from kvcalc.cli.batch import _lines
from tests.answers import ask

Kvcalc = Callable[..., "subprocess.CompletedProcess[str]"]
GOOD = {"command": "size", "model": "llama-3.1-8b", "context": [4096]}


def answers(*lines: bytes | dict[str, Any]) -> list[dict[str, Any]]:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return [json.loads(text) for text, _ in stream.answers(raw)]


def error_of(line: bytes | dict[str, Any]) -> tuple[str, str, str]:
    """Code, message and hint of the one failure."""
    (envelope,) = answers(line)
    assert (envelope["status"], envelope["exit_code"], envelope["data"]) == ("error", 2, None)
    (error,) = envelope["errors"]
    return error["code"], error["message"], error["hint"] or ""


def test_a_line_gives_what_the_command_gives() -> None:
    (envelope,) = answers(GOOD)

    assert envelope == ask("size", "llama-3.1-8b", "-c", "4096", "--json").envelope


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (
            {"command": "fit", "model": "llama-3.1-70b", "gpu": "h100", "engine": "none",
             "requests": 3, "utilization": 0.9, "weights": "int4"},
            "fit llama-3.1-70b --gpu h100 --engine none -n 3 --utilization 0.9 --weights int4",
        ),
        (
            {"command": "size", "model": "llama-3.1-8b", "request": [2048, "4k"]},
            "size llama-3.1-8b --request 2048 --request 4k",
        ),
        ({"command": "size", "layers": 2, "kv_heads": 2, "head_dim": 64},
         "size --layers 2 --kv-heads 2 --head-dim 64"),
        ({"command": "size", "group": "2*full:8x128"}, "size --group 2*full:8x128"),
        (
            {"command": "size", "model": ["llama-3.1-8b", "llama-3.1-70b"], "context": 8192},
            "size llama-3.1-8b,llama-3.1-70b -c 8192",
        ),
        ({"command": "gpus", "name": "h100"}, "gpus show h100"),
        ({"command": "dtypes"}, "dtypes"),
        ({"command": "models", "family": "mixtral"}, "models --family mixtral"),
        (
            {"command": "size", "model": "gpt-3-175b", "context": [4096],
             "allow_long_context": True},
            "size gpt-3-175b -c 4096 --allow-long-context",
        ),
        (
            {"command": "size", "model": "llama-3.1-8b", "kv_dtype": None, "weights": None},
            "size llama-3.1-8b",
        ),
    ],
)  # fmt: skip
def test_keys_are_the_long_options(line: dict[str, Any], command: str) -> None:
    (envelope,) = answers(line)
    theirs = ask(*command.split(), "--json").envelope

    if line["command"] == "fit":
        assert envelope["data"].pop("command").startswith("kvcalc fit llama-3.1-70b")
        theirs["data"].pop("command")
    assert envelope == theirs


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    (envelope,) = answers(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())

    assert envelope["status"] == "ok"


def test_good_and_bad_lines_keep_their_order() -> None:
    found = answers(
        GOOD, b"{nonsense\n", {**GOOD, "model": "no-such-model"}, b"\n", {**GOOD, "context": 1}
    )

    assert [e["status"] for e in found] == ["ok", "error", "error", "ok"]
    assert [e["schema"] for e in found] == [
        "kvcalc.size/1", "kvcalc.error/1", "kvcalc.size/1", "kvcalc.size/1",
    ]  # fmt: skip
    assert found[1]["errors"][0]["message"].startswith("line 2: not JSON")
    assert found[2]["errors"][0]["message"].startswith('line 3: no model "no-such-model"')
    assert found[3]["data"]["contexts"][0]["tokens"] == 1


def test_a_no_is_an_answer() -> None:
    (envelope,) = answers(
        {"command": "fit", "model": "llama-3.1-405b", "gpu_memory": "1GiB", "engine": "none"}
    )

    assert (envelope["status"], envelope["exit_code"]) == ("no", 1)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"[1, 2]", "usage", "not a JSON object"),
        (b"5", "usage", "not a JSON object"),
        (b'{"command": "size"', "usage", "not JSON"),
        (b'{"command": "size", "context": NaN}', "usage", "NaN is no number"),
        (b'{"command": "size", "context": -Infinity}', "usage", "-Infinity is no number"),
        (b"\xff\xfe{}", "unreadable_input", "not UTF-8"),
        (b"\xe9{}", "unreadable_input", "not UTF-8"),
        (b'{"command": "size", "model": "\xe9"}', "unreadable_input", "not UTF-8"),
        (b"[" * 100_000, "usage", "not JSON"),
        (b'{"model": "' + b"x" * 2**20 + b'"}', "usage", "longer than 1,048,576 bytes"),
        ({"model": "llama-3.1-8b"}, "usage", "command is missing"),
        ({"command": "sise"}, "usage", 'no command "sise" in batch'),
        ({"command": "batch"}, "usage", 'no command "batch" in batch'),
        ({"command": "engines"}, "usage", 'no command "engines" in batch'),
        ({"command": ["size"]}, "usage", "in batch"),
        ({"command": None}, "usage", "command is missing"),
        ({**GOOD, "contxt": 5}, "usage", 'size has no key "contxt"'),
        ({**GOOD, "json": True}, "usage", 'size has no key "json"'),
        ({**GOOD, "gpu": "h100"}, "usage", 'size has no key "gpu"'),
        ({**GOOD, "context": 1.5}, "usage", "-c 1.5 is not a whole number"),
        ({**GOOD, "context": True}, "usage", "context is true"),
        ({**GOOD, "context": [[1]]}, "usage", "context is [1]"),
        ({**GOOD, "context": {"a": 1}}, "usage", 'context is {"a":1}'),
        ({**GOOD, "requests": 0}, "usage", "-n is 0"),
        ({**GOOD, "set": "a=1"}, "usage", "set is a=1"),
        ({**GOOD, "set": {"a": [1]}}, "usage", "set is [1]"),
        ({**GOOD, "set": {"a": 1}}, "unknown_setting", "--set a"),
        ({**GOOD, "allow_long_context": "yes"}, "usage", "allow_long_context is yes"),
        ({**GOOD, "allow_long_context": [True]}, "usage", "allow_long_context is a list"),
        ({**GOOD, "tp": 3}, "not_divisible", "--tp 3 neither divides"),
        ({**GOOD, "context": [2**70]}, "usage", "is too large"),
        ({**GOOD, "kv_dtype": "\x1b[31m"}, "unknown_dtype", "\\x1b[31m"),
        ({"command": "gpus", "name": "h1000"}, "unknown_gpu", "h1000"),
    ],
)  # fmt: skip
def test_bad_lines_say_what_is_wrong_and_where(
    line: bytes | dict[str, Any], code: str, words: str
) -> None:
    found, message, _ = error_of(line)

    assert found == code
    assert words in message
    assert message.startswith("line 1: ")
    assert message.isprintable()
    assert len(message) < 300


def test_a_misspelt_key_names_the_nearest() -> None:
    assert "nearest: context" in error_of({**GOOD, "contexts": 5})[2]
    assert "nearest: size" in error_of({"command": "sizes"})[2]


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8), st.sampled_from(["4k", "80GiB", "80G", "a=b", "bf16", "q4_0", "h100"]),
)  # fmt: skip
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=2)
)
QUESTIONS: list[dict[str, Any]] = [
    {"command": "size", "model": "llama-3.1-8b"},
    {"command": "size", "layers": 2, "kv_heads": 2, "head_dim": 64},
    {"command": "fit", "model": "llama-3.1-8b", "gpu": "h100", "engine": "none"},
    {"command": "fit", "layers": 2, "kv_heads": 2, "head_dim": 64, "kv_pool": "1GiB"},
    {"command": "models", "name": "llama-3.1-8b"},
    {"command": "gpus", "name": "h100"},
    {"command": "dtypes"},
    {"command": "timeline", "model": "llama-3.1-8b", "prompt": 8, "output": 4},
    {"command": "waste", "model": "llama-3.1-8b", "request": [5], "max_context": 9},
    {"command": "tradeoff", "model": "llama-3.1-8b", "tokens": 9},
    {"command": "speed", "model": "llama-3.1-8b", "gpu": "h100"},
    {"command": "offload", "model": "llama-3.1-8b"},
    {"command": "compare", "model": "llama-3.1-8b"},
    {"command": "simulate", "blocks": 90, "trace": "poisson:rate=5,requests=3,prompt=9,output=2"},
    {"command": "simulate", "model": "llama-3.1-8b", "pool": "1GiB", "max_context": 512,
     "trace": "poisson:rate=5,requests=3,prompt=9,output=2"},
    {"command": "workload", "trace": "poisson:rate=5,requests=3,prompt=9,output=2"},
    {"command": "check", "log": __file__},
    {"command": "explain", "topic": "paged", "model": "llama-3.1-8b"},
    {"command": "report", "model": "llama-3.1-8b", "gpu": ["h100"]},
]  # fmt: skip
KEYS = [
    (question, key)
    for question in QUESTIONS
    for key in sorted(stream._Command(question["command"]).keys)
]


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(KEYS), values)
def test_any_value_of_any_key_gives_one_envelope(
    chosen: tuple[dict[str, Any], str], value: object
) -> None:
    question, key = chosen
    (envelope,) = answers({**question, key: value})

    assert envelope["command"] == question["command"]
    assert (envelope["data"] is None) == (envelope["status"] == "error") == bool(envelope["errors"])


@given(st.binary(max_size=40))
def test_any_bytes_give_at_most_one_envelope(raw: bytes) -> None:
    found = answers(raw)

    assert len(found) == (0 if not raw or raw.isspace() else 1)
    assert all(envelope["status"] == "error" for envelope in found)


def test_lines_are_answered_as_they_come() -> None:
    """The second line is not read before the first is answered."""
    read = []

    def lines() -> Iterator[bytes]:
        for i in (1, 2):
            read.append(i)
            yield json.dumps(GOOD).encode()

    next(stream.answers(lines()))

    assert read == [1]


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    """Memory stays bounded: the reader holds at most the limit, and the next line is whole."""
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"x" * 1000 + b"\n" + b"{}\n" + b"y" * 1000)
    with path.open("rb") as file:
        found = list(_lines(file, 10))

    assert [len(line) for line in found] == [12, 3, 12]
    assert found[1] == b"{}\n"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([GOOD, GOOD], 0),
        ([GOOD, {"command": "sise"}, GOOD], 2),
        ([{"command": "fit", "model": "llama-3.1-405b", "gpu": "t4", "engine": "none"}], 0),
        ([], 0),
    ],
)
def test_the_exit_code_is_2_only_if_a_line_failed(
    tmp_path: Path, lines: list[dict[str, Any]], code: int
) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    answer = ask("batch", str(path))

    assert answer.code == code
    assert answer.text.count("\n") == len(lines)


def test_standard_input_is_read_with_and_without_a_dash(kvcalc: Kvcalc) -> None:
    text = f"{json.dumps(GOOD)}\n\n{json.dumps({**GOOD, 'model': 'nope'})}\n"
    bare, dash = kvcalc("batch", input=text), kvcalc("batch", "-", input=text)

    assert (bare.returncode, bare.stdout) == (dash.returncode, dash.stdout)
    assert bare.returncode == 2
    assert [json.loads(line)["status"] for line in bare.stdout.splitlines()] == ["ok", "error"]
    assert "Traceback" not in bare.stderr


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask("batch", str(tmp_path / "none.jsonl"))

    assert (answer.code, answer.text) == (2, "")
    assert "cannot read" in capsys.readouterr().err


def test_a_command_that_batch_has_not_is_named_as_one() -> None:
    (text, good), (split, fits) = stream.answers([
        b'{"command": "engines"}\n',
        b'{"command": "fit", "model": "llama-3.1-8b", "gpu": "2xh100", "pp_layers": "12,20"}\n',
    ])  # fmt: skip

    assert not good
    assert "kvcalc engines by itself" in json.loads(text)["errors"][0]["hint"]
    assert fits
    assert [rank["layers"] for rank in json.loads(split)["data"]["ranks"]] == [12, 20]


@pytest.mark.parametrize("key", ["model", "trace", "clock", "gpu", "engine"])
def test_half_a_character_is_an_error_in_one_line(key: str) -> None:
    """JSON can write half a pair alone; no file has such a name, and UTF-8 cannot say it."""
    line = {"command": "simulate", "model": "llama-3.1-8b", "gpu": "h100", key: "\ud800"}
    failed, answered = answers(line, GOOD)

    assert failed["status"] == "error"
    assert failed["errors"][0]["message"].isprintable()
    assert answered["status"] == "ok"
