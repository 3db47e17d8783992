"""kvcalc.compare: what each technique saves."""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc import resolve
from kvcalc.core import compare as core
from kvcalc.core.model import Model
from kvcalc.core.results.compare import CompareResult
from kvcalc.core.units import parse_count
from kvcalc.shape import Count, Shape


def compare(
    model: str | Model | None = None,
    *,
    context: Count | None = None,
    requests: Count = 1,
    request: Count | Sequence[Count] = (),
    max_context: Count | None = None,
    shared_prefix: Count | None = None,
    prefix_copies: Count | None = None,
    window: Count | None = None,
    keep: Count | None = None,
    block_size: Count = 16,
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
) -> CompareResult:
    """One load's KV cache under each technique alone, in bytes.

    Args:
        model: A preset's id or alias, a hub name, a path, or None with a shape by numbers.
        context: Tokens of each request of the load; default 4,096 or the model's maximum.
        requests: How many such requests.
        request: Tokens that each request really used, for paging against naive allocation.
        max_context: Tokens that naive allocation reserves; default the model's maximum.
        shared_prefix: Prompt tokens all requests share; default a quarter of the context.
        window: A sliding window in every layer; default a quarter of the context.
        keep: Tokens that eviction keeps; default an eighth of the context.

    Raises:
        KvcalcError: With `.code`, `.message` and `.hint` when it cannot answer.
    """
    shape = Shape(
        layers, kv_heads, head_dim, query_heads, value_dim, parameters, max_context_length, group
    )
    found = resolve.model_of(model, shape, encoder_tokens)

    def tokens(text: Count, option: str) -> int:
        return resolve.context_of(found, text, allow_long=allow_long_context, option=option)

    def count(text: Count | None, option: str) -> int | None:
        return None if text is None else parse_count(text, option)

    lengths = [request] if isinstance(request, (int, str)) else list(request)
    return core.compare(
        found,
        resolve.storage_of(found, kv_dtype, k_dtype, v_dtype, dtype),
        resolve.default_context(found) if context is None else tokens(context, "-c"),
        requests=parse_count(requests, "-n"),
        options=core.Options(
            lengths=[tokens(n, "--request") for n in lengths],
            maximum=None if max_context is None else tokens(max_context, "--max-context"),
            shared_prefix=count(shared_prefix, "--shared-prefix"),
            prefix_copies=resolve.prefix_copies_of(prefix_copies, shared_prefix),
            window=count(window, "--window"),
            keep=count(keep, "--keep"),
            block_size=parse_count(block_size, "--block-size"),
        ),
    )
