"""Storage formats of K and V: exact bytes of a row, scales and block headers included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import shown


class Dtype(NamedTuple):
    """How elements are stored: blocks of `block_elements` in `block_bytes`, plus per-head scales.

    `head_bytes` are the bytes beside each head of each token (one fp32 scale for
    int8_per_token_head). `pair` formats store K and V of a head in one slot: bits per element of
    K and of V, then the scale bytes of K and of V.
    """

    key: str
    block_elements: int
    block_bytes: int
    head_bytes: int = 0
    #: Blocks run over the whole row of all heads (ggml) or within each head.
    row_blocks: bool = False
    pair: tuple[int, int, int, int] | None = None
    aliases: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    note: str = ""


#: Engines on ggml: its block types, GGUF files, fp16 KV unless asked otherwise, and contexts that
#: take what their settings ask for instead of what is left.
GGML_ENGINES = ("llama.cpp", "ik_llama.cpp", "ollama")
_VLLM, _GGML = ("vllm",), GGML_ENGINES
#: Sources: facts on vLLM's --kv-cache-dtype per backend, ggml's block types, OCP MX and NVFP4.
DTYPES: dict[str, Dtype] = {
    d.key: d
    for d in (
        Dtype("bf16", 1, 2, aliases=("bfloat16",), note="16-bit brain float"),
        Dtype("fp16", 1, 2, aliases=("f16", "float16", "half"), note="16-bit float"),
        Dtype("fp32", 1, 4, aliases=("f32", "float32", "float"), note="32-bit float"),
        Dtype("fp8", 1, 1, aliases=("fp8_e4m3", "fp8_e4m3fn", "float8_e4m3fn", "f8", "e4m3"),
              note="8-bit float e4m3, one scale per tensor"),
        Dtype("fp8_e5m2", 1, 1, aliases=("float8_e5m2", "e5m2"), note="8-bit float e5m2"),
        Dtype("int8", 1, 1, aliases=("i8", "w8a8"), note="8-bit integer, one scale per tensor"),
        Dtype("int4", 2, 1, aliases=("i4", "uint4"), note="4-bit integer, without its scales"),
        Dtype("int8_per_token_head", 1, 1, 4, engines=_VLLM,
              note="int8, an fp32 scale per token and head"),
        Dtype("fp8_per_token_head", 1, 1, 4, engines=_VLLM,
              note="fp8, an fp32 scale per token and head"),
        Dtype("int4_per_token_head", 2, 1, 4, engines=_VLLM,
              note="int4, an fp32 scale per token and head"),
        Dtype("nvfp4", 16, 9, aliases=("nvfp4_4over6",), engines=_VLLM,
              note="e2m1, an e4m3 scale per 16"),
        Dtype("mxfp4", 32, 17, aliases=("fp4_e2m1",), note="e2m1, an e8m0 scale per 32"),
        Dtype("mxfp8", 32, 33, engines=("sglang",), note="fp8, an e8m0 scale per 32"),
        Dtype("turboquant_k8v4", 1, 0, pair=(8, 4, 0, 4), engines=_VLLM,
              note="K 8-bit, V 4-bit with fp16 scale and zero"),
        Dtype("turboquant_4bit_nc", 1, 0, pair=(4, 4, 2, 4), engines=_VLLM,
              note="K and V 4-bit, norm-corrected"),
        Dtype("turboquant_k3v4_nc", 1, 0, pair=(3, 4, 2, 4), engines=_VLLM,
              note="K 3-bit, V 4-bit, norm-corrected"),
        Dtype("turboquant_3bit_nc", 1, 0, pair=(3, 3, 2, 4), engines=_VLLM,
              note="K and V 3-bit, norm-corrected"),
        Dtype("q8_0", 32, 34, row_blocks=True, engines=_GGML, note="8-bit, an fp16 scale per 32"),
        Dtype("q5_1", 32, 24, row_blocks=True, engines=_GGML, note="5-bit, scale and minimum"),
        Dtype("q5_0", 32, 22, row_blocks=True, engines=_GGML, note="5-bit, an fp16 scale per 32"),
        Dtype("q4_1", 32, 20, row_blocks=True, engines=_GGML, note="4-bit, scale and minimum"),
        Dtype("q4_0", 32, 18, row_blocks=True, engines=_GGML, note="4-bit, an fp16 scale per 32"),
        Dtype("iq4_nl", 32, 18, row_blocks=True, engines=_GGML, note="4-bit, non-linear levels"),
    )
}  # fmt: skip
_BY_NAME = {name: d for d in DTYPES.values() for name in (d.key, *d.aliases)}


def dtype(name: str, option: str = "--kv-dtype") -> Dtype:
    """The storage format called `name`; case, `-` and `_` do not matter.

    Raises:
        KvcalcError: "unknown_dtype", naming the nearest ones.
    """
    found = _BY_NAME.get(name.lower().replace("-", "_")) if isinstance(name, str) else None
    if found is None:
        close = nearest(str(name), list(_BY_NAME))
        near = f"nearest: {', '.join(close)}; " if close else ""
        raise KvcalcError(
            "unknown_dtype", f'{option}: no dtype "{shown(name)}"', f"{near}all: kvcalc dtypes"
        )
    return found


@dataclass(frozen=True, slots=True)
class Storage:
    """How one model's cache is stored: K, V and the model's own dtype (conv states)."""

    k: Dtype
    v: Dtype
    model: Dtype

    @property
    def label(self) -> str:
        """The name to show: "bf16", or "K q8_0, V fp16"."""
        return self.k.key if self.k.key == self.v.key else f"K {self.k.key}, V {self.v.key}"


def storage(kv: str, k: str | None = None, v: str | None = None, model: str = "bf16") -> Storage:
    """The storage named by --kv-dtype, --k-dtype, --v-dtype and --dtype.

    Raises:
        KvcalcError: "unknown_dtype"; "usage" if one of K and V is a format that holds both.
    """
    key = dtype(kv) if k is None else dtype(k, "--k-dtype")
    value = dtype(kv) if v is None else dtype(v, "--v-dtype")
    if key.key != value.key and (key.pair or value.pair):
        name = (key if key.pair else value).key
        raise KvcalcError(
            "usage", f"{name} stores K and V in one slot", f"use --kv-dtype {name} for both"
        )
    return Storage(key, value, dtype(model, "--dtype"))


def row_bytes(d: Dtype, heads: int, dim: int) -> int:
    """Bytes of `heads` vectors of `dim` elements of one token, each head's scale included.

    Raises:
        KvcalcError: "not_divisible" if blocks do not divide what they run over.
    """
    run = heads * dim if d.row_blocks else dim
    if run % d.block_elements:
        what = f"a row of {heads} × {dim}" if d.row_blocks else f"a head of {dim}"
        raise KvcalcError(
            "not_divisible",
            f"{d.key} stores blocks of {d.block_elements} elements; {what} is no multiple of it",
            "choose a format whose blocks divide it: kvcalc dtypes",
        )
    return heads * dim // d.block_elements * d.block_bytes + heads * d.head_bytes


def kv_bytes(s: Storage, heads: int, key_dim: int, value_dim: int) -> int:
    """Bytes of K and V of one token in one layer: heads · (key row + value row)."""
    if s.k.pair is not None:
        return heads * pair_bytes(s.k, key_dim, value_dim)
    return row_bytes(s.k, heads, key_dim) + row_bytes(s.v, heads, value_dim)


def pair_bytes(d: Dtype, key_dim: int, value_dim: int) -> int:
    """Bytes of one head's slot of a turboquant format: packed bits, scales, rounded up to even.

    turboquant_k8v4 at 128: 128 + (64 + 4) = 196.
    """
    k_bits, v_bits, k_scale, v_scale = d.pair or (0, 0, 0, 0)
    slot = (key_dim * k_bits + 7) // 8 + k_scale + (value_dim * v_bits + 7) // 8 + v_scale
    return slot + slot % 2


def bits_per_element(d: Dtype) -> float:
    """Bits of one element, block scales included, per-head scales left out."""
    if d.pair is not None:
        return (d.pair[0] + d.pair[1]) / 2
    return 8 * d.block_bytes / d.block_elements
