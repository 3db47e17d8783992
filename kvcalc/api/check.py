"""kvcalc.check: an engine's start-up log beside kvcalc's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvcalc.api.auto import takes_auto
from kvcalc.api.check_context import buffers_of
from kvcalc.api.check_exact import exact_of
from kvcalc.api.check_measured import measured_of
from kvcalc.api.check_predict import Expected, budget_of, of_budget, of_pool
from kvcalc.api.check_rows import rows_of
from kvcalc.api.check_setup import Setup, setup_of
from kvcalc.core.dtypes import GGML_ENGINES
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import Warn
from kvcalc.core.results.check import Assumed, CheckResult, LogInfo, Refused
from kvcalc.core.size import model_info
from kvcalc.logs.facts import Fact, Log, Refusal
from kvcalc.logs.profile import Measured, profile_text
from kvcalc.logs.reader import read_log
from kvcalc.shape import Count, Shape


@takes_auto
def check(
    log: str | None = None,
    model: str | Model | None = None,
    *,
    gpu: str | None = None,
    gpu_memory: Count | None = None,
    tp: Count | None = None,
    pp: Count | None = None,
    dp: Count | None = None,
    dcp: Count | None = None,
    context: Count | None = None,
    kv_dtype: str | None = None,
    dtype: str | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    block_size: Count | None = None,
    utilization: str | float | None = None,
    engine_version: str | None = None,
    set: Mapping[str, object] | None = None,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> CheckResult:
    """Every figure of a start-up log, beside what kvcalc expects of it where it can.

    Args:
        log: Path of the log; "-" is standard input, gzip is unpacked.
        model: As in `kvcalc.size`; default what the log names.
        gpu: A preset's id or alias, where the log does not print the GPU's memory.
        set: Settings by the engine's own names that the log does not print.

    The other options win over what the log says of them.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    asked = {k: v for k, v in locals().items() if v is not None and k not in {"log", "set"}}
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    if not isinstance(log, str) or not log:
        raise KvcalcError("usage", "LOG is missing", "kvcalc check server.log; - is standard input")
    read = read_log(log)
    setup = setup_of(read, {**asked, "set": _settings(read.engine, set or {})}, shape)
    parts, kept = _expected(setup)
    expected, plan = _merged(parts), setup.plan
    return CheckResult(
        engine=read.engine,
        version=setup.version,
        settings=setup.settings,
        rows=tuple(rows_of(setup, expected)),
        model=None if setup.model is None else model_info(setup.model),
        model_name=read.model,
        weights=None if plan is None else plan.weights.format,
        gpu=setup.gpu or (read.devices[0] if read.devices else None),
        gpus=read.ranks if plan is None else plan.parallel.gpus,
        refusals=tuple(_refused(r) for r in read.refusals),
        assumed=(*setup.assumed, *(a for part in expected for a in part.assumed), *_inferred(read)),
        log=LogInfo(read.name, read.lines, read.starts, read.ranks, read.ready),
        profile=profile_text(read, setup.version, kept),
        warnings=_warnings(read, setup, expected),
    )


def _expected(setup: Setup) -> tuple[list[Expected], tuple[Measured, ...]]:
    """What is expected, the surest first, and what the log measured of the engine's budget."""
    log = setup.log
    if log.engine in GGML_ENGINES:
        return [exact_of(setup), buffers_of(setup)], ()
    held = of_pool(setup)
    budget = budget_of(setup, held.plan)
    chained = of_budget(held.plan, budget) if log.last("kv_pool") is None else Expected()
    kept = measured_of(log, held.plan, budget.figures)
    return [exact_of(setup), held, budget, chained], kept


def _settings(engine: str, given: Mapping[str, object]) -> dict[str, object]:
    """--set by the engine's own names.

    Raises:
        KvcalcError: "unknown_setting"; "usage".
    """
    from kvcalc.engines import registry  # noqa: PLC0415 - seldom asked

    return dict(registry.settings_of(registry.engine_of(engine), given)) if given else {}


def _merged(parts: list[Expected]) -> list[Expected]:
    """The parts, each figure of the first that has it: the log's own figures before the budget."""
    seen: set[tuple[str, str]] = set()
    merged = []
    for part in parts:
        new = tuple(f for f in part.figures if (f.item, f.device) not in seen)
        seen |= {(f.item, f.device) for f in new}
        merged.append(part._replace(figures=new))
    return merged


def _refused(r: Refusal) -> Refused:
    return Refused(
        r.code, r.message, r.line, _bytes(r.needed_bytes), _bytes(r.available_bytes),
        r.max_model_len, r.longest,
    )  # fmt: skip


def _bytes(fact: Fact | None) -> int | None:
    return None if fact is None else int(fact.value)


def _inferred(log: Log) -> tuple[Assumed, ...]:
    why = f"{log.ranks} processes printed their figures"
    return tuple(Assumed(name, str(log.settings[name]), why) for name in log.inferred)


def _warnings(log: Log, setup: Setup, expected: list[Expected]) -> tuple[Warn, ...]:
    found: list[Warn] = []
    if setup.why_not:
        found.append(Warn("no_prediction", setup.why_not))
    refused = bool(log.refusals)
    found += [
        Warn("no_prediction", reason)
        for part in expected for reason in part.reasons
        if not (refused and reason.startswith("by kvcalc's count"))
    ]  # fmt: skip
    if log.earlier:
        text = f"the last of {log.starts} starts holds no figures; those before it are shown"
        found.append(Warn("earlier_start", text))
    elif log.starts > 1:
        found.append(Warn("several_starts", f"{log.starts:,} starts; the last one is shown"))
    return tuple(dict.fromkeys(found))
