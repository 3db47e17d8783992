"""One view a command: its result as a document of blocks."""

from __future__ import annotations

import importlib

from kvcalc.core.results.base import Result
from kvcalc.core.results.rows import Rows
from kvcalc.report.document import Column, Document, Paragraph, Row, Table, Verdict


def view(result: Result) -> Document:
    """The result as blocks, by the module named after its command."""
    module = importlib.import_module(f"kvcalc.report.views.{result.command}")
    if isinstance(result, Rows):
        document: Document = getattr(module, "rows_view", _rows_view)(result)
        told = tuple(Paragraph(w.message) for w in result.warnings)
        document = document._replace(blocks=(*document.blocks, *told))
    else:
        document = module.view(result)
    return document


def _rows_view(rows: Rows) -> Document:
    """A table of the combinations and the first sentence of each answer."""
    names = list(rows.rows[0].combination)
    body = []
    for row in rows.rows:
        verdict = next(b for b in view(row.result).blocks if isinstance(b, Verdict))
        mark = "" if verdict.fits is None else ("✓" if verdict.fits else "✗")
        body.append(Row((*map(str, row.combination.values()), verdict.answer), mark))
    columns = (*(Column(name.replace("_", " "), "<") for name in names), Column("answer", "<"))
    count = Paragraph(f"{len(body)} combinations", indent=0)
    return Document(rows.name, (count, Table(columns, tuple(body))))
