"""The page of `kvcalc report`: verdict first, then what moves it, then all that it rests on."""

from __future__ import annotations

from kvcalc import __version__
from kvcalc.core.results.report import ReportResult
from kvcalc.report import html_sections as sections
from kvcalc.report import html_sections_cache as more
from kvcalc.report.html_bind import Bind
from kvcalc.report.html_figures import figures
from kvcalc.report.html_page import page
from kvcalc.report.html_trace import trace
from kvcalc.report.html_view import State
from kvcalc.report.svg_draw import Canvas, escape

#: What budgets call their lines, for readers.
ITEMS = {
    "memory": "memory a program sees", "unused": "left unused", "reserve": "reserved",
    "weights": "weights", "kv_pool": "KV pool", "graphs": "CUDA graphs",
}  # fmt: skip


def render(result: ReportResult) -> str:
    """The report as one page that needs neither network nor script to be read."""
    data = result.to_dict()
    first = first_state(result)
    bind = Bind(figures(data, first, ITEMS))
    wrapped = {
        "schema": "kvcalc.report/1", "version": __version__, "command": "report", "data": data,
        "page": {"state": list(first[:3]), "items": ITEMS},
    }  # fmt: skip
    parts = [
        _verdict(bind),
        _controls(bind, result, first),
        _bar(bind),
        _tiles(bind),
        *_growth(bind, result),
        f'<div class="two">{more.waste(bind, result)}{sections.changes(bind, result)}</div>',
        more.steps(bind, result),
        more.cache(bind, result),
        *trace(bind, result),
        more.savings(bind),
        sections.start(bind),
        sections.basis(result),
    ]
    foot = (
        f"kvcalc {escape(__version__)} · memory in GiB (1,073,741,824 B) · made offline; "
        "this page loads nothing."
    )
    return page(
        f"plan for {result.model.name}", "\n".join(parts), data=wrapped,
        styles=("report.css",), scripts=("figures.js", "report.js"), foot=foot,
    )  # fmt: skip


def _growth(bind: Bind, r: ReportResult) -> list[str]:
    """The curve beside the budget, the ladder below; without a machine the curve beside it."""
    curve, ladder = sections.growth(bind), sections.ladder(bind, r)
    if r.plans[0].gpu is None:
        return [f'<div class="two">{curve}{ladder}</div>']
    return [f'<div class="two">{curve}{sections.budget(bind)}</div>', ladder]


def first_state(result: ReportResult) -> State:
    """The question as asked."""
    return State(
        0,
        result.contexts.index(result.context_tokens),
        result.requests.index(result.requests_asked),
    )


def _verdict(bind: Bind) -> str:
    said = {"✓": "yes: ", "✗": "no: ", "": ""}[bind.figures["mark"]]
    mark = bind.text("mark", class_="m", aria_hidden="true")
    answer, sub = bind.text("verdict", "bdi"), bind.text("sub", "p", class_="sub")
    return (
        f'<div id="verdict" {bind.attributes(data_k="verdict.class")}><h1 aria-live="polite">'
        f'{mark} <span class="away" id="said-mark">{said}</span>{answer}</h1>{sub}</div>'
    )


def _controls(bind: Bind, r: ReportResult, first: State) -> str:
    sliders = [
        ("ctx", "Context of one request", len(r.contexts), first.context),
        ("req", "Requests at once", len(r.requests), first.requests),
    ]
    fields = [
        f'<div><label for="{name}"><span>{label}</span> {bind.text(name, "output")}</label>'
        f'<input id="{name}" type="range" min="0" max="{count - 1}" value="{at}" step="1" '
        f'autocomplete="off" {bind.attributes(aria_valuetext=name)}></div>'
        for name, label, count, at in sliders
    ]
    fields += _radios("kv", "KV cache in", list(dict.fromkeys(p.kv_dtype for p in r.plans)))
    fields += _radios("gpu", "Machine", list(dict.fromkeys(p.machine for p in r.plans)))
    return f'<form class="ctl" aria-label="Change the plan">{"".join(fields)}</form>'


def _radios(name: str, legend: str, values: list[str]) -> list[str]:
    """A choice of one of several; nothing where there is none."""
    if len(values) < 2:
        return []
    inputs = "".join(
        f'<label><input type="radio" name="{name}" value="{escape(value)}" autocomplete="off"'
        f"{' checked' if i == 0 else ''}>{escape(value)}</label>"
        for i, value in enumerate(values)
    )
    return [f'<fieldset><legend>{legend}</legend><div class="seg">{inputs}</div></fieldset>']


def _bar(bind: Bind) -> str:
    """One GPU's memory, and its legend."""
    a = bind.attributes
    rects = []
    for name, fill in (
        ("all", "track"), ("w", "weights"), ("e", "engine"), ("k", "kv"), ("r", "room"),
        ("x", "no"),
    ):  # fmt: skip
        style = f'fill="url(#barhatched-{fill})"' if fill in {"room", "no"} else f'class="{fill}"'
        rects.append(
            f'<rect {style} y="20" height="34" {a(x=f"bar.{name}.x", width=f"bar.{name}.w")}/>'
        )
    names = "".join(
        f'<svg {a(f"bar.{key}.named", x=f"bar.{key}.x")} overflow="visible">'
        f'<text x="10" y="42" class="bg">{word}</text></svg>'
        for key, word in (("w", "weights"), ("k", "KV needed"))
    )
    beam = 'class="s-fg" stroke-width="1.5"'
    spread = f'<line {beam} y1="64" y2="64" {a(x1="bar.low", x2="bar.high")}/>'
    spread += "".join(
        f'<line {beam} y1="59" y2="69" {a(x1=key, x2=key)}/>' for key in ("bar.low", "bar.high")
    )
    total = bind.text("bar.total", "text", class_="mut", y="12")
    limit = bind.text("bar.limit.t", "text", a(text_anchor="bar.limit.a"), class_="b", y="12")
    svg = (
        f'<svg id="bar" width="100%" height="72" role="img" {a(aria_label="bar.label")}>'
        f"{Canvas(0, 'bar').hatches()}{total}{''.join(rects)}{names}"
        f'<line class="s-no" stroke-width="2" y1="15" y2="58" {a(x1="bar.limit", x2="bar.limit")}/>'
        f'<svg {a(x="bar.limit")} overflow="visible">{limit}</svg>'
        f"<g {a('bar.spread.hidden')}>{spread}</g></svg>"
    )
    words = (("w", "weights"), ("e", "engine"), ("k", "KV needed"), ("r", "room"), ("x", "short"),
             ("o", "rest"))  # fmt: skip
    legend = "".join(
        f'<li {a(f"leg.{key}.hidden")}><i class="i-{key}"></i>{word} {bind.text(f"leg.{key}", "b")}'
        "</li>"
        for key, word in words
    )
    start = f"<li {a('bar.spread.hidden')}><i class='i-s'></i>where the KV pool may start</li>"
    return (
        f'<section {a("machine.hidden")} aria-label="Memory of one GPU">{svg}'
        f'<ul class="leg">{legend}{start}<li>GiB of one GPU</li></ul></section>'
    )


def _tiles(bind: Bind) -> str:
    tiles = (
        ("KV cache per token", "token", ""), ("One request", "one", ""),
        ("", "load", "load.hidden"), ("KV pool", "pool", "machine.hidden"),
        ("Requests that fit", "most", "machine.hidden"),
        ("Longest request", "long", "machine.hidden"),
    )  # fmt: skip
    items = []
    for title, key, hide in tiles:
        head = f"<dt>{title}</dt>" if title else bind.text(f"{key}.t", "dt")
        figure = f"<dd>{bind.text(key)}{bind.text(f'{key}.s', 'small')}</dd>"
        items.append(f"<div {bind.attributes(hide)}>{head}{figure}</div>")
    return f'<dl class="tiles">{"".join(items)}</dl>'
