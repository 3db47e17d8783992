"""The section of a report's page on a trace: the answer of each plan, the chosen one's shown."""

from __future__ import annotations

from kvcalc.core.results.report import ReportResult
from kvcalc.core.results.rows import Rows
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.report.document import Bar, Chart, Paragraph, Verdict
from kvcalc.report.html_bind import Bind, section
from kvcalc.report.html_blocks import Blocks, line_html
from kvcalc.report.html_pictures import pictures
from kvcalc.report.svg_draw import escape
from kvcalc.report.views import view

_LEAD = (
    "The trace's requests as they come, through vLLM's scheduler. Machine and KV format choose the "
    "plan; the trace has its own lengths and times."
)


def trace(bind: Bind, r: ReportResult) -> list[str]:
    """The section, if the report has a trace."""
    if not r.simulations:
        return []
    writer = Blocks()
    plans = []
    for i, (s, found) in enumerate(zip(r.simulations, r.parts.simulated, strict=True)):
        body = f"<p>Not simulated: {escape(s.reason or '')}.</p>"
        if found is not None:
            body = _answer(writer, found, f"sim{i}")
        plans.append(f"<div {bind.attributes(f'sim{i}.hidden')}>{body}</div>")
    return [section("A stream of requests", _LEAD, "".join(plans))]


def _answer(writer: Blocks, found: SimulateResult | Rows, key: str) -> str:
    """The sentence, what was simulated, pictures, figures."""
    parts = []
    for block in view(found).blocks:
        if isinstance(block, Verdict):
            parts.append(f"<p><b>{escape(block.answer)}</b></p>")
        elif isinstance(block, Paragraph) and block.indent < 0:
            parts += [f'<p class="note">{line_html(block.text)}</p>', *pictures(found, key)]
        elif not isinstance(block, (Bar, Chart)):
            parts.append(writer.render(block))
    return "".join(parts)
