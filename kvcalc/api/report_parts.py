"""A report's question, and what the other commands answer to it."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvcalc import resolve
from kvcalc.api.compare import compare
from kvcalc.api.fit import fit
from kvcalc.api.report_plans import Points
from kvcalc.api.size import size
from kvcalc.api.timeline import timeline
from kvcalc.api.waste import waste
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.compare import CompareResult
from kvcalc.core.results.fit import FitList, FitResult
from kvcalc.core.results.report import Allocation, Parts, Saving, Savings, Steps
from kvcalc.core.results.waste import WasteResult
from kvcalc.core.units import parse_count, shown

#: Options that only some of the answers take.
_TIME = ("prompt", "output", "request", "at", "max_context")
_STORAGE = ("k_dtype", "v_dtype", "dtype", "encoder_tokens", "allow_long_context")
_SHAPE = ("layers", "kv_heads", "head_dim", "query_heads", "value_dim", "parameters",
          "max_context_length", "group")  # fmt: skip
_SEVERAL = ("gpu", "gpus", "kv_dtype")
#: Lengths of the allocation example, of a limit of 4,096: those of the KV-cache article.
_EXAMPLE, _EXAMPLE_LIMIT = (500, 3800, 200), 4096
_SHORT = {"context": "-c", "requests": "-n"}


class Question(NamedTuple):
    """What was asked: the options, the first values as the question, all as points."""

    model: Model
    given: dict[str, Any]
    context: int
    requests: int
    contexts: tuple[int, ...]
    loads: tuple[int, ...]
    prompt: int
    output: int
    #: Lengths of the requests given, if any.
    lengths: tuple[int, ...]
    assumed: tuple[tuple[str, str], ...]

    def combinations(self) -> list[dict[str, Any]]:
        """Options of `fit` for every machine and storage."""
        lists = {k: _listed(self.given[k]) for k in _SEVERAL if k in self.given}
        base = {k: v for k, v in self.given.items() if k not in {*_TIME, *_SEVERAL}}
        base |= {"context": self.context, "requests": self.requests}
        return [
            {**base, **dict(zip(lists, chosen, strict=True))}
            for chosen in itertools.product(*lists.values())
        ]

    def ask(self, asked: Mapping[str, Any]) -> str:
        """`kvcalc fit` with the options of one combination, without -c and -n."""
        kept = {k: v for k, v in asked.items() if k not in {"context", "requests"}}
        return " ".join(["kvcalc fit", *_words(kept)])

    @property
    def line(self) -> str:
        """The command that makes this report again."""
        options = {"model": self.given.get("model"), **self.given}
        options |= {"context": list(self.contexts), "requests": list(self.loads)}
        if self.loads == (1,):
            del options["requests"]
        return " ".join(["kvcalc report", *_words(options), "-o plan.html"])

    def options(self, *names: str) -> dict[str, Any]:
        """Those of the options that another command takes too, with the model."""
        taken = {k: self.given[k] for k in (*names, *_STORAGE) if k in self.given}
        return {"model": self.model, **taken}


class Answers(NamedTuple):
    """Tables of the report, and the other commands' answers as asked."""

    answers: Parts
    savings: tuple[Savings, ...]
    allocations: tuple[Allocation, ...]
    steps: tuple[Steps, ...]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _words(options: Mapping[str, Any]) -> list[str]:
    """Options as one types them."""
    words = []
    for key, value in options.items():
        flag = _SHORT.get(key, f"--{key.replace('_', '-')}")
        if value is None or (key in _DEFAULTS and str(value) == _DEFAULTS[key]):
            continue
        if key == "model":
            words.append(shlex.quote(value.id if isinstance(value, Model) else str(value)))
        elif value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            words += [f"{flag} {shlex.quote(f'{k}={v}')}" for k, v in value.items()]
        elif key == "group":
            words += [f"{flag} {shlex.quote(str(v))}" for v in value]
        else:
            words.append(f"{flag} {shlex.quote(','.join(map(str, _listed(value))))}")
    return words


_DEFAULTS = {"kv_dtype": "auto", "pp": "1", "dp": "1", "dcp": "1", "ep": "1"}


def question_of(model: Model, given: Mapping[str, Any]) -> Question:
    """The options checked, and what is assumed where they say nothing.

    Raises:
        KvcalcError: "usage"; "context_too_long".
    """
    allow = bool(given.get("allow_long_context"))
    contexts = [
        resolve.context_of(model, text, allow_long=allow) for text in _listed(given.get("context"))
        if text is not None
    ]  # fmt: skip
    assumed: list[tuple[str, str]] = []
    if not contexts:
        contexts = [resolve.default_context(model)]
        assumed.append(("-c", str(contexts[0])))
    loads = [parse_count(text, "-n") for text in _listed(given.get("requests", 1))]
    texts = _listed(given.get("request", ()))
    if ("prompt" in given) != ("output" in given):
        missing = "--output" if "prompt" in given else "--prompt"
        raise KvcalcError(
            "usage", f"{missing} is missing", "give both, like --prompt 4096 --output 1000"
        )
    prompt, output = _single(model, given, contexts[0])
    if "prompt" not in given:
        assumed.append(("--prompt", str(prompt)))
        assumed.append(("--output", str(output)))
    lengths = tuple(_length(text) for text in texts)
    if not lengths:
        shares = ", ".join(f"{n}/{_EXAMPLE_LIMIT}" for n in _EXAMPLE)
        assumed.append(("--request", f"{shares} of the context, as an example"))
    return Question(
        model, dict(given), contexts[0], loads[0], tuple(contexts), tuple(loads), prompt, output,
        lengths, tuple(assumed),
    )  # fmt: skip


def _single(model: Model, given: Mapping[str, Any], context: int) -> tuple[int, int]:
    """The request shown step by step: as given, or the context, decoded to the maximum there is."""
    if "prompt" in given:
        return parse_count(given["prompt"], "--prompt"), parse_count(
            given["output"], "--output", minimum=0
        )
    most = max(model.max_context_tokens or 4 * context, context)
    if "max_context" in given:
        most = min(most, parse_count(given["max_context"], "--max-context"))
        context = min(context, most)
    prompt = context if context < most else max(most // 2, 1)
    return prompt, most - prompt


def _length(text: str) -> int:
    """P + O of "P:O[@S]", as `timeline` reads it."""
    body = str(text).partition("@")[0]
    prompt, colon, output = body.partition(":")
    if not colon:
        raise KvcalcError(
            "usage",
            f"--request {shown(text)} is not PROMPT:OUTPUT[@STEP]",
            "write it like 4096:1000",
        )
    return parse_count(prompt, "--request PROMPT") + parse_count(
        output, "--request OUTPUT", minimum=0
    )


def parts_of(question: Question, points: Points, storages: Sequence[Storage]) -> Answers:
    """The answers of size, fit, timeline, waste and compare, at every context."""
    asked_name = str(_listed(question.given.get("kv_dtype", "auto"))[0])
    by_label = {s.label: s.k.key if s.k.key == s.v.key else asked_name for s in storages}
    sizes = tuple(
        size(context=list(points.contexts), kv_dtype=name,
             **question.options("weights", "weight_bytes", "block_size"))
        for name in by_label.values()
    )  # fmt: skip
    asked = question.combinations()[0]
    judged = fit(**{**asked, "model": question.model, **_without_shape(asked)})
    each = [(label, name, c) for label, name in by_label.items() for c in points.contexts]
    savings = [_savings(question, *one) for one in each]
    allocations = [_allocation(question, *one) for one in each]
    single = tuple(_steps(question, label, name) for label, name in by_label.items())
    first = next(iter(by_label.values()))
    own = timeline(kv_dtype=first, **_timeline(question))
    answers = Parts(
        size=size(context=[question.context, points.contexts[-1]], requests=question.requests,
                  kv_dtype=first, **question.options("weights", "weight_bytes", "block_size")),
        sizes=sizes,
        fit=judged if isinstance(judged, FitResult) else None,
        machines=judged if isinstance(judged, FitList) else None,
        timeline=own,
        waste=_waste(question, first, question.context),
        compare=_compare(question, first, question.context, question.requests),
    )  # fmt: skip
    return Answers(
        answers, tuple(s for s in savings if s is not None),
        tuple(a for a in allocations if a is not None), single,
    )  # fmt: skip


def _without_shape(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The shape by numbers is a model by now."""
    return {k: () if k == "group" else None for k in _SHAPE if k in asked}


def _timeline(question: Question) -> dict[str, Any]:
    options = question.options("weights", "weight_bytes", "max_context")
    options["block_size"] = question.given.get("block_size", 16)
    if question.lengths and "prompt" not in question.given:
        return {**options, "request": question.given["request"]}
    return {**options, "prompt": question.prompt, "output": question.output}


def _steps(question: Question, label: str, name: str) -> Steps:
    options = question.options("weights", "weight_bytes")
    if "at" in question.given:
        options["at"] = question.given["at"]
    made = timeline(kv_dtype=name, prompt=question.prompt, output=question.output, **options)
    return Steps(label, question.prompt, question.output, made.milestones)


def _compare(question: Question, name: str, context: int, requests: int) -> CompareResult:
    options = question.options()
    options["block_size"] = question.given.get("block_size", 16)
    prefix = question.given.get("shared_prefix")
    if prefix is not None:
        options["shared_prefix"] = min(parse_count(prefix, "--shared-prefix"), context)
    return compare(kv_dtype=name, context=context, requests=requests, **options)


def _savings(question: Question, label: str, name: str, context: int) -> Savings | None:
    """Techniques at one context, as what n requests take: fixed + n × each."""
    try:
        one, two = (_compare(question, name, context, n) for n in (1, 2))
    except KvcalcError:
        return None
    rows = []
    for a, b in zip(one.techniques, two.techniques, strict=True):
        each, before = b.bytes - a.bytes, b.before_bytes - a.before_bytes
        rows.append(Saving(
            a.technique, a.label, a.quality, a.note, a.bytes - each, each,
            a.before_bytes - before, before,
        ))  # fmt: skip
    return Savings(label, context, tuple(rows))


def _waste(question: Question, name: str, context: int) -> WasteResult | None:
    lengths = list(question.lengths)
    if lengths and max(lengths) > context:
        return None
    if not lengths:
        lengths = [max(n * context // _EXAMPLE_LIMIT, 1) for n in _EXAMPLE]
    options = question.options()
    options["block_size"] = question.given.get("block_size", 16)
    return waste(kv_dtype=name, request=lengths, max_context=context, **options)


def _allocation(question: Question, label: str, name: str, context: int) -> Allocation | None:
    made = _waste(question, name, context)
    if made is None:
        return None
    lengths = tuple(r.tokens for r in made.per_request)
    return Allocation(label, context, lengths, made.policies)
