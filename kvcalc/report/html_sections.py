"""Sections of a report's page about the plan: growth, budget, ladder, changes, start, basis."""

from __future__ import annotations

from kvcalc.core.results.report import ReportResult
from kvcalc.core.units import GIB, fixed
from kvcalc.report.html_bind import Bind, section, table
from kvcalc.report.html_figures_more import GRID
from kvcalc.report.svg_draw import Canvas, escape

_EXACT = "KV bytes per token follow from the model's shapes: exact."
_MEASURED = (
    "A GPU's memory is what programs see, not the number on its box; the budget says whether that "
    "was measured."
)
_ESTIMATED = (
    "Estimates wear ≈ and a low–high. “Fits” means that the best estimate fits; the sentence says "
    "so where the low one does not."
)


#: Plans beside each other that leave room for low–high on the same line.
_BESIDE = 4


def growth(bind: Bind) -> str:
    """The area as requests grow: plot, labels and legend keep their size at any width."""
    a = bind.attributes
    unit = bind.text("g.unit", "text", class_="mut", y="12")
    now = f'<svg {a(x="g.now")} overflow="visible"><path class="fg" d="M0 1l-6 9h12z"/></svg>'
    plot = (
        f'<div class="chart" id="growth"><svg class="unit" height="24" width="100%">{unit}</svg>'
        f'<svg class="scale" width="46" height="230" aria-hidden="true">{_scale(bind)}</svg>'
        f'<div class="plot" tabindex="0" role="group" {a(aria_label="g.label")}>'
        f'<svg width="100%" height="230" aria-hidden="true">{Canvas(0, "grow").hatches()}'
        f'{_areas(bind)}{_marks(bind)}<line id="cursor" class="s-fg" y1="0" y2="100%" hidden=""/>'
        '</svg><div class="tip" id="tip" role="status" hidden></div></div>'
        f'<svg class="ticks" width="100%" height="46" aria-hidden="true">{now}{_ticks(bind)}</svg>'
        "</div>"
    )
    legend = (
        f'<ul class="leg"><li {a("machine.hidden")}><button type="button" aria-pressed="true" '
        'data-series="weights"><i class="i-w"></i>weights and engine</button></li><li><button '
        'type="button" aria-pressed="true" data-series="cache"><i class="i-k"></i>KV cache</button>'
        f'</li><li {a("machine.hidden")}><i class="i-x"></i>would not fit</li>'
        '<li class="keys">▲ the plan; point or use ← → for figures</li></ul>'
    )
    return section("As the requests grow", bind.text("g.lead"), plot + legend)


def _scale(bind: Bind) -> str:
    """Labels of the grid lines."""
    made = []
    for n in range(GRID + 1):
        text = bind.text(f"g.y{n}.t", "text", class_="mut", x="100%", dx="-8", dy="4.5",
                         text_anchor="end")  # fmt: skip
        shown = bind.attributes(f"g.y{n}.hidden", y=f"g.y{n}")
        made.append(f'<svg {shown} overflow="visible">{text}</svg>')
    return "".join(made)


def _areas(bind: Bind) -> str:
    """Grid, weights, and the cache as far as it fits and beyond."""
    a = bind.attributes
    clips = "".join(
        f'<clipPath id="g-{name}" clipPathUnits="objectBoundingBox"><path {a(d=f"g.{key}.d")}/>'
        "</clipPath>"
        for name, key in (("in", "kv"), ("out", "no"))
    )
    grid = "".join(
        f'<g {a(f"g.y{n}.hidden")}><line class="s-line" x1="0" x2="100%" '
        f"{a(y1=f'g.y{n}', y2=f'g.y{n}')}/></g>"
        for n in range(GRID + 1)
    )
    bands = "".join(
        f'<rect class="{style}" width="100%" {a(y=f"g.{key}.y", height=f"g.{key}.h")}/>'
        for key, style in (("w", "weights"), ("e", "engine"))
    )
    whole = 'x="0" y="0" width="100%" height="100%"'
    return (
        f"<defs>{clips}</defs>{grid}{bands}<g {a('g.kv.hidden')}>"
        f'<rect {whole} class="kv" clip-path="url(#g-in)"/>'
        f'<rect {whole} fill="url(#growhatched-no)" clip-path="url(#g-out)"/></g>'
    )


def _marks(bind: Bind) -> str:
    """The limit, and where memory is full."""
    a = bind.attributes
    limit = bind.text("g.limit.t", "text", class_="halo", x="8", y="-8")
    full = bind.text("g.full.t", "text", a(text_anchor="g.full.a"), class_="halo b", y="-26")
    return (
        f'<g {a("machine.hidden")}><line class="s-no" stroke-width="2" stroke-dasharray="6 4" '
        f'x1="0" x2="100%" {a(y1="g.limit", y2="g.limit")}/>'
        f'<svg {a(y="g.limit")} overflow="visible">{limit}</svg>'
        f'<svg {a("g.full.hidden", x="g.full.x", y="g.limit")} overflow="visible">'
        '<circle r="5.5" class="bg"/><circle r="5.5" class="s-no" stroke-width="2.5"/>'
        f"{full}</svg></g>"
    )


def _ticks(bind: Bind) -> str:
    made = ['<text class="mut" x="0" y="24">0</text>']
    for q in range(1, 5):
        style = "mut wide-only" if q % 2 else "mut"
        anchor = "end" if q == 4 else "middle"
        made.append(bind.text(f"g.x{q}", "text", class_=style, x=f"{25 * q}%", y="24",
                              text_anchor=anchor))  # fmt: skip
    made.append('<text class="mut" x="100%" y="42" text-anchor="end">tokens in each request</text>')
    return "".join(made)


def budget(bind: Bind) -> str:
    """Lines of one GPU's memory with basis and low–high."""
    rows = []
    for r in range(bind.count("b", ".item")):
        cells = bind.text(f"b{r}.item", "th", scope="row") + bind.cell(f"b{r}.best")
        cells += bind.cell(f"b{r}.range") + bind.cell(f"b{r}.basis", "l")
        cells += bind.cell(f"b{r}.note", "l wide-only")
        rows.append(f"<tr {bind.attributes(f'b{r}.hidden', data_k=f'b{r}.class')}>{cells}</tr>")
    heads = [("GiB per GPU", "l"), ("best", ""), ("low–high", ""), ("basis", "l")]
    return section(
        "Where one GPU's memory goes", "Exact, measured or estimated: each line names its basis.",
        table("budget", [*heads, ("", "l wide-only")], rows, caption="Memory of one GPU"),
        copies="budget", more=bind.attributes("machine.hidden"),
    )  # fmt: skip


def ladder(bind: Bind, r: ReportResult) -> str:
    """Context × plan: every cell is a button that makes it the plan."""
    judged = r.plans[0].gpu is not None
    heads = [("tokens", "l"), ("one request<br>GiB", "wide-only" if judged else "")]
    if judged:
        heads += [(f"{escape(p.machine)}<br>{escape(p.kv_dtype)}", "") for p in r.plans]
    one = "wide-only" if judged else ""
    rows = []
    for i, tokens in enumerate(r.contexts):
        cells = [f'<th scope="row">{tokens:,}</th>{bind.cell(f"z{i}", one)}']
        cells += [_pick(bind, r, p, i) for p in range(len(r.plans) if judged else 0)]
        rows.append(f"<tr {bind.attributes(data_k=f'z{i}.class')}>{''.join(cells)}</tr>")
    if judged:
        title, lead = "How many requests fit", "Choose a cell to make it the plan. "
        lead += "Small figures: low to high of the estimate."
    else:
        title, lead = "One request at each length", "On all GPUs together, each token stored once."
    many = 'class="many"' if judged and len(r.plans) > _BESIDE else ""
    made = table("ladder", heads, rows, caption=title)
    return section(title, lead, made, copies="ladder", more=many)


def _pick(bind: Bind, r: ReportResult, p: int, i: int) -> str:
    """One cell: the most requests of a context under a plan."""
    plan, tokens = r.plans[p], r.contexts[i]
    step = plan.steps[i]
    low, high, most = step.max_requests_low, step.max_requests_high, step.max_requests
    words = f"{most:,}" if most else '<span class="t-no">✗ none</span>'
    spread = f" <small>{low:,}–{high:,}</small>" if most and low != high else ""
    said = escape(f"{most:,} requests of {tokens:,} tokens on {plan.machine}, {plan.kv_dtype}")
    return (
        f'<td class="pick"><button type="button" data-pick="{p},{i}" aria-label="{said}" '
        f"{bind.attributes(aria_pressed=f'l{p}.{i}')}>{words}{spread}</button></td>"
    )


def changes(bind: Bind, r: ReportResult) -> str:
    """Single changes of the plan, each computed."""
    if r.plans[0].gpu is None:
        return machines(r)
    rows = []
    for n in range(bind.count("c", ".arg")):
        mark, argument = bind.text(f"c{n}.mark", class_="ck"), bind.text(f"c{n}.arg", "code")
        cells = f'<td class="l wrap">{mark} {argument}</td>'
        cells += f"<td>{bind.text(f'c{n}.most')} {bind.text(f'c{n}.plus', 'small')}</td>"
        cells += bind.cell(f"c{n}.long") + bind.cell(f"c{n}.pool", "wide-only")
        rows.append(f"<tr {bind.attributes(f'c{n}.hidden')}>{cells}</tr>")
    heads = [("option", "l"), ("requests", ""), ("longest", "")]
    heads.append(("pool GiB<br>per GPU", "wide-only"))
    return section("Change one thing", bind.text("changes.lead"),
                   table("changes", heads, rows, sorts=True, caption="Single changes"),
                   copies="changes", more=bind.attributes("changes.hidden"))  # fmt: skip


def machines(r: ReportResult) -> str:
    """Without a machine: those that would do, for the question as asked."""
    found = r.parts.machines
    if found is None:
        return "<section></section>"
    rows = []
    for c in [c for c in found.candidates if c.fits][:12]:
        longest = "maximum" if c.at_maximum else f"{c.max_context_tokens or 0:,}"
        cells = f'<th scope="row">{c.gpus} × {escape(c.gpu or "")}</th>'
        cells += f"<td>{fixed(c.memory_bytes, GIB)}</td><td>{fixed(c.kv_pool_bytes, GIB)}</td>"
        cells += f"<td>{c.max_requests:,}</td><td>{longest}</td>"
        rows.append(f"<tr>{cells}</tr>")
    heads = [("GPUs", "l"), ("GiB in all", ""), ("KV pool per GPU", ""), ("requests", ""),
             ("longest", "")]  # fmt: skip
    load = f"{r.requests_asked:,} of {r.context_tokens:,} tokens"
    lead = (
        f"For the load as asked, {load}: the smallest count of 1, 2, 4, 8 that fits, least memory "
        "first. The sliders do not move this table; --gpu NAME makes one of them the plan."
    )
    return section("Machines that would do", lead,
                   table("machines", heads, rows, sorts=True, caption="Machines"),
                   copies="machines")  # fmt: skip


def start(bind: Bind) -> str:
    """The command that starts the engine so, what it logs, and the question as a command."""
    engine = (
        f'<div {bind.attributes("start.hidden")}><div class="tools"><span>Start the engine so, and '
        'compare its log with the lines below.</span><button type="button" data-copies="start" '
        f'aria-label="copy: start">copy</button></div>{bind.text("start", "pre", id="start")}</div>'
    )
    limits = f'<p class="note" {bind.attributes("limits.hidden")}>{bind.text("limits")}</p>'
    ask = (
        '<div class="tools"><span>The same from the command line</span><button type="button" '
        f'data-copies="ask" aria-label="copy: ask">copy</button></div>'
        f"{bind.text('ask', 'pre', id='ask')}"
    )
    return f"<section><h2>Start it, ask again</h2>{engine}{limits}{ask}</section>"


def basis(r: ReportResult) -> str:
    """What the page rests on, what it holds, how it was made, its data."""
    held = (
        f"This page holds exact values for {len(r.contexts)} contexts "
        f"({r.contexts[0]:,} to {r.contexts[-1]:,} tokens), {len(r.requests)} numbers of requests "
        f"(1 to {r.requests[-1]:,}), {len(r.growth_tokens)} points of growth and "
        f"{len(r.plans)} plan{'' if len(r.plans) == 1 else 's'}. It multiplies requests by bytes; "
        "it interpolates nothing."
    )
    facts = [_EXACT, _MEASURED, _ESTIMATED, held]
    facts += [f"Not given, so assumed: {a.option} {a.value}." for a in r.assumptions]
    facts += [f"Left out: {x.machine}, {x.kv_dtype}: {x.reason}." for x in r.left_out]
    facts += [f"{w.message}." for w in r.warnings]
    items = "".join(f"<li>{escape(text)}</li>" for text in facts)
    return (
        f"<section><details open><summary>What this rests on</summary><ul>{items}</ul></details>"
        '<details open><summary>The command that made this page</summary><p><button type="button" '
        f'data-copies="made">copy the command</button></p><pre id="made">{escape(r.line)}</pre>'
        "</details><details><summary>The data in this page (JSON)</summary><p><button "
        'type="button" data-copies="data">copy the JSON</button> Schema kvcalc.report/1; memory in '
        "whole bytes.</p></details>"
        '<noscript><p class="lead">Without JavaScript the page shows the plan as asked.</p>'
        "</noscript></section>"
    )
