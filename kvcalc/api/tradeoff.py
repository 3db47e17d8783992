"""kvcalc.tradeoff: the work a KV cache saves and the memory it costs."""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc import resolve
from kvcalc.core import tradeoff as core
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.tradeoff import TradeoffResult
from kvcalc.shape import Count, Shape


def tradeoff(
    model: str | Model | None = None,
    *,
    tokens: Count | None = None,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    dtype: str | None = None,
    encoder_tokens: Count | None = None,
    allow_long_context: bool = False,
    layers: Count | None = None,
    kv_heads: Count | None = None,
    head_dim: Count | None = None,
    query_heads: Count | None = None,
    value_dim: Count | None = None,
    parameters: Count | None = None,
    max_context_length: Count | None = None,
    group: Sequence[str] = (),
) -> TradeoffResult:
    """Token passes, FLOPs and bytes of generating `tokens` without and with a KV cache.

    Every step of up to 64 tokens is listed; beyond, 32 evenly chosen ones, the first and the last
    among them. The totals are exact sums over all steps.

    Args:
        model: As in `kvcalc.size`.
        tokens: How many tokens are generated.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = resolve.model_of(model, shape, encoder_tokens)
    if tokens is None:
        raise KvcalcError("usage", "--tokens is missing", "like --tokens 1000")
    return core.tradeoff(
        found,
        resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype),
        resolve.context_of(found, tokens, allow_long=allow_long_context, option="--tokens"),
    )
