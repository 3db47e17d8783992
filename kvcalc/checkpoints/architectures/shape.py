"""One config read together with its model type's row of class defaults.

A row is text, "L=32 H=32 K=8 E=4096": a code for each field and the default that transformers'
config class gives it (5.24). `L:n_layer=12` also says how that class spells the field. Codes:

L layers, H query heads, K KV heads (none: as H), D head dim (none: hidden / heads; `?`: may be
null), O value dim, E hidden size, V vocabulary, C context, W window, A attention chunk,
U use_sliding_window, R latent rank, T rope dim, N dim without rope, I indexer dim, X experts,
Y experts per token, P the pattern of layers where the file lists none, F marks a class that rounds
hidden / heads down instead of refusing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from kvcalc.checkpoints.fields import MAX_DIM, MAX_LAYERS, MAX_TOKENS, REQUIRED, Fields
from kvcalc.core.model import Layer

#: Spellings of a field, the usual one first.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "L": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "H": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "K": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num",
          "num_attention_groups"),
    "D": ("head_dim",),
    "O": ("v_head_dim",),
    "E": ("hidden_size", "n_embd", "d_model", "n_embed"),
    "V": ("vocab_size", "padded_vocab_size"),
    "W": ("sliding_window",),
    "A": ("attention_chunk_size",),
    "R": ("kv_lora_rank",),
    "T": ("qk_rope_head_dim",),
    "N": ("qk_nope_head_dim",),
    "I": ("index_head_dim",),
    "X": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
          "num_moe_experts"),
    "Y": ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts"),
}  # fmt: skip


#: What `Shape.check` looks at, and limits other than that of a dim.
CHECKED = "LHKDOEWARTNI"
MAXIMA = {"L": MAX_LAYERS, "W": MAX_TOKENS, "A": MAX_TOKENS}


class Built(NamedTuple):
    """What a family makes of a config."""

    layers: tuple[Layer, ...]
    shape: Shape
    #: What one layer of multi-token prediction holds, where it is known.
    mtp: Callable[[Shape], Layer] | None = None


Family = Callable[["Shape"], Built]


class Shape:
    """Fields plus defaults; every property is validated when it is first read."""

    def __init__(self, fields: Fields, row: str = "") -> None:
        self.f, self.text = fields, row
        self.row: dict[str, str] = {}
        self.names: dict[str, str] = {}
        for part in row.split():
            key, _, value = part.partition("=")
            code, _, name = key.partition(":")
            self.row[code] = value
            if name:
                self.names[code] = name

    def check(self) -> None:
        """No field that shapes caches may be nonsense, whether this family reads it or not.

        Raises:
            KvcalcError: "invalid_config" for a value that is no whole number from 0 on.
        """
        for code in CHECKED:
            low, high = int(code in "LE"), MAXIMA.get(code, MAX_DIM)
            for name in self.spellings(code):
                value = self.f.get(name)
                if code == "K" and isinstance(value, list):
                    self.f.counts(name)
                elif value is not None:
                    self.f.whole(name, value, low, high)

    def spellings(self, code: str) -> tuple[str, ...]:
        """The class's own spelling first, then the usual ones."""
        own = self.names.get(code)
        return SPELLINGS[code] if own is None else (own, *SPELLINGS[code])

    def count(self, code: str, *, low: int = 1, high: int = MAX_DIM) -> int:
        """A whole number: the file's, else the row's.

        Raises:
            KvcalcError: "invalid_config" if it is nonsense, or missing without a default.
        """
        text = self.row.get(code)
        default: object = int(text.rstrip("?")) if text else REQUIRED
        return self.f.count(*self.spellings(code), default=default, low=low, high=high)

    @cached_property
    def layer_count(self) -> int:
        """L."""
        return self.count("L", high=MAX_LAYERS)

    @cached_property
    def heads(self) -> int:
        """Query heads."""
        return self.count("H")

    @cached_property
    def hidden(self) -> int:
        """Hidden size."""
        return self.count("E")

    @cached_property
    def kv_heads(self) -> int:
        """KV heads; they divide the query heads.

        Raises:
            KvcalcError: "invalid_config" if they do not.
        """
        names = self.spellings("K")
        name = self.f.first(names)
        if name is not None:
            found = self.f.whole(name, self.f.get(name))
        elif self.f.has(names[0]) or not self.row.get("K"):  # null and no default mean: as many
            found = self.heads
            self.f.note(names[0], found)
        else:
            found = int(self.row["K"])
            self.f.note(names[0], found)
        if self.heads % found:
            raise self.f.bad(name or names[0], f"a divisor of the {self.heads:,} heads", found)
        return found

    @cached_property
    def head_dim(self) -> int:
        """Key dim of a head; absent or 0 means hidden / heads unless the class has its own.

        Raises:
            KvcalcError: "invalid_config" if hidden / heads is needed and is no whole number.
        """
        names, default = self.spellings("D"), self.row.get("D")
        name = self.f.first(names)
        if name is not None:
            low = 0 if name == "head_dim" else 1  # engines read 0 there as missing
            found = self.f.whole(name, self.f.get(name), low=low)
            if found:
                return found
        elif default and not self.f.has(names[0]):
            found = int(default.rstrip("?"))
            self.f.note(names[0], found)
            return found
        elif default and "?" not in default:
            raise self.f.bad(names[0], "a whole number: this class takes no null")
        return self.derived_dim

    @property
    def derived_dim(self) -> int:
        """hidden / heads.

        Raises:
            KvcalcError: "invalid_config" if the heads do not divide it.
        """
        if self.hidden % self.heads and "F" not in self.row:
            name = self.f.first(self.spellings("E")) or self.spellings("E")[0]
            raise self.f.bad(name, f"a multiple of the {self.heads:,} heads", self.hidden)
        return self.hidden // self.heads

    @cached_property
    def value_dim(self) -> int:
        """Value dim of a head: as the keys' unless the row says that the class has its own."""
        return self.count("O") if "O" in self.row else self.head_dim

    @cached_property
    def window(self) -> int | None:
        """The sliding window, or None where there is none (null, 0, or use_sliding_window off).

        Raises:
            KvcalcError: "invalid_config" if it is negative or no number.
        """
        if "U" in self.row and not self.f.flag("use_sliding_window", default=self.row["U"] == "1"):
            return None
        return self._extent("W")

    @cached_property
    def chunk(self) -> int | None:
        """The attention chunk, or None."""
        return self._extent("A")

    def _extent(self, code: str) -> int | None:
        names = self.spellings(code)
        name = self.f.first(names)
        if name is None:
            if not self.row.get(code) or any(self.f.has(n) for n in names):
                return None
            self.f.note(names[0], self.row[code])
            return int(self.row[code])
        return self.f.whole(name, self.f.get(name), low=0, high=MAX_TOKENS) or None

    def kinds(self, *names: str) -> list[str] | None:
        """The listed type of every layer under the first spelling present, older names renewed.

        More entries than layers (multi-token prediction) are cut off.

        Raises:
            KvcalcError: "invalid_config" if there are fewer entries than layers.
        """
        name = self.f.first(names or ("layer_types",))
        if name is None:
            return None
        found = self.f.texts(name)
        if found is None:  # unreachable: `first` saw a value
            return None
        if len(found) < self.layer_count:
            raise self.f.wrong_length(name, self.layer_count, len(found))
        return [RENAMED.get(kind, kind) for kind in found[: self.layer_count]]

    def overrides(self, layers: int) -> dict[int, Shape]:
        """Layers with values of their own (`per_layer_config`, keys such as "5" or "05").

        Raises:
            KvcalcError: "invalid_config" for a key that is no layer, or a value that is no object.
        """
        found = {i: self.changed(**{name: n}) for name, i, n in self._listed_heads(layers)}
        table = self.f.sub("per_layer_config")
        if table is None:
            return found
        for key, changes in table.data.items():
            if not (key.isascii() and key.isdigit() and len(key) < 10 and int(key) < layers):
                raise table.bad(key, "a layer's number as its key", changes)
            if not isinstance(changes, dict):
                raise table.bad(key, "an object", changes)
            found[int(key)] = Shape(self.f.over(changes, f"per_layer_config.{key}"), self.text)
        return found

    def _listed_heads(self, layers: int) -> list[tuple[str, int, int]]:
        """KV heads that a file lists per layer (OpenELM's num_kv_heads)."""
        name = self.f.first(self.spellings("K"))
        if name is None or not isinstance(self.f.get(name), list):
            return []
        heads = self.f.counts(name, low=1) or []
        if len(heads) != layers:
            raise self.f.wrong_length(name, layers, len(heads))
        return [(name, i, n) for i, n in enumerate(heads)]

    def changed(self, **changes: Any) -> Shape:
        """The same shape with some fields replaced."""
        return Shape(self.f.over(changes, ""), self.text)


#: Layer types as transformers 4 and published files spell them, and what 5.x calls them.
RENAMED = {
    "attention": "full_attention",
    "mamba": "linear_attention",
    "mamba2": "linear_attention",
    "recurrent": "linear_attention",
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
