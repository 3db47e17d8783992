"""Pages on how large it is: formula, gqa."""

from __future__ import annotations

from kvcalc.core.results.explain import Page, Product
from kvcalc.core.units import cdiv, trimmed
from kvcalc.explain.subject import Subject, grid, page, part, product, sized
from kvcalc.explain.words import kinds_of


def formula(s: Subject) -> Page:
    """Bytes per token in symbols and in numbers, then times tokens, then times requests."""
    rows = []
    for n in sorted({1, s.context, s.maximum}):
        size = s.bytes_at(n)
        rows.append([f"{n:,}", sized(size), f"{size:,}"])
    longest = s.bytes_at(s.maximum)
    sections = [
        part(
            "Per token",
            f"{s.size.formula.symbols}",
            product=_product(s),
            grid=grid("symbol|means|here", _symbols(s)),
        ),
        part(
            "Per request",
            "The same at every length."
            if not s.token
            else "Times the tokens so far, prompt and answer alike"
            + (", until a window is full" if s.size.bends else "")
            + (
                f", and {sized(s.size.state_bytes_per_request)} whatever the length"
                if s.size.state_bytes_per_request
                else ""
            )
            + ".",
            grid=grid(">tokens|>one request|>bytes", rows),
        ),
        part(
            "Per machine",
            "memory = weights + KV cache of one request × requests. " + _against_weights(s),
            commands=(f"kvcalc size {s.model.id}", f"kvcalc fit {s.model.id} --gpu {s.gpu}"),
        ),
    ]
    return page(
        "formula",
        "How many bytes",
        _stores(s)
        + f": {sized(s.bytes_at(s.context))} at {s.context:,} tokens"
        + (f", {sized(longest)} at {s.maximum:,}." if s.maximum > s.context else "."),
        [
            ("bytes_per_token", s.token, "B"),
            ("bytes_at_context", s.bytes_at(s.context), "B"),
            ("bytes_at_maximum", longest, "B"),
        ],
        *sections,
    )


def _stores(s: Subject) -> str:
    if not s.token:
        return f"{s.name} stores nothing for a token, only a state for each request"
    first = f", as long as no window is full ({s.size.bends[0].tokens:,})" if s.size.bends else ""
    return f"{s.name} stores {s.token:,} B = {sized(s.token)} for each token in {s.label}{first}"


def _product(s: Subject) -> Product:
    """Factors over numbers, one row for each kind of layer that has heads or a latent."""
    rows: list[tuple[str, tuple[object, ...], str]] = []
    for g in s.size.layers:
        if g.kv_heads and g.key_dim and g.key_dim == g.value_dim and g.bytes_per_token:
            each = f"{g.bytes_per_token / (2 * g.kv_heads * g.key_dim):.6g}"
            numbers = (g.count, 2, g.kv_heads, g.key_dim, each)
            rows.append((g.kind, numbers, f"{g.count * g.bytes_per_token:,} B"))
    if not rows or len(rows) != sum(1 for g in s.size.layers if g.bytes_per_token):
        numbers_, _, result = s.size.formula.numbers.partition(" = ")
        return product("this model", ("", (numbers_,), f"{int(result):,} B"))
    rest = f"KV heads|head dim|bytes ({s.label})"
    if len(rows) > 1:  # the number of layers stands beside their kind
        made = [(kind.replace("_", " "), numbers, result) for kind, numbers, result in rows]
        return product(f"layers|K, V|{rest}", *made)
    ((_, (layers, two, *others), result),) = rows
    return product(f"K, V|layers|{rest}", ("", (two, layers, *others), result))


def _symbols(s: Subject) -> list[list[str]]:
    growing = [g for g in s.size.layers if g.bytes_per_token]
    if not growing:
        return [["s", "bytes of an element", s.label]]
    rows = [["L", "layers that keep it", " + ".join(str(g.count) for g in growing)]]
    headed = [g for g in growing if g.kv_heads]
    if headed:
        rows.append(["H_kv", "KV heads, not query heads", _or({g.kv_heads for g in headed})])
        rows.append(["d_h", "elements of a head", _or({g.key_dim for g in headed})])
    rows += [
        ["r_kv + d_rope", "elements of a latent and its key", str(g.key_dim)]
        for g in growing
        if g.kind == "latent"
    ]
    rows.append(["s", "bytes of an element", s.label])
    return rows


def _or(values: set[int | None]) -> str:
    return str(values.pop()) if len(values) == 1 else "differs by layer"


def _against_weights(s: Subject) -> str:
    if not s.weights.bytes or not s.token or s.size.bends or s.size.state_bytes_per_request:
        return "Weights are read by all requests; each cache belongs to one."
    tokens = cdiv(s.weights.bytes, s.token)
    about = "≈" if s.weights.basis == "estimated" else ""
    return (
        f"The weights of {s.name} take {about}{sized(s.weights.bytes)}; "
        f"{about}{tokens:,} cached tokens, over all requests, take as much."
    )


def gqa(s: Subject) -> Page:
    """MHA, GQA and MQA of the same model; what tensor parallelism does to the heads."""
    heads, own = s.model.query_heads, _kv_heads(s)
    if heads is None or own is None:
        return _no_groups(s)
    rows = []
    for name, count in (("MHA", heads), ("this model", own), ("MQA", 1)):
        size, at = s.token * count // own, s.bytes_at(s.context) * count // own
        rows.append([name, str(count), str(heads // count), sized(size), sized(at)])
    splits = [
        [f"--tp {n}", "1" if n >= own else str(own // n), "yes" if n > own else "no"]
        for n in (1, 2, 4, 8, 16)
        if own % n == 0 or n % own == 0
    ]
    return page(
        "gqa",
        "Sharing keys and values between heads",
        f"{s.name} has {heads} query heads and as many KV heads: nothing is shared."
        if heads == own
        else f"{s.name} has {heads} query heads and {own} KV heads, so its cache is "
        f"{trimmed(heads / own)}× smaller than with a key and a value for every query head.",
        [
            ("query_heads", heads, ""),
            ("kv_heads", own, ""),
            ("reduction", heads / own, "×"),
            ("mha_bytes_per_token", s.token * heads // own, "B"),
            ("actual_bytes_per_token", s.token, "B"),
            ("mqa_bytes_per_token", s.token // own, "B"),
        ],
        part(
            "Three ways",
            "Multi-head attention keeps a key and a value for each query head; grouped-query "
            "attention lets a group of query heads read the same ones; multi-query attention has "
            "one group. The work of the queries stays, the memory shrinks.",
            grid=grid(f"|>KV heads|>queries a head|>per token|>at {s.context:,} tokens", rows),
        ),
        part(
            "Across GPUs",
            f"Tensor parallelism splits the {own} KV head{'' if own == 1 else 's'}. Beyond that "
            "number each further GPU keeps a copy.",
            grid=grid("option|>KV heads on a GPU|copies", splits),
            commands=(f"kvcalc size {s.model.id} --tp 1,2,4,8,16",),
        ),
    )


def _kv_heads(s: Subject) -> int | None:
    """KV heads, where all that grows or waits is keys and values of as many heads in each layer."""
    groups = [g for g in s.size.layers if g.bytes_per_token or g.state_bytes]
    counts = {g.kv_heads for g in groups}
    return counts.pop() if len(counts) == 1 else None


def _no_groups(s: Subject) -> Page:
    """A model whose layers do not all keep keys and values of heads."""
    rows = [kinds_of(g) for g in s.size.layers]
    return page(
        "gqa",
        "Sharing keys and values between heads",
        f"{s.name} keeps more, or something else, than keys and values of equal heads: "
        f"{s.size.pattern}, {sized(s.token)} per token.",
        [("bytes_per_token", s.token, "B"), ("layers", s.size.model.layers, "")],
        part(
            "What it does instead",
            "Sharing heads is one way to a smaller cache. Others keep a window of tokens, one "
            "latent vector for all heads, or a state of fixed size.",
            grid=grid(
                "layers|kind|>heads|>elements of K and V|>B a token|>until|>B a request", rows
            ),
            commands=(f"kvcalc models show {s.model.id}",),
        ),
    )
