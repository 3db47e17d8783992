"""llama.cpp's compute buffer on one device: the widest moment of its graph.

    max( o · 4 V + u · 4 d ,                                     logits of o rows
         u · 4 (3 f + 3 d) + mask ,                              MLP; experts: each token k times
         u · 4 (2 H d_h + 2 H_kv d_h + 2 d) + mask ,             attention, flash
         u · 4 (n_ctx H + 2 H d_h + 2 H_kv d_h + 3 d) + mask )   attention without

with u = min(n_ubatch, n_ctx), mask = u · n_ctx · 2 (flash) or · 4 bytes. Counts of live tensors,
compared with 130 contexts of tiny models and six public logs.
"""

from __future__ import annotations

from kvcalc.core.cache import Full, Latent, State
from kvcalc.core.model import Model
from kvcalc.core.plan import Interval, Plan
from kvcalc.engines.coefficients import Coefficients
from kvcalc.engines.vllm.widths import Widths, widths_of

_FP32 = 4
_KEPT: dict[tuple[int, int | None], tuple[Model, Widths]] = {}


def widths(plan: Plan) -> Widths:
    """The model's widths, kept for the model objects in use."""
    key = (id(plan.model), plan.weights.bytes)
    kept = _KEPT.get(key)
    if kept is None:
        if len(_KEPT) > 1024:
            _KEPT.clear()
        kept = _KEPT[key] = (plan.model, widths_of(plan.model, plan.weights.bytes))
    return kept[1]


def compute_bytes(
    plan: Plan,
    w: Widths,
    *,
    n_ctx: int,
    ubatch: int,
    outputs: int,
    flash: bool,
    coefficients: Coefficients,
) -> Interval:
    """Bytes on the device that holds the output layer, and the ends they were seen between.

    Args:
        plan: The model.
        w: Its widths.
        n_ctx: Cells of the largest cache.
        ubatch: Tokens of a physical batch.
        outputs: Rows of logits.
        flash: Flash attention.
        coefficients: Of llama.cpp.
    """
    u = min(ubatch, n_ctx)
    mask = u * n_ctx * (2 if flash else 4)
    logits = min(outputs, u) * _FP32 * w.vocabulary + u * _FP32 * w.hidden
    size = max(logits, u * _FP32 * _mlp(w) + mask, u * _FP32 * _attention(plan, w, n_ctx, flash)
               + mask)  # fmt: skip
    span = coefficients["compute"]
    low, high = (int(size * (100 + end) / 100) for end in (span.low, span.high))
    channels = max(
        (g.cache.conv_channels for g in plan.model.groups if isinstance(g.cache, State)), default=0
    )
    if channels:
        best, least, most = coefficients["recurrent_channel"].bytes(u * channels)
        size, low, high = max(size, best), max(low, least), max(high, most)
    if not w.exact:
        low, high = low // 2, high * 2
    return Interval(size, min(low, size), max(high, size))


def _mlp(w: Widths) -> int:
    """3 f + 3 d; of experts 3 k f + 3 d or k (f + 2 d)."""
    dense = w.mlp_width + 3 * w.hidden
    if not w.experts:
        return dense
    k, f, d = w.experts_per_token, w.expert_width, w.hidden
    return max(3 * k * f + 3 * d, k * (f + 2 * d))


def _attention(plan: Plan, w: Widths, n_ctx: int, flash: bool) -> int:
    """Queries and their copy, keys and values, the residual; without flash the scores."""
    heads, widest = plan.model.query_heads or 1, 0
    for group in plan.model.groups:
        c = group.cache
        if isinstance(c, Full):
            widest = max(widest, 2 * heads * c.key_dim + c.kv_heads * (c.key_dim + c.value_dim))
        elif isinstance(c, Latent):
            widest = max(widest, 2 * heads * (c.rank + c.rope_dim) + 2 * (c.rank + c.rope_dim))
    if flash or not widest:
        return widest + 2 * w.hidden
    return n_ctx * heads + widest + 3 * w.hidden
