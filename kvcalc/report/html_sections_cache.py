"""Sections of a report's page about the cache itself: a token's cost, steps, pages, techniques."""

from __future__ import annotations

from kvcalc.core.results.report import ReportResult
from kvcalc.report.html_bind import Bind, section, table
from kvcalc.report.svg_draw import Canvas, escape


def cache(bind: Bind, r: ReportResult) -> str:
    """The formula, the kinds of layers, MHA and MQA beside the model's own."""
    formula = f'<p class="sum-line">{bind.text("s.symbols")}<br>{bind.text("s.numbers", "b")}</p>'
    names = [("count", "layers"), ("kind", "kind"), ("heads", "KV heads"), ("dim", "head dim")]
    names += [("until", "until")] if any(g.window_tokens for g in r.parts.size.layers) else []
    names += [("token", "B a token")]
    names += [("state", "B a request")] if r.parts.size.state_bytes_per_request else []
    rows = []
    for n in range(bind.count("s", ".count")):
        cells = "".join(
            bind.cell(f"s{n}.{name}", "l" if name == "kind" else "") for name, _ in names
        )
        rows.append(f"<tr {bind.attributes(f's{n}.hidden')}>{cells}</tr>")
    heads = [(words, "l" if name == "kind" else "") for name, words in names]
    body = f"<div>{formula}{table('layers', heads, rows, caption='Kinds of layers')}</div>"
    return section(
        "What one token costs", escape(_shape(r)),
        f'<div class="two">{body}{_variants(bind, r)}</div>', copies="layers",
    )  # fmt: skip


def _variants(bind: Bind, r: ReportResult) -> str:
    own = f"{r.model.attention.upper()}, {r.model.kv_heads} KV heads: this model"
    many = f"MHA, {r.model.query_heads} KV heads"
    bars = []
    for key, label in (("mha", many), ("own", own), ("mqa", "MQA, 1 KV head")):
        style = "kv" if key == "own" else "weights"
        bars.append(
            f'<div class="bar-line"><span>{escape(label)}</span>{bind.text(f"v.{key}", "b")}'
            f"{_bar(bind, f'v.{key}.x', style)}</div>"
        )
    return (
        f'<div class="bars" {bind.attributes("v.hidden")}><p class="note">Per token, if every '
        f"attention layer kept</p>{''.join(bars)}</div>"
    )


def _bar(bind: Bind, key: str, style: str) -> str:
    """A bar whose length is a figure, on its track."""
    return (
        '<svg width="100%" height="14" aria-hidden="true"><rect class="track" width="100%" '
        f'height="14"/><rect class="{style}" height="14" {bind.attributes(width=key)}/></svg>'
    )


def _shape(r: ReportResult) -> str:
    parts = [f"{r.model.layers} layers"]
    if r.model.query_heads:
        parts.append(f"{r.model.query_heads} query heads")
    if r.model.parameters:
        parts.append(f"{r.model.parameters:,} parameters")
    if r.model.max_context_tokens:
        parts.append(f"a maximum of {r.model.max_context_tokens:,} tokens")
    return f"{r.model.name}: {', '.join(parts)}."


def steps(bind: Bind, r: ReportResult) -> str:
    """One request from its prompt to its last token, and as many side by side."""
    rows = []
    for n in range(bind.count("t", ".step")):
        cells = bind.cell(f"t{n}.note", "l wrap") + bind.cell(f"t{n}.step", "wide-only")
        cells += "".join(bind.cell(f"t{n}.{key}") for key in ("tokens", "one", "all"))
        rows.append(f"<tr {bind.attributes(f't{n}.hidden', data_k=f't{n}.class')}>{cells}</tr>")
    heads = [("when", "l"), ("step", "wide-only"), ("tokens", ""), (bind.text("t.one"), "")]
    heads.append((bind.text("t.all"), ""))
    assumed = any(a.option == "--prompt" for a in r.assumptions)
    more = " Assumed; --prompt and --output say otherwise." if assumed else ""
    made = table("steps", heads, rows, caption="Milestones")
    return section("Step by step", bind.text("t.lead") + more, made, copies="steps")


def waste(bind: Bind, r: ReportResult) -> str:
    """What each policy of allocation reserves for requests of unequal lengths."""
    rows = []
    for n in range(bind.count("w", ".name")):
        used, more = bind.attributes(width=f"w{n}.u"), bind.attributes(x=f"w{n}.u", width=f"w{n}.x")
        bar = (
            '<svg width="100%" height="18" aria-hidden="true">'
            f'<rect class="kv" height="18" {used}/>'
            f'<rect fill="url(#pages-hatched-waste)" height="18" {more}/></svg>'
        )
        cells = bind.text(f"w{n}.name", "th", scope="row") + f'<td class="bar-cell">{bar}</td>'
        cells += "".join(bind.cell(f"w{n}.{key}") for key in ("size", "wasted", "share"))
        rows.append(f"<tr {bind.attributes(f'w{n}.hidden')}>{cells}</tr>")
    heads = [("policy", "l"), ("", "l"), (bind.text("w.unit"), ""), ("wasted", ""), ("share", "")]
    legend = (
        '<ul class="leg"><li><i class="i-k"></i>used</li><li><i class="i-l"></i>wasted</li></ul>'
    )
    patterns = (
        '<svg width="0" height="0" class="defs" aria-hidden="true">'
        f"{Canvas(0, 'pages-').hatches()}</svg>"
    )
    made = table("waste", heads, rows, caption="Policies of allocation")
    body = f"<div {bind.attributes('w.hidden')}>{patterns}{made}{legend}</div>"
    assumed = any(a.option == "--request" for a in r.assumptions)
    more = " An example; --request gives your own lengths." if assumed else ""
    return section("Why pages", bind.text("w.lead") + more, body, copies="waste")


def savings(bind: Bind) -> str:
    """Each technique alone."""
    rows = []
    for n in range(bind.count("k", ".label")):
        cells = bind.text(f"k{n}.label", "th", scope="row")
        cells += f'<td class="bar-cell wide-only">{_bar(bind, f"k{n}.x", "kv")}</td>'
        cells += bind.cell(f"k{n}.size") + bind.cell(f"k{n}.saved", "wide-only")
        cells += bind.cell(f"k{n}.factor")
        cells += bind.cell(f"k{n}.quality", "l wide-only")
        rows.append(f"<tr {bind.attributes(f'k{n}.hidden')}>{cells}</tr>")
    heads = [("technique", "l"), ("", "l wide-only"), (bind.text("k.unit"), "")]
    heads += [("saved", "wide-only"), ("factor", ""), ("quality", "l wide-only")]
    return section("What would save memory", bind.text("k.lead"),
                   table("savings", heads, rows, caption="Techniques"), copies="savings",
                   more=bind.attributes("k.hidden"))  # fmt: skip
