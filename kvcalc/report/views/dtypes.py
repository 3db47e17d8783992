"""`kvcalc dtypes` as a document."""

from __future__ import annotations

from fractions import Fraction

from kvcalc.core.results.catalog import DtypeItem, EntryResult, Listing, WeightItem
from kvcalc.core.units import trimmed
from kvcalc.report.document import Column, Document, Row, Table


def view(r: Listing | EntryResult) -> Document:
    """The list, or one format."""
    if isinstance(r, EntryResult):
        rows = tuple(Row((key.replace("_", " "), _shown(value))) for key, value in r.entry.items())
        return Document("dtypes", (Table((Column("", "<"), Column("", "<", wrap=True)), rows),))
    items = [item for item in r.items if isinstance(item, DtypeItem)]
    columns = (
        Column("--kv-dtype", "<"), Column("bits"), Column("block", drop=1),
        Column("K+V of a head of 128", drop=2), Column("K+V of 128", screen=True, narrow=True),
        Column("note", "<", drop=3), Column("also", "<", drop=4),
    )  # fmt: skip
    rows = tuple(
        Row((
            d.key, trimmed(Fraction(d.bits_per_element)),
            f"{d.block_bytes} B / {d.block_elements}" if d.block_bytes else "",
            f"{d.head_128_bytes:,} B", f"{d.head_128_bytes:,} B", d.note, ", ".join(d.aliases),
        ))
        for d in items
    )  # fmt: skip
    notes = ("bits of one element with its block's scale; per-head scales are in the last figure",)
    return Document("dtypes", (Table(columns, rows, notes=notes), _weights(r)))


def _weights(r: Listing) -> Table:
    """The formats of --weights."""
    columns = (
        Column("--weights", "<"), Column("bits"), Column("left at 16 bits", "<", drop=2),
        Column("also", "<", drop=3), Column("note", "<", drop=1),
    )  # fmt: skip
    rows = tuple(
        Row((w.key, trimmed(Fraction(w.bits_per_weight)), w.keeps, ", ".join(w.aliases), w.note))
        for w in r.items
        if isinstance(w, WeightItem)
    )
    return Table(columns, rows)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
