"""A core model as the text of a preset file: what `decode` reads back to the same model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvcalc.catalog.pattern import write_pattern
from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Latent,
    Shared,
    SlidingWindow,
    State,
)
from kvcalc.core.model import Model, short_name

Value = int | str | None | Iterable[object]
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
#: Longer numbers are grouped by thousands.
_GROUPED = 10**6


def preset_text(
    model: Model,
    *,
    aliases: Iterable[str] = (),
    texts: Iterable[str] = (),
    notes: Iterable[str] = (),
    checked: str | None = None,
    fields: Mapping[Cache, Mapping[str, str]] | None = None,
) -> str:
    """The preset file of `model`.

    Args:
        model: Its `source` and `file` are not written: a reader sets them.
        aliases: Further names it answers to.
        texts: Where its figures come from.
        notes: What a reader should know.
        checked: The date, as 2026-11-29.
        fields: For a cache, the config field behind each of its numbers.
    """
    names = _names(model)
    uniform = len(names) == 1 and all(len(layer) == 1 for layer in model.layers)
    weights = model.weights
    parts = [
        _lines({"id": model.id, "name": model.name, "hub": model.hub, "aliases": aliases,
                "architecture": model.architecture}),
        _lines({"query_heads": model.query_heads, "hidden_size": model.hidden_size,
                "vocab_size": model.vocab_size, "max_context_tokens": model.max_context_tokens,
                "dtype": model.dtype, "defaulted": [list(pair) for pair in model.defaulted]}),
        "" if uniform else _lines({"pattern": write_pattern(
            [tuple(names[cache] for cache in layer) for layer in model.layers])}),
        _table("[parameters]", {"total": model.parameters, "stored": model.stored_parameters,
                                "active": model.active_parameters}),
        _table("[weights]", {"dtype": weights.dtype, "bytes": weights.bytes,
                             "embedding_elements": weights.embedding_elements,
                             "low_bytes": weights.low_bytes, "high_bytes": weights.high_bytes}
               if weights else {}),
        _table("[weights.types]", {_key(kind): size for kind, size in weights.types}
               if weights else {}),
        _table("[experts]", {"count": model.experts, "per_token": model.experts_per_token}),
        *(_layer(cache, {"count": len(model.layers)} if uniform else {"name": name},
                 (fields or {}).get(cache, {})) for cache, name in names.items()),
        _table("[source]", {"texts": texts, "checked": checked, "confidence": model.confidence,
                            "notes": notes}),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def _names(model: Model) -> dict[Cache, str]:
    """A name for each distinct cache, in order of first appearance: window, full, full-2."""
    names: dict[Cache, str] = {}
    for layer in model.layers:
        for cache in layer:
            if cache not in names:
                base = short_name(cache).partition("(")[0].lower()
                taken = sum(name.partition("-")[0] == base for name in names.values())
                names[cache] = f"{base}-{taken + 1}" if taken else base
    return names


def _layer(cache: Cache, head: Mapping[str, Value], fields: Mapping[str, str]) -> str:
    text = _table("[[layers]]", {**head, "kind": cache.kind, **numbers(cache)})
    return text + _table("[layers.from]", fields)


def numbers(cache: Cache) -> dict[str, Value]:
    """A cache's keys in a preset; those at their default are None and not written."""
    if isinstance(cache, (Full, Cross)):
        heads: dict[str, Value] = {
            "kv_heads": cache.kv_heads, "key_dim": cache.key_dim, "value_dim": cache.value_dim,
        }  # fmt: skip
        if isinstance(cache, SlidingWindow):
            return {**heads, "window_tokens": cache.window}
        if isinstance(cache, Chunked):
            return {**heads, "chunk_tokens": cache.chunk}
        return (
            {**heads, "encoder_tokens": cache.encoder_tokens} if isinstance(cache, Cross) else heads
        )
    if isinstance(cache, Latent):
        return {
            "rank": cache.rank, "rope_dim": cache.rope_dim, "window_tokens": cache.window,
            "heads": cache.heads, "nope_dim": cache.nope_dim, "value_dim": cache.value_dim,
        }  # fmt: skip
    if isinstance(cache, Compressed):
        return {"dim": cache.dim, "ratio": None if cache.ratio == 1 else cache.ratio}
    if isinstance(cache, State):
        return {"variant": cache.variant,
                "conv_kernel": None if cache.conv_kernel == 1 else cache.conv_kernel,
                "conv_channels": cache.conv_channels or None,
                "recurrent_elements": cache.recurrent_elements or None,
                "conv_dtype": cache.conv_dtype, "recurrent_dtype": cache.recurrent_dtype,
                "heads": cache.heads, "groups": cache.groups or None,
                "group_channels": cache.group_channels or None}  # fmt: skip
    if isinstance(cache, Shared):
        return {}
    raise TypeError(f"no preset form for {type(cache).__name__}")


def _table(head: str, keys: Mapping[str, Value]) -> str:
    body = _lines(keys)
    return f"{head}\n{body}" if body or head == "[[layers]]" else ""


def _lines(keys: Mapping[str, Value]) -> str:
    """`key = value` lines; None and empty lists are left out."""
    lines = ""
    for key, value in keys.items():
        if value is not None and (text := _value(value)) != "[]":
            lines += f"{key} = {text}\n"
    return lines


def _key(word: str) -> str:
    """A key as TOML needs it: bare where it can be."""
    bare = word.isascii() and word.replace("_", "").replace("-", "").isalnum()
    return word if bare else _value(word)


def _value(value: object) -> str:
    if isinstance(value, str):
        return f'"{"".join(map(_escaped, value))}"'
    if isinstance(value, int):
        return f"{value:_}" if abs(value) >= _GROUPED else str(value)
    assert isinstance(value, Iterable)  # noqa: S101 - the three forms of Value
    return f"[{', '.join(map(_value, value))}]"


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\U{ord(character):08x}"
