"""-f svg: well-formed, the same bytes each time, and the JSON's own numbers in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import kvcalc
from kvcalc import resolve
from kvcalc.core.model import Model
from kvcalc.core.results.base import Result
from kvcalc.report import svg, svg_terminal
from kvcalc.report.document import Document, Paragraph, Span, Table, Verdict
from tests.answers import ask

SVG = "{http://www.w3.org/2000/svg}"
EXPECTED = Path(__file__).parent / "expected"
#: Name → command line; the textbook's rules, so that engines may change beside them.
CASES = {
    "timeline": "timeline llama-3.1-70b --prompt 4096 --output 126976 --weights int4"
                " --gpu-memory 80GB",
    "timeline-memory": "timeline llama-3.1-8b --prompt 4K --output 124K --gpu 4090",
    "timeline-requests": "timeline llama-3.1-8b --request 2000:500,4000:200@100 --max-context 8K",
    "timeline-gpus": "timeline llama-3.1-70b --prompt 4096 --output 4096 --gpu 2xa100-80",
    "size": "size llama-3.1-70b",
    "size-window": "size gemma-3-27b -c 8K,32K,128K",
    "size-state": "size mamba-2.8b",
    "fit": "fit llama-3.1-70b --gpu h100 --weights int4 -c 4096 -n 20 --engine none",
    "fit-no": "fit llama-3.1-70b --gpu h100 --weights int4 -c 128K -n 2 --engine none",
    "fit-too-large": "fit llama-3.1-405b --gpu h100 --engine none",
    "fit-pool": "fit qwen2.5-7b --kv-pool 16GiB -c 5999 --block-size 16 --engine none",
    "waste": "waste llama-3.1-70b --request 500,3800,200 --max-context 4096 --pool 45GiB",
    "compare": "compare llama-3.1-70b -n 26 --shared-prefix 1024 --window 1024 --keep 512",
    "speed": "speed llama-3.1-70b --gpu h100 -n 8 --weights int4",
    "offload": "offload llama-3.1-8b -c 8K,32K -n 20 --pool 100GiB --bandwidth 25GB/s --gpu h100",
    "tradeoff": "tradeoff llama-3.1-8b --tokens 1000",
    "fit-gpus": "fit qwen3-32b --engine none",
    "size-models": "size llama-3.1-8b,llama-3.1-70b -c 4096",
    "simulate": "simulate --blocks 500 --trace poisson:rate=20,requests=60,prompt=900,output=60",
    "simulate-policies": "simulate --blocks 500 --max-context 2048 --policy naive,paged,exact"
                         " --trace poisson:rate=20,requests=60,prompt=900,output=60",
    "models": "models --family mixtral",
    "gpus-show": "gpus show h100",
}  # fmt: skip
#: Those whose bytes are committed: one of each kind of drawing.
GOLDEN = ("timeline-memory", "timeline-requests", "size", "size-window", "fit", "fit-no", "waste",
          "compare", "tradeoff", "simulate", "simulate-policies")  # fmt: skip
HOSTILE = "<img src=x onerror=alert(1)> \"'& ]]> --> </svg> \u202eright\u2066 \x1b[31m"


def drawn(case: str) -> str:
    return ask(*CASES[case].split(), "-f", "svg").text


def tree(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - what kvcalc itself has drawn


def parsed(case: str) -> ET.Element:
    return tree(drawn(case))


def data_of(case: str) -> Any:
    return ask(*CASES[case].split(), "--json").data


def marked(root: ET.Element, attribute: str) -> list[dict[str, str]]:
    """Attributes of the elements that carry one, in order."""
    return [dict(el.attrib) for el in root.iter() if attribute in el.attrib]


@pytest.mark.parametrize("case", CASES)
def test_pictures_are_well_formed_and_complete_in_themselves(case: str) -> None:
    text = drawn(case)
    root = tree(text)

    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title") is not None
    assert float(root.attrib["width"]) > 300
    assert float(root.attrib["height"]) > 60
    assert {el.tag.removeprefix(SVG) for el in root.iter()} <= {
        "svg", "title", "desc", "style", "defs", "pattern", "g", "rect", "line", "path", "circle",
        "polyline", "text",
    }  # fmt: skip
    assert not re.search(r"(href|src|@import|url\((?!#))", text)
    assert "\x1b" not in text


@pytest.mark.parametrize("case", CASES)
def test_the_same_answer_gives_the_same_bytes(case: str) -> None:
    assert drawn(case) == drawn(case)


@pytest.mark.parametrize("case", CASES)
def test_pictures_are_light_and_dark(case: str) -> None:
    assert "@media (prefers-color-scheme:dark)" in drawn(case)


@pytest.mark.parametrize("case", CASES)
def test_everything_lies_in_the_picture(case: str) -> None:
    """Shapes by their coordinates, text by its widest usual width."""
    root = parsed(case)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    margin = 24 if root.find(f".//{SVG}g[@transform]") is not None else 0
    for el in root.iter(f"{SVG}rect"):
        if "x" in el.attrib:
            right = float(el.attrib["x"]) + float(el.attrib["width"])
            assert float(el.attrib["x"]) >= -0.01, el.attrib
            assert right <= width - margin + 0.5, el.attrib
    for el in root.iter(f"{SVG}text"):
        assert 0 <= float(el.attrib["y"]) <= height - margin, el.text
        assert 0 <= float(el.attrib["x"]) <= width - margin, el.text


@pytest.mark.parametrize("case", GOLDEN)
def test_pictures_are_as_committed(request: pytest.FixtureRequest, case: str) -> None:
    """After a change that is meant: pytest tests/golden tests/report --update-goldens."""
    path = EXPECTED / f"{case}.svg"
    text = drawn(case)
    if request.config.getoption("--update-goldens", default=False):
        EXPECTED.mkdir(exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
    assert text == path.read_bytes().decode("utf-8")


@pytest.mark.parametrize("case", ["timeline", "timeline-memory", "timeline-requests"])
def test_milestones_carry_the_jsons_numbers(case: str) -> None:
    milestones = [m for m in data_of(case)["milestones"] if m["kind"] != "start"]
    found = marked(parsed(case), "data-kv-bytes")

    shown = [tuple(int(m[f"data-{k}"]) for k in ("step", "tokens", "kv-bytes")) for m in found]
    assert shown == [(m["step"], m["tokens"], m["kv_bytes"]) for m in milestones]


def test_the_area_ends_where_memory_does() -> None:
    """70,144 tokens of Llama-3.1-8B are the first beyond what a 4090 leaves beside the weights."""
    data = data_of("timeline-memory")
    (area,) = marked(parsed("timeline-memory"), "data-knots")
    knots = [tuple(map(int, pair.split(":"))) for pair in area["data-knots"].split()]

    assert int(area["data-end"]) == 70_144
    assert data["memory_end"]["tokens"] == 70_144
    assert int(area["data-limit-bytes"]) == data["gpu"]["memory_bytes"]
    assert int(area["data-base-bytes"]) == data["weights"]["bytes"]
    assert knots[-1] == (131_072, data["points"][-1]["kv_bytes"])


def test_the_hatched_part_begins_at_the_end_of_memory() -> None:
    root = parsed("timeline-memory")
    inside, beyond = (el.attrib["d"] for el in root.iter(f"{SVG}path"))
    end = re.findall(r"L([\d.]+) [\d.]+Z", inside)[0]

    assert beyond.startswith(f"M{end} ")
    assert any("out of memory at 70,144" in (el.text or "") for el in root.iter(f"{SVG}text"))


def test_without_an_end_nothing_is_hatched() -> None:
    assert len(list(parsed("timeline").iter(f"{SVG}path"))) == 1


def test_several_gpus_say_so_beside_the_axis() -> None:
    texts = [el.text or "" for el in parsed("timeline-gpus").iter(f"{SVG}text")]

    assert any("on one GPU" in text for text in texts)


def test_axes_name_their_units() -> None:
    texts = {el.text for el in parsed("timeline").iter(f"{SVG}text")}

    assert {"GiB", "tokens", "0", "131,072", "80"} <= texts


def test_contexts_and_bends_carry_the_jsons_numbers() -> None:
    data = data_of("size")
    found = marked(parsed("size"), "data-bytes")

    assert [(int(m["data-tokens"]), int(m["data-bytes"])) for m in found] == [
        (c["tokens"], c["bytes_per_request"]) for c in data["contexts"]
    ]
    (bend,) = marked(parsed("size-window"), "data-bend-tokens")
    assert (int(bend["data-bend-tokens"]), int(bend["data-bytes"])) == (1024, 1024 * 507_904)


def test_variants_are_drawn_to_scale() -> None:
    """MHA 64 heads, GQA 8, MQA 1: lengths as 64 : 8 : 1."""
    root = parsed("size")
    bars = [g for g in root.iter(f"{SVG}g") if g.attrib.get("class") == "bar"]
    values = [int(g.attrib["data-bytes-per-token"]) for g in bars]
    lengths = [float(list(g.iter(f"{SVG}rect"))[1].attrib["width"]) for g in bars]

    assert values == [2_621_440, 327_680, 40_960]
    assert [round(lengths[0] / n, 1) for n in lengths] == pytest.approx([1, 8, 64], rel=0.01)


@pytest.mark.parametrize("case", ["fit", "fit-no", "fit-pool", "fit-too-large"])
def test_the_budget_and_the_ladder_carry_the_jsons_numbers(case: str) -> None:
    data = data_of(case)
    root = parsed(case)
    (bar,) = [g.attrib for g in root.iter(f"{SVG}g") if g.attrib.get("class") == "budget"]

    for line in data["budget"]:
        name = f"data-{line['item'].replace('_', '-')}-bytes"
        assert int(bar[name]) == line["bytes"]
    assert int(bar["data-shortfall-bytes"]) == data["shortfall_bytes"]
    assert [(int(m["data-context-tokens"]), int(m["data-max-requests"]))
            for m in marked(root, "data-max-requests")] == [
        (step["context_tokens"], step["max_requests"]) for step in data["ladder"]
    ]  # fmt: skip


def test_what_is_short_stands_beyond_the_limit() -> None:
    root = parsed("fit-no")
    limit = next(el for el in root.iter(f"{SVG}line") if el.attrib.get("stroke-width") == "2")
    short = next(el for el in root.iter(f"{SVG}rect")
                 if el.attrib.get("fill") == "url(#hatched-no)")  # fmt: skip

    assert float(short.attrib["x"]) == pytest.approx(float(limit.attrib["x1"]))
    assert any("short 33.68 GiB" in (el.text or "") for el in root.iter(f"{SVG}text"))


def test_policies_and_techniques_carry_the_jsons_numbers() -> None:
    policies = data_of("waste")["policies"]
    found = marked(parsed("waste"), "data-allocated-bytes")
    assert [(int(m["data-allocated-bytes"]), int(m["data-used-bytes"])) for m in found] == [
        (p["allocated_bytes"], p["used_bytes"]) for p in policies
    ]
    techniques = data_of("compare")["techniques"]
    drawn_ = marked(parsed("compare"), "data-technique")
    assert [(m["data-technique"], int(m["data-bytes"])) for m in drawn_] == [
        (t["technique"], t["bytes"]) for t in techniques
    ]


def knots(text: str) -> list[tuple[int, int]]:
    """x and value of each corner, as an area carries them."""
    return [(int(x), int(y)) for x, y in (pair.split(":") for pair in text.split())]


def test_series_and_shares_carry_the_jsons_numbers() -> None:
    """A step's blocks stand at its end; before the first one nothing is taken."""
    data, root = data_of("simulate"), parsed("simulate")
    blocks, requests = (m for m in marked(root, "data-knots"))

    assert knots(blocks["data-knots"]) == [
        (0, 0), *((s["step"] + 1, s["used_blocks"]) for s in data["series"])
    ]  # fmt: skip
    assert knots(requests["data-knots"])[1:] == [
        (s["step"] + 1, s["running"]) for s in data["series"]
    ]
    assert knots(requests["data-dotted"])[1:] == [
        (s["step"] + 1, s["waiting"]) for s in data["series"]
    ]
    assert int(blocks["data-limit-bytes"]) == 500 - 1
    rows = data_of("simulate-policies")["rows"]
    assert [
        (m["data-policy"], float(m["data-used-fraction"]), float(m["data-internal-fraction"]))
        for m in marked(parsed("simulate-policies"), "data-policy")
    ] == [
        (r["policy"], r["shares"]["used_fraction"], r["shares"]["internal_fraction"]) for r in rows
    ]


def test_pages_and_reservations_carry_the_jsons_numbers() -> None:
    """200 + 1 to 200 + 50 tokens in blocks of 128, and 512 reserved, at every listed step."""
    words = "timeline llama-3.1-8b --request 200:50,400:20@10 --max-context 512 --block-size 128"
    points = {p["step"]: p for p in ask(*words.split(), "--json").data["points"]}
    (area,) = marked(tree(ask(*words.split(), "-f", "svg").text), "data-knots")
    for x, paged in knots(area["data-slack"]):
        assert points[x]["paged_bytes"] == paged
    for x, naive in knots(area["data-dotted"]):
        assert points[x]["naive_bytes"] == naive
    for x, used in knots(area["data-knots"]):
        assert points[x]["kv_bytes"] == used


@pytest.mark.parametrize("case", ["timeline", "timeline-requests"])
def test_pointing_at_the_curve_reads_its_listed_steps(case: str) -> None:
    points = {p["step"]: p for p in data_of(case)["points"]}
    strips = [el for el in parsed(case).iter(f"{SVG}rect") if "data-x" in el.attrib]
    words = [el.findtext(f"{SVG}title") or "" for el in strips]

    assert len(words) == len(points)
    for text in words:
        step, tokens = (int(n.replace(",", "")) for n in re.findall(r"[\d,]+\d|\d", text)[:2])
        assert points[step]["tokens"] == tokens


def hostile_model() -> Model:
    return replace(resolve.model_of("llama-3.1-8b"), name=HOSTILE, id=HOSTILE)


@pytest.mark.parametrize("kind", ["size", "timeline", "compare", "tradeoff"])
def test_a_hostile_name_is_text(kind: str) -> None:
    model = hostile_model()
    results: dict[str, Callable[[], Result]] = {
        "size": lambda: kvcalc.size(model),
        "timeline": lambda: kvcalc.timeline(model, prompt=10, output=10),
        "compare": lambda: kvcalc.compare(model),
        "tradeoff": lambda: kvcalc.tradeoff(model, tokens=10),
    }
    result = results[kind]()
    text = svg.render(result)
    root = tree(text)

    assert f"{SVG}img" not in {el.tag for el in root.iter()}
    assert not {"\x1b", "\u202e", "\u2066"} & set(text)
    title = root.find(f"{SVG}title")
    assert title is not None
    assert "<img src=x onerror=alert(1)> \"'& ]]> --> </svg>" in (title.text or "")


def test_the_terminal_picture_has_every_word_and_shape() -> None:
    table = Table((), ())
    bar = Paragraph((Span("██▌", "kv"), Span("░░", "waste"), Span(" 4,096 tokens")))
    text = svg_terminal.picture(Document("t", (Verdict("Yes it does."), bar, table)), "kvcalc size")
    root = tree(text)
    words = " ".join(el.text or "" for el in root.iter(f"{SVG}text"))
    widths = [el.attrib.get("width") for el in root.iter(f"{SVG}rect") if "x" in el.attrib]

    assert words == "$ kvcalc size Yes it does. 4,096 tokens"
    # Two cells of 8, half a cell, two hatched cells.
    assert widths == ["16", "4", "16"]
