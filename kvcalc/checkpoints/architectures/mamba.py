"""Mamba and Mamba-2 states, alone and between or beside attention layers.

Source of the shapes: vLLM's mamba_utils (0.33) and transformers' modules (5.24). K is the width of
the short convolution, N the state size, I the inner size, G the groups.
"""

from __future__ import annotations

from collections.abc import Callable

from kvcalc.checkpoints.architectures.dense import MAKERS
from kvcalc.checkpoints.architectures.layers import build, full
from kvcalc.checkpoints.architectures.shape import RENAMED, Built, Family, Shape
from kvcalc.checkpoints.fields import MAX_LAYERS
from kvcalc.core.cache import State
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Layer

LINEAR, FULL, HYBRID = "linear_attention", "full_attention", "hybrid"
#: Dtypes that configs name for a recurrent state.
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def state_dtype(s: Shape, *names: str) -> str | None:
    """The dtype that the file names for the recurrent state; None is the model's.

    Raises:
        KvcalcError: "unsupported_architecture" for a dtype that no state has.
    """
    name = s.f.first(names)
    text = s.f.text(name) if name is not None else None
    if text is None or text == "auto":
        return None
    known = DTYPES.get(text.removeprefix("torch."))
    if known is None:
        raise s.f.unknown(str(name), text, ", ".join(DTYPES))
    return known


def mamba1(s: Shape, prefix: str = "mamba_") -> State:
    """K columns of I channels and I · N elements."""
    f = s.f
    if prefix:
        inner = f.count("mamba_expand", "expand", default=2) * s.hidden
        kernel = f.count("mamba_d_conv", default=4)
        size = f.count("mamba_d_state", default=16)
    else:
        inner = f.count("expand", default=2) * s.hidden
        kernel = f.count("conv_kernel", "mamba_d_conv", default=4)
        size = f.count("state_size", "mamba_d_state", default=16)
    return State(
        variant="mamba1",
        conv_kernel=kernel,
        conv_channels=inner,
        recurrent_elements=inner * size,
        recurrent_dtype=state_dtype(s, "mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    )


def mamba2(
    s: Shape, *, inner: int, heads: int, dim: int, size: int, groups: int, kernel: int,
    dtype: str | None = None,
) -> State:  # fmt: skip
    """K columns of I + 2 · G · N channels and heads · dim · N elements."""
    return State(
        variant="mamba2",
        conv_kernel=kernel,
        conv_channels=inner + 2 * groups * size,
        recurrent_elements=heads * dim * size,
        recurrent_dtype=dtype or state_dtype(s, "mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
        heads=heads,
        groups=groups,
        group_channels=2 * size,
    )


def bamba_state(s: Shape) -> State:
    """Bamba, Granite 4, Falcon-H1: I is mamba_d_ssm if set, else mamba_expand · hidden.

    Raises:
        KvcalcError: "invalid_config" if the heads do not divide I where the head dim is "auto".
    """
    f = s.f
    inner = f.optional("mamba_d_ssm")
    if inner is None and "M" in s.row and not f.has("mamba_d_ssm"):
        inner = f.count("mamba_d_ssm", default=int(s.row["M"]))
    inner = inner or f.count("mamba_expand", default=2) * s.hidden
    heads = f.count("mamba_n_heads", default=128)
    if f.get("mamba_d_head") in ("auto", None):
        if inner % heads:
            raise f.bad("mamba_n_heads", f"a divisor of the inner size {inner:,}", heads)
        dim = inner // heads
    else:
        dim = f.count("mamba_d_head")
        if dim * heads != inner:
            raise f.bad("mamba_d_head", f"the inner size {inner:,} / {heads:,} heads", dim)
    return mamba2(
        s, inner=inner, heads=heads, dim=dim,
        size=f.count("mamba_d_state", default=256),
        groups=f.count("mamba_n_groups", default=1),
        kernel=f.count("mamba_d_conv", default=4),
    )  # fmt: skip


def pure(make: Callable[[Shape], State]) -> Family:
    """Every layer one state and nothing else."""
    return lambda s: Built(((make(s),),) * s.layer_count, s)


def mamba2_state(s: Shape) -> State:
    """Mamba-2: its heads are no attention heads."""
    f, heads, dim = s.f, s.heads, s.head_dim
    inner = f.count("expand", default=2) * s.hidden
    if inner != heads * dim:
        raise f.bad("num_heads", f"expand · hidden_size / head_dim = {inner:,} / {dim:,}", heads)
    return mamba2(
        s, inner=inner, heads=heads, dim=dim,
        size=f.count("state_size", default=128),
        groups=f.count("n_groups", default=8),
        kernel=f.count("conv_kernel", default=4),
    )  # fmt: skip


def mixed(s: Shape, kinds: list[str], state: Callable[[Shape], State]) -> Built:
    """Layers that are attention, state, both ("hybrid") or neither."""

    def states(layer: Shape) -> Layer:
        return (state(layer),)

    def both(layer: Shape) -> Layer:
        return (*full(layer), state(layer))

    makers = {**MAKERS, LINEAR: states, HYBRID: both}
    return Built(build(s, kinds, makers), s, full)


def jamba(s: Shape) -> Built:
    """Attention where i % attn_layer_period = attn_layer_offset, Mamba elsewhere."""
    kinds = s.kinds("layers_block_type", "layer_types")
    if kinds is None:
        period = s.f.count("attn_layer_period", default=8)
        offset = s.f.count("attn_layer_offset", default=4, low=0)
        kinds = [FULL if i % period == offset else LINEAR for i in range(s.layer_count)]
    return mixed(s, kinds, mamba1)


def bamba(s: Shape) -> Built:
    """Attention in the layers of attn_layer_indices."""
    kinds = s.kinds("layers_block_type", "layer_types")
    if kinds is None:
        listed = set(s.f.counts("attn_layer_indices", high=s.layer_count - 1) or [])
        kinds = [FULL if i in listed else LINEAR for i in range(s.layer_count)]
    return mixed(s, kinds, bamba_state)


def granite_hybrid(s: Shape) -> Built:
    """Granite 4: listed types; without a list every layer is Mamba-2."""
    kinds = s.kinds("layer_types", "layers_block_type")
    return mixed(s, kinds or [LINEAR] * s.layer_count, bamba_state)


def falcon_h1(s: Shape) -> Built:
    """Every layer has attention and a Mamba-2 state beside it."""
    return mixed(s, [HYBRID] * s.layer_count, bamba_state)


def zamba(s: Shape) -> Built:
    """Mamba everywhere; shared attention of head dim 2 · hidden / heads in the hybrid layers."""
    kinds = s.kinds("layers_block_type", "layer_types")
    if kinds is None:
        period = s.f.count("attn_layer_period", default=6)
        offset = s.f.count("attn_layer_offset", default=4, low=0)
        rest = [HYBRID if i % period == offset else LINEAR for i in range(s.layer_count - 3)]
        kinds = [LINEAR, LINEAR, HYBRID, *rest][: s.layer_count]
    return mixed(s.changed(head_dim=doubled_dim(s)), kinds, mamba1)


def doubled_dim(s: Shape) -> int:
    """attention_head_dim, else 2 · hidden / heads: attention sees the embedding beside the state.

    Raises:
        KvcalcError: "invalid_config" if the heads do not divide it.
    """
    given = s.f.optional("attention_head_dim")
    if given is None and 2 * s.hidden % s.heads:
        raise s.f.bad("hidden_size", f"such that {s.heads:,} heads divide twice of it", s.hidden)
    return given or 2 * s.hidden // s.heads


def zamba2(s: Shape) -> Built:
    """As Zamba with Mamba-2; the class always takes 2 · hidden / heads."""
    kinds = s.kinds("layers_block_type", "layer_types")
    if kinds is None:
        gaps = [6, *[5] * 6, 4, 3]  # Mamba layers before each hybrid one; 2 more end the 54
        kinds = [kind for gap in gaps for kind in [LINEAR] * gap + [HYBRID]] + [LINEAR] * 2
        if len(kinds) != s.layer_count:
            raise s.f.missing("layers_block_type")

    def state(layer: Shape) -> State:
        f = layer.f
        inner = f.count("mamba_expand", default=2) * layer.hidden
        heads = f.count("n_mamba_heads", default=8)
        if inner % heads:
            raise f.bad("n_mamba_heads", f"a divisor of the inner size {inner:,}", heads)
        return mamba2(
            layer, inner=inner, heads=heads, dim=inner // heads,
            size=f.count("mamba_d_state", default=64),
            groups=f.count("mamba_ngroups", default=1),
            kernel=f.count("mamba_d_conv", default=4),
        )  # fmt: skip

    return mixed(s.changed(head_dim=doubled_dim(s.changed(attention_head_dim=None))), kinds, state)


#: The letters of hybrid_override_pattern.
NEMOTRON = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}


def nemotron_kinds(s: Shape) -> list[str]:
    """From the pattern's letters (M, *, -, E) or the re-saved list; their number is L.

    Raises:
        KvcalcError: "unsupported_architecture" for another letter.
    """
    name = s.f.first(("layers_block_type", "layer_types"))
    if name is not None:
        listed = s.f.texts(name) or []
        return [RENAMED.get(kind, kind) for kind in listed]
    pattern = s.f.text("hybrid_override_pattern")
    if pattern is None:
        s.f.note("layers_block_type", "linear_attention, moe, full_attention, mlp")
        return [LINEAR, "moe", FULL, "mlp"]
    kinds = []
    for i, letter in enumerate(pattern.replace("|", "")[: MAX_LAYERS + 1]):
        if letter not in NEMOTRON:
            raise s.f.unknown(f"hybrid_override_pattern[{i}]", letter, "M, *, -, E")
        kinds.append(NEMOTRON[letter])
    return kinds


def nemotron_h(s: Shape) -> Built:
    """Nemotron-H: each layer one of Mamba-2, attention, MLP or experts."""
    kinds = nemotron_kinds(s)
    if not 0 < len(kinds) <= MAX_LAYERS:
        raise KvcalcError(
            "invalid_config", f"{s.f.where}: the layer pattern lists {len(kinds):,} layers"
        )
    f = s.f
    if f.optional("num_hidden_layers") not in (None, len(kinds)):
        raise f.bad("num_hidden_layers", f"the {len(kinds):,} layers that the pattern lists")
    if f.get("head_dim") is None and f.get("attention_head_dim") is not None:
        s = s.changed(head_dim=f.get("attention_head_dim"))

    if f.get("mamba_ssm_cache_dtype") is None:  # the class's default, as re-saved files have it
        f.note("mamba_ssm_cache_dtype", "float32")
        s = s.changed(mamba_ssm_cache_dtype="float32")

    def state(layer: Shape) -> State:
        heads = f.count("mamba_num_heads", default=128)
        dim = f.count("mamba_head_dim", default=64)
        return mamba2(
            layer, inner=heads * dim, heads=heads, dim=dim,
            size=f.count("ssm_state_size", "mamba_d_state", default=128),
            groups=f.count("mamba_n_groups", "n_groups", default=8),
            kernel=f.count("mamba_d_conv", "conv_kernel", default=4),
        )  # fmt: skip

    return mixed(s, kinds, state)


_BAMBA = "L=32 H=32 K=8 E=4096 V=128000"
FAMILIES: dict[str, tuple[Family, str]] = {
    "mamba": (pure(lambda s: mamba1(s, "")), "L=32 E=768 V=50280"),
    "falcon_mamba": (pure(lambda s: mamba1(s, "")), "L=32 E=768 V=50280"),
    "mamba2": (pure(mamba2_state), "L=64 H:num_heads=128 D=64 E=4096 V=32768"),
    "jamba": (jamba, "L=32 H=32 K=8 E=4096 V=65536 C=262144 X=16 Y=2"),
    "bamba": (bamba, f"{_BAMBA} C=262144"),
    "granitemoehybrid": (granite_hybrid, "L=32 H=32 E=4096 V=32000 C=2048"),
    "falcon_h1": (falcon_h1, f"{_BAMBA} C=8192 M=1024"),
    "zamba": (zamba, "L=76 H=16 K=16 E=3712 V=32000 C=4096"),
    "zamba2": (zamba2, "L=54 H=32 E=2560 V=32000 C=4096"),
    "nemotron_h": (nemotron_h, "H=32 K=8 D=128 E=4096 V=131072 C=4096"),
}
