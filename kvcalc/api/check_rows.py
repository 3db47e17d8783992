"""Figures of a log and what is expected of them, side by side, each with its verdict."""

from __future__ import annotations

from collections.abc import Iterable

from kvcalc.api.check_predict import Expected, Predicted
from kvcalc.api.check_setup import Setup
from kvcalc.core.results.check import OFF, OK, UNKNOWN, CheckRow
from kvcalc.core.units import GIB, MIB, fixed, format_bytes, trimmed
from kvcalc.logs.facts import Fact, Log

#: Engines that print a figure again where it changed; of the others every line is a figure.
_LAST_COUNTS = frozenset({"vllm", "tensorrt-llm", "lmdeploy"})
#: Of these the rank that has least decides; of all others the one that has most is told.
_LEAST = frozenset({
    "kv_pool", "kv_tokens", "kv_blocks", "max_concurrency", "max_total_num_tokens", "memory",
    "usable", "free_at_start", "free_before_weights", "free_after_weights", "free_after_pool",
    "free_at_end", "free_after_graphs",
})  # fmt: skip
#: The same figure printed once more, rounded more roughly.
_REPEATS = {"weights_rounded": "weights"}
#: In the order of a budget.
_ORDER = (
    "memory", "usable", "weights", "model_size", "activation",
    "activation_and_graphs", "non_torch", "graphs", "pools",
    "kv_pool", "state_cache", "kv_cache", "kv_key", "kv_value", "kv_latent", "kv_tokens",
    "kv_blocks", "block_bytes", "kv_cells", "kv_layers", "max_concurrency", "needed", "longest",
)  # fmt: skip
Key = tuple[str, str, int]


def rows_of(setup: Setup, expected: Iterable[Expected]) -> list[CheckRow]:
    """One row a figure: those that can be compared first, as a budget orders them."""
    predicted: dict[tuple[str, str], list[Predicted]] = {}
    for part in expected:
        for figure in part.figures:
            predicted.setdefault((figure.item, figure.device), []).append(figure)
    rows = []
    for (item, device, number), facts in _grouped(setup.log).items():
        fact = _decides(item, facts)
        figures = predicted.get((item, device), [])
        # A print beyond those expected is of something else: a draft model's pool.
        own = figures[number] if number < len(figures) else None
        rows.append(_row(setup, fact, facts, own))
    rows.sort(key=_place)
    return rows


def _grouped(log: Log) -> dict[Key, list[Fact]]:
    """Facts of one figure over the ranks: by item, device, and which of several prints it is."""
    found: dict[Key, dict[str, Fact]] = {}
    counts: dict[tuple[str, str, str], int] = {}
    items = {f.item for f in log.facts}
    for fact in [*log.facts, *_sums(log), *_longest(log)]:
        if _REPEATS.get(fact.item) in items:
            continue
        number = 0
        if log.engine not in _LAST_COUNTS:
            key = (fact.item, fact.device, fact.rank)
            number = counts.get(key, 0)
            counts[key] = number + 1
        found.setdefault((fact.item, fact.device, number), {})[fact.rank] = fact
    return {key: list(by_rank.values()) for key, by_rank in found.items()}


def _sums(log: Log) -> list[Fact]:
    """SGLang's pools of one rank together: keys, values and states share one budget."""
    if log.engine != "sglang":
        return []
    parts = [f for f in log.facts if f.item in {"kv_pool", "conv_state", "ssm_state"}]
    ranks = dict.fromkeys(f.rank for f in parts)
    made = []
    for rank in ranks:
        own = [f for f in parts if f.rank == rank]
        made.append(own[-1]._replace(
            item="pools", device="", note="", value=sum(f.value for f in own),
            low=sum(f.low for f in own), high=sum(f.high for f in own),
        ))  # fmt: skip
    return made


def _longest(log: Log) -> list[Fact]:
    """The length that a refusal says would fit."""
    told = [r for r in log.refusals if r.longest is not None and r.code == "too_long"]
    return [
        Fact("longest", r.longest or 0, "tokens", r.longest or 0, r.longest or 0, r.line, r.rank)
        for r in told[-1:]
    ]


def _decides(item: str, facts: list[Fact]) -> Fact:
    return (min if item in _LEAST else max)(facts, key=lambda f: f.value)


def _row(setup: Setup, fact: Fact, facts: list[Fact], figure: Predicted | None) -> CheckRow:
    spread = _spread(fact, facts)
    row = CheckRow(
        item=fact.item, measured=_number(fact.value, fact.unit), predicted=None,
        error_fraction=None, verdict=UNKNOWN, explanation=_joined(_aside(setup, fact), spread),
        unit=fact.unit, low=None, high=None, tolerance="", device=_device(fact), rank=fact.rank,
        line=fact.line,
    )  # fmt: skip
    if figure is None:
        return row
    fits = fact.high >= figure.low and fact.low <= figure.high
    error = (figure.best - fact.value) / abs(fact.value) if fact.value else None
    if fits and figure.low == figure.high:
        error = 0.0  # equal as far as the log prints it
    return row._replace(
        predicted=_number(figure.best, fact.unit), error_fraction=error,
        verdict=OK if fits else OFF,
        explanation=_joined(_why(setup, fact, figure, fits=fits), spread),
        low=_number(figure.low, fact.unit), high=_number(figure.high, fact.unit),
        tolerance=figure.tolerance,
    )  # fmt: skip


def _joined(*words: str) -> str:
    return " ".join(word for word in words if word)


def _number(value: float, unit: str) -> float:
    """Whole but for ratios and percentages."""
    return value if unit in {"×", "%"} else int(value)


def _device(fact: Fact) -> str:
    return " ".join(dict.fromkeys(w for w in (fact.device, _label(fact.note)) if w))


def _label(note: str) -> str:
    """Draft, projected: what a figure is beside the model's own."""
    words = [w for w in note.split() if w in {"draft", "projected", "projector"}]
    return " ".join(words)


def _place(row: CheckRow) -> tuple[int, int, int]:
    known = _ORDER.index(row.item) if row.item in _ORDER else len(_ORDER)
    return (row.verdict == UNKNOWN, known, row.line)


def _spread(fact: Fact, facts: list[Fact]) -> str:
    """The ranks differ: which one decides."""
    low, high = min(f.value for f in facts), max(f.value for f in facts)
    if len(facts) < 2 or low == high:
        return ""
    if fact.unit != "bytes":
        ends = f"{low:,.0f} to {high:,.0f}"
    else:
        ends = f"{trimmed(int(low), GIB)} to {trimmed(int(high), GIB)} GiB"
    if fact.item in _LEAST:
        return f"The {len(facts)} ranks have {ends}; the smallest decides for all."
    return f"The {len(facts)} ranks have {ends}."


def _why(setup: Setup, fact: Fact, figure: Predicted, *, fits: bool) -> str:
    """In plain words: where the expectation comes from, and what a difference may be."""
    text = f"{figure.why[:1].upper()}{figure.why[1:]}." if figure.why else ""
    words = [_TOLD.get(fact.item, ""), text]
    if fact.item == "max_concurrency":
        words = [_concurrency(setup), *words]
    if fact.item in {"kv_tokens", "kv_blocks"}:
        words.append(_blocks_apart(setup, fact, figure))
    if not fits:
        words = [_difference(fact, figure), *words]
    return _joined(*words)


#: What a figure is, said where people take it for something else.
_TOLD = {
    "kv_pool": "",
    "needed": "What one request of the full length takes.",
    "longest": "The longest length of which one request would fit.",
    "pools": "KV cache and states share what the load leaves.",
}


def _blocks_apart(setup: Setup, fact: Fact, figure: Predicted) -> str:
    """Ours are 5 blocks more than the log's 3,555."""
    plan = setup.plan
    tokens = plan.rules.block_tokens(plan) if plan is not None and plan.rules is not None else None
    if not tokens or tokens == 1:
        return ""
    size = 1 if fact.unit == "blocks" else tokens
    apart = round((figure.best - fact.value) / size)
    if not apart:
        return ""
    many = f"{abs(apart):,} block{'' if abs(apart) == 1 else 's'}"
    return f"Ours are {many} {'more' if apart > 0 else 'less'} than the log's."


def _concurrency(setup: Setup) -> str:
    length = setup.settings.get("max_model_len")
    of = f"of the full {length:,} tokens" if isinstance(length, int) else "of the full length"
    seqs = setup.settings.get("max_num_seqs")
    slots = f": max_num_seqs allows {seqs:,}, and shorter requests share the pool" if seqs else ""
    return f"Requests {of} that fit at once, not slots{slots}."


def _difference(fact: Fact, figure: Predicted) -> str:
    """How far off, in the figure's own unit, and the usual causes."""
    nearest = figure.low if fact.value < figure.low else figure.high
    off = abs(fact.value - nearest)
    if fact.unit == "bytes":
        much = format_bytes(int(off)) if off < 100 * MIB else f"{fixed(int(off), GIB)} GiB"
    else:
        much = f"{off:,.2f}" if fact.unit == "×" else f"{off:,.0f} {fact.unit}"
    less = fact.value < figure.low
    if fact.item == "kv_pool" and less:
        return (
            f"{much} more is in use than the engine's own steps explain: another process on this "
            "GPU?"
        )
    word = "less" if less else "more"
    return f"{much} {word} than expected: {_CAUSES.get(fact.item, _OTHER)}"


_OTHER = "are model, KV format and parallelism those of this start?"
_CAUSES = {
    "weights": "are the weights stored in this format, and is it this model?",
    "kv_pool": "is the GPU's memory, the utilization or the format of the weights another one?",
    "activation": "is another batch (max_num_batched_tokens, max_num_seqs) in force?",
    "activation_and_graphs": "is another batch in force, or another attention backend?",
    "graphs": "driver and attention backend decide what a graph takes.",
    "non_torch": "communication buffers and the driver differ between hosts.",
}


def _aside(setup: Setup, fact: Fact) -> str:
    """Why a figure has no prediction, where that needs saying."""
    if fact.item == "graphs" and setup.log.engine == "vllm":
        return "What was captured after the pool was sized; the pool is not charged for it."
    if fact.item.startswith("estimated"):
        return "Ollama's estimate before loading."
    if fact.item == "kv_pool" and setup.plan is None and setup.why_not:
        return f"{setup.why_not[:1].upper()}{setup.why_not[1:]}."
    return ""
