"""How long simulations take, whole process, in starts of a bare interpreter of the same run.

`python tests/benchmarks/bench_simulate.py [--azure FILE] [--mooncake FILE] [--million]`: synthetic
workloads of 10⁴ and 10⁵ requests (and 10⁶), and the public traces where their files are given.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from statistics import median

_SYNTHETIC = (
    "poisson:rate=5,prompt=lognormal(1200,0.9,8000),output=lognormal(200,0.8,2000),seed=1,requests="
)
_GPU = ["llama-3.1-8b", "--gpu", "a100-40"]


def seconds(*words: str) -> float:
    """Wall time of one process of this interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def show(name: str, bare: float, *options: str) -> None:
    """One line: seconds, their ratio to a bare start, the most memory of any run so far."""
    took = seconds("-m", "kvcalc", "simulate", *options, "--json", "-q")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{name:<44}{took:9.2f} s {took / bare:9.0f} × bare {most:7.0f} MiB")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--azure")
    parser.add_argument("--mooncake")
    parser.add_argument("--million", action="store_true")
    asked = parser.parse_args()
    bare = median(seconds("-c", "pass") for _ in range(15))
    print(f"bare interpreter {1000 * bare:.1f} ms")
    if asked.azure:
        show("azure, blocks alone", bare, "--trace", asked.azure, "--blocks", "10000")
        for model in ("llama-3.1-8b", "gpt-oss-20b"):
            gpu = [model, "--gpu", "a100-40"]
            show(f"azure, {model}, roofline", bare, *gpu, "--trace", asked.azure)
    if asked.mooncake:
        blocks = ["--block-size", "512", "--blocks", "20000"]
        show("mooncake, prefix caching", bare, "--trace", asked.mooncake, *blocks)
    for count in (10_000, 100_000, *([1_000_000] if asked.million else [])):
        trace = ["--trace", f"{_SYNTHETIC}{count}"]
        show(f"synthetic, {count:,}, blocks alone", bare, *trace, "--blocks", "10000")
        show(f"synthetic, {count:,}, roofline", bare, *_GPU, *trace)


if __name__ == "__main__":
    main()
