"""kvcalc.size: how big the KV cache of a model is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kvcalc import resolve
from kvcalc.core import size as core
from kvcalc.core.cache import Compressed
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import EngineInfo, Warn
from kvcalc.core.results.size import ImageTokens, SizeResult, Stored
from kvcalc.core.shard import Parallel
from kvcalc.core.sharing import check_prefix
from kvcalc.core.units import parse_count
from kvcalc.shape import Count, Shape


def size(
    model: str | Model | None = None,
    *,
    context: Count | Sequence[Count] | None = None,
    request: Sequence[Count] = (),
    image: str | Sequence[str] = (),
    requests: Count = 1,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
    weights: str | None = None,
    weight_bytes: Count | None = None,
    engine: str = "none",
    engine_version: str | None = None,
    set: Mapping[str, object] | None = None,
    block_size: Count | None = None,
    tp: Count = 1,
    pp: Count = 1,
    pp_layers: Count | Sequence[Count] = (),
    dcp: Count = 1,
    encoder_tokens: Count | None = None,
    shared_prefix: Count | None = None,
    prefix_copies: Count | None = None,
    include_mtp: bool = False,
    allow_long_context: bool = False,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> SizeResult:
    """The size of one model's KV cache, in bytes.

    Args:
        model: A preset's id or alias, a hub name, a path, or None with a shape by numbers.
        context: Tokens of one request; several give several entries of `contexts`. Default: 4,096
            (or the model's maximum if smaller) and the maximum.
        request: Tokens of each request of an unequal batch.
        image: "WIDTHxHEIGHT" of images in the prompt; without a context, what they take alone.
        requests: How many requests of that context.
        kv_dtype: Storage of K and V; `auto` is 2 bytes.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = resolve.model_of(model, shape, encoder_tokens)
    if include_mtp:
        found = _with_mtp(found, model)
    storage = resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype)
    parallel = resolve.parallel_of(tp, pp, 1, dcp, pp_layers=pp_layers)
    page = None if block_size is None else parse_count(block_size, "--block-size")
    count = parse_count(requests, "-n")
    copies = resolve.prefix_copies_of(prefix_copies, shared_prefix)
    images = _images(found, [image] if isinstance(image, str) else image)
    contexts = _contexts(
        found, context, sum(i.tokens for i in images), allow_long=allow_long_context
    )
    shared = _shared_prefix(shared_prefix, contexts)
    info, store = EngineInfo("none"), None
    if engine != "none" or engine_version or set:
        k, v = (
            None if d in {None, "auto"} else d for d in (k_dtype or kv_dtype, v_dtype or kv_dtype)
        )
        info, store, contexts, count = _engine(
            engine, resolve.version_of(engine_version), set or {},
            (found, storage, k, v, dtype, parallel, page), contexts, count, (shared or 0, copies),
        )  # fmt: skip
    return core.size(
        found,
        storage,
        contexts,
        weights=resolve.weights_of(found, weights, weight_bytes),
        requests=count,
        batch=[
            resolve.context_of(found, r, allow_long=allow_long_context, option="--request")
            for r in request
        ],
        parallel=parallel,
        block_size=page or 16,
        shared_prefix=shared,
        prefix_copies=copies,
        images=images,
        engine=info,
        store=store,
        warnings=_warnings(found, contexts, shared, batch=bool(request)),
    )


def _shared_prefix(prefix: Count | None, contexts: list[int]) -> int | None:
    """Tokens of --shared-prefix.

    Raises:
        KvcalcError: "usage" where no context is as long.
    """
    if prefix is None:
        return None
    tokens = parse_count(prefix, "--shared-prefix")
    check_prefix(tokens, max(contexts))
    return tokens


def _images(model: Model, sizes: Sequence[str]) -> tuple[ImageTokens, ...]:
    if not sizes:
        return ()
    from kvcalc.core.images import image_tokens  # noqa: PLC0415 - images alone

    return tuple(image_tokens(model.architecture, size) for size in sizes)


def _with_mtp(found: Model, name: str | Model | None) -> Model:
    """The model with the draft layers that its config.json names, which only speculation uses.

    Raises:
        KvcalcError: "usage" for a model that is not read from a config.json.
    """
    from dataclasses import replace  # noqa: PLC0415 - loaded already

    from kvcalc.checkpoints.config import read_config  # noqa: PLC0415 - on request alone

    if not isinstance(name, str) or found.source != "config.json":
        raise KvcalcError(
            "usage", f"--include-mtp: {found.id} is not read from a config.json",
            "name the file, or the folder that holds it",
        )  # fmt: skip
    return replace(found, layers=read_config(name, include_mtp=True).layers)


def _warnings(
    model: Model, contexts: list[int], prefix: int | None, *, batch: bool
) -> tuple[Warn, ...]:
    """What the asker should know beside the figures."""
    found = []
    most = model.max_context_tokens
    if most is not None and max(contexts) > most:
        text = f"{max(contexts):,} tokens are more than {model.id}'s maximum of {most:,}"
        found.append(Warn("beyond_maximum", text))
    if prefix is not None and prefix > min(contexts):
        found.append(Warn("prefix_clipped", "the shared prefix is longer than a context"))
    if prefix is not None and batch:
        text = "the batch of --request counts no shared prefix; the requests of -c and -n do"
        found.append(Warn("batch_unshared", text))
    if any(type(g.cache) is Compressed for g in model.groups):
        text = "engines also keep compressor states of a fixed size; size --engine counts them"
        found.append(Warn("not_counted", text))
    return tuple(found)


def _engine(
    name: str,
    version: str | None,
    given: Mapping[str, object],
    what: tuple[Model, Storage, str | None, str | None, str | None, Parallel, int | None],
    contexts: list[int],
    requests: int,
    prefix: tuple[int, int],
) -> tuple[EngineInfo, Callable[[int, int], Stored] | None, list[int], int]:
    """The engine's rules: what it stores, and the contexts and requests its settings imply.

    llama.cpp's n_ctx (over all slots) and n_seq_max replace -c and -n.
    """
    from kvcalc.engines import registry, storage  # noqa: PLC0415 - the textbook needs neither

    engine = registry.engine_of(name)
    settings = registry.settings_of(engine, given)
    if version is not None and not engine.versioned:
        raise KvcalcError("usage", f"--engine-version: {engine.id} has one set of rules", None)
    if engine.id == "none":
        return EngineInfo("none"), None, contexts, requests
    requests = int(settings.get("n_seq_max", requests))
    if "n_ctx" in settings:
        contexts = [max(1, int(settings["n_ctx"]) // requests)]
    model, kv, k, v, dtype, parallel, page = what
    ask = storage.Ask(model, kv, k, v, dtype, settings, parallel, page, version, *prefix)
    info = EngineInfo(engine.id, version or engine.newest, dict(settings))
    return info, lambda n, count: storage.stored(engine.id, ask, n, count), contexts, requests


def _contexts(
    model: Model, context: Count | Sequence[Count] | None, images: int, *, allow_long: bool
) -> list[int]:
    """The lengths asked for; else a default, or what images take, and the maximum.

    Raises:
        KvcalcError: "usage" for a context that the images do not fit in; "context_too_long".
    """
    if context is None or context == []:
        default = resolve.default_context(model)
        if images:
            default = resolve.context_of(model, images, allow_long=allow_long, option="--image")
        most = model.max_context_tokens
        return [default] if most in {None, default} else [default, most or default]
    texts: list[Count] = (
        list(context) if isinstance(context, (list, tuple)) else [context]  # type: ignore[list-item]
    )
    lengths = [resolve.context_of(model, t, allow_long=allow_long) for t in texts]
    if min(lengths) < images:
        raise KvcalcError(
            "usage", f"the images take {images:,} tokens, more than -c {min(lengths):,}",
            f"-c {images} or more: the context holds images and text",
        )  # fmt: skip
    return lengths
