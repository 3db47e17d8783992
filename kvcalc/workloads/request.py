"""One request of a trace, as every format gives it."""

from __future__ import annotations

from kvcalc.core.simulate.job import Arrival

#: `at` is seconds or steps, as the trace's `unit` says; 0 where it has no times.
TraceRequest = Arrival


class BadLineError(Exception):
    """What is wrong with a line, in words that follow "FILE:LINE: "."""
