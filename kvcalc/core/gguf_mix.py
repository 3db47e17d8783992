"""Which type llama.cpp's quantize gives to a tensor, by file type.

The rules of `llama-quant.cpp` (llama.cpp 0c1e57098): the output and some layers of attn_v and
ffn_down get more bits, the embedding of tiny types other ones, MoE models others again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.core.gguf_types import TYPES


class Mix(NamedTuple):
    """What the rules ask of a model besides its tensors' names and shapes."""

    arch: str
    layers: int
    experts: int = 0
    #: Query heads per KV head of the first layer.
    gqa: int = 1
    #: Llama-2/3-70B and Qwen2-72B: 80 layers with grouped queries.
    is_70b: bool = False
    #: Quantised with an importance matrix, as most published IQ files are.
    imatrix: bool = False


def layer_of(name: str) -> int:
    """The layer in "blk.3.attn_v.weight"; -1 outside layers."""
    head, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return int(number) if head == "blk" and number.isdigit() else -1


#: What a type becomes where its blocks do not divide the row; F16 where those do not either.
_FALLBACK = {
    **dict.fromkeys(
        ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"
    ),
    **dict.fromkeys(("Q2_0", "Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0",
}  # fmt: skip
_CATEGORIES = (
    ("attn_qkv.weight", "qkv"), ("attn_kv_b.weight", "kv_b"), ("attn_v.weight", "v"),
    ("attn_k.weight", "k"), ("attn_q.weight", "q"), ("attn_output.weight", "attn_out"),
    ("ffn_up", "up"), ("ffn_gate", "gate"), ("ffn_down", "down"),
)  # fmt: skip
_V_LIKE = ("v", "qkv", "kv_b")
#: The file types below 3 bits, whose rules stand apart.
_TINY = ("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ2_S", "IQ2_M", "IQ1_M")


def _category(name: str) -> str:
    if name == "output.weight":
        return "output"
    if name in {"token_embd.weight", "per_layer_token_embd.weight"}:
        return "embd"
    return next((kind for part, kind in _CATEGORIES if part in name), "other")


def _more_bits(i: int, n: int) -> bool:
    """The first and last eighth of the layers and every third between."""
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


class Chooser:
    """Counts tensors of each kind as they pass, since the rules go by their number."""

    def __init__(self, kind: str, default: str, mix: Mix, names: Sequence[str]) -> None:
        self.kind, self.default, self.mix = kind, default, mix
        self.tied = "output.weight" not in names
        self.n_v = sum(_category(n) in _V_LIKE for n in names)
        self.seen: dict[str, int] = {}

    def type_of(self, name: str, shape: tuple[int, ...]) -> str:
        """The type of one tensor; each must be asked once, in file order."""
        if TYPES[self.default].block_elements == 1:
            return self.default
        chosen = self._rule(name, shape, _category(name))
        if shape[0] % TYPES[chosen].block_elements:
            chosen = _FALLBACK.get(chosen, chosen)
        return chosen if shape[0] % TYPES[chosen].block_elements == 0 else "F16"

    def _rule(self, name: str, shape: tuple[int, ...], category: str) -> str:
        if category == "output" or (category == "embd" and self.tied):
            return self._output(shape[0])
        if self.kind == "MXFP4_MOE":
            return "MXFP4" if len(shape) > 2 and shape[2] > 1 else "Q8_0"
        if category == "embd":
            return self._embedding()
        return self._tiny(category) if self.kind in _TINY else self._usual(name, category)

    def _usual(self, name: str, category: str) -> str:
        if category in _V_LIKE:
            return self._value(self._count("v"))
        if category in {"q", "k"}:
            return self._query_key(category)
        if category == "down":
            return self._down(*self._position("down", name))
        if category == "attn_out":
            return self._attention_output()
        if category in {"gate", "up"}:
            i, n = self._position(category, name)
            middle = n // 8 <= i < 7 * n // 8
            return "IQ3_XXS" if self.kind == "IQ3_XS" and middle else self.default
        return self.default

    def _count(self, category: str) -> int:
        number = self.seen.get(category, 0)
        self.seen[category] = number + 1
        return number

    def _position(self, category: str, name: str) -> tuple[int, int]:
        """Which of how many: by layer in MoE models, whose shared experts count too."""
        number = self._count(category)
        return (layer_of(name) if self.mix.experts > 1 else number), self.mix.layers

    def _output(self, columns: int) -> str:
        if self.kind == "MXFP4_MOE" or self.mix.arch == "falcon":
            return "Q8_0"
        if columns % TYPES[self.default].block_elements:
            return "Q8_0"
        if self.kind in _TINY or self.kind == "IQ3_XXS":
            return "Q5_K"
        return "Q8_0" if self.default == "Q8_0" else "Q6_K"

    def _embedding(self) -> str:
        if self.kind in {"IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"}:
            return "Q2_K"
        if self.kind in {"IQ2_S", "IQ2_M", "IQ3_XXS"}:
            return "IQ3_S"
        return "Q4_K" if self.kind in {"TQ1_0", "TQ2_0", "Q2_0"} else self.default

    def _tiny(self, category: str) -> str:
        better = "IQ3_S" if self.kind in {"IQ2_S", "IQ2_M"} else "Q2_K"
        eight = self.mix.experts == 8
        if category in _V_LIKE:
            self._count("v")
            return "Q4_K" if self.mix.gqa >= 4 or self.mix.experts >= 4 else better
        if category == "k":
            return "Q4_K" if eight else self.default
        if category == "down":
            return better if self._count("down") < self.mix.layers // 8 else self.default
        if category == "attn_out":
            if eight:
                return "Q5_K"
            if self.kind in {"IQ1_S", "IQ1_M"}:
                return "IQ2_XXS"
            return "IQ3_S" if better == "IQ3_S" else self.default
        return self.default

    def _value(self, i: int) -> str:
        """attn_v and fused qkv: the most sensitive matrices."""
        kind, grouped = self.kind, self.mix.gqa >= 4
        chosen = self.default
        if kind == "Q2_K":
            chosen = "Q4_K" if grouped else "Q3_K"
        elif kind == "IQ3_XXS":
            chosen = "Q4_K" if grouped else ("IQ3_XXS" if self.mix.imatrix else "IQ3_S")
        elif kind == "IQ3_M" or (kind in {"Q2_K_S", "IQ3_XS", "IQ3_S"} and grouped):
            chosen = "Q4_K"
        elif kind == "Q3_K_M":
            chosen = "Q5_K" if i < 2 else "Q4_K"
        elif kind == "Q3_K_L" or (kind in {"IQ4_NL", "IQ4_XS"} and grouped):
            chosen = "Q5_K"
        elif kind in {"Q4_K_M", "Q5_K_M"} and _more_bits(i, self.n_v):
            chosen = "Q6_K"
        elif kind == "Q4_K_S" and i < 4:
            chosen = "Q5_K"
        if self.mix.is_70b and chosen in {"Q3_K", "Q4_K"}:
            chosen = "Q5_K"
        return "Q8_0" if self.mix.experts == 8 else chosen

    def _query_key(self, category: str) -> str:
        if category == "k" and self.mix.experts == 8:
            return "Q8_0"
        return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(self.kind, self.default)

    def _down(self, i: int, n: int) -> str:
        kind, falcon, imatrix = self.kind, self.mix.arch == "falcon", self.mix.imatrix
        early, more = i < n // 8, _more_bits(i, n)
        if kind == "Q3_K_M":
            late = "Q4_K" if not falcon or more else "Q3_K"
            return "Q5_K" if i < n // 16 else late
        if kind == "Q4_K_M" and falcon:
            return "Q6_K" if i < n // 16 else ("Q5_K" if more else "Q4_K")
        better = {
            "Q2_K": "Q3_K",
            "Q2_K_S": "Q4_K" if early else None,
            "IQ3_XXS": None if imatrix else ("Q4_K" if early else "Q3_K"),
            "IQ3_M": "Q4_K" if early or (self.mix.experts == 8 and more) else None,
            "Q3_K_L": "Q4_K" if falcon else "Q5_K",
            "Q4_K_M": "Q6_K" if more else None,
            "IQ4_NL": "Q5_K" if early and not imatrix else None,
            "IQ4_XS": "Q5_K" if early and not imatrix else None,
            "Q5_K_M": "Q6_K" if more else None,
            "Q4_K_S": "Q5_K" if early and not falcon else None,
            "Q4_0": "Q4_1" if imatrix and early else None,
            "Q5_0": "Q5_1" if imatrix and early else None,
        }.get(kind)
        return better or self.default

    def _attention_output(self) -> str:
        kind = self.kind
        if self.mix.arch == "falcon":
            return "Q4_K" if kind == "Q3_K_L" else self.default
        if self.mix.experts == 8:
            bumped = {"Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M",
                      "IQ3_S", "IQ3_M", "IQ4_XS"}  # fmt: skip
            return "Q5_K" if kind in bumped else self.default
        better = {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K",
                  "IQ3_M": "Q4_K"}  # fmt: skip
        return better.get(kind, self.default)
