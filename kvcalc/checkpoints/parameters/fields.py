"""Reading a config's numbers: the text model inside a wrapper, old and new names, defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvcalc.checkpoints.parameters.defaults import defaults_of

#: Larger numbers are damage: no model has a trillion of anything counted here, or so many layers.
_MAX_NUMBER, _MAX_LAYERS = 10**12, 10_000
#: Where a wrapper of several models keeps its language model.
_INNER = ("text_config", "language_config", "llm_config", "thinker_config", "decoder")
#: A field's other names in configs of other families and other transformers releases.
_ALIASES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "model_dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "attention_heads"),
    "num_key_value_heads": (
        "n_head_kv",
        "num_kv_heads",
        "multi_query_group_num",
        "num_attention_groups",
    ),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size", "dff", "d_ff"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length"),
    "vocab_size": ("padded_vocab_size",),
    "head_dim": ("attention_head_dim",),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        "num_experts_per_token",
        "moe_topk",
        "moe_k",
        "top_k_experts",
        "moe_top_k",
    ),
    "num_shared_experts": ("n_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "moe_intermediate_size": ("expert_ffn_hidden_size",),
}


#: Model types whose text model is another's under the same fields: older names, …
_RENAMED = {
    "aquila": "llama",
    "Yi": "llama",
    "xverse": "llama",
    "mimo": "qwen2",
    "kimi_k2": "deepseek_v3",
    "mistral_large_3": "deepseek_v3",
    "gpt3": "gpt2",
    "minimax_text_01": "minimax",
    "minimax_m1": "minimax",
    "minimax_m3": "minimax_m3_vl_text",
}
#: … and wrappers that keep the text model's fields at the top or name no type inside.
_WRAPPERS = {
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "mllama": "mllama_text_model",
    "mistral3": "mistral",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "kimi_k25": "deepseek_v3",
    "llava": "llama",
    "idefics3": "llama",
    "paligemma": "gemma",
    "step3_vl": "step3_text",
}
SAME: dict[str, str] = {**_RENAMED, **_WRAPPERS}


class Unusable(Exception):  # noqa: N818 - a refusal inside this package, not an error of the user
    """A field is missing or damaged: no count can be given."""


class Fields:
    """A config's fields under their usual names, with the class defaults of its model type."""

    def __init__(self, config: dict[str, Any], model_type: str, outer: dict[str, Any]) -> None:
        self._config = config
        self._outer = outer
        self._defaults = defaults_of(model_type)
        self.model_type = model_type

    def raw(self, name: str) -> Any:
        """The field as written, under any of its names; the class default if it is missing.

        A null is a value: DeepSeek-V2-Lite's `q_lora_rank: null` is not the default 1,536.
        """
        names = [key for key in (name, *_ALIASES.get(name, ())) if key in self._config]
        for key in names:
            if self._config[key] is not None:
                return self._config[key]
        return None if names else self._defaults.get(name)

    def has(self, name: str) -> bool:
        """Whether the config or its class gives the field a value."""
        return self.raw(name) is not None

    def __getitem__(self, name: str) -> int:
        """A number that must be there.

        Raises:
            Unusable: if it is missing, no whole number, or out of range.
        """
        return _number(self.raw(name))

    def number(self, name: str, default: int) -> int:
        """A number, or `default` where the field is missing or null."""
        value = self.raw(name)
        return default if value is None else _number(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A switch; null is off.

        Raises:
            Unusable: if it is neither true, false nor null.
        """
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise Unusable
        return value

    def text(self, name: str) -> str | None:
        """A word, or None."""
        value = self.raw(name)
        return value if isinstance(value, str) else None

    def items(self, name: str) -> list[Any] | None:
        """A list, or None where the field is missing.

        Raises:
            Unusable: if it is no list or longer than any model.
        """
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or len(value) > _MAX_LAYERS:
            raise Unusable
        return list(value)

    def inner(self, name: str) -> Fields:
        """A nested config; its missing fields have no defaults here."""
        value = self.raw(name)
        if not isinstance(value, dict):
            raise Unusable
        return Fields(value, "", {})

    @property
    def hidden(self) -> int:
        """d, the width of the residual stream."""
        return self["hidden_size"]

    @property
    def layers(self) -> int:
        """L, at most ten thousand."""
        return _layers(self["num_hidden_layers"])

    @property
    def heads(self) -> int:
        """H, query heads."""
        return self["num_attention_heads"]

    @property
    def kv_heads(self) -> int:
        """Hk; the query heads where the field is missing or null."""
        return self.number("num_key_value_heads", self.heads)

    @property
    def head_dim(self) -> int:
        """dh; hidden // heads where the field is missing, null or 0."""
        explicit = self.number("head_dim", 0)
        return explicit or self.hidden // self.heads

    @property
    def tied(self) -> bool:
        """Whether the output head is the embedding: the wrapper's word, then the text config's."""
        for config in (self._outer, self._config):
            for name in ("tie_word_embeddings", "tie_embedding"):
                value = config.get(name)
                if isinstance(value, bool):
                    return value
        return bool(self._defaults.get("tie_word_embeddings", False))

    def layer_types(self, layers: int, fallback: Sequence[str]) -> list[str]:
        """The kind of every layer: `layer_types` or its older name, cut to the model's layers."""
        listed = self.items("layer_types") or self.items("layers_block_type")
        kinds = list(fallback) if listed is None else listed[:layers]
        if len(kinds) != layers or not all(isinstance(kind, str) for kind in kinds):
            raise Unusable
        return kinds

    def per_layer(self, name: str, layers: int) -> list[int]:
        """A number for every layer, written once or as a list."""
        value = self.raw(name)
        values = value if isinstance(value, list) else [value] * layers
        if len(values) < layers:
            raise Unusable
        return [_number(v) for v in values[:layers]]


def fields_of(config: dict[str, Any]) -> Fields:
    """The language model's fields, out of any wrapper.

    Raises:
        Unusable: if the config names no model type.
    """
    text, outer = config, config
    for _ in range(3):
        inner = next((text[k] for k in _INNER if isinstance(text.get(k), dict)), None)
        if inner is None or text.get("model_type") == "t5gemma":
            break
        text, outer = inner, text
    name = text.get("model_type") or config.get("model_type")
    # A wrapper's empty text config means a model of the wrapper's choice, not its type's default.
    if not isinstance(name, str) or (name in _WRAPPERS and "hidden_size" not in text):
        raise Unusable
    return Fields(text, SAME.get(name, name), config if outer is config else {**outer, **config})


def _number(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_NUMBER:
        raise Unusable
    return value


def _layers(value: int) -> int:
    if not 1 <= value <= _MAX_LAYERS:
        raise Unusable
    return value
