"""Bytes of a text model's weights as its config says they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvcalc.checkpoints.parameters.count import tally_of
from kvcalc.checkpoints.parameters.fields import fields_of
from kvcalc.checkpoints.parameters.quantisation import (
    Scheme,
    format_of_config,
    matches,
    plain_dtype,
    scheme_of,
)
from kvcalc.checkpoints.parameters.tally import (
    ATTENTION,
    EXPERTS,
    HEAD,
    MLP,
    RECURRENT,
    SHARED,
    Tensor,
)
from kvcalc.core.units import cdiv
from kvcalc.core.weight_formats import WeightEstimate, weight_format

__all__ = ["format_of_config", "stored_bytes"]

#: The module that holds a part's matrices, as checkpoints name it.
_MODULES = {
    ATTENTION: ("self_attn",),
    MLP: ("mlp",),
    EXPERTS: ("mlp.experts", "block_sparse_moe.experts"),
    SHARED: ("mlp.shared_experts", "mlp.shared_expert"),
    RECURRENT: ("linear_attn", "mamba", "mixer", "conv"),
}
_WRAPPERS = ("model.", "language_model.", "model.")
_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
#: DeepSeek-V4's experts: e2m1 with an e8m0 scale per 32.
_FP4_EXPERTS = Scheme("mxfp4", 4, (32, 1), 8)


def stored_bytes(config: dict[str, Any]) -> WeightEstimate | None:
    """Bytes of the text model's weights in the format that the config names.

    Exact where the config fixes every tensor's layout; MTP layers, vision towers and buffers
    beside the text model are not counted. None where the config names no format or its family's
    tensors are not known.

    Raises:
        KvcalcError: "unknown_dtype" naming a quantisation that is not understood.
    """
    scheme, tally = scheme_of(config), tally_of(config)
    dtype = plain_dtype(config)
    if tally is None or (scheme is None and dtype is None):
        return None
    dtype = dtype or "bf16"
    total = sum(t.elements for t in tally.tensors)
    if scheme is None:
        size = total * _BYTES[dtype]
        return _estimate([(dtype, size)], total, exact=True, key=dtype)
    return _quantised(config, scheme, tally.tensors, dtype)


def _quantised(
    config: dict[str, Any], scheme: Scheme, tensors: list[Tensor], dtype: str
) -> WeightEstimate:
    """Each matrix in the scheme, unless it is kept; all else at the config's dtype."""
    fields = fields_of(config)
    fp4 = fields.text("expert_dtype") == "fp4"
    exact_names, globs = _entries(scheme.keep)
    sizes = {scheme.key: 0, _FP4_EXPERTS.key: 0, dtype: 0}
    layers = fields.number("num_hidden_layers", 0)
    for t in tensors:
        own = _FP4_EXPERTS if fp4 and t.part == EXPERTS else scheme
        quantised = (t.linear and (t.part == EXPERTS or not scheme.experts_only)) or (
            t.part == HEAD and scheme.head
        )
        kept = t.copies
        if quantised:
            kept = min(t.copies, _kept(t, layers, exact_names, globs))
            sizes[own.key] += own.matrix(t.rows, t.cols) * (t.copies - kept)
        sizes[dtype] += t.rows * t.cols * kept * _BYTES[dtype]
    total = sum(t.elements for t in tensors)
    # Mixers' projections are fused or split from checkpoint to checkpoint, and so are their names.
    vague = bool(scheme.keep) and any(t.part == RECURRENT and t.linear for t in tensors)
    known = scheme.exact and not fp4 and not vague and not (exact_names and not layers)
    types = [(key, size) for key, size in sizes.items() if size]
    return _estimate(types, total, exact=known, key=scheme.key)


def _entries(keep: tuple[str, ...]) -> tuple[set[str], list[str]]:
    """Kept modules' full paths without their wrappers, and the entries that are patterns."""
    exact, globs = set(), []
    for entry in keep:
        name = entry
        for wrapper in _WRAPPERS:
            name = name.removeprefix(wrapper)
        if name.startswith("layers.") and "*" not in name:
            exact.add(name)
        else:
            globs.append(entry if entry.startswith("re:") else name)
    return exact, globs[:1000]


def _kept(t: Tensor, layers: int, exact: set[str], globs: list[str]) -> int:
    """How many of a tensor's copies a config's list of modules leaves alone."""
    if t.part == HEAD:
        return t.copies if any(matches(g, "lm_head") for g in globs) else 0
    paths = list(_paths(t, "0"))
    if any(matches(g, path) for g in globs for path in paths):
        return t.copies
    if not exact:
        return 0
    each = max(t.copies // layers, 1) if layers and t.part == EXPERTS else 1
    hit = sum(
        any(_listed(path, exact) for path in _paths(t, str(i))) for i in range(min(layers, 10_000))
    )
    return hit * each


def _paths(t: Tensor, layer: str) -> Iterator[str]:
    """Where a matrix may stand in a checkpoint: layers.0.self_attn.q_proj."""
    name = t.name.rpartition(".")[2]
    for module in _MODULES.get(t.part, ("",)):
        yield f"layers.{layer}.{module}.{name}" if module else f"layers.{layer}.{name}"


def _listed(path: str, exact: set[str]) -> bool:
    """Whether the module or one it is part of is listed."""
    while path.count(".") >= 2:
        if path in exact:
            return True
        path = path.rpartition(".")[0]
    return False


def _estimate(types: list[tuple[str, int]], total: int, *, exact: bool, key: str) -> WeightEstimate:
    fmt = weight_format(key)
    size = sum(part for _, part in types)
    below, above = (0, 0) if exact else fmt.span
    low, high = size - size * below // 1000, size + cdiv(size * above, 1000)
    basis = "exact" if exact else "estimated"
    bits = round(8 * size / total, 4) if total else 0.0
    note = f"{fmt.note}; the text model's tensors"
    return WeightEstimate(size, low, high, basis, bits, tuple(types), note)
