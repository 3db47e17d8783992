"""kvcalc.report: one deployment in full, at every context and number of requests a page holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvcalc import resolve
from kvcalc.api.auto import takes_auto
from kvcalc.api.fit_plan import check_own_tokens
from kvcalc.api.report_parts import Question, parts_of, question_of
from kvcalc.api.report_plans import Deployment, Points, deployment, ladder, plan_table
from kvcalc.api.report_trace import TRACE_OPTIONS, checked, simulated, simulations
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.report import Assumption, LeftOutPlan, ReportResult
from kvcalc.core.size import model_info
from kvcalc.shape import Count, Shape

#: Combinations of machines and storages that one page can show.
MAX_PLANS = 24
#: Fractions of a context at which the growth curve is read.
_PARTS = 16
#: Numbers of requests every page holds up to what fits; then doublings in eight steps.
_FEW = 16


@takes_auto
def report(
    model: str | Model | None = None,
    *,
    gpu: str | Sequence[str] | None = None,
    gpu_memory: Count | None = None,
    gpus: Count | Sequence[Count] | None = None,
    tp: Count | None = None,
    pp: Count = 1,
    pp_layers: Count | Sequence[Count] = (),
    dp: Count = 1,
    dcp: Count = 1,
    ep: Count = 1,
    context: Count | Sequence[Count] | None = None,
    requests: Count | Sequence[Count] = 1,
    kv_dtype: str | Sequence[str] = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    engine: str | None = None,
    engine_version: str | None = None,
    set: Mapping[str, object] | None = None,
    utilization: str | float | None = None,
    reserve: Count | None = None,
    kv_pool: Count | None = None,
    kv_pool_tokens: Count | None = None,
    block_size: Count | None = None,
    shared_prefix: Count | None = None,
    prefix_copies: Count | None = None,
    average_context: Count | None = None,
    encoder_tokens: Count | None = None,
    allow_long_context: bool = False,
    prompt: Count | None = None,
    output: Count | None = None,
    request: str | Sequence[str] = (),
    at: Count | Sequence[Count] = (),
    max_context: Count | None = None,
    trace: str | None = None,
    policy: str | Sequence[str] = (),
    requests_per_second: str | float | None = None,
    limit: Count | None = None,
    skip_bad: bool = False,
    seed: Count | None = None,
    scheduler: str | None = None,
    max_batched_tokens: Count | None = None,
    max_requests: Count | None = None,
    prefix_caching: bool = False,
    no_prefix_caching: bool = False,
    clock: str | None = None,
    step_seconds: str | float | None = None,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> ReportResult:
    """All that `size`, `fit`, `timeline`, `waste` and `compare` say of one deployment.

    Args:
        model: As in `kvcalc.size`.
        gpu: As in `kvcalc.fit`; several are alternatives. None: no machine is judged, and those
            that would do are listed.
        gpus: How many of them; several are alternatives too.
        kv_dtype: Storage of K and V; several are alternatives.
        context: Tokens of one request. The first is the question, all are points of the page.
        requests: The load; the first is the question.
        prompt: With `output`, the request that is shown step by step.
        request: Requests as "P:O", whose lengths allocation is judged by.
        trace: As in `kvcalc.simulate`, whose options it takes too: every plan serves its requests.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    given = {k: v for k, v in locals().items() if v is not None and v is not False}
    given = {k: v for k, v in given.items() if v not in ((), [])}
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = resolve.model_of(model, shape, encoder_tokens)
    checked(given)
    question = question_of(found, {k: v for k, v in given.items() if k not in TRACE_OPTIONS})
    deployments, left_out = _deployments(found, question)
    points = _points(found, question, deployments)
    tables = tuple(plan_table(d, points, question.ask(d.asked)) for d in deployments)
    parts = parts_of(question, points, [d.plan.storage for d in deployments])
    data, answers = simulations(found, given, deployments)
    return ReportResult(
        model=model_info(found),
        weights=deployments[0].plan.weights,
        context_tokens=question.context,
        requests_asked=question.requests,
        contexts=points.contexts,
        requests=points.requests,
        growth_tokens=points.growth,
        plans=tables,
        left_out=tuple(left_out),
        sizes=tuple(r.to_dict() for r in parts.answers.sizes),
        savings=parts.savings,
        allocations=parts.allocations,
        steps=parts.steps,
        simulations=data,
        assumptions=tuple(Assumption(*a) for a in question.assumed),
        line=question._replace(given=given).line,
        parts=parts.answers._replace(simulated=answers),
        warnings=tuple(
            dict.fromkeys(w for r in simulated(next(iter(answers), None)) for w in r.warnings)
        ),
    )


def _deployments(model: Model, question: Question) -> tuple[list[Deployment], list[LeftOutPlan]]:
    """Every combination that can be; the question's own must.

    Raises:
        KvcalcError: "usage" for too many; what `fit` raises if the first cannot be.
    """
    combinations = question.combinations()
    if len(combinations) > MAX_PLANS:
        raise KvcalcError(
            "usage", f"{len(combinations)} plans", f"the most is {MAX_PLANS}; give fewer values"
        )
    made: list[Deployment] = []
    left_out = []
    for asked in combinations:
        try:
            found = deployment(model, asked)
            ladder(found, [question.context])
        except KvcalcError as error:
            if not made:
                raise
            words = ", ".join(str(asked[k]) for k in ("gpu", "gpus") if k in asked)
            left_out.append(LeftOutPlan(words, str(asked.get("kv_dtype", "auto")), error.message))
            continue
        made.append(found)
    return made, left_out


def _points(model: Model, question: Question, deployments: Sequence[Deployment]) -> Points:
    shared = deployments[0].plan.shared_prefix
    for tokens in question.contexts:
        check_own_tokens(shared, tokens, "-c")
    contexts = [tokens for tokens in _contexts(model, question) if tokens > shared]
    growth = {0, *(t for t in model.bends if t <= contexts[-1])}
    growth |= {t * k // _PARTS for t in contexts for k in range(1, _PARTS + 1)}
    fits = [n for d in deployments for n in ladder(d, contexts) if 0 < n <= 10**6]
    at_asked = [n for d in deployments for n in ladder(d, [question.context]) if n <= 10**5]
    top = max([64, question.requests, *(n + n // 4 for n in at_asked)])
    counts = {*range(1, _FEW + 1), *question.loads, *fits}
    step = _FEW
    while step < top:
        counts |= {step + step * k // 4 for k in range(5)}
        step *= 2
    return Points(tuple(contexts), tuple(sorted(counts)), tuple(sorted(growth)))


def _contexts(model: Model, question: Question) -> list[int]:
    """Powers of two from 1,024 (or 1/128 of a short maximum) on, those asked for, the maximum."""
    most = max([model.max_context_tokens or 131_072, *question.contexts])
    least = max(min(1024, most // 128), 1)
    powers = {2**k for k in range(40) if least <= 2**k <= most}
    return sorted(powers | {most, *question.contexts})
