"""GGUF metadata → a model: its layers in order, each with the caches that it holds.

The keys are those of llama.cpp's converter; what a key means for an architecture follows
llama.cpp's loaders (0c1e57098). Nothing is guessed: an architecture that is not listed is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kvcalc.checkpoints import gguf_archs as archs
from kvcalc.checkpoints.gguf_attention import attention_layers, query_heads, with_indexers
from kvcalc.checkpoints.gguf_keys import MAX_LAYERS, MAX_TOKENS, Keys
from kvcalc.checkpoints.gguf_states import compressed_layer, state_of
from kvcalc.core.cache import Cross, Full, Shared
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.gguf_mix import layer_of
from kvcalc.core.gguf_types import FILE_TYPE_NAMES
from kvcalc.core.model import Layer, Model, Weights
from kvcalc.core.units import shown


class StoredTensor(Protocol):
    """A tensor of the file: elements and the bytes that it takes."""

    @property
    def name(self) -> str:
        """Its name, such as blk.0.attn_k.weight."""

    @property
    def elements(self) -> int:
        """Numbers in it."""

    @property
    def stored_bytes(self) -> int:
        """Bytes it takes in the file."""


def model_from_metadata(
    metadata: Mapping[str, object],
    *,
    name: str,
    where: str,
    tensors: Iterable[StoredTensor] | None = None,
) -> Model:
    """The model that a GGUF file's metadata describes.

    Args:
        metadata: Keys and values of the header; arrays as lists or tuples.
        name: The model's id and name.
        where: The file's name, for errors.
        tensors: The file's tensors, for parameters and bytes.

    Raises:
        KvcalcError: "unsupported_architecture" for one that is not known or keeps no cache;
            "invalid_config" naming file and key for a value that shapes a cache and cannot.
    """
    architecture = _architecture(metadata, where)
    keys = Keys(metadata, architecture, where)
    blocks = keys.whole("block_count", most=MAX_LAYERS)
    nextn = keys.whole("nextn_predict_layers", 0, least=0, most=blocks)
    tensors = list(tensors or ())
    if architecture == "deepseek4" and not _has_draft_head(tensors, blocks - nextn):
        nextn = 0
    if nextn == blocks:
        raise keys.error("nextn_predict_layers", f"is {nextn:,}: no layer is left")
    heads = query_heads(keys, blocks)
    layers = _layers(keys, blocks, blocks - nextn, heads)
    stored = _stored(metadata, keys, tensors, blocks - nextn)
    return Model(
        id=name,
        name=name,
        layers=tuple(layers),
        source="gguf",
        architecture=architecture,
        query_heads=max(heads) or None,
        max_context_tokens=keys.whole("context_length", 0, least=0, most=MAX_TOKENS) or None,
        hidden_size=keys.whole("embedding_length", 0, least=0) or None,
        vocab_size=_vocabulary(metadata, keys),
        experts=keys.whole("expert_count", 0, least=0) or None,
        experts_per_token=_most(keys, "expert_used_count", blocks),
        parameters=stored.parameters,
        active_parameters=stored.active,
        stored_parameters=stored.total,
        weights=stored.weights,
    )


def _architecture(metadata: Mapping[str, object], where: str) -> str:
    found = metadata.get("general.architecture")
    if not isinstance(found, str):
        raise KvcalcError("invalid_config", f"{where}: general.architecture is {shown(found)}")
    if found in archs.REFUSED:
        raise KvcalcError(
            "unsupported_architecture", f"{where}: {found} {archs.REFUSED[found]}", None
        )
    if found not in archs.KNOWN:
        close = nearest(found, sorted(archs.KNOWN))
        near = f"nearest known: {', '.join(close)}" if close else None
        raise KvcalcError(
            "unsupported_architecture", f'{where}: GGUF architecture "{shown(found)}"', near
        )
    return found


def _layers(keys: Keys, blocks: int, count: int, heads: list[int]) -> list[Layer]:
    """The caches of the layers that a plain run uses; appended draft layers are left out."""
    architecture = keys.architecture
    if architecture == "deepseek4":
        return [compressed_layer(keys, count, layer) for layer in range(count)]
    attention = attention_layers(keys, blocks, count, heads)
    if architecture == "t5":
        return _t5_layers(keys, attention[0])
    if architecture in archs.RECURRENT:
        attention = _with_states(keys, blocks, attention, heads)
    if architecture in archs.INDEXERS:
        attention = with_indexers(keys, attention)
    loops = keys.whole("num_loops", 1, most=64) if architecture == "nanbeige" else 1
    shared = keys.whole("attention.shared_kv_layers", 0, least=0, most=count)
    if shared and architecture in {"gemma3n", "gemma4"}:
        first = len(attention) - shared
        attention = [
            layer if i < first else tuple(Shared(reads=c) for c in layer)
            for i, layer in enumerate(attention)
        ]
    return attention * loops


def _with_states(keys: Keys, blocks: int, layers: list[Layer], heads: list[int]) -> list[Layer]:
    """Recurrent layers get their state; which they are depends on the architecture."""
    count = len(layers)
    variant, told_by = archs.RECURRENT[keys.architecture]
    state = state_of(keys, variant, heads)
    if told_by == "all":
        return [(state,)] * count
    if told_by == "beside":
        return [(*layer, state) for layer in layers]
    if told_by == "interval":
        flags = keys.flags("attention.recurrent_layers", count)
        if flags is None:
            every = keys.whole("full_attention_interval", 4)
            flags = [(i + 1) % every != 0 for i in range(count)]
        return [(state,) if flags[i] else layer for i, layer in enumerate(layers)]
    if told_by == "kv+ff":
        widths = keys.per_layer("feed_forward_length", blocks, [0] * blocks)
        # A layer with a feed-forward network is that alone: it holds nothing.
        return [
            () if width else (layer or (state,))
            for layer, width in zip(layers, widths, strict=False)
        ]
    return [layer or (state,) for layer in layers]


def _t5_layers(keys: Keys, layer: Layer) -> list[Layer]:
    """The decoder's layers: a growing cache, and keys and values of the encoder's tokens."""
    count = keys.whole("decoder_block_count", keys.whole("block_count"), most=MAX_LAYERS)
    (own,) = layer
    assert isinstance(own, Full)  # noqa: S101 - t5 has no window; tells the type checker
    tokens = keys.whole("context_length", 512, most=MAX_TOKENS)
    cross = Cross(
        kv_heads=own.kv_heads,
        key_dim=own.key_dim,
        value_dim=own.value_dim,
        encoder_tokens=tokens,
    )
    return [(own, cross)] * count


def _has_draft_head(tensors: list[StoredTensor], layer: int) -> bool:
    return any(t.name == f"blk.{layer}.nextn.eh_proj.weight" for t in tensors)


def _most(keys: Keys, key: str, blocks: int) -> int | None:
    return max(keys.per_layer(key, blocks, [0] * blocks)) or None


def _vocabulary(metadata: Mapping[str, object], keys: Keys) -> int | None:
    if "vocab_size" in keys:
        return keys.whole("vocab_size", least=0) or None
    tokens = metadata.get("tokenizer.ggml.tokens")
    length = getattr(tokens, "length", None)
    if isinstance(length, int):
        return length
    return len(tokens) if isinstance(tokens, (list, tuple)) else None


class _Stored(NamedTuple):
    """Elements and bytes of the tensors; None of everything if the file's are not known."""

    parameters: int | None = None
    active: int | None = None
    total: int | None = None
    weights: Weights | None = None


def _stored(
    metadata: Mapping[str, object], keys: Keys, tensors: list[StoredTensor], layers: int
) -> _Stored:
    """Parameters and bytes from the tensors; with experts also those that one token uses."""
    if not tensors:
        return _Stored()
    # Draft layers are stored beside the text model.
    own = [t for t in tensors if layer_of(t.name) < layers]
    parameters = sum(t.elements for t in own)
    experts = sum(t.elements for t in own if "_exps." in t.name)
    count, used = keys.whole("expert_count", 0, least=0), keys.get("expert_used_count")
    active = None
    if count and isinstance(used, int) and not isinstance(used, bool):
        active = parameters - experts + experts * used // count
    number = metadata.get("general.file_type")
    known = type(number) is int and number in FILE_TYPE_NAMES
    kind = FILE_TYPE_NAMES[number].lower() if known and isinstance(number, int) else "gguf"
    embedding = sum(t.elements for t in own if t.name in {"token_embd.weight", "output.weight"})
    stored_bytes = sum(t.stored_bytes for t in tensors)
    return _Stored(
        parameters,
        active,
        sum(t.elements for t in tensors),
        Weights(kind, stored_bytes, embedding),
    )
