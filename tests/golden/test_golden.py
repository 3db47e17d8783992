"""The output of every command in every format, as committed under expected/.

After a change that is meant, `pytest tests/golden --update-goldens` writes them anew; the diff
shows what users will see. The version, and all but the first entries of long lists, are left out.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, Protocol

import pytest
from jsonschema import Draft202012Validator

from kvcalc import __version__
from kvcalc.report.lines import cells
from kvcalc.schemas import RESULTS, schema
from tests.answers import ask

#: Name → exit code and command line.
CASES: dict[str, tuple[int, str]] = {
    "engines": (0, "engines"),
    "engines-show": (0, "engines show vllm"),
    "explain-gqa": (0, "explain gqa llama-3.1-8b"),
    "fit-vllm": (0, "fit llama-3.1-70b --weights awq --gpu a100-80 --engine vllm"),
    "fit-sglang-no": (1, "fit llama-3.1-70b --gpu h100 --engine sglang"),
    "size": (0, "size llama-3.1-70b"),
    "size-window": (0, "size gemma-3-27b -c 8K,32K,128K"),
    "size-mla": (0, "size deepseek-v3 --tp 8"),
    "size-hybrid": (0, "size jamba-v0.1 -n 4"),
    "size-encoder": (0, "size whisper-large-v3"),
    "size-batch": (0, "size llama-3.1-70b --request 2048 --request 4096 --request 500"),
    "size-k-and-v": (0, "size llama-3.1-8b --k-dtype q8_0 --v-dtype q4_0"),
    "size-prefix": (0, "size llama-3.1-8b -n 3 --shared-prefix 1000"),
    "size-models": (0, "size llama-3.1-8b,llama-3.1-70b,llama-3.1-405b -c 4096,131072"),
    "size-numbers": (0, "size --layers 32 --kv-heads 32 --head-dim 128"),
    "fit": (0, "fit llama-3.1-70b --gpu h100 --weights int4 -c 4096"),
    "fit-two-gpus": (0, "fit llama-3.1-70b --gpu 2xa100-80 -c 32K -n 2 --average-context 4096"),
    "fit-stages": (0, "fit deepseek-v3 --gpu h200 --tp 4 --pp 4 -c 64K --utilization 0.92"),
    "fit-no": (1, "fit llama-3.1-70b --gpu h100 --weights int4 -c 128K -n 2"),
    "fit-too-large": (1, "fit llama-3.1-405b --gpu h100"),
    "fit-pool": (0, "fit qwen2.5-7b --kv-pool 16GiB -c 5999 --block-size 16"),
    "fit-solve": (0, "fit llama-3.1-70b --gpu h100 -n 8 --solve gpus"),
    "fit-price": (0, "fit llama-3.1-70b --weights fp8 --gpu 4xh100 -c 8K --price 2.50"),
    "fit-mixed": (0, ("fit qwen3-30b-a3b --gpu 5070ti+5090 --pp-layers 16,32 --weights int4"
                     " -c 32K --engine vllm")),
    "fit-setting": (0, ("fit llama-3.1-8b --gpu 4090 -n 8 --solve max_num_batched_tokens"
                       " --engine vllm")),
    "fit-prefix": (0, "fit qwen3-next-80b-a3b --kv-pool 20GiB --shared-prefix 240 --engine vllm"),
    "fit-gpus": (0, "fit qwen3-32b"),
    "fit-models": (0, "fit --gpu 4090 --weights int4 --why"),
    "fit-what-if": (0, "fit llama-3.1-70b --gpu h100,h200 --kv-dtype bf16,fp8 -c 8K,128K"),
    "timeline": (0, "timeline llama-3.1-70b --prompt 4096 --output 4096"),
    "timeline-memory": (1, "timeline llama-3.1-8b --prompt 4K --output 124K --gpu 4090"),
    "timeline-requests": (0, "timeline llama-3.1-8b --request 200:50,400:20@10 --max-context 8K"),
    "waste": (0, "waste llama-3.1-70b --request 500,3800,200 --max-context 4096 --pool 45GiB"),
    "waste-trace": (0, ("waste llama-3.1-8b --max-context 4096"
                       " --trace poisson:rate=1,requests=500,prompt=900,output=60")),
    "waste-slots": (0, "waste --slots 36 --waste-fraction 0.62"),
    "tradeoff": (0, "tradeoff llama-3.1-8b --tokens 1000"),
    "speed": (0, "speed llama-3.1-70b --gpu h100 -n 8 --weights int4"),
    "offload": (0, "offload llama-3.1-8b -c 8K,32K -n 9 --pool 9GiB --bandwidth 25GB/s --gpu h100"),
    "offload-no": (1, "offload deepseek-v3 --tp 8 -c 32000,128K -n 40 --max-local-cpu-size 50"),
    "offload-stream": (0, "offload opt-13b -c 512 --requests-per-second 10"),
    "offload-what-if": (0, "offload llama-3.1-8b --tp 1,2,8 --max-local-cpu-size 50"),
    "compare": (0, "compare llama-3.1-70b -n 26 --shared-prefix 1024 --window 1024 --keep 512"),
    "models": (0, "models --family mixtral"),
    "models-show": (0, "models show gemma-3-27b"),
    "gpus": (0, "gpus --min-memory 150GB"),
    "gpus-show": (0, "gpus show h100"),
    "dtypes": (0, "dtypes"),
    "dtypes-show": (0, "dtypes show q8_0"),
    "simulate": (0, ("simulate --blocks 500 --per-request --series 30 --trace poisson:rate=20,"
                    "requests=20,prompt=900,output=60")),
    "simulate-policies": (0, ("simulate --blocks 500 --max-context 2048 --policy naive,paged,exact"
                             " --trace poisson:rate=20,requests=60,prompt=900,output=60")),
    "workload": (0, "workload poisson:rate=20,requests=60,prompt=900,output=60"),
    "explain": (0, "explain"),
    "explain-paged": (0, "explain paged llama-3.1-8b"),
}  # fmt: skip
#: Name → ending and options.
FORMATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "text": (".txt", ("-f", "text", "--color", "never")),
    "colour": (".ansi", ("-f", "text", "--color", "always")),
    "plain": (".plain", ("-f", "plain")),
    "json": (".json", ("--json",)),
    "jsonl": (".jsonl", ("-f", "jsonl")),
    "csv": (".csv", ("-f", "csv")),
    "md": (".md", ("-f", "md")),
}
#: One of each command, as a picture and as the answer's part of a page.
PICTURED = ("compare", "dtypes-show", "engines-show", "explain-paged", "fit-no", "fit-gpus", "gpus",
            "models-show", "offload", "simulate", "size-window", "speed", "timeline-memory",
            "tradeoff", "waste", "workload")  # fmt: skip
#: Entries kept of a longer list.
LONG, KEPT = 24, 6
#: A command to paste, with what it wants in its environment.
COMMAND = re.compile(r"  ([A-Z_]+=\S+ )*(kvcalc |vllm serve |python -m sglang\.)")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Golden(Protocol):
    """As conftest.py makes it."""

    def check(self, name: str, text: str) -> None:
        """Compares one file."""

    def only(self, names: set[str]) -> None:
        """Finds files that no test writes."""


def output(case: str, form: str, columns: int = 80) -> str:
    answer = ask(*words_of(case), *FORMATS[form][1], columns=columns)
    assert answer.code == CASES[case][0]
    return answer.text


def words_of(case: str) -> list[str]:
    """The command line; fit by the textbook where it does not say otherwise."""
    words = CASES[case][1].split()
    rules = ["--engine", "none"] if words[0] == "fit" and "--engine" not in words else []
    return [*words, *rules]


def shortened(value: Any) -> Any:
    """JSON without the version, and with the heads of long lists."""
    if isinstance(value, dict):
        return {k: shortened(v) for k, v in value.items() if (k, v) != ("version", __version__)}
    if isinstance(value, list):
        head = [shortened(item) for item in (value[:KEPT] if len(value) > LONG else value)]
        return [*head, f"… {len(value) - KEPT} more"] if len(value) > LONG else head
    return value


def kept(text: str, form: str) -> str:
    """What is committed of an output."""
    if form == "json":
        return json.dumps(shortened(json.loads(text)), indent=1, ensure_ascii=False) + "\n"
    lines = text.splitlines(keepends=True)
    if form in {"jsonl", "csv"} and len(lines) > LONG + 1:
        return "".join(lines[: KEPT + 1]) + f"… {len(lines) - KEPT - 1} more\n"
    return text


def page_of(case: str) -> str:
    """What a page says, an element a line; its styles, scripts and data have tests of their own."""
    text = ask(*words_of(case), "-f", "html").text
    main = text[text.index("<main") : text.index("</main>")]
    return main.replace("><", ">\n<") + "</main>\n"


@pytest.mark.parametrize("case", PICTURED)
def test_pages_are_as_committed(golden: Golden, case: str) -> None:
    golden.check(f"{case}.html", page_of(case))


@pytest.mark.parametrize("case", PICTURED)
def test_pictures_are_as_committed(golden: Golden, case: str) -> None:
    golden.check(f"{case}.svg", ask(*words_of(case), "-f", "svg").text)


def test_every_command_has_a_page_and_a_picture() -> None:
    elsewhere = {"check", "report"}
    assert set(RESULTS) - elsewhere == {CASES[case][1].split()[0] for case in PICTURED}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_outputs_are_as_committed(golden: Golden, case: str, form: str) -> None:
    golden.check(f"{case}{FORMATS[form][0]}", kept(output(case, form), form))


def test_no_other_file_is_committed(golden: Golden) -> None:
    texts = {f"{case}{ending}" for case in CASES for ending, _ in FORMATS.values()}
    golden.only(texts | {f"{case}.{form}" for case in PICTURED for form in ("html", "svg")})


def test_every_command_has_its_goldens() -> None:
    # Logs and reports have goldens and tests of their own.
    elsewhere = {"check", "report"}
    assert set(RESULTS) - elsewhere == {line.split()[0] for _, line in CASES.values()}


@pytest.mark.parametrize("case", CASES)
def test_json_is_valid_by_the_published_schema(case: str) -> None:
    envelope = json.loads(output(case, "json"))
    check = Draft202012Validator(schema(envelope["command"]))

    assert list(check.iter_errors(envelope)) == []
    assert envelope["exit_code"] == CASES[case][0]


@pytest.mark.parametrize("case", CASES)
def test_colours_are_all_that_colour_adds(case: str) -> None:
    plain, coloured = output(case, "text"), output(case, "colour")

    assert "\x1b" not in plain
    assert ESCAPE.sub("", coloured) == plain


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("case", CASES)
def test_a_terminal_is_never_exceeded(case: str, columns: int) -> None:
    """But by commands to paste, which must not break."""
    for line in output(case, "text", columns).splitlines():
        if not COMMAND.match(line):
            assert cells(line) <= columns, line


def numbers(text: str) -> set[str]:
    """The numbers in words and tables, as written; those of a chart's axes left out."""
    lines = text.splitlines()
    axes = [a or b for a, b in pairwise(["┤" in x or "└" in x for x in ["", *lines]])]
    words = " ".join(x for x, axis in zip(lines, axes, strict=True) if not axis)
    return {n.rstrip(".,") for n in re.findall(r"\d[\d,.]*", words)}


@pytest.mark.parametrize("case", CASES)
def test_no_number_breaks_on_a_narrow_terminal(case: str) -> None:
    """Each is one of the plain answer's; bars' legends and short heads have some of their own."""
    narrow = numbers(output(case, "text", 40))
    limits = set(re.findall(r"limit ([\d.]+)", output(case, "text")))

    assert narrow <= numbers(output(case, "plain")) | numbers(output(case, "text")) | limits


@pytest.mark.parametrize("form", ["plain", "json", "jsonl", "csv", "md"])
@pytest.mark.parametrize("case", CASES)
def test_no_escape_leaves_a_terminal(case: str, form: str) -> None:
    text = output(case, form)

    assert "\x1b" not in text
    assert text.endswith("\n")
    assert "\r" not in text


@pytest.mark.parametrize("case", CASES)
def test_plain_has_no_blanks_at_the_ends_of_lines(case: str) -> None:
    assert not [line for line in output(case, "plain").splitlines() if line != line.rstrip()]


@pytest.mark.parametrize(
    "case", [c for c in CASES if not c.startswith(("models", "gpus", "dtypes", "engines"))]
)
def test_every_format_for_readers_opens_with_the_same_sentence(case: str) -> None:
    """It could be sent to a colleague; a terminal wraps it, Markdown sets it in bold."""
    first = output(case, "plain").splitlines()[0]

    assert output(case, "text").split()[: len(first.split())] == first.split()
    assert re.sub(r"[*\\]", "", output(case, "md").splitlines()[0]) == first


@pytest.mark.parametrize("case", CASES)
def test_the_same_question_gives_the_same_bytes(case: str) -> None:
    assert output(case, "json") == output(case, "json")
