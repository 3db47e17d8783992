"""How near kvcalc comes to what vLLM logged: `python tests/benchmarks/accuracy_vllm.py`.

Prints the accuracy of the whole chain (GPU and settings to the pool) by release and GPU class,
each case left out of every coefficient that would judge it; then the figures given the logged
pool, and what other projects measured. Records: tests/data/vllm_logs.jsonl and vllm_unseen.jsonl.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from kvcalc import resolve  # noqa: E402 - the script finds kvcalc beside itself
from kvcalc.catalog.gpus import load_gpu  # noqa: E402
from kvcalc.core import fit as core  # noqa: E402
from kvcalc.core.errors import KvcalcError  # noqa: E402
from kvcalc.core.plan import Device, Memory, Plan  # noqa: E402
from kvcalc.core.shard import Parallel  # noqa: E402
from kvcalc.engines.coefficients import Coefficients, coefficients  # noqa: E402
from kvcalc.engines.vllm.budget import budget  # noqa: E402
from kvcalc.engines.vllm.defaults import is_switched, run_of  # noqa: E402
from kvcalc.engines.vllm.rules import VLLM  # noqa: E402
from kvcalc.engines.vllm.versions import TABLE, version_of  # noqa: E402
from kvcalc.engines.vllm.widths import widths_of  # noqa: E402

DATA = ROOT / "tests" / "data"
GIB = 2**30
Record = dict[str, Any]


def records(kind: str) -> list[Record]:
    """The records of a kind: "log", "measured" or "unseen"."""
    file = DATA / ("vllm_unseen.jsonl" if kind == "unseen" else "vllm_logs.jsonl")
    lines = file.read_text(encoding="utf-8").splitlines()
    return [r for line in lines if (r := json.loads(line)).get("kind") == kind]


def plan_of(record: Record, *, version: str | None = None, pool: int | None = None) -> Plan:
    """The plan that a record describes; with `pool` bytes the budget is skipped."""
    model = resolve.model_of(record["model"])
    memory, device = None, Device()
    if record.get("gpu"):
        gpu = load_gpu(record["gpu"])
        memory = Memory(gpu.memory_bytes, gpu.basis, gpu.low_bytes, gpu.high_bytes)
        kind = gpu.entry.get("architecture", "")
        unified = bool(gpu.entry.get("unified_memory", False))
        device = Device(gpu.id, gpu.name, gpu.vendor, kind, frozenset(gpu.dense_flops), unified)
    if record.get("total_gib"):
        memory = Memory(int(record["total_gib"] * GIB))
    share = record.get("utilization")
    return Plan(
        model=model,
        storage=resolve.storage_of(model, record.get("kv", "auto"), None, None, None),
        parallel=Parallel(tp=record["tp"], pp=record["pp"], dcp=record.get("dcp", 1)),
        weights=resolve.weights_of(model, record["weights"], None),
        memory=memory,
        context=record.get("length") or model.max_context_tokens or 4096,
        utilization=None if share is None else Fraction(str(share)),
        kv_pool=pool,
        block_size=record.get("block_size"),
        allow_long=True,
        device=device,
        version=version or record["version"],
        settings=record["settings"],
        rules=VLLM,
    )


class Error(NamedTuple):
    """A predicted pool beside the logged one, bytes."""

    record: Record
    pool: int
    low: int
    high: int
    weights: int

    @property
    def logged(self) -> float:
        """The logged pool, bytes."""
        return GIB * float(self.record["measured"]["available_kv_gib"])

    @property
    def fraction(self) -> float:
        """(predicted − logged) / logged."""
        return (self.pool - self.logged) / self.logged

    @property
    def covered(self) -> bool:
        """Whether the interval holds the logged pool, its last digit aside."""
        return self.low - GIB // 200 <= self.logged <= self.high + GIB // 200


def predict(record: Record, known: Coefficients) -> Error:
    """The pool of one GPU of the first stage from GPU and settings alone."""
    plan = plan_of(record)
    run, w = run_of(plan), widths_of(plan.model, plan.weights.bytes)
    lines = budget(plan, run, w, known, 0, len(plan.model.layers) // plan.parallel.pp)
    weights, last = next(-line.bytes for line in lines if line.item == "weights"), lines[-1]
    return Error(record, last.bytes, last.low_bytes, last.high_bytes, weights)


#: Which coefficients a case judges: those that cases of its class were fitted on.
FITTED: tuple[tuple[str, Callable[[Record], bool]], ...] = (
    ("non_torch", lambda r: _cuda(r, (0, 11), (0, 18)) and r["tp"] == 1 and _new(r) != "Hopper"),
    ("sampling_kernels", lambda r: _kernels(r) == "sampling_kernels"),
    ("sampling_kernels_recent", lambda r: _kernels(r) == "sampling_kernels_recent"),
    ("nccl_early", lambda r: _cuda(r, (0, 11), (0, 17)) and r["tp"] > 1 and _switched(r)),
    ("nccl_late", lambda r: _cuda(r, (0, 17)) and r["tp"] > 1 and _switched(r)),
    ("nccl", lambda r: _cuda(r, (0, 0), (0, 11)) and r["tp"] > 1),
    ("communication", lambda r: _cuda(r, (0, 11)) and r["tp"] > 1 and not _switched(r)),
    ("non_torch_rocm", lambda r: _amd(r) and not _cdna(r)),
    ("non_torch_cdna", lambda r: _cdna(r) and _from(r, (0, 11))),
    ("non_torch_v0", lambda r: not _from(r, (0, 6, 6))),
    ("repacked", lambda r: _from(r, (0, 27)) and bool(r["weights"])),
    ("unified", lambda r: r["gpu"] is not None and plan_of(r).device.unified_memory),
    ("rocm_logit", lambda r: _amd(r) and r["settings"].get("max_num_seqs", 256) < 128),
    ("rocm_int4_experts", lambda r: _amd(r) and r["weights"] == "gptq"),
    ("graph", lambda r: _from(r, (0, 20)) and not _v2(r)),
    ("graph_v2", lambda r: _from(r, (0, 29))),
)


def _amd(record: Record) -> bool:
    return str(record["gpu"]).startswith(("radeon", "mi", "rx"))


def _cdna(record: Record) -> bool:
    return str(record["gpu"]).startswith("mi")


def _from(record: Record, release: tuple[int, ...]) -> bool:
    return version_of(str(record["version"]))[: len(release)] >= release


def _cuda(record: Record, first: tuple[int, int], end: tuple[int, int] = (9, 0)) -> bool:
    return not _amd(record) and _from(record, first) and not _from(record, end)


def _new(record: Record) -> str:
    found = plan_of(record).device.architecture
    return found if found in {"Hopper", "Blackwell"} else ""


def _switched(record: Record) -> bool:
    return is_switched(plan_of(record))


def _v2(record: Record) -> bool:
    return run_of(plan_of(record)).v2_runner


def _kernels(record: Record) -> str:
    if record["tp"] * record["pp"] > 1 or not _cuda(record, (0, 11)):
        return ""
    if _from(record, (0, 18)):
        recent = _new(record) or _from(record, (0, 27))
        return "sampling_kernels_recent" if recent else "sampling_kernels"
    return "sampling_kernels" if _new(record) == "Hopper" else ""


def left_out(record: Record, cases: Sequence[Record]) -> Coefficients:
    """The coefficients without this case: each it judges refitted on the others of its class.

    A class without another case falls back to the coefficient's low end.
    """
    known = dict(coefficients("vllm"))
    for name, judges in FITTED:
        if not judges(record):
            continue
        # Two logs of one start state the same pool.
        pool = record["measured"]["available_kv_gib"]
        others = [c for c in cases if judges(c) and c["measured"]["available_kv_gib"] != pool]
        known[name] = _refitted(name, others)
    return known


def _refitted(name: str, others: Iterable[Record]) -> Any:
    """The value between the ends at which the others' median absolute error is least.

    A pool is linear in each of these, so the ends tell all between them.
    """
    base, chosen = coefficients("vllm")[name], list(others)
    if not chosen:
        return base._replace(value=base.low)
    ends = [tuple(_at_end(json.dumps(c), name, end) for end in ("low", "high")) for c in chosen]
    steps = [i / 40 for i in range(41)]

    def loss(part: float) -> float:
        return statistics.median(abs(low + (high - low) * part) for low, high in ends)

    return base._replace(value=base.low + (base.high - base.low) * min(steps, key=loss))


@cache
def _at_end(text: str, name: str, end: str) -> float:
    """The error of a record's pool with one coefficient at an end."""
    shipped = coefficients("vllm")
    value = shipped[name]._replace(value=getattr(shipped[name], end))
    return predict(json.loads(text), {**shipped, name: value}).fraction


def gpu_class(record: Record) -> str:
    """CUDA or ROCm with the GPU's architecture."""
    return f"{'ROCm' if _amd(record) else 'CUDA'} {plan_of(record).device.architecture}"


def complete() -> list[Record]:
    """The shared cases with complete settings."""
    cases = [r for r in records("log") if r["complete"]]
    measured = [r for r in records("measured") if r["gpu"]]
    return cases + [r for r in measured if "available_kv_gib" in r["measured"]]


def whole() -> list[Record]:
    """Unseen starts whose GPU and settings are stated.

    Of "given_only" records the pool is given instead; of "open" ones something is assumed.
    """
    return [r for r in records("unseen") if not r.get("given_only") and not r.get("open")]


def chain(*, blind: bool, unseen: bool = False) -> list[Error]:
    """Every case with complete settings; `blind` leaves it out of what judges it.

    `unseen`: the starts of other public records instead; those held out are judged as shipped.
    """
    known = [r for r in whole() if not r.get("held_out")]
    # Cases with a setting or a format deduced: good enough to fit on, too weak to be judged.
    support = [r for r in records("log") if r.get("supports")]
    every = [*complete(), *known, *support]
    cases = whole() if unseen else complete()
    return [
        predict(r, left_out(r, every) if blind and not r.get("held_out") else coefficients("vllm"))
        for r in cases
    ]


def summary(errors: Sequence[Error]) -> tuple[int, float, float, float, float, float]:
    """n, median, 90th percentile and worst absolute error, coverage, median width: fractions."""
    sizes = sorted(abs(e.fraction) for e in errors)
    rank = -(-9 * len(sizes) // 10) - 1
    covered = sum(e.covered for e in errors) / len(errors)
    width = statistics.median((e.high - e.low) / e.logged for e in errors)
    return len(sizes), statistics.median(sizes), sizes[rank], sizes[-1], covered, width


def assumed() -> list[Error]:
    """Logs that leave a setting, the release or the weights' format open: defaults are assumed."""
    open_ones = [r for r in records("log") if not r["complete"] and r["gpu"] and r["model"]]
    open_ones += [r for r in records("unseen") if r.get("open")]
    found = [r for r in open_ones if "available_kv_gib" in r["measured"]]
    return [
        predict({**r, "version": r["version"] or "0.12.0"}, coefficients("vllm")) for r in found
    ]


class Given(NamedTuple):
    """Whether a logged pool gives the logged figures, under which release, and ours."""

    agrees: bool
    version: str
    figures: str


def given(record: Record) -> Given | None:
    """A logged pool ± half its last digit to tokens or refusal; None where the log states neither.

    What it leaves open may be any that vLLM has: release, batch, prefix caching, scheduling.
    """
    logged = record["measured"]
    pool = logged.get("available_kv_gib")
    if pool is None or not logged.keys() & {"kv_tokens", "needed_kv_gib"}:
        return None
    digits = len(repr(float(pool)).split(".")[1])
    ends = [int((pool + sign * 0.5 * 10**-digits) * GIB) for sign in (-1, 1)]
    releases = [".".join(map(str, first)) for first, _ in TABLE][::-1]
    seen = Given(False, "", "")
    for version in [record["version"]] if record["version"] else releases:
        for extra in _unstated(record):
            asked = {**record, "settings": {**extra, **record["settings"]}}
            try:
                low, high = (_figures(plan_of(asked, version=version, pool=p)) for p in ends)
            except KvcalcError:  # that release refuses the model
                continue
            text = f"{low} to {high}"
            if _between(logged, low, high):
                return Given(True, version, text)
            seen = seen._replace(version=version, figures=text)
    return seen


def _unstated(record: Record) -> list[dict[str, Any]]:
    choices: list[dict[str, Any]] = [{}]
    if "max_num_batched_tokens" not in record["settings"]:
        choices += [{"max_num_batched_tokens": n} for n in (2048, 8192, 16_384)]
    cached = [{**c, "enable_prefix_caching": on} for c in choices for on in (True, False)]
    return [*choices, *cached, *({**c, "async_scheduling": False} for c in [*choices, *cached])]


def _figures(plan: Plan) -> tuple[int, float, int]:
    """Tokens, GiB that one request needs, the longest length."""
    ranks = VLLM.ranks(plan)
    tokens = min(VLLM.rank_tokens(plan, r) or 0 for r in ranks)
    needed = max(VLLM.needed(plan, r, plan.context, 1) for r in ranks) / GIB
    return tokens, needed, core.longest_context(plan, ranks) or 0


def _between(logged: Record, low: tuple[int, float, int], high: tuple[int, float, int]) -> bool:
    if "kv_tokens" in logged:
        return low[0] <= int(logged["kv_tokens"]) <= high[0]
    needs = abs(low[1] - logged["needed_kv_gib"]) <= 0.0051
    return needs and low[2] <= int(logged.get("estimated_max_model_len", low[2])) <= high[2]


def main() -> None:
    """Print the tables."""
    errors, groups = chain(blind=True), dict[tuple[str, str], list[Error]]()
    others = chain(blind=True, unseen=True)
    for error in errors:
        release = ".".join(str(error.record["version"]).split(".")[:2])
        groups.setdefault((release, gpu_class(error.record)), []).append(error)
    rows = [(*key, group) for key, group in sorted(groups.items())]
    rows += [
        (word, "all", [e for e in errors if gpu_class(e.record).startswith(word)])
        for word in ("CUDA", "ROCm")
    ]
    rows.append(("", "unseen", [e for e in others if not e.record.get("held_out")]))
    rows.append(("", "held out", [e for e in others if e.record.get("held_out")]))
    rows.append(("", "settings open", assumed()))
    print("vLLM  GPU class                 n   median      p90    worst  covered   width")
    for release, name, group in rows:
        n, median, p90, worst, covered, width = summary(group)
        print(
            f"{release:6}{name:24}{n:3}{median:9.2%}{p90:9.2%}{worst:9.2%}{covered:9.0%}{width:8.1%}"
        )
    print("\ngiven the logged pool")
    known = [r for r in (*records("log"), *records("measured")) if r["model"]]
    asked = [(r, g) for r in known if (g := given(r)) is not None]
    print(f"{sum(g.agrees for _, g in asked)} of {len(asked)} agree")
    for record, found in asked:
        if not found.agrees:
            print(f"{record['id']}: {record['measured']}, {found.figures}: {record.get('differs')}")
    print("\nmeasured by others")
    for r in records("measured"):
        print(f"{r['id']}: {r['measured']}, kvcalc {measured(r)}")


def measured(record: Record) -> dict[str, float]:
    """Our figures for a record of another project, under the record's names."""
    plan = plan_of(record, pool=None if record["gpu"] else GIB)
    out: dict[str, float] = {}
    if record["gpu"]:
        run, w = run_of(plan), widths_of(plan.model, plan.weights.bytes)
        lines = budget(plan, run, w, coefficients("vllm"), 0, len(plan.model.layers))
        parts = {line.item: line.bytes for line in lines}
        out["available_kv_gib"] = round(parts["kv_pool"] / GIB, 2)
        out["weights_gib"] = round(-parts["weights"] / GIB, 2)
        over = ("activations", "graphs", "other", "sampler")
        out["overhead_gib"] = round(-sum(parts.get(item, 0) for item in over) / GIB, 2)
    out["bytes_per_token"] = plan.model.token_bytes(plan.storage)
    return {name: value for name, value in out.items() if name in record["measured"]}


if __name__ == "__main__":
    main()
