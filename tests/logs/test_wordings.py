"""Every wording of every engine alone in a log, with the engines' prefixes, and as JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvcalc.core.errors import KvcalcError
from tests.logs.said import Said
from tests.logs.wordings import ENGINES

if TYPE_CHECKING:
    from kvcalc.logs.facts import Log
    from tests.logs.conftest import Read

CASES = [(engine, said) for engine, lines in ENGINES.items() for said in lines]
IDS = [f"{engine}-{said.line[:50]}" for engine, said in CASES]
#: What puts itself before a line: colours, docker compose, journald, Kubernetes, RFC 3339, …
PREFIXES = {
    "ansi": "\x1b[0;36m{}\x1b[0;0m",
    "lost escape": "[0;36m{}[0;0m",
    "compose": "llm-1  | {}",
    "journald": "août 12 10:11:12 host ollama[812]: {}",
    "gke": "INFO 2026-01-01T00:00:00.123Z [resource.labels.containerName: llm] {}",
    "rfc3339": "2026-01-01T00:00:00.123456789Z {}",
    "sse": "data: {}",
    "router": "[41234] {}",
    "loguru": "2026-05-14 22:14:13.292 | INFO | stderr | {}",
    "quote": "> {}",
    "progress": "Loading shards:  83%|████▏ | 15/18 [00:54<00:03,  1.13s/it]{}",
    "glued": "INFO 07-23 20:47:21 a.py:1] something else {}",
}


def check(log: Log, said: Said) -> None:
    """All figures and settings of the line, none of them twice."""
    for item, value in said.figures.items():
        facts = log.all(item)
        assert len(facts) == 1, (item, facts)
        assert facts[0].low - 1 <= value <= facts[0].high + 1, (item, value, facts[0])
        assert facts[0].line == 1
    for name, setting in said.settings.items():
        assert log.settings[name] == setting, name
    if not said.figures:
        assert [f for f in log.facts if f.item in {"kv_pool", "weights", "kv_tokens"}] == []


def own(engine: str) -> str:
    """A line that only this engine writes, and that holds no figure."""
    return {
        "vllm": "INFO vLLM API server version 0.12.0",
        "sglang": "server_args=ServerArgs(tp_size=1)",
        "llama.cpp": "main: build = 4000 (abcdef1)",
        "ollama": 'msg="x" source=routes.go Listening on [::]:11434 (version 0.5.7)',
        "lmdeploy": "lmdeploy_version: 0.6.0",
        "tensorrt-llm": "[TensorRT-LLM] TensorRT-LLM version: 1.0.0",
    }[engine]


@pytest.mark.parametrize(("engine", "said"), CASES, ids=IDS)
def test_the_line_says_its_figures(read: Read, engine: str, said: Said) -> None:
    log = read(said.line, own(engine))

    # Latents are ik_llama.cpp's: llama.cpp never printed them so.
    assert log.engine == ("ik_llama.cpp" if "c^KV" in said.line else engine)
    check(log, said)


@pytest.mark.parametrize(("name", "prefix"), PREFIXES.items(), ids=PREFIXES)
def test_prefixes_do_not_matter(read: Read, name: str, prefix: str) -> None:
    for engine, said in CASES:
        if name == "quote" and said.line.startswith(" "):
            continue
        check(read(prefix.format(said.line), own(engine)), said)


def test_windows_line_ends_do_not_matter(read: Read) -> None:
    for engine, said in CASES:
        raw = f"{said.line}\r\n{own(engine)}\r\n".encode()
        check(read(raw=raw), said)


@pytest.mark.parametrize("key", ["log", "message", "textPayload"])
def test_json_lines_are_unwrapped(read: Read, key: str) -> None:
    for engine, said in CASES:
        line = json.dumps({"time": "2026-01-01", key: f"\x1b[36m{said.line}\x1b[0m\n"})
        check(read(line, own(engine)), said)


def test_bounds_are_half_of_the_last_digit(read: Read) -> None:
    """14.82 GiB is 14.815 to 14.825; from 0.13 on 5.0 stands for 5.00."""
    pool = read("Available KV cache memory: 14.82 GiB").last("kv_pool")
    assert pool is not None
    assert (pool.low / 2**30, pool.high / 2**30) == pytest.approx((14.815, 14.825), abs=1e-9)

    pool = read("Available KV cache memory: 5.0 GiB").last("kv_pool")
    assert pool is not None
    assert (pool.low / 2**30, pool.high / 2**30) == pytest.approx((4.995, 5.005), abs=1e-9)


def test_a_text_without_such_lines_is_no_log(read: Read) -> None:
    with pytest.raises(KvcalcError) as told:
        read("# README", "KV caches hold keys and values.", "torch: CUDA out of memory?")
    assert told.value.code == "unreadable_input"
    assert "no start-up line" in told.value.message
