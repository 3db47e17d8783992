"""`kvcalc gpus --detect` as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvcalc.core.results.base import Warn
from kvcalc.core.results.catalog import DetectedGpu
from kvcalc.core.units import GIB, fixed
from kvcalc.report.document import Block, Column, Document, Paragraph, Row, Table, Verdict


def detected_view(items: Sequence[DetectedGpu], warnings: Sequence[Warn]) -> Document:
    """What is here, each device with its preset, and why some have none."""
    columns = (
        Column("GPU"), Column("preset", "<"), Column("total GiB"), Column("used", drop=2),
        Column("free", drop=1), Column("programs see", drop=3), Column("name", "<"),
    )  # fmt: skip
    tools = dict.fromkeys(
        f"{g.source}, driver {g.driver_version}" if g.driver_version else g.source for g in items
    )
    notes = (f"total, used and free by {'; '.join(tools)}; programs see what the preset says",)
    blocks: list[Block] = [Verdict(_sentence(items))]
    blocks.append(Table(columns, tuple(map(_row, items)), notes=notes))
    reasons = ((g.index, g.reason) for g in items if g.reason is not None)
    blocks += [Paragraph(f"GPU {index}: {reason}") for index, reason in reasons]
    blocks += [Paragraph(w.message) for w in warnings]
    return Document("this machine's GPUs", tuple(blocks))


def _sentence(items: Sequence[DetectedGpu]) -> str:
    usable = [g for g in items if g.visible is not False]
    counts = Counter(g.preset or g.name for g in usable)
    here = " and ".join(f"{n} × {name}" for name, n in counts.items()) or "No GPU left"
    known = [g for g in usable if g.preset is not None]
    if usable and len(known) == len(usable):
        return f"{here}: kvcalc fit MODEL --gpu auto."
    return f"{here}, {'some' if known else 'all'} without a preset." if usable else f"{here}."


def _row(g: DetectedGpu) -> Row:
    return Row((
        str(g.index),
        g.preset or "none",
        *map(_gib, (g.memory_total_bytes, g.memory_used_bytes, g.memory_free_bytes)),
        _gib(g.memory_bytes),
        g.name if g.visible is not False else f"{g.name}, hidden",
    ))  # fmt: skip


def _gib(value: int | None) -> str:
    return "" if value is None else fixed(value, GIB)
