"""The README's accuracy tables, from one run of every comparison with real starts.

`python tests/benchmarks/accuracy.py` prints them; `--write` also stores each case's figures in
tests/data/accuracy.jsonl and the tables in the README; `--check` fails if either is out of date.
What is judged, and by which coefficients, stands in accuracy_vllm.py and accuracy_engines.py.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import kvcalc  # noqa: E402 - the script finds kvcalc beside itself
from tests.benchmarks import accuracy_engines as engines  # noqa: E402
from tests.benchmarks import accuracy_vllm as vllm  # noqa: E402

README, DATA = ROOT / "README.md", ROOT / "tests" / "data" / "accuracy.jsonl"
BEGIN, END = "<!-- accuracy: begin -->", "<!-- accuracy: end -->"
Row = dict[str, Any]
GIB = 2**30

#: Sets of starts, in the table's order, and what they are called there.
SETS = {
    "left out": "logs",
    "unseen": "other records",
    "held out": "held out",
    "settings open": "settings open",
    "published": "capacities",
    "in sample": "in sample",
}


def rows() -> list[Row]:
    """Every case: what was printed or measured, and kvcalc's figure with its ends."""
    return [*_vllm_rows(), *_engine_rows(), *_given_rows(), *_measured_rows()]


def _vllm_rows() -> Iterable[Row]:
    starts = [("left out", e) for e in vllm.chain(blind=True)]
    others = vllm.chain(blind=True, unseen=True)
    starts += [("held out" if e.record.get("held_out") else "unseen", e) for e in others]
    starts += [("settings open", e) for e in vllm.assumed()]
    for group, e in starts:
        release = ".".join(str(e.record["version"]).split(".")[:2])
        yield {
            "table": "chain", "set": group, "engine": "vllm", "release": release,
            "gpu": vllm.gpu_class(e.record), "id": e.record["id"], "source": e.record["source"],
            "unit": "GiB", "measured": round(e.logged / GIB, 2),
            "predicted": _gib(e.pool), "low": _gib(e.low), "high": _gib(e.high),
        }  # fmt: skip


def _gib(size: int) -> float:
    return round(size / GIB, 3)


def _engine_rows() -> Iterable[Row]:
    named = (
        ("published", "tensorrt-llm", engines.left_out, "sequences"),
        ("in sample", "sglang", engines.sglang_pool, "tokens"),
        ("in sample", "llama.cpp", engines.buffers, "MiB of compute buffer"),
        ("in sample", "transformers", engines.forward_passes, "bytes at the peak"),
    )
    for group, engine, part, unit in named:
        for r in part():
            gpu = {"tensorrt-llm": "CUDA Hopper", "sglang": "CUDA Ada"}.get(engine, "")
            yield {
                "table": "chain", "set": group, "engine": engine, "release": "",
                "gpu": "CUDA Blackwell" if " gb300 " in f" {r.name} " else gpu, "id": r.name,
                "source": "tests/benchmarks/accuracy_engines.py", "unit": unit,
                "measured": r.measured, "predicted": round(r.predicted, 3),
                "low": round(r.low, 3), "high": round(r.high, 3),
            }  # fmt: skip


def _given_rows() -> Iterable[Row]:
    for record in (r for kind in ("log", "measured", "unseen") for r in vllm.records(kind)):
        found = vllm.given(record) if record["model"] else None
        verdict = "not stated" if found is None else "agrees" if found.agrees else "differs"
        yield {
            "table": "given", "engine": "vllm", "id": record["id"], "verdict": verdict,
            "release": found.version if found and found.agrees else "",
            "reason": record.get("differs", "") if verdict == "differs" else "",
        }  # fmt: skip
    for (engine, equal), count in sorted(engines.given_pool().items()):
        yield {
            "table": "given", "engine": engine, "id": f"{count} figures", "count": count,
            "verdict": "agrees" if equal else "differs", "release": "", "reason": "",
        }  # fmt: skip


def _measured_rows() -> Iterable[Row]:
    for record in vllm.records("measured"):
        ours = vllm.measured(record)
        tokens = record["measured"].get("kv_tokens")
        found = vllm.given(record) if tokens else None
        if found is not None:  # the pool's printed digits leave a range
            yield _measured(record, "tokens of the measured pool", tokens, found.figures)
        for name, value in ours.items():
            yield _measured(record, name, record["measured"][name], value)
    found_speed = kvcalc.speed("llama-3-8b", gpu="a100-80-sxm", context=1024, requests=1)
    rate = found_speed.to_dict()["decode"]["tokens_per_second_per_request"]
    speed = {"id": "ridgepoint-8b-decode", "source": "ridgepoint 0.1.2 CALIBRATION.md (2026-09-07)"}
    yield _measured(speed, "tokens/s of one request, a ceiling", 79.3, round(rate, 1))
    at_1m = kvcalc.size("deepseek-v4-pro", context=1_048_576).contexts[0].bytes_per_request
    published = {"id": "vramscout-v4-pro", "source": "vramscout 0.7.0, published arithmetic"}
    yield _measured(published, "1,048,576 tokens, GiB", 9.62, round(at_1m / GIB, 2))


def _measured(record: Row, item: str, measured: object, predicted: object) -> Row:
    if isinstance(predicted, str):  # "(tokens, GiB, length) to (…)"
        ends = [part.strip("() ").split(",")[0] for part in predicted.split(" to ")]
        predicted = " to ".join(f"{int(end):,}" for end in ends)
    return {
        "table": "measured", "id": record["id"], "source": record["source"], "item": item,
        "measured": measured, "predicted": predicted,
    }  # fmt: skip


class Summary(NamedTuple):
    """Of a group of cases: fractions of what was measured."""

    cases: int
    median: float
    p90: float
    worst: float
    covered: float
    width: float


def summary(found: Sequence[Row]) -> Summary:
    """Count; median, 90th percentile and worst absolute error; coverage; median width."""
    errors = sorted(abs(r["predicted"] / r["measured"] - 1) for r in found)
    half = 0.005 if found[0]["unit"] == "GiB" else 0.0
    inside = [r["low"] - half <= r["measured"] <= r["high"] + half for r in found]
    widths = [(r["high"] - r["low"]) / r["measured"] for r in found]
    rank = -(-9 * len(errors) // 10) - 1
    covered = sum(inside) / len(inside)
    middle = statistics.median(errors)
    return Summary(
        len(errors), middle, errors[rank], errors[-1], covered, statistics.median(widths)
    )


def block(found: Sequence[Row]) -> str:
    """The README's tables."""
    lines = [
        "| engine | starts | releases | GPUs | cases | median | p90 | worst | inside | width |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for r in found:
        if r["table"] == "chain":
            joined = r["set"] in {"held out", "settings open"}
            groups.setdefault(
                (r["engine"], r["set"], "several" if joined else r["gpu"]), []
            ).append(r)
    names = list(SETS)
    for (engine, group, gpu), part in sorted(
        groups.items(), key=lambda g: (g[0][0] != "vllm", g[0][0], names.index(g[0][1]), g[0][2])
    ):
        lines.append(_line(engine, SETS[group], _releases(part), gpu, part))
    for platform in ("CUDA", "ROCm"):
        part = [
            r for r in found
            if r["table"] == "chain" and r["set"] == "left out" and r["gpu"].startswith(platform)
        ]  # fmt: skip
        lines.append(_line("**vllm**", SETS["left out"], "all", f"all {platform}", part))
    return "\n".join([*lines, "", *_given_block(found), "", *_measured_block(found)])


def _line(engine: str, starts: str, releases: str, gpu: str, part: Sequence[Row]) -> str:
    s = summary(part)
    figures = (f"{s.median:.2%}", f"{s.p90:.2%}", f"{s.worst:.1%}", f"{s.covered:.0%}")
    cells = (engine, starts, releases, gpu, str(s.cases), *figures, f"{s.width:.1%}")
    return "| " + " | ".join(cells) + " |"


def _releases(part: Sequence[Row]) -> str:
    found = sorted({r["release"] for r in part if r["release"]}, key=_numbers)
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}" if found else ""


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _given_block(found: Sequence[Row]) -> list[str]:
    counts: Counter[tuple[str, str]] = Counter()
    for r in found:
        if r["table"] == "given":
            counts[r["engine"], r["verdict"]] += r.get("count", 1)
    lines = [
        "| given the printed pool or settings | agrees | differs | not stated |",
        "|---|---|---|---|",
    ]
    for engine in dict.fromkeys(engine for engine, _ in counts):
        unit = "starts" if engine == "vllm" else "figures"
        cells = (counts[engine, verdict] for verdict in ("agrees", "differs", "not stated"))
        lines.append(f"| {engine}, {unit} | " + " | ".join(map(str, cells)) + " |")
    reasons = [f"{r['id']}: {r['reason']}" for r in found if r.get("reason")]
    return [*lines, "", "What differs: " + "; ".join(reasons) + "."]


def _measured_block(found: Sequence[Row]) -> list[str]:
    lines = ["| measured by others | of | measured | kvcalc |", "|---|---|---|---|"]
    for r in found:
        if r["table"] == "measured":
            item = r["item"].replace("_gib", ", GiB").replace("_", " ")
            lines.append(
                f"| {r['id']} | {item} | {_shown(r['measured'])} | {_shown(r['predicted'])} |"
            )
    return lines


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def stored() -> list[Row]:
    """The rows of tests/data/accuracy.jsonl."""
    return [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


def in_readme() -> str:
    """The block between the README's markers."""
    _, mark, rest = README.read_text(encoding="utf-8").partition(BEGIN + "\n")
    found, end, _ = rest.partition("\n" + END)
    if not (mark and end):
        raise SystemExit(f"README.md lacks {BEGIN} or {END}")
    return found


def main(argv: Sequence[str]) -> int:
    """Print, write or check the tables."""
    found = rows()
    if "--write" in argv:
        lines = (json.dumps(r, ensure_ascii=False) for r in found)
        DATA.write_text("\n".join(lines) + "\n", encoding="utf-8")
        text = README.read_text(encoding="utf-8")
        old, new = (f"{BEGIN}\n{part}\n{END}" for part in (in_readme(), block(found)))
        README.write_text(text.replace(old, new), encoding="utf-8")
    if "--check" in argv:
        return int(stored() != json.loads(json.dumps(found)) or in_readme() != block(found))
    print(block(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
