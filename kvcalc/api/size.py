"""kvcalc.size: how big the KV cache of a model is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvcalc import resolve
from kvcalc.core import size as core
from kvcalc.core.model import Model
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.size import SizeResult
from kvcalc.core.units import parse_count
from kvcalc.resolve import Count


def size(
    model: str | Model | None = None,
    *,
    context: Count | Sequence[Count] | None = None,
    request: Sequence[Count] = (),
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
    block_size: Count = 16,
    tp: Count = 1,
    pp: Count = 1,
    dcp: Count = 1,
    encoder_tokens: Count | None = None,
    shared_prefix: Count | None = None,
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
        requests: How many requests of that context.
        kv_dtype: Storage of K and V; `auto` is 2 bytes.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = resolve.Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = resolve.model_of(model, shape, encoder_tokens)
    resolve.engine_of(engine, engine_version, set)
    return core.size(
        found,
        resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype),
        _contexts(found, context, allow_long=allow_long_context),
        weights=resolve.weights_of(found, weights, weight_bytes),
        requests=parse_count(requests, "-n"),
        batch=[
            resolve.context_of(found, r, allow_long=allow_long_context, option="--request")
            for r in request
        ],
        parallel=resolve.parallel_of(tp, pp, 1, dcp),
        block_size=parse_count(block_size, "--block-size"),
        shared_prefix=None
        if shared_prefix is None
        else parse_count(shared_prefix, "--shared-prefix"),
        engine=EngineInfo("none"),
    )


def _contexts(
    model: Model, context: Count | Sequence[Count] | None, *, allow_long: bool
) -> list[int]:
    if context is None:
        default = resolve.default_context(model)
        most = model.max_context_tokens
        return [default] if most in {None, default} else [default, most or default]
    texts = [context] if isinstance(context, (int, str)) else list(context)
    return [resolve.context_of(model, t, allow_long=allow_long) for t in texts]
