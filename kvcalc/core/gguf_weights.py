"""GGUF weights: the tensors of a file, their types under a file type, and their bytes.

A "Q4_K_M" file mixes types: norms and routers stay F32, the output is Q6_K, some layers get more
bits than others. The rules are llama.cpp's `llama-quant.cpp` (0c1e57098), compared with files that
it wrote (tests/oracles).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.gguf_mix import Chooser, Mix, layer_of
from kvcalc.core.gguf_types import FILE_TYPE_NAMES, FILE_TYPES, TYPES
from kvcalc.core.units import shown


class Tensor(NamedTuple):
    """A tensor in ggml's order: `shape[0]` is the row that blocks run along."""

    name: str
    shape: tuple[int, ...]
    type: str = "BF16"

    @property
    def elements(self) -> int:
        """Numbers in the tensor."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes stored: elements / block elements · block bytes."""
        kind = TYPES[self.type]
        return self.elements // kind.block_elements * kind.block_bytes


def file_type(name: str | int) -> str:
    """The file type called "q4_k_m", "Q4_K_M.gguf" or numbered 15.

    Raises:
        KvcalcError: "unknown_dtype" with the nearest names.
    """
    if isinstance(name, int):
        found = FILE_TYPE_NAMES.get(name)
    else:
        word = name.upper().replace("-", "_").removeprefix("MOSTLY_").removesuffix(".GGUF")
        found = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "MXFP4": "MXFP4_MOE"}.get(
            word, word
        )
    if found not in FILE_TYPES:
        close = nearest(str(name), [n.lower() for n in FILE_TYPES])
        near = f"nearest: {', '.join(c.upper() for c in close)}" if close else None
        raise KvcalcError("unknown_dtype", f'no GGUF file type "{shown(name)}"', near)
    return found


def quantized(
    tensors: Iterable[Tensor], name: str | int, mix: Mix, source: str = "BF16"
) -> list[Tensor]:
    """The tensors with the types that llama.cpp's quantize gives them, in file order.

    Args:
        tensors: Names and shapes of the unquantised file.
        name: The file type.
        mix: The model's layers, experts and head ratio.
        source: What unquantised matrices are stored as.

    Raises:
        KvcalcError: "unknown_dtype" for the file type; "usage" if it needs an importance matrix.
    """
    kind = file_type(name)
    default = FILE_TYPES[kind][1]
    ordered = sorted(tensors, key=_file_order)
    chooser = Chooser(kind, default, mix, [t.name for t in ordered])
    result = []
    for tensor in ordered:
        stored = "F32" if _always_f32(tensor) else source
        if _quantizes(tensor):
            stored = chooser.type_of(tensor.name, tensor.shape)
            if not mix.imatrix and _needs_imatrix(tensor.name, stored, kind):
                raise KvcalcError(
                    "usage",
                    f"{kind} needs an importance matrix for {shown(tensor.name)}",
                    "published files of this type have one: pass imatrix",
                )
        result.append(tensor._replace(type=stored))
    return result


def bits_per_weight(tensors: Sequence[Tensor]) -> float:
    """Stored bits over elements of a whole file."""
    return 8 * sum(t.bytes for t in tensors) / sum(t.elements for t in tensors)


def _file_order(tensor: Tensor) -> tuple[int, str]:
    """Tensors outside layers first, then layer by layer, each by name."""
    return layer_of(tensor.name), tensor.name


_F32_PARTS = (
    "ffn_gate_inp", "ssm_conv1d", "shortconv.conv", "time_mix_first", "time_mix_w1", "time_mix_w2",
    "time_mix_decay_w", "time_mix_lerp_fused", "altup_correct_coef", "altup_predict_coef",
    "indexer.proj", "position_embd", "token_types",
)  # fmt: skip
_KEPT_PARTS = (
    "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj",
    "ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight",
    "attn_rel_b.weight", "position_embd", "token_types", "sam.pos_embd", "sam.neck.", "sam.net_",
    ".rel_pos", ".patch_embd", ".patch_merger", "time_mix_first.weight", "time_mix_w0.weight",
    "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight",
    "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
    "time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight",
)  # fmt: skip


def _always_f32(tensor: Tensor) -> bool:
    """Vectors, norms, routers and small convolutions, as the converter writes them."""
    name = tensor.name
    vector = len(tensor.shape) < 2 or name.endswith("_norm.weight")
    return vector or not name.endswith(".weight") or any(part in name for part in _F32_PARTS)


def _quantizes(tensor: Tensor) -> bool:
    """Whether llama.cpp quantises the tensor at all."""
    name = tensor.name
    matrix = len(tensor.shape) >= 2 and name.endswith("weight") and "_norm.weight" not in name
    return matrix and not any(part in name for part in _KEPT_PARTS)


def _needs_imatrix(name: str, stored: str, kind: str) -> bool:
    if name in {"token_embd.weight", "per_layer_token_embd.weight", "output.weight"}:
        return False
    if stored == "Q2_K":
        return kind == "Q2_K_S"
    return stored in {"IQ3_XXS", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_M", "IQ1_S"}


class Shape(NamedTuple):
    """The sizes that name a llama-like model's tensors; `arch` is GGUF's architecture."""

    arch: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool = False
    experts: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    #: Layers at the start with one plain MLP in a model of experts.
    dense_layers: int = 0
    qkv_bias: bool = False
    #: Norms of query and key heads (Qwen3), of the attention's and MLP's outputs (Gemma 2, 3).
    qk_norm: bool = False
    post_norms: bool = False

    @property
    def mix(self) -> Mix:
        """What the mixing rules ask of it."""
        gqa = self.heads // self.kv_heads
        seventy = self.layers == 80 and (self.arch == "qwen2" or (self.arch == "llama" and gqa > 1))
        return Mix(self.arch, self.layers, self.experts, gqa, is_70b=seventy)


def tensors_of(s: Shape) -> list[Tensor]:
    """Names and shapes of the tensors of a llama-like model (Llama, Mistral, Qwen, Mixtral …)."""
    d, q, kv = s.hidden, s.heads * s.head_dim, s.kv_heads * s.head_dim
    found = [Tensor("token_embd.weight", (d, s.vocab)), Tensor("output_norm.weight", (d,))]
    if not s.tied:
        found.append(Tensor("output.weight", (d, s.vocab)))
    for layer in range(s.layers):
        parts: dict[str, tuple[int, ...]] = {
            "attn_norm": (d,), "ffn_norm": (d,), "attn_q": (d, q), "attn_k": (d, kv),
            "attn_v": (d, kv), "attn_output": (q, d),
        }  # fmt: skip
        if s.qk_norm:
            parts |= {"attn_q_norm": (s.head_dim,), "attn_k_norm": (s.head_dim,)}
        if s.post_norms:
            parts |= {"post_attention_norm": (d,), "post_ffw_norm": (d,)}
        parts |= _mlp(s, layer)
        found += [Tensor(f"blk.{layer}.{name}.weight", shape) for name, shape in parts.items()]
        if s.qkv_bias:
            biases = {"attn_q": q, "attn_k": kv, "attn_v": kv}
            found += [Tensor(f"blk.{layer}.{name}.bias", (n,)) for name, n in biases.items()]
    return found


def _mlp(s: Shape, layer: int) -> dict[str, tuple[int, ...]]:
    d = s.hidden
    if not s.experts or layer < s.dense_layers:
        f = s.intermediate
        return {"ffn_gate": (d, f), "ffn_up": (d, f), "ffn_down": (f, d)}
    e, f = s.experts, s.expert_intermediate or s.intermediate
    parts: dict[str, tuple[int, ...]] = {
        "ffn_gate_inp": (d, e), "ffn_gate_exps": (d, f, e), "ffn_up_exps": (d, f, e),
        "ffn_down_exps": (f, d, e),
    }  # fmt: skip
    if s.shared_intermediate:
        f = s.shared_intermediate
        parts |= {"ffn_gate_shexp": (d, f), "ffn_up_shexp": (d, f), "ffn_down_shexp": (f, d)}
    return parts
