"""`kvcalc engines` as a document."""

from __future__ import annotations

from kvcalc.core.results.engines import CoefficientItem, EngineItem, EnginesResult
from kvcalc.core.units import trimmed
from kvcalc.report.document import Block, Column, Document, Paragraph, Row, Table, Verdict


def view(r: EnginesResult) -> Document:
    """The list, or one engine in full."""
    if r.shown:
        return _entry(r.items[0])
    columns = (
        Column("engine", "<"), Column("newest read", "<"), Column("settings"),
        Column("coefficients", drop=2), Column("releases that differ", "<", drop=1),
    )  # fmt: skip
    rows = tuple(
        Row((
            e.id, e.newest or "", str(len(e.settings)), str(len(e.coefficients)),
            ", ".join(e.versions),
        ))
        for e in r.items
    )  # fmt: skip
    count = Paragraph(f"{len(rows)} engines; one in full: kvcalc engines show NAME")
    return Document("engines", (Table(columns, rows), count))


def _entry(e: EngineItem) -> Document:
    newest = f"  newest read: {e.newest}" if e.newest else ""
    blocks: list[Block] = [Verdict(f"{e.id}  {e.name}{newest}", strong=e.id)]
    if e.versions:
        named = "--engine-version names one" if e.versioned else "one set of rules"
        blocks.append(Paragraph(f"Releases that differ ({named}): {', '.join(e.versions)}."))
    if e.versions_note:
        blocks.append(Paragraph(f"{e.versions_note[:1].upper()}{e.versions_note[1:]}."))
    if e.settings:
        columns = (
            Column("--set", "<"), Column("default", "<"), Column("", "<", drop=1),
            Column("values", "<", drop=2),
        )  # fmt: skip
        rows = tuple(Row((s.name, s.default, s.note, s.kind)) for s in e.settings)
        blocks.append(Table(columns, rows))
    if e.coefficients:
        columns = (
            Column("coefficient", "<"), Column("value"), Column("low–high", drop=2),
            Column("evidence", "<", drop=1),
        )  # fmt: skip
        rows = tuple(_coefficient(c) for c in e.coefficients)
        blocks.append(Table(columns, rows))
    return Document(e.id, tuple(blocks))


def _coefficient(c: CoefficientItem) -> Row:
    ends = "" if c.low == c.high else f"{trimmed(c.low)} to {trimmed(c.high)}"
    return Row((c.name, f"{trimmed(c.value, 1, 4)} {c.unit}".rstrip(), ends, c.evidence))
