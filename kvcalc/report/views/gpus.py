"""`kvcalc gpus` as a document."""

from __future__ import annotations

from typing import Any

from kvcalc.core.results.catalog import DetectedGpu, EntryResult, GpuItem, Listing
from kvcalc.core.units import GIB, fixed
from kvcalc.report.document import Column, Document, Paragraph, Row, Table, Verdict
from kvcalc.report.views.gpus_detected import detected_view


def view(r: Listing | EntryResult) -> Document:
    """The list, or one GPU in full."""
    if isinstance(r, EntryResult):
        return _entry(r.entry)
    found = [item for item in r.items if isinstance(item, DetectedGpu)]
    if found:
        return detected_view(found, r.warnings)
    rows = tuple(_row(item) for item in r.items if isinstance(item, GpuItem))
    if not rows:
        return Document("gpus", (Verdict("No GPU of the catalog matches."),))
    columns = (
        Column("gpu", "<"), Column("GiB"), Column("basis", "<", drop=3), Column("GB/s", drop=1),
        Column("bf16 TFLOP/s", drop=2), Column("fp8 TFLOP/s", drop=4), Column("name", "<", drop=5),
    )  # fmt: skip
    notes = ("GiB is what a program sees, not the size on the box; FLOP/s are dense",)
    count = Paragraph(f"{len(rows)} GPUs; one in full: kvcalc gpus show NAME")
    return Document("gpus", (Table(columns, rows, notes=notes), count))


def _row(g: GpuItem) -> Row:
    return Row((
        g.id,
        fixed(g.memory_bytes, GIB),
        g.memory_basis,
        fixed(g.bandwidth_bytes_per_second, 10**9, 0) if g.bandwidth_bytes_per_second else "",
        fixed(g.bf16_flops, 10**12, 1) if g.bf16_flops else "",
        fixed(g.fp8_flops, 10**12, 1) if g.fp8_flops else "",
        g.name,
    ))  # fmt: skip


def _ends(e: dict[str, Any]) -> str:
    return f"between {fixed(e['low_bytes'], GIB)} and {fixed(e['high_bytes'], GIB)}"


def _entry(e: dict[str, Any]) -> Document:
    rows = [
        Row(("memory", f"{fixed(e['memory_bytes'], GIB)} GiB a program sees, {e['basis']}")),
        Row(("", f"{e['memory_bytes']:,} bytes, {_ends(e)} GiB")),
    ]
    if e.get("marketing"):
        rows.append(Row(("on the box", e["marketing"])))
    if e.get("visible_bytes"):
        rows.append(Row(("nvidia-smi shows", f"{fixed(e['visible_bytes'], GIB)} GiB")))
    if e.get("bandwidth_bytes_per_second"):
        rows.append(Row(("bandwidth", f"{fixed(e['bandwidth_bytes_per_second'], 10**9, 0)} GB/s")))
    rows += [
        Row((f"{name}, dense", f"{fixed(value, 10**12, 1)} TFLOP/s"))
        for name, value in e.get("dense_flops", {}).items()
    ]
    if e.get("interconnect"):
        speed = e.get("interconnect_bytes_per_second")
        each = f", {fixed(speed, 10**9, 0)} GB/s" if speed else ""
        rows.append(Row(("interconnect", f"{e['interconnect']}{each}")))
    if e.get("gpus_per_node"):
        rows.append(Row(("in one box", str(e["gpus_per_node"]))))
    source = e.get("source", {})
    rows.append(Row(("confidence", str(source.get("confidence", "not stated")))))
    for key, head in (("texts", "source"), ("notes", "note"), ("conflicts", "conflict")):
        rows += [Row((head if i == 0 else "", t)) for i, t in enumerate(source.get(key, []))]
    if e.get("aliases"):
        rows.append(Row(("also called", ", ".join(e["aliases"]))))
    rows.append(Row(("file", e["file"])))
    title = Verdict(f"{e['id']}  {e['name']}  {e.get('vendor', '')}".rstrip(), strong=e["id"])
    columns = (Column("", "<"), Column("", "<", wrap=True))
    return Document(e["name"], (title, Table(columns, tuple(rows))))
