"""The html format: one self-contained page of an answer, readable without network and scripts."""

from __future__ import annotations

from typing import Any

from kvcalc import __version__
from kvcalc.core.results.base import Result
from kvcalc.core.results.report import ReportResult
from kvcalc.report.document import Bar, Block, Chart, Paragraph, Verdict
from kvcalc.report.html_blocks import Blocks
from kvcalc.report.html_page import page
from kvcalc.report.html_pictures import pictures
from kvcalc.report.views import view


def render(result: Result) -> str:
    """The result as a page of its own; a report has a page that its sliders move."""
    if isinstance(result, ReportResult):
        from kvcalc.report.html_report import render as report_page  # noqa: PLC0415 - the largest

        return report_page(result)
    document = view(result)
    writer = Blocks()
    drawn = pictures(result)
    parts = []
    for i, block in enumerate(document.blocks):
        if drawn and isinstance(block, (Bar, Chart)):
            continue
        parts.append(writer.render(block))
        last = i + 1 == len(document.blocks) or not _opens(document.blocks[i + 1])
        if last and _opens(block):
            parts += drawn
    body = f'<div class="doc">{"".join(parts)}</div>{_data()}'
    return page(document.title, body, data=wrapped(result))


def wrapped(result: Result) -> dict[str, Any]:
    """The envelope's fields that belong to the answer itself."""
    return {
        "schema": f"kvcalc.{result.command}/1",
        "version": __version__,
        "command": result.command,
        "data": result.to_dict(),
    }


def _opens(block: Block) -> bool:
    """Whether a block belongs to the verdict, below which the picture stands."""
    return isinstance(block, Verdict) or (isinstance(block, Paragraph) and block.indent < 0)


def _data() -> str:
    return (
        "<section><details><summary>The data in this page (JSON)</summary>"
        '<p><button type="button" data-copies="data">copy the JSON</button> '
        "Memory in whole bytes, lengths in tokens.</p></details></section>"
    )
