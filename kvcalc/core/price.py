"""What a deployment's hour costs, by request and by token; the currency is the asker's own."""

from __future__ import annotations

from fractions import Fraction

from kvcalc.core.results.fit import FitResult, Price

#: Tokens of the price per million, over the seconds of an hour.
_MILLION, _HOUR = 10**6, 3600


def price(per_gpu_hour: Fraction, fit: FitResult, tokens_per_second: float | None) -> Price:
    """P · GPUs an hour; over the requests that fit; over the tokens that they decode at most.

    2.50 · 4 GPUs = 10 an hour; of 86 requests 0.1163 each; at 1,000 tokens/s 10 · 10⁶ / 3.6 · 10⁶ =
    2.78 a million.

    Args:
        per_gpu_hour: Price of one GPU for an hour.
        fit: The requests that fit, and the interval around them.
        tokens_per_second: The ceiling of them all, so that no real million is cheaper; None where
            it is not known.
    """
    hour = per_gpu_hour * fit.gpu.count
    return Price(
        per_gpu_hour=float(per_gpu_hour),
        per_hour=float(hour),
        per_request_hour=_over(hour, fit.max_requests),
        per_request_hour_low=_over(hour, fit.max_requests_high),
        per_request_hour_high=_over(hour, fit.max_requests_low),
        per_million_output_tokens=None
        if not tokens_per_second
        else float(hour) * _MILLION / (tokens_per_second * _HOUR),
        ceiling_tokens_per_second=tokens_per_second or None,
    )


def _over(hour: Fraction, requests: int) -> float | None:
    """None where no request fits."""
    return float(hour / requests) if requests else None
