"""The plain format: aligned, uncoloured, never wrapped, no bars, no column dropped."""

from __future__ import annotations

from kvcalc.core.results.base import Result
from kvcalc.report.layout import lay_out
from kvcalc.report.lines import as_text
from kvcalc.report.views import view


def render(result: Result) -> str:
    """The result as plain text."""
    return as_text(lay_out(view(result), None)).replace("\u00a0", " ")
