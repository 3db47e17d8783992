"""A Hugging Face config.json to the core's Model."""

from __future__ import annotations

import json
import os
from typing import Any

from kvcalc.checkpoints.architectures import index
from kvcalc.checkpoints.architectures.shape import SPELLINGS, Built, Shape
from kvcalc.checkpoints.architectures.wrappers import CROSSED, SECTIONS, WRAPPERS
from kvcalc.checkpoints.fields import MAX_LAYERS, Fields
from kvcalc.core.cache import Cross
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.model import Layer, Model
from kvcalc.core.units import shown

#: Parsed, the worst JSON takes 24 times its size; this keeps the process under 200 MiB.
MAX_CONFIG_BYTES = 5 * 10**6
#: Dtype names of configs; what is not here (fp8 weights) computes in bf16.
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
#: Fields that limit the context, as serving engines read them: the smallest holds.
CONTEXTS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len", "n_ctx",
    "max_decoder_position_embeddings", "context_length",
)  # fmt: skip
#: How many layers of multi-token prediction a checkpoint carries.
MTP = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules")


def read_config(path: str, *, include_mtp: bool = False) -> Model:
    """The model that a config.json, or a folder holding one, describes.

    Raises:
        KvcalcError: "unreadable_input" if it cannot be read; "invalid_config" if it is damaged;
            "unsupported_architecture" if its model type or layers are not known.
    """
    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    folder, base = os.path.split(os.path.abspath(file))
    name = os.path.basename(folder) if base == "config.json" else os.path.splitext(base)[0]
    config = load_json(file)
    return model_from_config(config, name=name or base, where=file, include_mtp=include_mtp)


def load_json(file: str) -> dict[str, Any]:
    """A JSON object from a file of at most 5 MB, without duplicate keys.

    Bare NaN and Infinity are read: transformers writes them in fields that shape no cache.

    Raises:
        KvcalcError: "unreadable_input" or "invalid_config".
    """
    where = shown(file)
    try:
        with open(file, "rb") as handle:
            data = handle.read(MAX_CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no readable file"
        raise KvcalcError("unreadable_input", f"{where}: {reason}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise KvcalcError(
            "invalid_config", f"{where}: larger than {MAX_CONFIG_BYTES:,} bytes",
            "a config.json has a few kilobytes",
        )  # fmt: skip
    try:
        found = json.loads(data, object_pairs_hook=_unique)
    except _DuplicateKeyError as error:
        raise KvcalcError(
            "invalid_config", f"{where}: {shown(error)} stands twice in one object",
            "remove one of them",
        ) from None  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise KvcalcError("invalid_config", f"{where}: no valid JSON: {shown(error, 80)}") from None
    if not isinstance(found, dict):
        raise KvcalcError("invalid_config", f"{where}: no JSON object", "expected a config.json")
    return found


class _DuplicateKeyError(ValueError):
    """A key that stands twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(key)
            seen.add(key)
    return found


def model_from_config(
    config: dict[str, Any],
    *,
    name: str,
    where: str,
    source: str = "config.json",
    include_mtp: bool = False,
) -> Model:
    """The model that a config describes.

    Args:
        config: The parsed config.json.
        name: The model's id and name.
        where: The file, for messages.
        source: What the model comes from.
        include_mtp: Count the layers of multi-token prediction, which only speculation uses.

    Raises:
        KvcalcError: "invalid_config" if a field that shapes the cache is nonsense;
            "unsupported_architecture" if the model type or a layer type is not known.
    """
    top = Fields(config, where)
    try:
        text, model_type, extra = language_model(top)
        found = index.find(model_type)
        if found is None:
            raise unsupported(top, model_type)
        family, row = found
        shape = Shape(text, f"{row} {extra}")
        shape.check()
        built = family(shape)
        layers = composite_layers(top, built.layers)
        if include_mtp:
            layers += mtp_layers(built)
    except RecursionError:  # objects nested a thousand deep
        raise KvcalcError("invalid_config", f"{shown(where)}: nested too deeply") from None
    shape = built.shape
    experts = _known(shape, "X")
    return Model(
        id=name,
        name=name,
        layers=layers,
        source=source,
        file=where,
        query_heads=_known(shape, "H"),
        max_context_tokens=context(text, shape),
        dtype=model_dtype(text, top),
        hidden_size=_known(shape, "E"),
        vocab_size=_known(shape, "V"),
        experts=experts,
        experts_per_token=_known(shape, "Y") if experts else None,
        architecture=model_type,
        defaulted=tuple(text.notes.items()),
    )


def _known(shape: Shape, code: str) -> int | None:
    """A number beside the cache: the file's if it is one, else the class's."""
    names = shape.spellings(code)
    found = shape.f.lenient(*names)
    if found is None and not any(shape.f.has(name) for name in names):
        text = shape.row.get(code, "").rstrip("?")
        found = int(text) if text else None
    return found


def unsupported(top: Fields, model_type: str) -> KvcalcError:
    """The error for a model type without a family."""
    names = index.all_names()
    close = nearest(model_type, [*names, *WRAPPERS])
    near = f"nearest: {', '.join(close)}; " if close else ""
    return KvcalcError(
        "unsupported_architecture",
        f'{shown(top.where)}: model_type "{shown(model_type)}" is not known',
        f"{near}--layers, --kv-heads and --head-dim size what you know of the model",
    )


def language_model(top: Fields) -> tuple[Fields, str, str]:
    """The part of a config that shapes the cache, its model type, and defaults of its wrapper.

    Raises:
        KvcalcError: "invalid_config" without a model type; "unsupported_architecture" for one
            that is not known.
    """
    outer = top.text("model_type")
    default, _, extra = WRAPPERS.get(outer or "", "").partition(" ")
    section = None
    flat_type = outer is not None and outer not in WRAPPERS and index.find(outer) is not None
    if not flat_type or top.first(SPELLINGS["L"]) is None:
        section = next((s for name in SECTIONS if (s := top.sub(name)) is not None), None)
    if section is None:
        if outer is None:
            raise top.missing("model_type")
        # The whole config is the language model's, or it takes the wrapper's own defaults.
        flat = top.over({"is_decoder": True}, "") if outer in CROSSED else top
        return flat, default or ALIASES.get(outer, outer), extra
    inner = section.text("model_type") or default
    if inner in WRAPPERS and inner != outer:
        # thinker_config is a wrapper of its own
        return language_model(section.over({"model_type": inner}, ""))
    if not inner:
        raise section.missing("model_type")
    if default.endswith(FIXED) and index.find(inner) is None:
        inner = default  # such a wrapper builds its one class whatever the name says
    if outer in CROSSED:
        section = section.over({"is_decoder": True}, "")
    return section, ALIASES.get(inner, inner), extra if outer in MERGED else ""


#: Wrappers whose defaults also fill in what a nested config leaves out.
MERGED = ("glmasr", "voxtral")
#: Endings of text types that belong to one wrapper.
FIXED = ("_text", "_text_model", "_decoder", "_module")
#: Types that files use for a family under another name.
ALIASES = {
    "gpt-sw3": "gpt2", "RefinedWeb": "falcon", "RefinedWebModel": "falcon",
    "t5gemma_module": "t5_gemma_module", "kimi_k2_5": "kimi_k2",
}  # fmt: skip


def composite_layers(top: Fields, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Cross attention that the wrapper adds or whose length its vision config fixes."""
    model_type = top.get("model_type")
    if model_type in CROSSED or model_type == "mllama":
        from kvcalc.checkpoints.architectures.encdec import with_encoder  # noqa: PLC0415

        tokens = encoder_tokens(top)
        if tokens is None and not any(isinstance(c, Cross) for layer in layers for c in layer):
            tokens = 512
            top.note("encoder_tokens", tokens)
        return layers if tokens is None else with_encoder(layers, tokens)
    return layers


def encoder_tokens(top: Fields) -> int | None:
    """Tokens of the encoder that a composite's config fixes, or None.

    An image of (side / patch)² patches and a class token; mllama has max_num_tiles of them.
    """
    for name in ("vision_config", "encoder", "text_encoder"):
        section = top.sub(name)
        if section is None:
            continue
        side, patch = section.lenient("image_size"), section.lenient("patch_size")
        if side is not None and patch is not None and patch <= side:
            return ((side // patch) ** 2 + 1) * (section.lenient("max_num_tiles") or 1)
        length = section.lenient("max_position_embeddings", "n_positions")
        if length is not None:
            return length
    return None


def mtp_layers(built: Built) -> tuple[Layer, ...]:
    """The layers of multi-token prediction.

    Raises:
        KvcalcError: "unsupported_architecture" if the config has some and their kind is not known.
    """
    f = built.shape.f
    count = f.optional(*MTP, low=0, high=MAX_LAYERS) or 0
    if not count:
        return ()
    if built.mtp is None:
        raise f.unknown(str(f.first(MTP)), count, "none for this model type")
    return (built.mtp(built.shape),) * count


def model_dtype(text: Fields, top: Fields) -> str:
    """The dtype that the model computes in."""
    for fields in (text, top):
        for name in ("dtype", "torch_dtype"):
            value = fields.get(name)
            if isinstance(value, str):
                return DTYPES.get(value.removeprefix("torch."), "bf16")
    text.note("dtype", "bf16")
    return "bf16"


def context(text: Fields, shape: Shape) -> int | None:
    """The longest context: the smallest limit that the file names, times what YaRN stretches it.

    llama3 and longrope scaling say the stretched length already.
    """
    found = [n for name in CONTEXTS if (n := text.lenient(name)) is not None]
    if not found:
        default = shape.row.get("C")
        return int(default) if default else None
    length = min(found)
    scaling = text.get("rope_parameters") or text.get("rope_scaling")
    # Gemma 3's linear factor is already in its max_position_embeddings.
    if not isinstance(scaling, dict) or str(text.get("model_type")).startswith("gemma3"):
        return length
    kind = scaling.get("rope_type") or scaling.get("type")
    factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings")
    if kind not in ("yarn", "linear", "dynamic") or not isinstance(factor, (int, float)):
        return length
    if kind == "yarn" and isinstance(original, int) and not isinstance(original, bool):
        length = original
    stretched = length * factor if 1 <= factor < 10**6 else length
    return int(stretched) if 0 < stretched < 10**12 else None
