"""Decoders with plain caches that need more than a row: odd fields, loops, layers that share."""

from __future__ import annotations

from kvcalc.checkpoints.architectures.dense import MAKERS, dense
from kvcalc.checkpoints.architectures.layers import build, full, nothing, sliding
from kvcalc.checkpoints.architectures.patterns import FULL, SLIDING, layer_kinds
from kvcalc.checkpoints.architectures.shape import Built, Family, Shape
from kvcalc.checkpoints.fields import MAX_LAYERS
from kvcalc.core.cache import Shared
from kvcalc.core.model import Layer


def falcon(s: Shape) -> Built:
    """New decoder: num_kv_heads; old: one KV head if multi_query, else as many as query heads."""
    first_40b = s.f.get("model_type") == "RefinedWeb" and s.f.get("n_head_kv") is not None
    if s.f.flag("new_decoder_architecture", default=first_40b):
        return dense(s)
    one = s.f.flag("multi_query", default=True)
    if not s.f.has("multi_query"):
        s.f.note("multi_query", "true")
    return dense(s.changed(num_key_value_heads=1 if one else s.heads))


def gpt_bigcode(s: Shape) -> Built:
    """StarCoder: one KV head if multi_query."""
    one = s.f.flag("multi_query", default=True)
    if not s.f.has("multi_query"):
        s.f.note("multi_query", "true")
    return dense(s.changed(num_key_value_heads=1 if one else s.heads))


def nested_heads(s: Shape) -> Built:
    """DBRX and MPT: KV heads in attn_config.kv_n_heads."""
    attention = s.f.sub("attn_config")
    listed = attention.optional("kv_n_heads") if attention is not None else None
    listed = s.f.optional("num_key_value_heads") if listed is None else listed
    if listed is None and "K" in s.row:
        listed = int(s.row["K"])
        s.f.note("attn_config.kv_n_heads", listed)
    return dense(s.changed(num_key_value_heads=listed if listed is not None else s.heads))


def jetmoe(s: Shape) -> Built:
    """Mixture of attention heads: each KV head serves the experts chosen for a token."""
    heads = s.count("K") * s.count("Y")
    dim = s.f.count("kv_channels", "head_dim", default=128)
    return dense(s.changed(num_attention_heads=heads, head_dim=dim))


def gemma_sharing(s: Shape) -> Built:
    """Gemma 3n: the last num_kv_shared_layers read the caches of earlier layers."""
    return Built(with_shared(s, build(s, layer_kinds(s), MAKERS)), s)


def gemma4(s: Shape) -> Built:
    """Gemma 4: global layers have a head dim, and KV heads, of their own; the last layer is global.

    Re-saved files hold both per layer and name no global ones.
    """
    kinds = layer_kinds(s)
    kinds[-1] = FULL
    changes = {"head_dim": s.f.count("global_head_dim", default=512)} if not s.f.has(
        "per_layer_config"
    ) else {}  # fmt: skip
    own = s.f.optional("num_global_key_value_heads")
    # DiffusionGemma has no attention_k_eq_v; there the global heads always hold.
    if own is not None and changes and s.f.flag("attention_k_eq_v", default="G" in s.row):
        changes["num_key_value_heads"] = own

    def all_tokens(layer: Shape) -> Layer:
        return full(layer.changed(**changes) if changes else layer)

    if s.f.get("use_bidirectional_attention") == "all":
        s = halved_window(s)
    makers = {FULL: all_tokens, SLIDING: sliding}
    return Built(with_shared(s, build(s, kinds, makers)), s)


def halved_window(s: Shape) -> Shape:
    """Attention to both sides: the file's window counts both, the class keeps half and itself."""
    return s if s.window is None else s.changed(sliding_window=s.window // 2 + 1)


def gemma3(s: Shape) -> Built:
    """Gemma 3; its embedding model looks to both sides."""
    both = s.f.flag("use_bidirectional_attention", default=False)
    return dense(halved_window(s) if both else s)


def modernbert(s: Shape) -> Built:
    """ModernBERT's decoder: local_attention counts both sides, a decoder sees half of it."""
    local = s.f.count("local_attention", default=128, low=0)
    return dense(s.changed(sliding_window=local // 2))


def with_shared(s: Shape, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The last num_kv_shared_layers hold nothing: they read the last cache of their type.

    Raises:
        KvcalcError: "invalid_config" if more layers share than there are.
    """
    name = "num_kv_shared_layers"
    shared = s.f.optional(name, low=0, high=MAX_LAYERS)
    if shared is None:
        shared = int(s.row.get("S", "0"))
        if shared:
            s.f.note(name, shared)
    own = layers[: len(layers) - shared]
    if not own and "S" not in s.row:  # Gemma 4's assistant reads only the caches of its target
        return ((Shared(),),) * shared
    if shared >= len(layers) or not set(layers[len(own) :]) <= set(own):
        raise s.f.bad(name, "so few that every type of layer keeps a cache to share", shared)
    return own + ((Shared(),),) * shared


def mimo(s: Shape) -> Built:
    """MiMo-V2: sliding layers have twice the KV heads and may have head dims of their own."""
    window = s.f.optional("sliding_window_size")
    if window is not None:
        s = s.changed(sliding_window=window)

    def slide(layer: Shape) -> Layer:
        f = layer.f
        return sliding(layer.changed(
            num_attention_heads=f.optional("swa_num_attention_heads") or layer.heads,
            num_key_value_heads=f.optional("swa_num_key_value_heads") or 2 * layer.kv_heads,
            head_dim=f.optional("swa_head_dim") or layer.head_dim,
            v_head_dim=f.optional("swa_v_head_dim") or layer.value_dim,
        ))  # fmt: skip

    return Built(build(s, layer_kinds(s), {FULL: full, SLIDING: slide}), s, slide)


def step(s: Shape) -> Built:
    """Step-3.5: num_attention_groups are the KV heads; sliding layers may have their own."""
    other = s.f.sub("attention_other_setting")
    groups = other.optional("num_attention_groups") if other is not None else None
    heads = other.optional("num_attention_heads") if other is not None else None
    heads = heads or s.f.optional("num_sliding_attention_heads")

    def slide(layer: Shape) -> Layer:
        changes = {layer.spellings("K")[0]: groups, "num_attention_heads": heads}
        return sliding(layer.changed(**{k: v for k, v in changes.items() if v is not None}))

    return Built(build(s, layer_kinds(s), {FULL: full, SLIDING: slide}), s, slide)


def hrm(s: Shape) -> Built:
    """HRM: the stack runs H · (L + 1) times a token, each pass with caches of its own."""
    if s.f.first(("num_layers_per_stack",)) is not None:  # the saved count is already multiplied
        return dense(s)
    passes = s.f.count("H_cycles", default=2) * (s.f.count("L_cycles", default=3) + 1)
    return dense(s.changed(num_hidden_layers=s.layer_count * passes))


def dory(s: Shape) -> Built:
    """Dory: layers in the middle run n_recurrent_loops times, each loop with caches of its own.

    Published files count an MLP as a layer: every second entry of layer_types.
    """
    kinds = s.kinds()
    ends = [s.f.count(name, default=8, low=0) for name in ("n_input_layers", "n_output_layers")]
    if kinds is not None and "mlp" in kinds:
        kinds, ends = kinds[::2], [n // 2 for n in ends]
    if kinds is None:
        kinds = [FULL if (i + 1) % 4 == 0 else SLIDING for i in range(s.layer_count)]
    if sum(ends) > len(kinds):
        raise s.f.bad("n_input_layers", "no more than all layers with n_output_layers")
    layers = build(s, kinds, {FULL: full, SLIDING: sliding})
    loops = s.f.count("n_recurrent_loops", default=2, high=1000)
    mode = s.f.text("recurrent_kv_cache_mode") or "per_loop"
    if mode not in ("per_loop", "last_loop"):
        raise s.f.unknown("recurrent_kv_cache_mode", mode, "per_loop, last_loop")
    middle = layers[ends[0] : len(layers) - ends[1]]
    return Built(layers + middle * (loops - 1 if mode == "per_loop" else 0), s)


def openelm(s: Shape) -> Built:
    """OpenELM: query and KV heads listed per layer."""
    heads, kv_heads = (s.f.counts(name, low=1) for name in ("num_query_heads", "num_kv_heads"))
    if heads is None or kv_heads is None or not len(heads) == len(kv_heads) == s.layer_count:
        raise s.f.bad("num_kv_heads", f"{s.layer_count:,} entries, as num_query_heads")
    layers = [
        full(s.changed(num_attention_heads=q, num_key_value_heads=k))
        for q, k in zip(heads, kv_heads, strict=True)
    ]
    return Built(tuple(layers), s.changed(num_attention_heads=max(heads)))


def nemotron_nas(s: Shape) -> Built:
    """DeciLM and Llama-Nemotron: each layer's attention in block_configs, or none at all.

    Raises:
        KvcalcError: "invalid_config" if the blocks are fewer than the layers.
    """
    blocks = s.f.items("block_configs")
    if blocks is None:
        per_layer = s.f.counts("num_key_value_heads_per_layer", low=1)
        return dense(s.changed(num_key_value_heads=per_layer) if per_layer else s)
    if len(blocks) != s.layer_count:
        raise s.f.wrong_length("block_configs", s.layer_count, len(blocks))
    layers = []
    for i, block in enumerate(blocks):
        where = f"block_configs[{i}]"
        attention = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(attention, dict):
            raise s.f.bad(where, "an object with attention", block)
        f = s.f.over(attention, f"{where}.attention")
        if f.flag("no_op", default=False) or f.flag("replace_with_linear", default=False):
            layers.append(nothing(s))
            continue
        group = f.count("n_heads_in_group")
        if s.heads % group:
            raise f.bad("n_heads_in_group", f"a divisor of the {s.heads:,} heads")
        layers.append(full(s.changed(num_key_value_heads=s.heads // group)))
    return Built(tuple(layers), s)


_GEMMA4 = "L=30 H=8 K=4 D=256 E=2304 V=262144"
FAMILIES: dict[str, tuple[Family, str]] = {
    "falcon": (falcon, "L=32 H=71 E=4544 V=65024 C=2048"),
    "gpt_bigcode": (gpt_bigcode, "L:n_layer=12 H:n_head=12 E:n_embd=768 V=50257 C=1024"),
    "dbrx": (nested_heads, "L:n_layers=24 H:n_heads=16 K=1 E:d_model=2048 V=32000 C=2048"),
    "mpt": (nested_heads, "L:n_layers=24 H:n_heads=16 E:d_model=2048 V=50368 C=2048"),
    "jetmoe": (jetmoe, "L=12 K=16 E=2048 V=32000 C=4096 X=8 Y=2"),
    "gemma3_text": (
        gemma3,
        "L=26 H=8 K=4 D=256 E=2304 V=262208 C=131072 W=4096 P=every,6,sliding_window_pattern",
    ),
    "modernbert-decoder": (
        modernbert, "L=22 H=12 E=768 V=50368 C=8192 P=each,3,global_attn_every_n_layers",
    ),
    "gemma3n_text": (
        gemma_sharing, "L=35 H=8 K=2 D=256 E=2048 V=262400 C=32768 W=512 S=15 P=every,5",
    ),
    "gemma4_text": (gemma4, f"{_GEMMA4} C=131072 W=512 P=every_and_last,6"),
    "gemma4_unified_text": (gemma4, f"{_GEMMA4} C=262144 W=1024 P=every_and_last,6"),
    "diffusion_gemma_text": (gemma4, f"{_GEMMA4} C=131072 W=512 G=1 P=every_and_last,6"),
    "mimo_v2_flash": (
        mimo, "L=48 H=64 K=4 D=192 O=128 E=4096 V=152576 C=131072 W=129 X=256 Y=8 P=mimo",
    ),
    "step3p5": (
        step, "L=45 H=64 K:num_attention_groups=8 D=128 E=4096 V=128815 C=128000 X=128 Y=8 P=full",
    ),
    "hrm_text": (hrm, "L=16 H=12 D=128 E=1536 V=151808 C=2048"),
    "dory": (dory, "L=36 H=16 K=4 D=256 E=2560 V=131072 C=8192 W=1024"),
    "openelm": (openelm, "L:num_transformer_layers= E:model_dim= V=32000 C=2048"),
    "deci": (nemotron_nas, "V=128256"),
    "nemotron-nas": (nemotron_nas, "V=128256"),
}  # fmt: skip
