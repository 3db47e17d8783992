"""Pictures of a simulation: how policies spent the memory, blocks in use, requests over steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvcalc.core.results.rows import Rows
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.core.units import percent
from kvcalc.report import svg_area, svg_bars
from kvcalc.report.document import Chart
from kvcalc.report.svg_area import Names, legend
from kvcalc.report.svg_bars import BarRow, Part
from kvcalc.report.svg_draw import Canvas
from kvcalc.report.views.simulate import SPENT, in_thousands, run_length, waited

_STYLES = ("kv", "engine", "hatched-waste", "hatched-room")
_HEIGHT = 170.0

Piece = Callable[[Canvas], None]


def pieces(result: SimulateResult) -> list[Piece]:
    """One policy: its memory, then its series if there is one."""
    made: list[Piece] = [lambda c: _spent(c, [result], [result.policy])]
    if len(result.series) > 2:
        made += [lambda c: _blocks(c, result), lambda c: _requests(c, result)]
    return made


def rows_pieces(rows: Rows) -> list[Piece]:
    """Policies, or whatever differs, as bars below each other."""
    results = [row.result for row in rows.rows if isinstance(row.result, SimulateResult)]
    names = [", ".join(map(str, row.combination.values())) for row in rows.rows]
    return [lambda c: _spent(c, results, names)]


def _spent(canvas: Canvas, results: Sequence[SimulateResult], names: Sequence[str]) -> None:
    """A bar a policy: shares of the memory over all steps."""
    rows = []
    for r, name in zip(results, names, strict=True):
        parts = tuple(
            Part(round(share * 10**6), style, f"{name}, {word}: {percent(share)}")
            for share, (word, _, _), style in zip(r.shares, SPENT, _STYLES, strict=True)
        )
        figures = (percent(r.shares.used_fraction), waited(r), run_length(r))
        data = {f"data_{key}": str(value) for key, value in r.shares._asdict().items()}
        rows.append(BarRow(name, parts, figures, {"data_policy": r.policy, **data}))
    svg_bars.draw(
        canvas, rows, title="Memory, over all steps", most=10**6,
        heads=("in use", "p99 wait", "done after"),
    )  # fmt: skip
    canvas.height += 16
    seen = [max(r.shares[i] for r in results) >= 0.0005 for i in range(len(SPENT))]
    legend(canvas, [(style, word) for (word, _, _), style, shown
                    in zip(SPENT, _STYLES, seen, strict=True) if shown])  # fmt: skip


def _blocks(canvas: Canvas, r: SimulateResult) -> None:
    """Blocks in use over steps, below the pool's limit where they come near it."""
    pool = r.pool.blocks - 1
    limit = pool if r.peak.used_blocks * 2 > pool else None
    many = in_thousands(max(limit or 0, r.peak.used_blocks))
    knots = ((0, 0, None), *((s.step + 1, s.used_blocks, None) for s in r.series))
    chart = Chart(
        knots, "steps", "thousand blocks" if many else "blocks", 1000 if many else 1, "",
        limit=limit, limit_label="pool",
    )  # fmt: skip
    names = Names("blocks in use", limit=f"pool of {pool:,} blocks")
    svg_area.draw(canvas, chart, names=names, height=_HEIGHT, tips=_tips(r))


def _tips(r: SimulateResult) -> list[tuple[int, str]]:
    """What a reader sees who points at a step."""
    words = "step {:,}: {:,} blocks in use, {:,} running, {:,} waiting"
    return [
        (s.step + 1, words.format(s.step, s.used_blocks, s.running, s.waiting)) for s in r.series
    ]


def _requests(canvas: Canvas, r: SimulateResult) -> None:
    """Requests that run, and those that wait, at each listed step."""
    waits = any(s.waiting for s in r.series)
    first = (0, 0, 0 if waits else None)
    knots = (first, *((s.step + 1, s.running, s.waiting if waits else None) for s in r.series))
    chart = Chart(knots, "steps", "requests", 1, "")
    names = Names("running", "waiting")
    svg_area.draw(canvas, chart, names=names, height=_HEIGHT, tips=_tips(r))
