"""Times and rates in words that views share."""

from __future__ import annotations

from kvcalc.core.units import fixed, trimmed

_HOUR, _DAY = 3600, 86_400


def duration(seconds: float) -> str:
    """17 ms, 7.7 s, 29 min 43 s, 3 h 07 min, 6.2 days."""
    if not seconds:
        return "0"
    if seconds < 0.9995:
        return f"{trimmed(seconds * 1000, 1, 0 if seconds >= 0.01 else 1)}\u00a0ms"
    if seconds < 59.95:
        return f"{trimmed(seconds, 1, 1)}\u00a0s"
    if round(seconds) < _HOUR:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}\u00a0min\u00a0{rest:02}\u00a0s"
    if seconds < 2 * _DAY:
        hours, rest = divmod(round(seconds / 60), 60)
        return f"{hours}\u00a0h\u00a0{rest:02}\u00a0min"
    return f"{trimmed(seconds, _DAY, 1)}\u00a0days"


def per_second(value: float) -> str:
    """2.38, 0.05; 0.002 and less in two digits, for no rate is 0."""
    return fixed(value) if value >= 0.01 else f"{value:.2g}"
