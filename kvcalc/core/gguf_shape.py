"""A model's GGUF file without its config: the sizes that an exact parameter count implies.

A preset knows heads, hidden size, vocabulary and the number of parameters, not the width of the
MLP. In a gated model it is all that is left: (parameters - the rest) / (3 · layers · hidden), of
Llama-3.1-8B (8,030,261,248 - 2,393,116,672) / (3 · 32 · 4,096) = 14,336. A count that is rounded,
or of a model with other tensors, leaves a remainder: then nothing is said.
"""

from __future__ import annotations

from typing import NamedTuple

from kvcalc.core.cache import Full, SlidingWindow
from kvcalc.core.errors import KvcalcError
from kvcalc.core.gguf_weights import Shape, Tensor, file_type, quantized, tensors_of
from kvcalc.core.model import Model


class _Family(NamedTuple):
    """GGUF's name of an architecture and the tensors that it has beyond Llama's."""

    arch: str
    qkv_bias: bool = False
    qk_norm: bool = False
    post_norms: bool = False
    #: Whether a file may hold a table of rope factors, half a head of F32 (Llama 3.1).
    rope_table: bool = False


#: By the config's model type. Source: llama.cpp 0c1e57098, `llama-arch.cpp`.
_FAMILIES = {
    "llama": _Family("llama", rope_table=True),
    "mistral": _Family("llama"),
    "mixtral": _Family("llama"),
    "qwen2": _Family("qwen2", qkv_bias=True),
    "qwen3": _Family("qwen3", qk_norm=True),
    "qwen3_moe": _Family("qwen3moe", qk_norm=True),
    "gemma2": _Family("gemma2", post_norms=True),
    "gemma3": _Family("gemma3", qk_norm=True, post_norms=True),
    "gemma3_text": _Family("gemma3", qk_norm=True, post_norms=True),
}


class GgufFile(NamedTuple):
    """Tensor bytes of a file, and the least and most that files of this type take."""

    bytes: int
    low_bytes: int
    high_bytes: int
    elements: int
    types: tuple[tuple[str, int], ...]


def gguf_file(model: Model, name: str) -> GgufFile | None:
    """The tensors that llama.cpp's quantize writes for the model; None where they are not known.

    Without an importance matrix, unless the file type needs one. The range covers both, a table of
    rope factors, and files that keep the values' projection at 16 bits: Ollama's qwen3:32b has 64
    F16 tensors and 18.81 GiB (ollama issue 14774) where quantize writes 18.40.

    Raises:
        KvcalcError: "unknown_dtype" for the file type.
    """
    kind = file_type(name)
    shape = shape_of(model)
    if shape is None:
        return None
    tensors = tensors_of(shape)
    with_matrix = quantized(tensors, kind, shape.mix._replace(imatrix=True))
    try:
        made = quantized(tensors, kind, shape.mix)
    except KvcalcError:  # the type needs an importance matrix
        made = with_matrix
    table = 2 * shape.head_dim if _FAMILIES[model.architecture or ""].rope_table else 0
    return GgufFile(
        sum(t.bytes for t in made),
        min(sum(t.bytes for t in file) for file in (made, with_matrix)),
        max(sum(map(_at_most, file)) for file in (made, with_matrix)) + table,
        sum(t.elements for t in made),
        _by_type(made),
    )


def _at_most(tensor: Tensor) -> int:
    wide = tensor._replace(type="F16") if tensor.name.endswith("attn_v.weight") else tensor
    return max(wide.bytes, tensor.bytes)


def _by_type(tensors: list[Tensor]) -> tuple[tuple[str, int], ...]:
    types: dict[str, int] = {}
    for tensor in tensors:
        types[tensor.type.lower()] = types.get(tensor.type.lower(), 0) + tensor.bytes
    return tuple(sorted(types.items(), key=lambda pair: -pair[1]))


def shape_of(model: Model) -> Shape | None:
    """The sizes that name the model's tensors; None unless its parameters give them exactly."""
    family = _FAMILIES.get(model.architecture or "")
    caches = {(type(c), c.kv_heads, c.key_dim, c.value_dim) if isinstance(c, Full) else None
              for layer in model.layers for c in layer}  # fmt: skip
    sizes = {kind[1:] if kind and kind[0] in {Full, SlidingWindow} else None for kind in caches}
    heads, hidden, vocab = model.query_heads, model.hidden_size, model.vocab_size
    embedding = model.weights.embedding_elements if model.weights else None
    if (
        family is None or len(sizes) != 1 or None in sizes or any(len(x) != 1 for x in model.layers)
        or not heads or not hidden or not vocab or not embedding or not model.parameters
        or embedding not in {hidden * vocab, 2 * hidden * vocab}
    ):  # fmt: skip
        return None
    kv_heads, head_dim, value_dim = next(s for s in sizes if s is not None)
    if head_dim != value_dim or heads % kv_heads:
        return None
    experts = model.experts or 0
    bare = Shape(
        family.arch, len(model.layers), hidden, heads, kv_heads, head_dim, 0, vocab,
        tied=embedding == hidden * vocab, experts=experts, qkv_bias=family.qkv_bias,
        qk_norm=family.qk_norm, post_norms=family.post_norms,
    )  # fmt: skip
    left = model.parameters - sum(t.elements for t in tensors_of(bare))
    width, remainder = divmod(left, 3 * bare.layers * hidden * max(experts, 1))
    if remainder or width < 1:
        return None
    return bare._replace(intermediate=width, expert_intermediate=width if experts else 0)
