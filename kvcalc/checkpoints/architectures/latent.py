"""Multi-head latent attention (MLA): one latent and rope key for all heads, and its indexers."""

from __future__ import annotations

from kvcalc.checkpoints.architectures.dense import MAKERS, dense
from kvcalc.checkpoints.architectures.layers import build
from kvcalc.checkpoints.architectures.shape import Built, Family, Shape
from kvcalc.checkpoints.fields import MAX_LAYERS
from kvcalc.core.cache import Indexer, Latent, Shared
from kvcalc.core.model import Layer

INDEXED = "indexed_attention"


def latent(s: Shape, *, window: int | None = None, rope: bool = True) -> Latent:
    """r_kv + d_rope elements a token, the same for every head.

    transformers saves head_dim as qk_rope_head_dim, so head_dim is never read here.
    """
    return Latent(
        rank=s.count("R"),
        rope_dim=s.count("T", low=0) if rope else 0,
        window=window,
        heads=s.heads,
        nope_dim=s.count("N", low=0),
        value_dim=s.count("O") if "O" in s.row else s.f.optional("v_head_dim") or s.derived_dim,
    )


def latent_layer(s: Shape) -> Layer:
    """The latent alone."""
    return (latent(s),)


def indexer(s: Shape) -> Indexer:
    """The sparse indexer's key: index_head_dim elements a token."""
    return Indexer(dim=s.count("I"))


def indexed_layer(s: Shape) -> Layer:
    """The latent and the indexer's key (DeepSeek-V3.2)."""
    return (latent(s), indexer(s))


def expanded(s: Shape) -> bool:
    """Whether a file of an MLA type says that it has plain attention (DeepSeek-VL2's small one)."""
    without_rank = s.f.has("kv_lora_rank") and s.f.get("kv_lora_rank") in (None, 0)
    return without_rank or not s.f.flag("use_mla", default=True)


def mla(s: Shape) -> Built:
    """Every layer a latent, with an indexer's key where the type or the list says so."""
    if expanded(s):
        return dense(s)
    kinds = s.kinds() or [INDEXED if "I" in s.row else "full_attention"] * s.layer_count
    makers = {"full_attention": latent_layer}
    if "I" in s.row:
        makers[INDEXED] = indexed_layer
    return Built(build(s, kinds, makers), s, makers[kinds[-1]])


def owners(s: Shape, default: str = "freq") -> list[bool]:
    """Which layers own an indexer; the others use the choice of the layer before them.

    Raises:
        KvcalcError: "invalid_config" or "unsupported_architecture" for a damaged list.
    """
    n = s.layer_count
    listed: list[str] | None = s.f.texts("indexer_types")
    pattern = s.f.get("index_topk_pattern")
    if listed is None and isinstance(pattern, str):
        listed = [{"F": "full", "S": "shared"}.get(letter, letter) for letter in pattern]
    elif listed is None and pattern is not None:
        listed = s.f.texts("index_topk_pattern")
    if listed is not None:
        if len(listed) < n:
            raise s.f.wrong_length("indexer_types", n, len(listed))
        for kind in listed[:n]:
            if kind not in ("full", "shared"):
                raise s.f.unknown("indexer_types", kind, "full, shared")
        return [kind == "full" for kind in listed[:n]]
    if default == "hunyuan":
        return [i == 0 or (i - 1) % 4 == 0 for i in range(n)]
    period = s.f.optional("index_topk_freq", low=0) or 1
    offset = s.f.optional("index_skip_topk_offset", low=0)
    offset = 2 if offset is None else offset
    return [max(i - offset + 1, 0) % period == 0 for i in range(n)]


def shared_indexers(s: Shape) -> Built:
    """GLM-DSA, HY-V4: only layers that own an indexer keep its key."""
    if expanded(s):
        return dense(s)
    own = owners(s, s.row.get("Q", "freq"))
    kinds = s.kinds() or [INDEXED] * s.layer_count
    makers = {"full_attention": latent_layer, INDEXED: indexed_layer, "reuse": latent_layer}
    kinds = [k if k != INDEXED or mine else "reuse" for k, mine in zip(kinds, own, strict=True)]
    return Built(build(s, kinds, makers), s, indexed_layer)


def mistral_large4(s: Shape) -> Built:
    """Mistral-Large-4: layers may read another's latent; unrotated ones keep no rope key."""
    own, n = owners(s), s.layer_count
    bare = s.f.counts("no_rope_layers", high=1)
    if bare is None:
        interval = s.f.count("no_rope_layer_interval", default=4)
        bare = [int((i + 1) % interval != 0) for i in range(n)]
    sources = s.f.counts("kv_source_layers", high=MAX_LAYERS) or list(range(n))
    for name, listed in (("no_rope_layers", bare), ("kv_source_layers", sources)):
        if len(listed) < n:
            raise s.f.wrong_length(name, n, len(listed))
    layers = []
    for i in range(n):
        key = (indexer(s),) if own[i] else ()
        kept = latent(s, rope=bool(bare[i])) if sources[i] == i else Shared()
        layers.append((kept, *key))
    return Built(tuple(layers), s, indexed_layer)


def longcat(s: Shape) -> Built:
    """LongCat-Flash: two attentions in each of num_layers."""
    count = s.f.optional("num_layers", high=MAX_LAYERS // 2)
    twice = 2 * count if count is not None else s.f.optional("num_hidden_layers", high=MAX_LAYERS)
    if twice is None:
        s.f.note("num_layers", 28)
        twice = 56
    return Built((latent_layer(s),) * twice, s, latent_layer)


def dots3(s: Shape) -> Built:
    """dots3-note: full layers with indexers, sliding ones with a latent of their own."""
    if s.f.get("sliding_window") is None and s.f.get("sliding_window_size") is not None:
        s = s.changed(sliding_window=s.f.get("sliding_window_size"))
    sparse = s.f.flag("use_dsa", default=True)
    slides = s.f.flag("use_sliding_window", default=True)
    whole = INDEXED if sparse else "full_attention"
    kinds = s.kinds()
    if kinds is None:
        kinds = [
            whole if not slides or i < 2 or i % 4 == 1 else "sliding_attention"
            for i in range(s.layer_count)
        ]
    elif s.f.has("use_dsa") or not s.f.has("per_layer_config"):
        kinds = [whole if kind in (INDEXED, "full_attention") else kind for kind in kinds]
    saved = s.f.has("per_layer_config")  # then the layers' own values stand there

    def slide(layer: Shape) -> Layer:
        if saved:
            return (latent(layer, window=layer.window),)
        f = layer.f
        nope = f.count("swa_qk_nope_head_dim", default=192)
        rope = f.optional("swa_qk_rope_head_dim", low=0)
        own = layer.changed(
            num_attention_heads=f.count("swa_num_attention_heads", default=64),
            kv_lora_rank=f.count("swa_kv_lora_rank", default=1024),
            qk_nope_head_dim=nope,
            qk_rope_head_dim=f.count("swa_head_dim", default=256) - nope if rope is None else rope,
            v_head_dim=f.count("swa_v_head_dim", default=128),
        )
        return (latent(own, window=layer.window),)

    makers = {"full_attention": latent_layer, INDEXED: indexed_layer, "sliding_attention": slide}
    return Built(build(s, kinds, makers), s)


def minimax_m3(s: Shape) -> Built:
    """MiniMax-M3: plain keys and values; sparse layers also keep one index key a token."""
    sparse = s.f.sub("sparse_attention_config")
    listed, kinds = sparse.counts("sparse_attention_freq", high=1) if sparse else None, s.kinds()
    if kinds is None and listed is not None:
        if len(listed) < s.layer_count:
            raise s.f.wrong_length(
                "sparse_attention_config.sparse_attention_freq", s.layer_count, len(listed)
            )
        kinds = ["minimax_m3_sparse" if f else "full_attention" for f in listed[: s.layer_count]]
    dim = sparse.optional("sparse_index_dim") if sparse else None

    def with_key(layer: Shape) -> Layer:
        return (*MAKERS["full_attention"](layer), Indexer(dim=dim or layer.count("I")))

    makers = {"full_attention": MAKERS["full_attention"], "minimax_m3_sparse": with_key}
    return Built(build(s, kinds or ["full_attention"] * s.layer_count, makers), s)


_V3 = "H=128 E=7168 V=129280 R=512 T=64 N=128 O=128 X=256 Y=8"
_HY = "R=512 T=64 N=192 O=256 I=128 X=256 Y=8 V=120832 C=262144 Q=hunyuan"
_M3 = "L=60 H=64 K=4 D=128 E=6144 V=200064 C=524288 I=128 X=128 Y=4"
FAMILIES: dict[str, tuple[Family, str]] = {
    "deepseek_v2": (mla, "L=32 H=32 E=4096 V=102400 C=2048 R=512 T=64 N=128 O=128 X=64"),
    "deepseek_v3": (mla, f"L=61 {_V3} C=4096"),
    "kimi_k2": (mla, f"L=61 {_V3} C=4096"),
    "mistral_large_3": (mla, f"L=61 {_V3} C=4096"),
    "pangu_ultra_moe": (mla, "R=512 T=64 N=128 O=128"),
    "deepseek_v32": (mla, f"L=61 {_V3} I=128 C=163840"),
    "axk1": (mla, "L=61 H=64 E=7168 V=163840 C=32768 R=512 T=64 N=128 O=128 X=192 Y=8"),
    "axk2": (mla, "L=48 H=32 E=2048 V=163840 C=131072 R=128 T=32 N=64 O=64 I=128 X=128 Y=8"),
    "glm4_moe_lite": (mla, "L=47 H=20 E=2048 V=154880 C=202752 R=512 T=64 N=192 O=256 X=64 Y=4"),
    "minicpm3": (mla, "L=62 H=40 E=2560 V=73448 C=32768 R=256 T=32 N=64"),
    "mistral4": (mla, "L=36 H=32 E=4096 V=131072 C=1048576 R=256 T=64 N=64 O=128 X=128 Y=4"),
    "sarvam_mla": (mla, "L=32 H=64 E=4096 V=262144 C=4096 R=512 T=64 N=128 O=128 X=128 Y=8"),
    "youtu": (mla, "L=32 H=16 E=2048 V=128256 C=131072 R=512 T=64 N=128 O=128"),
    "glm_moe_dsa": (
        shared_indexers,
        "L=78 H=64 E=6144 V=154880 C=202752 R=512 T=64 N=192 O=256 I=128 X=256 Y=8",
    ),
    "hy_v4": (shared_indexers, f"L=34 H=32 E=2816 {_HY}"),
    "hy_v4_vl_text": (shared_indexers, f"L=78 H=64 E=6144 {_HY}"),
    "mistral_large4_text": (
        mistral_large4,
        "L=72 H=64 E=6144 V=204800 C=1048576 R=512 T=64 N=64 O=128 I=128 X=128 Y=4",
    ),
    "longcat_flash": (longcat, "H=64 E=6144 V=131072 C=131072 R=512 T=64 N=128 O=128 X=512 Y=12"),
    "dots3_note_text": (
        dots3,
        "L=46 H=128 E=5120 V=152064 C=524288 W=512 R=512 T=64 N=128 O=128 I=128 X=256 Y=8",
    ),
    "minimax_m3_vl_text": (minimax_m3, _M3),
    "minimax_m3": (minimax_m3, _M3),
}
