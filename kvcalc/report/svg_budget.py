"""Pictures of `kvcalc fit`: one GPU's memory as a bar, and how many requests of a context fit."""

from __future__ import annotations

from kvcalc.core.results.fit import BudgetLine, FitResult
from kvcalc.core.units import GIB, cdiv, fixed
from kvcalc.report.html_view import COMMON, UNUSED
from kvcalc.report.svg_area import legend
from kvcalc.report.svg_axes import SLIM
from kvcalc.report.svg_bars import BarRow, Part
from kvcalc.report.svg_bars import draw as bars
from kvcalc.report.svg_draw import Canvas, text_width

_HEIGHT = 34.0


def budget(canvas: Canvas, r: FitResult) -> None:
    """Weights, engine, KV needed, room, rest; the limit; where the pool starts, low to high."""
    lines = {line.item: line for line in r.budget}
    total = lines["memory"].bytes if "memory" in lines else max(r.kv_pool_bytes, 1)
    unused = -sum(line.bytes for line in r.budget if line.item in UNUSED)
    weights = -lines["weights"].bytes if "weights" in lines else 0
    engine = -sum(line.bytes for line in r.budget if line.item not in COMMON)
    limit = total - unused
    asked = r.shortfall_bytes + max(r.kv_pool_bytes, 0) if not r.fits else (
        r.bytes_per_request * cdiv(r.requests, r.replicas)
    )  # fmt: skip
    scale = max(total, min(weights + engine + asked, 2 * total))
    canvas.height += 40
    top = canvas.height
    x = _Scale(canvas.width, scale)
    data = {f"data_{item}_bytes": line.bytes for item, line in lines.items()}
    data["data_shortfall_bytes"] = r.shortfall_bytes
    canvas.open("g", class_="budget", data=data)
    canvas.rect(0, top, x(total), _HEIGHT, "track")
    parts = [("weights", "weights", weights), ("engine", "engine", engine)]
    at = 0
    for label, style, size in parts:
        _part(canvas, x, top, at, at + size, style, label)
        at += size
    inside = min(at + asked, limit)
    _part(canvas, x, top, at, inside, "kv", "KV needed")
    if r.fits:
        _part(canvas, x, top, inside, limit, "hatched-room", "room")
    else:
        beyond = max(at, limit)
        _part(canvas, x, top, min(beyond, scale), min(at + asked, scale), "hatched-no", "short")
    canvas.line(x(limit), top - 6, x(limit), top + _HEIGHT + 6, "s-no", width=2)
    text = f"limit {fixed(limit, GIB)} GiB"
    after = x(limit) + text_width(text) + 8 < canvas.width
    canvas.text(x(limit) + (6 if after else -6), top - 10, text, class_="b",
                anchor="start" if after else "end")  # fmt: skip
    gpus = r.gpu.name if "memory" in lines else "the given pool"
    if r.gpu.count > 1 or canvas.width < SLIM:
        gpus = "one GPU"
    canvas.text(0, top - 10, f"{gpus}, {fixed(total, GIB)} GiB", class_="mut")
    _spread(canvas, x, top + _HEIGHT + 14, limit, lines["kv_pool"])
    canvas.close("g")
    canvas.height = top + _HEIGHT + (60 if canvas.width < SLIM else 44)
    words = [(style, label, size) for label, style, size in parts if size > 0]
    words.append(("kv", "KV needed", asked))
    if r.fits and limit > inside:
        words.append(("hatched-room", "room", limit - inside))
    if not r.fits:
        words.append(("hatched-no", "short", cdiv(r.shortfall_bytes * 100, GIB) * GIB // 100))
    if unused:
        words.append(("track", "rest", unused))
    legend(canvas, [(style, f"{label} {fixed(size, GIB)} GiB") for style, label, size in words])


class _Scale:
    """Bytes to a place on the bar."""

    def __init__(self, width: float, scale: int) -> None:
        self._width, self._scale = width, max(scale, 1)

    def __call__(self, value: int) -> float:
        return self._width * min(max(value, 0), self._scale) / self._scale


def _part(
    canvas: Canvas, x: _Scale, top: float, first: int, last: int, style: str, label: str
) -> None:
    if last <= first:
        return
    wide = x(last) - x(first)
    canvas.rect(x(first), top, max(wide - 1, 1), _HEIGHT, style,
                title=f"{label} {fixed(last - first, GIB)} GiB")  # fmt: skip
    if not style.startswith("hatched") and wide > text_width(label) + 20:
        canvas.text(x(first) + 10, top + 22, label, class_="bg")


def _spread(canvas: Canvas, x: _Scale, y: float, limit: int, pool: BudgetLine) -> None:
    """An I-beam from the highest to the lowest start of the pool, which ends at the limit."""
    if pool.low_bytes == pool.high_bytes:
        return
    left, right = x(limit - pool.high_bytes), x(limit - pool.low_bytes)
    if canvas.width < SLIM:
        y -= 3
    for place in (left, right):
        canvas.line(place, y - 5, place, y + 5, "s-fg", width=1.5)
    canvas.line(left, y, right, y, "s-fg", width=1.5)
    low, high = fixed(pool.low_bytes, GIB), fixed(pool.high_bytes, GIB)
    what = "pool" if canvas.width < SLIM else "the KV pool starts here:"
    text = f"{what} ≈{fixed(pool.bytes, GIB)} GiB ({low}–{high})"
    if canvas.width < SLIM:
        canvas.text(0, y + 22, text, class_="mut small")
        return
    before = right + 8 + text_width(text) > canvas.width
    canvas.text(left - 8 if before else right + 8, y + 4.5, text, class_="mut small",
                anchor="end" if before else "start")  # fmt: skip


def ladder(canvas: Canvas, r: FitResult) -> None:
    """A bar a context: how many requests of it fit."""
    spread = any(s.max_requests_low != s.max_requests_high for s in r.ladder)
    rows = []
    for step in r.ladder:
        low, high = step.max_requests_low, step.max_requests_high
        figures = [fixed(step.bytes_per_request, GIB), f"{step.max_requests:,}"]
        if not step.max_requests:
            figures[1] = "✗ none"
        if spread:
            figures.append("" if low == high else f"{low:,}–{high:,}")
        tip = f"{step.max_requests:,} requests of {step.context_tokens:,} tokens"
        rows.append(BarRow(
            f"{step.context_tokens:,} tokens", (Part(step.max_requests, "kv", tip),),
            tuple(figures),
            {"data_context_tokens": step.context_tokens, "data_max_requests": step.max_requests},
            strong=step.context_tokens == r.context_tokens,
        ))  # fmt: skip
    heads = ("GiB each", "requests", "low–high") if spread else ("GiB each", "requests")
    bars(canvas, rows, heads=heads, title="How many requests fit")
