"""`kvcalc offload` as a document: what stays, what it takes, how long it moves, what to set."""

from __future__ import annotations

from collections.abc import Iterator

from kvcalc.core.results.offload import OffloadContext, OffloadResult
from kvcalc.core.results.rows import Rows
from kvcalc.core.units import GIB, fixed, format_bytes, percent, trimmed
from kvcalc.report.document import Block, Column, Document, Paragraph, Row, Table, Verdict
from kvcalc.report.views.speed import seconds, si, significant
from kvcalc.report.views.times import per_second


def view(r: OffloadResult) -> Document:
    """The answer, loading beside recomputing, sizes by context, settings, notes."""
    blocks: list[Block] = [_verdict(r)]
    second = " ".join(_second(r))
    if second:
        blocks.append(Paragraph(second, indent=-1))
    blocks.append(_contexts(r))
    if r.pool is not None or r.sessions > 1:
        blocks.append(_settings(r))
    said = [*(w.message for w in r.warnings), *(note.message for note in r.notes)]
    blocks += [Paragraph(text, indent=-1 if i else 2) for i, text in enumerate(said)]
    return Document(f"{r.model.name}: KV outside the GPU", tuple(blocks))


def rows_view(rows: Rows) -> Document:
    """One row a combination, each at its first context."""
    results = [row.result for row in rows.rows if isinstance(row.result, OffloadResult)]
    names = list(rows.rows[0].combination)
    pools = any(r.pool is not None for r in results)
    moves = any(r.bandwidth is not None for r in results)
    streams = any(r.stream is not None for r in results)
    columns = [Column(name.replace("_", " "), "<") for name in names]
    columns += [Column("tokens", drop=3), Column("GiB each", drop=1)]
    columns += [Column("pool tokens"), Column("sessions")] if pools else []
    columns += [Column("loads in", drop=2)] if moves else []
    columns += [Column("GB/s"), Column("Gb/s", drop=4)] if streams else []
    body = []
    for row, r in zip(rows.rows, results, strict=True):
        first = r.contexts[0]
        cells = [*map(str, row.combination.values()), f"{first.tokens:,}"]
        cells.append(fixed(first.stored_bytes_per_session, GIB))
        if pools:
            cells += ["", ""] if r.pool is None else [f"{r.pool.tokens:,}", f"{r.pool.sessions:,}"]
        if moves:
            cells.append(_time(first.transfer_seconds))
        if streams:
            cells += ["", ""] if r.stream is None else _rates(r.stream.bytes_per_second)
        mark = "" if r.fits is None else "✓" if r.fits else "✗"
        body.append(Row(tuple(cells), mark))
    asked = [r for r in results if r.fits is not None]
    if asked:
        yes = sum(r.fits is True for r in asked)
        text = f"{yes} of {len(results)} combinations hold what is asked"
    else:
        text = f"{len(results)} combinations"
    return Document(
        "KV outside the GPU", (Verdict(text, strong=text), Table(tuple(columns), tuple(body)))
    )


def _sessions(n: int) -> str:
    return f"{n:,} session{'' if n == 1 else 's'}"


def _of(r: OffloadResult) -> str:
    return f"of {r.contexts[0].tokens:,} tokens"


def _verdict(r: OffloadResult) -> Verdict:
    if r.pool is not None:
        each = format_bytes(r.pool.bytes_per_rank)
        where = f"{r.parallel.count} × {each}" if r.parallel.count > 1 else each
        return Verdict(_kept(r), f"{_model(r)}, {where}", fits=r.fits)
    if r.stream is not None:
        return _flow(r)
    first = r.contexts[0]
    text = f"{_sessions(r.sessions)} {_of(r)} take{'s' if r.sessions == 1 else ''} "
    text += (
        f"{format_bytes(first.total_bytes)} outside the GPU{'s' if r.parallel.count > 1 else ''}"
    )
    rest = f", {format_bytes(first.stored_bytes_per_session)} each" if r.sessions > 1 else ""
    return Verdict(f"{text}{rest}.", strong=text)


def _model(r: OffloadResult) -> str:
    """The model, and the cache's format where it is not the usual 16 bits."""
    k, v = r.kv_dtype
    if k == v and k in {"bf16", "fp16"}:
        return r.model.name
    return f"{r.model.name} {k}" if k == v else f"{r.model.name}, K {k}, V {v}"


def _kept(r: OffloadResult) -> str:
    """How many sessions stay, or what else is in the way."""
    pool, first = r.pool, r.contexts[0]
    assert pool is not None  # noqa: S101 - only asked with a pool
    if pool.sessions >= r.sessions:
        if r.fits is False:
            return _in_the_way(r)
        more = pool.sessions - r.sessions
        if r.sessions == 1:
            return f"{_sessions(pool.sessions)} {_of(r)} stay{'s' if pool.sessions == 1 else ''}"
        room = f"; room for {more:,} more" if more else ""
        return f"{_sessions(r.sessions)} {_of(r)} stay{room}"
    if not pool.sessions:
        takes = format_bytes(first.bytes_per_rank)
        each = " a rank" if r.parallel.count > 1 else ""
        return f"not one session {_of(r)} stays: it takes {takes}{each}"
    return f"{pool.sessions:,} of {_sessions(r.sessions)} {_of(r)} stay"


def _in_the_way(r: OffloadResult) -> str:
    """The pool would hold the sessions: the host has less RAM, or the link carries less."""
    pool = r.pool
    if pool is not None and pool.host_ram_bytes is not None and (pool.host_ram_fraction or 0) > 1:
        return f"{format_bytes(pool.total_bytes)} of the host's {format_bytes(pool.host_ram_bytes)}"
    return _streamed(r)


def _flow(r: OffloadResult) -> Verdict:
    stream = r.stream
    assert stream is not None  # noqa: S101 - only asked with a stream
    giga, bits = _rates(stream.bytes_per_second)
    rate = _per_second(stream.requests_per_second)
    text = f"{rate} request{'' if rate == '1' else 's'}/s {_of(r)} move {giga} GB/s = {bits} Gb/s"
    if stream.link_fraction is None:
        return Verdict(f"{text}.", strong=text)
    used = _percent(stream.link_fraction)
    answer = f"{giga} GB/s = {bits} Gb/s, {used} of the link"
    return Verdict(answer, f"{_model(r)}, {rate}/s {_of(r)}", fits=r.fits)


def _streamed(r: OffloadResult) -> str:
    """The stream in a sentence beside a pool."""
    stream = r.stream
    assert stream is not None  # noqa: S101 - only asked with a stream
    giga, bits = _rates(stream.bytes_per_second)
    rate = _per_second(stream.requests_per_second)
    text = f"{rate} request{'' if rate == '1' else 's'}/s move {giga} GB/s = {bits} Gb/s"
    share = stream.link_fraction
    return text if share is None else f"{text}, {_percent(share)} of the link"


def _second(r: OffloadResult) -> Iterator[str]:
    """Tokens and total of the pool; the stream; loading beside recomputing."""
    first, pool, link = r.contexts[0], r.pool, r.bandwidth
    if pool is not None:
        total = f" of {format_bytes(pool.total_bytes)}" if r.parallel.count > 1 else ""
        text = f"The pool{total} holds {pool.tokens:,} tokens"
        if {"windows", "states"} & {note.code for note in r.notes}:
            text += " of such sessions"  # longer ones take less a token
        if pool.kept_fraction < 1:
            share = percent(pool.kept_fraction)
            text += f"; at most {share} of {first.total_tokens:,} wanted ones"
        yield f"{text}."
        if pool.host_ram_fraction is not None and pool.host_ram_bytes is not None:
            of = format_bytes(pool.host_ram_bytes)
            yield f"It is {_percent(pool.host_ram_fraction)} of the host's {of}."
        if r.stream is not None:
            yield f"{_streamed(r)}."
    if link is not None:
        what = "A session loads" if r.stream is None or pool is not None else "One moves"
        took = f"{what} in {_time(first.transfer_seconds)} at {_rate(link.bytes_per_second)}"
        if r.sessions > 1:
            took += f", all {r.sessions:,} in {_time(first.total_transfer_seconds)}"
        yield f"{took}."
    if first.recompute_seconds is not None and r.gpu is not None:
        times = f"{r.gpu.count}\u00a0×\u00a0" if r.gpu.count > 1 else ""
        least = seconds(first.recompute_seconds)
        even = f"{_giga(first.break_even_bytes_per_second or 0)}\u00a0GB/s"
        yield f"Recomputing it takes at least {least} on {times}{r.gpu.id}: {_wins(r, even)}."


def _wins(r: OffloadResult, even: str) -> str:
    first = r.contexts[0]
    if first.transfer_seconds is None or first.recompute_seconds is None:
        return f"a link above {even} wins"
    if first.transfer_seconds < first.recompute_seconds:
        times = significant(first.recompute_seconds / first.transfer_seconds)
        return f"loading is at least {times}× quicker and wins above {even}"
    return f"loading surely wins only above {even}"


def _contexts(r: OffloadResult) -> Table:
    ranks, n, pool = r.parallel.count, r.sessions, r.pool is not None
    moves, again = r.bandwidth is not None, r.gpu is not None
    kept = any(c.kept_tokens != c.tokens for c in r.contexts)
    columns = [Column("tokens")]
    columns += [Column("kept", drop=4)] if kept else []
    columns.append(Column("GiB each"))
    columns += [Column("per rank", drop=5)] if ranks > 1 else []
    columns += [Column(f"all {n:,}", drop=2)] if n > 1 else []
    columns += [Column("stay")] if pool else []
    columns += [Column("loads in", drop=1)] if moves else []
    columns += [Column("recompute", drop=3), Column("break-even", drop=6)] if again else []
    rows = []
    for c in r.contexts:
        cells = [f"{c.tokens:,}"]
        cells += [f"{c.kept_tokens:,}"] if kept else []
        cells.append(fixed(c.stored_bytes_per_session, GIB))
        cells += [fixed(c.bytes_per_rank, GIB)] if ranks > 1 else []
        cells += [fixed(c.total_bytes, GIB)] if n > 1 else []
        cells += [f"{c.pool_sessions:,}"] if pool else []
        cells += [_time(c.transfer_seconds)] if moves else []
        cells += _again(c) if again else []
        rows.append(Row(tuple(cells)))
    return Table(tuple(columns), tuple(rows))


def _again(c: OffloadContext) -> list[str]:
    if c.recompute_seconds is None:
        return ["", ""]
    return [
        f"≥\u00a0{seconds(c.recompute_seconds)}",
        f"{_giga(c.break_even_bytes_per_second or 0)} GB/s",
    ]


def _settings(r: OffloadResult) -> Table:
    """The same pool in each engine's words."""
    where = "on disk" if any("DISK" in s.argument for s in r.settings) else "in host RAM"
    what = f"this pool {where}" if r.pool is not None else f"{_sessions(r.sessions)} {where}"
    counts = {"rank": "per rank", "total": "in all"}
    rows = tuple(
        Row((s.engine, s.argument, f"{s.unit} {counts[s.per]}" if r.parallel.count > 1 else s.unit))
        for s in r.settings
    )
    columns = (Column(what, "<", drop=1), Column("setting", "<"), Column("counted in", "<", drop=2))
    return Table(columns, rows)


def _time(value: float | None) -> str:
    return "" if value is None else seconds(value)


def _giga(value: int) -> str:
    return significant(value / 10**9)


def _rates(value: int) -> tuple[str, str]:
    """A rate in GB/s and in Gb/s."""
    return _giga(value), significant(8 * value / 10**9)


def _rate(value: int) -> str:
    if value < 10**7:
        return si(value, "B/s")
    return f"{trimmed(value, 10**9)}\u00a0GB/s"


def _per_second(requests: float) -> str:
    """10, 0.5, 0.002."""
    return trimmed(requests) if requests >= 0.01 else per_second(requests)


def _percent(value: float) -> str:
    return percent(value, 0) if value >= 1 else percent(value)
