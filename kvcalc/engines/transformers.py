"""What transformers 5.24 keeps for a model: exact bytes, batch and dtype given.

It differs from the textbook in what its cache classes do: a window of W keeps W − 1 tokens once a
step is done, short convolutions keep K columns and not K − 1, recurrent states are float32,
Falcon's new decoder stores every query head. Sources: the cache classes, and runs of the models.
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    Shared,
    SlidingWindow,
    State,
)
from kvcalc.core.dtypes import Dtype, dtype
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model

VERSION = "5.24.0"
#: What the engine understands under --set.
SETTINGS = ("cache_implementation", "max_cache_len")


#: Models whose modules take no cache.
NO_CACHE = frozenset({"openai-gpt"})


class Item(NamedTuple):
    """Equal caches of several layers: all their bytes, for the whole batch."""

    item: str
    layers: int
    #: Tokens (or entries, or state columns) that each layer holds.
    cells: int
    key_bytes: int
    value_bytes: int
    bytes: int


class Stored(NamedTuple):
    """What transformers stores: one item a group of layers, and their sum."""

    items: tuple[Item, ...]
    total_bytes: int


class Step(NamedTuple):
    """The request that is sized: tokens seen, batch, element formats, a static length if any."""

    tokens: int
    batch: int
    element: int
    max_cache_len: int | None
    model: Model


#: Element counts of a cache: cells, elements of keys and of values, bytes beside them.
class Parts(NamedTuple):
    """What one layer holds for one request: key and value bytes."""

    cells: int
    key_bytes: int
    value_bytes: int


def cache_bytes(
    model: Model,
    tokens: int,
    *,
    batch: int = 1,
    kv_dtype: str | None = None,
    cache_implementation: str = "dynamic",
    max_cache_len: int | None = None,
) -> Stored:
    """The cache of `batch` requests of `tokens` each, after prefill or any number of steps.

    Args:
        model: The model; its layers say what is kept.
        tokens: Tokens seen so far, prompt and generated.
        batch: Sequences in the batch.
        kv_dtype: The dtype the model runs in (transformers stores K and V in it); default its own.
        cache_implementation: "dynamic", or "static", which allocates its length at once.
        max_cache_len: The length of a static cache; default `tokens`.

    Raises:
        KvcalcError: "unknown_dtype" for a block format; "unknown_setting" for another cache;
            "context_too_long" beyond a static cache's length; "unsupported_architecture" where
            transformers has no static cache, or none at all.
    """
    if cache_implementation not in ("dynamic", "static"):
        raise KvcalcError(
            "unknown_setting",
            f"cache_implementation={cache_implementation} is not sized",
            "use dynamic or static",
        )
    length = None
    if cache_implementation == "static":
        length = tokens if max_cache_len is None else max_cache_len
        if tokens > length:
            raise KvcalcError(
                "context_too_long",
                f"{tokens:,} tokens do not fit max_cache_len={length:,}",
                "a static cache is allocated for its whole length: raise max_cache_len",
            )
    if model.architecture in NO_CACHE:
        raise KvcalcError(
            "unsupported_architecture",
            f"transformers keeps no cache for {model.architecture}: it computes every token anew",
            "leave --engine transformers out for what a cache would take",
        )
    step = step_of(model, tokens, batch, kv_dtype)._replace(max_cache_len=length)
    items = []
    for group in model.groups:
        part = parts(group.cache, step)
        n = len(group.layers) * batch
        items.append(Item(
            item=group.cache.kind,
            layers=len(group.layers),
            cells=part.cells,
            key_bytes=n * part.key_bytes,
            value_bytes=n * part.value_bytes,
            bytes=n * (part.key_bytes + part.value_bytes),
        ))  # fmt: skip
    return Stored(tuple(items), sum(item.bytes for item in items))


def step_of(model: Model, tokens: int, batch: int = 1, kv_dtype: str | None = None) -> Step:
    """A request without a static length.

    Raises:
        KvcalcError: "unknown_dtype" for a format that transformers does not compute in.
    """
    return Step(tokens, batch, plain(dtype(kv_dtype or model.dtype)), None, model)


def plain(d: Dtype) -> int:
    """Bytes of an element: transformers stores keys and values as the model computes them.

    Raises:
        KvcalcError: "unknown_dtype" for formats of blocks or of a byte.
    """
    if d.key not in ("bf16", "fp16", "fp32"):
        raise KvcalcError(
            "unknown_dtype",
            f"transformers keeps its cache in the model's dtype, not in {d.key}",
            "use bf16, fp16 or fp32",
        )
    return d.block_bytes


def parts(cache: Cache, step: Step) -> Parts:
    """What one layer keeps for one request.

    Raises:
        KvcalcError: "unsupported_architecture" for a static cache that transformers does not have.
    """
    if isinstance(cache, Full):
        cells, heads = attention_cells(cache, step), stored_heads(cache, step.model)
        return Parts(cells, cells * heads * cache.key_dim * step.element,
                     cells * heads * cache.value_dim * step.element)  # fmt: skip
    if isinstance(cache, Latent):
        return latent(cache, step)
    if isinstance(cache, Indexer) and (cache.ratio == 1 or unpooled(step.model)):
        return indexer(cache, step)
    if isinstance(cache, Compressed):
        return compressed(cache, step)
    if isinstance(cache, Cross):
        n, heads = cache.encoder_tokens, cache.kv_heads
        return Parts(n, n * heads * cache.key_dim * step.element,
                     n * heads * cache.value_dim * step.element)  # fmt: skip
    if isinstance(cache, State):
        return state(cache, step)
    if isinstance(cache, Shared):
        return Parts(0, 0, 0)
    raise KvcalcError("internal", f"transformers: no rule for a cache of kind {cache.kind}")


def kept(window: int, tokens: int) -> int:
    """Tokens of a dynamic window: the last W − 1 (a window of 1 slices from 0 and keeps all)."""
    return tokens if window == 1 else min(tokens, window - 1)


def attention_cells(cache: Full, step: Step) -> int:
    """Tokens that a layer keeps: a static cache has its full length, capped at the window."""
    window = None
    if isinstance(cache, SlidingWindow):
        window = cache.window
    elif isinstance(cache, Chunked):  # the same class: only the mask differs
        window = cache.chunk
    if step.max_cache_len is not None:
        return step.max_cache_len if window is None else min(window, step.max_cache_len)
    return step.tokens if window is None else kept(window, step.tokens)


def stored_heads(cache: Full, model: Model) -> int:
    """KV heads, but for Falcon's new decoder, which broadcasts them to all query heads first."""
    if model.architecture == "falcon" and cache.kv_heads > 1 and model.query_heads:
        return model.query_heads
    return cache.kv_heads


def latent(cache: Latent, step: Step) -> Parts:
    """The latent as keys and the rope key as values; DeepSeek-V4's are one tensor."""
    if step.max_cache_len is not None:
        cells = min(cache.window or step.max_cache_len, step.max_cache_len)
        if step.model.architecture == "deepseek_v4":
            raise no_static(step.model)
    elif cache.window is not None:
        cells = kept(cache.window, step.tokens)
    else:
        cells = step.tokens
    return Parts(cells, cells * cache.rank * step.element, cells * cache.rope_dim * step.element)


#: Indexer keys that stay float32, and bytes beside a token's key (Qwen4 keeps three positions).
FLOAT_INDEXERS = frozenset({"dots3_note_text"})
POSITION_BYTES = {"qwen4_exp_text": 24}


def unpooled(model: Model) -> bool:
    """GLM-5-Next pools its indexer's keys on reading: each token's key, gate and flag stay."""
    return model.architecture == "glm5_next_text"


def indexer(cache: Indexer, step: Step) -> Parts:
    """One key a token, in the model's dtype."""
    cells = step.tokens if step.max_cache_len is None else step.max_cache_len
    if unpooled(step.model):
        return Parts(cells, cells * (2 * cache.dim + 1) * step.element, 0)
    element = 4 if step.model.architecture in FLOAT_INDEXERS else step.element
    beside = step.tokens * POSITION_BYTES.get(step.model.architecture or "", 0)
    return Parts(cells, cells * cache.dim * element + beside, 0)


def compressed(cache: Compressed, step: Step) -> Parts:
    """DeepSeek-V4: floor(n / r) entries, and the keys and gates of tokens not yet compressed.

    At ratio 4 entries overlap: tokens in waiting carry two halves, and the last closed window
    keeps one of them.
    """
    if step.max_cache_len is not None:
        raise no_static(step.model)
    n, r, dim = step.tokens, cache.ratio, cache.dim
    entries = n // r
    overlaps = overlapping(cache, step.model)
    waiting = n % r * dim * (2 if overlaps else 1)
    window = r * dim if overlaps and entries else 0
    elements = entries * dim + 2 * (waiting + window)
    return Parts(entries, elements * step.element, 0)


def overlapping(cache: Compressed, model: Model) -> bool:
    """Whether a compressed cache is of the overlapping kind: an indexer stands beside it."""
    return isinstance(cache, Indexer) or any(
        cache in layer and any(isinstance(c, Indexer) for c in layer) for layer in model.layers
    )


def no_static(model: Model) -> KvcalcError:
    """The error where transformers has only a dynamic cache."""
    return KvcalcError(
        "unsupported_architecture",
        f"transformers has no static cache for {model.architecture}",
        "leave cache_implementation out",
    )


#: Variants that keep K − 1 columns: their modules hold the state, not the cache.
EXACT_COLUMNS = frozenset({"rg_lru", "rwkv4", "cca"})
#: Variants whose recurrent state is in the model's dtype.
MODEL_DTYPE = frozenset({"lightning", "mlstm", "cca"})
#: Variants with a cache class of their own, or none.
OWN_CACHE = frozenset({"lightning", "mlstm", "rwkv4"})


def state(cache: State, step: Step) -> Parts:
    """Conv columns as keys, the recurrent state as values.

    Raises:
        KvcalcError: "unsupported_architecture" for a static cache beside a state of its own.
    """
    if step.max_cache_len is not None and cache.variant in OWN_CACHE:
        raise no_static(step.model)
    columns = cache.conv_kernel - (1 if cache.variant in EXACT_COLUMNS else 0)
    if not cache.conv_channels:
        columns = 0
    conv = step.element if cache.conv_dtype is None else dtype(cache.conv_dtype).block_bytes
    recurrent = step.element if cache.variant in MODEL_DTYPE else 4
    return Parts(columns, columns * cache.conv_channels * conv,
                 cache.recurrent_elements * recurrent)  # fmt: skip
