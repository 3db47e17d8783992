"""How long simulations take, whole process, in starts of a bare interpreter of the same run.

`python tests/benchmarks/bench_simulate.py [--azure FILE] [--mooncake FILE] [--million] [--runs N]`:
synthetic workloads of 10⁴ and 10⁵ requests (and 10⁶), and the public traces where their files are
given, one model of each kind. Beside each figure stands the goal; ratios are of processor time, the
least of the runs, which other programs disturb least. Exit code 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import NamedTuple

_SYNTHETIC = (
    "poisson:rate=5,prompt=lognormal(1200,0.9,8000),output=lognormal(200,0.8,2000),seed=1,requests="
)
_GPU = ("llama-3.1-8b", "--gpu", "a100-40")
#: One model of each kind of layers, and on how many H200.
_KINDS = {
    "llama-3.1-8b": 1,  # full attention
    "gpt-oss-20b": 1,  # every second layer a window of 128
    "gemma-3-27b": 1,  # six groups of windows
    "gemma-4-26b-a4b": 1,  # blocks of 16 and 32
    "mimo-v2-flash": 8,  # windows in smaller blocks than full attention
    "deepseek-v4-flash": 8,  # four block sizes, windows shorter than the largest block
    "falcon-h1-7b": 1,  # states
}
_STATES = {"falcon-h1-7b"}


class Goal(NamedTuple):
    """Bare starts and MiB that a run may take."""

    starts: float
    mib: float = 150


class Taken(NamedTuple):
    """Processor seconds and the most memory of one process."""

    seconds: float
    mib: float


def taken(*words: str) -> Taken:
    """One process of this interpreter."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KVCALC_", "PYTHON"))}
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, env=env)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"exit code {process.returncode}: {' '.join(words)}")
    return Taken(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


class Bench:
    """Measures, prints, and remembers whether all goals were met.

    Args:
        runs: Of each case; the least counts.
    """

    def __init__(self, runs: int) -> None:
        self._runs = runs
        taken("-m", "kvcalc", "--version")  # writes bytecode where that is allowed
        self.bare = min(taken("-c", "pass").seconds for _ in range(15))
        self.met = True

    def show(self, name: str, goal: Goal, *options: str) -> None:
        """One line: seconds, their ratio to a bare start, memory, and the goals."""
        words = ("-m", "kvcalc", "simulate", *options, "--json", "-q")
        runs = [taken(*words) for _ in range(self._runs)]
        seconds, mib = min(run.seconds for run in runs), max(run.mib for run in runs)
        ratio = seconds / self.bare
        good = ratio <= goal.starts and mib <= goal.mib
        self.met = self.met and good
        print(
            f"{name:<44}{seconds:8.2f} s {ratio:7.0f} of {goal.starts:5.0f} starts"
            f" {mib:5.0f} of {goal.mib:3.0f} MiB{'' if good else '  MISSED'}",
            flush=True,
        )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--azure")
    parser.add_argument("--mooncake")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    bench = Bench(asked.runs)
    print(f"bare interpreter {1000 * bench.bare:.1f} ms")
    if asked.azure:
        trace = ["--trace", asked.azure]
        bench.show("azure, blocks alone", Goal(140), *trace, "--blocks", "10000")
        for model, gpus in _KINDS.items():
            options = [model, "--gpu", "h200", "--gpus", str(gpus), "--max-context", "16384"]
            for caching in ("--no-prefix-caching", "--prefix-caching"):
                if model not in _STATES or caching.startswith("--no"):
                    name = f"azure, {model}, {caching[2:].replace('-', ' ')}"
                    bench.show(name, Goal(140), *options, *trace, caching)
    if asked.mooncake:
        blocks = ["--block-size", "512", "--blocks", "20000"]
        bench.show("mooncake, prefix caching", Goal(370), "--trace", asked.mooncake, *blocks)
    for count in (10_000, 100_000, *([1_000_000] if asked.million else [])):
        trace = ["--trace", f"{_SYNTHETIC}{count}"]
        # 5,500 starts for a million, and time grows with the requests; 20 are the start itself.
        goal = Goal(20 + 5_480 * count / 1_000_000)
        bench.show(f"synthetic, {count:,}, blocks alone", goal, *trace, "--blocks", "10000")
        bench.show(f"synthetic, {count:,}, roofline", goal, *_GPU, *trace)
    return 0 if bench.met else 1


if __name__ == "__main__":
    sys.exit(main())
