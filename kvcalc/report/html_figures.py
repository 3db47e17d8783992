"""Every figure of a report's page in one state of its sliders, as the text that is shown.

`assets/report.js` says the same in the browser, name for name: a test compares the two over all
states. Both only read the page's data and multiply requests by bytes; places on a chart are whole
hundredths, computed in integers, so that both come to the same digits.
"""

from __future__ import annotations

from kvcalc.core.units import GIB, counted, fixed, format_bytes
from kvcalc.report.html_figures_more import more_figures
from kvcalc.report.html_view import Data, Figures, State, View, ends, rounded_up, share


def figures(data: Data, state: State, items: dict[str, str]) -> Figures:
    """All texts, places and switches of the page."""
    v = View(data, state)
    f: Figures = {}
    _verdict(v, f)
    _tiles(v, f)
    _bar(v, f)
    _budget(v, f, items)
    _changes(v, f)
    _start(v, f)
    more_figures(v, f)
    return f


def _verdict(v: View, f: Figures) -> None:
    load = f"{counted(v.n)} of {v.tokens:,} tokens"
    f["ctx"], f["req"] = f"{v.tokens:,} tokens", f"{v.n:,}"
    f["mark"] = "" if v.pool is None else "✓" if v.fits else "✗"
    f["verdict.class"] = "" if v.pool is None else "yes" if v.fits else "no"
    most = v.step["max_requests"]
    if v.pool is None:
        f["verdict"] = f"{load} take{'s' if v.n == 1 else ''} {format_bytes(v.need)} of KV cache"
    elif v.fits:
        sure = "" if v.step["max_requests_low"] >= v.n else ", but not surely"
        room = f"; room for {v.about}{most - v.n:,} more" if most > v.n else ""
        f["verdict"] = f"{load} fit{'s' if v.n == 1 else ''}{sure}{room}"
    else:
        short = v.need - v.pool["bytes"]
        word = "≈" if v.pool["low_bytes"] != v.pool["high_bytes"] else ""
        where = " per GPU" if v.gpus > 1 else ""
        f["verdict"] = f"{word}{rounded_up(short)} short{where} for {load}"
    f["sub"] = _plan(v) + _second(v)


def _plan(v: View) -> str:
    weights = v.data["weights"]["format"]
    engine, version = v.plan["engine"]["id"], v.plan["engine"]["version"]
    rules = "textbook" if engine == "none" else f"{engine} {version or ''}".strip()
    words = [f"{v.data['model']['name']} {weights}" if weights else v.data["model"]["name"]]
    words += [v.plan["machine"], rules] if v.plan["gpu"] else []
    return f"{', '.join(words)}, KV cache in {v.plan['kv_dtype']}."


def _second(v: View) -> str:
    if v.pool is None:
        return ""
    most, longest = v.step["max_requests"], v.step["max_context_tokens"]
    maximum = v.data["model"]["max_context_tokens"]
    low, high = v.step["max_requests_low"], v.step["max_requests_high"]
    text = ""
    if low != high:
        text = f" Between {low:,} and {high:,} requests of this length fit."
    elif not v.fits and most:
        text = f" The most that fits is {counted(most)} of this length."
    if longest is None:
        return f"{text} One request alone has no end."
    if longest == 0:
        return f"{text} Not one request of a single token fits."
    if longest == maximum:
        return f"{text} One request alone may reach the model's maximum of {maximum:,} tokens."
    end = "" if maximum is None else f" of {maximum:,}"
    return f"{text} One request alone may reach {v.about}{longest:,}{end} tokens."


def _tiles(v: View, f: Figures) -> None:
    token, per = v.size["bytes_per_token"], v.side["bytes_per_request"]
    whole = v.size["contexts"][v.state.context]["bytes_per_request"]
    f["token"], f["token.s"] = format_bytes(token), f"{token:,} B"
    if v.size["bends"]:
        f["token.s"] += f", up to {v.size['bends'][0]['tokens']:,} tokens"
    state = v.size["state_bytes_per_request"]
    if state:
        f["token.s"] += f"; and {format_bytes(state)} a request"
    f["one"] = format_bytes(per)
    f["one.s"] = f"{per:,} B"
    if v.gpus > 1:
        f["one.s"] = f"on each GPU; {format_bytes(whole)} in all, stored once"
    f["load.t"], f["load"] = counted(v.n), format_bytes(v.need)
    f["load.s"] = f"{v.need:,} B" if v.gpus == 1 else "on each GPU"
    f["load.hidden"] = "hidden" if v.n == 1 else ""
    f["pool"] = f["pool.s"] = f["most"] = f["most.s"] = f["long"] = f["long.s"] = ""
    f["machine.hidden"] = "hidden" if v.pool is None else ""
    if v.pool is None:
        return
    low, high = v.pool["low_bytes"], v.pool["high_bytes"]
    f["pool"] = f"{'' if low == high else '≈'}{fixed(v.pool['bytes'], GIB)} GiB"
    spread = ends(low, high)
    where = "per GPU" if v.gpus > 1 else ""
    f["pool.s"] = ", ".join(word for word in (where, spread) if word) or f"{v.pool['bytes']:,} B"
    most = v.step["max_requests"]
    least, best = v.step["max_requests_low"], v.step["max_requests_high"]
    f["most"] = f"{v.about if most else ''}{most:,}"
    f["most.s"] = f"between {least:,} and {best:,}" if least != best else "low and high agree"
    longest, maximum = v.step["max_context_tokens"], v.data["model"]["max_context_tokens"]
    sign = "" if longest in {None, 0, maximum} else v.about
    f["long"] = "no end" if longest is None else f"{sign}{longest:,}"
    f["long.s"] = "tokens" if maximum is None else f"of {maximum:,} tokens"
    if longest == maximum and longest is not None:
        f["long.s"] = "tokens, the model's maximum"


def _bar(v: View, f: Figures) -> None:
    """One GPU's memory from left to right; what is short stands beyond the limit."""
    base, total = v.weights + v.engine, max(v.memory, 1)
    scale = max(total, min(base + v.need, 2 * total))
    parts = {
        "all": (0, total),
        "w": (0, v.weights),
        "e": (v.weights, base),
        "k": (base, min(base + v.need, v.limit)),
        "r": (base + v.need, v.limit) if v.fits else (0, 0),
        "x": (0, 0) if v.fits else (max(base, v.limit), base + v.need),
    }
    for name, (first, last) in parts.items():
        first, last = min(first, scale), min(max(first, last), scale)  # noqa: PLW2901 - cut
        f[f"bar.{name}.x"] = share(first, scale)
        f[f"bar.{name}.w"] = share(last - first, scale)
        wide = (last - first) * 100 >= 24 * scale
        f[f"bar.{name}.named"] = "" if wide else "hidden"
    f["bar.limit"] = share(v.limit, scale)
    f["bar.limit.a"] = "end" if v.limit * 2 > scale else "start"
    f["bar.limit.t"] = f"limit {fixed(v.limit, GIB)} GiB"
    pool = v.pool or {"bytes": 0, "low_bytes": 0, "high_bytes": 0}
    f["bar.low"] = share(min(v.limit - pool["high_bytes"], scale), scale)
    f["bar.high"] = share(min(v.limit - pool["low_bytes"], scale), scale)
    f["bar.spread.hidden"] = "hidden" if pool["low_bytes"] == pool["high_bytes"] else ""
    f["bar.total"] = f"one GPU, {fixed(total, GIB)} GiB"
    if "memory" not in v.lines:
        f["bar.total"] = f"the given pool, {fixed(total, GIB)} GiB"
    short = 0 if v.fits or v.pool is None else v.need - v.pool["bytes"]
    room = v.limit - base - v.need if v.fits else 0
    sizes = {"w": v.weights, "e": v.engine, "k": v.need, "r": room, "o": v.unused}
    for name, value in sizes.items():
        f[f"leg.{name}"] = fixed(value, GIB)
        f[f"leg.{name}.hidden"] = "" if value > 0 else "hidden"
    f["leg.x"] = rounded_up(short) if short > 0 else ""
    f["leg.x.hidden"] = "" if short > 0 else "hidden"
    said = f"{f['leg.w']} weights, {f['leg.e']} engine, {f['leg.k']} KV cache needed"
    f["bar.label"] = f"One GPU in GiB: {said} of a pool of {fixed(pool['bytes'], GIB)}"


def _budget(v: View, f: Figures, items: dict[str, str]) -> None:
    """Lines of one GPU's memory; rows beyond this plan's are hidden."""
    rows = max((len(b) for p in v.data["plans"] for b in p["budgets"]), default=0)
    for r in range(rows):
        line = v.budget[r] if r < len(v.budget) else None
        f[f"b{r}.hidden"] = "hidden" if line is None else ""
        f[f"b{r}.class"] = "sum" if line is not None and line["item"] == "kv_pool" else ""
        if line is None:
            for name in ("item", "best", "range", "basis", "note"):
                f[f"b{r}.{name}"] = ""
            continue
        last, low, high = line["item"] == "kv_pool", line["low_bytes"], line["high_bytes"]
        name = items.get(line["item"], line["item"].replace("_", " "))
        weights = line["item"] == "weights" and line["note"]
        f[f"b{r}.item"] = f"{name}, {line['note']}" if weights else name
        f[f"b{r}.best"] = ("≈" if last and low != high else "") + fixed(line["bytes"], GIB)
        if last and low < 0:
            f[f"b{r}.range"] = ends(low, high)
        else:
            f[f"b{r}.range"] = ends(min(abs(low), abs(high)), max(abs(low), abs(high)))
        f[f"b{r}.basis"] = line["basis"]
        f[f"b{r}.note"] = "" if weights else line["note"]


def _changes(v: View, f: Figures) -> None:
    rows = max((len(s["suggestions"]) for p in v.data["plans"] for s in p["steps"]), default=0)
    found = v.step["suggestions"]
    for r in range(rows):
        s = found[r] if r < len(found) else None
        f[f"c{r}.hidden"] = "hidden" if s is None else ""
        for name in ("arg", "mark", "most", "plus", "long", "pool"):
            f[f"c{r}.{name}"] = ""
        if s is None:
            continue
        more = s["max_requests"] - (v.step["max_requests"] or 0)
        longest = s["max_context_tokens"]
        f[f"c{r}.arg"] = s["argument"]
        f[f"c{r}.mark"] = "✓" if s["max_requests"] >= v.n else "✗"
        f[f"c{r}.most"] = f"{s['max_requests']:,}"
        f[f"c{r}.plus"] = f"+{more:,}" if more > 0 else ""
        f[f"c{r}.long"] = "no end" if longest is None else f"{longest:,}"
        f[f"c{r}.pool"] = fixed(s["kv_pool_bytes"], GIB)
    f["changes.hidden"] = "" if found else "hidden"
    f["changes.lead"] = (
        f"From {v.plan['machine']}, {v.plan['kv_dtype']} and {v.tokens:,} tokens, each alone. "
        f"✓: enough for {counted(v.n)}."
    )


def _start(v: View, f: Figures) -> None:
    command, lines = v.text["command"], v.text["startup_lines"]
    f["start"] = "\n".join([command or "", *([""] if lines else []), *lines])
    f["start.hidden"] = "" if command else "hidden"
    f["ask"] = f"{v.plan['ask']} -c {v.tokens}" + (f" -n {v.n}" if v.n > 1 else "")
    f["limits"] = "; ".join(limit["message"] for limit in v.text["limits"])
    f["limits.hidden"] = "" if v.text["limits"] else "hidden"
