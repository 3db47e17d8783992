"""What a checkpoint stores: parameters and weights, from its headers, else from its config."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kvcalc.checkpoints.bounded import broken, label
from kvcalc.checkpoints.parameters.count import count_parameters
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model, StoredType, Weights

if TYPE_CHECKING:
    from kvcalc.checkpoints.parameters.tally import ParameterCount
    from kvcalc.checkpoints.safetensors import SafeTensor, Safetensors

#: Our names of the format's dtypes; any other is its own in lower case.
_NAMES = {
    "BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64", "F8_E4M3": "fp8",
    "F8_E5M2": "fp8_e5m2", "I8": "int8", "U8": "uint8", "I32": "int32", "I64": "int64",
}  # fmt: skip
#: Integers that hold several weights each, where a quantisation says how many bits one has.
_PACKING = {"U8": 8, "I32": 32}
#: What formats store beside the weights: scales, zero points, shapes, tables, group indices.
_BESIDE = (
    "scale", "scales", "scale_inv", "scale_2", "zero_point", "qzeros", "g_idx", "weight_shape",
    "absmax", "quant_map", "SCB", "weight_format", "bitsandbytes__nf4", "bitsandbytes__fp4",
)  # fmt: skip
#: Embeddings and output heads, which no common format quantises.
_EMBEDDINGS = tuple(
    f"{name}.weight"
    for name in ("embed_tokens", "wte", "word_embeddings", "tok_embeddings", "lm_head", "embed_out")
)
_PLAIN = {"bf16": 2, "fp16": 2, "fp32": 4}
#: Where a wrapper keeps its towers beside the language model.
_TOWERS = ("vision_config", "audio_config", "vision_tower_config", "speech_config", "vit_config")


def with_weights(
    model: Model,
    config: dict[str, Any],
    shards: Iterable[Safetensors] = (),
    index_bytes: int | None = None,
) -> Model:
    """The model with its parameters and weights, exact wherever headers or a formula say them.

    `parameters` are those of the text model: of its config where the family's formula is known,
    else all that a checkpoint of a text model alone stores. `stored_parameters` are all that the
    headers list, with weights that share an integer counted apart.

    Args:
        model: What the config gives without them.
        config: The parsed config.json.
        shards: The headers of the checkpoint, read one after the other; none are kept.
        index_bytes: Without headers, what an index says that all tensors take.

    Raises:
        KvcalcError: What reading a header raises; "unreadable_input" if two hold one tensor.
    """
    count = count_parameters(config)
    found = _summed(shards, config, count)
    if found is None:
        return _by_config(model, config, count, index_bytes)
    types = stored_types(found.types.items())
    return replace(
        model,
        parameters=count.total if count else found.text,
        active_parameters=_active(count),
        stored_parameters=found.elements,
        weights=Weights(
            _format(config) or types[0].type,
            sum(found.types.values()),
            count.embedding_elements if count else found.embeddings,
            types,
        ),
    )


def stored_types(pairs: Iterable[tuple[str, int]]) -> tuple[StoredType, ...]:
    """Bytes by type, the largest share first."""
    return tuple(sorted((StoredType(*pair) for pair in pairs), key=lambda t: -t.bytes))


def _active(count: ParameterCount | None) -> int | None:
    """What one token uses, where that is not everything."""
    return count.active if count is not None and count.active != count.total else None


def _by_config(
    model: Model, config: dict[str, Any], count: ParameterCount | None, index_bytes: int | None
) -> Model:
    """Without headers: an index's sum, or what the config's formula gives."""
    weights = Weights(_format(config) or model.dtype, index_bytes)
    if count is None:
        return replace(model, weights=weights)
    weights = weights._replace(embedding_elements=count.embedding_elements)
    if index_bytes is None:
        weights = _computed(weights, model, config, count)
    return replace(model, parameters=count.total, active_parameters=_active(count), weights=weights)


def _computed(
    weights: Weights, model: Model, config: dict[str, Any], count: ParameterCount
) -> Weights:
    """The bytes of the tensors that the config implies, and of the towers beside them."""
    if _quantisation(config) is None:
        size = count.total * _PLAIN[model.dtype]
        types = {model.dtype: size}
        # A config that names no dtype may be of 32-bit weights.
        named = "dtype" not in dict(model.defaulted)
        low, high = size, size if named else 4 * count.total
    else:
        from kvcalc.checkpoints.parameters.stored import stored_bytes  # noqa: PLC0415

        try:
            made = stored_bytes(config)
        except KvcalcError:  # a quantisation whose size its config does not tell
            made = None
        if made is None:
            return weights
        types, low, high = dict(made.types), made.low_bytes, made.high_bytes
    towers, most = count.vision, count.vision
    if towers is None:
        towers = tower_elements(config)
        most = None if towers is None else 2 * towers
    if towers is None or most is None:
        return weights
    if towers:
        kind = model.dtype
        types[kind] = types.get(kind, 0) + _PLAIN[kind] * towers
        least = towers if towers == most else 0
        low, high = low + _PLAIN[kind] * least, high + _PLAIN[kind] * most
    return weights._replace(
        bytes=sum(types.values()),
        types=stored_types(types.items()),
        low_bytes=None if low == high else low,
        high_bytes=None if low == high else high,
    )


def tower_elements(config: dict[str, Any]) -> int | None:
    """About what a config's vision and audio towers hold; 0 without one, None if it is not told.

    L layers of width d with an MLP of width f: L · (4 · d² + 2 · d · f). Projectors, patches and
    positions come on top; the whole counts as 0 to 2 times this.
    """
    total = 0
    for name in _TOWERS:
        tower = config.get(name)
        if not isinstance(tower, dict):
            continue
        layers, width, inner = (
            next((n for key in keys if type(n := tower.get(key)) is int and 0 < n < 10**6), None)
            for keys in (
                ("num_hidden_layers", "depth", "num_layers", "encoder_layers", "layers"),
                ("embed_dim", "hidden_size", "d_model", "width"),
                ("intermediate_size", "encoder_ffn_dim"),
            )
        )
        if layers is None or width is None:
            return None
        total += layers * (4 * width * width + 2 * width * (inner or 4 * width))
    return total


def _quantisation(config: dict[str, Any]) -> dict[str, Any] | None:
    """The quantisation that a config names, as `parameters.quantisation` finds it."""
    for at in (config, config.get("text_config"), config.get("llm_config")):
        for name in ("quantization_config", "compression_config"):
            found = at.get(name) if isinstance(at, dict) else None
            if isinstance(found, dict):
                return found
    return None


def _format(config: dict[str, Any]) -> str | None:
    """The format of quantised weights; None for plain ones.

    Where the config does not tell a size, it is the config's word for it and none of ours.
    """
    quantisation = _quantisation(config)
    if quantisation is None:
        return None
    from kvcalc.checkpoints.parameters.quantisation import format_of_config  # noqa: PLC0415

    try:
        found = format_of_config(config)
    except KvcalcError:
        found = None
    if found is not None:
        return found.key
    method = quantisation.get("quant_method")
    known = isinstance(method, str) and method.isprintable() and 0 < len(method) <= 40
    return f"{method} (variant)" if known else "quantised"


def _bits(config: dict[str, Any]) -> int | None:
    """Bits of a quantised weight: 0 where none is, None where the config gives no one number."""
    quantisation = _quantisation(config)
    if quantisation is None:
        return 0
    found = {
        quantisation[name] for name in ("bits", "w_bit") if type(quantisation.get(name)) is int
    }
    groups = quantisation.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        bits = weights.get("num_bits") if isinstance(weights, dict) else None
        found.add(bits if type(bits) is int else 0)
    told = f"{quantisation.get('quant_method')} {quantisation.get('quant_algo')}".lower()
    if quantisation.get("load_in_4bit") is True or "fp4" in told:
        found.add(4)
    one = found.pop() if len(found) == 1 else 0
    return one if 1 <= one <= 8 else None


class _Sum(NamedTuple):
    """What all headers list: bytes by type, weights, those of the text model, of embeddings."""

    types: dict[str, int]
    elements: int | None
    text: int | None
    embeddings: int | None


def _summed(
    shards: Iterable[Safetensors], config: dict[str, Any], count: ParameterCount | None
) -> _Sum | None:
    """The sums over all headers; None without any tensor."""
    bits, layers = _bits(config), config.get("num_hidden_layers")
    # Draft layers come after the model's own. Where the formula is known, none need be told apart.
    alone = count is None and tower_elements(config) == 0 and type(layers) is int
    last = layers if type(layers) is int else 0
    names: set[str] = set()
    types: dict[str, int] = {}
    elements, draft, embeddings = 0, 0, 0
    unknown = False
    for shard in shards:
        before = len(names)
        names.update(tensor.name for tensor in shard.tensors)
        if len(names) < before + len(shard.tensors):
            raise broken(
                label(shard.shards[0] if shard.shards else "the checkpoint"),
                "holds a tensor that another file holds too", "keep the files of one model there",
            )  # fmt: skip
        for dtype, total in shard.types.items():
            name = _NAMES.get(dtype, dtype.lower())
            types[name] = types.get(name, 0) + total.stored_bytes
            if bits == 0 and dtype != "I64":  # positions are no weights
                elements += total.elements
        if bits == 0 and count is not None:
            continue
        for tensor in shard.tensors:
            if bits == 0:
                own: int | None = tensor.elements if tensor.dtype != "I64" else 0
            else:
                own = _unpacked(tensor, bits)
                unknown = unknown or own is None
                elements += own or 0
            if alone and _is_draft(tensor.name, last):
                draft += own or 0
            if count is None and tensor.name.endswith(_EMBEDDINGS):
                embeddings += own or 0
    if not names:
        return None
    whole = None if unknown else elements
    text = whole - draft if alone and whole is not None else None
    return _Sum(types, whole, text, embeddings or None)


def _unpacked(tensor: SafeTensor, bits: int | None) -> int | None:
    """Weights in a tensor of a quantised model; None if they are packed in an unknown way."""
    if tensor.dtype == "I64" or tensor.name.endswith(_BESIDE):
        return 0
    if tensor.dtype not in _PACKING:
        return tensor.elements
    return None if bits is None else tensor.elements * _PACKING[tensor.dtype] // bits


def _is_draft(name: str, layers: int) -> bool:
    """Whether a tensor belongs to a layer past the last, or to a module of token prediction."""
    match = re.search(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.", name)
    past = match is not None and int(match[1]) >= layers
    return past or name.startswith(("mtp.", "model.mtp."))
