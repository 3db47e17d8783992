"""`kvcalc check` as a document: verdict, what was read and assumed, figures, why they differ."""

from __future__ import annotations

from typing import Any

from kvcalc.core.results.check import OFF, OK, UNKNOWN, CheckResult, CheckRow
from kvcalc.core.units import GIB, MIB, fixed, percent
from kvcalc.report.document import (
    Block,
    Column,
    Document,
    Paragraph,
    Row,
    Table,
    Verdict,
)

_NAMES = {
    "activation": "activation peak", "activation_and_graphs": "peak and graphs",
    "beside_kv": "all but KV", "non_torch": "outside PyTorch", "graphs": "CUDA graphs",
    "graphs_estimated": "CUDA graphs, charged", "kv_pool": "KV pool", "pools": "KV pool and states",
    "kv_cache": "KV cache", "kv_key": "K", "kv_value": "V", "kv_latent": "latent KV",
    "kv_latent_transposed": "latent KV, transposed", "kv_tokens": "KV tokens",
    "kv_blocks": "KV blocks", "kv_cells": "KV cells", "kv_layers": "KV layers",
    "block_bytes": "a block", "max_concurrency": "concurrency", "needed": "one request needs",
    "longest": "longest that fits", "state_cache": "states", "estimated_kv": "KV, estimated",
    "max_total_num_tokens": "tokens of all pools", "model_size": "model file",
    "usable": "utilization allows", "memory": "GPU memory", "cpu_blocks": "swap blocks",
}  # fmt: skip
#: Figures without a prediction that a reader looks for all the same.
_SHOWN_ANYWAY = frozenset({
    "weights", "kv_pool", "kv_tokens", "kv_blocks", "max_concurrency", "graphs", "activation",
    "compute", "kv_cache", "max_total_num_tokens",
})  # fmt: skip
#: From so many buffers on only their sum is shown.
_MANY = 3
#: Errors above this share are not shown.
_MOST_ERROR = 10
#: Settings named first, in these words.
_SETTINGS = (
    ("gpu_memory_utilization", "utilization"), ("mem_fraction_static", "mem_fraction_static"),
    ("max_model_len", "max_model_len"), ("context_length", "context_length"),
    ("n_ctx", "n_ctx"), ("n_seq_max", "n_seq_max"), ("max_seq_len", "max_seq_len"),
    ("session_len", "session_len"), ("max_num_seqs", "max_num_seqs"),
    ("max_num_batched_tokens", "max_num_batched_tokens"),
    ("chunked_prefill_size", "chunked_prefill_size"), ("kv_cache_dtype", "kv_cache_dtype"),
    ("type_k", "type_k"), ("type_v", "type_v"), ("n_gpu_layers", "n_gpu_layers"),
)  # fmt: skip


def view(r: CheckResult) -> Document:
    """One log."""
    blocks: list[Block] = [_verdict(r), Paragraph(_read(r), indent=-1)]
    blocks += [Paragraph(f"line {refusal.line:,}: {refusal.message}") for refusal in r.refusals]
    shown = [row for row in r.rows if row.verdict != UNKNOWN]
    others = [row for row in r.rows if row.verdict == UNKNOWN and row.item in _SHOWN_ANYWAY]
    if shown or others:
        left_out = len(r.rows) - len(shown) - len(others)
        body = [*(_row(row, r) for row in shown), *_together(others, r)]
        blocks.append(_table(body, left_out))
    blocks += _explanations([*shown, *others])
    blocks += [Paragraph(w.message) for w in r.warnings]
    return Document(f"{r.log.name}: checked", tuple(blocks))


def _verdict(r: CheckResult) -> Verdict:
    compared = [row for row in r.rows if row.verdict in {OK, OFF}]
    off = [row for row in compared if row.verdict == OFF]
    count = len(compared)
    figures = f"{count} figure{'' if count == 1 else 's'}"
    if off:
        answer = f"{len(off)} of {figures} off: {', '.join(dict.fromkeys(map(_name, off)))}"
    elif count:
        answer = f"all {figures} as predicted" if count > 1 else "its one figure is as predicted"
    else:
        found = f"{len(r.rows)} figures read" if r.rows else "no figures in it"
        answer = f"{found}, nothing to compare"
    if r.refusals:
        answer += "; memory ran out later" if r.log.ready else "; the engine did not start"
    if not compared:
        return Verdict(f"{_plan(r)}: {answer}", strong=_plan(r))
    return Verdict(answer, _plan(r), not off)


def _plan(r: CheckResult) -> str:
    """vllm 0.12.0, Llama-3.1-8B bf16, 1 × rtx3090."""
    parts = [f"{r.engine} {r.version or ''}".strip()]
    model = r.model.name if r.model is not None else r.model_name
    if model:
        parts.append(f"{model} {r.weights or ''}".strip())
    if r.gpu or r.gpus > 1:
        parts.append(f"{r.gpus} × {r.gpu or 'GPU'}")
    return ", ".join(parts)


def _read(r: CheckResult) -> str:
    """What stands in the log, and what was assumed beside it."""
    found = [f"{name} {_value(r.settings[key])}" for key, name in _SETTINGS if key in r.settings]
    said = ", ".join(found) if found else f"{r.log.lines:,} lines"
    assumed = [f"{a.name} {a.value} ({a.why})" for a in r.assumed]
    rest = f"; not in it, assumed: {', '.join(assumed)}" if assumed else ""
    return f"in {r.log.name}: {said}{rest}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _name(row: CheckRow) -> str:
    name = _NAMES.get(row.item, row.item.replace("_", " "))
    return f"{name} {row.device}".strip()


def _table(body: list[Row], left_out: int) -> Table:
    columns = (
        Column("figure", "<"), Column("log"), Column("kvcalc"), Column("off", drop=2),
        Column("low–high", drop=3), Column("", "<", drop=4),
    )  # fmt: skip
    notes = (f"{left_out} more figures in --json, csv and jsonl",) if left_out else ()
    return Table(columns, tuple(body), notes=notes)


def _row(row: CheckRow, r: CheckResult) -> Row:
    unit = _unit(row)
    rank = row.rank if r.log.ranks > 1 else ""
    log = _figure(row.measured, unit, row.unit)
    if row.predicted is None:
        where = f"{row.device} {rank}".strip()
        name = f"{_name(row._replace(device=''))} {unit[0]}".strip()
        return Row((name, log, "–", "", "", where), "·")
    name = f"{_name(row)} {unit[0]}".strip()
    about = "≈" if row.low != row.high else ""
    ours = f"{about}{_figure(row.predicted, unit, row.unit)}"
    error = row.error_fraction
    off = ""
    # Of next to nothing any share is large.
    if error is not None and abs(error) < _MOST_ERROR:
        off = f"{'+' if round(error, 3) > 0 else ''}{percent(error)}"
    ends = ""
    if row.low is not None and row.high is not None and row.low != row.high:
        ends = "–".join(_figure(n, unit, row.unit) for n in (row.low, row.high))
    return Row((name, log, ours, off, ends, rank), "✓" if row.verdict == OK else "✗")


def _together(rows: list[CheckRow], r: CheckResult) -> list[Row]:
    """Figures without a prediction; buffers of one kind as their sum."""
    made = []
    for item in dict.fromkeys(row.item for row in rows):
        same = [row for row in rows if row.item == item]
        if len(same) < _MANY or same[0].unit != "bytes":
            made += [_row(row, r) for row in same]
            continue
        whole = same[0]._replace(measured=sum(row.measured for row in same), device="", rank="")
        unit = _unit(whole)
        size = _figure(whole.measured, unit, "bytes")
        buffers = f"{len(same)} buffers"
        made.append(Row((f"{_name(whole)} {unit[0]}", size, "–", "", "", buffers), "·"))
    return made


def _unit(row: CheckRow) -> tuple[str, int]:
    """The unit of both figures: GiB, below a tenth of one MiB."""
    if row.unit != "bytes":
        return "", 1
    most = max(abs(row.measured), abs(row.predicted or 0))
    return ("GiB", GIB) if most >= GIB // 10 else ("MiB", MIB)


def _figure(value: float, unit: tuple[str, int], kind: str) -> str:
    if kind == "bytes":
        return fixed(int(value), unit[1])
    if kind == "×":
        return f"{value:,.2f}×"
    return f"{value:,.0f}"


def _explanations(rows: list[CheckRow]) -> list[Block]:
    """What is off first; of equal explanations one."""
    told: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row.verdict != OFF):
        if row.explanation:
            told.setdefault(row.explanation, []).append(_name(row))
    blocks: list[Block] = []
    for number, (text, names) in enumerate(told.items()):
        unique = list(dict.fromkeys(names))
        head = ", ".join(unique[:3]) + (" …" if len(unique) > 3 else "")
        # KV and K stay capitals.
        first = text[:1].lower() if text[1:2].islower() else text[:1]
        line = f"{head[:1].upper()}{head[1:]}: {first}{text[1:]}"
        blocks.append(Paragraph(line, indent=2 if number == 0 else -1))
    return blocks
