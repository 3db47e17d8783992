"""The price in an answer of `kvcalc fit`."""

from __future__ import annotations

from kvcalc.core.results.fit import FitResult, Price
from kvcalc.core.units import counted, fixed
from kvcalc.report.document import Column, Row, Table


def price_table(r: FitResult, p: Price) -> Table:
    """The deployment's hour, a request's, and what a million tokens cost at least."""
    gpus = "1 GPU" if r.gpu.count == 1 else f"{r.gpu.count:,} GPUs"
    about = "≈" if p.per_request_hour_low != p.per_request_hour_high else ""
    rows = [Row((f"{gpus} for an hour", money(p.per_hour), "", ""))]
    if p.per_request_hour is not None:
        one = f"one of {about}{counted(r.max_requests)}"
        each = f"{about}{money(p.per_request_hour)}"
        rows.append(Row((one, each, _spread(p) if about else "", "for an hour")))
    if p.per_million_output_tokens is not None and p.ceiling_tokens_per_second is not None:
        least = f"≥\u00a0{money(p.per_million_output_tokens)}"
        most = f"at most {fixed(p.ceiling_tokens_per_second, 1, 0)} tokens/s"
        rows.append(Row(("million output tokens", least, "", most)))
    columns = (
        Column(f"at {money(p.per_gpu_hour)} a GPU-hour", "<"), Column("price"),
        Column("low–high" if about else "", drop=1), Column("", "<", drop=2),
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _spread(p: Price) -> str:
    """From the most requests that may fit to the fewest; without end where those are none."""
    low = money(p.per_request_hour_low or 0)
    return f"from {low}" if p.per_request_hour_high is None else (
        f"{low}–{money(p.per_request_hour_high)}"
    )  # fmt: skip


def money(value: float) -> str:
    """A price: 10.00, 0.1163, 0.000042; hundredths where it is 1 and more."""
    decimals = 2 if value >= 1 else 4 if value >= 0.01 else 6
    return fixed(value, 1, decimals)
