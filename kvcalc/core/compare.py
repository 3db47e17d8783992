"""What each technique alone saves of one load's cache (the KV-cache article, section 8).

The baseline is B requests of n tokens, each with its own cache. Quality is what the article says
of its techniques; what it does not judge is not judged here either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kvcalc.core.alloc import allocated_bytes
from kvcalc.core.cache import Cache, Cross, Full, Latent, SlidingWindow
from kvcalc.core.dtypes import DTYPES, Storage, dtype
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import KvDtype
from kvcalc.core.results.compare import Assumed, CompareResult, LeftOut, Technique
from kvcalc.core.sharing import check_prefix, held, shared_bytes
from kvcalc.core.size import block_bytes, model_info

#: Formats of K and V that get a row, in this order; the rest differ little from one of them.
FORMATS = ("fp8", "int8_per_token_head", "int4_per_token_head", "nvfp4", "q8_0", "q4_0")
DESIGNED, SLIGHTLY = "negligible (designed in)", "slightly lower"
FP8, NONE, REUSE = "<1% loss", "none", "none (exact reuse)"
DISTANT, DEPENDS, UNJUDGED = "loses distant context", "depends on the model", "not judged here"
_NOTHING = "changes nothing: no layer holds more"


class Load(NamedTuple):
    """B requests of n tokens of a model, and their bytes."""

    model: Model
    storage: Storage
    context: int
    requests: int
    bytes: int


class Options(NamedTuple):
    """Parameters of the techniques, tokens; None is not given."""

    lengths: Sequence[int] = ()
    maximum: int | None = None
    shared_prefix: int | None = None
    prefix_copies: int = 1
    window: int | None = None
    keep: int | None = None
    block_size: int = 16


def compare(
    model: Model, storage: Storage, context: int, *, requests: int, options: Options
) -> CompareResult:
    """The load under each technique alone, in bytes.

    Args:
        model: The model as it is; its own windows, latents and states stay.
        storage: How K and V are stored in the baseline.
        context: Tokens n of each request.
        requests: Requests B of the load.
        options: The techniques' parameters. Not given are assumed: a window and a shared prefix of
            a quarter of n, an eighth of n kept, each rounded down to a power of two; naive
            allocation reserves the model's maximum.

    Raises:
        KvcalcError: "usage" or "context_too_long" where lengths, prefix, maximum and context
            contradict; "not_divisible" if the baseline's block format does not divide.
    """
    load = Load(model, storage, context, requests, requests * model.bytes_at(context, storage))
    given = options._replace(
        shared_prefix=options.shared_prefix or _power_below(context // 4),
        window=options.window or _power_below(context // 4),
        keep=options.keep or _power_below(context // 8),
    )
    reserved = _reserved(load, options)
    rows: list[Technique | LeftOut] = [
        *_heads(load),
        *_formats(load),
        _paging(load, given, reserved),
    ]
    for row, option in (
        (_prefix(load, given), options.shared_prefix),
        (_window(load, given), options.window),
        (_keep(load, given), options.keep),
    ):
        rows.append(row._replace(assumed=option is None))
    names = ("shared_prefix", "window", "keep")
    return CompareResult(
        model=model_info(model),
        kv_dtype=KvDtype(storage.k.key, storage.v.key),
        context_tokens=context,
        requests=requests,
        baseline_bytes=load.bytes,
        block_size=options.block_size,
        techniques=tuple(row for row in rows if isinstance(row, Technique)),
        assumed=tuple(
            Assumed(f"--{name.replace('_', '-')}", getattr(given, name))
            for name in names
            if getattr(options, name) is None
        ),
        left_out=tuple(row for row in rows if isinstance(row, LeftOut)),
        reserved_tokens=reserved,
        shared_prefix_tokens=given.shared_prefix or 0,
        window_tokens=given.window or 0,
        keep_tokens=given.keep or 0,
    )


def _power_below(n: int) -> int:
    """The largest power of two that is at most n, and at least 1."""
    return 1 << max(n.bit_length() - 1, 0)


def _row(
    technique: str, label: str, bytes_: int, before: int, quality: str, note: str = ""
) -> Technique:
    factor = before / bytes_ if bytes_ else None
    return Technique(technique, bytes_, before - bytes_, factor, quality, note, before, label)


def _heads(load: Load) -> list[Technique | LeftOut]:
    """The model's own heads against MHA of its query heads, and what one KV head would take."""
    model, heads = load.model, load.model.query_heads
    headed = [g.cache for g in model.groups if isinstance(g.cache, (Full, Cross))]
    own = sorted({c.kv_heads for c in headed})
    rows: list[Technique | LeftOut] = []
    mha = _with_heads(load, heads) if heads is not None else load.bytes
    if not any(isinstance(g.cache, (Full, Cross, Latent)) for g in model.groups):
        rows.append(LeftOut("gqa", "this model keeps no keys and values"))
    elif heads is None:
        rows.append(LeftOut("gqa", "without --query-heads MHA is not known"))
    elif mha > load.bytes:
        name = "mla" if not own else "mqa" if own == [1] else "gqa"
        kept = f"{own[0]}" if len(own) == 1 else f"{own[0]}–{own[-1]}" if own else ""
        label = (
            f"{name.upper()}, {kept} of {heads} KV heads"
            if own
            else f"MLA instead of {heads} heads"
        )
        note = f"this model, against keys and values of all {heads} heads"
        rows.append(_row(name, label, load.bytes, mha, DESIGNED if own else UNJUDGED, note))
    elif own:
        rows.append(LeftOut("gqa", f"this model is MHA: all {heads} heads keep keys and values"))
    else:
        rows.append(LeftOut("gqa", "keys and values by head are not known of this model"))
    if own and own != [1]:
        note = "another model: heads are trained in, not set; against MHA"
        try:
            one = _with_heads(load, 1)
        except KvcalcError as error:
            rows.append(LeftOut("mqa", error.message))
        else:
            rows.append(_row("mqa", "MQA, 1 KV head", one, mha, SLIGHTLY, note))
    return rows


def _with_heads(load: Load, heads: int) -> int:
    """Bytes of the load if each attention layer kept K and V of `heads` heads."""
    return load.requests * sum(
        len(g.layers) * _headed(g.cache, heads).bytes_at(load.context, load.storage)
        for g in load.model.groups
    )


def _headed(cache: Cache, heads: int) -> Cache:
    if isinstance(cache, (Full, Cross)):
        return replace(cache, kv_heads=heads)
    if isinstance(cache, Latent) and None not in {cache.heads, cache.nope_dim, cache.value_dim}:
        # What the latent is expanded to: keys of nope + rope, values of their own width.
        shape = {
            "kv_heads": cache.heads or 0,
            "key_dim": (cache.nope_dim or 0) + cache.rope_dim,
            "value_dim": cache.value_dim or 0,
        }
        return (
            Full(**shape) if cache.window is None else SlidingWindow(**shape, window=cache.window)
        )
    return cache


def _formats(load: Load) -> list[Technique | LeftOut]:
    """Each format of `FORMATS` for both K and V; only those that take fewer bytes."""
    rows: list[Technique | LeftOut] = []
    for name in FORMATS:
        technique = f"kv_{name}"
        found = dtype(name)
        try:
            one = load.model.bytes_at(load.context, Storage(found, found, load.storage.model))
        except KvcalcError as error:
            rows.append(LeftOut(technique, error.message))
            continue
        if load.requests * one >= load.bytes:
            if name != load.storage.k.key:
                rows.append(LeftOut(technique, f"takes no less than {load.storage.label}"))
            continue
        ggml = "llama.cpp" in DTYPES[name].engines
        label = f"KV {name} (llama.cpp)" if ggml else f"KV {name}"
        note = found.note
        if found.engines:
            note += f"; {', '.join(found.engines)}"
        quality = FP8 if name == "fp8" else UNJUDGED
        rows.append(_row(technique, label, load.requests * one, load.bytes, quality, note))
    return rows


def _reserved(load: Load, options: Options) -> int | None:
    """Tokens that naive allocation reserves: as given, or the model's maximum.

    Raises:
        KvcalcError: "usage" for lengths without a maximum; "context_too_long" beyond it.
    """
    most = options.maximum or load.model.max_context_tokens
    if most is None:
        if options.lengths:
            raise KvcalcError(
                "usage", "--request needs --max-context: what naive allocation reserves",
                "like --request 500 --request 3800 --max-context 4096",
            )  # fmt: skip
        return None
    longest, option = max((n, "--request") for n in options.lengths or (load.context,))
    option = option if options.lengths else "-c"
    if options.maximum is not None and longest > most:
        raise KvcalcError(
            "context_too_long", f"{option} {longest:,} is longer than --max-context {most:,}",
            f"--max-context {longest} or more; a request cannot outgrow what was reserved",
        )  # fmt: skip
    return max(most, longest)


def _paging(load: Load, options: Options, reserved: int | None) -> Technique | LeftOut:
    """Whole blocks for what requests use, against reserving the maximum for each."""
    model, s, size = load.model, load.storage, options.block_size
    if reserved is None:
        return LeftOut("paging", "no maximum is known that naive allocation would reserve: "
                       "--max-context")  # fmt: skip
    lengths = options.lengths or [load.context]
    each = 1 if options.lengths else load.requests
    naive = each * sum(allocated_bytes("naive", model, s, n, reserved, size) for n in lengths)
    paged = each * sum(block_bytes(model, s, n, size) for n in lengths)
    whose = "the model's maximum" if options.maximum is None else f"{reserved:,} tokens"
    note = f"naive allocation reserves {whose} for each request"
    if options.lengths:
        note = f"{len(lengths):,} requests of {sum(lengths):,} tokens in all; {note}"
    elif load.context == reserved:
        note = f"-c is all of {whose}: nothing is reserved in vain"
    return _row("paging", f"pages of {size:,}, not {reserved:,}", paged, naive, NONE, note)


def _prefix(load: Load, options: Options) -> Technique:
    """The first tokens stored once for each of their copies; only whole blocks are shared."""
    asked, size = options.shared_prefix or 0, options.block_size
    check_prefix(asked, load.context)
    whole = asked // size * size
    shared = shared_bytes(load.model, load.storage, load.context, whole)
    copies = options.prefix_copies
    one = load.model.bytes_at(load.context, load.storage)
    after = held(load.requests, one, shared, copies)
    times = "once" if copies == 1 else f"{copies:,} times"
    note = f"{whole:,} tokens in whole blocks of {size:,}, stored {times} for all"
    if load.requests <= copies:
        alone = "one request shares with nobody" if load.requests == 1 else "no two requests share"
        note = f"{alone}: -n {copies + 1} or more"
    return _row("prefix_caching", f"shared prefix {asked:,}", after, load.bytes, REUSE, note)


def _window(load: Load, options: Options) -> Technique:
    """min(n, W) in every layer: the cache of a request of that many tokens."""
    width = options.window or 0
    after = _at_most(load, width)
    note = f"no layer keeps more than its last {width:,}" if after < load.bytes else _NOTHING
    label = f"window {width:,}, all layers"
    return _row("sliding_window", label, after, load.bytes, DISTANT, note)


def _keep(load: Load, options: Options) -> Technique:
    """min(n, K) tokens stay, those with the most attention."""
    kept = options.keep or 0
    after = _at_most(load, kept)
    note = f"no layer keeps more than {kept:,}" if after < load.bytes else _NOTHING
    return _row("token_eviction", f"keep {kept:,} tokens", after, load.bytes, DEPENDS, note)


def _at_most(load: Load, tokens: int) -> int:
    """Bytes if no layer held more than `tokens`: layers with a smaller window keep theirs."""
    return load.requests * load.model.bytes_at(min(load.context, tokens), load.storage)
