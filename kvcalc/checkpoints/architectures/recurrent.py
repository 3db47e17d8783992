"""States of one family each: Inkling's and ZAYA's convolutions, RG-LRU, RWKV, xLSTM, DeepSeek-V4.

Source of the shapes: transformers' modules (5.24).
"""

from __future__ import annotations

from kvcalc.checkpoints.architectures.layers import build, full, sliding
from kvcalc.checkpoints.architectures.shape import Built, Family, Shape
from kvcalc.checkpoints.fields import MAX_LAYERS
from kvcalc.core.cache import Compressed, Indexer, Latent, State
from kvcalc.core.model import Layer

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
CSA, HCA = "compressed_sparse_attention", "heavily_compressed_attention"


def inkling(s: Shape) -> Built:
    """Short convolutions in float32 on keys, values and twice on the hidden state.

    Sliding layers have heads and head dims of their own.
    """
    kernel = s.f.count("conv_kernel_size", "sconv_kernel_size", default=4)
    swa = [int(n) for n in s.row["G"].split(",")]

    def convs(layer: Shape) -> State:
        channels = 2 * layer.kv_heads * layer.head_dim + 2 * s.hidden
        return State(
            variant="short_conv", conv_kernel=kernel, conv_channels=channels, conv_dtype="fp32"
        )

    def whole(layer: Shape) -> Layer:
        return (*full(layer), convs(layer))

    def slide(layer: Shape) -> Layer:
        f = layer.f
        own = layer.changed(
            num_attention_heads=f.count("swa_num_attention_heads", default=swa[0]),
            num_key_value_heads=f.count("swa_num_key_value_heads", default=swa[1]),
            head_dim=f.count("swa_head_dim", default=128),
        )
        return (*sliding(own), convs(own))

    kinds, n = s.kinds(), s.layer_count
    local = s.f.counts("local_layer_ids", high=MAX_LAYERS)
    if kinds is None:
        slides = {i for i in range(n) if (i + 1) % 6} if local is None else set(local)
        kinds = ["hybrid_sliding" if i in slides else "hybrid" for i in range(n)]
    layers = build(s, kinds, {"hybrid": whole, "hybrid_sliding": slide})
    return Built(looped(s, layers), s)


def looped(s: Shape, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Layers in the loop run loop_num_passes times, each pass with caches of its own."""
    if "B" not in s.row:
        return layers
    nested = s.f.sub("loop_config")
    sizes = []
    for name, flat, default in (
        ("core_start", "loop_layer_index_start", 6),
        ("core_end", "loop_layer_index_end", 18),
        ("num_passes", "loop_num_passes", 3),
    ):
        own = nested.optional(name, low=0, high=MAX_LAYERS) if nested is not None else None
        sizes.append(s.f.count(flat, default=default, low=0, high=MAX_LAYERS)
                     if own is None else own)  # fmt: skip
    start, end, passes = sizes
    if not start <= end <= len(layers) or passes < 1:
        raise s.f.bad("loop_layer_index_end", f"from {start:,} to {len(layers):,}", end)
    return layers + layers[start:end] * (passes - 1)


def zaya(s: Shape) -> Built:
    """ZAYA: two convolutions on queries and keys, and half of the last token's value."""

    def state(layer: Shape) -> State:
        taps = sum(layer.f.count(name, default=2) - 1 for name in ("cca_time0", "cca_time1"))
        return State(
            variant="cca",
            conv_kernel=taps + 1,
            conv_channels=(layer.heads + layer.kv_heads) * layer.head_dim,
            recurrent_elements=layer.kv_heads * layer.head_dim // 2,
        )

    makers = {
        "hybrid": lambda layer: (*full(layer), state(layer)),
        "hybrid_sliding": lambda layer: (*sliding(layer), state(layer)),
    }
    return Built(build(s, s.kinds() or ["hybrid"] * s.layer_count, makers), s)


def recurrent_gemma(s: Shape) -> Built:
    """Griffin: block_types repeat; attention slides, recurrent blocks keep a float32 vector.

    The class always takes hidden / heads as head dim.
    """
    kinds, n = s.kinds("layers_block_type", "layer_types"), s.layer_count
    if kinds is None:
        cycle = s.f.texts("block_types") or ["recurrent", "recurrent", "attention"]
        for i, kind in enumerate(cycle):
            if kind not in ("recurrent", "attention"):
                raise s.f.unknown(f"block_types[{i}]", kind, "recurrent, attention")
        kinds = [LINEAR if cycle[i % len(cycle)] == "recurrent" else SLIDING for i in range(n)]
    kinds = [SLIDING if kind == FULL else kind for kind in kinds]
    width = s.f.optional("lru_width") or s.hidden
    kernel = s.f.count("conv1d_width", default=4)
    state = State(
        variant="rg_lru",
        conv_kernel=kernel,
        conv_channels=width,
        recurrent_elements=width,
        recurrent_dtype="fp32",
    )
    s = s.changed(head_dim=s.derived_dim)
    return Built(build(s, kinds, {SLIDING: sliding, LINEAR: lambda _: (state,)}), s)


def rwkv(s: Shape) -> Built:
    """RWKV-4: five vectors, the two last tokens of the mixers and three of the recurrence."""
    hidden = s.hidden
    width = s.f.optional("attention_hidden_size") or hidden
    state = State(
        variant="rwkv4",
        conv_kernel=2,
        conv_channels=2 * hidden,
        recurrent_elements=3 * width,
        recurrent_dtype="fp32",
    )
    return Built(((state,),) * s.layer_count, s)


def xlstm(s: Shape) -> Built:
    """mLSTM: heads · (d_qk · d_v + d_qk + 1) elements, dims rounded up to 64 before the heads.

    Raises:
        KvcalcError: "invalid_config" for a factor that is no plain number.
    """
    hidden = s.f.count("hidden_size", "embedding_dim", default=4096)
    dims = []
    for name, default in (("qk_dim_factor", 0.5), ("v_dim_factor", 1.0)):
        factor = s.f.get(name)
        factor = default if factor is None else factor
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < 100:
            raise s.f.bad(name, "a factor above 0")
        dims.append(int((hidden * factor + 63) // 64 * 64) // s.heads)
    qk, v = dims
    # The class keeps states for num_hidden_layers, which null makes num_blocks.
    names = ("num_blocks",) if s.f.has("num_hidden_layers") else ()
    layers = s.f.count("num_hidden_layers", *names, default=32, high=MAX_LAYERS)
    if not qk or not v:
        raise s.f.bad("num_heads", "few enough for the hidden size")
    elements = s.heads * (qk * v + qk + 1)
    state = State(variant="mlstm", recurrent_elements=elements, heads=s.heads)
    return Built(((state,),) * layers, s)


def deepseek_v4(s: Shape) -> Built:
    """A window in every layer, and one compressed entry for every 4 or 128 tokens.

    The key is also the value. Files say compress_ratios per layer, or layer_types and
    compress_rates; 4 brings an indexer's key, 0 and 1 are the window alone.
    """
    f, n, dim = s.f, s.layer_count, s.head_dim
    rates = f.sub("compress_rates")
    ratio = {
        CSA: _rate(s, "compress_rate_csa", rates.optional(CSA) if rates else None, 4),
        HCA: _rate(s, "compress_rate_hca", rates.optional(HCA) if rates else None, 128),
    }
    kinds, listed = s.kinds(), f.counts("compress_ratios")
    if kinds is None and listed is not None:
        if len(listed) < n:
            raise f.wrong_length("compress_ratios", n, len(listed))
        names = {0: SLIDING, 1: SLIDING, 4: CSA, 128: HCA}
        for i, value in enumerate(listed[:n]):
            if value not in names:
                raise f.unknown(f"compress_ratios[{i}]", value, "0, 4, 128")
        kinds = [names[value] for value in listed[:n]]
    if kinds is None:
        kinds = [HCA if i < 2 or i % 2 == 0 else CSA for i in range(n)]
    rope = f.optional("qk_rope_head_dim", low=0, high=dim)
    rope = dim // 8 if rope is None else rope
    window = Latent(rank=dim - rope, rope_dim=rope, window=s.window, heads=s.heads)

    def sparse(layer: Shape) -> Layer:
        key = Indexer(dim=layer.count("I"), ratio=ratio[CSA])
        return (window, Compressed(dim=dim, ratio=ratio[CSA]), key)

    makers = {
        SLIDING: lambda _: (window,),
        CSA: sparse,
        HCA: lambda _: (window, Compressed(dim=dim, ratio=ratio[HCA])),
    }
    return Built(build(s, kinds, makers), s, lambda _: (window,))


def _rate(s: Shape, legacy: str, own: int | None, default: int) -> int:
    return s.f.optional(legacy) or own or default


_INKLING = "D=128 V=201024 W:sliding_window_size"
FAMILIES: dict[str, tuple[Family, str]] = {
    "inkling_text": (
        inkling, f"L=66 H=64 K=8 E=6144 {_INKLING}=512 C=131072 X=256 Y=6 G=64,16",
    ),
    "inkling2_text": (
        inkling, f"L=48 H=48 K=8 E=4608 {_INKLING}=1024 C=1048576 X=384 Y=8 G=48,8",
    ),
    "inkling2_loop_text": (
        inkling, f"L=24 H=24 K=8 E=2304 {_INKLING}=1024 C=1048576 X=128 Y=8 G=24,8 B=1",
    ),
    "zaya": (zaya, "L=40 H=8 K=2 D=128 E=2048 V=262272 C=131072 X=16 Y=1"),
    "recurrent_gemma": (
        recurrent_gemma, "L=26 H=10 E=2560 V=256000 W:attention_window_size=2048",
    ),
    "rwkv": (rwkv, "L=32 E=4096 V=50277 C=1024"),
    "xlstm": (xlstm, "L=32 H:num_heads=8 E=4096 V=50304"),
    "deepseek_v4": (
        deepseek_v4, "L=43 H=64 K=1 D=512 E=4096 V=129280 C=1048576 W=128 I=128 X=256 Y=6",
    ),
}  # fmt: skip
