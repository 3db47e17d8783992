"""The other half of a page's figures: growth, steps, policies, techniques, the cache itself."""

from __future__ import annotations

from kvcalc.core.units import GIB, cdiv, counted, fixed, format_bytes, trimmed
from kvcalc.report.html_view import Data, Figures, View, share, unit_for

_KINDS = {
    "sliding_window": "window", "latent": "MLA latent", "chunked": "chunk", "full": "full",
}  # fmt: skip
#: Most grid lines of the growth chart above its axis.
GRID = 5


def more_figures(v: View, f: Figures) -> None:
    """Adds them to `f`."""
    _growth(v, f)
    _steps(v, f)
    _waste(v, f)
    _savings(v, f)
    _size(v, f)
    _ladder(v, f)
    _trace(v, f)


def axis_end(v: View) -> int:
    """The context at which the chart ends, so that the point where memory is full is in view."""
    contexts: list[int] = v.data["contexts"]
    if v.full is None:
        return contexts[-1]
    wanted = max(v.tokens, min(contexts[-1], v.full * 13 // 10))
    return next((c for c in contexts if c >= wanted), contexts[-1])


def grid_step(top: int, unit: int) -> int:
    """Hundredths of a unit between grid lines: the least round number of which GRID reach top."""
    power = 1
    while True:
        for first in (20, 25, 50):
            if GRID * first * power * unit >= 100 * top:
                return first * power
        power *= 10


def _growth(v: View, f: Figures) -> None:
    held, end = v.plan["growth"][v.side["rank"]], axis_end(v)
    points = [
        (t, v.needed(held, v.state.requests, k))
        for k, t in enumerate(v.data["growth_tokens"])
        if t <= end
    ]
    shown = v.state.weights and v.pool is not None
    base = v.weights + v.engine if shown else 0
    limit = 0 if v.pool is None else v.limit - (0 if shown else v.weights + v.engine)
    highest = max(limit * 23 // 20, base * 11 // 10, 1)
    if v.pool is None:
        highest = max(b for _, b in points) or 1
    name, unit = unit_for(highest)
    step = grid_step(highest, unit)
    count = cdiv(100 * highest, step * unit)
    top = cdiv(step * unit * count, 100)
    decimals = 0 if step % 100 == 0 else 1 if step % 10 == 0 else 2
    for n in range(GRID + 1):
        f[f"g.y{n}"] = share(count - n, count) if n <= count else "0.000%"
        f[f"g.y{n}.t"] = fixed(step * n, 100, decimals) if n <= count else ""
        f[f"g.y{n}.hidden"] = "" if n <= count else "hidden"
    f["g.unit"] = f"{name} on one GPU" if v.gpus > 1 else name
    for q in range(1, 5):
        f[f"g.x{q}"] = f"{end * q // 4:,}"
    f["g.w.y"], f["g.w.h"] = _band(0, v.weights if shown else 0, top)
    f["g.e.y"], f["g.e.h"] = _band(v.weights, base, top) if shown else ("0.000%", "0.000%")
    f["g.kv.d"], f["g.no.d"] = _areas(points, base, limit, end, top, v.full)
    f["g.kv.hidden"] = "" if v.state.cache else "hidden"
    f["g.limit"] = share(top - min(limit, top), top)
    f["g.limit.t"] = f"limit {fixed(limit, unit)}"
    full = v.full
    f["g.full.x"] = share(0 if full is None else min(full, end), end)
    f["g.full.t"] = "" if full is None else f"full at {full:,}"
    f["g.full.a"] = "end" if full is not None and full * 3 > end else "start"
    f["g.full.hidden"] = "hidden" if full is None or full > end else ""
    f["g.now"] = share(min(v.tokens, end), end)
    whose = "it has" if v.n == 1 else "each has"
    side = counted(v.n) if v.n == 1 else f"{counted(v.n)} side by side"
    if v.pool is None:
        f["g.lead"] = f"{side}; no machine is given, so nothing limits them."
    elif full is None:
        f["g.lead"] = f"{side}. Memory holds {'it' if v.n == 1 else 'each'} to the longest context."
    elif full == 0:
        f["g.lead"] = f"{side}. Memory is full before the first token."
    else:
        f["g.lead"] = f"{side}. Memory is full when {whose} {v.about}{full:,} tokens."
    f["g.label"] = f"KV cache of one GPU over tokens in each request: {f['g.lead']}"


def _band(low: int, high: int, top: int) -> tuple[str, str]:
    """Place and height of a band, as shares of the plot."""
    return share(top - min(high, top), top), share(min(high, top) - min(low, top), top)


def _unit(q: int) -> str:
    """Hundred-thousandths as a number from -1 to 1."""
    return f"{'-' if q < 0 else ''}{abs(q) // 100_000}.{abs(q) % 100_000:05}"


def _place(value: int, top: int) -> str:
    """A height in a plot of height 1 from its upper edge down; what is higher is cut off there."""
    return _unit((2 * top - min(value, 2 * top)) * 100_000 // top - 100_000)


def _areas(
    points: list[tuple[int, int]], base: int, limit: int, end: int, top: int, full: int | None
) -> tuple[str, str]:
    """Outlines of what fits and of what would not, split where memory is full."""

    def along(t: int) -> str:
        return _unit(t * 100_000 // end)

    def area(line: list[tuple[int, int]]) -> str:
        if len(line) < 2:
            return "M0 0"
        body = "".join(f"L{along(t)} {_place(base + b, top)}" for t, b in line)
        foot = _place(base, top)
        return f"M{along(line[0][0])} {foot}{body}L{along(line[-1][0])} {foot}Z"

    if full is None or full >= end:
        return area(points), "M0 0"
    at = (full, max(limit - base, 0))
    return area([*(p for p in points if p[0] < full), at]), area(
        [at, *(p for p in points if p[0] > full)]
    )


def _steps(v: View, f: Figures) -> None:
    """One request step by step, and as many side by side; where memory is full of them."""
    found: Data = v.data["steps"][v.kind]
    merged: dict[int, list[Data]] = {}
    for m in found["milestones"]:
        merged.setdefault(m["step"], []).append(m)
    rows: list[tuple[str, str, str, str, str]] = []
    prompt, last = found["prompt_tokens"], found["prompt_tokens"] + found["output_tokens"]
    unit_name, unit = unit_for(max(m["kv_bytes"] for m in found["milestones"]))
    ended = v.full is None or v.full >= last
    for step, named in merged.items():
        m = named[0]
        if not ended and v.full is not None and m["tokens"] > v.full:
            rows.append(_full_row(v.full + 1, prompt, v.about))
            ended = True
        words = "; ".join(_milestone(x) for x in named)
        one = m["kv_bytes"]
        rows.append((
            f"{step:,}", f"{m['tokens']:,}", fixed(one, unit), fixed(v.n * one, unit), words,
        ))  # fmt: skip
    total = max(len({m["step"] for m in s["milestones"]}) for s in v.data["steps"]) + 1
    for r in range(total):
        row = rows[r] if r < len(rows) else ("",) * 5
        names = ("step", "tokens", "one", "all", "note")
        f.update({f"t{r}.{name}": text for name, text in zip(names, row, strict=True)})
        f[f"t{r}.hidden"] = "" if r < len(rows) else "hidden"
        f[f"t{r}.class"] = "full" if row[4].startswith("✗") else ""
    f["t.one"], f["t.all"] = f"one request {unit_name}", f"{counted(v.n)} {unit_name}"
    f["t.lead"] = (
        f"A prompt of {prompt:,} tokens, then {last - prompt:,} decoded one by one; "
        "each token stored once over all GPUs."
    )


def _full_row(token: int, prompt: int, about: str) -> tuple[str, str, str, str, str]:
    step = 1 + max(token - prompt, 0)
    return (f"{step:,}", f"{about}{token:,}", "", "", "✗ out of memory")


def _milestone(m: Data) -> str:
    if m["kind"] == "decoded" and m["added_bytes"] is not None:
        return f"{m['label']}: + {format_bytes(m['added_bytes'])}"
    return str(m["label"])


def _waste(v: View, f: Figures) -> None:
    label = v.plan["kv_dtype"]
    found = next(
        (a for a in v.data["allocations"]
         if a["kv_dtype"] == label and a["context_tokens"] == v.tokens), None,
    )  # fmt: skip
    rows = max((len(a["policies"]) for a in v.data["allocations"]), default=0)
    policies: list[Data] = [] if found is None else found["policies"]
    most = max((p["allocated_bytes"] for p in policies), default=1)
    name, unit = unit_for(most)
    f["w.hidden"] = "" if policies else "hidden"
    f["w.unit"] = name
    for r in range(rows):
        p = policies[r] if r < len(policies) else None
        f[f"w{r}.hidden"] = "hidden" if p is None else ""
        for key in ("name", "size", "wasted", "share"):
            f[f"w{r}.{key}"] = ""
        used, taken = (0, 0) if p is None else (p["used_bytes"], p["allocated_bytes"])
        f[f"w{r}.u"], f[f"w{r}.x"] = share(used, most), share(taken - used, most)
        if p is not None:
            f[f"w{r}.name"], f[f"w{r}.size"] = p["policy"], fixed(taken, unit)
            f[f"w{r}.wasted"] = fixed(p["wasted_bytes"], unit)
            f[f"w{r}.share"] = _percent(p["wasted_bytes"], taken)
    f["w.lead"] = _waste_lead(v, found, policies)


def _percent(part: int, whole: int) -> str:
    """A share with one decimal, from whole numbers."""
    return fixed(1000 * part, 10 * max(whole, 1), 1) + "%"


def _waste_lead(v: View, found: Data | None, policies: list[Data]) -> str:
    if found is None:
        return f"A request given is longer than {v.tokens:,} tokens: nothing to reserve."
    lengths = [f"{n:,}" for n in found["lengths"]]
    which = f"{', '.join(lengths[:-1])} and {lengths[-1]}" if len(lengths) > 1 else lengths[0]
    many = "Requests that used" if len(lengths) > 1 else "A request that used"
    text = f"{many} {which} tokens, where each may grow to {v.tokens:,}."
    naive = next((p for p in policies if p["policy"] == "naive"), None)
    slots = v.step["max_requests"]
    if naive is None or not slots or not naive["allocated_bytes"]:
        return text
    work = fixed(slots * naive["used_bytes"], naive["allocated_bytes"], 1)
    many = f"{slots:,} slot{'' if slots == 1 else 's'} of that length"
    return f"{text} Reserved in full, {v.about}{many} do the work of {v.about}{work}."


def _savings(v: View, f: Figures) -> None:
    label = v.plan["kv_dtype"]
    found = next(
        (s for s in v.data["savings"]
         if s["kv_dtype"] == label and s["context_tokens"] == v.tokens), None,
    )  # fmt: skip
    rows = max((len(s["techniques"]) for s in v.data["savings"]), default=0)
    techniques: list[Data] = [] if found is None else found["techniques"]
    baseline = v.n * v.size["contexts"][v.state.context]["bytes_per_request"]
    name, unit = unit_for(baseline)
    f["k.unit"] = name
    f["k.hidden"] = "" if techniques else "hidden"
    f["k.lead"] = (
        f"{counted(v.n)} of {v.tokens:,} tokens take{'s' if v.n == 1 else ''} "
        f"{format_bytes(baseline)}, each token stored once over all GPUs. One technique alone:"
    )
    for r in range(rows):
        t = techniques[r] if r < len(techniques) else None
        f[f"k{r}.hidden"] = "hidden" if t is None else ""
        for key in ("label", "size", "saved", "factor", "quality"):
            f[f"k{r}.{key}"] = ""
        f[f"k{r}.x"] = "0.000%"
        if t is None:
            continue
        size = t["fixed_bytes"] + v.n * t["each_bytes"]
        before = t["before_fixed_bytes"] + v.n * t["before_each_bytes"]
        f[f"k{r}.label"], f[f"k{r}.quality"] = t["label"], t["quality"]
        f[f"k{r}.size"], f[f"k{r}.saved"] = fixed(size, unit), fixed(before - size, unit)
        f[f"k{r}.factor"] = f"{fixed(before, size)}×" if size else "–"
        f[f"k{r}.x"] = share(min(size, baseline), baseline)


def _size(v: View, f: Figures) -> None:
    """The formula, the kinds of layers, MHA and MQA beside the model's own."""
    s = v.size
    product = s["formula"]["numbers"].split(" = ")[0]
    f["s.symbols"] = s["formula"]["symbols"]
    f["s.numbers"] = f"{product} = {s['bytes_per_token']:,} B"
    rows = max(len(x["layers"]) for x in v.data["sizes"])
    for r in range(rows):
        g = s["layers"][r] if r < len(s["layers"]) else None
        f[f"s{r}.hidden"] = "hidden" if g is None else ""
        names = ("count", "kind", "heads", "dim", "until", "token", "state")
        texts = ("",) * 7 if g is None else _layer(g)
        f.update({f"s{r}.{name}": text for name, text in zip(names, texts, strict=True)})
    a: Data | None = s["attention_variants"]
    f["v.hidden"] = "hidden" if a is None else ""
    sizes = (0, 0, 0) if a is None else (
        a["mha_bytes_per_token"], a["actual_bytes_per_token"], a["mqa_bytes_per_token"]
    )  # fmt: skip
    name, unit = unit_for(sizes[1])
    for key, value in zip(("mha", "own", "mqa"), sizes, strict=True):
        f[f"v.{key}"] = f"{trimmed(value, unit)} {name}"
        f[f"v.{key}.x"] = share(value, sizes[0])


def _layer(g: Data) -> tuple[str, ...]:
    """A kind of layer as a row of the table."""
    kind = str(g["variant"] or _KINDS.get(g["kind"], g["kind"])).replace("_", " ")
    dims = {g["key_dim"], g["value_dim"]} - {None}
    dim = f"{g['key_dim']} + {g['value_dim']}" if len(dims) == 2 else str(g["key_dim"] or "")
    window = "" if g["window_tokens"] is None else f"{g['window_tokens']:,}"
    token = f"{g['count'] * g['bytes_per_token']:,}" if g["bytes_per_token"] else ""
    state = f"{g['count'] * g['state_bytes']:,}" if g["state_bytes"] else ""
    heads = "" if g["kv_heads"] is None else str(g["kv_heads"])
    return (str(g["count"]), kind, heads, dim, window, token, state)


def _ladder(v: View, f: Figures) -> None:
    """Which cell is the state; what one request takes at each context."""
    for i, _ in enumerate(v.data["contexts"]):
        f[f"z{i}"] = fixed(v.size["contexts"][i]["bytes_per_request"], GIB)
        f[f"z{i}.class"] = "row" if i == v.state.context else ""
        for p, _ in enumerate(v.data["plans"]):
            here = i == v.state.context and p == v.state.plan
            f[f"l{p}.{i}"] = "true" if here else "false"


def _trace(v: View, f: Figures) -> None:
    """Which plan's simulation is shown."""
    for p, _ in enumerate(v.data["simulations"]):
        f[f"sim{p}.hidden"] = "" if p == v.state.plan else "hidden"
