"""`kvcalc models` as a document."""

from __future__ import annotations

from typing import Any

from kvcalc.core.results.catalog import EntryResult, Listing, ModelItem
from kvcalc.core.units import GIB, KIB, fixed, format_bytes
from kvcalc.report.document import Block, Column, Document, Paragraph, Row, Table, Verdict


def view(r: Listing | EntryResult) -> Document:
    """The list, or one model in full."""
    if isinstance(r, EntryResult):
        return _entry(r.entry)
    rows = tuple(_row(item) for item in r.items if isinstance(item, ModelItem))
    columns = (
        Column("model", "<"), Column("10⁹ par.", drop=2), Column("KiB/token"), Column("longest"),
        Column("GiB", drop=3), Column("cache layers", "<", drop=4), Column("", "<", drop=5),
    )  # fmt: skip
    notes = ("GiB: one request at the longest context, bf16; + and a state per request",)
    count = Paragraph(f"{len(rows)} models; one in full: kvcalc models show NAME")
    if not rows:
        return Document("models", (Verdict("No model of the catalog matches."),))
    return Document("models", (Table(columns, rows, notes=notes), count))


def _row(m: ModelItem) -> Row:
    size = ""
    if m.bytes_at_max_context is not None:
        size = fixed(m.bytes_at_max_context, GIB) + ("+" if m.state_bytes_per_request else "")
    return Row((
        m.id,
        fixed(m.parameters, 10**9) if m.parameters else "",
        fixed(m.bytes_per_token, KIB),
        f"{m.max_context_tokens:,}" if m.max_context_tokens else "",
        size,
        m.layers,
        m.confidence or "",
    ))  # fmt: skip


def _entry(e: dict[str, Any]) -> Document:
    hub = f"  {e['hub'][0]}" if e["hub"] else ""
    blocks: list[Block] = [Verdict(f"{e['id']}  {e['name']}{hub}", strong=e["id"])]
    rows = [Row(("layers", f"{e['pattern']}  ({e['layers']} in all)"))]
    rows.append(Row(("attention", _attention(e))))
    rows += [Row(("cache" if i == 0 else "", text)) for i, text in enumerate(_caches(e))]
    if e["parameters"]:
        text = f"{e['parameters']:,}"
        if e["active_parameters"]:
            text += f", {e['active_parameters']:,} active"
        if e["stored_parameters"] and e["stored_parameters"] != e["parameters"]:
            text += f"; {e['stored_parameters']:,} in the checkpoint"
        rows.append(Row(("parameters", text)))
    weights = e["weights"]
    if weights and weights["bytes"]:
        rows.append(Row(("weights", f"{format_bytes(weights['bytes'])} {weights['dtype']}")))
    if e["max_context_tokens"]:
        rows.append(Row(("maximum", f"{e['max_context_tokens']:,} tokens")))
    source = e["sources"]
    rows.append(Row(("confidence", str(source.get("confidence", "not stated")))))
    rows += [
        Row(("source" if i == 0 else "", text)) for i, text in enumerate(source.get("texts", []))
    ]
    rows += [
        Row(("note" if i == 0 else "", text)) for i, text in enumerate(source.get("notes", []))
    ]
    if source.get("checked"):
        rows.append(Row(("checked", str(source["checked"]))))
    if e["aliases"]:
        rows.append(Row(("also called", ", ".join(e["aliases"]))))
    rows.append(Row(("file", str(e["file"]))))
    blocks.append(Table((Column("", "<"), Column("", "<", wrap=True)), tuple(rows)))
    blocks.append(_fields(e))
    return Document(e["name"], tuple(blocks))


def _attention(e: dict[str, Any]) -> str:
    parts = []
    if e["query_heads"]:
        parts.append(f"{e['query_heads']} query heads")
    if e["kv_heads"]:
        parts.append(f"{e['kv_heads']} KV heads")
    if e["head_dim"]:
        parts.append(f"head dim {e['head_dim']}")
    return ", ".join([*parts, e["attention"].upper() if e["attention"] != "mixed" else "mixed"])


def _caches(e: dict[str, Any]) -> list[str]:
    texts = []
    for g in e["layer_groups"]:
        name = g["variant"] or g["kind"].replace("_", " ")
        if g["state_bytes"]:
            texts.append(f"{g['count']} {name}: {g['count'] * g['state_bytes']:,} B a request")
        elif g["bytes_per_token"]:
            end = f" to {g['window_tokens']:,} tokens" if g["window_tokens"] else ""
            texts.append(
                f"{g['count']} {name}: {g['count'] * g['bytes_per_token']:,} B a token{end}"
            )
        else:
            texts.append(f"{g['count']} {name}: nothing of their own")
    return texts


def _fields(e: dict[str, Any]) -> Table:
    """The config field behind each number."""
    rows = []
    for g in e["layer_groups"]:
        for field, origin in g["from"].items():
            key = "count" if field == "count" else field
            rows.append(Row((g["kind"], field, str(g.get(key, "")) or "", origin)))
    if e["pattern_from"]:
        rows.append(Row(("order", "", "", e["pattern_from"])))
    if not rows:
        rows.append(Row(("", "", "", "the preset names no config fields")))
    columns = (
        Column("cache", "<"), Column("number", "<"), Column(""), Column("from", "<", wrap=True),
    )  # fmt: skip
    return Table(columns, tuple(rows))
