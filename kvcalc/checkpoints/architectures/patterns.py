"""Which layers slide where the file lists no layer types: the rules of the config classes.

A row's P names a rule and its arguments, "every,4,sliding_window_pattern". Without P the window
decides: set, it holds for every layer; then the chunk; else all layers are full.
"""

from __future__ import annotations

from collections.abc import Callable

from kvcalc.checkpoints.architectures.shape import Shape

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"


def layer_kinds(s: Shape) -> list[str]:
    """The listed types of the layers, else the pattern of the class.

    Raises:
        KvcalcError: "invalid_config" for a damaged list or pattern.
    """
    listed = s.kinds()
    if listed is not None:
        return listed
    rule, *arguments = s.row.get("P", "window").split(",")
    kinds = RULES[rule](s, s.layer_count, arguments)
    if "P" in s.row and SLIDING in kinds and s.window is None:
        return [FULL if kind == SLIDING else kind for kind in kinds]
    names = dict.fromkeys(kinds)
    if len(names) > 1:
        s.f.note("layer_types", ", ".join(f"{kinds.count(name)} {name}" for name in names))
    return kinds


def slide_unless(count: int, is_full: Callable[[int], bool]) -> list[str]:
    """Sliding layers but for those that `is_full` picks."""
    return [FULL if is_full(i) else SLIDING for i in range(count)]


def _window(s: Shape, n: int, _: list[str]) -> list[str]:
    """A window of all layers, else a chunk, else full."""
    return [SLIDING if s.window else CHUNKED if s.chunk else FULL] * n


def _full(_s: Shape, n: int, _: list[str]) -> list[str]:
    return [FULL] * n


def _every(s: Shape, n: int, arguments: list[str]) -> list[str]:
    """Every p-th layer is full; p may stand in the file, as a number or as letters (LLLG)."""
    period = int(arguments[0])
    field = arguments[1] if len(arguments) > 1 else ""
    letters = s.f.get(field) if field else None
    if isinstance(letters, str):
        if not letters or set(letters) - set("LG"):
            raise s.f.bad(field, "a period, or L and G for local and global layers")
        return slide_unless(n, lambda i: letters[i % len(letters)] == "G")
    if field and s.window:  # without a window the period does not matter
        period = s.f.count(field, default=period)
    return slide_unless(n, lambda i: (i + 1) % period == 0)


def _every_and_last(s: Shape, n: int, arguments: list[str]) -> list[str]:
    """As `_every`, and the last layer is full (Gemma 4)."""
    return [*_every(s, n, arguments)[:-1], FULL]


def _each(s: Shape, n: int, arguments: list[str]) -> list[str]:
    """Layer 0 and every p-th after it are full."""
    period = int(arguments[0])
    if len(arguments) > 1:
        period = s.f.count(arguments[1], default=period)
    return slide_unless(n, lambda i: i % period == 0)


def _counted_from_end(_s: Shape, n: int, arguments: list[str]) -> list[str]:
    """The last layer and every p-th before it are full (Muse)."""
    return slide_unless(n, lambda i: (n - 1 - i) % int(arguments[0]) == 0)


def _mimo(s: Shape, n: int, _: list[str]) -> list[str]:
    """The first layer and every 6th; published files list 1 for a window (MiMo-V2)."""
    listed = s.f.counts("hybrid_layer_pattern", high=1)
    if listed is None:
        return slide_unless(n, lambda i: i == 0 or (i + 1) % 6 == 0)
    if len(listed) < n:
        raise s.f.wrong_length("hybrid_layer_pattern", n, len(listed))
    return slide_unless(n, lambda i: not listed[i])


def _flint(_s: Shape, n: int, _: list[str]) -> list[str]:
    return slide_unless(n, lambda i: i < 2 or i % 4 == 1 or i == n - 1)


def _above(s: Shape, n: int, arguments: list[str]) -> list[str]:
    """Layers from max_window_layers on slide (Qwen 2, dots.llm1)."""
    if s.window is None:
        return [FULL] * n
    first = s.f.count("max_window_layers", default=int(arguments[0]), low=0)
    return slide_unless(n, lambda i: i < first)


def _odd_below(s: Shape, n: int, arguments: list[str]) -> list[str]:
    """Every other layer below max_window_layers slides (Qwen2-MoE)."""
    if s.window is None:
        return [FULL] * n
    first = s.f.count("max_window_layers", default=int(arguments[0]), low=0)
    return slide_unless(n, lambda i: i % 2 == 1 or i >= first)


def _without_rope(s: Shape, n: int) -> list[bool]:
    """Which layers have no rotary embedding: no_rope_layers holds 0 there."""
    listed = s.f.counts("no_rope_layers", high=1)
    if listed:
        if len(listed) < n:
            raise s.f.wrong_length("no_rope_layers", n, len(listed))
        return [flag == 0 for flag in listed[:n]]
    interval = s.f.count("no_rope_layer_interval", default=4)
    return [(i + 1) % interval == 0 for i in range(n)]


def _llama4(s: Shape, n: int, _: list[str]) -> list[str]:
    """Layers with rotary embedding are chunked."""
    if s.chunk is None:
        return [FULL] * n
    return [FULL if bare else CHUNKED for bare in _without_rope(s, n)]


def _smollm3(s: Shape, n: int, _: list[str]) -> list[str]:
    """Layers without rotary embedding slide, if use_sliding_window."""
    if s.window is None:
        return [FULL] * n
    return [SLIDING if bare else FULL for bare in _without_rope(s, n)]


def _cohere2_moe(s: Shape, n: int, _: list[str]) -> list[str]:
    """The dense layers in front have a period of their own."""
    front = min(s.f.count("first_k_dense_replace", default=0, low=0), n)
    first = s.f.count("prefix_dense_sliding_window_pattern", default=1)
    rest = s.f.count("sliding_window_pattern", default=4)
    return slide_unless(front, lambda i: (i + 1) % first == 0) + slide_unless(
        n - front, lambda i: (i + 1) % rest == 0
    )


RULES: dict[str, Callable[[Shape, int, list[str]], list[str]]] = {
    "window": _window,
    "full": _full,
    "every": _every,
    "every_and_last": _every_and_last,
    "each": _each,
    "from_end": _counted_from_end,
    "mimo": _mimo,
    "flint": _flint,
    "above": _above,
    "odd_below": _odd_below,
    "llama4": _llama4,
    "smollm3": _smollm3,
    "cohere2_moe": _cohere2_moe,
}
