"""How long a start takes, as a multiple of `python -c pass` in the same run; batch per second.

`python tests/benchmarks/bench_startup.py [RUNS]`: a script, not a test, since seconds differ from
machine to machine. Bytecode is compiled first; the commands take turns, so that a busy moment
hits all of them. Ratios of the least and the median run and of the least processor time,
which other programs disturb least. Exit code 1 if a target is missed by all three.
"""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
KVCALC = ["-m", "kvcalc"]
LINES = 100_000


class Case(NamedTuple):
    """One command and the most it may take, in bare starts."""

    name: str
    arguments: list[str]
    target: float


BARE = Case("python -c pass", ["-c", "pass"], 1.0)
CASES = (
    BARE,
    Case("--version", [*KVCALC, "--version"], 1.6),
    Case("size llama-3.1-8b --json", [*KVCALC, "size", "llama-3.1-8b", "--json"], 7.0),
    Case("size llama-3.1-8b -f text", [*KVCALC, "size", "llama-3.1-8b", "-f", "text"], 9.0),
    Case(
        "fit llama-3.1-70b --gpu h100 --json",
        [*KVCALC, "fit", "llama-3.1-70b", "--gpu", "h100", "--engine", "none", "--json"],
        10.0,
    ),
    Case(
        "fit llama-3.1-70b --weights int4 (vllm)",
        [*KVCALC, "fit", "llama-3.1-70b", "--gpu", "h100", "--weights", "int4", "--json"],
        10.0,
    ),
    Case(
        "fit llama-3.1-70b (all GPUs × 1–8, vllm)",
        [*KVCALC, "fit", "llama-3.1-70b", "--gpus", "1,2,4,8", "--json"],
        80.0,
    ),
    Case(
        "fit llama-3.1-70b (all GPUs)",
        [*KVCALC, "fit", "llama-3.1-70b", "--engine", "none", "--json"],
        50.0,
    ),
    Case("fit --gpu h100 (all models)", [*KVCALC, "fit", "--gpu", "h100", "--engine", "none",
                                         "--json"], 50.0),
    Case("size --help", [*KVCALC, "size", "--help"], 8.0),
)  # fmt: skip
PER_SECOND = 10_000


def environment(home: str) -> dict[str, str]:
    """A clean one, with bytecode written and read."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KVCALC_", "PYTHON"))}
    return {**kept, "HOME": home, "XDG_CONFIG_HOME": home, "PYTHONPATH": str(ROOT)}


class Taken(NamedTuple):
    """Seconds of one run by the clock and of the processor."""

    clock: float
    processor: float


def measured(case: Case, env: dict[str, str], cwd: str) -> Taken:
    """One run, from the start of the process to its end."""
    before, start = processor_time(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *case.arguments], env=env, cwd=cwd, stdout=subprocess.DEVNULL, check=False
    )
    clock, processor = time.perf_counter() - start, processor_time() - before
    if done.returncode not in {0, 1}:
        sys.exit(f"{case.name}: exit code {done.returncode}")
    return Taken(clock, processor)


def processor_time() -> float:
    """Seconds that the processes ended so far have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def starts(runs: int, env: dict[str, str], cwd: str) -> bool:
    """Print the table of starts; whether every target was met by the least of the runs."""
    times: dict[str, list[Taken]] = {case.name: [] for case in CASES}
    for run in range(runs + 1):
        for case in CASES:
            taken = measured(case, env, cwd)
            if run:  # the first round warms the file cache
                times[case.name].append(taken)
    bare = summary(times[BARE.name])
    print(
        f"{'':42} {'ms: min':>8} {'median':>8} {'ratio: min':>11} {'median':>7} {'cpu':>6}  target"
    )
    met = True
    for case in CASES:
        found = summary(times[case.name])
        ratios = [mine / its for mine, its in zip(found, bare, strict=True)]
        good = min(ratios) <= case.target
        met = met and good
        print(
            f"{case.name:42} {found[0] * 1e3:8.1f} {found[1] * 1e3:8.1f} {ratios[0]:11.2f}"
            f" {ratios[1]:7.2f} {ratios[2]:6.2f} {case.target:7.1f}{'' if good else '  MISSED'}"
        )
    return met


def summary(times: list[Taken]) -> tuple[float, float, float]:
    """Least and median by the clock, least of the processor."""
    clock = [t.clock for t in times]
    return min(clock), statistics.median(clock), min(t.processor for t in times)


def batch(env: dict[str, str], cwd: str) -> bool:
    """Print how many lines `batch` answers in a second, start included."""
    models = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "mistral-7b-v0.1")
    path = Path(cwd) / "lines.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for i in range(LINES):
            model, context = models[i % len(models)], 1024 + i % 4096
            file.write(f'{{"command":"size","model":"{model}","context":[{context}]}}\n')
    case = Case("batch", [*KVCALC, "batch", str(path)], 0)
    runs = [measured(case, env, cwd) for _ in range(3)]
    clock = LINES / min(run.clock for run in runs)
    processor = LINES / min(run.processor for run in runs)
    good = max(clock, processor) >= PER_SECOND
    print(
        f"\nbatch, {LINES:,} size lines: {clock:,.0f} a second by the clock,"
        f" {processor:,.0f} of processor time (target {PER_SECOND:,}){'' if good else '  MISSED'}"
    )
    return good


def main(arguments: list[str]) -> int:
    """Both measurements."""
    runs = int(arguments[0]) if arguments else 20
    compileall.compile_dir(str(ROOT / "kvcalc"), quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder)
        return 0 if starts(runs, env, folder) & batch(env, folder) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
