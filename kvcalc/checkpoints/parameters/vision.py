"""Vision towers with their projectors, counted beside the text model. w: the tower's width."""

from __future__ import annotations

from typing import Any

from kvcalc.checkpoints.parameters.fields import Fields, Unusable

#: Whatever else of a wrapper holds parameters that are not counted.
_OTHERS = ("audio_config", "qformer_config", "vq_config", "perceiver_config", "talker_config")


def vision_parameters(config: dict[str, Any], text_width: int) -> int | None:
    """Parameters of a config's vision tower and projector; 0 without one, None if not known."""
    tower = config.get("vision_config")
    if any(config.get(name) is not None for name in _OTHERS):
        return None
    if tower is None:
        wraps = isinstance(config.get("text_config"), dict) or config.get("visual") is not None
        return None if wraps or config.get("model_type") in _TOWERS else 0
    counter = _TOWERS.get(str(config.get("model_type")))
    if counter is None or not isinstance(tower, dict):
        return None
    try:
        return counter(Fields(tower, "", {}), Fields(config, "", {}), text_width)
    except (Unusable, ZeroDivisionError):
        return None


def _block(w: int, f: int, *, norms: int = 4) -> int:
    """Attention and a plain MLP with biases, two LayerNorms (or two RMSNorms: norms = 2)."""
    return 4 * (w * w + w) + 2 * w * f + f + w + norms * w


def _gemma3(v: Fields, c: Fields, d: int) -> int:
    """SigLIP, and a projection w → d with a norm."""
    del c
    w, f, n = v.number("hidden_size", 768), v.number("intermediate_size", 3072), _depth(v, 12)
    patch, image = v.number("patch_size", 16), v.number("image_size", 224)
    head = 0
    if v.flag("vision_use_head", default=True):
        head = w + _block(w, f, norms=2)
    return (
        (v.number("num_channels", 3) * patch * patch + 1) * w + (image // patch) ** 2 * w
        + n * _block(w, f) + 2 * w + head + w * d + w
    )  # fmt: skip


def _patches(v: Fields, default: int) -> int:
    """Inputs of a patch: channels · frames · side²."""
    side = v.number("patch_size", default)
    return v.number("in_channels", 3) * v.number("temporal_patch_size", 2) * side * side


def _merger(w: int, merge: int, out: int) -> int:
    """Two layers on merge² patches, with biases: (w·m²)² + w·m²·out."""
    wide = w * merge * merge
    return wide * wide + wide + wide * out + out


def _qwen2(v: Fields, c: Fields, d: int) -> int:
    """Qwen2-VL: LayerNorms, mlp_ratio; its hidden_size is the text model's."""
    del c, d
    w, n, merge = v.number("embed_dim", 1280), v.number("depth", 32), _merge(v)
    out = v.number("hidden_size", 3584)
    block = _block(w, v.number("mlp_ratio", 4) * w)
    return _patches(v, 14) * w + n * block + 2 * w + _merger(w, merge, out)


def _qwen2_5(v: Fields, c: Fields, d: int) -> int:
    """Qwen2.5-VL: RMSNorms and a gated MLP with biases."""
    del c, d
    w, n, f = (
        v.number("hidden_size", 3584),
        v.number("depth", 32),
        v.number("intermediate_size", 3420),
    )
    block = 4 * (w * w + w) + 3 * w * f + 2 * f + w + 2 * w
    out = v.number("out_hidden_size", 3584)
    return _patches(v, 14) * w + n * block + w + _merger(w, _merge(v), out)


def _qwen3(v: Fields, c: Fields, d: int) -> int:
    """Qwen3-VL and Qwen3.5: learned positions; Qwen3-VL merges three inner layers as well."""
    del d
    w, n, f = (
        v.number("hidden_size", 1152),
        v.number("depth", 27),
        v.number("intermediate_size", 4304),
    )
    merge, out = _merge(v), v.number("out_hidden_size", 3584)
    merger = _merger(w, merge, out)
    taps = v.items("deepstack_visual_indexes")
    inner = len(taps) if taps is not None else 0
    if taps is None and str(c.raw("model_type")).startswith("qwen3_vl"):
        inner = 3
    return (
        (_patches(v, 16) + 1) * w + v.number("num_position_embeddings", 2304) * w + n * _block(w, f)
        + 2 * w + merger + inner * (merger + 2 * w * merge * merge)
    )  # fmt: skip


def _pixtral(v: Fields, c: Fields, d: int) -> int:
    """Pixtral: gated MLPs without biases; patches merged, then two layers w → d → d."""
    w, f, n = v.number("hidden_size", 1024), v.number("intermediate_size", 4096), _depth(v, 24)
    heads = v.number("num_attention_heads", 16)
    inner = heads * v.number("head_dim", w // heads)
    merge, side = c.number("spatial_merge_size", 2), v.number("patch_size", 14)
    bias = 2 * d if c.flag("multimodal_projector_bias") else 0
    return (
        v.number("num_channels", 3) * side * side * w + w + n * (4 * w * inner + 3 * w * f + 2 * w)
        + w + w * merge * merge * w + w * d + d * d + bias
    )  # fmt: skip


def _minimax_m3(v: Fields, c: Fields, d: int) -> int:
    """LayerNorms before each half and the first, projections of a patch and of merged patches."""
    w, f, merge = v.number("hidden_size", 1280), v.number("intermediate_size", 5120), _merge(v)
    n, p = _depth(v, 32), c.number("projector_hidden_size", 6144)
    projector = w * p + p + (p + 1) * d + d * merge * merge * p + p + (p + 1) * d
    return _patches(v, 14) * w + 2 * w + n * _block(w, f) + projector


def _llama4(v: Fields, c: Fields, d: int) -> int:
    """Llama 4: a class patch, LayerNorms before and after, an adapter, one projection."""
    if c.flag("multi_modal_projector_bias") or v.flag("multi_modal_projector_bias"):
        raise Unusable
    w, f, n = v.number("hidden_size", 768), v.number("intermediate_size", 5632), _depth(v, 34)
    side, image = v.number("patch_size", 14), v.number("image_size", 448)
    inner, out = v.number("projector_input_dim", 4096), v.number("projector_output_dim", 4096)
    patches = (image // side) ** 2 + 1
    return (
        w + patches * w + v.number("num_channels", 3) * side * side * w + 4 * w + n * _block(w, f)
        + f * inner + out * out + v.number("vision_output_dim", 7680) * d
    )  # fmt: skip


def _depth(v: Fields, default: int) -> int:
    return v.number("num_hidden_layers", default)


def _merge(v: Fields) -> int:
    return v.number("spatial_merge_size", 2)


_TOWERS = {
    "gemma3": _gemma3,
    "qwen2_vl": _qwen2,
    "qwen2_5_vl": _qwen2_5,
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen3),
    "mistral3": _pixtral,
    "llama4": _llama4,
    "minimax_m3_vl": _minimax_m3,
}
