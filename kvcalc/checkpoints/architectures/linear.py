"""Linear attention: gated delta nets, KDA, lightning, short convolutions, RG-LRU, RWKV, xLSTM.

Source of the shapes: vLLM's mamba_utils (0.33) and transformers' modules (5.24).
"""

from __future__ import annotations

from kvcalc.checkpoints.architectures.dense import MAKERS
from kvcalc.checkpoints.architectures.latent import latent, latent_layer, owners
from kvcalc.checkpoints.architectures.layers import build, full, sliding
from kvcalc.checkpoints.architectures.mamba import state_dtype
from kvcalc.checkpoints.architectures.shape import Built, Family, Shape
from kvcalc.checkpoints.fields import MAX_LAYERS
from kvcalc.core.cache import Indexer, State
from kvcalc.core.model import Layer

LINEAR, FULL, SLIDING, CONV = "linear_attention", "full_attention", "sliding_attention", "conv"
INDEXED = "indexed_attention"


def delta_net(s: Shape) -> Layer:
    """Gated delta net: K columns of 2 · Hk · dk + Hv · dv channels, Hv · dv · dk elements."""
    f = s.f
    if "Q" in s.row:  # OLMo-hybrid derives what is missing from the attention
        keys = f.optional("linear_num_key_heads") or s.heads
        values = f.optional("linear_num_value_heads") or s.heads
        key_dim = f.optional("linear_key_head_dim") or max(3 * s.hidden // (4 * keys), 1)
        value_dim = f.optional("linear_value_head_dim") or 2 * key_dim
    else:
        key_default, value_default = s.row.get("G", "16,32").split(",")
        keys = f.count("linear_num_key_heads", default=int(key_default))
        values = f.count("linear_num_value_heads", default=int(value_default))
        key_dim = f.count("linear_key_head_dim", default=128)
        value_dim = f.count("linear_value_head_dim", default=128)
    if values % keys:
        raise f.bad("linear_num_value_heads", f"a multiple of the {keys:,} key heads", values)
    return (State(
        variant="gated_delta_net",
        conv_kernel=f.count("linear_conv_kernel_dim", default=4),
        conv_channels=2 * keys * key_dim + values * value_dim,
        recurrent_elements=values * value_dim * key_dim,
        recurrent_dtype=state_dtype(s, "mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
        heads=values,
    ),)  # fmt: skip


def qwen_next(s: Shape) -> Built:
    """Qwen3-Next, Qwen3.5: every full_attention_interval-th layer is full."""
    kinds = s.kinds()
    if kinds is None:
        every = s.f.count("full_attention_interval", default=4)
        kinds = [LINEAR if (i + 1) % every else FULL for i in range(s.layer_count)]
    return Built(build(s, kinds, {**MAKERS, LINEAR: delta_net}), s, full)


def qwen4(s: Shape) -> Built:
    """Qwen4-Exp: as Qwen3-Next, with an indexer's key in the attention layers."""
    if s.f.items("ple_layer_ids"):
        raise s.f.unknown("ple_layer_ids", "a list", "null: n-gram layers keep further states")
    kinds = s.kinds()
    if kinds is None:
        every = s.f.count("full_attention_interval", default=4)
        kinds = [LINEAR if (i + 1) % every else INDEXED for i in range(s.layer_count)]

    def attention(layer: Shape) -> Layer:
        return (*full(layer), Indexer(dim=layer.f.count("indexer_head_dim", default=128)))

    return Built(build(s, kinds, {LINEAR: delta_net, FULL: attention, INDEXED: attention}), s)


def olmo_hybrid(s: Shape) -> Built:
    """Every fourth layer full, and the last one if none is."""
    kinds = s.kinds()
    if kinds is None:
        kinds = [FULL if i % 4 == 3 else LINEAR for i in range(s.layer_count)]
        if FULL not in kinds:
            kinds[-1] = FULL
    return Built(build(s, kinds, {**MAKERS, LINEAR: delta_net}), s, full)


def lara(s: Shape) -> Built:
    """Lara-mini: a cycle of five."""
    cycle = (LINEAR, SLIDING, LINEAR, FULL, SLIDING)
    kinds = s.kinds() or [cycle[i % 5] for i in range(s.layer_count)]
    return Built(build(s, kinds, {**MAKERS, LINEAR: delta_net}), s)


def kda(s: Shape, heads: int, dim: int, kernel: int) -> Layer:
    """Kimi delta attention: K columns of 3 · heads · dim channels, heads · dim² in float32."""
    return (State(
        variant="kda",
        conv_kernel=kernel,
        conv_channels=3 * heads * dim,
        recurrent_elements=heads * dim * dim,
        recurrent_dtype=state_dtype(s, "mamba_ssm_dtype") or "fp32",
        heads=heads,
    ),)  # fmt: skip


def kda_sizes(s: Shape, heads: int) -> tuple[int, int, int]:
    """Heads, head dim and kernel: in linear_attn_config, or flat in re-saved files."""
    nested = s.f.sub("linear_attn_config")
    found = []
    for name, flat, default in (
        ("num_heads", "linear_num_heads", heads),
        ("head_dim", "linear_head_dim", 128),
        ("short_conv_kernel_size", "linear_conv_kernel_dim", 4),
    ):
        own = nested.optional(name) if nested is not None else None
        found.append(own if own is not None else s.f.count(flat, default=default))
    return found[0], found[1], found[2]


def kimi_linear(s: Shape) -> Built:
    """KDA and MLA; linear_attn_config counts layers from 1, and both lists must be there."""
    kinds, nested, n = s.kinds(), s.f.sub("linear_attn_config"), s.layer_count
    whole = nested.counts("full_attn_layers", low=1, high=n) if nested is not None else None
    linear = nested.counts("kda_layers", low=1, high=n) if nested is not None else None
    if kinds is None and nested is not None and whole is not None and linear is not None:
        if sorted(whole + linear) != list(range(1, n + 1)):
            raise nested.bad("kda_layers", f"with full_attn_layers each of 1 to {n:,} once")
        kinds = [FULL if i + 1 in set(whole) else LINEAR for i in range(n)]
    if kinds is None:
        kinds = [FULL if i and i % 4 == 0 else LINEAR for i in range(n)]
    sizes = kda_sizes(s, 32)
    makers = {FULL: latent_layer, LINEAR: lambda layer: kda(layer, *sizes)}
    return Built(build(s, kinds, makers), s, latent_layer)


def glm5_next(s: Shape) -> Built:
    """GLM-5-Next: KDA, and every fourth layer MLA with an indexer that pools tokens."""
    kinds = s.kinds() or [INDEXED if i % 4 == 3 else LINEAR for i in range(s.layer_count)]
    own, sizes = owners(s), kda_sizes(s, 64)

    def key(layer: Shape) -> Indexer:
        return Indexer(dim=layer.count("I"), ratio=layer.f.count("index_kpool", default=16))

    makers = {
        LINEAR: lambda layer: kda(layer, *sizes),
        INDEXED: lambda layer: (latent(layer), key(layer)),
        "reuse": latent_layer,
    }
    kinds = [INDEXED if kind == FULL else kind for kind in kinds]
    kinds = [k if k != INDEXED or mine else "reuse" for k, mine in zip(kinds, own, strict=True)]
    return Built(build(s, kinds, makers), s)


def bailing(s: Shape) -> Built:
    """Ling hybrid: KDA of the attention's heads, and one MLA layer a group."""
    kinds, f = s.kinds(), s.f
    if kinds is None:
        group = f.count("layer_group_size", default=6)
        kinds = [LINEAR if (i + 1) % group else FULL for i in range(s.layer_count)]
    # Re-saved files hold the rope dim as head_dim and the linear one apart.
    dim = f.count("linear_head_dim", "head_dim", default=128)
    heads = f.optional("linear_num_heads") or s.heads
    kernel = f.count("linear_conv_kernel_dim", "short_conv_kernel_size", default=4)
    makers = {FULL: latent_layer, LINEAR: lambda layer: kda(layer, heads, dim, kernel)}
    return Built(build(s, kinds, makers), s, latent_layer)


def lightning(s: Shape) -> Layer:
    """Lightning attention: heads · dim² elements, no convolution."""
    elements = s.heads * s.head_dim * s.head_dim
    return (State(variant="lightning", recurrent_elements=elements, heads=s.heads),)


def minimax(s: Shape) -> Built:
    """MiniMax-Text-01: attn_type_list holds 1 for softmax; without it every other layer."""
    kinds, n = s.kinds(), s.layer_count
    listed = s.f.counts("attn_type_list", high=1)
    if kinds is None and listed is not None:
        if len(listed) < n:
            raise s.f.wrong_length("attn_type_list", n, len(listed))
        kinds = [FULL if kind else LINEAR for kind in listed[:n]]
    kinds = kinds or [FULL if (i + 1) % 2 else LINEAR for i in range(n)]
    return Built(build(s, kinds, {**MAKERS, LINEAR: lightning}), s)


def short_conv(s: Shape) -> Layer:
    """LFM2: conv_L_cache columns of the hidden size."""
    kernel = s.f.count("conv_L_cache", default=int(s.row.get("J", "3")))
    return (State(variant="short_conv", conv_kernel=kernel, conv_channels=s.hidden),)


def lfm2(s: Shape) -> Built:
    """Attention where layer_types or full_attn_idxs says so; with neither in every layer."""
    kinds, n = s.kinds(), s.layer_count
    if kinds is None and "J" in s.row:
        kinds = [FULL if i % 4 == 2 else SLIDING if i and i % 4 == 0 else CONV for i in range(n)]
    if kinds is None:
        listed = s.f.counts("full_attn_idxs", high=MAX_LAYERS)
        whole = set(range(n) if listed is None else listed)
        kinds = [FULL if i in whole else CONV for i in range(n)]
    return Built(build(s, kinds, {**MAKERS, CONV: short_conv, SLIDING: sliding}), s, full)


FAMILIES: dict[str, tuple[Family, str]] = {
    "qwen3_next": (qwen_next, "L=48 H=16 K=2 D=256 E=2048 V=151936 C=32768 X=512 Y=10"),
    "qwen3_5_text": (qwen_next, "L=32 H=16 K=4 D=256 E=4096 V=248320 C=32768"),
    "qwen3_5_moe_text": (qwen_next, "L=40 H=16 K=2 D=256 E=2048 V=248320 C=32768 X=256 Y=8"),
    "qwen4_exp_text": (qwen4, "L=40 H=16 K=2 D=256 E=2048 V=248320 C=32768 X=512 Y=10"),
    "olmo_hybrid": (olmo_hybrid, "L=32 H=30 E=3840 V=100352 C=65536 Q=1"),
    "lara_mini": (lara, "L=34 H=16 K=4 D=128 E=1024 V=151936 C=131072 W=512 X=128 Y=4 G=8,16"),
    "kimi_linear": (
        kimi_linear, "L=27 H=32 E=2304 V=163840 C=1048576 R=512 T=64 N=128 O=128 X=256 Y=8",
    ),
    "glm5_next_text": (
        glm5_next, "L=45 H=64 E=4096 V=154880 C=1048576 R=512 T=0 N=256 O=256 I=128 X=288 Y=8",
    ),
    "bailing_hybrid": (
        bailing, "L=42 H=32 E=2560 V=157184 C=262144 R=512 T=64 N=128 O=128 X=512 Y=8",
    ),
    "minimax": (minimax, "L=32 H=32 K=8 E=4096 V=32000 C=131072 X=8 Y=2"),
    "minimax_text_01": (minimax, "L=32 H=32 K=8 E=4096 V=32000 C=131072 X=8 Y=2"),
    "minimax_m1": (minimax, "L=32 H=32 K=8 E=4096 V=32000 C=131072 X=8 Y=2"),
    "lfm2": (lfm2, "L=32 H=32 K=8 E=2560 V=65536 C=128000"),
    "lfm2_moe": (lfm2, "L=32 H=32 K=8 E=2048 V=65536 C=128000 X=32 Y=4"),
    "lfm3": (lfm2, "L=24 H=16 K=4 D=128 E=2048 V=128000 C=128000 W=256 J=7"),
}  # fmt: skip
