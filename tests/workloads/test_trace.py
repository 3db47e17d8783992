"""Traces: every public format by its fields, and every fault by its line."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.core.simulate.job import HashIds
from kvcalc.workloads import open_workload, source
from kvcalc.workloads.request import TraceRequest
from kvcalc.workloads.trace import Trace

TRACES = Path(__file__).parents[1] / "data" / "traces"


def written(path: Path, *lines: Any) -> Trace:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    return Trace(str(path))


def fault(trace: Trace) -> str:
    with pytest.raises(KvcalcError) as caught:
        list(trace)
    assert caught.value.code == "invalid_trace"
    return caught.value.message


@pytest.mark.parametrize(
    ("name", "format_", "unit", "count", "first", "second_at"),
    [
        # 18:15:50.9951690 − 18:15:46.6805900 = 4.314579 s
        ("azure_conv.csv", "azure", "seconds", 60, (374, 44), 4.314579),
        ("azure_code.csv", "azure", "seconds", 40, (4808, 10), 0.052),
        ("mooncake_conversation.jsonl", "mooncake", "seconds", 40, (6758, 500), 0.0),
        ("vidur_arxiv.csv", "vidur", None, 30, (3772, 54), 0),
        # 347,938,951 ns
        ("llmservingsim_sharegpt.csv", "llmservingsim", "seconds", 30, (2358, 531), 0.347938951),
    ],
)
def test_public_sets_are_recognised(
    name: str, format_: str, unit: str | None, count: int, first: tuple[int, int], second_at: float
) -> None:
    trace = Trace(str(TRACES / name))
    requests = list(trace)
    assert (trace.format, trace.unit, len(requests)) == (format_, unit, count)
    assert (requests[0].prompt, requests[0].output) == first
    assert requests[1].at == pytest.approx(second_at, abs=1e-9)


def test_mooncake_has_blocks_of_512() -> None:
    first = next(iter(Trace(str(TRACES / "mooncake_conversation.jsonl"))))
    assert first.prefix == HashIds(list(range(14)), 512)


@pytest.mark.parametrize(
    ("lines", "want"),
    [
        (["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
          "5,ChatGPT,472,18,490,Conversation log", "45.5,GPT-4,1087,230,1317,API log"],
         [(5.0, 472, 18), (45.5, 1087, 230)]),
        (["arrived_at,num_prefill_tokens,num_decode_tokens", "0.5,147.0,7.0"], [(0.5, 147, 7)]),
        ([{"chat_id": 1, "timestamp": 61.114, "input_length": 33, "output_length": 9,
           "hash_ids": [4, 5, 6]}], [(61.114, 33, 9)]),
        ([{"timestamp": 2000, "input_length": 513, "output_length": 9, "hash_ids": [4, 5]}],
         [(2.0, 513, 9)]),
        ([{"prompt_tokens": 3, "output_tokens": 2, "arrival_seconds": 1.5}], [(1.5, 3, 2)]),
        ([{"prompt_tokens": 3, "output_tokens": 2}], [(0, 3, 2)]),
        (["TIMESTAMP,ContextTokens,GeneratedTokens", "2024-05-10 23:59:59.5+00:00,10,2",
          "2024-05-11 00:00:01.000000+00:00,11,3"], [(0.0, 10, 2), (1.5, 11, 3)]),
        (["id,arrival_step,prompt_tokens,output_tokens", "a,4,10,2"], [(4, 10, 2)]),
    ],
    ids=["burstgpt", "vidur", "bailian", "mooncake", "own", "without times", "azure 2024", "csv"],
)  # fmt: skip
def test_formats(tmp_path: Path, lines: list[Any], want: list[Any]) -> None:
    got = [(r.at, r.prompt, r.output) for r in written(tmp_path / "trace", *lines)]
    assert got == want


def test_own_format_in_full(tmp_path: Path) -> None:
    trace = written(
        tmp_path / "t.jsonl",
        {"id": "a", "arrival_step": 0, "prompt_tokens": 100, "output_tokens": 5,
         "prefix": [["G", 48], ["H", 16]]},
        "",
        {"id": 7, "arrival_step": 2, "prompt_tokens": 1024, "output_tokens": 1,
         "hash_ids": [10, 11]},
    )  # fmt: skip
    assert list(trace) == [
        TraceRequest("a", 0, 100, 5, (("G", 48), ("H", 16))),
        TraceRequest(7, 2, 1024, 1, HashIds([10, 11], 512)),
    ]
    assert trace.unit == "steps"


def test_an_excerpt_is_read_again_and_limited() -> None:
    trace = Trace(str(TRACES / "azure_conv.csv"), limit=3)
    assert len(list(trace)) == 3
    assert list(trace) == list(trace)


def test_gzip_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = (TRACES / "azure_conv.csv").read_bytes()
    packed = tmp_path / "conv.csv.gz"
    packed.write_bytes(gzip.compress(plain))
    want = list(Trace(str(TRACES / "azure_conv.csv")))
    assert list(Trace(str(packed))) == want
    monkeypatch.setattr(source, "_stdin", None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(plain))))
    trace = Trace("-")
    assert list(trace) == want
    assert list(trace) == want, "standard input is kept for a second pass"


_ROW = {"arrival_seconds": 1, "prompt_tokens": 10, "output_tokens": 5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_tokens": -4}, "prompt_tokens is -4, expected a whole number above 0"),
        ({"prompt_tokens": 0}, "prompt_tokens is 0, expected a whole number above 0"),
        ({"output_tokens": 1.5}, "output_tokens is 1.5, expected a whole number above 0"),
        ({"output_tokens": "x"}, "output_tokens is x, expected a whole number above 0"),
        ({"output_tokens": True}, "output_tokens is True, expected a whole number above 0"),
        ({"output_tokens": None}, "output_tokens is missing, expected a whole number above 0"),
        ({"arrival_seconds": None},
         "arrival_seconds is missing, though the lines before have it"),
        ({"arrival_seconds": 0.5}, "arrival_seconds is 0.5, earlier than the line before"),
        ({"arrival_seconds": "soon"}, "arrival_seconds is soon, expected a number, 0 or more"),
        ({"hash_ids": [1, 2]},
         "2 hash_ids for 10 prompt tokens, expected 1 of 512 or 1 of 16 tokens"),
        ({"hash_ids": [1.5]}, "hash_ids is no list of whole numbers"),
        ({"prefix": [["G"]]}, "prefix is [['G']], expected [[key, tokens], …]"),
        ({"prefix": [["G", 4]], "hash_ids": [1]},
         "prefix and hash_ids say the same thing: give one of them"),
    ],
)  # fmt: skip
def test_faults_name_file_and_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "conv.jsonl"
    assert fault(written(path, _ROW, "", {**_ROW, **change})) == f"{path}:3: {message}"


def test_a_cut_last_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(_ROW) + '\n{"arrival_seconds": 2, "pro', encoding="utf-8")
    assert fault(Trace(str(path))).startswith(f"{path}:2: not a whole JSON object")
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15", encoding="utf-8")
    assert fault(Trace(str(path))) == f"{path}:2: 1 fields, expected 3"


def test_mixed_formats_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t"
    other = {"timestamp": 1, "input_length": 5, "output_length": 5}
    assert fault(written(path, _ROW, other)).startswith(f"{path}:2: prompt_tokens is missing")
    assert fault(written(path, _ROW, "1,2,3")).startswith(f"{path}:2: no JSON object")
    csv = "arrived_at,num_prefill_tokens,num_decode_tokens"
    assert fault(written(path, csv, _ROW)).startswith(f"{path}:2: num_prefill_tokens is")
    timeless = {"prompt_tokens": 10, "output_tokens": 5}
    assert fault(written(path, timeless, _ROW)) == (
        f"{path}:2: arrival_seconds is given, but not in the lines before"
    )


def test_unknown_fields_and_empty_files(tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert fault(written(path, {"promt_tokens": 1})) == f"{path}:1: unknown fields promt_tokens"
    assert fault(written(path, "")) == f"{path} has no requests"
    with pytest.raises(KvcalcError) as caught:
        list(Trace(str(tmp_path / "absent")))
    assert caught.value.code == "unreadable_input"


def test_damaged_input_is_no_bug(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b'{"prompt_tokens": 1, "output_tokens": 2}\n' * 99)[:-12])
    for content in (path.read_bytes(), b"\xff\xfe{}", b"\x1f\x8b\x00"):
        path.write_bytes(content)
        with pytest.raises(KvcalcError) as caught:
            list(Trace(str(path)))
        assert caught.value.code == "unreadable_input"


def test_skip_bad_counts_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    written(path, "nonsense{", _ROW, {**_ROW, "prompt_tokens": 0}, {**_ROW, "arrival_seconds": 0},
            {**_ROW, "arrival_seconds": 3})  # fmt: skip
    path.write_text(path.read_text().replace("nonsense", "{"), encoding="utf-8")
    trace = Trace(str(path), skip_bad=True)
    assert [r.at for r in trace] == [1, 3]
    assert trace.skipped == 3
    assert [r.at for r in trace] == [1, 3]
    assert trace.skipped == 3, "counted afresh"


def test_a_file_wins_over_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "poisson:rate=1,prompt=1,output=1", _ROW)
    assert isinstance(open_workload("poisson:rate=1,prompt=1,output=1"), Trace)
