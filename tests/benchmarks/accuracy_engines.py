"""How near kvcalc comes to what engines beside vLLM logged.

`python tests/benchmarks/accuracy_engines.py` prints figures given the logged pool, then the whole
chain from GPU and settings (each TensorRT-LLM capacity left out of the coefficients that judge it)
and single parts of a budget beside measured ones. SGLang's one whole chain and the second compute
buffer are in-sample: their coefficients come from these very logs.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from kvcalc import resolve  # noqa: E402 - the script finds kvcalc beside itself
from kvcalc.core.dtypes import storage  # noqa: E402
from kvcalc.core.fit import Plan, most_requests, rank_plans  # noqa: E402
from kvcalc.core.plan import Device, Memory  # noqa: E402
from kvcalc.core.shard import Parallel  # noqa: E402
from kvcalc.core.units import GIB, MIB  # noqa: E402
from kvcalc.engines.llamacpp_setup import setup_of  # noqa: E402
from kvcalc.engines.rules import rules_for  # noqa: E402
from tests.engines.test_tensorrt_llm import CAPACITIES, capacity_plan  # noqa: E402
from tests.engines.test_transformers_rules import MEASURED  # noqa: E402
from tests.engines.test_transformers_rules import plan as transformers_plan  # noqa: E402
from tests.oracles.test_engine_logs import LOGS, contexts, ends, pooled  # noqa: E402


class Row(NamedTuple):
    """A figure beside its measurement; low and high are the interval's ends."""

    group: str
    name: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Relative error."""
        return abs(self.predicted / self.measured - 1)

    @property
    def covered(self) -> bool:
        """Whether the interval holds the measurement."""
        return self.low <= self.measured <= self.high


def given_pool() -> Counter[tuple[str, bool]]:
    """(engine, equal): every logged figure, given the logged pool or settings."""
    found: Counter[tuple[str, bool]] = Counter()
    for log in LOGS.values():
        results = [pooled(log, p) for p in ends(log)] if "given" in log else [contexts(log)]
        for key, printed in log["printed"].items():
            value, half = printed if isinstance(printed, list) else (printed, 0)
            low, high = (pick(r[key] for r in results) for pick in (min, max))
            equal = low - half - 1e-9 <= value <= high + half + 1e-9
            found[log["engine"], equal] += 1
    return found


def capacities() -> list[Row]:
    """Published TensorRT-LLM capacities, coefficients fitted on all of them."""
    rows = []
    for capacity in CAPACITIES:
        plan = capacity_plan(*capacity[:6])
        most = most_requests(plan, rank_plans(plan), plan.context)
        name = " ".join(map(str, capacity[:6]))
        rows.append(Row("tensorrt-llm", name, capacity[6], most.best, most.low, most.high))
    return rows


def left_out() -> list[Row]:
    """The same, each capacity judged by coefficients that were fitted without it.

    What the dummy run keeps is linear in the six: total − weights − pool / fraction, with the pool
    of `count` and a half sequences.
    """
    features, kept = [], []
    for model, gpu, tp, step, length, share, count in CAPACITIES:
        wide = model == "qwen3-32b"
        features.append([
            1.0, float(tp > 1), float(tp > 3), float(gpu == "gb300"), float(wide),
            (step / 4096 - 1) * (2 if wide else 1),
        ])  # fmt: skip
        plan = capacity_plan(model, gpu, tp, step, length, share)
        rank = rank_plans(plan)[0]
        lines = {line.item: line.bytes for line in rank.budget}
        pool = (count + 0.5) * _one(plan, rank)
        kept.append((lines["memory"] + lines["weights"] - pool / share) / GIB)
    rows = []
    for i, capacity in enumerate(CAPACITIES):
        others = [k for k in range(len(kept)) if k != i]
        fitted = _least_squares([features[k] for k in others], [kept[k] for k in others])
        plan = capacity_plan(*capacity[:6])
        rank = rank_plans(plan)[0]
        lines = {line.item: line.bytes for line in rank.budget}
        other = sum(a * b for a, b in zip(fitted, features[i], strict=True)) * GIB
        pool = int((lines["memory"] + lines["weights"] - other) * capacity[5])
        rules: Any = plan.rules
        found = rules.requests(plan, rank, pool, plan.context)
        spread = int(0.4 * GIB)
        low, high = (rules.requests(plan, rank, pool + d, plan.context) for d in (-spread, spread))
        name = " ".join(map(str, capacity[:6]))
        rows.append(Row("tensorrt-llm, left out", name, capacity[6], found, low, high))
    return rows


def _one(plan: Plan, rank: Any) -> int:
    rules: Any = plan.rules
    size: int = rules.request_bytes(plan, rank, plan.context)
    return size


def _least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Normal equations by elimination: six unknowns need no library."""
    n = len(rows[0])
    table = [
        [sum(r[i] * r[j] for r in rows) for j in range(n)]
        + [sum(r[i] * v for r, v in zip(rows, values, strict=True))]
        for i in range(n)
    ]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(table[k][i]))
        table[i], table[pivot] = table[pivot], table[i]
        for k in range(n):
            if k != i:
                factor = table[k][i] / table[i][i]
                table[k] = [a - factor * b for a, b in zip(table[k], table[i], strict=True)]
    return [table[i][n] / table[i][i] for i in range(n)]


def sglang_pool() -> list[Row]:
    """QwQ-32B on four L4: the pool of each, from GPU and settings alone, in tokens."""
    model = resolve.model_of("qwq-32b")
    plan = Plan(
        model=model, storage=storage("bf16"), parallel=Parallel(tp=4),
        weights=resolve.weights_of(model, None, None), memory=Memory(int(22.03 * GIB)),
        context=40_960, version="0.4.3", rules=rules_for("sglang"),
        settings={"mem_fraction_static": 0.85, "chunked_prefill_size": 2048},
        device=Device("l4", "L4", "NVIDIA", "Ada"),
    )  # fmt: skip
    rank = rank_plans(plan)[0]
    best, low, high = (n // 65_536 for n in rank.pool)
    return [Row("sglang", "QwQ-32B, 4 × L4", 46_611, best, low, high)]


def sglang_arithmetic() -> list[Row]:
    """Free after the load less what must stay free, as three logs print them, GiB."""
    logs = (
        ("QwQ-32B, 4 × L4", 21.63, 15.54, "0.85", 2.84),
        ("Grok, 8 × H100", 77.43, 36.73, "0.831", 27.58),
        ("Pixtral", 94.15, 29.69, "0.87", 52.22),
    )
    return [
        Row("sglang's rule", name, pool, free * float(share) - used, pool - 0.02, pool + 0.02)
        for name, free, used, share, pool in logs
    ]


#: Model, cells, settings, release, MiB that llama.cpp or Ollama logged for the compute buffer.
BUFFERS = [
    ("qwen3.6-27b", 131_072, {"n_ctx": 131_072}, "2026-05", 495.0),
    ("qwen3.6-27b", 32_768, {"n_ctx": 131_072, "n_seq_max": 4}, None, 281.0),
    ("gemma-3-4b", 131_072, {"n_ctx": 131_072}, None, 203.0),
    ("llama-3.1-70b", 4096, {"n_ctx": 4096, "flash_attn": False}, "2025-08", 588.01),
    ("llama-3.1-8b", 8192, {"n_ctx": 8192, "flash_attn": False}, "2024-12", 560.0),
    ("glm-4-9b", 32_768, {"n_ctx": 32_768}, "2026-02", 304.0),
]


def buffers() -> list[Row]:
    """Compute buffers of public logs, MiB."""
    rows = []
    for name, cells, settings, version, logged in BUFFERS:
        model = resolve.model_of(name)
        rules: Any = rules_for("llama.cpp")
        plan = Plan(
            model=model, storage=storage("fp16"), parallel=Parallel(),
            weights=resolve.weights_of(model, "q4_k_m", None), memory=Memory(200 * GIB),
            context=cells, version=version, settings=settings, rules=rules,
        )  # fmt: skip
        size = rules._compute(plan, setup_of("llama.cpp", plan), cells)
        ends_ = (size.best / MIB, size.low / MIB, size.high / MIB)
        rows.append(Row("llama.cpp compute", f"{name} {cells:,}", logged, *ends_))
    return rows


def forward_passes() -> list[Row]:
    """Peaks of transformers beyond the weights, cache included, bytes."""
    rows = []
    for model, _, peak, _ in MEASURED:
        plan = transformers_plan(model, 47.43, context=2048, settings={"all_logits": True})
        rank = rank_plans(plan)[0]
        line = next(x for x in rank.budget if x.item == "activations")
        kept = _one(plan, rank)
        ends_ = (kept - line.bytes, kept - line.high_bytes, kept - line.low_bytes)
        rows.append(Row("transformers peak", model, peak, *ends_))
    return rows


PARTS: tuple[Callable[[], list[Row]], ...] = (
    capacities, left_out, sglang_pool, sglang_arithmetic, buffers, forward_passes,
)  # fmt: skip


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Count, median, 90th percentile and worst error, coverage."""
    errors = sorted(row.error for row in rows)
    return {
        "n": len(rows),
        "median": statistics.median(errors),
        "p90": errors[min(len(errors) - 1, round(0.9 * (len(errors) - 1)))],
        "worst": errors[-1],
        "covered": sum(row.covered for row in rows) / len(rows),
    }


def main() -> None:
    """Print the tables."""
    counts = given_pool()
    print("Given the logged pool or settings (figures equal, different)")
    for engine in sorted({engine for engine, _ in counts}):
        print(f"  {engine:14} {counts[engine, True]:4} {counts[engine, False]:4}")
    print("\nFrom GPU and settings; parts of a budget")
    print(f"  {'':24} {'n':>3} {'median':>8} {'p90':>8} {'worst':>8} {'covered':>8}")
    for part in PARTS:
        rows = part()
        s = summary(rows)
        print(
            f"  {rows[0].group:24} {s['n']:3.0f} {s['median']:8.2%} {s['p90']:8.2%} "
            f"{s['worst']:8.2%} {s['covered']:8.0%}"
        )
        if len(rows) < 10:
            for row in rows:
                print(f"    {row.name:32} {row.measured:16,.2f} {row.predicted:16,.2f}")


if __name__ == "__main__":
    main()
