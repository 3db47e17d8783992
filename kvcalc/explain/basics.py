"""Pages on what the cache is: why, attention, stored."""

from __future__ import annotations

from kvcalc.core.results.explain import Page
from kvcalc.core.units import trimmed
from kvcalc.explain.subject import BLOCK, Subject, grid, page, part, sized
from kvcalc.explain.words import kinds_of, scale_of

#: The article's example of how much is generated.
_GENERATED = 1000


def why(s: Subject) -> Page:
    """Work without a cache grows with the square, with it by one pass a token."""
    n = min(_GENERATED, s.maximum)
    t = s.tradeoff(n)
    figures = [("kv_bytes", t.kv_bytes, "B")]
    rows = [["without", f"{t.uncached_token_passes:,}"], ["with", f"{t.cached_token_passes:,}"]]
    heads = "|>token passes"
    if t.uncached.projection_flops is not None and t.cached.projection_flops is not None:
        heads += "|>FLOPs of the weights"
        for row, work in zip(rows, (t.uncached, t.cached), strict=True):
            row.append(scale_of(work.projection_flops or 0))
        figures.append(("uncached_projection_flops", t.uncached.projection_flops, "FLOP"))
        figures.append(("cached_projection_flops", t.cached.projection_flops, "FLOP"))
    heads += "|>KV cache"
    for row, size in zip(rows, (0, t.kv_bytes), strict=True):
        row.append(sized(size) if size else "none")
    return page(
        "why",
        "Why a KV cache exists",
        f"Generating {n:,} tokens with {s.name} takes {t.uncached_token_passes:,} token passes "
        f"without a cache and {n:,} with it: {trimmed(t.ratio)}× less work for "
        f"{sized(t.kv_bytes)} of memory.",
        figures,
        part(
            "Without",
            "A model writes one token at a time, and each new token looks back at all before it. "
            "It needs a key and a value of each of them in every layer. Forgetting those means "
            "computing them again: token t costs t passes, and the first "
            f"{n:,} tokens cost 1 + 2 + … + {n:,}.",
        ),
        part(
            "With",
            "Keys and values depend only on tokens that are already written, so they never "
            "change. Kept in memory, each is computed once, and a step computes one token.",
            grid=grid(heads, rows),
        ),
        part(
            "The price",
            f"Compute is traded for memory: {_grows(s)}, held until the request ends. That memory, "
            "not compute, then says how many requests run at once.",
            commands=(f"kvcalc tradeoff {s.model.id} --tokens {n}",),
        ),
    )


def _grows(s: Subject) -> str:
    """What a token adds."""
    if not s.token:
        return f"{sized(s.bytes_at(s.context))} for each request of {s.name}, however long"
    return f"{sized(s.token)} more for each token of {s.name}"


def attention(s: Subject) -> Page:
    """The four steps of a decoded token, and what of them grows."""
    if not s.token:
        return _no_attention(s)
    t, one = s.context, s.bytes_at(s.context)
    headed = [g for g in s.size.layers if g.kv_heads and g.kind != "cross"]
    g = headed[0] if headed else None
    first = "the new token's vector, times the weights of every layer"
    kept = "the new key and value"
    if g is not None:
        queries = f"{s.model.query_heads} queries, " if s.model.query_heads else ""
        first = f"{queries}{g.kv_heads} keys and {g.kv_heads} values of {g.key_dim} a layer"
    elif any(x.kind == "latent" for x in s.size.layers):
        kept = "one latent vector a layer"
    steps = [
        ["1", "project", first, "the same for every token"],
        ["2", "append", kept, f"{sized(s.token)} in all layers"],
        [
            "3",
            "attend",
            f"query × {t:,} keys, softmax, sum of {t:,} values",
            f"reads {sized(one)} of cache",
        ],
        ["4", "predict", "scores for the vocabulary, of which one token is sampled", "once"],
    ]
    before, after = max(t // 2, 1), min(2 * t, s.maximum)
    rows = [[f"{n:,}", sized(s.bytes_at(n)), f"{s.bytes_at(n):,}"] for n in (before, t, after)]
    return page(
        "attention",
        "What attention reads",
        f"To write the token after {t:,} others, {s.name} computes one token and reads "
        f"{sized(one)} of keys and values.",
        [("read_bytes", one, "B"), ("append_bytes", s.token, "B")],
        part(
            "One step",
            "Attention(q, K, V) = softmax(q · Kᵀ / √d) · V: the new token's query is held against "
            "every stored key, and the stored values are mixed by how well they match.",
            grid=grid("step|what|of this model|cost", steps),
        ),
        part(
            "What a cache does not change",
            "Steps 1, 2 and 4 cost the same for every token. Step 3 grows with the context, cache "
            "or not: the cache saves computing old keys and values again, not reading them.",
            grid=grid(">tokens before|>cache read by one step|>bytes", rows),
            commands=(f"kvcalc size {s.model.id} -c {t}",),
        ),
    )


def _no_attention(s: Subject) -> Page:
    """A model of states alone: it reads the same amount whatever came before."""
    one = s.bytes_at(s.context)
    steps = [
        ["1", "project", "the new token's vector, times the weights of every layer"],
        ["2", "update", "the state of every layer, in place"],
        ["3", "read", f"that state: {sized(one)}"],
        ["4", "predict", "scores for the vocabulary, of which one token is sampled"],
    ]
    return page(
        "attention",
        "What a new token reads",
        f"{s.name} has no attention: a new token reads a state of {sized(one)}, whether 10 tokens "
        "came before it or a million.",
        [("state_bytes_per_request", one, "B"), ("layers", s.size.model.layers, "")],
        part(
            "One step",
            "A state sums up all tokens so far in a fixed number of elements. Nothing is appended, "
            "and nothing can be looked up again token by token.",
            grid=grid("step|what|of this model", steps),
            commands=(f"kvcalc size {s.model.id}",),
        ),
    )


def stored(s: Subject) -> Page:
    """What is in memory, layer by layer, and in which shape."""
    rows = [kinds_of(g) for g in s.size.layers]
    shapes = [x for x in s.size.shapes if len(x.contiguous) == 6]
    drawing = []
    if shapes:
        layers, _, batch, heads, tokens, dim = shapes[0].contiguous
        blocks = shapes[0].paged[0]
        drawing = [
            "contiguous  [layers, K and V, requests, KV heads, tokens, head dim]",
            f"            [{layers}, 2, {batch}, {heads}, {tokens}, {dim}]",
            "paged       [blocks, K and V, tokens of a block, KV heads, head dim] in each layer",
            f"            [{blocks}, 2, {BLOCK}, {heads}, {dim}]",
        ]
    one = s.bytes_at(s.context)
    return page(
        "stored",
        "What exactly is stored",
        f"For each request {s.name} keeps {sized(one)} at {s.context:,} tokens; its layers: "
        f"{s.size.pattern}.",
        [
            ("bytes_per_request", one, "B"),
            ("bytes_per_token", s.token, "B"),
            ("layers", s.size.model.layers, ""),
        ],
        part(
            "By layer",
            "Every layer keeps its own; nothing is shared between layers unless the model says so. "
            "Queries are not stored: each is used once.",
            grid=grid(
                "layers|kind|>heads|>elements of K and V|>B a token|>until|>B a request", rows
            ),
        ),
        part(
            "In memory",
            "An engine either reserves one tensor as long as the longest request, or cuts it into "
            "blocks and keeps a table of them."
            if drawing
            else "Layers of different kinds are kept in tensors of their own.",
            drawing=tuple(drawing),
            commands=(f"kvcalc size {s.model.id} -c {s.context}",),
        ),
    )
